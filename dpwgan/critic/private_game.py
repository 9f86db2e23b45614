"""A whole private game: a critic that reads rows by private steps, a generator that follows it, and what is left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.critic.finite import refuse_unless_finite
from dpwgan.critic.generator_round import GeneratorRound
from dpwgan.critic.generator_step import GeneratorStep
from dpwgan.critic.loop import CriticStep, Progress, train
from dpwgan.critic.plain_ascent import PlainAscent
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.private_step import FusedStep
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable


def play(
    encoded: EncodedTable,
    plan: TrainingDesign,
    *,
    critic: Any,
    generator: Any,
    latents: Any,
    steps: Steps,
    ledger: Ledger,
    progress: Progress,
    make_critic_step: Callable[..., CriticStep] | None = None,
    update: PlainAscent | None = None,
) -> tuple[npt.NDArray[np.float32], ...]:
    """Trains both for the planned steps and gives the average of the generator's weights.

    `encoded` may be one worker's share of the rows, where `make_critic_step` makes a step that adds up everybody's.
    `make_critic_step` is `FusedStep` where not given.
    With an `update` the critic's noisy sums go there, and it answers each step of the generator too, without rows.

    Privacy: steps are charged before their batches are drawn; the weights are post-processing.
    Raises: PrivacyError; UsageError if training ran off.
    """
    parts: dict[str, Any] = {"critic": critic, "generator": generator, "latents": latents, "plan": plan}
    generator_step = GeneratorStep(**parts) if update is None else GeneratorRound(**parts, update=update)
    make_step = make_critic_step or FusedStep
    own: dict[str, Any] = {} if update is None else {"update": update}
    train(
        plan,
        steps=steps,
        critic_step=make_step(encoded, **parts, **own, steps=steps),
        generator_step=generator_step,
        ledger=ledger,
        progress=progress,
        records=encoded.records,
    )
    weights = tuple(weight.numpy() for weight in generator_step.averaged_weights())
    refuse_unless_finite(weights)
    return weights
