"""The private critic step in one compiled function: clip, sum, noise, update."""

import math
from functools import partial

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.critic import Cells, Critic, Sums
from dpwgan.critic.critic_update import CriticUpdate
from dpwgan.critic.generator import LatentDraws, RowGenerator
from dpwgan.critic.noise import count_pairs, make_normal_numbers
from dpwgan.critic.plain_ascent import PlainAscent
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.replicas import Replicas, choose_devices
from dpwgan.critic.rows import RowReader
from dpwgan.critic.tracing import compile_step
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable

# Noise for several steps waits in memory until they are taken: no more of it than a core's caches hold, or nearly.
_NOISE_BYTES = 8 * 2**20
# The more steps a call takes the less it costs, but from some ten on there is little left to save.
_MOST_AT_ONCE = 20
# 64 bytes of words.
_ALIGNED_PAIRS = 8


class FusedStep:
    """Algorithm 2 of the DP-WGAN paper, lines 3 to 14, exact where the paper is loose.

    Privacy: the batch is the one the caller drew by Poisson sampling; per-record gradients over all critic weights are
      clipped jointly to C; the noise is the charged one of the run's `steps`, whatever the batch holds: an empty one is
      a step of pure noise. Everything after the sum is post-processing. Charged by the caller before the call.
    Source: Srivastava and Alzantot 2019, Algorithm 2; Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        critic: Critic,
        generator: RowGenerator,
        latents: LatentDraws,
        plan: TrainingDesign,
        steps: Steps,
        update: CriticUpdate | PlainAscent | None = None,
    ) -> None:
        """Puts the encoded rows on the device, unless they are on disk, and traces nothing yet.

        `update`: what becomes of noisy sums; that of `CriticUpdate` where not given.
        """
        self._reader = RowReader(encoded)
        self._replicas = Replicas(choose_devices(critic, plan))
        self._critic = critic
        self._generator = generator
        self._latents = latents
        self._plan, self._steps = plan, steps
        self._update = update or CriticUpdate(critic, plan)
        self._sizes = [int(np.prod(weight.shape)) for weight in critic.weights]
        pairs = [count_pairs(weight.shape) for weight in critic.weights]
        # The last ones are of no use, but so each step's words begin where TensorFlow can take them without a copy.
        self._pairs = [*pairs, -sum(pairs) % _ALIGNED_PAIRS]
        self._by_words = self._update.compiled and plan.settings.step_noise == "fast"
        self._finish = (
            compile_step(self._add_and_move, jit_compile=True) if self._update.compiled else self._add_and_move
        )
        self._step = compile_step(
            self.trace,
            input_signature=[
                tf.TensorSpec([None], tf.int64),
                self.noise_spec,
                tf.TensorSpec([], tf.float32),
            ],
        )

    def __call__(self, rows: npt.NDArray[np.int64], *, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers, with fresh noise."""
        self._step(tf.constant(rows), self.draw_noise(1)[0], tf.constant(learning_rate, tf.float32))

    def trace(self, rows: tf.Tensor, drawn: tf.Tensor, learning_rate: tf.Tensor) -> None:
        """Does what a step does, for whoever compiles it. Shapes: (b,), what `draw_noise` gives for it, a number."""
        watched = self._steps.watched_row
        influence = None if watched is None else self._measure_influence(rows, watched)
        cells = self._generator.cells(*self._latents.draw(self._plan.generated_batch_size))
        sums, generated_sums = self.clipped_sums(rows, cells)
        noisy = self._finish(sums, generated_sums, drawn, learning_rate)
        if watched is not None:
            tf.numpy_function(partial(self._steps.tell, self._sizes), [_flatten(noisy), _flatten(sums), influence], [])

    @property
    def noise_spec(self) -> tf.TensorSpec:
        """What a step's noise is made of: words where the step is compiled, else the numbers themselves."""
        if self._by_words:
            return tf.TensorSpec([2, sum(self._pairs)], tf.uint32)
        return tf.TensorSpec([sum(self._sizes)], tf.float32)

    @property
    def most_at_once(self) -> int:
        """How many steps may have their noise drawn before the first of them is taken: one, on several devices."""
        # Steps that are worth dividing are long: there is nothing to save, and their parts stay out of loops.
        if not self._replicas.single:
            return 1
        size = self.noise_spec.dtype.size * math.prod(self.noise_spec.shape)
        return max(1, min(_MOST_AT_ONCE, int(_NOISE_BYTES // size)))

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change, made of noisy sums: no row is in it."""
        return self._update.variables

    def draw_noise(self, count: int) -> tf.Tensor:
        """Draws what the noise of some steps is made of. Shapes: (count, ...), as `noise_spec` says."""
        if self._by_words:
            # As it lies in memory: nothing else writes there.
            words = self._steps.draw_words(sum(self._pairs), steps=count)
            return tf.experimental.dlpack.from_dlpack(words.__dlpack__())
        draw = partial(self._steps.draw_normal_numbers, sum(self._sizes), step_noise=self._plan.settings.step_noise)
        return tf.constant(np.stack([draw() for _ in range(count)]))

    def make_noise(self, drawn: tf.Tensor) -> Sums:
        """Makes a step's noise of what was drawn for it.

        Shapes: (2, pairs) words or (number of critic weights,) of noise, to those of the critic's weights.
        """
        shapes = [weight.shape for weight in self._critic.weights]
        if not self._by_words:
            return [tf.reshape(piece, shape) for piece, shape in zip(tf.split(drawn, self._sizes), shapes, strict=True)]
        words = tf.split(drawn, self._pairs, axis=1)[:-1]
        return [
            make_normal_numbers(piece, shape=shape, stddev=self._steps.stddev)
            for piece, shape in zip(words, shapes, strict=True)
        ]

    def clipped_sums(self, rows: tf.Tensor, generated: Cells | None = None) -> tuple[Sums, Sums]:
        """Clips and sums the gradients of real rows and of generated ones, in one pass.

        Shapes: `rows` (b,); the results are like the critic's weights.
        """
        if generated is None:
            generated = self._reader(rows[:0])
        compute = partial(self._critic.clipped_sums, l2_clip_norm=self._plan.clip_target)
        return self._replicas.add_up(compute, self._read(rows), generated)

    def _read(self, rows: tf.Tensor) -> Cells:
        """Reads records, and the noise that each of them has in this step where the critic's layers have some."""
        cells = self._reader(rows)
        noise = self._critic.layer_noise
        return cells if noise is None else (*cells, noise.of_records(rows))

    def _measure_influence(self, rows: tf.Tensor, watched: tf.Tensor) -> tf.Tensor:
        """Gives what a record adds to the sum of a batch, before all others. Shapes: (b,) to (number of weights,)."""
        others = tf.boolean_mask(rows, rows != watched)
        there, without = (self.clipped_sums(batch)[0] for batch in (tf.concat([[watched], others], axis=0), others))
        return _flatten(there) - _flatten(without)

    def _add_and_move(self, sums: Sums, generated_sums: Sums, drawn: tf.Tensor, learning_rate: tf.Tensor) -> Sums:
        """Does all that follows the sums, noise, its addition and the update: compiled, one pass over the weights.

        Gives the noisy sums where a step is watched, else nothing, for which they would have to be written down.
        """
        noisy_sums = [total + noise for total, noise in zip(sums, self.make_noise(drawn), strict=True)]
        generated = self._plan.generated_batch_size
        self._update.apply(noisy_sums, generated_sums, generated=generated, learning_rate=learning_rate)
        return [] if self._steps.watched_row is None else noisy_sums


def _flatten(sums: Sums) -> tf.Tensor:
    return tf.concat([tf.reshape(part, [-1]) for part in sums], axis=0)
