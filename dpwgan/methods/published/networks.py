"""One interface to a GAN's two networks and its real rows, for images and for tables.

Content is what a critic reads: images, points of them, or dense encoded rows. Labels go beside it, one-hot; a table
that is no table of images has none, and its label is a column like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Floats
from dpwgan.critic.critic import Critic
from dpwgan.critic.generators import LatentSource, MlpGenerator
from dpwgan.critic.rows import RowReader, write_dense
from dpwgan.critic.sampler import MlpSampler
from dpwgan.critic.weights import take_weights
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


class _Pair:
    """A generator, its critic, and real rows, which are put on the device unless they are on disk.

    Privacy: `read` gives real rows to the caller, who has charged for them. Everything else sees none.
    """

    input_widths: tuple[int, ...]

    def __init__(self, encoded: EncodedTable, *, generator: Any, critic: Any, device_rng: Any = None) -> None:
        """Takes both as they are. `device_rng` is for those that draw."""
        self._cells, self._device_rng = RowReader(encoded), device_rng
        self._generator, self._critic = generator, critic
        self.generator_weights: Sequence[tf.Variable] = generator.weights
        """What the generator's steps move."""
        self.critic_weights: Sequence[tf.Variable] = critic.weights
        """What the critic's steps move."""

    def draw_mixing(self, batch: int) -> tf.Tensor:
        """Draws uniforms in [0, 1) on the device. Shapes: (batch,)."""
        return self._device_rng.uniform([batch])


class LabelledNetworks(_Pair):
    """Those of images: the random input is latents, and labels by the shares of the classes.

    `see` makes content of pixels, (b, pixels) to (b, ...). Shapes: `shares` (classes,), released or charged for.
    """

    def __init__(
        self,
        encoded: EncodedTable,
        grid: ImageGrid,
        *,
        shares: Floats,
        latent: int,
        see: Callable[[tf.Tensor], tf.Tensor],
        **pair: Any,
    ) -> None:
        super().__init__(encoded, **pair)
        self._grid, self._shares, self._see = grid, shares, see
        self._ends = tf.constant(np.cumsum(shares)[:-1] / np.sum(shares), tf.float32)
        self.input_widths = (latent,)

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads content and one-hot labels of real rows. Shapes: (b,) to (b, ...) and (b, classes)."""
        codes, numbers = self._cells(rows)
        labels = tf.one_hot(codes[:, self._grid.label.source], self._grid.classes)
        return self._see(tf.gather(numbers, self._grid.sources, axis=1)), labels

    def draw(self, batch: int) -> Inputs:
        """Draws latents on the device. Shapes: (batch, latent)."""
        return (self._device_rng.normal([batch, self.input_widths[0]]),)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Draws one-hot labels by the shares. Shapes: (batch, classes)."""
        codes = tf.searchsorted(self._ends, self._device_rng.uniform([batch]), side="right")
        return tf.one_hot(codes, len(self._shares))

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Draws content of the given labels. Shapes: (b, ...)."""
        return self._generator.generate(inputs[0], labels)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores content with its labels. Shapes: (b,)."""
        return self._critic.score(content, labels)


class ImageNetworks(LabelledNetworks):
    """Networks with convolutions, conditioned on the label of an image. `critic`: settings of the `ConvCritic`."""

    def __init__(
        self,
        encoded: EncodedTable,
        grid: ImageGrid,
        *,
        shares: Floats,
        latent: int,
        rng: np.random.Generator,
        **critic: Any,
    ) -> None:
        device_rng = make_device_rng(rng)
        super().__init__(
            encoded,
            grid,
            shares=shares,
            latent=latent,
            see=lambda pixels: tf.reshape(pixels, [-1, *grid.shape]),
            generator=ConvGenerator(grid.shape, classes=grid.classes, latent=latent, rng=rng),
            critic=ConvCritic(grid.shape, classes=grid.classes, rng=rng, device_rng=device_rng, **critic),
            device_rng=device_rng,
        )

    def make_sampler(self) -> ConvSampler:
        """Takes the generator's weights and the shares out as plain arrays."""
        return ConvSampler(weights=take_weights(self.generator_weights), shares=self._shares, grid=self._grid)


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
        self.weights = [tf.Variable(tf.zeros([rows, dimension])) for rows in (classes, dimension)]

    def score(self, points: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores points. Shapes: (b, dimension) and one-hot (b, classes) to (b,)."""
        vectors, matrix = self.weights
        return tf.reduce_sum((labels @ vectors + _PRODUCTS * (points @ matrix)) * points, axis=1)


class PointNetworks(LabelledNetworks):
    """A quadratic critic of few coordinates against a generator of smooth images.

    Content is points of the frame, as differences from a released mean picture.
    Shapes: `shares` (classes,) and `centre` (dimension,), both released.
    """

    def __init__(
        self,
        encoded: EncodedTable,
        frame: SmoothFrame,
        *,
        shares: Floats,
        centre: Floats,
        latent: int,
        hidden: int,
        rng: np.random.Generator,
    ) -> None:
        self._dimension = frame.dimension
        origin = tf.constant(centre, tf.float32)
        looking = tf.constant(frame.basis.pictures.T * frame.scale, tf.float32)
        super().__init__(
            encoded,
            frame.grid,
            shares=shares,
            latent=latent,
            see=lambda pixels: pixels @ looking - origin,
            device_rng=make_device_rng(rng),
            generator=LabelledImages(frame, centre=centre, latent=latent, hidden=hidden, rng=rng),
            critic=QuadraticCritic(dimension=frame.dimension, classes=frame.grid.classes),
        )

    def make_sampler(self, weights: Sequence[tf.Variable] = ()) -> LabelledSampler:
        """Takes the generator's weights, or means of them, and the shares out as plain arrays."""
        arrays = take_weights(weights or self.generator_weights)
        return LabelledSampler(grid=self._grid, shares=self._shares, weights=arrays, dimension=self._dimension)


class TableNetworks(_Pair):
    """Networks on dense encoded rows. Labels have no width: the label, if there is one, is a column like any other."""

    def __init__(
        self, encoded: EncodedTable, *, latents: LatentSource, score: Callable[[tf.Tensor], tf.Tensor], **pair: Any
    ) -> None:
        super().__init__(encoded, **pair)
        self._spans, self._latents, self._score = encoded.spans, latents, score

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads dense rows and labels of no width. Shapes: (b,) to (b, width) and (b, 0)."""
        return write_dense(*self._cells(rows), self._spans), self.draw_labels(tf.shape(rows)[0])

    def draw(self, batch: int) -> Inputs:
        """Draws latents, and the uniforms that make hard rows of logits. Shapes: (batch, width) each."""
        return self._latents.draw(batch)

    def draw_labels(self, batch: int) -> tf.Tensor:
        """Makes labels of no width."""
        return tf.zeros([batch, 0])

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Draws dense rows, ones and zeros. Shapes: (b, width)."""
        return self._generator.rows(*inputs)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores dense rows. Shapes: (b,)."""
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
        spans, width = encoded.spans, encoded.shape.width
        self.input_widths = (latent, width)
        device_rng = make_device_rng(rng)
        generator = MlpGenerator(spans, latent=latent, hidden=hidden_generator, rng=rng)
        critic = Critic(spans, hidden=hidden_critic, weight_clip=_NO_WEIGHT_CLIP, rng=rng)
        super().__init__(
            encoded,
            latents=LatentSource(latent=latent, width=width, rng=device_rng),
            score=critic.score,
            generator=generator,
            critic=critic,
            device_rng=device_rng,
        )
        if noisy_features is not None:
            self._score = lambda rows: tf.squeeze(noisy_features(critic.features(rows)) @ critic.weights[-1], axis=1)

    def make_sampler(self, weights: Sequence[tf.Variable] = ()) -> MlpSampler:
        """Takes the generator's weights, or means of them, out as plain arrays."""
        return MlpSampler(weights=take_weights(weights or self.generator_weights), spans=self._spans)


Networks = LabelledNetworks | TableNetworks
"""Both have the same methods."""


def draw_labelled(networks: Networks, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws content and its labels on the device. Shapes: (batch, ...) and (batch, classes)."""
    inputs, labels = networks.draw(batch), networks.draw_labels(batch)
    return networks.generate(inputs, labels), labels
