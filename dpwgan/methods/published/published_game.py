"""Training as the DP-GAN was published: a plain discriminator, and noise on the generator's clipped gradients.

NOT PRIVATE: the discriminator's weights come from rows without noise, and each generator step comes from those weights.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.generator import LatentDraws
from dpwgan.critic.rows import RowReader
from dpwgan.critic.tracing import compile_step
from dpwgan.images.grid import ImageGrid
from dpwgan.methods.published.conv_critic import ConvCritic
from dpwgan.methods.published.conv_generator import ConvGenerator
from dpwgan.methods.published.noisy import NoisyDiscriminator
from dpwgan.table.encoded import EncodedTable


class Game(Protocol):
    """Two networks and the rows that one of them reads."""

    @property
    def generator_weights(self) -> Sequence[tf.Variable]:
        """The weights that rows are drawn from."""

    @property
    def discriminator_weights(self) -> Sequence[tf.Variable]:
        """The weights that are trained on rows."""

    def draw(self, batch: int) -> tf.Tensor:
        """Draws rows. Shapes: (b, width)."""

    def read(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives real rows by number. Shapes: (b,) to (b, width)."""

    def score(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives logits. Shapes: (b, width) to (b,)."""


class TableRows:
    """A perceptron against a perceptron."""

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        generator: Any,
        discriminator: NoisyDiscriminator,
        latents: LatentDraws,
    ) -> None:
        self._read = RowReader(encoded)
        self._spans = encoded.spans
        self._generator = generator
        self._discriminator, self._latents = discriminator, latents
        self.generator_weights: Sequence[tf.Variable] = self._generator.weights
        self.discriminator_weights: Sequence[tf.Variable] = discriminator.weights

    def draw(self, batch: int) -> tf.Tensor:
        """Draws rows. Shapes: (b, width)."""
        return self._generator.rows(*self._latents.draw(batch))

    def read(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives real rows by number. Shapes: (b,) to (b, width)."""
        codes, numbers = self._read(rows)
        parts = []
        for span in self._spans:
            if span.head == "linear":
                parts.append(numbers[:, span.source, tf.newaxis])
            elif span.head == "sigmoid":
                parts.append(tf.cast(codes[:, span.source, tf.newaxis], tf.float32))
            else:
                parts.append(tf.one_hot(codes[:, span.source], span.width))
        return tf.concat(parts, axis=1)

    def score(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives logits. Shapes: (b, width) to (b,)."""
        return self._discriminator.logit(rows)


class ImageRows:
    """Convolutions against convolutions. A row is an image's pixels and its label, one-hot; labels are drawn evenly."""

    def __init__(
        self, encoded: EncodedTable, grid: ImageGrid, *, latent: int, layer_noise: float, rng: np.random.Generator
    ) -> None:
        self._read = RowReader(encoded)
        self._grid, self._latent = grid, latent
        self._rng = tf.random.Generator.from_seed(int(rng.integers(2**63)), alg="philox")
        self._generator = ConvGenerator(grid.shape, classes=grid.classes, latent=latent, rng=rng)
        self._discriminator = ConvCritic(
            grid.shape, classes=grid.classes, rng=rng, activation_stddev=layer_noise, device_rng=self._rng
        )
        self.generator_weights: Sequence[tf.Variable] = self._generator.weights
        self.discriminator_weights: Sequence[tf.Variable] = self._discriminator.weights

    def draw(self, batch: int) -> tf.Tensor:
        """Draws rows. Shapes: (b, width)."""
        labels = self._rng.uniform([batch], maxval=self._grid.classes, dtype=tf.int32)
        one_hot = tf.one_hot(labels, self._grid.classes)
        images = self._generator.images(self._rng.normal([batch, self._latent]), one_hot)
        return tf.concat([tf.reshape(images, [batch, -1]), one_hot], axis=1)

    def read(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives real rows by number. Shapes: (b,) to (b, width)."""
        codes, numbers = self._read(rows)
        labels = tf.one_hot(codes[:, self._grid.label.source], self._grid.classes)
        return tf.concat([tf.gather(numbers, self._grid.sources, axis=1), labels], axis=1)

    def score(self, rows: tf.Tensor) -> tf.Tensor:
        """Gives logits. Shapes: (b, width) to (b,)."""
        images = tf.reshape(rows[:, : -self._grid.classes], [-1, *self._grid.shape])
        return self._discriminator.score(images, rows[:, -self._grid.classes :])


class PublishedSteps:
    """A step of Adam on the discriminator, then one of noisy Adam on the generator.

    The generator's batch is cut into microbatches; each one's gradient is clipped over all weights together, and the
    noise is on their sum.
    Privacy: none that is worth having; see `dpwgan.methods.published.published_gan.provable_epsilon`.
    Source: Johnson 2019, section 4.2 and Appendix B; DPAdamGaussianOptimizer of tensorflow-privacy.
    """

    def __init__(
        self,
        game: Game,
        *,
        microbatches: int,
        microbatch: int,
        l2_clip_norm: float,
        learning_rate: float,
        mean_memory: float,
        square_memory: float,
    ) -> None:
        """Starts both optimisers without memory."""
        self._game = game
        self._microbatches, self._microbatch, self._l2_clip_norm = microbatches, microbatch, l2_clip_norm
        rates = {"learning_rate": learning_rate, "mean_memory": mean_memory, "square_memory": square_memory}
        self._of_discriminator = Adam(game.discriminator_weights, **rates)
        self._of_generator = Adam(game.generator_weights, **rates)
        self._sizes = [int(np.prod(weight.shape)) for weight in game.generator_weights]
        self._step = compile_step(self._trace)

    def __call__(self, rows: npt.NDArray[np.int64], *, noise_rng: np.random.Generator, noise_multiplier: float) -> None:
        """Takes both steps, with the rows of the given numbers."""
        noise = noise_rng.standard_normal(sum(self._sizes), dtype=np.float32)
        self._step(tf.constant(rows), tf.constant(noise * np.float32(noise_multiplier * self._l2_clip_norm)))

    def clipped_sum(self) -> tf.Tensor:
        """Sums the clipped gradients of all microbatches, fresh ones. Shapes: (weights,)."""

        def add_one(done: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                logits = self._game.score(self._game.draw(self._microbatch))
                loss = tf.reduce_mean(tf.nn.softplus(-logits))
            parts = tape.gradient(loss, list(self._game.generator_weights), unconnected_gradients="zero")
            flat = tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)
            return done + 1, total + flat * tf.minimum(1.0, self._l2_clip_norm / tf.maximum(tf.norm(flat), 1e-30))

        start = tf.constant(0), tf.zeros(sum(self._sizes))
        return tf.while_loop(lambda done, total: done < self._microbatches, add_one, start)[1]

    def _trace(self, rows: tf.Tensor, noise: tf.Tensor) -> None:
        real, fake = self._game.read(rows), self._game.draw(self._microbatches * self._microbatch)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-self._game.score(real)))
            loss += tf.reduce_mean(tf.nn.softplus(self._game.score(fake)))
        weights = list(self._game.discriminator_weights)
        self._of_discriminator.descend(tape.gradient(loss, weights))
        noisy = (self.clipped_sum() + noise) / float(self._microbatches)
        shapes = [weight.shape for weight in self._game.generator_weights]
        pieces = zip(tf.split(noisy, self._sizes), shapes, strict=True)
        self._of_generator.descend([tf.reshape(piece, shape) for piece, shape in pieces])
