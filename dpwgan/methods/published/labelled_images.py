"""A generator of smooth images of given labels: a perceptron's coordinates, beside those of a mean picture."""

import math

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.images.smooth_frame import SmoothFrame


class LabelledImages:
    """Maps latents and labels to points of a frame: pictures in few coordinates, as differences from the mean picture.

    The perceptron has one hidden layer. Pixels are cut to [0, 1], as they are when rows are written; gradients pass
    through the cut. The first pictures are the mean one, and smooth noise on it that falls with the frequency.
    Privacy: sees released numbers alone.
    Shapes: `weights` are matrices and biases: (latent + classes, hidden), (hidden,), (hidden, dimension), (dimension,).
    """

    def __init__(
        self,
        frame: SmoothFrame,
        *,
        centre: npt.NDArray[np.float64],
        latent: int,
        hidden: int,
        rng: np.random.Generator,
    ) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852). Shapes: `centre` (dimension,), a point."""
        inputs = latent + frame.grid.classes
        basis, frequencies = frame.basis
        self._basis = tf.constant(basis, tf.float32)
        self._scale = frame.scale
        self._centre = tf.constant(centre, tf.float32)
        first = rng.standard_normal((inputs, hidden), dtype=np.float32) * np.float32(math.sqrt(2.0 / inputs))
        # Amplitudes fall as 1/f in pictures of most things (Field 1987).
        falls = (_FIRST_STDDEV / math.sqrt(hidden) / (1.0 + frequencies)).astype(np.float32)
        last = rng.standard_normal((hidden, len(basis)), dtype=np.float32) * falls
        self.weights: list[tf.Variable] = [
            tf.Variable(first),
            tf.Variable(np.zeros(hidden, np.float32)),
            tf.Variable(last),
            tf.Variable(np.asarray(centre, np.float32)),
        ]

    def points(self, latents: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Draws a batch of points. Shapes: (b, latent) and one-hot (b, classes) to (b, dimension)."""
        kernel, bias, last, offset = self.weights
        hidden = tf.nn.relu(tf.concat([latents, labels], axis=1) @ kernel + bias)
        pixels = ((hidden @ last + offset) / self._scale) @ self._basis
        cut = pixels + tf.stop_gradient(tf.clip_by_value(pixels, 0.0, 1.0) - pixels)
        return tf.matmul(cut, self._basis, transpose_b=True) * self._scale - self._centre


# In points: a full picture is 10 away from a black one.
_FIRST_STDDEV = 2.0
