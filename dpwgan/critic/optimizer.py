"""RMSProp on released gradients: every number it keeps is a function of noisy ones."""

from collections.abc import Sequence

import tensorflow as tf


class RmsProp:
    """Divides each coordinate of a gradient by the root of its running mean square.

    The mean square is corrected for its start at 0, so that the first steps are no longer than later ones.
    Privacy: post-processing, if the gradients it is given were released.
    Source: Tieleman and Hinton 2012, lecture 6.5; the correction as in Kingma and Ba 2015, arXiv:1412.6980.
    """

    def __init__(self, weights: Sequence[tf.Variable], *, decay: float, floor: float = 1e-12) -> None:
        """Starts with no memory of gradients.

        `decay` is the weight of the past in the mean square; `floor`, in the unit of the gradients, is added to its
        root: coordinates far below it are not blown up to the size of the others.
        """
        self._floor = floor
        self._decay = decay
        self._weights = list(weights)
        self._squares = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        self._updates = tf.Variable(0.0)

    @property
    def variables(self) -> list[tf.Variable]:
        """Its memory."""
        return [*self._squares, self._updates]

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        learning_rate: tf.Tensor,
        *,
        measured: Sequence[tf.Tensor] | None = None,
    ) -> None:
        """Moves the weights along `gradients` by `learning_rate` (negative: against them).

        The running mean square is that of `measured`, where given: gradients may be averaged, their scale is not.
        """
        self._updates.assign_add(1.0)
        correction = 1.0 - tf.pow(self._decay, self._updates)
        scales = gradients if measured is None else measured
        for weight, gradient, scale, square in zip(self._weights, gradients, scales, self._squares, strict=True):
            square.assign(self._decay * square + (1.0 - self._decay) * tf.square(scale))
            weight.assign_add(learning_rate * gradient / (tf.sqrt(square / correction) + self._floor))
