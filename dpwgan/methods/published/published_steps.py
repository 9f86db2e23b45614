"""Training as the DP-GAN was published: a plain discriminator, and noise on the generator's clipped gradients.

NOT PRIVATE: the discriminator's weights come from rows without noise, and each generator step comes from those weights.
"""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.tracing import compile_step
from dpwgan.methods.published.networks import Networks


class PublishedSteps:
    """A step of Adam on the discriminator, then one of noisy Adam on the generator.

    The generator's batch is cut into microbatches; each one's gradient is clipped over all weights together, and the
    noise is on their sum.
    Privacy: none that is worth having; see `dpwgan.methods.published.published_gan.provable_epsilon`.
    Source: Johnson 2019, section 4.2 and Appendix B; DPAdamGaussianOptimizer of tensorflow-privacy.
    """

    def __init__(
        self,
        networks: Networks,
        *,
        microbatches: int,
        microbatch: int,
        l2_clip_norm: float,
        learning_rate: float,
        mean_memory: float,
        square_memory: float,
    ) -> None:
        """Starts both optimisers without memory."""
        self._networks = networks
        self._microbatches, self._microbatch, self._l2_clip_norm = microbatches, microbatch, l2_clip_norm
        rates = {"learning_rate": learning_rate, "mean_memory": mean_memory, "square_memory": square_memory}
        self._of_discriminator = Adam(networks.critic_weights, **rates)
        self._of_generator = Adam(networks.generator_weights, **rates)
        self._sizes = [int(np.prod(weight.shape)) for weight in networks.generator_weights]
        self._step = compile_step(self._trace)

    def __call__(self, rows: npt.NDArray[np.int64], *, noise_rng: np.random.Generator, noise_multiplier: float) -> None:
        """Takes both steps, with the rows of the given numbers."""
        noise = noise_rng.standard_normal(sum(self._sizes), dtype=np.float32)
        self._step(tf.constant(rows), tf.constant(noise * np.float32(noise_multiplier * self._l2_clip_norm)))

    def clipped_sum(self) -> tf.Tensor:
        """Sums the clipped gradients of all microbatches, fresh ones. Shapes: (weights,)."""

        def add_one(done: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.softplus(-self._networks.score(*self._draw(self._microbatch))))
            parts = tape.gradient(loss, list(self._networks.generator_weights), unconnected_gradients="zero")
            flat = tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)
            return done + 1, total + flat * tf.minimum(1.0, self._l2_clip_norm / tf.maximum(tf.norm(flat), 1e-30))

        start = tf.constant(0), tf.zeros(sum(self._sizes))
        return tf.while_loop(lambda done, total: done < self._microbatches, add_one, start)[1]

    def _draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, labels = self._networks.draw(batch), self._networks.draw_labels(batch)
        return self._networks.generate(inputs, labels), labels

    def _trace(self, rows: tf.Tensor, noise: tf.Tensor) -> None:
        real, fake = self._networks.read(rows), self._draw(self._microbatches * self._microbatch)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-self._networks.score(*real)))
            loss += tf.reduce_mean(tf.nn.softplus(self._networks.score(*fake)))
        weights = list(self._networks.critic_weights)
        self._of_discriminator.descend(tape.gradient(loss, weights))
        noisy = (self.clipped_sum() + noise) / float(self._microbatches)
        shapes = [weight.shape for weight in self._networks.generator_weights]
        pieces = zip(tf.split(noisy, self._sizes), shapes, strict=True)
        self._of_generator.descend([tf.reshape(piece, shape) for piece, shape in pieces])
