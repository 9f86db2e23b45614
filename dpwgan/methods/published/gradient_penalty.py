"""A Wasserstein critic with a gradient penalty: its loss row by row, and steps on rows as they are or with privacy."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Integers
from dpwgan.critic.critic import clip_factors
from dpwgan.critic.device import compile_step
from dpwgan.critic.optimizers import Adam, WeightAverage, like
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.private_step import count_entries, flatten, split_like
from dpwgan.critic.weights import Kept
from dpwgan.methods.published.networks import Inputs, Networks, draw_labelled
from dpwgan.privacy.steps import Steps

PENALTY = 10.0
"""Weight of the penalty, lambda, as published."""

# Of Adam, as published (Triastcyn and Faltings 2019, section 5.2).
_MEMORIES = (0.0, 0.9)
# A private gradient is mostly noise: its mean over many steps is less so.
_PRIVATE_MEMORIES = (0.9, 0.99)
# Numbers of rows' gradients that are written out at once, and the rows that these may be.
_PIECE_NUMBERS = 2**20
_LEAST_PIECE, _MOST_PIECE = 16, 512


class Match(NamedTuple):
    """Real rows, each beside a generated one of the same label.

    `mixing` is the real row's share in the point between both where the critic's slope is measured.
    Shapes: `content` and `generated` (b, ...), `labels` (b, classes), `mixing` (b,).
    """

    content: tf.Tensor
    labels: tf.Tensor
    generated: tf.Tensor
    mixing: tf.Tensor


def score_losses(networks: Networks, match: Match) -> tf.Tensor:
    """Computes the critic's loss without its penalty: the generated row's score less the real one's. Shapes: (b,)."""
    real = networks.score(match.content, match.labels)
    return networks.score(match.generated, match.labels) - real


def penalties(networks: Networks, match: Match, *, target_slope: float = 1.0) -> tf.Tensor:
    """Computes lambda (|slope| - target)^2 at a point between each real row and its generated one.

    The slope is the gradient of a row's score by that row's own content, so that a row's penalty depends on no other.
    The target is 1 as published. With 0 a critic that finds nothing wrong is flat, and the generator comes to rest.
    Shapes: (b,).
    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1; Mescheder, Geiger, Nowozin 2018, arXiv:1801.04406,
      section 4 (the target 0, without which such games need not converge).
    """
    inner = [-1] + [1] * (len(match.content.shape) - 1)
    mixing = tf.reshape(match.mixing, inner)
    between = mixing * match.content + (1.0 - mixing) * match.generated
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(between)
        scores = networks.score(between, match.labels)
    slopes = tape.gradient(scores, between)
    squares = tf.reduce_sum(tf.square(slopes), axis=list(range(1, len(inner))))
    # The root is kept from 0, where its gradient is not finite.
    return PENALTY * tf.square(tf.sqrt(squares + 1e-12) - target_slope)


class AdamDescent:
    """Adam on the sum of both halves of a critic's loss: for networks whose layers differ in scale."""

    def __init__(self, weights: Sequence[tf.Variable]) -> None:
        self._adam = Adam(weights, learning_rate=1.0, memories=_PRIVATE_MEMORIES)
        self.variables = self._adam.variables
        """Everything that it remembers."""

    def descend(self, noisy: Sequence[tf.Tensor], generated: Sequence[tf.Tensor], *, share: tf.Tensor) -> None:
        """Takes a step by a share of its length. Shapes: both lists are like the weights."""
        self._adam.descend([real + fake for real, fake in zip(noisy, generated, strict=True)], share)


class RememberedDescent:
    """Plain steps by the mean of all noisy halves so far, old ones counting less, and by the generated half of now.

    What rows say hardly changes from step to step, while the noise on it does; what the generator does changes, and has
    no noise. The weights are pulled to 0 as they move: they follow what is wrong now, and forget what was.
    All weights move at one rate, since their noise has one size: that of a clipped record which is spread evenly over
    all of them counts as 1.
    """

    def __init__(self, weights: Sequence[tf.Variable], *, memory: float, pull: float, l2_clip_norm: float) -> None:
        """Starts with no memory of gradients. `pull`: share of the way to 0 that a weight goes in a step."""
        self._weights = list(weights)
        self._unit = l2_clip_norm / math.sqrt(sum(math.prod(weight.shape) for weight in weights))
        self._memory, self._pull = memory, pull
        self._means, self._steps = like(weights), tf.Variable(0.0)
        self.variables = [*self._means, self._steps]
        """The means and their age."""

    def descend(self, noisy: Sequence[tf.Tensor], generated: Sequence[tf.Tensor], *, share: tf.Tensor) -> None:
        """Takes a step; the mean is corrected for its start at 0."""
        self._steps.assign_add(1.0)
        correction = 1.0 - tf.pow(self._memory, self._steps)
        for weight, mean, real, fake in zip(self._weights, self._means, noisy, generated, strict=True):
            mean.assign(self._memory * mean + (1.0 - self._memory) * real)
            weight.assign((1.0 - self._pull) * weight - share * (mean / correction + fake) / self._unit)


class PlainPenaltyStep:
    """A critic step on rows as they are.

    Privacy: none. Noise on the critic's features, if the networks have it, is no mechanism: see `NoisyFeatures`.
    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1; Triastcyn and Faltings 2019, section 5.2.
    """

    def __init__(self, networks: Networks, *, batch_size: int, learning_rate: float) -> None:
        self._networks, self._batch_size = networks, batch_size
        self._adam = Adam(networks.critic_weights, learning_rate=learning_rate, memories=_MEMORIES)
        self._step = compile_step(self._trace, input_signature=[tf.TensorSpec([batch_size], tf.int64)])

    def __call__(self, rows: Integers) -> None:
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


class PrivatePenaltyStep(Kept):
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
        self,
        networks: Networks,
        *,
        plan: TrainingDesign,
        steps: Steps,
        descent: AdamDescent | RememberedDescent,
        target_slope: float = 1.0,
    ) -> None:
        """Traces nothing yet. `descent` moves the networks' critic; `target_slope` as in `penalties`."""
        self._networks, self._plan, self._steps = networks, plan, steps
        self._descent, self._target_slope = descent, target_slope
        self.variables = [*networks.critic_weights, *descent.variables]
        """Everything that steps change, made of noisy sums: no row is in it."""
        self._sizes = count_entries(networks.critic_weights)
        self._rows_a_piece = max(_LEAST_PIECE, min(_MOST_PIECE, _PIECE_NUMBERS // sum(self._sizes)))
        inputs = [tf.TensorSpec([self._rows_a_piece, width], tf.float32) for width in networks.input_widths]
        rows, there, mixing = (tf.TensorSpec([self._rows_a_piece], kind) for kind in (tf.int64, tf.bool, tf.float32))
        self._piece = compile_step(self._clip_piece, input_signature=[rows, there, tuple(inputs), mixing])
        self._descend = compile_step(self._move)

    def __call__(self, rows: Integers, *, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers, with fresh noise."""
        noise = split_like(self._steps.draw_normal_numbers(sum(self._sizes)), self._networks.critic_weights)
        sums = self.clipped_sum(rows)
        noisy = [total + piece for total, piece in zip(sums, noise, strict=True)]
        if self._steps.watched_row is not None:
            alone = self.clipped_sum(np.array([self._steps.watched_row]))  # with latents of its own, as in a batch
            self._steps.tell(self._sizes, *(flatten(parts).numpy() for parts in (noisy, sums, alone)))
        batch = np.float32(self._plan.expected_batch_size)
        self._descend([part / batch for part in noisy], share=tf.constant(learning_rate, tf.float32))

    def clipped_sum(self, rows: Integers) -> list[tf.Tensor]:
        """Limits how far one record can move the critic, then adds the records up.

        Privacy: as `clip_and_sum`. No noise is added here; latents and mixing are secrets of the steps.
        Shapes: `rows` (b,), b may be 0; the result is like the critic's weights.
        """
        secrets = self._steps.secrets
        sums = [tf.zeros_like(weight) for weight in self._networks.critic_weights]
        for start in range(0, len(rows), self._rows_a_piece):
            piece = rows[start : start + self._rows_a_piece]
            there = np.arange(self._rows_a_piece) < len(piece)
            padded = np.pad(piece, (0, self._rows_a_piece - len(piece)))
            # Latents are normal; the uniforms of a table's generator come second.
            latent, *others = self._networks.input_widths
            inputs = (
                secrets.standard_normal((self._rows_a_piece, latent), dtype=np.float32),
                *(secrets.random((self._rows_a_piece, width), dtype=np.float32) for width in others),
            )
            mixing = secrets.random(self._rows_a_piece, dtype=np.float32)
            parts = self._piece(padded, there, inputs, mixing)
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        return sums

    def differentiate(self, match: Match) -> list[tf.Tensor]:
        """Computes each record's gradient of all that it adds to the loss. Shapes: a list of (b, *weight)."""

        def of_one(record: Match) -> list[tf.Tensor]:
            alone = Match(*(part[tf.newaxis] for part in record))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self._networks.critic_weights)
                # The scores of generated rows are the rest of the loss, and no record is in them.
                own = self._networks.score(alone.content, alone.labels)
                loss = penalties(self._networks, alone, target_slope=self._target_slope) - own
            gradients: list[tf.Tensor] = tape.gradient(loss, self._networks.critic_weights)
            return gradients

        return list(tf.vectorized_map(of_one, match))

    def _clip_piece(self, rows: tf.Tensor, there: tf.Tensor, inputs: Inputs, mixing: tf.Tensor) -> list[tf.Tensor]:
        content, labels = self._networks.read(rows)
        generated = tf.stop_gradient(self._networks.generate(inputs, labels))
        gradients = self.differentiate(Match(content, labels, generated, mixing))
        return clip_and_sum(gradients, there=there, l2_clip_norm=self._plan.clip_target)

    def _move(self, noisy: list[tf.Tensor], *, share: tf.Tensor) -> None:
        drawn = draw_labelled(self._networks, self._plan.generated_batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.critic_weights)
            loss = tf.reduce_mean(self._networks.score(*drawn))
        self._descent.descend(noisy, tape.gradient(loss, self._networks.critic_weights), share=share)


class ScoreClimb(Kept):
    """The generator's step: up the critic's score. It sees the critic alone: post-processing, if the critic is private.

    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1, lines 11 and 12.
    """

    def __init__(
        self, networks: Networks, *, batch_size: int, learning_rate: float, average: float | None = None
    ) -> None:
        """Starts Adam. `average`: weight of the past in a running mean of the weights, which is kept if asked for."""
        self._networks, self._batch_size = networks, batch_size
        self._adam = Adam(networks.generator_weights, learning_rate=learning_rate, memories=_MEMORIES)
        self._average = None if average is None else WeightAverage(networks.generator_weights, keep=average)
        self.averaged = [] if self._average is None else self._average.means
        """The running mean of the weights; none if it was not asked for."""
        self.variables = [*networks.generator_weights, *self._adam.variables, *self.averaged]
        self._step = compile_step(self._trace, input_signature=[tf.TensorSpec([], tf.float32)])

    def __call__(self, *, learning_rate: float = 1.0) -> None:
        """Takes one generator step, by a share of its learning rate."""
        self._step(tf.constant(learning_rate, tf.float32))

    def _trace(self, share: tf.Tensor) -> None:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._networks.generator_weights)
            loss = -tf.reduce_mean(self._networks.score(*draw_labelled(self._networks, self._batch_size)))
        self._adam.descend(tape.gradient(loss, self._networks.generator_weights), share=share)
        if self._average is not None:
            self._average.follow()


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
