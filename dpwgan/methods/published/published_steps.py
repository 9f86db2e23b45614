"""Steps as published, with noise in the wrong place. NOT PRIVATE: discriminators read rows as they are."""

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Integers
from dpwgan.critic.device import compile_step
from dpwgan.critic.optimizers import Adam
from dpwgan.critic.private_step import count_entries, flatten, split_like
from dpwgan.methods.published.game import PlainDesign
from dpwgan.methods.published.networks import Inputs, Networks, draw_labelled
from dpwgan.methods.published.published_gan import GENERATOR_CLIP, MEMORIES, RATE, PublishedDesign

BOUND_SHARE = 0.7
"""The bound on a loss, as a share of the discriminator's loss on the batch before (Han and Xue 2021, section 3.4)."""

# Han and Xue name no optimiser. Radford et al. have 0.5 and 0.999; but the bound scales the generator's gradients up
# and down by orders of magnitude, and a longer memory, or a floor above them, brings the generator to a standstill.
_CRITIC_MEMORIES, _GENERATOR_MEMORIES = (0.5, 0.999), (0.5, 0.9)
_GENERATOR_FLOOR = 1e-16


class PublishedSteps:
    """A step of Adam on the discriminator, then one of noisy Adam on the generator.

    The generator's batch is cut into microbatches; each one's gradient is clipped over all weights together, and the
    noise is on their sum.
    Privacy: none that is worth having; see `dpwgan.methods.published.published_gan.provable_epsilon`.
    Source: Johnson 2019, section 4.2 and Appendix B; DPAdamGaussianOptimizer of tensorflow-privacy.
    """

    def __init__(self, networks: Networks, plan: PublishedDesign, *, noise_rng: np.random.Generator) -> None:
        self._networks = networks
        self._microbatches, self._microbatch = plan.microbatches, plan.batch // plan.microbatches
        self._stddev, self._noise_rng = np.float32(plan.noise_multiplier * GENERATOR_CLIP), noise_rng
        self._of_discriminator = Adam(networks.critic_weights, learning_rate=RATE, memories=MEMORIES)
        self._of_generator = Adam(networks.generator_weights, learning_rate=RATE, memories=MEMORIES)
        self._sizes = count_entries(networks.generator_weights)
        self._step = compile_step(self._trace)

    def __call__(self, rows: Integers) -> None:
        """Takes both steps, with the rows of the given numbers."""
        noise = self._noise_rng.standard_normal(sum(self._sizes), dtype=np.float32)
        self._step(tf.constant(rows), tf.constant(noise * self._stddev))

    def clipped_sum(self) -> tf.Tensor:
        """Sums the clipped gradients of all microbatches, fresh ones. Shapes: (weights,)."""

        def add_one(done: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(
                    tf.nn.softplus(-self._networks.score(*draw_labelled(self._networks, self._microbatch)))
                )
            parts = tape.gradient(loss, list(self._networks.generator_weights), unconnected_gradients="zero")
            flat = flatten(parts)
            return done + 1, total + flat * tf.minimum(1.0, GENERATOR_CLIP / tf.maximum(tf.norm(flat), 1e-30))

        start = tf.constant(0), tf.zeros(sum(self._sizes))
        return tf.while_loop(lambda done, total: done < self._microbatches, add_one, start)[1]

    def _trace(self, rows: tf.Tensor, noise: tf.Tensor) -> None:
        real, fake = self._networks.read(rows), draw_labelled(self._networks, self._microbatches * self._microbatch)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-self._networks.score(*real)))
            loss += tf.reduce_mean(tf.nn.softplus(self._networks.score(*fake)))
        weights = list(self._networks.critic_weights)
        self._of_discriminator.descend(tape.gradient(loss, weights))
        noisy = (self.clipped_sum() + noise) / float(self._microbatches)
        self._of_generator.descend(split_like(noisy, self._networks.generator_weights))


class LossNoiseSteps:
    """A discriminator's and a generator's step on the logistic loss; the generator's is clipped and noised.

    Privacy: none. The discriminator reads rows as they are. The noise is a number that is added to a loss: the loss's
      gradient, all that the generator is given, is the same with any noise and with none. The bound itself is computed
      from the discriminator, hence from rows.
    Source: Han and Xue 2021, Algorithm 1 and section 3.4; Radford, Metz, Chintala 2016, arXiv:1511.06434.
    """

    def __init__(self, networks: Networks, plan: PlainDesign, *, noise_rng: np.random.Generator) -> None:
        """The plan's noise multiplier is the paper's sigma: stddev over the bound C."""
        self._networks, self._batch_size = networks, plan.game.batch_size
        self._noise_multiplier, self._noise_rng = plan.noise_multiplier, noise_rng
        settings = plan.game.settings
        self._generator_adam = Adam(
            networks.generator_weights,
            learning_rate=settings.generator_learning_rate,
            memories=_GENERATOR_MEMORIES,
            floor=_GENERATOR_FLOOR,
        )
        self._critic_adam = Adam(
            networks.critic_weights, learning_rate=settings.critic_learning_rate, memories=_CRITIC_MEMORIES
        )
        self._bound = tf.Variable(1.0)
        rows = tf.TensorSpec([self._batch_size], tf.int64)
        self.train_discriminator = compile_step(self._train_discriminator, input_signature=[rows])
        """Takes one discriminator step on real rows and as many generated ones (lines 2 to 6), and sets the bound."""
        self._trace_generator = compile_step(self._train_generator, input_signature=[tf.TensorSpec([], tf.float32)])

    def train_generator(self) -> None:
        """Takes one generator step on the noisy loss of fresh rows (lines 8 to 19)."""
        self._trace_generator(tf.constant(self._noise_rng.standard_normal(), tf.float32))

    def differentiate_noisy_loss(
        self, inputs: Inputs, labels: tf.Tensor, *, bound: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Computes the noisy loss and its gradient by the generator's weights. `noise` is standard normal.

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
