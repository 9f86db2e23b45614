"""The bound by releases: below the claim of every formal method, above it for every broken twin.

Runs are seeded, so a test gives the same answer each time; each bound may be wrong with probability 1e-6.
"""

import contextlib
import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpwgan.audit.canaries.lower_bound import Signal, epsilon_of_signals
from dpwgan.audit.canaries.watch import Record, Seen
from dpwgan.audit.canaries.white_box import (
    WhiteBoxBound,
    _epsilon_of_pairs,
    _measure_releases,
    audit_releases,
    refuse_unseen,
)
from dpwgan.critic import critic
from dpwgan.critic.critic import clip_factors
from dpwgan.errors import AuditError
from dpwgan.marginals.one_way.one_ways import ONE_WAYS_LABEL
from dpwgan.methods.independent import Independent
from dpwgan.methods.registry import METHODS as REGISTRY
from dpwgan.privacy.events import ExponentialSelection, Gaussian, PoissonGaussian
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Noisy
from dpwgan.privacy.unit import Unit
from tests.audit.canaries import runs
from tests.audit.canaries.broken import CLIPS, SOURCES, TWINS, broken_clip
from tests.audit.canaries.runs import METHODS, OF_IMAGES, make_plan, make_table, make_units
from tests.ledgers import make_release, open_ledger

FALSE_ALARM = 1e-6


@functools.cache
def audit(name: str, *, epsilon: float, twin: str = "") -> WhiteBoxBound:
    encoded = make_table(images=name in OF_IMAGES)
    run_plan = make_plan(name, encoded, epsilon=epsilon)
    with broken_clip(twin) if twin in CLIPS else contextlib.nullcontext():
        return audit_releases(
            encoded,
            run_plan,
            canary=encoded.records - 1,
            failure_probability=FALSE_ALARM,
            seed=5,
            make_source=SOURCES.get(twin, NoiseSource),
        )


AUDITED_ELSEWHERE = {"ron-gauss"}
"""In test_ron_gauss.py: Laplace noise is not what the bound by releases is about."""


NOT_AUDITED = {"loss-noise-gan"}
"""It promises nothing that could be audited; neither does dp-critic but for its --formal."""


def test_every_method_of_the_registry_is_audited():
    assert {method for method, _ in METHODS.values()} | AUDITED_ELSEWHERE | NOT_AUDITED == set(REGISTRY)


# Each at an epsilon at which its twins are caught.
AT_ONE = ("dp-wgan, queries", "query-gan, one-layer", "ron-gauss, gaussian")
FORMAL = {name: 1.0 if name in AT_ONE else 8.0 for name in METHODS}
LEAST_FOUND = {
    **dict.fromkeys(("dp-wgan, none", "ron-gauss, gaussian"), 0.5),
    **dict.fromkeys(("dp-gan", "ron-dp-gan"), 0.4),
    **dict.fromkeys(("dp-gan, images", "dp-critic, formal", "dp-critic, formal images", "ron-gauss, images"), 0.3),
    "query-gan, one-layer": 0.25,
}


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "epsilon"), FORMAL.items())
def test_bound_stays_below_the_claim_when_the_method_is_formal(name, epsilon):
    bound = audit(name, epsilon=epsilon)
    releases = make_plan(name, make_table(images=name in OF_IMAGES), epsilon=epsilon).plan.releases
    assert not bound.passes_the_claim
    assert bound.claimed <= epsilon
    # It is not empty: few numbers and a tiny chance of being wrong leave this much of it.
    assert bound.found > LEAST_FOUND.get(name, 0.6) * bound.claimed
    assert [line.label for line in bound.lines] == [release.label for release in releases]
    for line, release in zip(bound.lines, releases, strict=True):
        assert line.releases == release.times
        if isinstance(release.event, ExponentialSelection):
            assert line.found is None
            continue
        assert line.found is not None
        assert line.influence is not None
        assert line.noise_multiplier_measured_at_most is not None
        assert line.noise_multiplier_claimed is not None
        assert line.found <= line.claimed_epsilon
        assert line.influence <= 1.0 + 1e-9
        assert line.noise_multiplier_measured_at_most >= 0.99 * line.noise_multiplier_claimed


CAUGHT = [
    *(("dp-wgan, none", twin, 8.0) for twin in TWINS),
    ("independent", "noise halved", 8.0),
    ("ron-gauss, label", "noise halved", 8.0),
    ("ron-gauss, images", "noise halved", 8.0),
    ("ron-dp-gan", "noise halved", 8.0),
    ("query-gan", "noise halved", 8.0),
    *((name, "noise halved", 8.0) for name in ("dp-critic, formal", "dp-critic, formal images", "dp-gan, images")),
    *((name, "no clipping", 8.0) for name in ("dp-critic, formal", "dp-critic, formal images", "dp-gan, images")),
    ("query-gan, one-layer", "noise halved", 16.0),
    ("query-gan, one-layer", "same noise twice", 1.0),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "twin", "epsilon"), CAUGHT)
def test_bound_passes_the_claim_when_the_mechanism_is_broken(name, twin, epsilon):
    bound = audit(name, epsilon=epsilon, twin=twin)
    assert bound.found > bound.claimed
    assert bound.passes_the_claim


def audit_units(name: str) -> WhiteBoxBound:
    encoded, units = make_units(rows=4)
    runs._plan.cache_clear()  # a twin plans for less
    run_plan = make_plan(name, encoded, epsilon=8.0, rows=4)
    return audit_releases(
        encoded, run_plan, canary=units.count - 1, failure_probability=FALSE_ALARM, seed=5, units=units
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("independent", 0.6),
        ("query-gan", 0.6),
        ("dp-wgan, none", 0.3),
        pytest.param("dp-gan", 0.05, marks=pytest.mark.slow),  # rows are sampled apart: one of them is watched
    ],
)
def test_bound_stays_below_the_claim_when_a_canary_is_a_unit(name, least):
    bound = audit_units(name)
    assert not bound.passes_the_claim
    assert least * bound.claimed < bound.found <= bound.claimed <= 8.0
    influences = [line.influence for line in bound.lines if line.influence is not None]
    assert influences
    assert max(influences) <= 1.0 + 1e-9


def clip_rows_alone(units: Any, squared_norm: Any, *, share: float, l2_clip_norm: float) -> Any:
    return share * clip_factors(squared_norm, l2_clip_norm=l2_clip_norm / share)


@pytest.mark.statistical
@pytest.mark.parametrize("twin", ["root of the rows", "rows clipped alone"])
def test_bound_passes_the_claim_when_a_unit_counts_for_less(monkeypatch, twin):
    if twin == "root of the rows":
        scale = Unit.scale
        monkeypatch.setattr(Unit, "scale", lambda unit, event: scale(replace(unit, rows=math.isqrt(unit.rows)), event))
    else:
        monkeypatch.setattr(critic, "clip_units", clip_rows_alone)
    bound = audit_units("independent" if twin == "root of the rows" else "dp-wgan, none")
    assert bound.found > bound.claimed
    assert bound.passes_the_claim


@pytest.mark.slow
@pytest.mark.statistical
def test_a_line_passes_its_claim_when_the_critic_beside_an_anchor_is_broken():
    """The critic's share is small beside an anchor: its twin shows in its own line where the whole hides it."""
    bound = audit("dp-wgan, queries", epsilon=1.0, twin="clipping per tensor")
    passing = [line.label for line in bound.lines if line.passes_the_claim]
    assert passing == ["critic steps"]
    assert bound.passes_the_claim


@pytest.mark.slow
def test_influences_are_the_sensitivities_when_counts_are_released():
    bound = audit("dp-wgan, queries", epsilon=1.0)
    lines = {line.label: line for line in bound.lines}
    assert lines["one-way counts"].influence == pytest.approx(1.0)
    assert lines["critic steps"].influence == pytest.approx(1.0, abs=2e-3)


INFLUENCES = [np.eye(4)[i % 4] for i in range(6)]


def make_releases(rng: np.random.Generator) -> list[Seen]:
    noisy = [Noisy(values=rng.standard_normal(4), stddev=1.0) for _ in range(6)]
    return [Seen(line="", sensitivity=1.0, exact=np.zeros(4), noisy=each) for each in noisy]


def measure(releases: list[Seen], influences: list[Any], *, share: float) -> tuple[float, float]:
    """The signal's strength and the largest influence of a line that has the looks of its plan alone."""
    signal, _, influence = _measure_releases(releases, influences, looks=releases, share=share)
    return signal.strength, influence


@pytest.mark.statistical
def test_signal_is_too_strong_as_seldom_as_stated_when_noise_is_what_it_claims_to_be():
    """1,000 lines of six releases of four numbers; each of the two bounds of a line may fail one time in twenty."""
    rng = np.random.default_rng(6)
    failures = 0
    for _ in range(1_000):
        strength, influence = measure(make_releases(rng), INFLUENCES, share=0.05)
        failures += strength > math.sqrt(6)
        assert influence == 1.0
    assert failures <= stats.binom.isf(FALSE_ALARM, 1_000, 0.1)


def test_signal_is_found_in_differences_when_noise_is_used_twice():
    rng = np.random.default_rng(7)
    releases = make_releases(rng)
    twice = [releases[i - i % 2] for i in range(6)]
    assert measure(releases, INFLUENCES, share=0.01)[0] < math.sqrt(6)
    assert measure(twice, INFLUENCES, share=0.01)[0] > 1e6
    # A canary that adds the same to both drops out with the noise: then there is nothing to be had of it.
    assert measure(twice, [np.eye(4)[0]] * 6, share=0.01)[0] < math.sqrt(6)


@pytest.mark.statistical
def test_epsilon_of_pairs_stays_below_the_truth_when_the_noise_of_two_steps_is_fresh():
    """The difference of two steps has sqrt 2 of the noise of either; all the steps together show more than it."""
    for strength, rate, pairs in ((0.5, 0.1, 50), (3.0, 0.3, 10), (5.0, 0.5, 1)):
        found = _epsilon_of_pairs(strength / math.sqrt(2), rate=rate * (1 - rate), pairs=pairs, delta=1e-6)
        truth = epsilon_of_signals([Signal(strength, rate, 2 * pairs)], delta=1e-6)
        assert found <= truth + 0.01
    assert _epsilon_of_pairs(1e6, rate=0.1, pairs=50, delta=1e-6) > 20
    assert _epsilon_of_pairs(1e6, rate=0.1, pairs=0, delta=1e-6) == 0.0


def test_audit_fails_when_it_did_not_see_a_line_of_the_ledger():
    lines = [
        make_release("counts", Gaussian(noise_multiplier=9.0)),
        make_release("selections", ExponentialSelection(epsilon=0.1), 2),
        make_release("steps", PoissonGaussian(sampling_probability=0.1, noise_multiplier=9.0), 3),
    ]
    record = Record()
    ledger = open_ledger(lines, observers=[record])
    ledger.release("counts", lambda: np.ones(4))
    ledger.select("selections", lambda: [1.0, 2.0])
    with pytest.raises(AuditError, match=r"selections \(1 of 2\), steps \(0 of 3\)$"):
        refuse_unseen(ledger.releases, record)
    ledger.select("selections", lambda: [1.0, 2.0])
    refuse_unseen(ledger.releases[:2], record)


def test_audit_fails_when_a_method_charges_and_does_not_go_through_the_door():
    class Beside(Independent):
        """Charges for its counts, and lets them out by a way of its own."""

        def fit(self, plan: Any, run: Any) -> Any:
            run.ledger.charge(ONE_WAYS_LABEL)

    encoded = make_table()
    run_plan = replace(make_plan("independent", encoded), method=Beside())
    with pytest.raises(AuditError, match="one-way counts"):
        audit_releases(encoded, run_plan, canary=0, seed=5)
