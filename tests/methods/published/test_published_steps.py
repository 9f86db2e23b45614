"""The published update with noise on the loss: the noise changes the loss, and not one bit of what is trained."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.device import compile_step
from dpwgan.methods.published.published_steps import BOUND_SHARE, LossNoiseSteps, clip_losses
from tests.critic.games import make_networks
from tests.critic.tables import flat
from tests.methods.runs import make_plan, make_table


def make_steps(kind: str) -> LossNoiseSteps:
    settings = {"expected_batch_size": 8, "generator_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    plan = replace(make_plan("loss-noise-gan", make_table(60).shape, **settings).design, noise_multiplier=5.0)
    return LossNoiseSteps(make_networks(kind), plan, noise_rng=np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "table"])
def test_gradients_are_the_same_bits_when_noise_is_added_to_the_loss(kind):
    steps, networks = make_steps(kind), make_networks(kind)
    inputs, labels = networks.draw(8), networks.draw_labels(8)

    @compile_step
    def differentiate(bound: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        return steps.differentiate_noisy_loss(inputs, labels, bound=bound, noise=noise)

    for bound in (0.01, 0.6, 100.0):
        quiet_loss, quiet = differentiate(tf.constant(bound), tf.constant(0.0))
        assert any(np.any(gradient) for gradient in quiet)
        whole = flat(quiet).tobytes()
        for noise in (-3.0, 1e-3, 2.5, 1e6):
            loss, gradients = differentiate(tf.constant(bound), tf.constant(noise))
            assert loss.numpy() != quiet_loss.numpy()
            assert flat(gradients).tobytes() == whole
            # The twin: noise on the gradient, where it belongs, is seen.
            assert flat(gradient + 5.0 * bound * noise for gradient in gradients).tobytes() != whole


def test_losses_are_clipped_to_the_bound_when_they_are_above_it():
    losses = tf.Variable([0.1, 0.5, 2.0])
    with tf.GradientTape() as tape:
        clipped = clip_losses(losses, bound=tf.constant(0.5))
    np.testing.assert_allclose(clipped.numpy(), [0.1, 0.5, 0.5])
    np.testing.assert_allclose(tape.gradient(clipped, losses).numpy(), [1.0, 1.0, 0.25])


def test_bound_follows_the_discriminators_loss_when_it_is_trained():
    steps = make_steps("table")
    steps.train_discriminator(np.arange(8))
    first = float(steps._bound)
    for _ in range(30):
        steps.train_discriminator(np.arange(8))
    assert 0 < float(steps._bound) < first < BOUND_SHARE * 10
