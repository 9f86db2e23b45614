"""The critic step of several workers: the same distribution as one worker's, whatever their number."""

import functools
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.array_types import Floats
from dpwgan.critic.private_step import FusedStep
from dpwgan.critic.shared_step import GRADIENTS, SharedStep, ShareOfGradients
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.units.units import Units
from tests.critic.tables import flat, make_encoded, make_parts, make_plan, make_steps

FALSE_ALARM = 1e-6
RECORDS, TRIALS = 120, 400


class Everybody(Rows[ShareOfGradients]):
    """The shares of a chief and its followers in one process, who are asked one after the other."""

    def __init__(self, own: ShareOfGradients, followers: list[ShareOfGradients]) -> None:
        super().__init__(own, records=RECORDS)
        self.followers = followers

    def sum(self, task: Sum[ShareOfGradients], *, argument: Any = None, array: Any = None) -> Floats:
        parts = [task.compute(share, argument, array) for share in (self.own, *self.followers)]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]


class Rig:
    """A chief and its followers."""

    def __init__(self, size: int, *, rows_twice: bool = False) -> None:
        self.encoded = make_encoded(RECORDS)
        # The noise's variance is about that of the sampling, so that an error of either shows.
        self.plan = make_plan(
            self.encoded, hidden_critic=(3,), expected_batch_size=40, noise_multiplier=2.0, l2_clip_norm=0.1
        )
        self.size = size
        bounds = [RECORDS * rank // size for rank in range(size + 1)]
        self.rows = [np.arange(low, high) for low, high in pairwise(bounds)]
        if rows_twice:
            self.rows[1] = np.arange(bounds[2])
        parts = [self.encoded.take(rows) for rows in self.rows]
        self.tokens = [make_steps(self.plan, seed=make_streams(7, worker=rank)) for rank in range(size)]
        own, *self.followers = [
            ShareOfGradients(
                part, critic=make_parts(part, self.plan)["critic"], l2_clip_norm=self.plan.clip_target, steps=steps
            )
            for part, steps in zip(parts, self.tokens, strict=True)
        ]
        self.everybody = Everybody(own, self.followers)
        self.own_records = parts[0].records
        self.step = SharedStep(self.everybody, **make_parts(self.encoded, self.plan), steps=self.tokens[0])

    def draw(self) -> Floats:
        """What `TRIALS` steps give away, at the same weights.

        Rows' clipped gradients are computed once and for all: that a sum is the sum of them is tested below.
        """
        for share, rows in zip((self.everybody.own, *self.followers), self.rows, strict=True):
            own = clip_rows()[rows]
            share.sum_rows = lambda batch, own=own: own[batch].sum(axis=0)  # type: ignore[method-assign, misc]
        batches = self.tokens[0].draw_batches(self.own_records, steps=TRIALS)
        return np.array([self.step.noisy_sum(rows) for rows in batches])


@functools.cache
def clip_rows() -> Floats:
    """The clipped gradient of each row by itself. Shapes: (rows, weights)."""
    rig = Rig(1)
    return np.array([rig.everybody.own.sum_rows(np.array([row])) for row in range(RECORDS)])


@functools.cache
def truth() -> tuple[Floats, Floats]:
    """Mean and covariance of one worker's step on all rows."""
    rig, gradients = Rig(1), clip_rows()
    q, stddev = rig.plan.sampling_probability, rig.plan.noise_multiplier * rig.plan.l2_clip_norm
    covariance = q * (1 - q) * gradients.T @ gradients + stddev**2 * np.eye(gradients.shape[1])
    return q * gradients.sum(axis=0), covariance


def p_values(steps: Floats) -> tuple[float, float]:
    """P values of the mean, by chi-square, and of the spread along all axes together, by its own standard error."""
    mean, covariance = truth()
    values, vectors = np.linalg.eigh(covariance)
    white = (steps - mean) @ vectors / np.sqrt(values)
    of_mean = stats.chi2.sf(len(steps) * float(np.square(white.mean(axis=0)).sum()), white.shape[1])
    lengths = np.square(white).sum(axis=1)
    z = (lengths.mean() - white.shape[1]) / (lengths.std() / np.sqrt(len(steps)))
    return float(of_mean), float(2 * stats.norm.sf(abs(z)))


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 4])
def test_steps_have_the_distribution_of_one_worker_when_rows_are_shared_out(size):
    assert min(p_values(Rig(size).draw())) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rig", "noise_of"),
    [
        pytest.param({}, np.sqrt(4.0), id="every worker adds full noise"),
        pytest.param({}, 0.0, id="no worker adds noise"),
        pytest.param({}, 0.5, id="shares of noise a worker short"),
        pytest.param({"rows_twice": True}, 1.0, id="two workers have the same rows"),
    ],
)
def test_broken_twin_is_told_apart_when_noise_or_rows_are_wrong(monkeypatch, rig, noise_of):
    draw = NoiseSource.draw_normal_numbers
    monkeypatch.setattr(NoiseSource, "draw_normal_numbers", lambda *what, **more: noise_of * draw(*what, **more))
    assert min(p_values(Rig(2, **rig).draw())) < FALSE_ALARM


def test_sum_is_that_of_all_rows_when_every_row_is_in_the_batch():
    whole, shared = Rig(1), Rig(3)
    plan = make_plan(shared.encoded, hidden_critic=(3,), expected_batch_size=RECORDS, l2_clip_norm=0.1)
    for follower in shared.followers:
        follower._steps = make_steps(plan)
    weights = flat(shared.step._critic.weights)
    own = np.arange(shared.own_records)
    shared.everybody.own.take(own)
    total = shared.everybody.sum(GRADIENTS, array=weights)
    assert total == pytest.approx(whole.everybody.own.sum_rows(np.arange(RECORDS)), rel=1e-3, abs=1e-6)
    assert total == pytest.approx(clip_rows().sum(axis=0), rel=1e-3, abs=1e-6)
    assert np.linalg.norm(clip_rows(), axis=1).max() <= 0.1


def test_sum_of_a_unit_is_that_of_one_machine_and_no_longer_than_the_clip_when_units_are_shared_out():
    encoded, of_rows = make_encoded(RECORDS), np.arange(RECORDS, dtype=np.int32) // 4
    plan = make_plan(encoded, hidden_critic=(3,), l2_clip_norm=0.02)
    whole, share = Units(of_rows), 0.25

    def make(rows: npt.NDArray[np.int64], units: Units | None) -> ShareOfGradients:
        part, steps = encoded.take(rows), make_steps(plan)
        more: dict[str, Any] = {"critic": make_parts(part, plan)["critic"], "steps": steps, "units": units}
        return ShareOfGradients(part, l2_clip_norm=plan.clip_target, share=share, **more)

    alone = FusedStep(encoded, **make_parts(encoded, plan), steps=make_steps(plan), units=whole)
    first = make(np.arange(60), Units(of_rows[:60], elsewhere=15))
    second = make(np.arange(60, RECORDS), Units(of_rows[60:] - 15, elsewhere=15))
    both = first.sum_rows(np.array([2, 7])) + second.sum_rows(np.array([0, 9]))
    sums = alone.clipped_sums(tf.constant([2, 7, 15, 24]))[0]
    np.testing.assert_allclose(both, flat(sums), rtol=1e-4, atol=1e-7)
    lengths = [np.linalg.norm(second.sum_rows(np.array([unit]))) for unit in range(15)]
    assert max(lengths) <= 0.02
    # The twin: with the rows of a unit on two workers, each of which clips its own, it adds more.
    halves = [
        make(np.array([60, 61]), Units(np.zeros(2, np.int32))),
        make(np.array([62, 63]), Units(np.zeros(2, np.int32))),
    ]
    assert np.linalg.norm(sum(half.sum_rows(np.array([0])) for half in halves)) > 0.02


def test_noise_is_all_that_the_chief_drew_when_the_batch_is_empty():
    rig = Rig(1)
    noisy = rig.step.noisy_sum(np.zeros(0, np.int64))
    drawn = make_steps(rig.plan, seed=make_streams(7)).draw_normal_numbers(noisy.size, step_noise="fast")
    assert noisy == pytest.approx(drawn.astype(np.float64), rel=1e-6)


def test_step_moves_the_critic_when_batches_are_empty():
    rig = Rig(2)
    before = [weight.numpy().copy() for weight in rig.step._critic.weights]
    rig.step(np.zeros(0, np.int64), learning_rate=0.01)
    assert any((weight.numpy() != old).any() for weight, old in zip(rig.step._critic.weights, before, strict=True))
    empty = rig.followers[0].sum_rows(np.zeros(0, np.int64))
    assert empty.tolist() == [0.0] * sum(weight.size for weight in before)
