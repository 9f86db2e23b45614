"""What happens to a discriminator that is linear in its weights after the noise. No row is within reach here."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from dpwgan.training.plan import TrainingPlan


class BestResponse:
    """Keeps the mean of all noisy halves, and sets the weights to the best response to the generator as it is.

    While D stays near one half, the gradient of a discriminator that is linear in its weights is the difference of two
    means of features, one of real rows and one of generated ones. The real one hardly changes from step to step, so
    that the mean over all steps so far measures it best; the generated one needs no noise and is taken anew whenever
    the generator has moved. Under a penalty on their square the best weights are that difference times a constant.
    Privacy: post-processing of the noisy sums; divides by the public expected batch size, never by the realised one.
    Source: Li et al. 2017, arXiv:1705.08584 (the best discriminator of a linear class of bounded norm).
    """

    def __init__(self, critic: Any, plan: TrainingPlan) -> None:
        """Starts with no memory of gradients."""
        self._critic = critic
        self._plan = plan
        self._memory = [tf.Variable(tf.zeros_like(weight)) for weight in critic.weights]
        self._steps = tf.Variable(0.0)

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
        """Takes in a step's noisy half, and answers. Shapes: both lists are like the discriminator's weights.

        `learning_rate` is that of a discriminator which moves in steps, and falls; a best response is no step.
        """
        del learning_rate
        self._steps.assign_add(1.0)
        for kept, noisy in zip(self._memory, noisy_sums, strict=True):
            kept.assign_add((noisy / self._plan.expected_batch_size - kept) / self._steps)
        self.respond(generated_sums, generated=generated)

    def respond(self, generated_sums: Sequence[tf.Tensor], *, generated: int) -> None:
        """Answers the generator with what is known of rows already: reads none, adds no noise, costs nothing."""
        strength = self._plan.settings.critic_learning_rate / self._plan.l2_clip_norm
        for weight, kept, fake in zip(self._critic.weights, self._memory, generated_sums, strict=True):
            weight.assign(strength * (kept - fake / float(generated)))
