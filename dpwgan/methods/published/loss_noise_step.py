"""The steps of a GAN with noise on its generator's loss, as published. The noise changes nothing that is trained."""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.tracing import compile_step
from dpwgan.methods.published.networks import Inputs, Networks

BOUND_SHARE = 0.7
"""The bound on a loss, as a share of the discriminator's loss on the batch before (section 3.4)."""

# The paper names no optimiser. Radford et al. have 0.5 and 0.999; but the bound scales the generator's gradients up and
# down by orders of magnitude, and a longer memory, or a floor above them, then brings the generator to a standstill.
_MEAN_MEMORY = 0.5
_CRITIC_SQUARE_MEMORY = 0.999
_GENERATOR_SQUARE_MEMORY = 0.9
_GENERATOR_FLOOR = 1e-16


class LossNoiseSteps:
    """A discriminator's and a generator's step on the logistic loss; the generator's is clipped and noised.

    Privacy: none. The discriminator reads rows as they are. The noise is a number that is added to a loss: the loss's
      gradient, all that the generator is given, is the same with any noise and with none. The bound itself is computed
      from the discriminator, hence from rows.
    Source: Han and Xue 2021, Algorithm 1 and section 3.4; Radford, Metz, Chintala 2016, arXiv:1511.06434.
    """

    def __init__(
        self,
        networks: Networks,
        *,
        batch_size: int,
        noise_multiplier: float,
        generator_learning_rate: float,
        critic_learning_rate: float,
        noise_rng: np.random.Generator,
    ) -> None:
        """`noise_multiplier` is the paper's sigma: stddev over the bound C."""
        self._networks = networks
        self._batch_size = batch_size
        self._noise_multiplier = noise_multiplier
        self._noise_rng = noise_rng
        self._generator_adam = Adam(
            networks.generator_weights,
            learning_rate=generator_learning_rate,
            mean_memory=_MEAN_MEMORY,
            square_memory=_GENERATOR_SQUARE_MEMORY,
            floor=_GENERATOR_FLOOR,
        )
        self._critic_adam = Adam(
            networks.critic_weights,
            learning_rate=critic_learning_rate,
            mean_memory=_MEAN_MEMORY,
            square_memory=_CRITIC_SQUARE_MEMORY,
        )
        self._bound = tf.Variable(1.0)
        rows = tf.TensorSpec([batch_size], tf.int64)
        self._trace_discriminator = compile_step(self._train_discriminator, input_signature=[rows])
        self._trace_generator = compile_step(self._train_generator, input_signature=[tf.TensorSpec([], tf.float32)])

    def train_discriminator(self, rows: npt.NDArray[np.int64]) -> None:
        """Takes one discriminator step on real rows and as many generated ones (lines 2 to 6), and sets the bound."""
        self._trace_discriminator(tf.constant(rows))

    def train_generator(self) -> None:
        """Takes one generator step on the noisy loss of fresh rows (lines 8 to 19)."""
        noise = self._noise_rng.standard_normal() if self._noise_multiplier > 0 else 0.0
        self._trace_generator(tf.constant(noise, tf.float32))

    def differentiate_noisy_loss(
        self, inputs: Inputs, labels: tf.Tensor, *, bound: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Gives the noisy loss and its gradient by the generator's weights. `noise` is standard normal.

        Shapes: a number, and a list like the generator's weights.
        """
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.generator_weights)
            scores = self._networks.score(self._networks.generate(inputs, labels), labels)
            clipped = clip_losses(tf.nn.softplus(-scores), bound=bound)
            stddev = self._noise_multiplier * bound
            loss = (tf.reduce_sum(clipped) + stddev * noise) / float(self._batch_size)
        return loss, tape.gradient(loss, self._networks.generator_weights)

    def _train_discriminator(self, rows: tf.Tensor) -> None:
        content, labels = self._networks.read(rows)
        generated = tf.stop_gradient(self._networks.generate(self._networks.draw(self._batch_size), labels))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.critic_weights)
            on_real = tf.reduce_mean(tf.nn.softplus(-self._networks.score(content, labels)))
            on_generated = tf.reduce_mean(tf.nn.softplus(self._networks.score(generated, labels)))
            loss = 0.5 * (on_real + on_generated)
        self._bound.assign(BOUND_SHARE * on_generated)
        self._critic_adam.descend(tape.gradient(loss, self._networks.critic_weights))

    def _train_generator(self, noise: tf.Tensor) -> None:
        inputs, labels = self._networks.draw(self._batch_size), self._networks.draw_labels(self._batch_size)
        _, gradients = self.differentiate_noisy_loss(inputs, labels, bound=self._bound, noise=noise)
        self._generator_adam.descend(gradients)


def clip_losses(losses: tf.Tensor, *, bound: tf.Tensor) -> tf.Tensor:
    """Scales each loss to at most `bound`; the factor is a number, and its own gradient is not followed.

    Were it followed, a loss above the bound would be a constant, of gradient 0: the worse a generated row, the less
    would be learnt from it, and where all losses are above the bound, nothing.
    Shapes: (b,) to (b,).
    Source: Han and Xue 2021, Algorithm 1, line 13.
    """
    return losses * tf.stop_gradient(1.0 / tf.maximum(1.0, losses / tf.maximum(bound, 1e-30)))
