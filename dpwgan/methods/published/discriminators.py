"""The private discriminators of the DP-GAN: a probability, and Gaussian noise on every hidden layer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import Cells, Critic, Inputs, Sums, clip_factors
from dpwgan.critic.layer_noise import LayerNoise
from dpwgan.errors import PrivacyError
from dpwgan.table.encoded import Span


class NoisyDiscriminator(Critic):
    """Says how probable it is that a row is real; trained by cross entropy.

    The logit of the probability is how far the score has moved from that of the first weights, f_w - f_w0: every row
    begins at one half. Had D been sigmoid(f_w), real and generated rows would be weighed differently wherever the
    first, random score is not 0, and the two halves of the gradient would not cancel where the generator is right: a
    discriminator that is pulled to its first weights would hold the generator away from them.
    Each hidden activation gets independent Gaussian noise, drawn anew for every step.
    Privacy: a record brings its noise along, a function of its number, the step and a key (`LayerNoise`). Given the
      key its gradient is a function of that record alone, and is clipped after the noise has passed through. So for
      every key the clipped sum moves by at most C when a record is zeroed out, wherever in the batch it was; a mixture,
      over a key independent of the rows, of (epsilon, delta)-DP releases is (epsilon, delta)-DP.
    Shapes: as `Critic`.
    Source: Johnson 2019, section 4.1; the objective is that of Goodfellow et al. 2014, arXiv:1406.2661.
    """

    divides = False  # generated rows have noise by their places

    def __init__(
        self,
        spans: Sequence[Span],
        *,
        hidden: Sequence[int],
        weight_clip: float,
        layer_noise: float,
        rng: np.random.Generator,
        secrets: np.random.Generator | None = None,
    ) -> None:
        """Draws the first weights, and the keys of the layers' noise. `layer_noise` is a stddev.

        `secrets` is for one that sums clipped gradients of real rows: their noise is keyed by it.
        """
        super().__init__(spans, hidden=hidden, weight_clip=weight_clip, rng=rng)
        self.layer_noise: LayerNoise = LayerNoise(stddev=layer_noise, widths=hidden, rng=rng, secrets=secrets)

    def logit(self, dense: tf.Tensor) -> tf.Tensor:
        """The logits of dense rows. Shapes: (b, width) to (b,)."""
        return self.score(dense) - self.score(dense, self.initial)

    def clipped_sum_of_rows(
        self, codes: tf.Tensor, numbers: tf.Tensor, noise: tf.Tensor | None = None, *, l2_clip_norm: float
    ) -> Sums:
        """As `Critic.clipped_sum_of_rows`, with the gradients of ln D.

        Shapes: `noise`, which is required, of each record, (b, hidden units), layer after layer.
        Raises: PrivacyError without it.
        """
        if noise is None:
            raise PrivacyError("Internal error: records came without the noise of their layers.")
        inputs = replace(self.read_rows(codes, numbers), noise=tf.split(noise, self.layer_noise.widths, axis=1))
        return self._clipped_sum(inputs, l2_clip_norm=l2_clip_norm)

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """The sums of real and of generated rows, each with its own objective and noise.

        Generated rows have the gradients of -ln(1 - D). The next step draws new noise for its layers; without generated
        rows it was no step but an audit's look at real ones, and the noise stays.
        """
        real = self.clipped_sum_of_rows(*rows, l2_clip_norm=l2_clip_norm)
        inputs = replace(self.read_rows(*generated), generated=True)
        fake = self._clipped_sum(inputs, l2_clip_norm=l2_clip_norm)
        self.layer_noise.advance(tf.minimum(tf.shape(generated[0])[0], 1))
        return real, fake

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """The mean of -ln D over generated rows. Shapes: (b,) to a number.

        Source: Goodfellow et al. 2014, section 3 (the objective whose gradient does not vanish).
        """
        self.layer_noise.advance()
        return tf.reduce_mean(tf.nn.softplus(-score))

    def _perturb(self, output: tf.Tensor, *, layer: int, noise: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        return output + (noise[layer] if noise else self.layer_noise.of_generated(tf.shape(output), layer=layer))

    def _last_error(self, inputs: Inputs, activation: tf.Tensor) -> tf.Tensor:
        # The first weights score the batch through the same noise.
        _, after = self._go_forward(inputs, self.initial)
        logit = activation @ self.weights[-1] - after[-1] @ self.initial[-1]
        return tf.sigmoid(logit) if inputs.generated else tf.sigmoid(-logit)


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
        self._scale = float(1.0 / (length**2 * np.sqrt(2.0)))
        self.layer_noise = LayerNoise(stddev=layer_noise, widths=(features,), rng=rng, secrets=secrets)
        self.weights = [
            tf.Variable(tf.zeros((classes, features, features)), name="class_products"),
            tf.Variable(tf.zeros((features, features)), name="common_products"),
        ]

    def score(self, dense: tf.Tensor) -> tf.Tensor:
        """The logits of generated rows. Shapes: (b, features + classes), the label one-hot, to (b,)."""
        coordinates, label = dense[:, : -self._classes], dense[:, -self._classes :]
        hidden = self._perturb(coordinates)
        apart, common = self.weights
        # One product for all classes: gradients reach the label as well as the coordinates.
        by_class = tf.tensordot(hidden, apart, axes=[[1], [1]])
        products = tf.einsum("bkq,bq,bk->b", by_class, hidden, label)
        return self._scale * (products + tf.reduce_sum((hidden @ common) * hidden, axis=1))

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """The mean of -ln D over generated rows. Shapes: (b,) to a number."""
        self.layer_noise.advance()
        return tf.reduce_mean(tf.nn.softplus(-score))

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """The sums of real rows, with the gradients of ln D, and of generated ones, with those of -ln(1 - D).

        The next step draws new noise; without generated rows it was no step but a look at real ones, and it stays.
        """
        real = self.clipped_sum_of_rows(*rows, l2_clip_norm=l2_clip_norm)
        return real, self.clipped_sum_of_generated(generated, l2_clip_norm=l2_clip_norm)

    def clipped_sum_of_rows(
        self, codes: tf.Tensor, numbers: tf.Tensor, noise: tf.Tensor, *, l2_clip_norm: float
    ) -> Sums:
        """As `Critic.clipped_sum_of_rows`, with the gradients of ln D.

        Shapes: `codes` (b, 1), `numbers` and `noise`, the records' own, (b, features), b may be 0.
        """
        return self._clipped_sum(codes, numbers + noise, l2_clip_norm=l2_clip_norm, generated=False)

    def clipped_sum_of_generated(self, generated: Cells, *, l2_clip_norm: float) -> Sums:
        """The same for generated rows; then new noise for the next pass over some."""
        codes, numbers = generated
        sums = self._clipped_sum(codes, self._perturb(numbers), l2_clip_norm=l2_clip_norm, generated=True)
        self.layer_noise.advance(tf.minimum(tf.shape(codes)[0], 1))
        return sums

    def _clipped_sum(self, codes: tf.Tensor, hidden: tf.Tensor, *, l2_clip_norm: float, generated: bool) -> Sums:
        labels = codes[:, 0]
        apart, common = self.weights
        of_label = tf.gather(apart, labels) + common
        logit = self._scale * tf.einsum("bp,bpq,bq->b", hidden, of_label, hidden)
        error = tf.sigmoid(logit) if generated else tf.sigmoid(-logit)
        # The gradient is error * scale * h h^T in the class's block, and the same in the common one.
        norm = error * self._scale * tf.reduce_sum(tf.square(hidden), axis=1) * float(np.sqrt(2.0))
        factor = clip_factors(tf.square(norm), l2_clip_norm=l2_clip_norm) * error * self._scale
        finite = tf.math.is_finite(norm)
        factor, hidden = tf.where(finite, factor, 0.0), tf.where(finite[:, tf.newaxis], hidden, 0.0)
        width = hidden.shape[1]
        outer = (hidden * factor[:, tf.newaxis])[:, :, tf.newaxis] * hidden[:, tf.newaxis]
        by_class = tf.math.unsorted_segment_sum(tf.reshape(outer, [-1, width * width]), labels, self._classes)
        sums = tf.reshape(by_class, [self._classes, width, width])
        return [sums, tf.reduce_sum(sums, axis=0)]

    def _perturb(self, generated: tf.Tensor) -> tf.Tensor:
        return generated + self.layer_noise.of_generated(tf.shape(generated))
