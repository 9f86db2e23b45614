"""The generator of images and its sampler: sizes, labels, and agreement of both."""

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.methods.published.conv_generator import ConvGenerator
from dpwgan.methods.published.image_samplers import ConvSampler
from tests.images.test_grid import make_grid

FALSE_ALARM = 1e-6
SHARES = np.array([0.5, 0.2, 0.3])


def make_generator(image: tuple[int, int, int], *, seed: int = 1) -> ConvGenerator:
    generator = ConvGenerator(image, classes=3, latent=5, filters=(8, 4), rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    for weight in generator.weights:  # biases start at 0 and scales at 1, which would hide mistakes
        weight.assign(weight + 0.3 * rng.standard_normal(weight.shape))
    return generator


def make_sampler(image: tuple[int, int, int] = (8, 9, 1)) -> ConvSampler:
    weights = tuple(weight.numpy() for weight in make_generator(image).weights)
    return ConvSampler(weights=weights, shares=SHARES, grid=make_grid(image))


def draw_input(batch: int, *, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.eye(3, dtype=np.float32)[rng.integers(0, 3, batch)]
    return rng.standard_normal((batch, 5), dtype=np.float32), labels


@pytest.mark.parametrize("image", [(8, 8, 1), (9, 13, 3), (28, 28, 1), (10, 11, 1), (32, 32, 3)])
def test_generator_and_sampler_make_the_same_images_when_sides_are_of_any_length(image):
    latents, labels = draw_input(7)
    images = make_generator(image).images(tf.constant(latents), tf.constant(labels)).numpy()
    assert images.shape == (7, *image)
    assert images.min() >= 0
    assert images.max() <= 1
    assert images.std() > 0.01
    drawn = make_sampler(image).draw_images(latents, labels).reshape(images.shape)
    np.testing.assert_allclose(drawn, images, rtol=1e-3, atol=1e-4)


def test_images_differ_when_only_the_label_does():
    generator = make_generator((8, 8, 1))
    latents, _ = draw_input(1)
    of = [generator.images(tf.constant(latents), tf.one_hot([label], 3)).numpy() for label in range(3)]
    assert np.abs(of[0] - of[1]).max() > 1e-3
    assert np.abs(of[1] - of[2]).max() > 1e-3


def test_an_image_does_not_depend_on_the_others_when_they_are_drawn_together():
    latents, labels = draw_input(6)
    generator = make_generator((9, 9, 1))
    together = generator.images(tf.constant(latents), tf.constant(labels)).numpy()
    alone = generator.images(tf.constant(latents[2:3]), tf.constant(labels[2:3])).numpy()
    np.testing.assert_allclose(together[2:3], alone, rtol=1e-4, atol=1e-5)


def test_generator_is_refused_when_its_filters_cannot_be_grouped():
    with pytest.raises(ValueError, match="multiples of 4"):
        ConvGenerator((8, 8, 1), classes=2, latent=3, filters=(6, 4), rng=np.random.default_rng(0))
