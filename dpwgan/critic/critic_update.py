"""What happens to the critic after the noise: released gradients in, new weights out. No row is within reach here."""

import math
from collections.abc import Sequence

import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.optimizer import RmsProp
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.tracing import compile_step

# Noise is of one size in all steps: a long memory measures it well.
_DECAY = 0.99
# One compiled cluster makes one pass over the weights of what are some twenty: 2.5 ns a weight and step instead of 7,
# for a quarter of a second of compiling. Runs of fewer weights times steps do without.
_COMPILED_FROM = 60_000_000


class CriticUpdate:
    """Turns the noisy half of a critic step and its generated half into an update of the weights.

    The noisy half is averaged over past steps before the generated half, which needs no noise, is taken from it: the
    weights move slowly, so their real half hardly changes from step to step while its noise averages out.
    Then RMSProp, a pull back to the first weights, and the weight clip.
    Privacy: post-processing of the noisy sums; divides by the public expected batch size, never by the realised one.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 12 to 14.
    """

    def __init__(self, critic: Critic, plan: TrainingDesign) -> None:
        """Starts with no memory of gradients."""
        self._critic = critic
        self._plan = plan
        # Gradients come in units of the clip norm: a clipped record spread evenly over all weights has this size. Where
        # the noise is far below it, at a large budget, steps must not grow for that.
        floor = 1.0 / math.sqrt(plan.critic_weights)
        self._optimizer = RmsProp(critic.weights, decay=_DECAY, floor=floor)
        self._memory = [tf.Variable(tf.zeros_like(weight)) for weight in critic.weights]
        self._steps = tf.Variable(0.0)
        on_cpu = "GPU" not in critic.weights[0].device
        # What makes the gradients joins the cluster where there is one.
        self.compiled = on_cpu and plan.steps * plan.critic_weights >= _COMPILED_FROM
        self._move = compile_step(self._trace, jit_compile=True) if self.compiled else self._trace

    @property
    def variables(self) -> list[tf.Variable]:
        """The critic's weights, now and at first, and all that is remembered of gradients."""
        return [*self._critic.weights, *self._critic.initial, *self._optimizer.variables, *self._memory, self._steps]

    def apply(
        self,
        noisy_sums: Sequence[tf.Tensor],
        generated_sums: Sequence[tf.Tensor],
        *,
        generated: int,
        learning_rate: tf.Tensor,
    ) -> None:
        """Moves the critic towards telling real rows from the `generated` ones better.

        Shapes: both lists are like the critic's weights.
        """
        self._move(list(noisy_sums), list(generated_sums), tf.constant(float(generated)), learning_rate)

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
            kept.assign(memory * kept + (1.0 - memory) * noisy / batch)
            gradients.append((kept / correction - fake / generated) / clip)
            measured.append((noisy / batch - fake / generated) / clip)
        # The scale is taken before the average: there the noise is the same for all weights, so that a weight which
        # hardly ever matters is not blown up to the size of the others.
        self._optimizer.apply(gradients, learning_rate, measured=measured)
        pull, limit = settings.weight_pull, settings.weight_clip
        for weight, first in zip(self._critic.weights, self._critic.initial, strict=True):
            pulled = weight - pull * (weight - first) if pull > 0 else weight
            weight.assign(tf.clip_by_value(pulled, -limit, limit))
