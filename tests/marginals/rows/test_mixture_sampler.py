"""Rows from a fitted mixture: their law, their chunks, and the way to disk and back."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpwgan.errors import InputError
from dpwgan.marginals.one_way.merging import coarsen
from dpwgan.marginals.one_way.one_ways import plan_one_ways
from dpwgan.marginals.rows import balance, mixture_sampler, moves
from dpwgan.marginals.rows.mixture_sampler import MIXTURE_FILE, MixtureSampler
from dpwgan.marginals.selection.comparisons import Comparison, Comparisons, Sides
from dpwgan.marginals.selection.details import Details
from dpwgan.table.encoded import EncodedTable
from tests.marginals.groups import make_probabilities
from tests.marginals.tables import NARROW, make_encoded, measure_one_ways

FALSE_ALARM = 1e-6


def make_sampler(records: int = 600) -> MixtureSampler:
    encoded = make_encoded(records, seed=1, columns=NARROW)
    one_ways = measure_one_ways(encoded, plan_one_ways(encoded.spans), noise_multiplier=1.0, seed=2)
    coarsening = coarsen(one_ways, records=records, least_count=40.0)
    empty = {(0, 1): np.eye(*coarsening.sizes[:2], dtype=bool)}
    codes = make_probabilities(20, sizes=coarsening.sizes, seed=3)
    answers = {(0, 2): make_probabilities(1, sizes=[coarsening.sizes[0] * coarsening.sizes[2]], seed=4)}
    answers = {pair: shares.reshape(*(coarsening.sizes[a] for a in pair)) for pair, shares in answers.items()}
    details = Details({0: np.array([0, 2])}, {(0, 1): np.full((2, coarsening.sizes[1]), 0.5, np.float32)})
    shares = np.tile(np.array([0.25, 0.5, 0.25], np.float32), (coarsening.sizes[1], 1))
    return MixtureSampler(
        probabilities=codes,
        coarsening=coarsening,
        empty=empty,
        barred={(1, 2): np.zeros(coarsening.sizes[1:3], bool)},
        answers=answers,
        details=details,
        comparisons=Comparisons({Comparison(Sides(5, (4,)), 1): shares}),
    )


@pytest.mark.parametrize(("records", "sizes"), [(0, []), (1, [1]), (5, [5]), (13, [5, 5, 3])])
def test_chunks_hold_all_rows_when_sampled(monkeypatch, records, sizes):
    monkeypatch.setattr(mixture_sampler, "_CHUNK", 5)
    parts = list(make_sampler().sample(records, rng=np.random.default_rng(0)))
    assert [part.records for part in parts] == sizes
    assert all(isinstance(part, EncodedTable) for part in parts)


def test_rows_are_in_balance_only_where_neither_the_table_nor_what_is_drawn_of_it_is_large(monkeypatch):
    sampler, balanced = make_sampler(), []
    attributes = len(sampler.coarsening.sizes)
    monkeypatch.setattr(balance, "_MOST_WORK", 100 * attributes**2)
    monkeypatch.setattr(mixture_sampler, "balance", lambda groups, codes, **more: balanced.append(more["sweeps"]))
    for rows, drawn in ((10, 10), (100, 100), (101, 10), (10, 101), (10, 60)):
        prepared = sampler.prepare(rows)
        prepared.draft(drawn, rng=np.random.default_rng(0))
    assert balanced == [2, 1, 1]
    assert dataclasses.replace(sampler, probabilities=sampler.probabilities[:1]).prepare(10).sweeps == 0


def test_rows_are_moved_to_answers_where_they_are_not_in_balance(monkeypatch):
    sampler, done = make_sampler(), []
    attributes = len(sampler.coarsening.sizes)
    monkeypatch.setattr(balance, "_MOST_WORK", 100 * attributes**2)
    monkeypatch.setattr(moves, "_MOST_WORK", 2 * 1_000)
    for name in ("balance", "move_rows"):
        note = partial(lambda name, *places, **more: done.append((name, more["sweeps"])), name)
        monkeypatch.setattr(mixture_sampler, name, note)
    for rows, drawn in ((60, 60), (200, 200), (500, 10), (10, 500), (200, 1_001), (1_001, 10)):
        prepared = sampler.prepare(rows)
        prepared.draft(drawn, rng=np.random.default_rng(0))
    assert done == [("balance", 1), ("move_rows", 5), ("move_rows", 2)]
    assert not dataclasses.replace(sampler, answers={}).prepare(200).moves


@pytest.mark.parametrize("records", [3, 20, 21, 2_000])
def test_codes_come_up_evenly_when_rows_are_fewer_or_more_than_codes(records):
    """Each code has a group of its own in one attribute, so that its rows can be counted."""
    sampler = make_sampler()
    codes = sampler.coarsening.sizes[0]
    probabilities = sampler.probabilities[:codes].copy()
    probabilities[:, :codes] = np.eye(codes)
    lone = dataclasses.replace(sampler, probabilities=probabilities)
    (drawn,) = lone.sample(records, rng=np.random.default_rng(4))
    counts = np.bincount(lone.coarsening.to_groups(drawn)[:, 0], minlength=codes)
    assert counts.sum() == records
    assert np.abs(counts - records / codes).max() <= 1


@pytest.mark.parametrize("records", [7, 5_000])
def test_marginals_are_the_mixtures_when_rows_are_many(records):
    sampler = make_sampler()
    total = np.zeros(sampler.coarsening.width)
    runs = 3_000 if records < 100 else 4
    starts = np.concatenate(([0], np.cumsum(sampler.coarsening.sizes)))[:-1]
    rng = np.random.default_rng(5)
    for _ in range(runs):
        groups = sampler.draw_groups(sampler.choose_codes(records, rng=rng), rng=rng)
        total += np.bincount((groups + starts).ravel(), minlength=len(total))
    shares = total / (runs * records)
    # 20,000 rows or more, drawn no worse than independently: five stddevs of a share.
    assert shares == pytest.approx(sampler.probabilities.mean(axis=0), abs=5 * 0.5 / np.sqrt(20_000))


@pytest.mark.statistical
@pytest.mark.parametrize(("broken", "records"), [(False, 6), (False, 45), (True, 6)])
def test_each_row_has_the_mixtures_law_when_drawn_again_and_again(broken, records):
    """Chi-square of the first and the last row's pair of groups over repeated draws, which are independent.

    The twin draws from a mixture of which one code in 20 is missing.
    """
    sampler = make_sampler()
    shown = dataclasses.replace(sampler, probabilities=sampler.probabilities[broken:])
    rng = np.random.default_rng(6)
    sizes = sampler.coarsening.sizes
    drawn = np.array(
        [shown.draw_groups(shown.choose_codes(records, rng=rng), rng=rng)[[0, -1]][:, :2] for _ in range(12_000)]
    )
    left, right = sampler.probabilities[:, : sizes[0]], sampler.probabilities[:, sizes[0] : sizes[0] + sizes[1]]
    expected = 12_000 * (left.T.astype(np.float64) @ right).ravel() / len(left)
    assert expected.min() >= 5
    cells = drawn[..., 0] * sizes[1] + drawn[..., 1]
    counts = np.stack([np.bincount(own, minlength=len(expected)) for own in cells.T])
    statistics = ((counts - expected) ** 2 / expected).sum(axis=1)
    rejected = stats.chi2.sf(statistics, len(expected) - 1) < FALSE_ALARM / 2
    assert bool(rejected.any()) is broken


def test_sampler_holds_codes_and_groups_alone_when_looked_into():
    """What it refers to, all the way down, has the size of codes and of cells, and never of rows."""
    records = 601
    sampler = make_sampler(records)
    names = [part.name for part in dataclasses.fields(sampler)]
    known = ["empty", "barred", "answers", "details", "day_lifts", "comparisons"]
    assert names == ["probabilities", "coarsening", "certificate", *known, "sweeps", "moves"]

    def find_arrays(thing: object) -> list[npt.NDArray]:
        if isinstance(thing, np.ndarray):
            return [thing]
        if isinstance(thing, Mapping):
            return find_arrays(list(thing.values()))
        if isinstance(thing, (tuple, list)):
            return [array for part in thing for array in find_arrays(part)]
        if dataclasses.is_dataclass(thing):
            assert not isinstance(thing, EncodedTable)
            return [array for part in vars(thing).values() for array in find_arrays(part)]
        return []

    arrays = find_arrays(sampler)
    assert len(arrays) > 1
    assert all(records not in array.shape for array in arrays)


def change_groups(directory: Path) -> None:
    document = json.loads((directory / "groups.json").read_text())
    document["attributes"][0]["groups"][0] = 99
    (directory / "groups.json").write_text(json.dumps(document))


def save(change: Callable[[npt.NDArray], npt.NDArray], name: str = "probabilities") -> Callable[[Path], None]:
    """What saves changed codes."""
    return lambda directory: np.savez(directory / MIXTURE_FILE, **{name: change(make_sampler().probabilities)})


def save_pair(name: str, cells: npt.NDArray) -> Callable[[Path], None]:
    """What saves another array about a pair."""

    def write(directory: Path) -> None:
        np.savez(directory / MIXTURE_FILE, probabilities=make_sampler().probabilities, **{name: cells})

    return write


DAMAGES: dict[str, Callable[[Path], None]] = {
    "changed groups": change_groups,
    "another name": save(lambda codes: codes, name="other"),
    "no codes": save(lambda codes: codes[:0]),
    "one axis": save(lambda codes: codes[0]),
    "too narrow": save(lambda codes: codes[:, 1:]),
    "words": save(lambda codes: np.array([["a", "b"]])),
    "objects": save(lambda codes: np.array([{"a": 1}], dtype=object)),
    "not a number": save(lambda codes: codes * np.nan),
    "twice as much": save(lambda codes: codes * 2),
    "empty pairs of other columns": save_pair("empty 0 99", np.zeros((2, 2), bool)),
    "empty pairs of other groups": save_pair("empty 0 1", np.zeros((2, 99), bool)),
    "empty pairs of no columns": save_pair("empty", np.zeros((2, 2), bool)),
    "empty pairs in numbers": save_pair("empty 0 1", np.zeros(make_sampler().coarsening.sizes[:2])),
    "barred pairs of other groups": save_pair("barred 0 1", np.zeros((2, 99), bool)),
    "answers of other columns": save_pair("answer 0 99", np.full((2, 2), 0.25, np.float32)),
    "answers of other groups": save_pair("answer 0 1", np.full((2, 50), 0.01, np.float32)),
    "answers that add to nothing": save_pair("answer 0 1", np.zeros(make_sampler().coarsening.sizes[:2], np.float32)),
    "answers below 0": save_pair("answer 0 2", make_sampler().answers[0, 2] * np.float32(-1)),
    "answers without a number": save_pair("answer 0 2", make_sampler().answers[0, 2] * np.float32("nan")),
    "answers in double precision": save_pair("answer 0 2", make_sampler().answers[0, 2].astype(np.float64)),
    "codes within groups of no column": save_pair("codes 99", np.array([1])),
    "lifts of other groups": save_pair("lifts 0 1", np.ones((2, 99), np.float32)),
    "lifts of no columns": save_pair("lifts", np.ones((2, 2), np.float32)),
    "comparisons of no number": save_pair("sum 0 -1 4", np.ones((1, 3)) / 3),
    "comparisons of no columns": save_pair("sum", np.ones((1, 3)) / 3),
    "negative": save(
        lambda codes: np.hstack([codes[:, :1] + codes[:, 1:2] + 1.0, 0 * codes[:, 1:2] - 1.0, codes[:, 2:]])
    ),
}


def test_saved_sampler_is_the_same_when_loaded(tmp_path):
    sampler = make_sampler()
    sampler.save(tmp_path)
    loaded = MixtureSampler.load(tmp_path)
    assert np.array_equal(loaded.probabilities, sampler.probabilities)
    assert {pair: flags.tolist() for pair, flags in loaded.empty.items()} == {(0, 1): sampler.empty[0, 1].tolist()}
    assert {pair: flags.tolist() for pair, flags in loaded.barred.items()} == {(1, 2): sampler.barred[1, 2].tolist()}
    assert {pair: shares.tolist() for pair, shares in loaded.answers.items()} == {
        (0, 2): sampler.answers[0, 2].tolist()
    }
    drawn = [one.prepare(500).draft(500, rng=np.random.default_rng(2)) for one in (sampler, loaded)]
    assert np.array_equal(drawn[0].groups, drawn[1].groups)
    assert loaded.details.codes[0].tolist() == [0, 2]
    assert loaded.details.lifts[0, 1].tolist() == sampler.details.lifts[0, 1].tolist()
    ((asked, shares),) = loaded.comparisons.shares.items()
    assert (asked, shares.tolist()) == (Comparison(Sides(5, (4,)), 1), sampler.comparisons.shares[asked].tolist())


@pytest.mark.parametrize("damage", DAMAGES)
def test_saved_sampler_is_refused_when_it_is_damaged(damage, tmp_path):
    make_sampler().save(tmp_path)
    DAMAGES[damage](tmp_path)
    with pytest.raises(InputError, match="damaged"):
        MixtureSampler.load(tmp_path)
