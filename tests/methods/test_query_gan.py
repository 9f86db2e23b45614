"""QueryGAN and its baseline as whole runs: legal cells, totals by other formulas, and the certificate's rate."""

import dataclasses
import itertools
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.marginals.answers import measurements
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.selection.queries import SELECTION_LABEL
from dpwgan.methods import query_gan
from dpwgan.methods.published import one_layer
from dpwgan.methods.query_gan import CERTIFICATE_LABEL, certify_pairs, plan_certificate
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.events import Laplace
from tests.ledgers import Watcher, open_ledger, watch_reads
from tests.marginals.groups import make_groups, make_probabilities, replace_row
from tests.methods.privacy_totals import (
    gaussian_delta,
    split,
    total_rho,
)
from tests.methods.runs import NARROW, fit, make_plan, make_table, reserve
from tests.rows import hold_groups

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
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rule", ["moments", "amortized", "pld"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_claim_is_no_less_than_its_gaussians_alone_prove_when_accounted_by_any_rule(kind, relation, rule, epsilon):
    """The exact curve of the Gaussians of a run, which any sound claim about more than them must lie above."""
    name, chosen = KINDS[kind]
    plan = make_plan(name, make_table(300).shape, epsilon=epsilon, relation=relation, rule=rule, **chosen)
    guarantee = reserve(plan).guarantee()
    assert guarantee.accountant == rule
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon
    charges = [release.charge for release in plan.releases]
    if any(isinstance(event, Laplace) for event, _ in charges):
        assert name == "independent"
        assert guarantee.epsilon >= sum(count * event.get_epsilon(relation) for event, count in charges)
        return
    rho, selections = split(charges, relation=relation)
    assert gaussian_delta(guarantee.epsilon, rho=rho) <= DELTA
    if rule == "pld" and not selections:
        # There is nothing else, and this accountant knows the curve; less well where noise is about one count.
        near = 0.99 if epsilon < 30 else 0.93
        assert gaussian_delta(near * guarantee.epsilon, rho=rho) > 0.98 * DELTA


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_all_that_grows_when_a_table_has_more_of_them(kind):
    name, chosen = KINDS[kind]
    shape = make_table(300).shape
    less, more = (make_plan(name, dataclasses.replace(shape, records=records), **chosen) for records in (300, 300_000))
    assert less.cost.memory_bytes - less.cost.row_bytes == more.cost.memory_bytes - more.cost.row_bytes > 0
    assert more.cost.row_bytes == 1_000 * less.cost.row_bytes
    # Groups are kept in a byte; a network's training keeps a float64 of each row.
    columns = 4 * len(shape.spans) + len(getattr(less.design, "anchor", less.design).columns)
    assert less.cost.row_bytes == 300 * (columns + 8 * (kind == "one-layer"))


READS: list[tuple[Any, str]] = [
    (measurements, "count_pairs"),
    (one_layer.OneHotRows, "sum_slopes"),
    (one_layer.OneHotRows, "sum_scores"),
    (one_layer.OneHotRows, "count_groups"),
]


@pytest.mark.parametrize("kind", ["marginals", "one-layer"])
def test_rows_are_read_behind_the_door_alone_when_networks_or_the_certificate_need_them(kind, monkeypatch):
    name, chosen = KINDS[kind]
    encoded = make_table(100, columns=NARROW[:3])
    plan = make_plan(name, encoded.shape, **chosen)
    watcher = Watcher()
    ledger = reserve(plan, observers=[watcher])
    reads = watch_reads(monkeypatch, ledger, watcher, READS)
    fit(name, encoded, plan, ledger=ledger)
    assert set(reads) - {SELECTION_LABEL} == {release.label for release in plan.design.extra}
    assert Counter(watcher.order) == ledger.charged == {release.label: release.times for release in plan.releases}
    # The certificate is of the final generator: nothing is asked for after it.
    assert watcher.order[-1] == plan.design.extra[-1].label


SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)


def find_worst_error(groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32], *, records: int) -> float:
    """The largest difference of shares over all cells of all pairs, by loops in float64."""
    worst = 0.0
    for left, right in itertools.combinations(range(len(SIZES)), 2):
        for a, b in np.ndindex(SIZES[left], SIZES[right]):
            share = np.count_nonzero((groups[:, left] == a) & (groups[:, right] == b)) / records
            one = probabilities[:, LAYOUT.starts[left] + a].astype(np.float64)
            other = probabilities[:, LAYOUT.starts[right] + b].astype(np.float64)
            worst = max(worst, abs(share - float((one * other).mean())))
    return worst


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (0.9, True), (0.0, True)])
def test_certificate_fails_no_more_often_than_it_says_when_run_again_and_again(share, broken, monkeypatch):
    """Violations are binomial at most; their count passes the bound with probability 1e-6.

    The twins have nine tenths of the slack, and none.
    """
    groups = make_groups(60, sizes=SIZES, seed=1)
    probabilities = make_probabilities(5, sizes=SIZES, seed=2)
    worst = find_worst_error(groups, probabilities, records=60)
    assert 0.05 < worst < 0.9
    slack, counts = query_gan.gaussian_slack, measurements.count_pairs(groups, LAYOUT)
    monkeypatch.setattr(query_gan, "gaussian_slack", lambda **more: share * slack(**more))
    monkeypatch.setattr(measurements, "count_pairs", lambda *_: counts)
    runs, violations = 12_000, 0
    release = plan_certificate(noise_multiplier=3.0, records=60)
    ledger = open_ledger([dataclasses.replace(release, times=runs)], source=3)
    for _ in range(runs):
        certificate = certify_pairs(hold_groups(groups, LAYOUT), probabilities, ledger=ledger)
        assert certificate.failure_probability == 0.05
        violations += certificate.alpha < worst
    assert bool(violations > stats.binom.isf(FALSE_ALARM, runs, 0.05)) is broken
    # Nor is it looser than it has to be: what fails fails at the stated rate.
    assert violations >= stats.binom.ppf(FALSE_ALARM, runs, 0.05)


def certify(
    groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32], *, records: int, noise: float = 2.0
) -> tuple[Certificate, Watcher]:
    watcher = Watcher()
    ledger = open_ledger([plan_certificate(noise_multiplier=noise, records=records)], observers=[watcher])
    return certify_pairs(hold_groups(groups, LAYOUT, records=records), probabilities, ledger=ledger), watcher


def find_exact(*rows: Any, records: int) -> tuple[float, float]:
    """What is given noise, and with what sensitivity."""
    _, watcher = certify(*rows, records=records)
    (exact,), (release,) = watcher.exact, watcher.releases
    return float(exact[0]), release.sensitivity


@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_worst_error_moves_by_no_more_than_one_record_when_a_record_goes_or_changes(records, seed):
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


def test_certificate_is_the_released_error_and_its_slack_when_bounded():
    groups, probabilities = make_groups(60, sizes=SIZES, seed=1), make_probabilities(5, sizes=SIZES, seed=2)
    certificate, watcher = certify(groups, probabilities, records=60)
    stddev = 2.0 * watcher.releases[0].sensitivity
    # 1.6449 stddevs: the quantile that noise passes once in twenty times.
    assert certificate.alpha == pytest.approx(watcher.noisy[0].item() + 1.644854 * stddev, rel=1e-5)
    assert certificate.failure_probability == 0.05
    # No share is off by more than 1, whatever the noise.
    assert 0 <= certify(groups, probabilities, records=60, noise=1e6)[0].alpha <= 1
    described = certificate.describe()
    assert described["kind"] == "two-way marginals"
    assert "alpha" in described["statement"]
    assert described["details"]["cells"] == 3 + 12 + 6 + 4 + 2 + 8


def test_certificate_has_its_hundredth_of_the_budget_when_planned():
    plan = make_plan("query-gan", make_table(300).shape)
    (release,) = plan.design.extra
    event = release.event
    assert (release.label, release.times) == (CERTIFICATE_LABEL, 1)
    assert event.replace_one_factor == 1.0  # as the act itself: see the neighbours' test above
    whole = total_rho([release.charge for release in plan.releases], relation=NeighboringRelation.ZERO_OUT)
    assert total_rho([(event, 1)], relation=NeighboringRelation.ZERO_OUT) == pytest.approx(0.01 * whole)
    assert whole == pytest.approx(1 / (2 * plan.choice.noise**2))
