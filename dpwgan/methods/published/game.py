"""What methods share that play a generator against a critic on batches of rows: settings, cost, and both networks."""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpwgan.critic.plan import TENSORFLOW_SECONDS
from dpwgan.errors import UsageError
from dpwgan.gaussians.class_moments import count_labels
from dpwgan.images.grid import ImageGrid, find_image_grid
from dpwgan.methods.settings import GameSettings
from dpwgan.plan import Cost
from dpwgan.table.encoded import EncodedTable, TableShape

if TYPE_CHECKING:
    from dpwgan.methods.published.networks import ImageNetworks, Perceptrons
    from dpwgan.methods.published.noisy_features import NoisyFeatures

# Seconds on two cores that training may take by itself: the default number of steps follows from it.
_SECONDS = 200.0
_LEAST_STEPS = 200
_MOST_STEPS = 10_000
# What a pixel of an image costs in a pass of a generator step, measured on one core; critic steps cost about the same.
_SECONDS_A_PIXEL = 0.8e-6
# Multiplications a second in the perceptrons of tables, and what starting the operations of one span costs in a step.
# The first is what default numbers of steps were chosen with; the second was measured since, on RAND HIE with dp-critic
# --formal, and says how long they take.
_PRODUCT_RATE, _MEASURED_RATE = 1e10, 1e11
_SECONDS_A_SPAN = 3e-4


@dataclass(frozen=True, kw_only=True)
class Game:
    """Both networks of a run as public facts give them: their layers, the batch and the number of critic steps.

    `passes`: how many passes of a generator step a critic step costs.
    """

    shape: TableShape
    settings: GameSettings
    grid: ImageGrid | None
    batch_size: int
    steps: int
    passes: float

    @property
    def hidden_critic(self) -> tuple[int, ...]:
        """Widths of the critic of a table."""
        return self.settings.hidden_critic or _HIDDEN

    @property
    def hidden_generator(self) -> tuple[int, ...]:
        """Widths of the generator of a table."""
        return self.settings.hidden_generator or _HIDDEN

    @property
    def cost(self) -> Cost:
        """Rows, weights and their copies, one batch; the time of training."""
        if self.grid is not None:
            working = 64 * 2**20 + 4 * self.batch_size * 1_000 * math.prod(self.grid.shape)
            a_step = _estimate_step(self)
        else:
            hidden, weights = sum(self.hidden_critic) + sum(self.hidden_generator), _count_weights(self)
            working = 4 * (10 * weights + self.batch_size * (60 * self.shape.width + 12 * hidden))
            a_pass = 6 * self.batch_size * weights / _MEASURED_RATE + len(self.shape.spans) * _SECONDS_A_SPAN
            a_step = a_pass * _count_passes(self)
        return Cost(
            row_bytes=8 * self.shape.records * max(1, len(self.shape.spans)),
            working_bytes=working,
            seconds=TENSORFLOW_SECONDS + self.steps * a_step,
        )

    def summary(self) -> dict[str, Any]:
        """Gives the settings, those asked for and those chosen, as JSON-able pairs."""
        settings = {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self.settings).items()
        }
        if self.grid is not None:
            del settings["hidden_critic"], settings["hidden_generator"]
            settings["label"] = self.grid.label.column
        else:
            settings["hidden_critic"] = list(self.hidden_critic)
            settings["hidden_generator"] = list(self.hidden_generator)
        return {**settings, "expected_batch_size": self.batch_size, "steps": self.steps}


_HIDDEN = (256, 256)


def plan_game(
    shape: TableShape, settings: GameSettings, *, method: str, batch_size: int, passes: float, steps: int | None = None
) -> Game:
    """Chooses the steps, and finds the label.

    Privacy: sees public facts only.
    Raises: UsageError for a label that is no image's, layers that images do not have, or too few steps.
    """
    grid = find_image_grid(shape, method=method)
    if settings.label is not None and (grid is None or settings.label != grid.label.column):
        raise UsageError(
            f"{method} draws a table's columns together, and has a label for images only: leave label out"
            if grid is None
            else f"the label of these images is {grid.label.column}, and {method} can have no other"
        )
    if grid is not None and (settings.hidden_critic or settings.hidden_generator):
        raise UsageError(f"{method} has convolutions for images, and no hidden-critic and no hidden-generator")
    if not shape.spans:
        raise UsageError(f"{method} needs a column to train on")
    every = settings.critic_steps_per_generator_step
    game = Game(
        shape=shape, settings=settings, grid=grid, batch_size=min(batch_size, shape.records), steps=1, passes=passes
    )
    chosen = settings.steps or steps
    if chosen is None:
        chosen = max(_LEAST_STEPS, min(_MOST_STEPS, round(_SECONDS / _estimate_step(game))))
        chosen = max(1, chosen // every) * every
    if chosen < every:
        raise UsageError("there are fewer critic steps than one generator step takes: the generator would stand still")
    return Game(shape=shape, settings=settings, grid=grid, batch_size=game.batch_size, steps=chosen, passes=passes)


def build_networks(
    encoded: EncodedTable,
    game: Game,
    *,
    shares: npt.NDArray[np.float64] | None,
    critic_filters: tuple[int, ...],
    rng: np.random.Generator,
    noisy_features: "NoisyFeatures | None" = None,
    activation_stddev: float = 0.0,
) -> "ImageNetworks | Perceptrons":
    """Draws the first weights of both networks and puts the rows on the device. Shapes: `shares` (classes,)."""
    from dpwgan.methods.published.networks import ImageNetworks, Perceptrons

    if game.grid is not None and shares is not None:
        return ImageNetworks(
            encoded,
            game.grid,
            shares=shares,
            latent=game.settings.latent,
            critic_filters=critic_filters,
            rng=rng,
            noisy_features=noisy_features,
            activation_stddev=activation_stddev,
        )
    return Perceptrons(
        encoded,
        latent=game.settings.latent,
        hidden_generator=game.hidden_generator,
        hidden_critic=game.hidden_critic,
        rng=rng,
        noisy_features=noisy_features,
    )


def count_classes(encoded: EncodedTable, grid: ImageGrid) -> npt.NDArray[np.float64]:
    """Counts the rows of each class, exactly. What it gives is not released.

    Privacy: zeroing out a row takes 1 from one count, an L2 distance of 1; replacing it moves 1, a distance of sqrt(2).
    Shapes: (classes,).
    """
    return count_labels(encoded, grid.label).astype(np.float64)


def _estimate_step(game: Game) -> float:
    """Gives what a critic step and its part of a generator step count for where steps are chosen, in seconds."""
    if game.grid is not None:
        one_pass = game.batch_size * math.prod(game.grid.shape) * _SECONDS_A_PIXEL
    else:
        one_pass = 6 * game.batch_size * _count_weights(game) / _PRODUCT_RATE + len(game.shape.spans) * _SECONDS_A_SPAN
    return one_pass * _count_passes(game)


def _count_passes(game: Game) -> float:
    return game.passes + 1 / game.settings.critic_steps_per_generator_step


def _count_weights(game: Game) -> int:
    sizes = [game.settings.latent, *game.hidden_generator, game.shape.width, *game.hidden_critic, 1]
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
