"""The noisy discriminator: gradients, clip and noise layers against automatic differentiation, row by row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from dpwgan.critic.critic import LEAK
from dpwgan.critic.reference_step import densify
from dpwgan.methods.published.noisy import NoisyDiscriminator
from dpwgan.table.encoded import EncodedTable
from tests.critic.tables import make_encoded

CLIP = 0.3
NOISE = 0.7


def make_discriminator(encoded: EncodedTable, *, layer_noise: float = NOISE) -> NoisyDiscriminator:
    discriminator = NoisyDiscriminator(
        encoded.spans,
        hidden=(7, 5),
        weight_clip=5.0,
        layer_noise=layer_noise,
        rng=np.random.default_rng(1),
    )
    rng = np.random.default_rng(2)
    # Away from the first weights, so that no probability is one half.
    for weight in discriminator.weights:
        weight.assign_add(0.3 * rng.standard_normal(weight.shape).astype(np.float32))
    return discriminator


def flat(tensors: Any) -> npt.NDArray[np.float64]:
    return np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in tensors])


def clipped_sum(discriminator: NoisyDiscriminator, encoded: EncodedTable, *, clip: float = CLIP) -> Any:
    return discriminator.clipped_sum_of_rows(
        tf.constant(encoded.codes), tf.constant(encoded.numbers), l2_clip_norm=clip
    )


def generated_sum(discriminator: NoisyDiscriminator, encoded: EncodedTable, *, clip: float = CLIP) -> Any:
    rows = tf.constant(encoded.codes), tf.constant(encoded.numbers)
    none = tf.constant(encoded.codes[:0]), tf.constant(encoded.numbers[:0])
    return discriminator.clipped_sums(none, rows, l2_clip_norm=clip)[1]


def layer_noises(discriminator: NoisyDiscriminator, records: int, *, generated: bool = False) -> list[tf.Tensor]:
    """The noise that a pass will draw, layer by layer."""
    found = []
    for layer, width in enumerate((7, 5)):
        zeros = tf.zeros((records, width))
        found.append(discriminator._activate(zeros, layer=layer, generated=generated))
    return found


def gradients_row_by_row(
    discriminator: NoisyDiscriminator, dense: tf.Tensor, *, generated: bool
) -> list[npt.NDArray[np.float64]]:
    """Each record's gradient of ln D, or of -ln(1 - D), by automatic differentiation: another route altogether."""
    noises = layer_noises(discriminator, dense.shape[0], generated=generated)

    def score(weights: Any, row: int) -> tf.Tensor:
        value = dense[row : row + 1]
        for layer, (kernel, bias) in enumerate(zip(weights[:-1:2], weights[1::2], strict=True)):
            value = value @ kernel + bias
            value = tf.maximum(value, LEAK * value) + noises[layer][row : row + 1]
        return tf.squeeze(value @ weights[-1])

    found = []
    for row in range(dense.shape[0]):
        with tf.GradientTape() as tape:
            logit = score(discriminator.weights, row) - tf.stop_gradient(score(discriminator.initial, row))
            objective = tf.nn.softplus(logit) if generated else -tf.nn.softplus(-logit)
        found.append(flat(tape.gradient(objective, discriminator.weights)))
    return found


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("clip", [CLIP, 1e3])
def test_clipped_sum_is_that_of_automatic_gradients_when_layers_are_noisy(clip: float, generated: bool) -> None:
    encoded = make_encoded(12)
    discriminator = make_discriminator(encoded)
    dense = densify(encoded, np.arange(12))
    rows = gradients_row_by_row(discriminator, dense, generated=generated)
    expected = np.sum([row * min(1.0, clip / np.linalg.norm(row)) for row in rows], axis=0)
    if generated:
        found = flat(generated_sum(discriminator, encoded, clip=clip))
    else:
        found = flat(clipped_sum(discriminator, encoded, clip=clip))
    np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, float(np.abs(expected).max())))


def influences(discriminator: NoisyDiscriminator, encoded: EncodedTable, total: Any) -> list[float]:
    """How far each record moves the sum: the last place is the one to take, so that the others keep their noise."""
    found = []
    for row in range(encoded.records):
        order = np.append(np.delete(np.arange(encoded.records), row), row)
        there, without = encoded.take(order), encoded.take(order[:-1])
        found.append(float(np.linalg.norm(flat(total(discriminator, there)) - flat(total(discriminator, without)))))
    return found


def test_sum_moves_by_the_clip_norm_at_most_when_one_record_is_zeroed_out_and_layers_are_noisy() -> None:
    encoded = make_encoded(40)
    discriminator = make_discriminator(encoded)
    moved = influences(discriminator, encoded, clipped_sum)
    assert max(moved) <= CLIP * (1 + 1e-4)
    assert max(moved) > 0.99 * CLIP


def test_sum_moves_further_when_a_twin_clips_each_tensor_or_clips_before_the_noise() -> None:
    encoded = make_encoded(20)
    discriminator = make_discriminator(encoded)
    sizes = np.cumsum([int(np.prod(weight.shape)) for weight in discriminator.weights])[:-1]

    def per_tensor(model: NoisyDiscriminator, table: EncodedTable) -> Any:
        rows = gradients_row_by_row(model, densify(table, np.arange(table.records)), generated=False)
        parts = [np.split(row, sizes) for row in rows]
        return [
            sum(row[tensor] * min(1.0, CLIP / max(np.linalg.norm(row[tensor]), 1e-30)) for row in parts)
            for tensor in range(len(sizes) + 1)
        ]

    def before_the_noise(model: NoisyDiscriminator, table: EncodedTable) -> Any:
        dense = densify(table, np.arange(table.records))
        noisy = gradients_row_by_row(model, dense, generated=False)
        model._layer_noise = 0.0
        plain = gradients_row_by_row(model, dense, generated=False)
        model._layer_noise = NOISE
        return [sum(a * min(1.0, CLIP / np.linalg.norm(b)) for a, b in zip(noisy, plain, strict=True))]

    assert max(influences(discriminator, encoded, per_tensor)) > 1.2 * CLIP
    assert max(influences(discriminator, encoded, before_the_noise)) > 1.2 * CLIP


def test_noise_of_the_layers_has_its_stddev_and_is_fresh_when_a_step_has_passed() -> None:
    encoded = make_encoded(4_000)
    discriminator = make_discriminator(encoded)
    first = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000)])
    assert np.std(first) == pytest.approx(NOISE, rel=0.02)
    again = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000)])
    np.testing.assert_array_equal(first, again)
    other = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000, generated=True)])
    none = encoded.take(np.zeros(0, np.int64))
    generated_sum(discriminator, none)
    unmoved = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000)])
    np.testing.assert_array_equal(first, unmoved)  # a look at real rows alone is no step
    generated_sum(discriminator, encoded.take(np.arange(2)))
    later = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000)])
    discriminator.loss_of_generated(tf.zeros(3))
    latest = np.concatenate([np.ravel(noise) for noise in layer_noises(discriminator, 4_000)])
    for one in (other, later, latest):
        assert abs(np.corrcoef(first, one)[0, 1]) < 0.03


def test_every_row_begins_at_one_half_when_nothing_was_learnt() -> None:
    encoded = make_encoded(30)
    discriminator = make_discriminator(encoded)
    for weight, first in zip(discriminator.weights, discriminator.initial, strict=True):
        weight.assign(first)
    np.testing.assert_array_equal(discriminator.logit(densify(encoded, np.arange(30))), np.zeros(30))


def test_sum_is_zero_when_the_batch_is_empty() -> None:
    encoded = make_encoded(30)
    total = clipped_sum(make_discriminator(encoded), encoded.take(np.zeros(0, np.int64)))
    assert np.all(flat(total) == 0.0)


def test_discriminator_is_the_critics_network_when_its_layers_have_no_noise() -> None:
    encoded = make_encoded(30)
    discriminator = make_discriminator(encoded, layer_noise=0.0)
    dense = densify(encoded, np.arange(30))
    value = dense
    for kernel, bias in zip(discriminator.weights[:-1:2], discriminator.weights[1::2], strict=True):
        value = tf.nn.leaky_relu(value @ kernel + bias, LEAK)
    np.testing.assert_allclose(
        discriminator.score(dense), tf.squeeze(value @ discriminator.weights[-1], axis=1), atol=1e-4
    )
