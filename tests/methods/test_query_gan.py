"""QueryGAN and its baseline as whole runs: legal cells, totals by other formulas, and the certificate's rate."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.marginals.groups import GroupLayout
from dpwgan.methods import query_gan
from dpwgan.methods.query_gan import CERTIFICATE_LABEL, certify_pairs
from dpwgan.methods.registry import get_method
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import gaussian
from dpwgan.privacy.ledger import Ledger
from tests.marginals.groups import make_groups, make_probabilities, replace_row
from tests.methods.privacy_totals import (
    epsilon_from_curve,
    epsilon_from_rho,
    gaussian_delta,
    split,
    tighter_epsilon_from_rho,
    total_rho,
)
from tests.methods.runs import NARROW, fit, make_plan, make_table, refuse_illegal, reserve, run

FALSE_ALARM = 1e-6
DELTA = 1e-5
RELATIONS = list(NeighboringRelation)
EPSILONS = (0.05, 1.0, 8.0, 30.0)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "marginals": ("query-gan", {}),
    "one-layer": ("query-gan", {"oracle": "one-layer"}),
    "independent": ("independent", {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_sampled_cells_are_legal_and_everything_is_charged_when_columns_are_of_every_kind(
    kind: str, epsilon: float
) -> None:
    name, chosen = KINDS[kind]
    done = run(name, make_table(300), epsilon=epsilon, **chosen)
    assert done.sampled.records == 200
    refuse_illegal(done.sampled)
    assert all(line["charged"] == line["reserved"] >= 1 for line in done.ledger.itemise())
    assert done.ledger.epsilon_spent() == done.ledger.epsilon_reserved() == done.ledger.guarantee().epsilon <= epsilon
    assert done.progress[-1][0] == done.progress[-1][1]
    assert max(spent for _, _, spent in done.progress) <= epsilon
    assert (done.fitted.certificate is None) is (kind == "independent")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [[2, 0], [0, 1], [3, 4]])
@pytest.mark.parametrize("records", [1, 2, 50])
def test_sampled_cells_are_legal_when_columns_and_rows_are_few(kind: str, columns: list[int], records: int) -> None:
    name, chosen = KINDS[kind]
    done = run(name, make_table(records, columns=[NARROW[index] for index in columns]), **chosen)
    refuse_illegal(done.sampled)
    assert all(line["charged"] == line["reserved"] for line in done.ledger.itemise())


@pytest.mark.parametrize("generator", ["codes", "mlp", "codes+mlp"])
def test_sampled_cells_are_legal_when_the_generator_is_of_any_kind(generator: str) -> None:
    refuse_illegal(run("query-gan", make_table(100, columns=NARROW[:4]), generator=generator).sampled)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_total_is_that_of_other_formulas_when_accounted_by_moments(
    kind: str, relation: NeighboringRelation, epsilon: float
) -> None:
    name, chosen = KINDS[kind]
    plan = make_plan(name, make_table(300).shape, epsilon=epsilon, relation=relation, **chosen)
    claimed = reserve(plan).guarantee().epsilon
    charges = [(event, count) for _, event, count, _ in plan.charges]
    assert 0.99 * epsilon < claimed <= epsilon
    # zCDP alone, by two conversions: the claim is no more, and not much less, than the better one.
    rho = total_rho(charges, relation=relation)
    assert claimed <= epsilon_from_rho(rho, delta=DELTA)
    by_rho = tighter_epsilon_from_rho(rho, delta=DELTA)
    assert 0.85 * by_rho <= claimed <= by_rho * 1.01
    # The Renyi curve, with each selection's exact range.
    assert claimed == pytest.approx(epsilon_from_curve(charges, delta=DELTA, relation=relation), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rule", ["moments", "amortized", "pld"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_claim_is_no_less_than_its_gaussians_alone_prove_when_accounted_by_any_rule(
    kind: str, relation: NeighboringRelation, rule: str, epsilon: float
) -> None:
    """The exact curve of the Gaussians of a run, which any sound claim about more than them must lie above."""
    name, chosen = KINDS[kind]
    plan = make_plan(name, make_table(300).shape, epsilon=epsilon, relation=relation, rule=rule, **chosen)
    guarantee = reserve(plan).guarantee()
    assert guarantee.accountant == rule
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon
    charges = [(event, count) for _, event, count, _ in plan.charges]
    rho, selections = split(charges, relation=relation)
    assert gaussian_delta(guarantee.epsilon, rho=rho) <= DELTA
    if rule == "pld" and not selections:
        # There is nothing else, and this accountant knows the curve.
        assert gaussian_delta(0.99 * guarantee.epsilon, rho=rho) > 0.98 * DELTA


def test_budget_is_kept_when_others_were_paid_first() -> None:
    others = [(gaussian(noise_multiplier=9.0), 2)]
    for name in ("query-gan", "independent"):
        plan = make_plan(name, make_table(300).shape, others=others)
        charges = [*others, *((event, count) for _, event, count, _ in plan.charges)]
        assert epsilon_from_curve(charges, delta=DELTA, relation=NeighboringRelation.ZERO_OUT) == pytest.approx(
            1.0, rel=5e-3
        )


def test_plan_says_what_it_costs_when_asked() -> None:
    for name, chosen in KINDS.values():
        plan = make_plan(name, make_table(300).shape, **chosen)
        assert plan.memory_bytes > 0
        assert 0 < plan.seconds < 1_000
        assert all(isinstance(key, str) for key in plan.summary())


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_all_that_grows_when_a_table_has_more_of_them(kind: str) -> None:
    name, chosen = KINDS[kind]
    shape = make_table(300).shape
    less, more = (make_plan(name, dataclasses.replace(shape, records=records), **chosen) for records in (300, 300_000))
    assert less.memory_bytes - less.row_bytes == more.memory_bytes - more.row_bytes > 0
    assert more.row_bytes == 1_000 * less.row_bytes
    # A network's training keeps a float64 of each row.
    columns = 4 * (len(shape.spans) + len(less.anchor.columns if kind != "independent" else less.columns))
    assert less.row_bytes == 300 * (columns + 8 * (kind == "one-layer"))


@pytest.mark.parametrize("setting", ["ways", "fit_steps", "most_cells", "generator"])
def test_setting_of_marginals_is_refused_by_name_when_networks_play(setting: str) -> None:
    with pytest.raises(UsageError, match=setting.replace("_", "-")):
        get_method("query-gan").make_settings(oracle="one-layer", **{setting: 3})


def test_output_is_the_same_when_seed_and_rows_are_the_same() -> None:
    encoded = make_table(200, columns=NARROW[:4])
    first, second = (run("query-gan", encoded, seed=5) for _ in range(2))
    assert np.array_equal(first.sampled.codes, second.sampled.codes)
    assert first.fitted.certificate == second.fitted.certificate
    assert not np.array_equal(first.sampled.codes, run("query-gan", encoded, seed=6).sampled.codes)


class OrderedLedger(Ledger):
    """Keeps the order of charges among everything else that happened."""

    happened: list[str]

    def charge(self, label: str, count: int = 1) -> None:
        super().charge(label, count)
        self.happened.append(label)


@pytest.mark.parametrize("kind", ["marginals", "one-layer"])
def test_rows_are_read_after_their_charge_when_networks_or_the_certificate_need_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, chosen = KINDS[kind]
    encoded = make_table(100, columns=NARROW[:3])
    plan = make_plan(name, encoded.shape, **chosen)
    ledger = reserve(plan, kind=OrderedLedger)
    assert isinstance(ledger, OrderedLedger)
    ledger.happened = []
    acts = {
        "certify_pairs": query_gan.CERTIFICATE_LABEL,
        "train_one_layer": query_gan.WEIGHTS_LABEL,
        "measure_one_layer": query_gan.ONE_LAYER_ANSWER_LABEL,
        "measure_one_layer_certificate": query_gan.ONE_LAYER_CERTIFICATE_LABEL,
    }
    seen: list[str] = []

    def watch(function: str, label: str) -> None:
        act = getattr(query_gan, function)

        def watched(*args: Any, **more: Any) -> Any:
            # The last thing that was charged is what is done now.
            assert ledger.happened[-1] == label
            seen.append(label)
            return act(*args, **more)

        monkeypatch.setattr(query_gan, function, watched)

    for function, label in acts.items():
        watch(function, label)
    fit(name, encoded, plan, ledger=ledger)
    reserved = {label: count for label, _, count, _ in plan.extra}
    assert {label: seen.count(label) for label in set(seen)} == reserved
    # The certificate is of the final generator: nothing is asked for after it.
    assert ledger.happened[-1] == seen[-1] == (CERTIFICATE_LABEL if kind == "marginals" else seen[-1])


def test_fit_stops_when_the_ledger_has_no_certificate() -> None:
    encoded = make_table(100, columns=NARROW[:3])
    plan = make_plan("query-gan", encoded.shape)
    choice = plan.choice
    ledger = Ledger(choice.budget, accountant=choice.accountant, neighboring_relation=choice.neighboring_relation)
    for label, event, count, details in plan.anchor.charges:
        ledger.reserve(label, event, count, **details)
    with pytest.raises(PrivacyError, match=CERTIFICATE_LABEL):
        fit("query-gan", encoded, plan, ledger=ledger)


SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)


def find_worst_error(groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32], *, records: int) -> float:
    """The largest difference of shares over all cells of all pairs, by loops in float64."""
    worst = 0.0
    for left in range(len(SIZES)):
        for right in range(left + 1, len(SIZES)):
            for a in range(SIZES[left]):
                for b in range(SIZES[right]):
                    share = np.count_nonzero((groups[:, left] == a) & (groups[:, right] == b)) / records
                    one = probabilities[:, LAYOUT.starts[left] + a].astype(np.float64)
                    other = probabilities[:, LAYOUT.starts[right] + b].astype(np.float64)
                    worst = max(worst, abs(share - float((one * other).mean())))
    return worst


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (0.9, True), (0.0, True)])
def test_certificate_fails_no_more_often_than_it_says_when_run_again_and_again(
    share: float, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Violations are binomial at most; their count passes the bound with probability 1e-6.

    The twins have nine tenths of the slack, and none.
    """
    groups = make_groups(60, sizes=SIZES, seed=1)
    probabilities = make_probabilities(5, sizes=SIZES, seed=2)
    worst = find_worst_error(groups, probabilities, records=60)
    assert 0.05 < worst < 0.9
    slack, counts = query_gan.gaussian_slack, query_gan.count_pairs(groups, LAYOUT)
    monkeypatch.setattr(query_gan, "gaussian_slack", lambda **more: share * slack(**more))
    monkeypatch.setattr(query_gan, "count_pairs", lambda *_: counts)
    rng = np.random.default_rng(3)
    runs, violations = 12_000, 0
    for _ in range(runs):
        certificate = certify_pairs(groups, probabilities, LAYOUT, records=60, noise_multiplier=3.0, rng=rng)
        assert certificate.failure_probability == 0.05
        violations += certificate.alpha < worst
    assert bool(violations > stats.binom.isf(FALSE_ALARM, runs, 0.05)) is broken
    # Nor is it looser than it has to be: what fails fails at the stated rate.
    assert violations >= stats.binom.ppf(FALSE_ALARM, runs, 0.05)


def watch_worst_error(
    groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32], *, records: int
) -> tuple[float, float]:
    """What goes into the Gaussian mechanism, and with what sensitivity."""
    seen: list[tuple[float, float]] = []
    add = query_gan.add_gaussian_noise

    def watch(values: list[float], *, sensitivity: float, replace_one_factor: float, **more: Any) -> Any:
        assert len(values) == 1
        assert replace_one_factor == 1.0
        seen.append((values[0], sensitivity))
        return add(values, sensitivity=sensitivity, replace_one_factor=replace_one_factor, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_gan, "add_gaussian_noise", watch)
        certify_pairs(
            groups, probabilities, LAYOUT, records=records, noise_multiplier=2.0, rng=np.random.default_rng(0)
        )
    assert len(seen) == 1
    return seen[0]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_worst_error_moves_by_no_more_than_one_record_when_a_record_goes_or_changes(records: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    probabilities = make_probabilities(5, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    worst, sensitivity = watch_worst_error(groups, probabilities, records=records)
    assert worst == pytest.approx(find_worst_error(groups, probabilities, records=records), abs=1e-6)
    assert sensitivity == pytest.approx(1 / records, rel=1e-5)
    without, _ = watch_worst_error(np.delete(groups, row, axis=0), probabilities, records=records)
    changed, _ = watch_worst_error(replace_row(groups, row, by=rng.integers(0, SIZES)), probabilities, records=records)
    assert abs(worst - without) <= sensitivity
    assert abs(worst - changed) <= sensitivity


def test_certificate_says_what_it_is_of_when_described() -> None:
    certificate = certify_pairs(
        make_groups(60, sizes=SIZES, seed=1),
        make_probabilities(5, sizes=SIZES, seed=2),
        LAYOUT,
        records=60,
        noise_multiplier=1e6,
        rng=np.random.default_rng(0),
    )
    described = certificate.describe()
    assert described["kind"] == "two-way marginals"
    assert "alpha" in described["statement"]
    assert described["details"]["cells"] == 3 + 12 + 6 + 4 + 2 + 8
    # No share is off by more than 1, whatever the noise.
    assert 0 <= certificate.alpha <= 1


def test_certificate_is_refused_when_there_is_no_noise() -> None:
    with pytest.raises(PrivacyError, match="noise_multiplier"):
        certify_pairs(
            make_groups(5, sizes=SIZES, seed=1),
            make_probabilities(5, sizes=SIZES, seed=2),
            LAYOUT,
            records=5,
            noise_multiplier=math.inf,
            rng=np.random.default_rng(0),
        )


def test_certificate_has_its_hundredth_of_the_budget_when_planned() -> None:
    plan = make_plan("query-gan", make_table(300).shape)
    (label, event, count, _) = plan.extra[0]
    assert (label, count) == (CERTIFICATE_LABEL, 1)
    assert event.replace_one_factor == 1.0  # as the act itself: see the neighbours' test above
    whole = total_rho([(e, c) for _, e, c, _ in plan.charges], relation=NeighboringRelation.ZERO_OUT)
    assert total_rho([(event, 1)], relation=NeighboringRelation.ZERO_OUT) == pytest.approx(0.01 * whole)
    assert whole == pytest.approx(1 / (2 * plan.choice.noise_scale**2))
    assert dataclasses.replace(plan.settings) == plan.settings
