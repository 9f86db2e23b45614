"""Both networks of a GAN and the rows that one of them reads, of images or of any other table, under one interface.

Content is what a critic reads: images, or dense encoded rows. Labels go beside it, one-hot; a table that is no table of
images has none, and its label is a column like any other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.generator import LatentDraws
from dpwgan.critic.latents import LatentSource
from dpwgan.critic.mlp import MlpGenerator
from dpwgan.critic.rows import RowReader, write_dense
from dpwgan.critic.sampler import MlpSampler
from dpwgan.images.grid import ImageGrid
from dpwgan.methods.published.conv_critic import ConvCritic
from dpwgan.methods.published.conv_generator import ConvGenerator
from dpwgan.methods.published.image_samplers import ConvSampler
from dpwgan.methods.published.noisy_features import NoisyFeatures, make_device_rng
from dpwgan.table.encoded import EncodedTable

Inputs = tuple[tf.Tensor, ...]
"""The random input of a generator: standard normal latents and, for a table, uniforms in [0, 1)."""

# Kernels are drawn inside a box of this size, which is none: their stddev is far below it.
_NO_WEIGHT_CLIP = 1e3


class Networks(ABC):
    """A generator, its critic, and real rows, which are put on the device unless they are on disk.

    Privacy: `read` gives real rows to the caller, who has charged for them. Everything else sees none.
    """

    generator_weights: Sequence[tf.Variable]
    critic_weights: Sequence[tf.Variable]
    input_widths: tuple[int, ...]
    _device_rng: tf.random.Generator

    @abstractmethod
    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives content and labels of real rows. Shapes: (b,) to (b, ...) and (b, classes)."""

    @abstractmethod
    def draw(self, batch: int) -> Inputs:
        """Draws random input on the device. Shapes: (batch, width) for each of `input_widths`."""

    def draw_mixing(self, batch: int) -> tf.Tensor:
        """Draws uniforms in [0, 1) on the device. Shapes: (batch,)."""
        return self._device_rng.uniform([batch])

    @abstractmethod
    def draw_labels(self, batch: int) -> tf.Tensor:
        """Draws labels by the shares of the classes. Shapes: (batch, classes)."""

    @abstractmethod
    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Gives generated content for given labels. Shapes: (b, ...)."""

    @abstractmethod
    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores content. Shapes: (b,)."""


class LabelledNetworks(Networks):
    """Those whose rows have labels: the random input is latents, and labels by the shares of the classes."""

    def __init__(self, *, shares: npt.NDArray[np.float64], latent: int, rng: np.random.Generator) -> None:
        """Seeds the device's generator from the model stream. Shapes: `shares` (classes,), public or released."""
        self._shares = shares
        self._ends = tf.constant(np.cumsum(shares)[:-1] / np.sum(shares), tf.float32)
        self._device_rng = make_device_rng(rng)
        self.input_widths = (latent,)

    def draw(self, batch: int) -> Inputs:
        """Draws latents."""
        return (self._device_rng.normal([batch, self.input_widths[0]]),)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Draws one-hot labels by the shares."""
        codes = tf.searchsorted(self._ends, self._device_rng.uniform([batch]), side="right")
        return tf.one_hot(codes, len(self._shares))


class ImageNetworks(LabelledNetworks):
    """Networks with convolutions, conditioned on the label of an image."""

    def __init__(
        self,
        encoded: EncodedTable,
        grid: ImageGrid,
        *,
        shares: npt.NDArray[np.float64],
        latent: int,
        rng: np.random.Generator,
        critic_filters: tuple[int, ...] = (32, 64),
        noisy_features: NoisyFeatures | None = None,
        activation_stddev: float = 0.0,
    ) -> None:
        """Draws the first weights. Shapes: `shares` (classes,), public, released or charged for."""
        super().__init__(shares=shares, latent=latent, rng=rng)
        self._read = RowReader(encoded)
        self._grid = grid
        self._generator = ConvGenerator(grid.shape, classes=grid.classes, latent=latent, rng=rng)
        self._critic = ConvCritic(
            grid.shape,
            classes=grid.classes,
            filters=critic_filters,
            rng=rng,
            noisy_features=noisy_features,
            activation_stddev=activation_stddev,
            device_rng=self._device_rng,
        )
        self.generator_weights = self._generator.weights
        self.critic_weights = self._critic.weights

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives images and one-hot labels of real rows."""
        codes, numbers = self._read(rows)
        pixels = tf.gather(numbers, self._grid.sources, axis=1)
        labels = tf.one_hot(codes[:, self._grid.label.source], self._grid.classes)
        return tf.reshape(pixels, [-1, *self._grid.shape]), labels

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Gives images of the given labels."""
        return self._generator.images(inputs[0], labels)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores images with their labels."""
        return self._critic.score(content, labels)

    def make_sampler(self) -> ConvSampler:
        """Gives the generator's weights and the shares as plain arrays."""
        weights = tuple(weight.numpy() for weight in self.generator_weights)
        return ConvSampler(weights=weights, shares=self._shares, grid=self._grid)


class TableNetworks(Networks):
    """Networks on dense encoded rows. Labels have no width: the label, if there is one, is a column like any other."""

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        generator: Any,
        critic: Critic,
        latents: LatentDraws,
        score: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> None:
        """Takes both as they are. `score` is the critic's own where not given."""
        self._read, self._spans = RowReader(encoded), encoded.spans
        self._generator, self._latents = generator, latents
        self._score = score or critic.score
        self.generator_weights = generator.weights
        self.critic_weights = critic.weights

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives dense rows."""
        return write_dense(*self._read(rows), self._spans), tf.zeros([tf.shape(rows)[0], 0])

    def draw(self, batch: int) -> Inputs:
        """Draws latents, and the uniforms that make hard rows of logits."""
        return self._latents.draw(batch)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Gives labels of no width."""
        return tf.zeros([batch, 0])

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Gives dense rows, ones and zeros."""
        return self._generator.rows(*inputs)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores dense rows."""
        return self._score(content)


class Perceptrons(TableNetworks):
    """A perceptron against a perceptron. With `noisy_features` the critic's last hidden layer is bounded and noised."""

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        latent: int,
        hidden_generator: Sequence[int],
        hidden_critic: Sequence[int],
        rng: np.random.Generator,
        noisy_features: NoisyFeatures | None = None,
    ) -> None:
        """Draws the first weights."""
        spans = encoded.spans
        width = sum(span.width for span in spans)
        self.input_widths = (latent, width)
        self._device_rng = make_device_rng(rng)
        latents = LatentSource(latent=latent, width=width, rng=self._device_rng)
        generator = MlpGenerator(spans, latent=latent, hidden=hidden_generator, rng=rng)
        critic = Critic(spans, hidden=hidden_critic, weight_clip=_NO_WEIGHT_CLIP, rng=rng)

        super().__init__(encoded, generator=generator, critic=critic, latents=latents)
        if noisy_features is not None:
            self._score = lambda rows: tf.squeeze(noisy_features(critic.features(rows)) @ critic.weights[-1], axis=1)

    def make_sampler(self) -> MlpSampler:
        """Gives the generator's weights as plain arrays."""
        return MlpSampler(weights=tuple(weight.numpy() for weight in self.generator_weights), spans=self._spans)
