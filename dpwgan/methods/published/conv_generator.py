"""A generator of images: from noise and a label, through two transposed convolutions, to pixels in [0, 1]."""

import math

import numpy as np
import tensorflow as tf

KERNEL = 4
"""Side of the transposed convolutions' kernels: twice the stride, so that every pixel is made of equally many."""

STRIDE = 2
GROUPS = 4
"""Groups of channels that are normalised together."""

NORM_FLOOR = 1e-5
"""Added to a variance before its root is taken."""

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
        """Draws the first weights. Raises: ValueError if filters cannot be put into groups."""
        if any(width % GROUPS for width in filters):
            raise ValueError(f"filters must be multiples of {GROUPS}")
        self.sizes = halve_sides(image)
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

    def images(self, latents: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
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


def halve_sides(image: tuple[int, int, int]) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Gives the sides of an image's quarter, its half and itself, rounded up."""
    height, width, _ = image
    half = (math.ceil(height / STRIDE), math.ceil(width / STRIDE))
    return (math.ceil(half[0] / STRIDE), math.ceil(half[1] / STRIDE)), half, (height, width)


def _normalise(activation: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Norms each image's groups of channels over all places. Shapes: (b, h, w, c) to the same."""
    height, width, channels = activation.shape[1:]
    grouped = tf.reshape(activation, [-1, height * width, GROUPS, channels // GROUPS])
    mean = tf.reduce_mean(grouped, axis=[1, 3], keepdims=True)
    variance = tf.reduce_mean(tf.square(grouped - mean), axis=[1, 3], keepdims=True)
    normed = (grouped - mean) * tf.math.rsqrt(variance + NORM_FLOOR)
    return tf.reshape(normed, [-1, height, width, channels]) * scale + offset
