"""What methods without a guarantee share: a plan of unprotected acts, and the run that goes with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpwgan.critic.finite import refuse_unless_finite
from dpwgan.critic.sampler import MlpSampler
from dpwgan.methods.base import Run
from dpwgan.methods.published.game import Game, count_classes
from dpwgan.methods.published.image_samplers import ConvSampler
from dpwgan.plan import Cost
from dpwgan.privacy.events import Unprotected
from dpwgan.privacy.release import Release

if TYPE_CHECKING:
    from dpwgan.methods.published.networks import ImageNetworks, Perceptrons

CLASSES_LABEL = "unprotected class sizes"
STEPS_LABEL = "unprotected critic steps"


@dataclass(frozen=True, kw_only=True)
class PlainDesign:
    """A run that reads rows as they are: how often, and what is said of it."""

    game: Game
    event: Unprotected
    mechanism: str
    noise_multiplier: float

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        steps = Release(
            label=STEPS_LABEL,
            event=self.event,
            times=self.game.steps,
            mechanism=self.mechanism,
            sensitivity=1.0,
            details={"batch_size": self.game.batch_size},
        )
        if self.game.grid is None:
            return [steps]
        mechanism = "exact sizes of the classes of the label"
        return [steps, replace(steps, label=CLASSES_LABEL, times=1, mechanism=mechanism, details={})]

    @property
    def cost(self) -> Cost:
        """That of the game."""
        return self.game.cost

    def summary(self) -> dict[str, Any]:
        """Gives the settings as JSON-able pairs."""
        return {**self.game.summary(), "noise_multiplier": self.noise_multiplier}


Steps = tuple[Callable[[npt.NDArray[np.int64]], None], Callable[[], None]]
"""A critic's step on row numbers, and a generator's."""


def fit_plainly(
    plan: PlainDesign,
    run: Run,
    *,
    build: "Callable[[npt.NDArray[np.float64] | None], ImageNetworks | Perceptrons]",
    make_steps: "Callable[[ImageNetworks | Perceptrons], Steps]",
) -> ConvSampler | MlpSampler:
    """Counts the classes of images, trains, and takes the generator out.

    `build` makes the networks, from the shares of the classes; `make_steps` the steps that they take.
    Privacy: none, but every read is charged before it happens.
    Raises: PrivacyError, ResourceError, UsageError.
    """
    # TensorFlow takes seconds to import; a plan must not pay for it.
    from dpwgan.critic.device import on_device
    from dpwgan.methods.published.plain_loop import train_plainly

    game, encoded, ledger = plan.game, run.rows.own, run.ledger
    shares = None
    if game.grid is not None:
        ledger.charge(CLASSES_LABEL)
        shares = count_classes(encoded, game.grid) / encoded.records
    with on_device(run.device, threads=run.threads):
        networks = build(shares)
        critic_step, generator_step = make_steps(networks)
        train_plainly(
            label=STEPS_LABEL,
            records=game.shape.records,
            batch_size=game.batch_size,
            steps=game.steps,
            critic_steps_per_generator_step=game.settings.critic_steps_per_generator_step,
            critic_step=critic_step,
            generator_step=generator_step,
            ledger=ledger,
            progress=run.progress,
        )
    return take_sampler(networks)


def take_sampler(networks: "ImageNetworks | Perceptrons") -> ConvSampler | MlpSampler:
    """Takes the generator out of a game. Raises: UsageError if its weights are not finite."""
    sampler = networks.make_sampler()
    refuse_unless_finite(sampler.weights)
    return sampler
