"""The critic of few weights: its score against a loop."""

import numpy as np
import tensorflow as tf

from dpwgan.methods.published.quadratic import QuadraticCritic


def test_score_is_a_vector_and_a_matrix_of_the_point_when_counted_by_a_loop():
    rng = np.random.default_rng(2)
    critic = QuadraticCritic(dimension=4, classes=3)
    assert all(not weight.numpy().any() for weight in critic.weights)
    for weight in critic.weights:
        weight.assign(rng.standard_normal(weight.shape))
    vectors, matrix = (weight.numpy() for weight in critic.weights)
    points = rng.standard_normal((6, 4)).astype(np.float32)
    classes = rng.integers(0, 3, 6)
    found = critic.score(tf.constant(points), tf.one_hot(classes, 3)).numpy()
    for point, label, score in zip(points, classes, found, strict=True):
        np.testing.assert_allclose(score, vectors[label] @ point + 0.35 * point @ matrix @ point, rtol=1e-4, atol=1e-5)
