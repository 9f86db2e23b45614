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
    With `by_products` convolutions are written as products of patches and matrices: gradients of gradients, row by row,
    are then products as well, which TensorFlow can do for many rows at once. Slower, where no row's own is asked for.
    Privacy: the score of a row is a function of that row, the weights and the noise alone.
    Shapes: `image` is (height, width, channels). `weights` alternates kernels, (4, 4, inputs, outputs) for
      convolutions, and biases, and ends with a (features, 1) matrix: a last bias would add the same to every score.
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
        by_products: bool = False,
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
        self._convolve = convolve_by_products if by_products else convolve
        height, width, inputs = image
        self.weights: list[tf.Variable] = []
        for outputs in filters:
            self._add_layer(KERNEL, KERNEL, inputs, outputs, rng=rng)
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
            activation = self._activate(self._convolve(activation, kernel) + bias)
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

    def _add_layer(self, *shape: int, rng: np.random.Generator) -> None:
        scale = np.float32(math.sqrt(2.0 / math.prod(shape[:-1])))
        self.weights.append(tf.Variable(rng.standard_normal(shape, dtype=np.float32) * scale))
        self.weights.append(tf.Variable(np.zeros(shape[-1], np.float32)))

    def _activate(self, value: tf.Tensor) -> tf.Tensor:
        activation = tf.maximum(value, LEAK * value)
        if self._activation_stddev > 0 and self._device_rng is not None:
            activation += self._device_rng.normal(tf.shape(activation), stddev=self._activation_stddev)
        return activation


def convolve(images: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Convolves with a stride of 2, padded with zeros as evenly as can be.

    Shapes: (b, h, w, inputs) and (4, 4, inputs, outputs) to (b, h / 2, w / 2, outputs), sides rounded up.
    """
    return tf.nn.conv2d(images, kernel, strides=STRIDE, padding="SAME")


def convolve_by_products(images: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Does the same by one product of matrices: the images are cut into squares of 2 x 2, of which a patch has four.

    Shapes: as `convolve`.
    """
    height, width, inputs = images.shape[1:]
    down, right, outputs = math.ceil(height / STRIDE), math.ceil(width / STRIDE), kernel.shape[3]
    below, beside = 2 * down + 2 - height, 2 * right + 2 - width
    padded = tf.pad(images, [[0, 0], [below // 2, below - below // 2], [beside // 2, beside - beside // 2], [0, 0]])
    squares = tf.reshape(padded, [-1, down + 1, 2, right + 1, 2, inputs])
    squares = tf.reshape(tf.transpose(squares, [0, 1, 3, 2, 4, 5]), [-1, down + 1, right + 1, 4 * inputs])
    patches = tf.concat([squares[:, y : y + down, x : x + right] for y in (0, 1) for x in (0, 1)], axis=3)
    matrix = tf.transpose(tf.reshape(kernel, [2, 2, 2, 2, inputs, outputs]), [0, 2, 1, 3, 4, 5])
    product = tf.reshape(patches, [-1, 16 * inputs]) @ tf.reshape(matrix, [-1, outputs])
    return tf.reshape(product, [-1, down, right, outputs])
