"""A critic step on several devices of one process: the same sums as on one, and noise once."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpwgan.critic import private_step
from dpwgan.critic.device import prepare_device
from dpwgan.critic.private_step import choose_devices
from dpwgan.errors import ResourceError
from tests.programs import ROOT, call


def differ(one: list[float], other: list[float]) -> float:
    return float(np.max(np.abs(np.subtract(one, other))) / np.max(np.abs(one)))


@pytest.mark.slow
def test_steps_are_those_of_one_device_when_there_are_two() -> None:
    """All of it at once: to find it takes a process of its own. Twins add noise on either device, or take no steps."""
    done = call(sys.executable, "-m", "tests.critic.two_devices", cwd=ROOT, timeout=300, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["both"][1] not in found["devices"]["one"]
    assert set(found["both"]) <= set(found["devices"]["two"])
    assert found["at once"]["one"] > found["at once"]["two"] == 1
    for batch in ("many", "one", "none"):
        assert differ(found[batch]["one"], found[batch]["two"]) < 1e-5
        assert differ(found[batch]["one"], found[batch]["twin"]) > 0.1
    assert differ(found["weights"]["one"], found["weights"]["two"]) < 1e-3
    assert differ(found["weights"]["one"], found["weights"]["twin"]) > 1e-3


@pytest.mark.parametrize(
    ("device", "divides", "batch", "chosen"),
    [
        pytest.param("/device:GPU:0", True, 4096, ["/device:GPU:0", "/device:GPU:1"], id="long steps"),
        pytest.param("/device:GPU:0", True, 64, ["/device:GPU:0"], id="short steps"),
        pytest.param("/device:GPU:0", False, 4096, ["/device:GPU:0"], id="a critic that does not say that it divides"),
        pytest.param("/device:CPU:0", True, 4096, ["/device:CPU:0"], id="no GPU asked for"),
    ],
)
def test_all_gpus_are_chosen_when_a_step_is_worth_it(monkeypatch, device, divides, batch, chosen):
    gpus = [SimpleNamespace(name=f"/device:GPU:{number}") for number in range(2)]
    monkeypatch.setattr(private_step.tf.config, "list_logical_devices", lambda kind: gpus)
    critic = SimpleNamespace(weights=[SimpleNamespace(device=device)], **({"divides": True} if divides else {}))
    plan: Any = SimpleNamespace(expected_batch_size=batch, generated_batch_size=batch, critic_weights=900_000)
    assert choose_devices(critic, plan) == chosen


@pytest.mark.parametrize(
    ("device", "seconds", "gpus", "chosen"),
    [
        pytest.param("auto", 59.0, 1, "/CPU:0", id="a GPU takes longer to start than steps take"),
        pytest.param("auto", 61.0, 1, "/GPU:0", id="steps take longer"),
        pytest.param("auto", 61.0, 0, "/CPU:0", id="there is none"),
        pytest.param("gpu", 1.0, 1, "/GPU:0", id="a GPU was asked for"),
        pytest.param("cpu", 61.0, 1, "/CPU:0", id="the processor was asked for"),
    ],
)
def test_a_gpu_is_taken_when_steps_are_long_enough_or_it_is_asked_for(monkeypatch, device, seconds, gpus, chosen):
    monkeypatch.setattr(private_step.tf.config, "list_physical_devices", lambda kind: ["a GPU"] * gpus)
    assert prepare_device(device, threads=None, seconds=seconds) == chosen


def test_a_gpu_is_missed_when_it_is_asked_for_and_there_is_none(monkeypatch):
    monkeypatch.setattr(private_step.tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(ResourceError, match="a GPU was asked for and TensorFlow sees none"):
        prepare_device("gpu", threads=None, seconds=1.0)
