"""Several devices of one process: each clips and sums a part of the batch, by tf.distribute; the sums are added up."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from dpwgan.critic.critic import Cells, Sums
from dpwgan.critic.plan import TrainingDesign

# To divide a step in two costs up to two milliseconds of a processor (docs/scale.md). In those a GPU does some 2e10
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
        self._first, self._strategy = devices[0], None
        if len(devices) > 1:
            # The total is needed in one place only.
            how = tf.distribute.ReductionToOneDevice(reduce_to_device=devices[0])
            self._strategy = tf.distribute.MirroredStrategy(list(devices), cross_device_ops=how)

    @property
    def single(self) -> bool:
        """Whether there is one device alone."""
        return self._strategy is None

    def add_up(self, compute: Compute, rows: Cells, generated: Cells) -> tuple[Sums, Sums]:
        """Gives what `compute` gives for the whole batch, from what it gives for equal parts of both halves.

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
