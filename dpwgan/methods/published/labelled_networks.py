"""The networks of a private game on images: a quadratic critic of few coordinates, a generator of smooth images."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.rows import RowReader
from dpwgan.images.basis import SmoothFrame
from dpwgan.methods.published.image_samplers import LabelledSampler
from dpwgan.methods.published.networks import Inputs, LabelledNetworks
from dpwgan.methods.published.quadratic import QuadraticCritic
from dpwgan.methods.published.smooth_images import LabelledImages
from dpwgan.table.encoded import EncodedTable


class PointNetworks(LabelledNetworks):
    """As `Networks`. Content is points of the frame, as differences from a released mean picture.

    Privacy: `read` gives real rows to the caller, who has charged for them. Everything else sees none.
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
        """Puts the images on the device, unless they are on disk.

        Shapes: `shares` (classes,) and `centre` (dimension,), both released.
        """
        super().__init__(shares=shares, latent=latent, rng=rng)
        self._read = RowReader(encoded)
        self._frame = frame
        self._shares = shares
        self._centre = tf.constant(centre, tf.float32)
        self._looking = tf.constant(frame.basis[0].T * frame.scale, tf.float32)
        self._generator = LabelledImages(frame, centre=centre, latent=latent, hidden=hidden, rng=rng)
        self._critic = QuadraticCritic(dimension=frame.dimension, classes=frame.grid.classes)
        self.generator_weights = self._generator.weights
        self.critic_weights = self._critic.weights

    def read(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives points and one-hot labels of real rows."""
        codes, numbers = self._read(rows)
        pixels = tf.gather(numbers, self._frame.grid.sources, axis=1)
        labels = tf.one_hot(codes[:, self._frame.grid.label.source], self._frame.grid.classes)
        return pixels @ self._looking - self._centre, labels

    def generate(self, inputs: Inputs, labels: tf.Tensor) -> tf.Tensor:
        """Gives points of the given labels."""
        return self._generator.points(inputs[0], labels)

    def score(self, content: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores points with their labels."""
        return self._critic.score(content, labels)

    def make_sampler(self, weights: Sequence[tf.Variable]) -> LabelledSampler:
        """Gives weights of the generator, or their means, and the shares as plain arrays."""
        return LabelledSampler(
            grid=self._frame.grid,
            shares=self._shares,
            weights=tuple(weight.numpy() for weight in weights),
            dimension=self._frame.dimension,
        )
