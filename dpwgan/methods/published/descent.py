"""What happens to a critic after the noise: its loss's noisy half and the half that needs no noise in, new weights out.

Privacy: post-processing of noisy sums. No row is within reach here.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from dpwgan.critic.adam import Adam

# A private gradient is mostly noise: its mean over many steps is less so.
_MEAN_MEMORY = 0.9
_SQUARE_MEMORY = 0.99


class Descent(Protocol):
    """Moves a critic's weights against both halves of its loss."""

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that it remembers, the weights left out."""

    def descend(self, noisy: Sequence[tf.Tensor], generated: Sequence[tf.Tensor], *, share: tf.Tensor) -> None:
        """Takes a step by a share of its length. Shapes: both lists are like the weights."""


class AdamDescent:
    """Adam on the sum of both halves: for networks whose layers differ in scale."""

    def __init__(self, weights: Sequence[tf.Variable]) -> None:
        self._adam = Adam(weights, learning_rate=1.0, mean_memory=_MEAN_MEMORY, square_memory=_SQUARE_MEMORY)

    @property
    def variables(self) -> list[tf.Variable]:
        """Adam's means."""
        return self._adam.variables

    def descend(self, noisy: Sequence[tf.Tensor], generated: Sequence[tf.Tensor], *, share: tf.Tensor) -> None:
        """Takes a step of Adam."""
        self._adam.descend([real + fake for real, fake in zip(noisy, generated, strict=True)], share=share)


class RememberedDescent:
    """Plain steps by the mean of all noisy halves so far, old ones counting less, and by the generated half of now.

    What rows say hardly changes from step to step, while the noise on it does; what the generator does changes, and has
    no noise. The weights are pulled to 0 as they move: they follow what is wrong now, and forget what was.
    All weights move at one rate, since their noise has one size: that of a clipped record which is spread evenly over
    all of them counts as 1.
    """

    def __init__(self, weights: Sequence[tf.Variable], *, memory: float, pull: float, l2_clip_norm: float) -> None:
        """Starts with no memory of gradients. `pull`: share of the way to 0 that a weight goes in a step."""
        self._weights = list(weights)
        self._unit = l2_clip_norm / math.sqrt(sum(math.prod(weight.shape) for weight in weights))
        self._memory, self._pull = memory, pull
        self._means = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        self._steps = tf.Variable(0.0)

    @property
    def variables(self) -> list[tf.Variable]:
        """The means and their age."""
        return [*self._means, self._steps]

    def descend(self, noisy: Sequence[tf.Tensor], generated: Sequence[tf.Tensor], *, share: tf.Tensor) -> None:
        """Takes a step; the mean is corrected for its start at 0."""
        self._steps.assign_add(1.0)
        correction = 1.0 - tf.pow(self._memory, self._steps)
        for weight, mean, real, fake in zip(self._weights, self._means, noisy, generated, strict=True):
            mean.assign(self._memory * mean + (1.0 - self._memory) * real)
            weight.assign((1.0 - self._pull) * weight - share * (mean / correction + fake) / self._unit)
