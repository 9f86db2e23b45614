"""Networks of images with convolutions: a generator and a critic, both told the label."""

import math

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import LEAK
from dpwgan.methods.published.samplers import GROUPS, NORM_FLOOR, STRIDE, halve_sides

KERNEL = 4
"""Side of the transposed convolutions' kernels: twice the stride, so that every pixel is made of equally many."""

# As published for networks of this kind; with norms between the layers the scale of all but the last is of no weight.
_FIRST_STDDEV = 0.02


class ConvGenerator:
    """Maps latents and labels to images: a dense layer, then two transposed convolutions, each doubling the sides.

    The label is appended to the latent. Between the layers stand group norms and rectifiers: a norm of each image by
    itself, so that there are no running statistics and a row does not depend on the others that are drawn with it.
    Sides that cannot be halved twice are cut to size by the convolutions.
    Privacy: sees released numbers alone; nothing here is private or needs noise.
    Shapes: `image` is (height, width, channels). `weights`: the dense kernel (latent + classes, cells) and its bias;
      for each hidden layer a scale and an offset (channels,) and the kernel (4, 4, outputs, inputs) that follows; last
      a bias (channels,).
    Source: Radford, Metz, Chintala 2016, arXiv:1511.06434 (DCGAN); Mirza, Osindero 2014, arXiv:1411.1784 (labels); Wu
      and He 2018, arXiv:1803.08494 (group norm).
    """

    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        classes: int,
        latent: int,
        rng: np.random.Generator,
        filters: tuple[int, int] = (64, 32),
    ) -> None:
        """Draws the first weights. `filters` are multiples of the number of groups."""
        self.sizes = halve_sides(image, times=2)
        first, second = filters
        (height, width), channels = self.sizes[0], image[2]

        def draw(*shape: int) -> tf.Variable:
            return tf.Variable(rng.standard_normal(shape, dtype=np.float32) * np.float32(_FIRST_STDDEV))

        def fill(value: float, size: int) -> tf.Variable:
            return tf.Variable(np.full(size, value, np.float32))

        cells = height * width * first
        dense = draw(latent + classes, cells)
        # One entry of a label is not 0: it gets as much to say, at first, as all of the latent together.
        dense.assign(dense * np.repeat([1.0, math.sqrt(latent)], [latent, classes])[:, np.newaxis].astype(np.float32))
        self.weights: list[tf.Variable] = [
            dense,
            fill(0.0, cells),
            fill(1.0, first),
            fill(0.0, first),
            draw(KERNEL, KERNEL, second, first),
            fill(1.0, second),
            fill(0.0, second),
            draw(KERNEL, KERNEL, channels, second),
            fill(0.0, channels),
        ]

    def generate(self, latents: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Draws a batch of images. Shapes: (b, latent) and one-hot (b, classes) to (b, height, width, channels)."""
        dense, bias, *hidden, last_bias = self.weights
        (height, width), *sizes = self.sizes
        activation = tf.concat([latents, labels], axis=1) @ dense + bias
        activation = tf.reshape(activation, [-1, height, width, hidden[0].shape[0]])
        for (height, width), scale, offset, kernel in zip(sizes, hidden[::3], hidden[1::3], hidden[2::3], strict=True):
            activation = tf.nn.relu(_normalise(activation, scale, offset))
            shape = [tf.shape(activation)[0], height, width, kernel.shape[2]]
            activation = tf.nn.conv2d_transpose(activation, kernel, shape, strides=STRIDE, padding="SAME")
        return tf.sigmoid(activation + last_bias)


def _normalise(activation: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Norms each image's groups of channels over all places. Shapes: (b, h, w, c) to the same."""
    height, width, channels = activation.shape[1:]
    grouped = tf.reshape(activation, [-1, height * width, GROUPS, channels // GROUPS])
    mean = tf.reduce_mean(grouped, axis=[1, 3], keepdims=True)
    variance = tf.reduce_mean(tf.square(grouped - mean), axis=[1, 3], keepdims=True)
    normed = (grouped - mean) * tf.math.rsqrt(variance + NORM_FLOOR)
    return tf.reshape(normed, [-1, height, width, channels]) * scale + offset


class NoisyFeatures:
    """Shortens each row's features to `l2_clip_norm` and adds Gaussian noise.

    Privacy: none that lasts. One pass of one row would be a Gaussian mechanism, but the gradients that train the layers
      below, and the weights that come of them, are released or used without any accounting for them.
    Shapes: (b, features) to the same.
    Units: `noise_multiplier` is the noise's stddev over `l2_clip_norm`.
    Source: Triastcyn and Faltings 2019, sections 4.1 and 5.2 (C = 1, sigma = 1.5).
    """

    def __init__(self, *, l2_clip_norm: float, noise_multiplier: float, device_rng: tf.random.Generator) -> None:
        self._l2_clip_norm = l2_clip_norm
        self._stddev = noise_multiplier * l2_clip_norm
        self._device_rng = device_rng

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Bounds and noises a batch; the noise is fresh with each call."""
        # The root is kept from 0, where its gradient is not finite; of no weight beside a norm of the clip's size.
        norms = tf.sqrt(tf.reduce_sum(tf.square(features), axis=1, keepdims=True) + 1e-12)
        bounded = features / tf.maximum(norms / self._l2_clip_norm, 1.0)
        return bounded + self._device_rng.normal(tf.shape(features), stddev=self._stddev)


def make_device_rng(rng: np.random.Generator) -> tf.random.Generator:
    """Makes a generator on the device, keyed and placed with 192 bits of a stream."""
    state = rng.integers(0, 2**64, size=3, dtype=np.uint64).view(np.int64)
    return tf.random.Generator.from_state(state, alg="philox")


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
        device_rng: tf.random.Generator,
        filters: tuple[int, ...] = (32, 64),
        features: int = 64,
        noisy_features: NoisyFeatures | None = None,
        activation_stddev: float = 0.0,
    ) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852). `device_rng` draws the noise on activations."""
        self._noisy_features, self._activation_stddev, self._device_rng = noisy_features, activation_stddev, device_rng
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
        """The last hidden layer. Shapes: (b, height, width, channels), one-hot (b, classes) to (b, features)."""
        weights, activation = self.weights, images
        convolutions = weights[: 2 * self._convolutions]
        for kernel, bias in zip(convolutions[::2], convolutions[1::2], strict=True):
            activation = self._activate(tf.nn.conv2d(activation, kernel, strides=STRIDE, padding="SAME") + bias)
        height, width, channels = activation.shape[1:]
        flat = tf.reshape(activation, [-1, height * width * channels])
        return self._activate(tf.concat([flat, labels], axis=1) @ weights[-3] + weights[-2])

    def score(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Scores images. Shapes: (b, height, width, channels) and one-hot (b, classes) to (b,)."""
        features = self.features(images, labels)
        if self._noisy_features is not None:
            features = self._noisy_features(features)
        return tf.squeeze(features @ self.weights[-1], axis=1)

    def _add_layer(self, *shape: int, rng: np.random.Generator) -> None:
        scale = np.float32(math.sqrt(2.0 / math.prod(shape[:-1])))
        self.weights.append(tf.Variable(rng.standard_normal(shape, dtype=np.float32) * scale))
        self.weights.append(tf.Variable(np.zeros(shape[-1], np.float32)))

    def _activate(self, value: tf.Tensor) -> tf.Tensor:
        activation = tf.maximum(value, LEAK * value)
        if self._activation_stddev > 0:
            activation += self._device_rng.normal(tf.shape(activation), stddev=self._activation_stddev)
        return activation
