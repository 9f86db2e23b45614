"""Prints, as JSON, what a critic step gives on one device and on two: halves of this machine's GPU, or its processor.

TensorFlow divides a device before it starts only, so this is a process of its own: `python -m`.
"""

import json
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from dpwgan.critic import private_step
from dpwgan.critic.device import compile_step
from dpwgan.critic.private_step import FusedStep, Replicas
from tests.critic.test_private_step import make_step

import tensorflow as tf  # isort: skip

RECORDS = 200
BATCHES = {"many": np.arange(0, RECORDS, 2), "one": np.array([7]), "none": np.zeros(0, np.int64)}
STDDEV = 0.5
SETTINGS: dict[str, Any] = {"l2_clip_norm": 0.5, "noise_multiplier": 1.0, "step_noise": "plain"}


class NoisyParts(Replicas):
    """A broken twin: every device adds noise of its own."""

    def add_up(self, compute: Any, rows: Any, generated: Any) -> Any:
        """Adds up noisy parts."""

        def compute_noisy(*cells: Any) -> Any:
            real, fake = compute(*cells)
            return [total + tf.random.normal(total.shape, stddev=STDDEV) for total in real], fake

        return super().add_up(compute_noisy, rows, generated)


def make(devices: list[str], kind: type[Replicas] = Replicas) -> FusedStep:
    """Makes the step on these devices."""
    chosen = patch.object(private_step, "choose_devices", lambda critic, plan: devices)
    with chosen, patch.object(private_step, "Replicas", kind):
        step = make_step(records=RECORDS, **SETTINGS)
    assert isinstance(step, FusedStep)
    return step


class Sums:
    """What a step sums up of rows and of generated ones, traced once."""

    def __init__(self, step: FusedStep) -> None:
        self._step, self._cells = step, step._read(tf.range(50))
        cells = tuple(tf.TensorSpec.from_tensor(part) for part in self._cells)
        signature = [tf.TensorSpec([None], tf.int64), cells]
        self._sum = compile_step(step.clipped_sums, input_signature=signature)

    def find_devices(self) -> list[str]:
        """The devices on which sums are computed: those of matrix products; "" is the one that is there anyway."""
        operations = self._sum.get_concrete_function().graph.get_operations()
        return sorted({operation.device[-5:] for operation in operations if operation.type == "MatMul"})

    def add_up(self, rows: npt.NDArray[np.int64]) -> list[float]:
        """Gives the noisy sums of rows and the sums of generated ones, one after the other."""
        noise = np.random.default_rng(5).normal(0.0, STDDEV, self._step._plan.critic_weights).astype(np.float32)
        sums, fake = self._sum(tf.constant(rows), self._cells)
        noisy = [total + part for total, part in zip(sums, self._step.make_noise(tf.constant(noise)), strict=True)]
        return [float(value) for total in (*noisy, *fake) for value in total.numpy().ravel()]


def main() -> None:
    """Compares one device with two."""
    kind, limit = ("GPU", 2048) if tf.config.list_physical_devices("GPU") else ("CPU", None)
    whole = tf.config.list_physical_devices(kind)[0]
    tf.config.set_logical_device_configuration(whole, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] * 2)
    both = [device.name for device in tf.config.list_logical_devices(kind)]
    steps = {"one": make(both[:1]), "two": make(both), "twin": make(both, NoisyParts)}
    found: dict[str, Any] = {"both": [name[-5:] for name in both]}
    traced = {name: Sums(step) for name, step in steps.items()}
    found["devices"] = {name: sums.find_devices() for name, sums in traced.items()}
    found["at once"] = {name: step.most_at_once for name, step in steps.items()}
    for batch, rows in BATCHES.items():
        found[batch] = {name: sums.add_up(rows) for name, sums in traced.items()}
    for name in ("one", "two"):
        for _ in range(3):
            steps[name](BATCHES["many"], learning_rate=0.01)
    found["weights"] = {
        name: [float(value) for weight in step._critic.weights for value in weight.numpy().ravel()]
        for name, step in steps.items()
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
