"""Optimizers: from released, noisy gradients to new weights. No row is within reach here."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.device import compile_step
from dpwgan.critic.plan import TrainingDesign

# As published for Adam: far below gradients of usual size.
_FLOOR = 1e-8
# Noise is of one size in all steps of a critic: a long memory measures it well.
_DECAY = 0.99
# One compiled cluster makes one pass over the weights of what are some twenty: 2.5 ns a weight and step instead of 7,
# for a quarter of a second of compiling. Runs of fewer weights times steps do without.
_COMPILED_FROM = 60_000_000
# Part of the steps after which the mean's noise is less than three times what it will be in the end.
_UNSURE = 0.125


def like(weights: Sequence[tf.Variable]) -> list[tf.Variable]:
    """Makes variables of zeros like the weights: a memory of nothing yet."""
    return [tf.Variable(tf.zeros_like(weight)) for weight in weights]


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
        self._floor, self._decay = floor, decay
        self._weights = list(weights)
        self._squares, self._updates = like(weights), tf.Variable(0.0)
        self.variables = [*self._squares, self._updates]
        """Its memory."""

    def descend(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves the weights against the gradients of a loss."""
        self.apply(gradients, -learning_rate, measured=gradients)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor, *, measured: Sequence[tf.Tensor]) -> None:
        """Moves the weights along `gradients`.

        The running mean square is that of `measured`: gradients may be averaged, their scale is not.
        """
        self._updates.assign_add(1.0)
        correction = 1.0 - tf.pow(self._decay, self._updates)
        for weight, gradient, scale, square in zip(self._weights, gradients, measured, self._squares, strict=True):
            square.assign(self._decay * square + (1.0 - self._decay) * tf.square(scale))
            weight.assign_add(learning_rate * gradient / (tf.sqrt(square / correction) + self._floor))


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
        memories: tuple[float, float],
        floor: float = _FLOOR,
    ) -> None:
        """Starts with no memory; `memories` are beta_1, of the mean, and beta_2, of the square; `floor` is epsilon."""
        self._floor = floor
        self._weights = list(weights)
        self._learning_rate = learning_rate
        self._memories = memories
        self._means, self._squares, self._updates = like(weights), like(weights), tf.Variable(0.0)
        self.variables = [*self._means, *self._squares, self._updates]
        """Its memory."""

    def descend(self, gradients: Sequence[tf.Tensor], share: tf.Tensor | float = 1.0) -> None:
        """Moves the weights against the gradients of a loss, by a share of the learning rate."""
        first, second = self._memories
        self._updates.assign_add(1.0)
        corrections = 1.0 - tf.pow(first, self._updates), 1.0 - tf.pow(second, self._updates)
        for weight, gradient, mean, square in zip(self._weights, gradients, self._means, self._squares, strict=True):
            mean.assign(first * mean + (1.0 - first) * gradient)
            square.assign(second * square + (1.0 - second) * tf.square(gradient))
            step = (mean / corrections[0]) / (tf.sqrt(square / corrections[1]) + self._floor)
            weight.assign_sub(share * self._learning_rate * step)


class WeightAverage:
    """A running average of weights.

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


class CriticUpdate:
    """Turns the noisy half of a critic step and its generated half into an update of the weights.

    The noisy half is averaged over past steps before the generated half, which needs no noise, is taken from it: the
    weights move slowly, so their real half hardly changes from step to step while its noise averages out.
    Then RMSProp, a pull back to the first weights, and the weight clip.
    Privacy: post-processing of the noisy sums; divides by the public expected batch size, never by the realised one.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 12 to 14.
    """

    def __init__(self, critic: Critic, plan: TrainingDesign) -> None:
        self._critic, self._plan = critic, plan
        # Gradients come in units of the clip norm: a clipped record spread evenly over all weights has this size. Where
        # the noise is far below it, at a large budget, steps must not grow for that.
        floor = 1.0 / math.sqrt(plan.critic_weights)
        self._optimizer = RmsProp(critic.weights, decay=_DECAY, floor=floor)
        self._memory, self._steps = like(critic.weights), tf.Variable(0.0)
        on_cpu = "GPU" not in critic.weights[0].device
        # What makes the gradients joins the cluster where there is one.
        self.compiled = on_cpu and plan.steps * plan.critic_weights >= _COMPILED_FROM
        self._move = compile_step(self._trace, jit_compile=True) if self.compiled else self._trace
        self.variables = [*critic.weights, *critic.initial, *self._optimizer.variables, *self._memory, self._steps]
        """The critic's weights, now and at first, and all that is remembered of gradients."""

    def apply(
        self, noisy_sums: Sequence[tf.Tensor], generated_sums: Sequence[tf.Tensor], *, learning_rate: tf.Tensor
    ) -> None:
        """Moves the critic towards telling real rows from generated ones better.

        Shapes: both lists are like the critic's weights.
        """
        generated = tf.constant(float(self._plan.generated_batch_size))
        self._move(list(noisy_sums), list(generated_sums), generated, learning_rate)

    def _trace(
        self,
        noisy_sums: Sequence[tf.Tensor],
        generated_sums: Sequence[tf.Tensor],
        generated: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        settings = self._plan.settings
        memory = settings.gradient_memory
        self._steps.assign_add(1.0)
        correction = 1.0 - tf.pow(memory, self._steps) if memory > 0 else 1.0
        batch, clip = self._plan.expected_batch_size, self._plan.l2_clip_norm
        gradients, measured = [], []
        for kept, noisy, fake in zip(self._memory, noisy_sums, generated_sums, strict=True):
            noisy_mean, fake_mean = noisy / batch, fake / generated
            kept.assign(memory * kept + (1.0 - memory) * noisy_mean)
            gradients.append((kept / correction - fake_mean) / clip)
            measured.append((noisy_mean - fake_mean) / clip)
        # The scale is taken before the average: there the noise is the same for all weights, so that a weight which
        # hardly ever matters is not blown up to the size of the others.
        self._optimizer.apply(gradients, learning_rate, measured=measured)
        pull, limit = settings.weight_pull, settings.weight_clip
        for weight, first in zip(self._critic.weights, self._critic.initial, strict=True):
            pulled = weight - pull * (weight - first) if pull > 0 else weight
            weight.assign(tf.clip_by_value(pulled, -limit, limit))


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
        self._critic, self._plan = critic, plan
        self._memory, self._steps = like(critic.weights), tf.Variable(0.0)
        self.variables = [*critic.weights, *self._memory, self._steps]
        """The discriminator's weights, and all that is remembered of gradients."""

    @property
    def confidence(self) -> tf.Tensor:
        """How far the mean is to be followed, 0 to 1: it rises over the first eighth of the steps.

        Of a few steps it is noise above all, and a generator that ran after that would have to come back from where
        pixels are cut.
        """
        return tf.minimum(1.0, self._steps / (_UNSURE * self._plan.steps))

    def apply(
        self, noisy_sums: Sequence[tf.Tensor], generated_sums: Sequence[tf.Tensor], *, learning_rate: tf.Tensor
    ) -> None:
        """Takes in a step's noisy half, and takes a step. Shapes: both lists are like the discriminator's weights.

        `learning_rate` falls, for a discriminator that settles; this one follows its generator to the end, by the
        settings' rate.
        """
        del learning_rate
        self._steps.assign_add(1.0)
        for kept, noisy in zip(self._memory, noisy_sums, strict=True):
            kept.assign_add((noisy / self._plan.expected_batch_size - kept) / self._steps)
        self.answer(generated_sums)

    def answer(self, generated_sums: Sequence[tf.Tensor]) -> None:
        """Takes a step with what is known of rows already: reads none, adds no noise, costs nothing."""
        settings, clip = self._plan.settings, self._plan.l2_clip_norm
        for weight, kept, fake in zip(self._critic.weights, self._memory, generated_sums, strict=True):
            gradient = (kept - fake / float(self._plan.generated_batch_size)) / clip
            rate = self.confidence * settings.critic_learning_rate
            weight.assign_add(rate * gradient - settings.weight_pull * weight)
