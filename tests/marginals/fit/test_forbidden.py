"""Combinations of groups that rules forbid: found exactly, left out of answers, and given no mass by the fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.answers.zeros import Zeros, mask
from dpwgan.marginals.fit.forbidden import ForbiddenMass, add_implied, find_kinds, find_zeros, leave_out, tie
from dpwgan.marginals.fit.markov_tree import draw_first_codes
from dpwgan.marginals.fit.mixture import Mixture, fit
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.one_way.one_ways import plan_one_ways
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs
from tests.marginals.groups import add_up_gradients, answer_by_loop, find_slope, make_part


def lay_out(columns: dict[str, Any], rules: list[Any], cuts: dict[str, list[int]]) -> tuple[Coarsening, TableEncoder]:
    """Groups that begin at the given cells of each column, every cell of a group as likely."""
    schema = parse_specs({**columns, "rules": rules}, sha256="")
    encoder = TableEncoder(schema, list(columns))
    attributes = lay_out_attributes(encoder.spans)
    parts = tuple(make_part(cuts[attribute.column], cells=attribute.cells) for attribute in attributes)
    return Coarsening(spans=encoder.spans, parts=parts), encoder


LONG = {"type": "integer", "min": 0, "max": 99_999}
DAYS = {"type": "date", "format": "%d.%m.%Y", "min": "1800-01-01", "max": "2073-10-15"}
HOURS = {"type": "datetime", "min": "1800-01-01", "max": "2073-10-15T00:00:00", "step": "1 days"}
SHORT = {"type": "integer", "min": 0, "max": 9}
CODES = {"type": "enum", "values": ["a", "b", "c", "d"], "missing": ["N"]}


_ORDER = [(1, 0), (2, 0), (2, 1)]
_RULES_OF_NUMBERS = {
    "x <= y": _ORDER,
    "x < y": _ORDER,
    "x = y": [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)],
    "x <> 15000 OR y = 15000": [],
    "x >= 10000 OR y < 20000": [(0, 2)],
    "x > 10000 OR y < 20000": [(0, 2)],
    "x + y <= 5": [],  # the ends of intervals do not speak for arithmetic
}
_RULES_OF_DAYS = {
    "x <= y": _ORDER,
    "x >= DATE '1827-05-20' OR y < DATE '1854-10-05'": [(0, 2)],
    "x > DATE '1827-05-20' OR y < TIMESTAMP '1854-10-04 12:00:00'": [(0, 2)],
    "y - x <= INTERVAL '5 days'": [],
}


@pytest.mark.parametrize(
    ("x", "y", "rule", "empty"),
    [
        *((LONG, LONG, *rule) for rule in _RULES_OF_NUMBERS.items()),
        *((DAYS, y, *rule) for y in (DAYS, HOURS) for rule in _RULES_OF_DAYS.items()),
    ],
)
def test_groups_of_long_ranges_are_forbidden_where_no_cell_of_theirs_is_allowed(
    x: Any, y: Any, rule: str, empty: list[Any]
) -> None:
    starts = [0, 10_000, 20_000]
    coarsening, encoder = lay_out({"x": x, "y": y}, [rule], {"x": starts, "y": starts})
    zeros = find_zeros(coarsening, encoder.list_rules())
    assert [tuple(cell) for cell in np.argwhere(zeros.get((0, 1), np.zeros((3, 3))))] == empty


def test_groups_of_short_ranges_are_judged_cell_by_cell() -> None:
    rules = ["MOD(x, 2) = 0 OR x > 3", "c = 'a' OR x < 5 OR c IS NULL", "x + y <> 3 OR y > 4"]
    columns = {"x": SHORT, "y": SHORT, "c": CODES}
    cuts = {"x": [0, 1, 2, 5, 8], "y": [0, 5], "c": [0, 1, 3, 4]}
    coarsening, encoder = lay_out(columns, rules, cuts)
    zeros = find_zeros(coarsening, encoder.list_rules())
    assert zeros[0,].tolist() == [False, True, False, False, False]
    assert [tuple(cell) for cell in np.argwhere(zeros[0, 2])] == [(3, 1), (3, 2), (4, 1), (4, 2)]
    assert (0, 1) not in zeros


def test_what_two_rules_imply_of_a_third_pair_is_known_too() -> None:
    rules = ["(x < 5) = (c IS NULL)", "(x < 5) = (y < 5)"]
    columns = {"x": SHORT, "y": SHORT, "c": CODES}
    coarsening, encoder = lay_out(columns, rules, {"x": [0, 5], "y": [0, 5], "c": [0, 4]})
    zeros = find_zeros(coarsening, encoder.list_rules())
    assert (1, 2) not in zeros
    assert add_implied(zeros, coarsening.sizes)[1, 2].tolist() == [[True, False], [False, True]]


def test_cells_that_a_rule_over_one_column_forbids_have_no_weight_in_their_group() -> None:
    coarsening, encoder = lay_out({"x": LONG}, ["x <> 33 AND x <> 90 AND x < 200"], {"x": [0, 33, 34, 90, 91, 200]})
    (part,) = coarsening.parts
    groups, weights = np.array([0, 0, 1, 1, 1, 2], np.int32), np.array([0.0, 1.0, 0.0, 0.25, 0.75, 1.0])
    ones = np.ones(3)
    part = replace(part, groups=groups, weights=weights, probabilities=ones / 3, counts=ones, stddevs=ones)
    left = leave_out(replace(coarsening, parts=(part,)), encoder.list_rules()).parts[0]
    assert left.weights.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]


def test_a_rule_takes_part_however_finely_a_range_is_cut_inside_its_groups() -> None:
    columns = {"x": LONG, "y": LONG}
    coarsening, encoder = lay_out(columns, ["x <= y"], {"x": [0, 50_000], "y": [0, 50_000]})
    starts = np.arange(0, 100_000, 10)
    fine = [
        replace(part, starts=starts, groups=(starts >= 50_000).astype(np.int32), weights=np.full(len(starts), 2e-4))
        for part in coarsening.parts
    ]
    zeros = find_zeros(replace(coarsening, parts=tuple(fine)), encoder.list_rules())
    assert zeros[0, 1].tolist() == [[False, False], [True, False]]


def test_shares_that_rules_tie_become_equal_and_each_nearer_to_the_truth() -> None:
    rules = ["(x >= 4) = (c IS NOT NULL)", "(x >= 4) = (y IS NOT NULL)"]
    columns = {"x": SHORT, "c": CODES, "y": {**SHORT, "missing": ["N"]}}
    cuts = {"x": [0, 2, 4, 6], "c": [0, 1, 2, 3, 4], "y": [0, 1, 6]}
    coarsening, encoder = lay_out(columns, rules, cuts)
    zeros = add_implied(find_zeros(coarsening, encoder.list_rules()), coarsening.sizes)
    true = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.1, 0.1, 0.1, 0.3]), np.array([0.3, 0.3, 0.4])]
    rng, errors = np.random.default_rng(2), np.zeros(2)
    for _ in range(40):
        stddevs = [np.full(len(shares), stddev) for shares, stddev in zip(true, (0.01, 0.02, 0.04), strict=True)]
        noisy = [np.maximum(shares + rng.normal(0, stddev), 0) for shares, stddev in zip(true, stddevs, strict=True)]
        parts = [
            replace(part, probabilities=shares / shares.sum(), stddevs=stddev, counts=shares)
            for part, shares, stddev in zip(coarsening.parts, noisy, stddevs, strict=True)
        ]
        before = replace(coarsening, parts=tuple(parts))
        after = tie(before, zeros)
        small, none, missing = (after.probabilities[0][:2].sum(), after.probabilities[1][4], after.probabilities[2][0])
        assert [none, missing] == pytest.approx([small, small], abs=1e-3)
        for place, table in enumerate((before, after)):
            errors[place] += sum(
                np.abs(own - shares).sum() for own, shares in zip(table.probabilities, true, strict=True)
            )
    assert errors[1] < 0.8 * errors[0]
    assert tie(coarsening, {}) is coarsening


def draw_codes(layout: GroupLayout, *, one_ways: Any, codes: int, zeros: Any) -> Any:
    """First codes along a tree of pairs that hang together in nothing but zeros."""

    def get_conditional(given: int, attribute: int) -> Any:
        return np.full((layout.sizes[given], layout.sizes[attribute]), 1 / layout.sizes[attribute])

    more = {"get_conditional": get_conditional, "rng": np.random.default_rng(1), "zeros": zeros}
    return draw_first_codes(layout, [(0, 1), (1, 2)], one_ways=one_ways, codes=codes, **more)


def test_first_codes_keep_the_shares_that_rules_would_move() -> None:
    """By the tree alone, which knows pairs with noise, the groups that others rule out lose half of their share."""
    layout = GroupLayout([2, 2, 2])
    zeros = {(0, 1): np.array([[False, True], [True, False]]), (0, 2): np.array([[False, True], [True, False]])}
    zeros = dict(add_implied(zeros, layout.sizes))
    logits = draw_codes(layout, one_ways=[np.array([0.2, 0.8])] * 3, codes=400, zeros=zeros)
    for attribute in range(3):
        drawn = logits[:, layout.get_slice(attribute)].argmax(axis=1)
        assert np.mean(drawn == 0) == pytest.approx(0.2, abs=0.01)


def test_codes_are_of_one_kind_where_no_rule_tells_them_apart() -> None:
    rules = [{"columns": ["c", "x"], "allowed": [["a", 1], ["b", 1], ["c", 2], ["d", 3], [None, 3]]}]
    _, encoder = lay_out({"x": SHORT, "c": CODES}, rules, {"x": [0], "c": [0]})
    kinds = find_kinds(plan_one_ways(encoder.spans), encoder.list_rules())
    assert kinds[0] is None
    assert kinds[1] is not None
    assert len(set(kinds[1].tolist())) == 3
    assert kinds[1][0] == kinds[1][1]
    assert kinds[1][3] == kinds[1][4]


CHAPTERS = {"type": "enum", "values": ["A", "B", "C"]}
MANY = {"type": "enum", "values": [f"{chapter}{number}" for chapter in "ABC" for number in range(300)]}


def test_a_list_of_any_length_is_told_by_rules_whole() -> None:
    """Nine hundred values in three chapters, which a rule ties to their first letters."""
    rule = "chapter = SUBSTR(code, 1, 1)"
    coarsening, encoder = lay_out({"chapter": CHAPTERS, "code": MANY}, [rule], {"chapter": [0, 1, 2], "code": [0, 300]})
    assert find_zeros(coarsening, encoder.list_rules())[0, 1].tolist() == [[False, True], [True, False], [True, False]]
    kinds = find_kinds(plan_one_ways(encoder.spans), encoder.list_rules())[1]
    assert kinds is not None
    assert kinds.reshape(3, 300).min(axis=1).tolist() == kinds.reshape(3, 300).max(axis=1).tolist() == [0, 1, 2]
    first = find_zeros(*_alone(MANY, "code < 'B'", [0, 300, 600]))
    assert first[0,].tolist() == [False, True, True]


def _alone(column: Any, rule: str, cuts: list[int]) -> tuple[Coarsening, Any]:
    coarsening, encoder = lay_out({"code": column}, [rule], {"code": cuts})
    return coarsening, encoder.list_rules()


@pytest.mark.parametrize(
    ("derived", "expected"),
    [
        ({"map": {code: code[0] for code in MANY["values"]}}, [0, 1, 2]),
        ({"sql": "SUBSTR(code, 1, 1)"}, [0, 1, 2]),
        ({"map": {code: code.lower() for code in MANY["values"]}}, None),  # another name for each is no part
    ],
)
def test_codes_are_of_one_kind_where_a_coarse_derived_column_does_not_tell_them_apart(
    derived: dict[str, Any], expected: list[int] | None
) -> None:
    rule = {"derived": {"from": "code", **derived} if "map" in derived else derived}
    schema = parse_specs({"code": MANY, "part": rule}, sha256="")
    encoder = TableEncoder(schema, ["code", "part"])
    coarsening = lay_out({"code": MANY}, [], {"code": [0, 100, 300]})[0]
    (kinds,) = find_kinds(plan_one_ways(encoder.spans), encoder.list_rules())
    if expected is None:
        assert kinds is None
        return
    assert kinds is not None
    assert kinds.reshape(3, 300).min(axis=1).tolist() == kinds.reshape(3, 300).max(axis=1).tolist() == expected
    # It forbids nothing.
    assert not find_zeros(coarsening, encoder.list_rules())
    assert leave_out(coarsening, encoder.list_rules()).parts[0].weights.all()


def find_mass(probabilities: np.ndarray, zeros: Zeros, layout: GroupLayout) -> float:
    """The mean probability of forbidden cells, by a loop over all cells in float64."""
    return sum(float(answer_by_loop(probabilities, pair, layout)[flags].sum()) for pair, flags in zeros.items())


@pytest.mark.parametrize("marginal", [(0,), (0, 1), (0, 1, 2)])
def test_the_gradient_of_forbidden_mass_is_its_slope(marginal: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    layout = GroupLayout([2, 3, 4])
    zeros = {marginal: rng.random([layout.sizes[a] for a in marginal]) < 0.5}
    loss = ForbiddenMass(layout, zeros, weight=7.0)
    probabilities = rng.random((5, layout.width), np.float32)
    slope = find_slope(lambda at: 7.0 * find_mass(at, zeros, layout), probabilities.astype(np.float64))
    assert add_up_gradients([loss], probabilities) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_a_fit_gives_no_mass_to_what_is_forbidden_whatever_noise_says() -> None:
    layout = GroupLayout([2, 2, 3])
    zeros = {(0, 1): np.array([[False, True], [True, False]]), (0, 2): np.array([[True, False, False], [False] * 3])}
    zeros = dict(add_implied(zeros, layout.sizes))
    measured = MeasuredMarginals(Views(layout), zeros)
    measured.add((0,), [0.5, 0.5], stddev=0.01)
    measured.add((0, 1), [[0.45, 0.1], [0.1, 0.35]], stddev=0.02)
    assert measured.get_shares((0, 1)).tolist() == [[pytest.approx(0.45), 0.0], [0.0, pytest.approx(0.35)]]
    one_ways = [np.full(size, 1 / size) for size in layout.sizes]
    logits = draw_codes(layout, one_ways=one_ways, codes=60, zeros=zeros)
    records = np.stack([logits[:, layout.get_slice(a)].argmax(axis=1) for a in range(3)], axis=1)
    assert not any(flags[tuple(records[:, list(pair)].T)].any() for pair, flags in zeros.items())
    mixture = Mixture(layout.sizes, logits)
    fit(mixture, [measured, ForbiddenMass(layout, zeros, weight=1e4)], steps=200, learning_rate=0.1, last_rate=0.01)
    assert find_mass(mixture.probabilities(), zeros, layout) < 1e-3


def test_a_larger_marginal_is_empty_where_a_smaller_one_is() -> None:
    flags = np.array([[True, False], [False, False]])
    assert mask({(0, 2): flags}, (0, 1, 2), (2, 3, 2)).sum(axis=1).tolist() == [[3, 0], [0, 0]]
    assert not mask({(0, 2): flags}, (0, 1), (2, 3)).any()


def test_a_rule_on_a_number_of_very_many_cells_takes_no_memory_for_each():
    """A hundred thousand million of them: a list of all is refused by any machine."""
    columns = {"k": CODES, "pay": {"type": "float", "min": 0, "max": 1_000_000_000, "decimals": 2}}
    encoder = TableEncoder(parse_specs({**columns, "rules": ["k <> 'a' OR pay <= 100"]}, sha256=""), list(columns))
    coarsening, _ = lay_out(columns, ["k <> 'a' OR pay <= 100"], {"k": [0, 1, 2, 3, 4], "pay": [0, 10_001, 20_000]})
    kinds = find_kinds(plan_one_ways(encoder.spans), encoder.list_rules())
    assert kinds[0] is not None
    assert len(np.unique(kinds[0])) == 2
    assert find_zeros(coarsening, encoder.list_rules())[0, 1].sum(axis=1).tolist().count(2) == 1
