"""Networks of images with convolutions: rows apart from each other, labels, noises, and the generator's sampler."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.methods.published.convolutions import ConvCritic, ConvGenerator, NoisyFeatures, make_device_rng
from dpwgan.methods.published.samplers import ConvSampler
from tests.critic.games import SHARES
from tests.images.test_grid import make_grid

FALSE_ALARM = 1e-6


def make_generator(image: tuple[int, int, int]) -> ConvGenerator:
    generator = ConvGenerator(image, classes=3, latent=5, filters=(8, 4), rng=np.random.default_rng(1))
    rng = np.random.default_rng(2)
    for weight in generator.weights:  # biases start at 0 and scales at 1, which would hide mistakes
        weight.assign(weight + 0.3 * rng.standard_normal(weight.shape))
    return generator


def make_sampler(image: tuple[int, int, int] = (8, 9, 1)) -> ConvSampler:
    weights = tuple(weight.numpy() for weight in make_generator(image).weights)
    return ConvSampler(weights=weights, shares=SHARES, grid=make_grid(image))


def draw_input(batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    labels = np.eye(3, dtype=np.float32)[rng.integers(0, 3, batch)]
    return rng.standard_normal((batch, 5), dtype=np.float32), labels


@pytest.mark.parametrize("image", [(8, 8, 1), (9, 13, 3), (28, 28, 1), (10, 11, 1), (32, 32, 3)])
def test_generator_and_sampler_make_the_same_images_when_sides_are_of_any_length(image):
    latents, labels = draw_input(7)
    images = make_generator(image).generate(tf.constant(latents), tf.constant(labels)).numpy()
    assert images.shape == (7, *image)
    assert 0 <= images.min() < images.max() <= 1
    assert images.std() > 0.01
    drawn = make_sampler(image).draw_images(latents, labels).reshape(images.shape)
    np.testing.assert_allclose(drawn, images, rtol=1e-3, atol=1e-4)


def make_critic(image: tuple[int, int, int] = (9, 8, 1), **more: Any) -> ConvCritic:
    device_rng = make_device_rng(np.random.default_rng(4))
    return ConvCritic(
        image, classes=3, filters=(4, 6), features=5, rng=np.random.default_rng(1), device_rng=device_rng, **more
    )


def draw_images(batch: int, image: tuple[int, int, int] = (9, 8, 1)) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(2)
    images = rng.random((batch, *image), dtype=np.float32)
    return tf.constant(images), tf.one_hot(rng.integers(0, 3, batch), 3)


def test_activations_are_noised_when_that_is_asked_for():
    noisy = make_critic(activation_stddev=0.5**0.5)
    images, labels = draw_images(4)
    assert np.abs(noisy.score(images, labels) - noisy.score(images, labels)).max() > 0
    quiet = make_critic()
    np.testing.assert_array_equal(quiet.score(images, labels), quiet.score(images, labels))


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 1e6])
def test_features_are_no_longer_than_the_clip_when_the_noise_is_taken_off(scale):
    features = tf.constant(scale * np.random.default_rng(5).standard_normal((40, 8)), tf.float32)
    layer = NoisyFeatures(l2_clip_norm=1.5, noise_multiplier=1e-9, device_rng=make_device_rng(np.random.default_rng(6)))
    bounded = layer(features).numpy()
    lengths = np.linalg.norm(bounded, axis=1)
    assert lengths.max() <= 1.5 * (1 + 1e-5)
    short = np.linalg.norm(features, axis=1) < 1.5
    np.testing.assert_allclose(bounded[short], features.numpy()[short], atol=1e-6)


@pytest.mark.statistical
def test_noise_on_features_has_its_stddev_when_measured():
    layer = NoisyFeatures(l2_clip_norm=2.0, noise_multiplier=1.5, device_rng=make_device_rng(np.random.default_rng(7)))
    noise = layer(tf.zeros((2_000, 10))).numpy().ravel()
    # The mean square of 20,000 draws lies within 6% of the variance, but for once in 10^8 times; 10% less noise is out.
    assert abs(np.mean(noise**2) / 9.0 - 1) < 0.06
    assert abs(np.mean((0.9 * noise) ** 2) / 9.0 - 1) > 0.06
    assert np.abs(layer(tf.zeros((5, 3))) - layer(tf.zeros((5, 3)))).max() > 0


def test_gradients_are_finite_when_features_are_zero():
    noise = NoisyFeatures(l2_clip_norm=1.0, noise_multiplier=1.5, device_rng=make_device_rng(np.random.default_rng(8)))
    critic = make_critic(noisy_features=noise)
    for weight in critic.weights:
        weight.assign(tf.zeros_like(weight))
    images, labels = draw_images(3)
    with tf.GradientTape() as tape:
        score = tf.reduce_sum(critic.score(images, labels))
    assert all(np.isfinite(gradient).all() for gradient in tape.gradient(score, critic.weights))
