"""The settings of the DP-WGAN. None of the defaults was chosen by looking at a private table."""

from dataclasses import dataclass
from typing import Literal

from dpwgan.settings import MethodSettings, setting

CRITIC = "training: critic and its generator"


@dataclass(frozen=True, kw_only=True)
class DpWganSettings(MethodSettings):
    """How the DP-WGAN is built and trained; None stands for a choice that `plan` makes from the public shape.

    `expected_batch_size` is L = q n. `noise_multiplier`, if given, is fixed, and the steps are as many as the budget
    allows, up to `epochs` or `steps`. Learning rates fall by a constant factor a step, to a fiftieth over the run.
    `step_noise`: see `draw_normal_numbers`.
    Raises: UsageError for a value out of its range.
    """

    heading = CRITIC

    hidden_critic: tuple[int, ...] = setting((256, 256), "widths of the critic's hidden layers", at_least=1)
    hidden_generator: tuple[int, ...] = setting((256, 256), "widths of the generator's hidden layers", at_least=1)
    latent: int = setting(64, "width of the generator's random input", at_least=1)
    # float32 sums of more rows than that are too rough.
    expected_batch_size: int | None = setting(
        None, "EXPECTED number of rows a critic step reads", flag="batch-size", at_least=1, at_most=1_000_000
    )
    critic_steps_per_generator_step: int = setting(
        1, "critic steps a generator step takes", flag="critic-steps", at_least=1
    )
    generator_steps: int = setting(2, "generator steps in a row, each time it is its turn", at_least=1)
    generator_learning_rate: float = setting(5e-3, "learning rate of the generator", above=0)
    critic_learning_rate: float = setting(2e-3, "learning rate of the critic", above=0)
    # Outside the bounds of these, squares of float32 numbers vanish or overflow, and with them the clip or the noise.
    weight_clip: float = setting(1.0, "bound on each weight of the critic", at_least=1e-6, at_most=1e3)
    weight_pull: float = setting(
        0.3,
        "share of the way back to its first value that each critic weight goes in a step; 0 for none",
        at_least=0,
        below=1,
    )
    gradient_memory: float = setting(
        0.98, "weight of the past in the running mean of noisy gradients; 0 for none", at_least=0, below=1
    )
    generator_average: float = setting(
        0.99, "weight of the past in the average of the generator that is sampled; 0 for none", at_least=0, below=1
    )
    l2_clip_norm: float = setting(
        0.01,
        "bound on one row's gradient, over all weights together",
        flag="clip-norm",
        at_least=1e-6,
        at_most=1e6,
    )
    noise_multiplier: float | None = setting(
        None,
        "noise as a multiple of the bound; the steps are then as many as the budget allows",
        at_least=1e-3,
        at_most=1e9,
    )
    epochs: float | None = setting(
        None, "passes over the table that the critic steps make up", above=0, excludes="steps"
    )
    steps: int | None = setting(None, "critic steps, instead of --epochs", at_least=1, excludes="epochs")
    step_noise: Literal["fast", "plain"] = setting(
        "fast",
        "how a critic step's noise is made of the same cryptographic stream: fast, whole blocks at once; plain, a "
        "number at a time (default: fast)",
    )
    engine: Literal["fused", "reference"] = setting(
        "fused",
        "fused: fast; reference: made of tensorflow-privacy's own parts, slow, for comparison (default: fused)",
    )
