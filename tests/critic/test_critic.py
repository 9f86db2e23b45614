"""Clipped sums of the critic against a plain loop in float64, and the sensitivity that the accounting rests on."""

from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.critic.critic import LEAK, Critic, clip_factors
from dpwgan.critic.plan import choose_generated_batch
from dpwgan.critic.rows import densify
from tests.critic.tables import flat, length, make_encoded

Array = npt.NDArray[np.float64]


def make_critic(*, hidden: tuple[int, ...] = (7, 5), seed: int = 1) -> Critic:
    critic = Critic(make_encoded(1).spans, hidden=hidden, weight_clip=1.0, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    for weight in critic.weights:  # biases start at 0, which would hide mistakes
        weight.assign(weight + 0.1 * rng.standard_normal(weight.shape))
    return critic


def gradient_of_one_row(critic: Critic, row: Array) -> list[Array]:
    """The gradient of the score of one dense row, by the chain rule, one layer after the other, in float64."""
    weights = [weight.numpy().astype(np.float64) for weight in critic.weights]
    activations, before = [row], []
    for kernel, bias in zip(weights[:-1:2], weights[1::2], strict=True):
        before.append(activations[-1] @ kernel + bias)
        activations.append(np.where(before[-1] > 0, before[-1], LEAK * before[-1]))
    gradients = [activations[-1][:, None]]
    error = weights[-1][:, 0]
    for layer in range(len(before) - 1, -1, -1):
        error = error * np.where(before[layer] > 0, 1.0, LEAK)
        gradients = [np.outer(activations[layer], error), error, *gradients]
        error = weights[2 * layer] @ error
    return gradients


def clip_jointly(gradients: list[Array], *, l2_clip_norm: float) -> list[Array]:
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients))
    return [gradient * min(1.0, l2_clip_norm / norm) for gradient in gradients]


def clip_each_tensor(gradients: list[Array], *, l2_clip_norm: float) -> list[Array]:
    return [gradient * min(1.0, l2_clip_norm / np.linalg.norm(gradient)) for gradient in gradients]


@pytest.mark.parametrize("hidden", [(7,), (7, 5), (6, 5, 4)])
@pytest.mark.parametrize("l2_clip_norm", [0.05, 1.0, 2.5, 1e6])
def test_clipped_sum_equals_a_float64_loop_when_rows_are_fed_by_index(hidden, l2_clip_norm):
    encoded, critic = make_encoded(50), make_critic(hidden=hidden)
    dense = densify(encoded, np.arange(50)).numpy().astype(np.float64)
    clipped = [clip_jointly(gradient_of_one_row(critic, row), l2_clip_norm=l2_clip_norm) for row in dense]
    expected = [sum(parts) for parts in zip(*clipped, strict=True)]

    by_index = critic.clipped_sum_of_rows(
        tf.constant(encoded.codes), tf.constant(encoded.numbers), l2_clip_norm=l2_clip_norm
    )
    for total, wanted in zip(by_index, expected, strict=True):
        np.testing.assert_allclose(total, wanted, rtol=1e-4, atol=1e-5 * length(expected))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    l2_clip_norm=st.floats(1e-3, 1e3),
    scale=st.floats(0.01, 30.0),
    gone=st.integers(0, 19),
)
def test_clipped_sum_moves_by_at_most_the_clip_norm_when_a_record_is_zeroed_out(seed, l2_clip_norm, scale, gone):
    encoded, critic = make_encoded(20, seed=seed), make_critic(seed=seed)
    for weight in critic.weights:
        weight.assign(scale * weight)
    rest = np.delete(np.arange(20), gone)

    def total(rows: npt.NDArray[np.int64]) -> list[tf.Tensor]:
        return critic.clipped_sum_of_rows(
            tf.constant(encoded.codes[rows]), tf.constant(encoded.numbers[rows]), l2_clip_norm=l2_clip_norm
        )

    moved = length([np.asarray(a) - np.asarray(b) for a, b in zip(total(np.arange(20)), total(rest), strict=True)])
    # float32 sums of 20 vectors as long as C round off a few parts in 10^7 of them.
    assert moved <= l2_clip_norm * (1 + 2e-5)
    # What the sum moves by is that record's own clipped gradient, which alone is never too long.
    assert length(total(np.array([gone]))) <= l2_clip_norm * (1 + 1e-5)


def test_joint_clip_keeps_the_bound_when_a_clip_of_each_tensor_would_break_it():
    encoded, critic = make_encoded(20), make_critic()
    l2_clip_norm = 0.01
    row = densify(encoded, np.array([4])).numpy()[0].astype(np.float64)
    jointly = critic.clipped_sum_of_rows(
        tf.constant(encoded.codes[4:5]), tf.constant(encoded.numbers[4:5]), l2_clip_norm=l2_clip_norm
    )
    twin = clip_each_tensor(gradient_of_one_row(critic, row), l2_clip_norm=l2_clip_norm)
    assert length(jointly) <= l2_clip_norm * (1 + 1e-5)
    assert length(twin) > 2 * l2_clip_norm


def test_clip_factor_is_zero_when_the_norm_is_not_finite():
    factors = clip_factors(tf.constant([4.0, np.inf, np.nan, 0.0]), l2_clip_norm=1.0)
    np.testing.assert_allclose(factors, [0.5, 0.0, 0.0, 1.0], rtol=1e-6)


def test_clipped_sum_counts_a_record_as_zero_when_its_gradient_is_not_finite():
    encoded, critic = make_encoded(6), make_critic()
    numbers = encoded.numbers.copy()
    numbers[2, 0] = np.inf
    with_it = critic.clipped_sum_of_rows(tf.constant(encoded.codes), tf.constant(numbers), l2_clip_norm=1.0)
    rest = [0, 1, 3, 4, 5]
    without = critic.clipped_sum_of_rows(tf.constant(encoded.codes[rest]), tf.constant(numbers[rest]), l2_clip_norm=1.0)
    for total, wanted in zip(with_it, without, strict=True):
        np.testing.assert_allclose(total, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(20, 12), (0, 12), (20, 0), (0, 0)])
@pytest.mark.parametrize("broken", [False, True])
def test_both_halves_have_the_sums_they_would_have_apart_when_they_are_clipped_at_once(sizes, broken):
    critic = make_critic()
    halves = []
    for seed, records in enumerate(sizes):
        encoded = make_encoded(max(records, 1), seed=seed)
        numbers = encoded.numbers[:records].copy()
        if broken and records:
            numbers[records // 2, 0] = np.nan
        halves.append((tf.constant(encoded.codes[:records]), tf.constant(numbers)))
    together = critic.clipped_sums(*halves, l2_clip_norm=0.5)
    for half, sums in zip(halves, together, strict=True):
        apart = critic.clipped_sum_of_rows(*half, l2_clip_norm=0.5)
        for one, other in zip(sums, apart, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            assert np.all(np.isfinite(one))


@pytest.mark.parametrize("units", [0, 3])
@pytest.mark.parametrize("hidden", [(256, 256), (7, 5), (33,)])
def test_generated_half_is_the_same_to_the_bit_whatever_real_rows_there_are(hidden, units):
    critic, encoded = make_critic(hidden=hidden), make_encoded(4_099)
    made = make_encoded(choose_generated_batch(1 << 30), seed=1)  # as few as there ever are
    clip = critic.clipped_sums
    if units:
        clip = partial(critic.clipped_sums_of_units, share=1.0)

    def sum_generated(rows: int) -> Array:
        half = tf.constant(encoded.codes[:rows]), tf.constant(encoded.numbers[:rows])
        more = {"units": tf.range(rows) // units} if units else {}
        _, sums = clip(half, (tf.constant(made.codes), tf.constant(made.numbers)), l2_clip_norm=0.5, **more)
        return flat(sums)

    alone = sum_generated(0)
    for rows in (1, 2, 17, 255, 256, 4_099):
        np.testing.assert_array_equal(sum_generated(rows), alone)
