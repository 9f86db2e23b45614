"""The critic of images: rows apart from each other, and its two noises."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.methods.published.conv_critic import ConvCritic
from dpwgan.methods.published.noisy_features import NoisyFeatures, make_device_rng


def make_critic(image: tuple[int, int, int] = (9, 8, 1), **more: Any) -> ConvCritic:
    return ConvCritic(
        image, classes=3, filters=(4, 6), features=more.pop("features", 5), rng=np.random.default_rng(1), **more
    )


def draw_images(batch: int, image: tuple[int, int, int] = (9, 8, 1)) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(2)
    images = rng.random((batch, *image), dtype=np.float32)
    return tf.constant(images), tf.one_hot(rng.integers(0, 3, batch), 3)


def test_score_of_a_row_does_not_depend_on_the_others_when_they_are_scored_together():
    critic, (images, labels) = make_critic(), draw_images(6)
    together = critic.score(images, labels).numpy()
    assert together.shape == (6,)
    assert np.ptp(together) > 0
    alone = critic.score(images[1:2], labels[1:2]).numpy()
    np.testing.assert_allclose(together[1:2], alone, rtol=1e-4, atol=1e-6)


def test_score_differs_when_only_the_label_does():
    critic, (images, _) = make_critic(), draw_images(1)
    scores = {float(critic.score(images, tf.one_hot([label], 3))[0]) for label in range(3)}
    assert len(scores) == 3


def test_critic_has_a_layer_of_64_features_when_none_is_asked_for():
    critic = ConvCritic((28, 28, 1), classes=10, rng=np.random.default_rng(0))
    assert critic.weights[-1].shape == (64, 1)
    assert critic.weights[-3].shape == (7 * 7 * 64 + 10, 64)
    assert critic.features(*(tf.zeros((2, 28, 28, 1)), tf.zeros((2, 10)))).shape == (2, 64)


def test_activations_are_noised_when_that_is_asked_for():
    noisy = make_critic(activation_stddev=0.5**0.5, device_rng=make_device_rng(np.random.default_rng(4)))
    images, labels = draw_images(4)
    assert np.abs(noisy.score(images, labels) - noisy.score(images, labels)).max() > 0
    quiet = make_critic()
    np.testing.assert_array_equal(quiet.score(images, labels), quiet.score(images, labels))
    with pytest.raises(ValueError, match="needs a generator"):
        make_critic(activation_stddev=0.5)


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
