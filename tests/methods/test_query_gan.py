"""QueryGAN and its baseline as whole runs: legal cells, totals by other formulas, and the certificate's rate."""

import dataclasses
from collections import Counter
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
from dpwgan.methods.published import one_layer
from dpwgan.methods.query_gan import CERTIFICATE_LABEL, certify_pairs, plan_certificate
from dpwgan.methods.registry import get_method
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.events import gaussian
from tests.ledgers import Watcher, open_ledger, watch_reads
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
    charges = [release.charge for release in plan.releases]
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
    charges = [release.charge for release in plan.releases]
    rho, selections = split(charges, relation=relation)
    assert gaussian_delta(guarantee.epsilon, rho=rho) <= DELTA
    if rule == "pld" and not selections:
        # There is nothing else, and this accountant knows the curve; less well where noise is about one count.
        near = 0.99 if epsilon < 30 else 0.93
        assert gaussian_delta(near * guarantee.epsilon, rho=rho) > 0.98 * DELTA


def test_budget_is_kept_when_others_were_paid_first() -> None:
    others = [(gaussian(noise_multiplier=9.0), 2)]
    for name in ("query-gan", "independent"):
        plan = make_plan(name, make_table(300).shape, others=others)
        charges = [*others, *(release.charge for release in plan.releases)]
        assert epsilon_from_curve(charges, delta=DELTA, relation=NeighboringRelation.ZERO_OUT) == pytest.approx(
            1.0, rel=5e-3
        )


def test_plan_says_what_it_costs_when_asked() -> None:
    for name, chosen in KINDS.values():
        plan = make_plan(name, make_table(300).shape, **chosen)
        assert plan.cost.memory_bytes > 0
        assert 0 < plan.cost.seconds < 1_000
        assert all(isinstance(key, str) for key in plan.settings)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_all_that_grows_when_a_table_has_more_of_them(kind: str) -> None:
    name, chosen = KINDS[kind]
    shape = make_table(300).shape
    less, more = (make_plan(name, dataclasses.replace(shape, records=records), **chosen) for records in (300, 300_000))
    assert less.cost.memory_bytes - less.cost.row_bytes == more.cost.memory_bytes - more.cost.row_bytes > 0
    assert more.cost.row_bytes == 1_000 * less.cost.row_bytes
    # A network's training keeps a float64 of each row.
    columns = 4 * (len(shape.spans) + len(less.anchor.columns if kind != "independent" else less.columns))
    assert less.cost.row_bytes == 300 * (columns + 8 * (kind == "one-layer"))


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


READS: list[tuple[Any, str]] = [
    (query_gan, "count_pairs"),
    (one_layer.OneHotRows, "sum_slopes"),
    (one_layer.OneHotRows, "sum_scores"),
    (one_layer.OneHotRows, "count_groups"),
]


@pytest.mark.parametrize("kind", ["marginals", "one-layer"])
def test_rows_are_read_behind_the_door_alone_when_networks_or_the_certificate_need_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, chosen = KINDS[kind]
    encoded = make_table(100, columns=NARROW[:3])
    plan = make_plan(name, encoded.shape, **chosen)
    watcher = Watcher()
    ledger = reserve(plan, observers=[watcher])
    reads = watch_reads(monkeypatch, ledger, watcher, READS)
    fit(name, encoded, plan, ledger=ledger)
    assert set(reads) == {release.label for release in plan.design.extra}
    assert Counter(watcher.order) == ledger.charged == {release.label: release.times for release in plan.releases}
    # The certificate is of the final generator: nothing is asked for after it.
    assert watcher.order[-1] == plan.design.extra[-1].label


def test_fit_stops_when_the_ledger_has_no_certificate() -> None:
    encoded = make_table(100, columns=NARROW[:3])
    plan = make_plan("query-gan", encoded.shape)
    ledger = open_ledger(plan.design.anchor.releases, budget=plan.choice.budget, accountant=plan.choice.accountant)
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
    runs, violations = 12_000, 0
    release = plan_certificate(noise_multiplier=3.0, records=60)
    ledger = open_ledger([dataclasses.replace(release, times=runs)], source=3)
    for _ in range(runs):
        certificate = certify_pairs(groups, probabilities, LAYOUT, records=60, ledger=ledger)
        assert certificate.failure_probability == 0.05
        violations += certificate.alpha < worst
    assert bool(violations > stats.binom.isf(FALSE_ALARM, runs, 0.05)) is broken
    # Nor is it looser than it has to be: what fails fails at the stated rate.
    assert violations >= stats.binom.ppf(FALSE_ALARM, runs, 0.05)


def certify(
    groups: npt.NDArray[np.int32],
    probabilities: npt.NDArray[np.float32],
    *,
    records: int,
    noise_multiplier: float = 2.0,
) -> tuple[Certificate, Watcher]:
    watcher = Watcher()
    release = plan_certificate(noise_multiplier=noise_multiplier, records=records)
    ledger = open_ledger([release], observers=[watcher])
    return certify_pairs(groups, probabilities, LAYOUT, records=records, ledger=ledger), watcher


def find_exact(
    groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32], *, records: int
) -> tuple[float, float]:
    """What is given noise, and with what sensitivity."""
    _, watcher = certify(groups, probabilities, records=records)
    (exact,), (release,) = watcher.exact, watcher.releases
    return float(exact[0]), release.sensitivity


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_worst_error_moves_by_no_more_than_one_record_when_a_record_goes_or_changes(records: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    probabilities = make_probabilities(5, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    worst, sensitivity = find_exact(groups, probabilities, records=records)
    assert worst == pytest.approx(find_worst_error(groups, probabilities, records=records), abs=1e-6)
    assert sensitivity == pytest.approx(1 / records, rel=1e-5)
    without, _ = find_exact(np.delete(groups, row, axis=0), probabilities, records=records)
    changed, _ = find_exact(replace_row(groups, row, by=rng.integers(0, SIZES)), probabilities, records=records)
    assert abs(worst - without) <= sensitivity
    assert abs(worst - changed) <= sensitivity


def test_certificate_says_what_it_is_of_when_described() -> None:
    certificate, _ = certify(
        make_groups(60, sizes=SIZES, seed=1),
        make_probabilities(5, sizes=SIZES, seed=2),
        records=60,
        noise_multiplier=1e6,
    )
    described = certificate.describe()
    assert described["kind"] == "two-way marginals"
    assert "alpha" in described["statement"]
    assert described["details"]["cells"] == 3 + 12 + 6 + 4 + 2 + 8
    # No share is off by more than 1, whatever the noise.
    assert 0 <= certificate.alpha <= 1


def test_certificate_has_its_hundredth_of_the_budget_when_planned() -> None:
    plan = make_plan("query-gan", make_table(300).shape)
    (release,) = plan.design.extra
    event = release.event
    assert (release.label, release.times) == (CERTIFICATE_LABEL, 1)
    assert event.replace_one_factor == 1.0  # as the act itself: see the neighbours' test above
    whole = total_rho([release.charge for release in plan.releases], relation=NeighboringRelation.ZERO_OUT)
    assert total_rho([(event, 1)], relation=NeighboringRelation.ZERO_OUT) == pytest.approx(0.01 * whole)
    assert whole == pytest.approx(1 / (2 * plan.choice.noise_scale**2))
    assert dataclasses.replace(plan.design.settings) == plan.design.settings
