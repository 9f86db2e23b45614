"""The private step: both engines, the noise, the divisor, the empty batch."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.critic import optimizers
from dpwgan.critic.private_step import FusedStep
from dpwgan.table.units.units import Units
from tests.critic.tables import (
    HAS_REFERENCE,
    flat,
    make_encoded,
    make_parts,
    make_plan,
    make_steps,
    needs_reference,
    running_eagerly,
)
from tests.normal_law import has_variance

if HAS_REFERENCE:
    from dpwgan.critic.reference_step import ReferenceStep

    ENGINES = {"fused": FusedStep, "reference": ReferenceStep}
else:
    ENGINES = {"fused": FusedStep}
FALSE_ALARM = 1e-6


def make_step(engine: str = "fused", *, records: int = 200, **settings: Any) -> "FusedStep | ReferenceStep":
    """Makes the step of a plan with these settings on a table, drawn alike each time."""
    encoded = make_encoded(records)
    plan = make_plan(encoded, **settings)
    return ENGINES[engine](encoded, **make_parts(encoded, plan), steps=make_steps(plan, seed=5))


def noisy_sums(step: "FusedStep | ReferenceStep", rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """What rows give away in one step, with the noise that the step itself draws."""
    seen: list[npt.NDArray[np.float64]] = []
    apply = step._update.apply

    def watch(noisy: list[tf.Tensor], fakes: list[tf.Tensor], **more: object) -> None:
        seen.append(flat(noisy))
        apply(noisy, fakes, **more)  # type: ignore[arg-type]

    step._update.apply = watch  # type: ignore[method-assign, assignment]
    with running_eagerly():
        step(rows, learning_rate=0.01)
    step._update.apply = apply  # type: ignore[method-assign]
    return seen[0]


@needs_reference
def test_engines_give_the_same_noisy_sums_when_batch_and_noise_are_the_same():
    rows = np.array([0, 3, 4, 50, 51, 120, 199])
    fused, reference = (noisy_sums(make_step(kind, l2_clip_norm=0.5, step_noise="plain"), rows) for kind in ENGINES)
    assert np.max(np.abs(fused - reference)) <= 1e-5 * np.max(np.abs(reference))


@needs_reference
@pytest.mark.slow
@pytest.mark.parametrize("l2_clip_norm", [0.01, 100.0])
def test_engines_reach_the_same_weights_when_they_take_the_same_steps(l2_clip_norm):
    # Without noise to drown a difference; RMSProp makes the first steps as long as the learning rate.
    settings = {"l2_clip_norm": l2_clip_norm, "noise_multiplier": 1e-6, "step_noise": "plain"}
    steps = {engine: make_step(engine, **settings) for engine in ENGINES}
    rng = np.random.default_rng(6)
    for _ in range(4):
        rows = np.flatnonzero(rng.random(200) < 0.2)
        for step in steps.values():
            step(rows, learning_rate=0.01)
    for mine, other in zip(steps["fused"]._critic.weights, steps["reference"]._critic.weights, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 5, 20])
def test_a_unit_adds_no_more_than_the_clip_when_units_are_sampled(rows):
    """Rows of a unit that are alike, and rows that are not; a batch with it, and without."""
    others = make_encoded(30)
    alike = others.take(np.concatenate([np.arange(30), np.full(rows, 3)]))
    of_rows = np.concatenate([np.arange(30) // 3, np.full(rows, 10)]).astype(np.int32)
    for clip, place in ((1e-3, 10), (1e-3, 4), (1e6, 10)):
        plan = make_plan(alike, l2_clip_norm=clip)
        parts = make_parts(alike, plan)
        for weight in parts["critic"].weights:
            weight.assign(weight + 0.1)
        step = FusedStep(alike, **parts, steps=make_steps(plan), units=Units(of_rows))
        batch = np.array([0, 2, place, 7])
        moved = flat(step.clipped_sums(tf.constant(batch))[0]) - flat(
            step.clipped_sums(tf.constant(batch[batch != place]))[0]
        )
        assert np.linalg.norm(moved) <= clip
        alone = flat(step.clipped_sums(tf.constant([place]))[0])
        by_rows = FusedStep(alike, **parts, steps=make_steps(plan))
        own = np.flatnonzero(of_rows == place)
        unclipped = flat(by_rows.clipped_sums(tf.constant(own))[0])
        if clip == 1e6:
            # Nothing is clipped: each row counts by the mean size of a unit.
            np.testing.assert_allclose(alone, unclipped * 11 / len(of_rows), rtol=1e-4, atol=1e-6)
        elif place == 10:
            # Rows that are alike reach the clip; each by itself, they would pass it.
            assert np.linalg.norm(alone) > 0.999 * clip
            assert rows == 1 or np.linalg.norm(unclipped) > 1.9 * clip
    assert np.all(flat(step.clipped_sums(tf.constant([], tf.int64))[0]) == 0)


def test_sums_are_those_of_rows_when_each_unit_has_one():
    encoded = make_encoded(40)
    plan = make_plan(encoded, l2_clip_norm=0.05)
    parts, rows = make_parts(encoded, plan), tf.constant([1, 5, 6, 30], tf.int64)
    # Units are numbered otherwise than rows.
    units = Units(np.arange(40, dtype=np.int32)[::-1].copy())
    by_units = FusedStep(encoded, **parts, steps=make_steps(plan), units=units).clipped_sums(39 - rows)[0]
    by_rows = FusedStep(encoded, **parts, steps=make_steps(plan)).clipped_sums(rows)[0]
    np.testing.assert_allclose(flat(by_units), flat(by_rows), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
def test_step_is_pure_noise_when_the_batch_is_empty(engine):
    step = make_step(engine)
    before = flat(step._critic.weights)
    released = noisy_sums(step, np.zeros(0, np.int64))
    assert np.all(released != 0.0)
    assert np.all(np.isfinite(flat(step._critic.weights)))
    assert np.any(flat(step._critic.weights) != before)


@pytest.mark.statistical
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("engine", "step_noise"), [(engine, "plain") for engine in ENGINES] + [("fused", "fast")])
def test_noise_has_the_planned_variance_when_measured_by_chi_square(monkeypatch, engine, step_noise, compiled):
    monkeypatch.setattr(optimizers, "_COMPILED_FROM", 0 if compiled else 10**18)
    step = make_step(engine, hidden_critic=(200, 100), l2_clip_norm=0.3, step_noise=step_noise)
    released = noisy_sums(step, np.zeros(0, np.int64))
    stddev = step._plan.noise_multiplier * step._plan.l2_clip_norm
    assert len(released) >= 20_000
    assert has_variance(released, stddev=stddev)
    assert stats.kstest(released / stddev, "norm").pvalue > FALSE_ALARM
    # The twin: noise a tenth too low must be found out, on as few as 5,000 numbers.
    assert not has_variance(0.9 * released[:5_000], stddev=stddev)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_noise_is_fresh_when_two_steps_share_a_stream(monkeypatch, engine, compiled):
    monkeypatch.setattr(optimizers, "_COMPILED_FROM", 0 if compiled else 10**18)
    step = make_step(engine)
    one, other = (noisy_sums(step, np.zeros(0, np.int64)) for _ in range(2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(len(one))


def test_update_divides_by_the_public_batch_size_when_the_batch_is_larger():
    step = make_step(gradient_memory=0.0, noise_multiplier=1e-6)
    plan = step._plan
    seen: list[npt.NDArray[np.float64]] = []

    def watch(gradients: list[tf.Tensor], learning_rate: tf.Tensor, *, measured: list[tf.Tensor]) -> None:
        seen.extend([flat(gradients), flat(measured)])

    step._update._optimizer.apply = watch  # type: ignore[method-assign]
    like = step._critic.weights
    sums = [tf.ones_like(weight) for weight in like]
    none = [tf.zeros_like(weight) for weight in like]
    step._update.apply(sums, none, learning_rate=tf.constant(0.1))
    for gradient in seen:
        np.testing.assert_allclose(gradient, 1.0 / (plan.expected_batch_size * plan.l2_clip_norm), rtol=1e-6)
    assert plan.expected_batch_size == 20.0


def test_weights_stay_inside_the_box_when_the_learning_rate_is_large():
    step = make_step(weight_clip=0.05)
    step(np.arange(20), learning_rate=10.0)
    assert np.max(np.abs(flat(step._critic.weights))) <= np.float32(0.05)


def test_weights_stay_where_they_began_when_there_is_nothing_to_learn():
    """A box too small for the first weights must not push the critic away from them, step after step."""
    step = make_step(weight_clip=0.05)
    zeros = [tf.zeros_like(weight) for weight in step._critic.weights]
    for _ in range(3):
        step._update.apply(zeros, zeros, learning_rate=tf.constant(0.1))
    np.testing.assert_array_equal(flat(step._critic.weights), flat(step._critic.initial))


@pytest.mark.parametrize("margin", [True, False])
def test_sum_moves_by_at_most_the_clip_norm_when_the_batch_is_the_largest_and_a_row_is_taken_out(margin):
    """In float32, where taking a row out re-rounds the sum of the other 8,191; without the margin it fails."""
    encoded = make_encoded(8_192)
    plan = make_plan(encoded, expected_batch_size=8_192, l2_clip_norm=0.01, hidden_critic=(128, 128))
    critic = make_parts(encoded, plan)["critic"]
    clipped_to = plan.clip_target if margin else plan.l2_clip_norm

    def total(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        codes, numbers = tf.constant(encoded.codes[rows]), tf.constant(encoded.numbers[rows])
        return flat(critic.clipped_sum_of_rows(codes, numbers, l2_clip_norm=clipped_to))

    whole = total(np.arange(8_192))
    moved = max(np.linalg.norm(whole - total(np.delete(np.arange(8_192), gone))) for gone in (0, 1, 4_000, 8_191))
    assert bool(moved <= plan.l2_clip_norm) is margin


def test_margin_of_the_clip_grows_with_rows_when_units_have_many():
    """What float32 sums are off by does: on one core, by 5e-4 of C here, where a margin by units would be 2e-4."""
    units, most = 2_000, 50
    encoded = make_encoded(1).take(np.zeros(units * most, np.int64))
    plan = make_plan(encoded, expected_batch_size=units * most, l2_clip_norm=0.01, hidden_critic=(64,))
    of_rows = np.repeat(np.arange(units, dtype=np.int32), most)
    step = FusedStep(encoded, **make_parts(encoded, plan), steps=make_steps(plan), units=Units(of_rows))
    whole, rest, alone = (
        flat(step.clipped_sums(tf.range(*of, dtype=tf.int64))[0]) for of in ((0, units), (1, units), (0, 1))
    )
    assert np.linalg.norm(whole - rest) <= plan.l2_clip_norm
    assert np.linalg.norm(alone) == pytest.approx(plan.clip_target, rel=1e-4)


@pytest.mark.slow
def test_update_moves_the_weights_alike_when_it_is_compiled(monkeypatch):
    moved = []
    for least in (0, 10**18):
        monkeypatch.setattr(optimizers, "_COMPILED_FROM", least)
        # Noise of the one kind that both take alike.
        step = make_step(hidden_critic=(40, 30), step_noise="plain")
        for _ in range(3):
            step(np.arange(20), learning_rate=0.01)
        moved.append(flat(step._critic.weights))
    np.testing.assert_allclose(*moved, atol=1e-6)
    assert np.any(moved[0] != flat(step._critic.initial))


def test_each_weight_has_numbers_of_its_own_when_the_step_is_one_cluster(monkeypatch):
    monkeypatch.setattr(optimizers, "_COMPILED_FROM", 0)
    # Odd numbers of rows and of columns, so that halves are not of one size.
    step = make_step(hidden_critic=(41, 13))
    assert isinstance(step, FusedStep)
    drawn = step.draw_noise(1)[0]
    assert drawn.dtype == tf.uint32
    noise = step.make_noise(drawn)
    assert [part.shape for part in noise] == [weight.shape for weight in step._critic.weights]
    numbers = np.abs(flat(noise))
    assert len(np.unique(numbers)) > 0.99 * len(numbers)
    assert np.mean(numbers**2) == pytest.approx((step._plan.noise_multiplier * step._plan.l2_clip_norm) ** 2, rel=0.12)
    # The twin: a step that begins anew with each weight would give some of them the same.
    twin = np.abs(flat([part.numpy().ravel()[:10] for part in [noise[0]] * len(noise)]))
    assert len(np.unique(twin)) < 0.99 * len(twin)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [1.0, 0.9])
def test_weights_feel_noise_of_the_planned_size_when_the_step_is_one_cluster(monkeypatch, share):
    """The mean of noisy gradients as the cluster leaves it, not as it is traced; a tenth less noise must be found."""
    monkeypatch.setattr(optimizers, "_COMPILED_FROM", 0)
    step = make_step(hidden_critic=(200, 100), gradient_memory=0.0)
    assert isinstance(step, FusedStep)
    plan = step._plan
    make_noise = step.make_noise
    step.make_noise = lambda drawn: [share * part for part in make_noise(drawn)]  # type: ignore[method-assign]
    step(np.zeros(0, np.int64), learning_rate=0.01)
    kept = flat(step._update._memory) * plan.expected_batch_size
    assert has_variance(kept, stddev=plan.noise_multiplier * plan.l2_clip_norm) is not (share < 1.0)
