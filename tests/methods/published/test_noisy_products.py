"""The discriminator of images: gradients, joint clip and noise against automatic differentiation, row by row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from dpwgan.methods.published.noisy_products import NoisyProducts
from tests.methods.published.test_noisy import flat, influences

CLIP, NOISE, LENGTH = 0.4, 0.7, 4.0
FEATURES, CLASSES = 5, 3


def make_discriminator(*, moved: bool = True, noise: float = NOISE) -> NoisyProducts:
    discriminator = NoisyProducts(
        features=FEATURES,
        classes=CLASSES,
        length=LENGTH,
        layer_noise=noise,
        rng=np.random.default_rng(1),
        secrets=np.random.default_rng(4),
    )
    rng = np.random.default_rng(2)
    if moved:  # so that no probability is one half, and matrices are not symmetric
        for weight in discriminator.weights:
            weight.assign(rng.standard_normal(weight.shape))
    return discriminator


def make_rows(records: int) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(3)
    points = rng.standard_normal((records, FEATURES))
    points *= LENGTH / np.linalg.norm(points, axis=1, keepdims=True)
    return tf.constant(rng.integers(0, CLASSES, (records, 1)), tf.int32), tf.constant(points, tf.float32)


def take(rows: tuple[tf.Tensor, tf.Tensor], places: npt.NDArray[np.int64]) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.gather(rows[0], places), tf.gather(rows[1], places)


def noise_of(discriminator: NoisyProducts, records: int, *, generated: bool = False) -> tf.Tensor:
    if generated:
        return discriminator.layer_noise.of_generated(tf.constant([records, FEATURES]))
    return discriminator.layer_noise.of_records(tf.range(records, dtype=tf.int64))


def gradients_row_by_row(
    discriminator: NoisyProducts, rows: tuple[tf.Tensor, tf.Tensor], noise: tf.Tensor, *, generated: bool = False
) -> list[npt.NDArray[np.float64]]:
    """Each record's gradient of ln D, or of -ln(1 - D), by automatic differentiation of the formula as written."""
    codes, numbers = rows
    found = []
    for row in range(len(codes)):
        hidden = (numbers + noise)[row]
        with tf.GradientTape() as tape:
            apart, common = discriminator.weights
            of_class = apart[int(codes[row, 0])] + common
            logit = tf.tensordot(hidden, tf.linalg.matvec(of_class, hidden), 1) / (LENGTH**2 * np.sqrt(2.0))
            objective = tf.nn.softplus(logit) if generated else -tf.nn.softplus(-logit)
        gradients = tape.gradient(objective, discriminator.weights)
        found.append(flat([tf.convert_to_tensor(gradient) for gradient in gradients]))
    return found


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("clip", [CLIP, 1e3])
def test_clipped_sum_is_that_of_automatic_gradients_when_the_layer_is_noisy(clip, generated):
    discriminator, rows = make_discriminator(), make_rows(12)
    noise = noise_of(discriminator, 12, generated=generated)
    gradients = gradients_row_by_row(discriminator, rows, noise, generated=generated)
    expected = np.sum([row * min(1.0, clip / np.linalg.norm(row)) for row in gradients], axis=0)
    if generated:
        found = discriminator.clipped_sum_of_generated(rows, l2_clip_norm=clip)
    else:
        found = discriminator.clipped_sum_of_rows(*rows, noise, l2_clip_norm=clip)
    np.testing.assert_allclose(flat(found), expected, atol=1e-5)


def test_score_is_the_logit_of_the_row_when_its_label_is_one_hot():
    discriminator, (codes, numbers) = make_discriminator(noise=0.0), make_rows(6)
    dense = tf.concat([numbers, tf.one_hot(codes[:, 0], CLASSES)], axis=1)
    apart, common = (weight.numpy() for weight in discriminator.weights)
    expected = [
        row @ (apart[label] + common) @ row / (LENGTH**2 * np.sqrt(2.0))
        for row, label in zip(numbers.numpy(), codes.numpy()[:, 0], strict=True)
    ]
    np.testing.assert_allclose(discriminator.score(dense), expected, rtol=1e-4)


def test_sum_moves_by_the_clip_norm_at_most_when_the_first_a_middle_or_the_last_image_is_taken_out():
    discriminator, rows = make_discriminator(), make_rows(40)

    def total(places: npt.NDArray[np.int64]) -> Any:
        noise = discriminator.layer_noise.of_records(tf.constant(places))
        return discriminator.clipped_sum_of_rows(*take(rows, places), noise, l2_clip_norm=CLIP)

    moved = influences(total, 40)
    assert np.all(moved <= CLIP * (1 + 1e-4))
    assert np.max(moved) > 0.99 * CLIP


def test_sum_of_images_moves_further_when_a_twin_has_noise_by_place_or_clips_each_block_or_before_the_noise():
    discriminator, rows = make_discriminator(), make_rows(20)

    def gradients(places: npt.NDArray[np.int64], *, noise: float = 1.0) -> list[npt.NDArray[np.float64]]:
        own = noise * tf.gather(noise_of(discriminator, 20), places)
        return gradients_row_by_row(discriminator, take(rows, places), own)

    def by_place(places: npt.NDArray[np.int64]) -> Any:
        noise = noise_of(discriminator, len(places))
        return discriminator.clipped_sum_of_rows(*take(rows, places), noise, l2_clip_norm=CLIP)

    def by_block(places: npt.NDArray[np.int64]) -> Any:
        cut = CLASSES * FEATURES**2
        parts = [
            part * min(1.0, CLIP / np.linalg.norm(part)) for row in gradients(places) for part in np.split(row, [cut])
        ]
        return [sum(parts[::2]), sum(parts[1::2])]

    def before_the_noise(places: npt.NDArray[np.int64]) -> Any:
        pairs = zip(gradients(places), gradients(places, noise=0.0), strict=True)
        return [sum(a * min(1.0, CLIP / np.linalg.norm(b)) for a, b in pairs)]

    assert influences(by_place, 20)[0] > 1.2 * CLIP
    for twin in (by_block, before_the_noise):
        assert np.max(influences(twin, 20)) > 1.2 * CLIP


def test_record_counts_as_zero_when_its_numbers_are_not_finite():
    discriminator, (codes, numbers) = make_discriminator(), make_rows(4)
    broken = tf.concat([numbers[:3], [[np.inf, 0.0, np.nan, 1.0, 1.0]]], axis=0)
    noise = noise_of(discriminator, 4)
    total = discriminator.clipped_sum_of_rows(codes, broken, noise, l2_clip_norm=CLIP)
    without = discriminator.clipped_sum_of_rows(codes[:3], numbers[:3], noise[:3], l2_clip_norm=CLIP)
    np.testing.assert_allclose(flat(total), flat(without), atol=1e-6)
    nothing = discriminator.clipped_sum_of_rows(codes[:0], numbers[:0], noise[:0], l2_clip_norm=CLIP)
    assert np.all(flat(nothing) == 0.0)


def test_every_row_has_a_gradient_of_about_one_half_when_nothing_is_known():
    discriminator, rows = make_discriminator(moved=False), make_rows(50)
    lengths = [np.linalg.norm(row) for row in gradients_row_by_row(discriminator, rows, tf.zeros_like(rows[1]))]
    np.testing.assert_allclose(lengths, 0.5, rtol=1e-5)


def test_noise_of_the_layer_is_fresh_when_a_step_has_passed():
    discriminator, rows = make_discriminator(), make_rows(4_000)

    def noise(*, generated: bool = False) -> npt.NDArray[np.float64]:
        return np.ravel(noise_of(discriminator, 4_000, generated=generated))

    first = noise()
    real = *rows, noise_of(discriminator, 4_000)
    discriminator.clipped_sums(real, take(rows, np.zeros(0, np.int64)), l2_clip_norm=CLIP)
    np.testing.assert_array_equal(first, noise())  # a look at real rows alone is no step
    other = noise(generated=True)
    discriminator.clipped_sums(real, take(rows, np.arange(2)), l2_clip_norm=CLIP)
    later = noise()
    discriminator.loss_of_generated(tf.zeros(3))
    for one in (other, later, noise()):
        assert abs(np.corrcoef(first, one)[0, 1]) < 0.03
