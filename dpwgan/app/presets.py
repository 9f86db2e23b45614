"""Presets: the settings of published entries."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


def uclanesl_2019(epsilon: float) -> dict[str, Any]:
    """The hyper-parameters of the UCLANESL entry to the 2018 NIST challenge, Match 3.

    Privacy: they depend on epsilon alone. The step count is still cut to what sound accounting allows at this noise.
    What this tool adds to the published method is switched off: anchor, pull, memory and average.
    Source: Srivastava and Alzantot 2019, and the entry's own program, github.com/nesl/
      nist_differential_privacy_synthetic_data_challenge, tf_gan.py and run_uclanesl.sh (noise 1 above epsilon 5, else
      3; gradients of the mean loss clipped to 1/64, which is 1 for the sum).
    """
    return {
        "anchor": "none",
        "hidden_critic": (1024,),
        "hidden_generator": (1024,),
        "latent": 64,
        "expected_batch_size": 64,
        "critic_steps_per_generator_step": 10,
        "generator_learning_rate": 1e-3,
        "critic_learning_rate": 1e-3,
        "generator_steps": 1,
        "weight_clip": 0.01,
        "weight_pull": 0.0,
        "gradient_memory": 0.0,
        "generator_average": 0.0,
        "l2_clip_norm": 1.0,
        "noise_multiplier": 1.0 if epsilon > 5.0 else 3.0,
        "epochs": 10.0,
    }


class Preset(NamedTuple):
    """Settings of a published entry for an epsilon, the method that they are for, and how many rows it wrote."""

    method: str
    choose: Callable[[float], dict[str, Any]]
    rows: int


PRESETS: Mapping[str, Preset] = {"uclanesl-2019": Preset("dp-wgan", uclanesl_2019, rows=1_000_000)}
