"""What happens to a discriminator that is linear in its weights after the noise. No row is within reach here."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from dpwgan.critic.plan import TrainingDesign

# Part of the steps after which the mean's noise is less than three times what it will be in the end.
_UNSURE = 0.125


class PlainAscent:
    """Keeps the mean of all noisy halves, and goes up the gradient that it makes with a fresh generated half.

    The gradient of a discriminator that is linear in its weights is the difference of two means of features, weighed by
    how little D is sure of each row. Its real half hardly changes while D stays near one half, so that the mean over
    all steps so far measures it best; the generated half needs no noise and is taken anew whenever the generator moves.
    Steps are plain, since all weights have the same noise, and are pulled back to weights of 0: where both even out
    are the best weights under a penalty on their square.
    Privacy: post-processing of the noisy sums; divides by the public expected batch size, never by the realised one.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1 (several steps of the discriminator).
    """

    compiled = False
    """Whether the step is compiled whole; few weights and few steps would not pay for it."""

    def __init__(self, critic: Any, plan: TrainingDesign) -> None:
        """Starts with no memory of gradients."""
        self._critic = critic
        self._plan = plan
        self._memory = [tf.Variable(tf.zeros_like(weight)) for weight in critic.weights]
        self._steps = tf.Variable(0.0)

    @property
    def confidence(self) -> tf.Tensor:
        """How far the mean is to be followed, 0 to 1: it rises over the first eighth of the steps.

        Of a few steps it is noise above all, and a generator that ran after that would have to come back from where
        pixels are cut.
        """
        return tf.minimum(1.0, self._steps / (_UNSURE * self._plan.steps))

    @property
    def variables(self) -> list[tf.Variable]:
        """The discriminator's weights, and all that is remembered of gradients."""
        return [*self._critic.weights, *self._memory, self._steps]

    def apply(
        self,
        noisy_sums: Sequence[tf.Tensor],
        generated_sums: Sequence[tf.Tensor],
        *,
        generated: int,
        learning_rate: tf.Tensor,
    ) -> None:
        """Takes in a step's noisy half, and takes a step. Shapes: both lists are like the discriminator's weights.

        `learning_rate` falls, for a discriminator that settles; this one follows its generator to the end, by the
        settings' rate.
        """
        del learning_rate
        self._steps.assign_add(1.0)
        for kept, noisy in zip(self._memory, noisy_sums, strict=True):
            kept.assign_add((noisy / self._plan.expected_batch_size - kept) / self._steps)
        self.answer(generated_sums, generated=generated)

    def answer(self, generated_sums: Sequence[tf.Tensor], *, generated: int) -> None:
        """Takes a step with what is known of rows already: reads none, adds no noise, costs nothing."""
        settings, clip = self._plan.settings, self._plan.l2_clip_norm
        for weight, kept, fake in zip(self._critic.weights, self._memory, generated_sums, strict=True):
            gradient = (kept - fake / float(generated)) / clip
            rate = self.confidence * settings.critic_learning_rate
            weight.assign_add(rate * gradient - settings.weight_pull * weight)
