"""The discriminator of the DP-GAN: the critic's network, a probability, and Gaussian noise on every hidden layer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from dpwgan.critic.critic import Cells, Critic, Inputs, Sums
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
        """Gives the logits of dense rows. Shapes: (b, width) to (b,)."""
        return self.score(dense) - self.score(dense, self.initial)

    def clipped_sum_of_rows(
        self, codes: tf.Tensor, numbers: tf.Tensor, noise: tf.Tensor | None = None, *, l2_clip_norm: float
    ) -> Sums:
        """Does as `Critic.clipped_sum_of_rows`, by the gradients of ln D.

        Shapes: `noise`, which every record has to bring along, (b, hidden units), layer after layer.
        Raises: PrivacyError without it.
        """
        if noise is None:
            raise PrivacyError("Internal error: records came without the noise of their layers.")
        inputs = replace(self.read_rows(codes, numbers), noise=tf.split(noise, self.layer_noise.widths, axis=1))
        return self._clipped_sum(inputs, l2_clip_norm=l2_clip_norm)

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """Goes over real and generated rows one after the other: each half has an objective and noise of its own.

        Generated rows are taken by the gradients of -ln(1 - D). The next step draws new noise for its layers; without
        generated rows it was no step but a look at real ones, as the audit takes, and the noise stays.
        """
        real = self.clipped_sum_of_rows(*rows, l2_clip_norm=l2_clip_norm)
        inputs = replace(self.read_rows(*generated), generated=True)
        fake = self._clipped_sum(inputs, l2_clip_norm=l2_clip_norm)
        self.layer_noise.advance(tf.minimum(tf.shape(generated[0])[0], 1))
        return real, fake

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """Gives the mean of -ln D over generated rows. Shapes: (b,) to a number.

        Source: Goodfellow et al. 2014, section 3 (the objective whose gradient does not vanish).
        """
        self.layer_noise.advance()
        return tf.reduce_mean(tf.nn.softplus(-score))

    def _perturb(self, output: tf.Tensor, *, layer: int, noise: Sequence[tf.Tensor]) -> tf.Tensor:
        return output + (noise[layer] if noise else self.layer_noise.of_generated(tf.shape(output), layer=layer))

    def _last_error(self, inputs: Inputs, activation: tf.Tensor) -> tf.Tensor:
        logit = activation @ self.weights[-1] - self._first_score(inputs)
        return tf.sigmoid(logit) if inputs.generated else tf.sigmoid(-logit)

    def _first_score(self, inputs: Inputs) -> tf.Tensor:
        """Scores a batch by the first weights, through the same noise. Shapes: (b, 1)."""
        kernels, biases = self.initial[::2], self.initial[1::2]
        value = self._first_product(inputs, kernels[0]) + biases[0]
        activation = self._activate(value, layer=0, noise=inputs.noise)
        for layer, (kernel, bias) in enumerate(zip(kernels[1:-1], biases[1:], strict=True), start=1):
            activation = self._activate(activation @ kernel + bias, layer=layer, noise=inputs.noise)
        return activation @ kernels[-1]
