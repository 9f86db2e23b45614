"""A critic of images in few coordinates: linear in its weights, which are few, since every one of them gets noise."""

import tensorflow as tf

# A record's gradient is about as long for its products as for its coordinates, where these are 1 to 3 long.
_PRODUCTS = 0.35


class QuadraticCritic:
    """Scores coordinates x and a label y by a vector a class and a matrix for all: w_y x + 0.35 x A x.

    The vectors hear what sets the classes apart; the matrix hears which ways pictures vary, and how far. The first
    weights are 0: what the critic says is what it has learnt, and no random network stands before the noise.
    Privacy: the score of a row is a function of that row and the weights alone.
    Shapes: `weights` are the vectors (classes, dimension) and the matrix (dimension, dimension).
    Source: Miyato and Koyama 2018, arXiv:1802.05637, equation 4 (a label that is projected on the features).
    """

    def __init__(self, *, dimension: int, classes: int) -> None:
        """Starts at 0."""
        self.weights: list[tf.Variable] = [
            tf.Variable(tf.zeros([classes, dimension])),
            tf.Variable(tf.zeros([dimension, dimension])),
        ]

    def score(self, points: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores points. Shapes: (b, dimension) and one-hot (b, classes) to (b,)."""
        vectors, matrix = self.weights
        return tf.reduce_sum((labels @ vectors + _PRODUCTS * (points @ matrix)) * points, axis=1)
