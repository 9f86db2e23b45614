"""A critic of images: two strided convolutions, a layer of features that the label joins, and one score."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dpwgan.discriminators.critic import LEAK
from dpwgan.discriminators.noisy_features import NoisyFeatures

KERNEL = 4
STRIDE = 2


class ConvCritic:
    """Scores images with labels: convolutions and leaky rectifiers, features, and a linear score of the features.

    No norm over a batch: it would let one real row change the scores of all others, and no clip of a row's gradient
    could bound that. With `noisy_features` features are bounded and noised before they are scored; with
    `activation_stddev` every activation gets Gaussian noise, which steadies training and protects nothing.
    Convolutions are written as products of patches and matrices: gradients of gradients, row by row, are then products
    as well, which TensorFlow can do for many rows at once.
    Privacy: the score of a row is a function of that row, the weights and the noise alone.
    Shapes: `image` is (height, width, channels). `weights` alternates matrices and biases, (16 inputs, outputs) for
      convolutions, and ends with a (features, 1) matrix: a last bias would add the same to every score.
    Source: Radford, Metz, Chintala 2016, arXiv:1511.06434; Triastcyn and Faltings 2019, section 5.2 (the label at the
      linear layer after the convolutions, 64 features); for the noise on activations, papers/dp-gan-ron-gauss, section
      4.1 (variance 0.5).
    """

    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        classes: int,
        rng: np.random.Generator,
        filters: tuple[int, ...] = (32, 64),
        features: int = 64,
        noisy_features: NoisyFeatures | None = None,
        activation_stddev: float = 0.0,
        device_rng: tf.random.Generator | None = None,
    ) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852).

        `device_rng` draws the noise on activations. Raises: ValueError if that is asked for without it.
        """
        if activation_stddev > 0 and device_rng is None:
            raise ValueError("noise on activations needs a generator")
        self.image = image
        self.classes = classes
        self.noisy_features = noisy_features
        self._activation_stddev = activation_stddev
        self._device_rng = device_rng
        self._convolutions = len(filters)
        height, width, inputs = image
        self.weights: list[tf.Variable] = []
        for outputs in filters:
            self._add_layer(KERNEL * KERNEL * inputs, outputs, rng=rng)
            height, width, inputs = math.ceil(height / STRIDE), math.ceil(width / STRIDE), outputs
        self._add_layer(height * width * inputs + classes, features, rng=rng)
        self._add_layer(features, 1, rng=rng)
        del self.weights[-1]
        self.initial = [tf.constant(weight.numpy()) for weight in self.weights]

    def features(self, images: tf.Tensor, labels: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        """Gives the last hidden layer. Shapes: (b, height, width, channels), one-hot (b, classes) to (b, features)."""
        weights = self.weights if weights is None else weights
        activation = images
        for kernel, bias in zip(
            weights[: 2 * self._convolutions : 2], weights[1 : 2 * self._convolutions : 2], strict=True
        ):
            activation = self._activate(cut_patches(activation) @ kernel + bias)
        height, width, channels = activation.shape[1:]
        flat = tf.reshape(activation, [-1, height * width * channels])
        return self._activate(tf.concat([flat, labels], axis=1) @ weights[-3] + weights[-2])

    def score(self, images: tf.Tensor, labels: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        """Scores images. Shapes: (b, height, width, channels) and one-hot (b, classes) to (b,)."""
        weights = self.weights if weights is None else weights
        features = self.features(images, labels, weights)
        if self.noisy_features is not None:
            features = self.noisy_features(features)
        return tf.squeeze(features @ weights[-1], axis=1)

    def _add_layer(self, inputs: int, outputs: int, *, rng: np.random.Generator) -> None:
        scale = np.float32(math.sqrt(2.0 / inputs))
        self.weights.append(tf.Variable(rng.standard_normal((inputs, outputs), dtype=np.float32) * scale))
        self.weights.append(tf.Variable(np.zeros(outputs, np.float32)))

    def _activate(self, value: tf.Tensor) -> tf.Tensor:
        activation = tf.maximum(value, LEAK * value)
        if self._activation_stddev > 0 and self._device_rng is not None:
            activation += self._device_rng.normal(tf.shape(activation), stddev=self._activation_stddev)
        return activation


def cut_patches(images: tf.Tensor) -> tf.Tensor:
    """Cuts images into overlapping squares, a stride apart, padded with zeros as evenly as can be.

    Shapes: (b, h, w, c) to (b, h / stride, w / stride, kernel kernel c), sides rounded up. A product with a kernel of
      shape (kernel kernel c, outputs) is then a convolution.
    """
    height, width = images.shape[1:3]
    down, right = math.ceil(height / STRIDE), math.ceil(width / STRIDE)
    tall, wide = ((side - 1) * STRIDE + KERNEL for side in (down, right))
    top, left = (tall - height) // 2, (wide - width) // 2
    padded = tf.pad(images, [[0, 0], [top, tall - height - top], [left, wide - width - left], [0, 0]])
    pieces = [
        padded[:, y : y + STRIDE * (down - 1) + 1 : STRIDE, x : x + STRIDE * (right - 1) + 1 : STRIDE]
        for y in range(KERNEL)
        for x in range(KERNEL)
    ]
    return tf.concat(pieces, axis=3)
