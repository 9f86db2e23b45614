"""What a unit of K equal rows moves of everything that a method releases: a run, and one of the same history without.

The history is that of the run with the unit: whatever differs before the noise is the unit's influence, known exactly.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from dpwgan.audit.canaries.watch import add_canaries
from dpwgan.errors import PrivacyError
from dpwgan.methods.registry import get_method
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import ExponentialSelection, Gaussian, Laplace, Wishart
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.privacy.unit import Unit
from dpwgan.table.encoded import join
from tests.ledgers import open_for_plan
from tests.methods.runs import VARIANTS, make_table, make_variant
from tests.methods.test_every_method import FORMAL
from tests.privacy.charges import get_epsilon
from tests.rows import make_run

ROWS = [1, 20]
# Whatever releases more than steps of a critic.
COUNTING = [name for name in FORMAL if not name.endswith("none") and VARIANTS[name][0] not in ("dp-gan", "dp-critic")]


class Over(Exception):
    """A critic begins, whose steps are looked at by themselves."""


class History(NoiseSource):
    """Keeps what a run released, before and after the noise, or gives an earlier one's once more."""

    def __init__(self, earlier=None):
        streams = make_streams(3)
        super().__init__(noise=streams.noise, batches=streams.batches)
        self._earlier = earlier
        self.releases, self.exact, self.given = [], [], []

    def _give(self, release, exact, draw):
        self.releases.append(release)
        self.exact.append(np.array(exact, np.float64))
        self.given.append(draw() if self._earlier is None else self._earlier.given[len(self.given)])
        return self.given[-1]

    def add_noise(self, release, exact):
        return self._give(release, exact, lambda: super(History, self).add_noise(release, exact))

    def select(self, release, scores):
        return self._give(release, scores, lambda: super(History, self).select(release, scores))

    def draw_batch(self, release, records):
        raise Over


def play(variant, encoded, plan, earlier=None):
    history = History(earlier)
    run = make_run(encoded, ledger=open_for_plan(plan, source=history), seed=4, records=plan.shape.records)
    with suppress(Over):
        get_method(VARIANTS[variant][0]).fit(plan, run)
    return history


def measure(release, difference):
    """How far a release moved, in its sensitivities."""
    if isinstance(release.event, ExponentialSelection):
        length = np.abs(difference).max()
    elif isinstance(release.event, Laplace):
        length = np.abs(difference).sum()
    elif isinstance(release.event, Wishart):
        length = np.abs(np.linalg.eigvalsh(difference)).sum()
    else:
        length = np.linalg.norm(difference)
    return length / release.sensitivity


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("variant", COUNTING)
def test_a_unit_moves_all_that_is_released_by_its_sensitivity_at_most(variant, rows):
    others = make_table(60)
    unit = add_canaries(others, canaries=1, rng=np.random.default_rng(1)).take(np.repeat(60, rows))
    whole = join([others, unit])
    plan = make_variant(variant, whole.shape, epsilon=50.0, unit=Unit(rows=rows))
    there = play(variant, whole, plan)
    gone = play(variant, others, plan, earlier=there)
    assert [release.label for release in gone.releases] == [release.label for release in there.releases]
    # Arrays that are released as one are charged as one.
    moved = {}
    for release, first, second in zip(there.releases, there.exact, gone.exact, strict=True):
        together = not isinstance(release.event, ExponentialSelection) and release.times == 1
        moved.setdefault((release.label, 0 if together else len(moved)), []).append(measure(release, first - second))
    additive = {release.label: isinstance(release.event, Laplace | Wishart) for release in there.releases}
    totals = {key: sum(own) if additive[key[0]] else float(np.linalg.norm(own)) for key, own in moved.items()}
    assert all(total <= 1 + 1e-9 for total in totals.values()), totals
    # All rows in the same cells reach it; a bound by the root of their number does not hold.
    assert max(totals.values()) > 0.999
    assert rows == 1 or max(totals.values()) * rows > 1.4 * np.sqrt(rows) * 0.999


@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=() if name == "independent" else pytest.mark.slow) for name in FORMAL],
)
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_releases_are_those_that_noise_was_calibrated_for_when_a_unit_has_rows(variant, relation):
    shape = replace(make_table(60).shape, records=3_000)
    # Of this method units are sampled, where a column names them.
    unit = Unit(rows=4, sampled=variant == "dp-wgan, queries")
    plan = make_variant(variant, shape, relation=relation, unit=unit)
    ledger = open_for_plan(plan, no_guarantee=False)
    assert ledger.guarantee().epsilon <= 1.0
    assert ledger.guarantee().unit == unit
    assert ledger.epsilon_reserved() == pytest.approx(get_epsilon(plan.choice), rel=1e-9)
    for release, held in zip(plan.releases, ledger.releases, strict=True):
        assert held == unit.scale_release(release)
        if isinstance(release.event, Gaussian):
            assert held.stddev == pytest.approx(release.stddev)
    # As much noise with a unit forgotten would be planned for less, and not be paid for.
    alone = make_variant(variant, shape, relation=relation)
    with pytest.raises(PrivacyError, match="budget"):
        open_for_plan(alone, no_guarantee=False, unit=unit)
