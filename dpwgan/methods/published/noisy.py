"""The discriminator of the DP-GAN: the critic's network, a probability, and Gaussian noise on every hidden layer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import Cells, Critic, Inputs, Sums
from dpwgan.table.encoded import Span

_ROWS, _GENERATED = 0, 1


class NoisyDiscriminator(Critic):
    """Says how probable it is that a row is real; trained by cross entropy.

    The logit of the probability is how far the score has moved from that of the first weights, f_w - f_w0: every row
    begins at one half. Had D been sigmoid(f_w), real and generated rows would be weighed differently wherever the
    first, random score is not 0, and the two halves of the gradient would not cancel where the generator is right: a
    discriminator that is pulled to its first weights would hold the generator away from them.
    Each hidden activation gets independent Gaussian noise, drawn anew for every step.
    Privacy: the noise of the layers protects nothing and is accounted for by nothing. It is drawn from the model
      stream, independent of all rows; given it, a record's gradient is a function of that record alone, and is clipped
      after the noise has passed through. So for every value of the layers' noise the clipped sum moves by at most C
      when a record is zeroed out; a mixture, over noise independent of the rows, of (epsilon, delta)-DP releases is
      (epsilon, delta)-DP.
    Shapes: as `Critic`.
    Source: Johnson 2019, section 4.1; the objective is that of Goodfellow et al. 2014, arXiv:1406.2661.
    """

    divides = False  # what noise a row has goes by its place in the batch

    def __init__(
        self,
        spans: Sequence[Span],
        *,
        hidden: Sequence[int],
        weight_clip: float,
        layer_noise: float,
        rng: np.random.Generator,
    ) -> None:
        """Draws the first weights, and the key of the layers' noise. `layer_noise` is a stddev."""
        super().__init__(spans, hidden=hidden, weight_clip=weight_clip, rng=rng)
        self._layer_noise = layer_noise
        self._key = int(rng.integers(2**31))
        self._passes = tf.Variable(0, dtype=tf.int32)

    def logit(self, dense: tf.Tensor) -> tf.Tensor:
        """Gives the logits of dense rows. Shapes: (b, width) to (b,)."""
        return self.score(dense) - self.score(dense, self.initial)

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """Goes over real and generated rows one after the other: each half has an objective and noise of its own.

        Generated rows are taken by the gradients of -ln(1 - D). The next step draws new noise for its layers; without
        generated rows it was no step but a look at real ones, as the audit takes, and the noise stays.
        """
        real = self.clipped_sum_of_rows(*rows, l2_clip_norm=l2_clip_norm)
        inputs = replace(self.read_rows(*generated), generated=True)
        fake = self._clipped_sum(inputs, l2_clip_norm=l2_clip_norm)
        self._passes.assign_add(tf.minimum(tf.shape(generated[0])[0], 1))
        return real, fake

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """Gives the mean of -ln D over generated rows. Shapes: (b,) to a number.

        Source: Goodfellow et al. 2014, section 3 (the objective whose gradient does not vanish).
        """
        self._passes.assign_add(1)
        return tf.reduce_mean(tf.nn.softplus(-score))

    def _perturb(self, output: tf.Tensor, *, layer: int, generated: bool) -> tf.Tensor:
        if self._layer_noise == 0.0:
            return output
        # A counter and not a state: a record keeps its noise, whoever comes after it in the batch.
        stream = 2 * layer + (_GENERATED if generated else _ROWS)
        seed = tf.stack([tf.constant(self._key ^ stream, tf.int32), self._passes])
        return output + self._layer_noise * tf.random.stateless_normal(tf.shape(output), seed)

    def _last_error(self, inputs: Inputs, activation: tf.Tensor, *, generated: bool) -> tf.Tensor:
        logit = activation @ self.weights[-1] - self._first_score(inputs)
        return tf.sigmoid(logit) if generated else tf.sigmoid(-logit)

    def _first_score(self, inputs: Inputs) -> tf.Tensor:
        """Scores a batch by the first weights, through the same noise. Shapes: (b, 1)."""
        kernels, biases = self.initial[::2], self.initial[1::2]
        value = self._first_product(inputs, kernels[0]) + biases[0]
        activation = self._activate(value, layer=0, generated=inputs.generated)
        for layer, (kernel, bias) in enumerate(zip(kernels[1:-1], biases[1:], strict=True), start=1):
            activation = self._activate(activation @ kernel + bias, layer=layer, generated=inputs.generated)
        return activation @ kernels[-1]
