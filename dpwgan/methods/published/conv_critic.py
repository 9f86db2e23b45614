"""A critic of images: two strided convolutions, a layer of features that the label joins, and one score."""

import math

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import LEAK
from dpwgan.methods.published.noisy_features import NoisyFeatures

KERNEL = 4
STRIDE = 2


class ConvCritic:
    """Scores images with labels: convolutions and leaky rectifiers, features, and a linear score of the features.

    No norm over a batch: it would let one real row change the scores of all others, and no clip of a row's gradient
    could bound that. With `noisy_features` features are bounded and noised before they are scored; with
    `activation_stddev` every activation gets Gaussian noise, which steadies training and protects nothing.
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
    ) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852).

        `device_rng` draws the noise on activations. Raises: ValueError if that is asked for without it.
        """
        if activation_stddev > 0 and device_rng is None:
            raise ValueError("noise on activations needs a generator")
        self.noisy_features = noisy_features
        self._activation_stddev = activation_stddev
        self._device_rng = device_rng
        self._convolutions = len(filters)
        height, width, inputs = image
        self.weights: list[tf.Variable] = []
        for outputs in filters:
            self._add_layer(KERNEL, KERNEL, inputs, outputs, rng=rng)
            height, width, inputs = math.ceil(height / STRIDE), math.ceil(width / STRIDE), outputs
        places = height * width * inputs
        self._add_layer(places + classes, features, rng=rng)
        # One entry of a label is not 0: drawn as the many others are, it would not be heard beside them.
        label_rows = rng.standard_normal((classes, features), dtype=np.float32) * np.float32(math.sqrt(2.0 / classes))
        self.weights[-2].assign(tf.concat([self.weights[-2][:places], label_rows], axis=0))
        self._add_layer(features, 1, rng=rng)
        del self.weights[-1]

    def features(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Gives the last hidden layer. Shapes: (b, height, width, channels), one-hot (b, classes) to (b, features)."""
        weights, activation = self.weights, images
        for kernel, bias in zip(
            weights[: 2 * self._convolutions : 2], weights[1 : 2 * self._convolutions : 2], strict=True
        ):
            activation = self._activate(tf.nn.conv2d(activation, kernel, strides=STRIDE, padding="SAME") + bias)
        height, width, channels = activation.shape[1:]
        flat = tf.reshape(activation, [-1, height * width * channels])
        return self._activate(tf.concat([flat, labels], axis=1) @ weights[-3] + weights[-2])

    def score(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores images. Shapes: (b, height, width, channels) and one-hot (b, classes) to (b,)."""
        features = self.features(images, labels)
        if self.noisy_features is not None:
            features = self.noisy_features(features)
        return tf.squeeze(features @ self.weights[-1], axis=1)

    def _add_layer(self, *shape: int, rng: np.random.Generator) -> None:
        scale = np.float32(math.sqrt(2.0 / math.prod(shape[:-1])))
        self.weights.append(tf.Variable(rng.standard_normal(shape, dtype=np.float32) * scale))
        self.weights.append(tf.Variable(np.zeros(shape[-1], np.float32)))

    def _activate(self, value: tf.Tensor) -> tf.Tensor:
        activation = tf.maximum(value, LEAK * value)
        if self._activation_stddev > 0 and self._device_rng is not None:
            activation += self._device_rng.normal(tf.shape(activation), stddev=self._activation_stddev)
        return activation
