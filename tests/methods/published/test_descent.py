"""What moves a private critic after the noise."""

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.methods.published.descent import RememberedDescent

SHARE = tf.constant(0.5)


def make_weights() -> list[tf.Variable]:
    return [tf.Variable([1.0, -2.0]), tf.Variable([[3.0], [0.5]])]


def test_step_is_the_mean_of_all_noisy_halves_and_the_last_generated_one_when_memory_is_long():
    weights = make_weights()
    # Four weights and a clip norm of 2: a clipped record that is spread evenly is 1 in each.
    descent = RememberedDescent(weights, memory=0.9, pull=0.25, l2_clip_norm=2.0)
    rng = np.random.default_rng(1)
    known, mean, scale = np.array([1.0, -2.0, 3.0, 0.5]), np.zeros(4), 0.0
    for _ in range(5):
        noisy, generated = rng.standard_normal((2, 4)).astype(np.float32)
        descent.descend(
            [tf.constant(noisy[:2]), tf.constant(noisy[2:, None])],
            [tf.constant(generated[:2]), tf.constant(generated[2:, None])],
            share=SHARE,
        )
        mean, scale = 0.9 * mean + 0.1 * noisy, 0.9 * scale + 0.1
        known = 0.75 * known - 0.5 * (mean / scale + generated)
    found = np.concatenate([weight.numpy().ravel() for weight in weights])
    np.testing.assert_allclose(found, known, rtol=1e-4)


def test_critic_comes_to_rest_when_both_halves_agree():
    weights = make_weights()
    descent = RememberedDescent(weights, memory=0.9, pull=0.25, l2_clip_norm=2.0)
    half = [tf.ones_like(weight) for weight in weights]
    for _ in range(60):
        descent.descend(half, [-part for part in half], share=SHARE)
    assert max(np.abs(weight.numpy()).max() for weight in weights) < 1e-4


def test_descent_goes_on_as_it_would_have_when_its_variables_are_brought_back():
    def take(weights: list[tf.Variable], descent: RememberedDescent, number: float) -> None:
        parts = [tf.fill(weight.shape, number) for weight in weights]
        descent.descend(parts, [0.1 * part for part in parts], share=SHARE)

    weights, others = make_weights(), make_weights()
    first = RememberedDescent(weights, memory=0.9, pull=0.25, l2_clip_norm=2.0)
    second = RememberedDescent(others, memory=0.9, pull=0.25, l2_clip_norm=2.0)
    for number in (1.0, -3.0):
        take(weights, first, number)
    for old, new in zip([*weights, *first.variables], [*others, *second.variables], strict=True):
        new.assign(old)
    for pair in ((weights, first), (others, second)):
        take(*pair, 2.0)
    for old, new in zip(weights, others, strict=True):
        assert new.numpy() == pytest.approx(old.numpy())
