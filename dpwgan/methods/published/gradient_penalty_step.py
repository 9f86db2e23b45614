"""The steps of a Wasserstein GAN with a gradient penalty: on rows as they are, and with a private critic."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.critic import clip_factors
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.tracing import compile_step
from dpwgan.critic.weight_average import WeightAverage
from dpwgan.methods.published.descent import Descent
from dpwgan.methods.published.gradient_penalty import Match, penalties, record_losses, score_losses
from dpwgan.methods.published.networks import Inputs, Networks
from dpwgan.privacy.steps import Steps

# As published (Triastcyn and Faltings 2019, section 5.2).
_MEAN_MEMORY = 0.0
_SQUARE_MEMORY = 0.9
# Numbers of rows' gradients that are written out at once, and the rows that these may be.
_PIECE_NUMBERS = 2**20
_LEAST_PIECE, _MOST_PIECE = 16, 512


class PlainPenaltyStep:
    """A critic step on rows as they are.

    Privacy: none. Noise on the critic's features, if the networks have it, is no mechanism: see `NoisyFeatures`.
    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1; Triastcyn and Faltings 2019, section 5.2.
    """

    def __init__(self, networks: Networks, *, batch_size: int, learning_rate: float) -> None:
        self._networks = networks
        self._batch_size = batch_size
        self._adam = Adam(
            networks.critic_weights,
            learning_rate=learning_rate,
            mean_memory=_MEAN_MEMORY,
            square_memory=_SQUARE_MEMORY,
        )
        self._step = compile_step(self._trace, input_signature=[tf.TensorSpec([batch_size], tf.int64)])

    def __call__(self, rows: npt.NDArray[np.int64]) -> None:
        """Takes one critic step on the given row numbers."""
        self._step(tf.constant(rows))

    def _trace(self, rows: tf.Tensor) -> None:
        content, labels = self._networks.read(rows)
        generated = tf.stop_gradient(self._networks.generate(self._networks.draw(self._batch_size), labels))
        match = Match(content, labels, generated, self._networks.draw_mixing(self._batch_size))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.critic_weights)
            loss = tf.reduce_mean(score_losses(self._networks, match) + penalties(self._networks, match))
        self._adam.descend(tape.gradient(loss, self._networks.critic_weights))


class PrivatePenaltyStep:
    """A critic step by clipped, noised per-record gradients of all of the loss that a record is in, penalty included.

    Privacy: the batch is the one the caller drew by Poisson sampling. What a record adds to the sum is a function of
      the record, the weights and its own latents and mixing: its score, a generated row of its label, the point
      between both, and so the penalty. It is clipped jointly to C as one vector, after the penalty's gradient was
      added. Latents and mixing come from the noise stream, which nobody knows: each record may be thought to bring its
      own, whatever the others in the batch are, and taking it out then moves the sum by at most C. The noise that was
      charged is drawn whatever the batch holds. The scores of generated rows have no row in them, and need neither
      clip nor noise. Charged by the caller before the call.
    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1.
    """

    def __init__(
        self, networks: Networks, *, plan: TrainingDesign, steps: Steps, descent: Descent, target_slope: float = 1.0
    ) -> None:
        """Traces nothing yet. `descent` moves the networks' critic; `target_slope` as in `penalties`."""
        self._networks = networks
        self._plan, self._steps = plan, steps
        self._target_slope = target_slope
        self._sizes = [int(np.prod(weight.shape)) for weight in networks.critic_weights]
        self._rows_a_piece = max(_LEAST_PIECE, min(_MOST_PIECE, _PIECE_NUMBERS // sum(self._sizes)))
        self._descent = descent
        inputs = [tf.TensorSpec([self._rows_a_piece, width], tf.float32) for width in networks.input_widths]
        self._piece = compile_step(
            self._clip_piece,
            input_signature=[
                tf.TensorSpec([self._rows_a_piece], tf.int64),
                tf.TensorSpec([self._rows_a_piece], tf.bool),
                tuple(inputs),
                tf.TensorSpec([self._rows_a_piece], tf.float32),
            ],
        )
        self._descend = compile_step(self._move)

    def __call__(self, rows: npt.NDArray[np.int64], *, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers, with fresh noise."""
        pieces = np.split(self._steps.draw_normal_numbers(sum(self._sizes)), np.cumsum(self._sizes)[:-1])
        sums = self.clipped_sum(rows)
        noisy = [total + piece.reshape(total.shape) for total, piece in zip(sums, pieces, strict=True)]
        if self._steps.watched_row is not None:
            alone = self.clipped_sum(np.array([self._steps.watched_row]))  # with latents of its own, as in a batch
            self._steps.tell(self._sizes, _flatten(noisy), _flatten(sums), _flatten(alone))
        batch = np.float32(self._plan.expected_batch_size)
        self._descend([part / batch for part in noisy], share=tf.constant(learning_rate, tf.float32))

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change, made of noisy sums: no row is in it."""
        return [*self._networks.critic_weights, *self._descent.variables]

    def clipped_sum(self, rows: npt.NDArray[np.int64]) -> list[tf.Tensor]:
        """Limits how far one record can move the critic, then adds the records up.

        Privacy: zeroing out a record moves the result by at most the plan's `l2_clip_norm` in L2, over all weights
          jointly. No noise is added here; latents and mixing are secrets of the steps. A record whose gradient is not
          finite counts as zero.
        Shapes: `rows` (b,), b may be 0; the result is like the critic's weights.
        """
        secrets = self._steps.secrets
        sums = [tf.zeros_like(weight) for weight in self._networks.critic_weights]
        for start in range(0, len(rows), self._rows_a_piece):
            piece = rows[start : start + self._rows_a_piece]
            there = np.arange(self._rows_a_piece) < len(piece)
            padded = np.zeros(self._rows_a_piece, np.int64)
            padded[: len(piece)] = piece
            # Latents are normal; the uniforms of a table's generator come second.
            latent, *others = self._networks.input_widths
            inputs = (
                secrets.standard_normal((self._rows_a_piece, latent), dtype=np.float32),
                *(secrets.random((self._rows_a_piece, width), dtype=np.float32) for width in others),
            )
            mixing = secrets.random(self._rows_a_piece, dtype=np.float32)
            parts = self._piece(
                tf.constant(padded),
                tf.constant(there),
                tuple(tf.constant(part) for part in inputs),
                tf.constant(mixing),
            )
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        return sums

    def differentiate(self, match: Match) -> list[tf.Tensor]:
        """Gives each record's gradient of all that it adds to the loss. Shapes: a list of (b, *weight)."""

        def of_one(record: Match) -> list[tf.Tensor]:
            alone = Match(*(part[tf.newaxis] for part in record))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self._networks.critic_weights)
                loss = record_losses(self._networks, alone, target_slope=self._target_slope)
            gradients: list[tf.Tensor] = tape.gradient(loss, self._networks.critic_weights)
            return gradients

        return list(tf.vectorized_map(of_one, match))

    def _clip_piece(self, rows: tf.Tensor, there: tf.Tensor, inputs: Inputs, mixing: tf.Tensor) -> list[tf.Tensor]:
        content, labels = self._networks.read(rows)
        generated = tf.stop_gradient(self._networks.generate(inputs, labels))
        gradients = self.differentiate(Match(content, labels, generated, mixing))
        return clip_and_sum(gradients, there=there, l2_clip_norm=self._plan.clip_target)

    def _move(self, noisy: list[tf.Tensor], *, share: tf.Tensor) -> None:
        batch = self._plan.generated_batch_size
        inputs, labels = self._networks.draw(batch), self._networks.draw_labels(batch)
        content = self._networks.generate(inputs, labels)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.critic_weights)
            loss = tf.reduce_mean(self._networks.score(content, labels))
        self._descent.descend(noisy, tape.gradient(loss, self._networks.critic_weights), share=share)


class ScoreClimb:
    """The generator's step: up the critic's score. It sees the critic alone: post-processing, if the critic is private.

    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1, lines 11 and 12.
    """

    def __init__(
        self, networks: Networks, *, batch_size: int, learning_rate: float, average: float | None = None
    ) -> None:
        """Starts Adam. `average`: weight of the past in a running mean of the weights, which is kept if asked for."""
        self._networks = networks
        self._batch_size = batch_size
        self._adam = Adam(
            networks.generator_weights,
            learning_rate=learning_rate,
            mean_memory=_MEAN_MEMORY,
            square_memory=_SQUARE_MEMORY,
        )
        self._average = None if average is None else WeightAverage(networks.generator_weights, keep=average)
        self._step = compile_step(self._trace, input_signature=[tf.TensorSpec([], tf.float32)])

    def __call__(self, *, learning_rate: float = 1.0) -> None:
        """Takes one generator step, by a share of its learning rate."""
        self._step(tf.constant(learning_rate, tf.float32))

    @property
    def averaged(self) -> list[tf.Variable]:
        """The running mean of the weights; none if it was not asked for."""
        return [] if self._average is None else self._average.means

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change."""
        return [*self._networks.generator_weights, *self._adam.variables, *self.averaged]

    def _trace(self, share: tf.Tensor) -> None:
        inputs, labels = self._networks.draw(self._batch_size), self._networks.draw_labels(self._batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.generator_weights)
            loss = -tf.reduce_mean(self._networks.score(self._networks.generate(inputs, labels), labels))
        self._adam.descend(tape.gradient(loss, self._networks.generator_weights), share=share)
        if self._average is not None:
            self._average.follow()


def _flatten(tensors: Sequence[tf.Tensor]) -> npt.NDArray[np.float32]:
    return np.concatenate([np.ravel(tensor) for tensor in tensors])


def clip_and_sum(gradients: list[tf.Tensor], *, there: tf.Tensor, l2_clip_norm: float) -> list[tf.Tensor]:
    """Scales each record's gradient to at most `l2_clip_norm`, over all weights jointly, then adds the records up.

    Privacy: a record moves the result by at most `l2_clip_norm` in L2. One that is not `there`, because it fills a
      piece up, or whose gradient is not finite, counts as zero.
    Shapes: `gradients` is a list of (b, *weight), `there` (b,); the result is a list of (*weight).
    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """
    flat = [tf.reshape(gradient, [tf.shape(there)[0], -1]) for gradient in gradients]
    squares = tf.add_n([tf.reduce_sum(tf.square(part), axis=1) for part in flat])
    kept = tf.math.is_finite(squares) & there
    factors = clip_factors(tf.where(kept, squares, 0.0), l2_clip_norm=l2_clip_norm)
    # 0 times infinity is not 0: what is not kept has to go before the products.
    return [
        tf.reshape(
            tf.linalg.matvec(tf.where(kept[:, tf.newaxis], part, 0.0), factors, transpose_a=True), whole.shape[1:]
        )
        for part, whole in zip(flat, gradients, strict=True)
    ]
