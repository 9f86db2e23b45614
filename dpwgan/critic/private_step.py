"""The private critic step in one compiled function: clip, sum, noise, update; on one device or on several."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Integers
from dpwgan.critic.critic import Cells, Critic, Sums
from dpwgan.critic.device import compile_step
from dpwgan.critic.generators import LatentSource
from dpwgan.critic.noise import count_pairs, make_normal_numbers
from dpwgan.critic.optimizers import CriticUpdate, PlainAscent
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.rows import RowReader
from dpwgan.critic.weights import Kept
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.units.units import Units

# To divide a step in two costs up to two milliseconds of a processor. In those a GPU does some 2e10
# operations in float32, so that is the least that half of a step has to be.
_PAYS_FROM = 4e10
# Operations for each weight and row: once forwards, once back, and once for the sum, a product and an addition each.
_OPERATIONS = 6

Compute = Callable[[Cells, Cells], tuple[Sums, Sums]]


class Replicas:
    """The devices of a MirroredStrategy, or one device without any.

    Weights stay on the first device, from where the others fetch them at each step, since all but the sums is done
    there: the noise is added to the total, once.
    Privacy: every row of a batch is in one part, so that it moves one part's sum by its clipped gradient, and with it
      the total. No noise is added here.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        """Takes the names of devices, the first of which holds the weights."""
        self.single = len(devices) == 1
        self._first, self._strategy = devices[0], None
        if not self.single:
            # The total is needed in one place only.
            how = tf.distribute.ReductionToOneDevice(reduce_to_device=devices[0])
            self._strategy = tf.distribute.MirroredStrategy(list(devices), cross_device_ops=how)

    def add_up(self, compute: Compute, rows: Cells, generated: Cells) -> tuple[Sums, Sums]:
        """What `compute` gives for the whole batch, from what it gives for equal parts of both halves.

        Shapes: `rows` and `generated` are codes and numbers, each (b, columns), b may be 0 and parts may be empty.
        """
        strategy = self._strategy
        if strategy is None:
            return compute(rows, generated)

        def compute_part() -> tuple[Sums, Sums]:
            context = tf.distribute.get_replica_context()
            number, count = context.replica_id_in_sync_group, context.num_replicas_in_sync

            def cut(values: tf.Tensor) -> tf.Tensor:
                size = tf.shape(values)[0]
                return values[size * number // count : size * (number + 1) // count]

            return compute((cut(rows[0]), cut(rows[1])), (cut(generated[0]), cut(generated[1])))

        def add(parts: tf.Tensor) -> tf.Tensor:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None)

        real, fake = strategy.run(compute_part)
        with tf.device(self._first):
            return [add(parts) for parts in real], [add(parts) for parts in fake]


def choose_devices(critic: Any, plan: TrainingDesign) -> list[str]:
    """Chooses the devices of a step: all GPUs, where the critic is on one of them and its steps are long enough."""
    device = critic.weights[0].device
    rows = plan.expected_batch_size + plan.generated_batch_size
    # One that does not say that its batches can be divided is left whole.
    divides = getattr(critic, "divides", False)
    if "GPU" not in device or not divides or _OPERATIONS * plan.critic_weights * rows < _PAYS_FROM:
        return [device]
    return [gpu.name for gpu in tf.config.list_logical_devices("GPU")]


# Noise for several steps waits in memory until they are taken: no more of it than a core's caches hold, or nearly.
_NOISE_BYTES = 8 * 2**20
# The more steps a call takes the less it costs, but from some ten on there is little left to save.
_MOST_AT_ONCE = 20
# 64 bytes of words.
_ALIGNED_PAIRS = 8


class PrivateStep(Kept):
    """The parts of a critic's private step, and what becomes of its noisy sums."""

    def __init__(
        self,
        *,
        critic: Critic,
        generator: Any,
        latents: LatentSource,
        plan: TrainingDesign,
        steps: Steps,
        update: CriticUpdate | PlainAscent | None = None,
    ) -> None:
        """Takes a generator of `cells` by index.

        The `update` is that of `CriticUpdate` where it is not given.
        """
        self._critic, self._generator, self._latents = critic, generator, latents
        self._plan, self._steps = plan, steps
        self._update = update or CriticUpdate(critic, plan)
        self.variables = self._update.variables
        """Everything that steps change, made of noisy sums: no row is in it."""


class FusedStep(PrivateStep):
    """Algorithm 2 of the DP-WGAN paper, lines 3 to 14, exact where the paper is loose.

    Privacy: the batch is the one the caller drew by Poisson sampling; per-record gradients over all critic weights are
      clipped jointly to C; the noise is the charged one of the run's `steps`, whatever the batch holds: an empty one is
      a step of pure noise. Everything after the sum is post-processing. Charged by the caller before the call.
    Source: Srivastava and Alzantot 2019, Algorithm 2; Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """

    def __init__(
        self, encoded: EncodedTable, *, plan: TrainingDesign, units: Units | None = None, **parts: Any
    ) -> None:
        """Puts the encoded rows on the device, unless they are on disk, and traces nothing yet.

        With `units` batches are of these, and all rows of each take part: their gradients are made shorter together,
        until no unit adds more than C.
        """
        self._reader, self._units, self._share = RowReader(encoded), None, 1.0
        # By rows, of units too: what float32 sums may be off grows with all that is added up.
        self._clip_target = plan.clip_target
        if units is not None:
            self._units = tf.RaggedTensor.from_row_splits(*map(tf.constant, units.list_rows()))
            self._share = units.count / plan.shape.records
            plan = count_units(plan, units)
        super().__init__(plan=plan, **parts)
        weights, devices = self._critic.weights, choose_devices(self._critic, plan)
        # Cut in two, a batch would have rows of a unit in both.
        self._replicas = Replicas(devices if units is None else devices[:1])
        self._sizes = count_entries(weights)
        pairs = [count_pairs(weight.shape) for weight in weights]
        # The last ones are of no use, but so each step's words begin where TensorFlow can take them without a copy.
        self._pairs = [*pairs, -sum(pairs) % _ALIGNED_PAIRS]
        compiled = self._update.compiled
        self._by_words = compiled and plan.settings.step_noise == "fast"
        self._finish = compile_step(self._add_and_move, jit_compile=True) if compiled else self._add_and_move
        signature = [tf.TensorSpec([None], tf.int64), self.noise_spec, tf.TensorSpec([], tf.float32)]
        self._step = compile_step(self.trace, input_signature=signature)

    def __call__(self, rows: Integers, *, learning_rate: float) -> None:
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
            tf.numpy_function(partial(self._steps.tell, self._sizes), [flatten(noisy), flatten(sums), influence], [])

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
        if not self._by_words:
            return split_like(drawn, self._critic.weights)
        words = tf.split(drawn, self._pairs, axis=1)[:-1]
        return [
            make_normal_numbers(piece, shape=weight.shape, stddev=self._steps.stddev)
            for piece, weight in zip(words, self._critic.weights, strict=True)
        ]

    def clipped_sums(self, rows: tf.Tensor, generated: Cells | None = None) -> tuple[Sums, Sums]:
        """Clips and sums the gradients of real rows, or units, and of generated ones, in one pass.

        Shapes: `rows` (b,); the results are like the critic's weights.
        """
        clip: Callable[..., tuple[Sums, Sums]] = self._critic.clipped_sums
        if self._units is not None:
            drawn = tf.gather(self._units, rows)
            rows = drawn.values
            clip = partial(self._critic.clipped_sums_of_units, units=drawn.value_rowids(), share=self._share)
        if generated is None:
            generated = self._reader(rows[:0])
        compute = partial(clip, l2_clip_norm=self._clip_target)
        return self._replicas.add_up(compute, self._read(rows), generated)

    def _read(self, rows: tf.Tensor) -> Cells:
        """Reads records, and the noise that each of them has in this step where the critic's layers have some."""
        cells = self._reader(rows)
        noise = self._critic.layer_noise
        return cells if noise is None else (*cells, noise.of_records(rows))

    def _measure_influence(self, rows: tf.Tensor, watched: tf.Tensor) -> tf.Tensor:
        """What a record adds to the sum of a batch, before all others. Shapes: (b,) to (number of weights,)."""
        others = tf.boolean_mask(rows, rows != watched)
        there, without = (self.clipped_sums(batch)[0] for batch in (tf.concat([[watched], others], axis=0), others))
        return flatten(there) - flatten(without)

    def _add_and_move(self, sums: Sums, generated_sums: Sums, drawn: tf.Tensor, learning_rate: tf.Tensor) -> Sums:
        """Does all that follows the sums, noise, its addition and the update: compiled, one pass over the weights.

        Gives the noisy sums where a step is watched, else nothing, for which they would have to be written down.
        """
        noisy_sums = [total + noise for total, noise in zip(sums, self.make_noise(drawn), strict=True)]
        self._update.apply(noisy_sums, generated_sums, learning_rate=learning_rate)
        return [] if self._steps.watched_row is None else noisy_sums


def count_units(plan: TrainingDesign, units: Units) -> TrainingDesign:
    """The plan by which sums over units are divided: by how many are expected of them.

    Of each row only their number over that of rows is added up, so that rows count alike.
    """
    return replace(plan, shape=replace(plan.shape, records=units.count))


def count_entries(weights: Sequence[tf.Variable]) -> list[int]:
    """Counts the entries of each weight."""
    return [int(np.prod(weight.shape)) for weight in weights]


def flatten(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """All entries in one vector."""
    return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)


def split_like(flat: tf.Tensor, weights: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """One vector in the shapes of weights: undoes `flatten`."""
    pieces = zip(tf.split(flat, count_entries(weights)), weights, strict=True)
    return [tf.reshape(piece, weight.shape) for piece, weight in pieces]
