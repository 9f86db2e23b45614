"""Real rows, generated rows and scores of networks."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.critic.rows import densify
from dpwgan.methods.published.networks import QuadraticCritic
from tests.critic.games import SHARES, make_networks
from tests.critic.tables import make_encoded
from tests.methods.images import make_images


def test_rows_of_a_table_are_dense_one_hot_rows_when_read():
    rows = np.array([3, 0, 17])
    content, labels = make_networks("table").read(tf.constant(rows))
    np.testing.assert_array_equal(content.numpy(), densify(make_encoded(40), rows).numpy())
    assert labels.shape == (3, 0)


def test_rows_of_images_are_images_and_their_labels_when_read():
    encoded, _ = make_images(40, side=8)
    content, labels = make_networks("images").read(tf.constant([3, 0, 17]))
    np.testing.assert_array_equal(content.numpy().reshape(3, -1), encoded.numbers[[3, 0, 17]])
    np.testing.assert_array_equal(labels.numpy().argmax(axis=1), encoded.codes[[3, 0, 17], 0])


@pytest.mark.statistical
def test_labels_fit_the_shares_when_drawn_on_the_device():
    counts = make_networks("images").draw_labels(5_000).numpy().sum(axis=0)
    assert stats.chisquare(counts, 5_000 * SHARES).pvalue > 1e-6
    assert stats.chisquare(counts, 5_000 * SHARES[::-1]).pvalue < 1e-6


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
