"""A running average of a generator's weights, from which rows are sampled."""

from collections.abc import Sequence

import tensorflow as tf


class WeightAverage:
    """Follows weights as they move: what steps to and fro leave is their mean.

    Privacy: post-processing of the weights.
    Source: Polyak and Juditsky 1992 (averaging).
    """

    def __init__(self, weights: Sequence[tf.Variable], *, keep: float) -> None:
        """Starts at the first weights. `keep`: weight of the past."""
        self._weights = list(weights)
        self._keep = keep
        self.means = [tf.Variable(weight) for weight in weights]
        """What has been averaged so far, like the weights."""

    def follow(self) -> None:
        """Takes the weights in as they are now."""
        for mean, weight in zip(self.means, self._weights, strict=True):
            mean.assign(self._keep * mean + (1.0 - self._keep) * weight)
