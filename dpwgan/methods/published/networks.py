"""One interface to a GAN's two networks and its real rows, for images and for tables.

Content is what a critic reads: images, points of them, or dense encoded rows. Labels go beside it, one-hot; a table
that is no table of images has none, and its label is a column like any other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.generators import LatentSource, MlpGenerator
from dpwgan.critic.rows import RowReader, write_dense
from dpwgan.critic.sampler import MlpSampler
from dpwgan.images.basis import SmoothFrame
from dpwgan.images.grid import ImageGrid
from dpwgan.methods.published.convolutions import ConvCritic, ConvGenerator, NoisyFeatures, make_device_rng
from dpwgan.methods.published.generators import LabelledImages
from dpwgan.methods.published.samplers import ConvSampler, LabelledSampler
from dpwgan.table.encoded import EncodedTable

Inputs = tuple[tf.Tensor, ...]
"""The random input of a generator: standard normal latents and, for a table, uniforms in [0, 1)."""

# Kernels are drawn inside a box of this size, which is none: their stddev is far below it.
_NO_WEIGHT_CLIP = 1e3
# A record's gradient is about as long for its products as for its coordinates, where these are 1 to 3 long.
_PRODUCTS = 0.35


class Networks(ABC):
    """A generator, its critic, and real rows, which are put on the device unless they are on disk.

    Privacy: `read` gives real rows to the caller, who has charged for them. Everything else sees none.
    """

    input_widths: tuple[int, ...]
    _generator: Any
    _critic: Any
    _device_rng: tf.random.Generator

    @property
    def generator_weights(self) -> Sequence[tf.Variable]:
        """What the generator's steps move."""
        return self._generator.weights  # type: ignore[no-any-return]

    @property
    def critic_weights(self) -> Sequence[tf.Variable]:
        """What the critic's steps move."""
        return self._critic.weights  # type: ignore[no-any-return]

    @abstractmethod
    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads content and labels of real rows. Shapes: (b,) to (b, ...) and (b, classes)."""

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
        """Draws content for given labels. Shapes: (b, ...)."""

    @abstractmethod
    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores content. Shapes: (b,)."""


class LabelledNetworks(Networks):
    """Those of images: the random input is latents, and labels by the shares of the classes."""

    def __init__(
        self,
        encoded: EncodedTable,
        grid: ImageGrid,
        *,
        shares: npt.NDArray[np.float64],
        latent: int,
        rng: np.random.Generator,
    ) -> None:
        """Seeds the device's generator from the model stream.

        Shapes: `shares` (classes,), public, released or charged for.
        """
        self._read, self._grid, self._shares = RowReader(encoded), grid, shares
        self._ends = tf.constant(np.cumsum(shares)[:-1] / np.sum(shares), tf.float32)
        self._device_rng = make_device_rng(rng)
        self.input_widths = (latent,)

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads content and one-hot labels of real rows."""
        codes, numbers = self._read(rows)
        labels = tf.one_hot(codes[:, self._grid.label.source], self._grid.classes)
        return self._see(tf.gather(numbers, self._grid.sources, axis=1)), labels

    def draw(self, batch: int) -> Inputs:
        """Draws latents."""
        return (self._device_rng.normal([batch, self.input_widths[0]]),)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Draws one-hot labels by the shares."""
        codes = tf.searchsorted(self._ends, self._device_rng.uniform([batch]), side="right")
        return tf.one_hot(codes, len(self._shares))

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Draws content of the given labels."""
        return self._generator.generate(inputs[0], labels)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores content with its labels."""
        return self._critic.score(content, labels)

    @abstractmethod
    def _see(self, pixels: tf.Tensor) -> tf.Tensor:
        """Makes content of pixels. Shapes: (b, pixels) to (b, ...)."""


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
        **critic: Any,
    ) -> None:
        """Draws the first weights. `critic`: settings of the `ConvCritic`."""
        super().__init__(encoded, grid, shares=shares, latent=latent, rng=rng)
        self._generator = ConvGenerator(grid.shape, classes=grid.classes, latent=latent, rng=rng)
        self._critic = ConvCritic(grid.shape, classes=grid.classes, rng=rng, device_rng=self._device_rng, **critic)

    def make_sampler(self) -> ConvSampler:
        """Takes the generator's weights and the shares out as plain arrays."""
        weights = tuple(weight.numpy() for weight in self.generator_weights)
        return ConvSampler(weights=weights, shares=self._shares, grid=self._grid)

    def _see(self, pixels: tf.Tensor) -> tf.Tensor:
        return tf.reshape(pixels, [-1, *self._grid.shape])


class QuadraticCritic:
    """Scores coordinates x and a label y by a vector a class and a matrix for all: w_y x + 0.35 x A x.

    It is linear in its weights, which are few, since every one of them gets noise. The vectors hear what sets the
    classes apart; the matrix hears which ways pictures vary, and how far. The first weights are 0: what the critic says
    is what it has learnt, and no random network stands before the noise.
    Privacy: the score of a row is a function of that row and the weights alone.
    Shapes: `weights` are the vectors (classes, dimension) and the matrix (dimension, dimension).
    Source: Miyato and Koyama 2018, arXiv:1802.05637, equation 4 (a label that is projected on the features).
    """

    def __init__(self, *, dimension: int, classes: int) -> None:
        """Starts at 0."""
        self.weights = [tf.Variable(tf.zeros([rows, dimension])) for rows in (classes, dimension)]

    def score(self, points: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores points. Shapes: (b, dimension) and one-hot (b, classes) to (b,)."""
        vectors, matrix = self.weights
        return tf.reduce_sum((labels @ vectors + _PRODUCTS * (points @ matrix)) * points, axis=1)


class PointNetworks(LabelledNetworks):
    """A quadratic critic of few coordinates against a generator of smooth images.

    Content is points of the frame, as differences from a released mean picture.
    """

    def __init__(
        self,
        encoded: EncodedTable,
        frame: SmoothFrame,
        *,
        shares: npt.NDArray[np.float64],
        centre: npt.NDArray[np.float64],
        latent: int,
        hidden: int,
        rng: np.random.Generator,
    ) -> None:
        """Draws the first weights. Shapes: `shares` (classes,) and `centre` (dimension,), both released."""
        super().__init__(encoded, frame.grid, shares=shares, latent=latent, rng=rng)
        self._dimension = frame.dimension
        self._centre = tf.constant(centre, tf.float32)
        self._looking = tf.constant(frame.basis[0].T * frame.scale, tf.float32)
        self._generator = LabelledImages(frame, centre=centre, latent=latent, hidden=hidden, rng=rng)
        self._critic = QuadraticCritic(dimension=frame.dimension, classes=frame.grid.classes)

    def make_sampler(self, weights: Sequence[tf.Variable] = ()) -> LabelledSampler:
        """Takes the generator's weights, or means of them, and the shares out as plain arrays."""
        arrays = tuple(weight.numpy() for weight in weights or self.generator_weights)
        return LabelledSampler(grid=self._grid, shares=self._shares, weights=arrays, dimension=self._dimension)

    def _see(self, pixels: tf.Tensor) -> tf.Tensor:
        return pixels @ self._looking - self._centre


class TableNetworks(Networks):
    """Networks on dense encoded rows. Labels have no width: the label, if there is one, is a column like any other."""

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        generator: Any,
        critic: Critic,
        latents: LatentSource,
        score: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> None:
        """Takes both as they are. `score` is the critic's own where not given."""
        self._read, self._spans = RowReader(encoded), encoded.spans
        self._generator, self._critic, self._latents = generator, critic, latents
        self._score = score or critic.score

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads dense rows."""
        return write_dense(*self._read(rows), self._spans), tf.zeros([tf.shape(rows)[0], 0])

    def draw(self, batch: int) -> Inputs:
        """Draws latents, and the uniforms that make hard rows of logits."""
        return self._latents.draw(batch)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Makes labels of no width."""
        return tf.zeros([batch, 0])

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Draws dense rows, ones and zeros."""
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

    def make_sampler(self, weights: Sequence[tf.Variable] = ()) -> MlpSampler:
        """Takes the generator's weights, or means of them, out as plain arrays."""
        arrays = tuple(weight.numpy() for weight in weights or self.generator_weights)
        return MlpSampler(weights=arrays, spans=self._spans)
