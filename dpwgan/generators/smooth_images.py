"""The generator of images in few coordinates: a label, a latent of its class, and a perceptron beside it."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.generators.cosine_space import CosineSpace
from dpwgan.generators.heads import draw_one_hot

Floats = npt.NDArray[np.floating]

LAST_LAYER_SCALE = 0.01
SCALE = 3.5
INIT = 0.0


class SmoothGenerator:
    """Draws a label, a latent u of its class, and the image with the coordinates `skip` u + net(u, label).

    What stands in the basis is smooth; pixels are then cut to [0, 1], so that dark and full areas are flat.
    Rows are points of the space, as the discriminator sees them.
    Privacy: sees released numbers alone.
    Shapes: `means` (classes, latent), `factors` (classes, latent, latent): the prior's; `weights` begins with the
      logits of the label (classes,), and alternates matrices and biases after that.
    """

    def __init__(
        self,
        space: CosineSpace,
        *,
        shares: Floats,
        means: Floats,
        factors: Floats,
        skip: bool,
        hidden: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        """Starts with labels by `shares`, and a net that is nearly 0."""
        self.space, self.skip = space, skip
        latent = means.shape[1]
        self._means = tf.constant(means, tf.float32)
        self._factors = tf.constant(factors, tf.float32)
        self._basis = tf.constant(space.basis, tf.float32)
        self._scale = SCALE
        sizes = [latent + space.classes, *hidden, space.dimension]
        self.weights: list[tf.Variable] = [tf.Variable(np.log(np.maximum(shares, 1e-6)).astype(np.float32))]
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            scale = math.sqrt(2.0 / inputs) if layer < len(hidden) else LAST_LAYER_SCALE
            kernel = rng.standard_normal((inputs, outputs), dtype=np.float32) * np.float32(scale)
            if INIT and layer == len(hidden):
                kernel = kernel / np.float32(LAST_LAYER_SCALE * math.sqrt(inputs)) * (INIT * 4 / (1 + space.frequencies)).astype(np.float32)
            self.weights.append(tf.Variable(kernel))
            self.weights.append(tf.Variable(np.zeros(outputs, np.float32)))

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of points. Shapes: (b, latent), (b, classes or more) to (b, p + classes)."""
        classes = self.space.classes
        label = draw_one_hot(tf.tile(self.weights[0][tf.newaxis], [tf.shape(latents)[0], 1]), uniforms[:, :classes])
        hard = tf.stop_gradient(label)
        bent = tf.einsum("bi,cji,bc->bj", latents, self._factors, hard)
        drawn = hard @ self._means + bent
        activation = tf.concat([latents, label], axis=1)
        for kernel, bias in zip(self.weights[1:-2:2], self.weights[2:-2:2], strict=True):
            activation = tf.nn.relu(activation @ kernel + bias)
        net = (activation @ self.weights[-2] + self.weights[-1]) * self._scale
        pixels = (net + drawn if self.skip else net) @ self._basis_transposed()
        cut = pixels + tf.stop_gradient(tf.clip_by_value(pixels, 0.0, 1.0) - pixels)
        points = cut @ self._basis * self.space.scale
        return points if self.space.label is None else tf.concat([points, label], axis=1)

    def _basis_transposed(self) -> tf.Tensor:
        return tf.transpose(self._basis)
