"""An attacker against RON-Gauss who is shown both releases and knows every row but one, without a delta.

The canary is there or null. What differs before the noise is its influence, known exactly. The attacker guesses by the
likelihood ratio of what is released, which no other guess is better than; how often the guesses are right bounds
epsilon from below. Runs are seeded; each bound may be wrong with probability 1e-6.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpwgan.audit.canaries.watch import add_canaries
from dpwgan.gaussians import class_moments
from dpwgan.marginals.one_way.one_ways import ONE_WAYS_LABEL, begin_one_ways
from dpwgan.methods import ron_gauss_tables
from dpwgan.methods.ron_gauss_tables import COVARIANCE_LABEL
from dpwgan.privacy.events import Laplace, Wishart
from dpwgan.privacy.mechanisms.laplace import add_laplace_noise
from dpwgan.privacy.mechanisms.wishart import add_wishart_noise
from dpwgan.privacy.release import Noisy
from tests.audit.canaries.two_worlds import bound_by_two_worlds
from tests.ledgers import Watcher
from tests.methods.runs import NARROW, fit, make_plan, make_table, reserve

FALSE_ALARM = 1e-6
DRAWS = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Worlds:
    """One release in both worlds. Units: whole numbers of the grid, as the mechanism is given them."""

    there: np.ndarray
    null: np.ndarray
    sensitivity: int
    epsilon: float


def watch_run(
    monkeypatch: pytest.MonkeyPatch, *, seed: int, columns: Any = NARROW, **settings: Any
) -> dict[str, Worlds]:
    """Fits once, and works out what either release would have been of had the canary been null: one history."""
    encoded = add_canaries(make_table(60, columns=columns), canaries=1, rng=np.random.default_rng(seed))
    present = np.arange(encoded.records) < encoded.records - 1
    plan = make_plan("ron-gauss", encoded.shape, epsilon=2.0, **settings)
    add_up = ron_gauss_tables.sum_products
    sums: list[np.ndarray] = []

    def both(groups: Any, to_points: Any, *, dimension: int) -> Any:
        sums.append(add_up(groups[present], to_points, dimension=dimension))
        return add_up(groups, to_points, dimension=dimension)

    watcher = Watcher()
    with monkeypatch.context() as patch:
        patch.setattr(ron_gauss_tables, "sum_products", both)
        fit("ron-gauss", encoded, plan, ledger=reserve(plan, observers=[watcher], source=seed), seed=seed)
    one_way_plan, there = plan.design.one_way_plan, encoded.take(present)
    measured, without = [begin_one_ways(one_way_plan)], {}
    for look, (release, noisy) in enumerate(zip(watcher.releases[:-1], watcher.noisy, strict=False)):
        blocks = [measured[0].choose_blocks(look)]
        without[release.label] = class_moments.count_classes([there], one_way_plan, look, blocks, sized=False)
        measured, _ = class_moments.read_classes(
            Noisy(values=noisy, stddev=release.stddev), look, blocks, measured=measured
        )
    without[COVARIANCE_LABEL] = sums[0]
    assert watcher.order == list(without)
    return {
        line.label: Worlds(
            there=there, null=without[line.label], sensitivity=int(line.sensitivity), epsilon=line.event.epsilon
        )
        for line, there in zip(watcher.releases, watcher.exact, strict=True)
    }


def draw_releases(values: np.ndarray, worlds: Worlds, *, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Draws the mechanism many times. Shapes: (DRAWS, numbers)."""
    epsilon = worlds.epsilon / noise
    if worlds.there.ndim == 1:
        tiled = np.tile(values, (DRAWS, 1))
        return add_laplace_noise(tiled, Laplace(epsilon=epsilon), sensitivity=worlds.sensitivity, rng=rng)
    # Of one number the law is Laplace's, and so are the odds that the attacker goes by.
    matrix = values.reshape(1, 1)
    event = Wishart(epsilon=epsilon)
    draws = [add_wishart_noise(matrix, event, trace_bound=worlds.sensitivity, rng=rng)[0][0] for _ in range(DRAWS)]
    return np.array(draws)


def bound_epsilon(worlds: Worlds, *, noise: float = 1.0) -> float:
    """Bounds epsilon from below by guesses on fresh draws of the mechanism; `noise` of 1 is what it claims to add."""
    moved = worlds.there != worlds.null  # the other numbers say nothing
    there, null = worlds.there[moved], worlds.null[moved]
    rng = np.random.default_rng(9)
    ratios = []
    for values in (there, null):
        released = draw_releases(values, worlds, noise=noise, rng=rng)
        ratios.append((np.abs(released - null) - np.abs(released - there)).sum(axis=1) / worlds.sensitivity)
    # The threshold is chosen on one half, the rates are bounded on the other: one rate from below, one from above.
    half = DRAWS // 2
    best = 0.0
    for one, other in ((ratios[0], ratios[1]), (-ratios[1], -ratios[0])):
        thresholds = np.quantile(np.concatenate((one[:half], other[:half])), np.linspace(0.02, 0.98, 49))
        scores = [
            math.log(max(np.mean(one[:half] >= t), 1e-9) / max(np.mean(other[:half] >= t), 20 / half))
            for t in thresholds
        ]
        threshold = thresholds[int(np.argmax(scores))]
        hits, errors = int(np.sum(one[half:] >= threshold)), int(np.sum(other[half:] >= threshold))
        bound = bound_by_two_worlds(
            hits=hits, false_alarms=errors, trials=half, delta=0.0, failure_probability=FALSE_ALARM / 2
        )
        best = max(best, bound)
    return best


@pytest.mark.parametrize("seed", range(6))
def test_influence_of_a_canary_is_within_the_sensitivity_when_it_is_null(seed, monkeypatch):
    worlds = watch_run(monkeypatch, seed=seed)
    counts, covariance = worlds[ONE_WAYS_LABEL], worlds[COVARIANCE_LABEL]
    # One semidefinite matrix of rank 1, of trace within the bound.
    values = np.linalg.eigvalsh((covariance.there - covariance.null).astype(np.float64))
    assert 0 < values[-1] <= covariance.sensitivity
    assert np.abs(values[:-1]).max() < 1e-3 * values[-1]
    assert np.abs(counts.there - counts.null).sum() == counts.sensitivity
    assert sum(each.epsilon for each in worlds.values()) <= 2.0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("label", [ONE_WAYS_LABEL, COVARIANCE_LABEL])
def test_bound_stays_below_the_claim_and_passes_it_when_noise_is_halved(label, monkeypatch):
    """One column and one dimension: all of the canary's influence is on one number, where guesses are best."""
    runs = [watch_run(monkeypatch, seed=seed, columns=NARROW[:1], projection_dimension=1)[label] for seed in range(12)]
    worlds = max(runs, key=lambda each: np.abs(each.there - each.null).sum() / each.sensitivity)
    assert np.abs(worlds.there - worlds.null).sum() > 0.98 * worlds.sensitivity
    bound = bound_epsilon(worlds)
    assert 0.7 * worlds.epsilon < bound <= worlds.epsilon
    assert bound_epsilon(worlds, noise=0.5) > worlds.epsilon
