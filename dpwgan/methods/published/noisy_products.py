"""The discriminator of the DP-GAN for images: class by class, a weight for each product of two coordinates."""

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import Cells, Sums, clip_factors
from dpwgan.critic.layer_noise import LayerNoise

# What classes share gets half of a gradient's square, and what sets them apart the other half.
_TOGETHER = 1.0


class NoisyProducts:
    """Says how probable it is that a row is real; its logit is h^T (A_y + S) h.

    h are the row's coordinates, a hidden layer that is not trained, with Gaussian noise drawn anew for every step; y is
    the row's label. A_y are weights of its class and S those that all classes have in common, a projection of the label
    on the features: which classes a picture is wrong for is as plain as that it is wrong. The logit is linear in the
    weights, so that for any generator there is one best discriminator, and 0 at first: every row begins at one half.
    h^T h is divided by `length` squared and by the root of 2, so that a row's gradient, 1 - D of it over all weights,
    is about one half as long where nothing is known: no row needs a clip that any other does not.
    Privacy: as `NoisyDiscriminator`: a record brings the layer's noise along, and clipping comes after it. A record's
      gradient is in its class's block and the common one, clipped jointly.
    Shapes: `weights` are (classes, features, features) and (features, features).
    Source: Miyato and Koyama 2018, arXiv:1802.05637, equation 4 (projection discriminator); Johnson 2019, section 4.1
      (noise layers); Goodfellow et al. 2014, arXiv:1406.2661 (objective).
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        length: float,
        layer_noise: float,
        rng: np.random.Generator,
        secrets: np.random.Generator,
    ) -> None:
        """Starts with weights of 0, and draws the keys of the layer's noise. `layer_noise` is a stddev.

        Units: `length` is that of a row's coordinates, in the unit of the noise.
        """
        self._classes = classes
        self._scale = float(1.0 / (length**2 * np.sqrt(1.0 + _TOGETHER**2)))
        self.layer_noise = LayerNoise(stddev=layer_noise, widths=(features,), rng=rng, secrets=secrets)
        self.weights = [
            tf.Variable(tf.zeros((classes, features, features)), name="class_products"),
            tf.Variable(tf.zeros((features, features)), name="common_products"),
        ]

    def score(self, dense: tf.Tensor) -> tf.Tensor:
        """Gives the logits of generated rows. Shapes: (b, features + classes), the label one-hot, to (b,)."""
        coordinates, label = dense[:, : -self._classes], dense[:, -self._classes :]
        hidden = self._perturb(coordinates)
        apart, common = self.weights
        # One product for all classes: gradients reach the label as well as the coordinates.
        by_class = tf.tensordot(hidden, apart, axes=[[1], [1]])
        products = tf.einsum("bkq,bq,bk->b", by_class, hidden, label)
        return self._scale * (products + _TOGETHER * tf.reduce_sum((hidden @ common) * hidden, axis=1))

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """Gives the mean of -ln D over generated rows. Shapes: (b,) to a number."""
        self.layer_noise.advance()
        return tf.reduce_mean(tf.nn.softplus(-score))

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """Goes over real rows, by the gradients of ln D, and over generated ones, by those of -ln(1 - D).

        The next step draws new noise; without generated rows it was no step but a look at real ones, and it stays.
        """
        real = self.clipped_sum_of_rows(*rows, l2_clip_norm=l2_clip_norm)
        return real, self.clipped_sum_of_generated(generated, l2_clip_norm=l2_clip_norm)

    def clipped_sum_of_rows(
        self, codes: tf.Tensor, numbers: tf.Tensor, noise: tf.Tensor, *, l2_clip_norm: float
    ) -> Sums:
        """Limits how far one record can move the weights, then adds the records up.

        Privacy: zeroing out a record moves the result by at most `l2_clip_norm` in L2, over all weights jointly, but
          for the rounding of float32 sums. No noise is added here. A record whose gradient is not finite counts as
          zero.
        Shapes: `codes` (b, 1), `numbers` (b, features), b may be 0; `noise`, the records' own, like `numbers`; the
          result is like `weights`.
        Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
        """
        return self._clipped_sum(codes, numbers + noise, l2_clip_norm=l2_clip_norm, generated=False)

    def clipped_sum_of_generated(self, generated: Cells, *, l2_clip_norm: float) -> Sums:
        """Does the same for generated rows, and draws new noise for the next pass over some."""
        codes, numbers = generated
        sums = self._clipped_sum(codes, self._perturb(numbers), l2_clip_norm=l2_clip_norm, generated=True)
        self.layer_noise.advance(tf.minimum(tf.shape(codes)[0], 1))
        return sums

    def _clipped_sum(self, codes: tf.Tensor, hidden: tf.Tensor, *, l2_clip_norm: float, generated: bool) -> Sums:
        labels = codes[:, 0]
        apart, common = self.weights
        of_label = tf.gather(apart, labels) + _TOGETHER * common
        logit = self._scale * tf.einsum("bp,bpq,bq->b", hidden, of_label, hidden)
        error = tf.sigmoid(logit) if generated else tf.sigmoid(-logit)
        # The gradient is error * scale * h h^T in the class's block, and _TOGETHER times that in the common one.
        norm = error * self._scale * tf.reduce_sum(tf.square(hidden), axis=1) * float(np.sqrt(1.0 + _TOGETHER**2))
        factor = clip_factors(tf.square(norm), l2_clip_norm=l2_clip_norm) * error * self._scale
        finite = tf.math.is_finite(norm)
        factor, hidden = tf.where(finite, factor, 0.0), tf.where(finite[:, tf.newaxis], hidden, 0.0)
        width = hidden.shape[1]
        outer = (hidden * factor[:, tf.newaxis])[:, :, tf.newaxis] * hidden[:, tf.newaxis]
        by_class = tf.math.unsorted_segment_sum(tf.reshape(outer, [-1, width * width]), labels, self._classes)
        sums = tf.reshape(by_class, [self._classes, width, width])
        return [sums, _TOGETHER * tf.reduce_sum(sums, axis=0)]

    def _perturb(self, generated: tf.Tensor) -> tf.Tensor:
        return generated + self.layer_noise.of_generated(tf.shape(generated))
