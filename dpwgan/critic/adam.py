"""Adam, for networks whose published settings ask for it."""

from collections.abc import Sequence

import tensorflow as tf

_FLOOR = 1e-8
"""As published: far below gradients of usual size."""


class Adam:
    """Moves each weight by the running mean of its gradient over the root of its running mean square.

    Privacy: post-processing, if the gradients it is given were released; else it protects nothing.
    Source: Kingma and Ba 2015, arXiv:1412.6980, Algorithm 1.
    """

    def __init__(
        self,
        weights: Sequence[tf.Variable],
        *,
        learning_rate: float,
        mean_memory: float,
        square_memory: float,
        floor: float = _FLOOR,
    ) -> None:
        """Starts with no memory; `mean_memory` and `square_memory` are beta_1 and beta_2, `floor` is epsilon."""
        self._floor = floor
        self._weights = list(weights)
        self._learning_rate = learning_rate
        self._memories = (mean_memory, square_memory)
        self._means = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        self._squares = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        self._updates = tf.Variable(0.0)

    @property
    def variables(self) -> list[tf.Variable]:
        """Its memory."""
        return [*self._means, *self._squares, self._updates]

    def descend(self, gradients: Sequence[tf.Tensor], *, share: tf.Tensor | float = 1.0) -> None:
        """Moves the weights against the gradients of a loss, by a share of the learning rate."""
        first, second = self._memories
        self._updates.assign_add(1.0)
        corrections = 1.0 - tf.pow(first, self._updates), 1.0 - tf.pow(second, self._updates)
        for weight, gradient, mean, square in zip(self._weights, gradients, self._means, self._squares, strict=True):
            mean.assign(first * mean + (1.0 - first) * gradient)
            square.assign(second * square + (1.0 - second) * tf.square(gradient))
            step = (mean / corrections[0]) / (tf.sqrt(square / corrections[1]) + self._floor)
            weight.assign_sub(share * self._learning_rate * step)
