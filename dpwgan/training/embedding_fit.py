"""Gradient descent of a class-conditional generator of images towards released means and covariances.

It sees released numbers and public ones, never a row: post-processing.
"""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Floats = npt.NDArray[np.float64]

_BATCH = 48
# Pixels are cut to [0, 1] by a rounded edge of about this part of the range, so that what is cut has a gradient.
_EDGE = 0.02
_ADAM_DECAYS = 0.9, 0.999


def fit_factors(
    means: Floats,
    factors: Floats,
    *,
    waves: Floats,
    stddevs: Floats,
    steps: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Fits centers and factors so that images, once cut to the range of pixels, have the moments asked for.

    Without it the images have them before the cut only: cutting makes dark pictures brighter and all of them less
    varied. The start is that, and each step draws latents, makes two batches of images of each class, and follows the
    gradient of the squared error of their moments, in units of `stddevs`. The errors of one batch are multiplied with
    those of the other: that is unbiased, where a square would also pay for having fewer images than the world has.
    Privacy: post-processing; all arguments are released or public numbers.
    Shapes: `means` (classes, m), `factors` (classes, m, m) with covariances factors @ factors^T, `waves` (m, pixels),
      `stddevs` (m,); gives centers (classes, m) and factors (classes, m, m) for latents from the left.
    Source: Li, Swersky, Zemel 2015, arXiv:1502.02761 (moment matching); Gretton et al. 2012 (unbiased estimate).
    """
    classes, m = means.shape
    targets = tf.constant(means, tf.float32)
    covariances = tf.constant((factors @ factors.transpose(0, 2, 1)) / np.outer(stddevs, stddevs), tf.float32)
    scale, basis = tf.constant(1.0 / stddevs, tf.float32), tf.constant(waves, tf.float32)
    centers = tf.Variable(means, dtype=tf.float32)
    maps = tf.Variable(factors.transpose(0, 2, 1), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([classes, 2 * _BATCH, m], tf.float32)])
    def differentiate(latents: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            points = centers[:, tf.newaxis] + latents @ maps
            pixels = 0.5 + tf.tensordot(points, basis, 1)
            cut = _EDGE * (tf.nn.softplus(pixels / _EDGE) - tf.nn.softplus((pixels - 1.0) / _EDGE))
            apart = (tf.tensordot(cut - 0.5, basis, [[2], [1]]) - targets[:, tf.newaxis]) * scale
            halves = apart[:, :_BATCH], apart[:, _BATCH:]
            one, other = (tf.reduce_mean(half, axis=1) for half in halves)
            wide, broad = (tf.matmul(half, half, transpose_a=True) / _BATCH - covariances for half in halves)
            loss = tf.reduce_sum(one * other) + tf.reduce_sum(wide * broad) / m**0.5
        gradients: list[tf.Tensor] = tape.gradient(loss, [centers, maps])
        return gradients

    rates = scale_of_steps(steps, learning_rate)
    sizes = tf.constant(stddevs, tf.float32)
    units = [sizes, sizes]
    first = [tf.zeros_like(weight) for weight in (centers, maps)]
    second = [tf.zeros_like(weight) for weight in (centers, maps)]
    keep, keep_square = _ADAM_DECAYS
    for step, rate in enumerate(rates, 1):
        latents = rng.standard_normal((classes, 2 * _BATCH, m), dtype=np.float32)
        for place, (weight, gradient) in enumerate(
            zip((centers, maps), differentiate(tf.constant(latents)), strict=True)
        ):
            # In units of each coefficient's own spread, so that one rate suits low and high frequencies.
            scaled = gradient * units[place]
            first[place] = keep * first[place] + (1 - keep) * scaled
            second[place] = keep_square * second[place] + (1 - keep_square) * scaled**2
            move = first[place] / (1 - keep**step) / (tf.sqrt(second[place] / (1 - keep_square**step)) + 1e-8)
            weight.assign_sub(rate * move * units[place])
    return centers.numpy().astype(np.float64), maps.numpy().astype(np.float64)


def scale_of_steps(steps: int, learning_rate: float) -> list[float]:
    """Gives the rate of each step: from the first one down to nearly 0, along half a cosine."""
    return [float(learning_rate * (0.5 + 0.5 * np.cos(np.pi * step / steps))) for step in range(steps)]
