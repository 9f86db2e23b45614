"""The settings of the DP-WGAN. None of the defaults was chosen by looking at a private table."""

import math
from dataclasses import dataclass
from typing import Literal

from dpwgan.errors import UsageError

MOST_BATCH = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DpWganSettings:
    """How the DP-WGAN is built and trained; None stands for a choice that `plan` makes from the public shape.

    `expected_batch_size` is L = q n. `noise_multiplier`, if given, is fixed, and the steps are as many as the budget
    allows, up to `epochs` or `steps`. Learning rates fall by a constant factor a step, to a fiftieth over the run.
    `weight_pull`: share of the way back to its first value that each critic weight goes in a step; 0 for none.
    `gradient_memory`: weight of the past in the running mean of noisy gradients; 0 for none.
    `generator_average`: the same for the generator's weights that are sampled from; 0 for the last weights.
    `step_noise`: how a step's noise is made of the words of the noise stream, see `draw_normal_numbers`.
    Raises: UsageError for a value out of its range.
    """

    hidden_critic: tuple[int, ...] = (256, 256)
    hidden_generator: tuple[int, ...] = (256, 256)
    latent: int = 64
    expected_batch_size: int | None = None
    critic_steps_per_generator_step: int = 1
    generator_steps: int = 2
    generator_learning_rate: float = 5e-3
    critic_learning_rate: float = 2e-3
    weight_clip: float = 1.0
    weight_pull: float = 0.3
    gradient_memory: float = 0.98
    generator_average: float = 0.99
    l2_clip_norm: float = 0.01
    noise_multiplier: float | None = None
    epochs: float | None = None
    steps: int | None = None
    step_noise: Literal["fast", "plain"] = "fast"
    engine: Literal["fused", "reference"] = "fused"

    def __post_init__(self) -> None:
        for name in ("hidden_critic", "hidden_generator"):
            widths = getattr(self, name)
            if not widths or any(isinstance(w, bool) or not isinstance(w, int) or w < 1 for w in widths):
                raise UsageError(f"{name} must be one or more widths of at least 1")
        for name in ("latent", "critic_steps_per_generator_step", "generator_steps", "expected_batch_size", "steps"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1")
        for name in (
            "generator_learning_rate",
            "critic_learning_rate",
            "weight_clip",
            "l2_clip_norm",
            "noise_multiplier",
            "epochs",
        ):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a finite number above 0")
        # Outside these, squares of float32 numbers vanish or overflow, and with them the clip or the noise.
        for name, least, most in (
            ("l2_clip_norm", 1e-6, 1e6),
            ("weight_clip", 1e-6, 1e3),
            ("noise_multiplier", 1e-3, 1e9),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"{name} must lie between {least:g} and {most:g}")
        if self.expected_batch_size is not None and self.expected_batch_size > MOST_BATCH:
            raise UsageError(
                f"expected_batch_size must be at most {MOST_BATCH:,}: float32 sums of more rows are too rough"
            )
        for name in ("weight_pull", "gradient_memory", "generator_average"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1")
        if self.steps is not None and self.epochs is not None:
            raise UsageError("steps and epochs say the same thing: give one of them")
        if self.step_noise not in ("fast", "plain"):
            raise UsageError("step_noise must be fast or plain")
        if self.engine not in ("fused", "reference"):
            raise UsageError("engine must be fused or reference")
