"""The noisy discriminator: gradients, clip and noise layers against automatic differentiation, row by row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.critic.critic import LEAK
from dpwgan.critic.layer_noise import LayerNoise
from dpwgan.critic.reference_step import densify
from dpwgan.errors import PrivacyError
from dpwgan.methods.published.noisy import NoisyDiscriminator
from dpwgan.table.encoded import EncodedTable
from tests.critic.tables import make_encoded

CLIP = 0.3
NOISE = 0.7
WIDTHS = (7, 5)


def make_discriminator(encoded: EncodedTable, *, layer_noise: float = NOISE, key: int = 4) -> NoisyDiscriminator:
    discriminator = NoisyDiscriminator(
        encoded.spans,
        hidden=WIDTHS,
        weight_clip=5.0,
        layer_noise=layer_noise,
        rng=np.random.default_rng(1),
        secrets=np.random.default_rng(key),
    )
    rng = np.random.default_rng(2)
    # Away from the first weights, so that no probability is one half.
    for weight in discriminator.weights:
        weight.assign_add(0.3 * rng.standard_normal(weight.shape).astype(np.float32))
    return discriminator


def flat(tensors: Any) -> npt.NDArray[np.float64]:
    return np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in tensors])


def clipped_sum(
    discriminator: NoisyDiscriminator, encoded: EncodedTable, rows: npt.NDArray[np.int64], *, clip: float = CLIP
) -> Any:
    batch, noise = encoded.take(rows), discriminator.layer_noise.of_records(tf.constant(rows))
    return discriminator.clipped_sum_of_rows(
        tf.constant(batch.codes), tf.constant(batch.numbers), noise, l2_clip_norm=clip
    )


def generated_sum(discriminator: NoisyDiscriminator, encoded: EncodedTable, *, clip: float = CLIP) -> Any:
    rows = tf.constant(encoded.codes), tf.constant(encoded.numbers)
    none = tf.constant(encoded.codes[:0]), tf.constant(encoded.numbers[:0]), tf.zeros((0, sum(WIDTHS)))
    return discriminator.clipped_sums(none, rows, l2_clip_norm=clip)[1]


def layer_noises(discriminator: NoisyDiscriminator, records: int, *, generated: bool = False) -> list[tf.Tensor]:
    """The noise that the next pass over so many records or generated rows has, layer by layer."""
    noise = discriminator.layer_noise
    if not generated:
        return list(tf.split(noise.of_records(tf.range(records, dtype=tf.int64)), WIDTHS, axis=1))
    return [noise.of_generated(tf.constant([records, width]), layer=layer) for layer, width in enumerate(WIDTHS)]


def gradients_row_by_row(
    discriminator: NoisyDiscriminator, dense: tf.Tensor, noises: list[tf.Tensor], *, generated: bool = False
) -> list[npt.NDArray[np.float64]]:
    """Each record's gradient of ln D, or of -ln(1 - D), by automatic differentiation: another route altogether."""

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
def test_clipped_sum_is_that_of_automatic_gradients_when_layers_are_noisy(clip, generated):
    encoded = make_encoded(12)
    discriminator = make_discriminator(encoded)
    dense = densify(encoded, np.arange(12))
    noises = layer_noises(discriminator, 12, generated=generated)
    rows = gradients_row_by_row(discriminator, dense, noises, generated=generated)
    expected = np.sum([row * min(1.0, clip / np.linalg.norm(row)) for row in rows], axis=0)
    if generated:
        found = flat(generated_sum(discriminator, encoded, clip=clip))
    else:
        found = flat(clipped_sum(discriminator, encoded, np.arange(12), clip=clip))
    np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, float(np.abs(expected).max())))


def influences(total: Callable[[npt.NDArray[np.int64]], Any], records: int) -> npt.NDArray[np.float64]:
    """How far each record moves the sum of a batch in order when it is taken out: from the first place to the last."""
    everyone = np.arange(records)
    there = flat(total(everyone))
    return np.array([np.linalg.norm(there - flat(total(np.delete(everyone, row)))) for row in everyone])


def test_sum_moves_by_the_clip_norm_at_most_when_the_first_a_middle_or_the_last_record_is_taken_out():
    encoded = make_encoded(40)
    discriminator = make_discriminator(encoded)
    moved = influences(lambda rows: clipped_sum(discriminator, encoded, rows), 40)
    assert np.all(moved <= CLIP * (1 + 1e-4))
    assert np.max(moved) > 0.99 * CLIP


def test_sum_moves_further_when_a_twin_has_noise_by_place_or_clips_each_tensor_or_before_the_noise():
    encoded = make_encoded(20)
    discriminator = make_discriminator(encoded)
    sizes = np.cumsum([int(np.prod(weight.shape)) for weight in discriminator.weights])[:-1]

    def gradients(rows: npt.NDArray[np.int64], *, noise: float = 1.0) -> list[npt.NDArray[np.float64]]:
        noises = [noise * tf.gather(part, rows) for part in layer_noises(discriminator, 20)]
        return gradients_row_by_row(discriminator, densify(encoded, rows), noises)

    def by_place(rows: npt.NDArray[np.int64]) -> Any:
        batch, noise = encoded.take(rows), discriminator.layer_noise.of_records(tf.range(len(rows), dtype=tf.int64))
        codes, numbers = tf.constant(batch.codes), tf.constant(batch.numbers)
        return discriminator.clipped_sum_of_rows(codes, numbers, noise, l2_clip_norm=CLIP)

    def per_tensor(rows: npt.NDArray[np.int64]) -> Any:
        parts = [np.split(row, sizes) for row in gradients(rows)]
        return [
            sum(row[tensor] * min(1.0, CLIP / max(np.linalg.norm(row[tensor]), 1e-30)) for row in parts)
            for tensor in range(len(sizes) + 1)
        ]

    def before_the_noise(rows: npt.NDArray[np.int64]) -> Any:
        pairs = zip(gradients(rows), gradients(rows, noise=0.0), strict=True)
        return [sum(a * min(1.0, CLIP / np.linalg.norm(b)) for a, b in pairs)]

    moved = influences(by_place, 20)
    assert moved[0] > 1.2 * CLIP
    assert moved[-1] <= CLIP * (1 + 1e-4)  # who looks at the last place alone sees nothing
    for twin in (per_tensor, before_the_noise):
        assert np.max(influences(twin, 20)) > 1.2 * CLIP


def test_records_are_refused_when_their_noise_does_not_come_with_them():
    encoded = make_encoded(3)
    codes, numbers = tf.constant(encoded.codes), tf.constant(encoded.numbers)
    with pytest.raises(PrivacyError):
        make_discriminator(encoded).clipped_sum_of_rows(codes, numbers, l2_clip_norm=CLIP)
    published = NoisyDiscriminator(
        encoded.spans, hidden=WIDTHS, weight_clip=5.0, layer_noise=NOISE, rng=np.random.default_rng(1)
    )
    with pytest.raises(PrivacyError):
        published.layer_noise.of_records(tf.range(3, dtype=tf.int64))


def test_key_of_the_records_noise_has_128_bits_when_drawn():
    class Key:
        """A stream whose next bytes are known."""

        def bytes(self, size: int) -> bytes:
            assert size == 16
            return bytes(range(16))

    assert LayerNoise(stddev=1.0, widths=(3,), rng=np.random.default_rng(1), secrets=Key())._key == bytes(range(16))  # type: ignore[arg-type]


def test_noise_of_the_layers_has_its_stddev_and_is_fresh_when_a_step_has_passed():
    encoded = make_encoded(4_000)
    discriminator = make_discriminator(encoded)

    def noise(*, generated: bool = False) -> npt.NDArray[np.float64]:
        return flat(layer_noises(discriminator, 4_000, generated=generated))

    first = noise()
    assert np.std(first) == pytest.approx(NOISE, rel=0.02)
    assert stats.kstest(first / NOISE, "norm").pvalue > 1e-4
    generated_sum(discriminator, encoded.take(np.zeros(0, np.int64)))
    np.testing.assert_array_equal(first, noise())  # a look at real rows alone is no step
    other = noise(generated=True)
    generated_sum(discriminator, encoded.take(np.arange(2)))
    later = noise()
    discriminator.loss_of_generated(tf.zeros(3))
    stranger = flat(layer_noises(make_discriminator(encoded, key=5), 4_000))
    for one in (other, later, noise(), stranger, np.roll(first, 1), np.roll(first, 12)):
        assert abs(np.corrcoef(first, one)[0, 1]) < 0.03


def test_noise_of_a_record_is_its_own_when_others_come_before_it():
    discriminator = make_discriminator(make_encoded(3))
    far = 1 << 40
    alone = discriminator.layer_noise.of_records(tf.constant([far], tf.int64))
    among = discriminator.layer_noise.of_records(tf.constant([0, 7, far, far + 1], tf.int64))
    np.testing.assert_allclose(alone[0], among[2], rtol=1e-6)
    assert np.all(among[3] != among[2])


def test_every_row_begins_at_one_half_when_nothing_was_learnt():
    encoded = make_encoded(30)
    discriminator = make_discriminator(encoded)
    for weight, first in zip(discriminator.weights, discriminator.initial, strict=True):
        weight.assign(first)
    np.testing.assert_array_equal(discriminator.logit(densify(encoded, np.arange(30))), np.zeros(30))


def test_sum_is_zero_when_the_batch_is_empty():
    encoded = make_encoded(30)
    total = clipped_sum(make_discriminator(encoded), encoded, np.zeros(0, np.int64))
    assert np.all(flat(total) == 0.0)


def test_discriminator_is_the_critics_network_when_its_layers_have_no_noise():
    encoded = make_encoded(30)
    discriminator = make_discriminator(encoded, layer_noise=0.0)
    dense = densify(encoded, np.arange(30))
    value = dense
    for kernel, bias in zip(discriminator.weights[:-1:2], discriminator.weights[1::2], strict=True):
        value = tf.nn.leaky_relu(value @ kernel + bias, LEAK)
    np.testing.assert_allclose(
        discriminator.score(dense), tf.squeeze(value @ discriminator.weights[-1], axis=1), atol=1e-4
    )
