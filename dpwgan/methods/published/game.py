"""Shared parts of the published GANs: designs, cost, networks, and the loop that trains a generator against a critic.

`PlainDesign` and `fit_plainly` are for those without a guarantee: they count what they read.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpwgan.array_types import Integers
from dpwgan.critic.plan import TENSORFLOW_SECONDS, count_weights
from dpwgan.critic.sampler import MlpSampler
from dpwgan.errors import UsageError
from dpwgan.gaussians.class_moments import count_labels
from dpwgan.images.grid import ImageGrid, find_image_grid
from dpwgan.methods.published.samplers import ConvSampler
from dpwgan.methods.settings import GameSettings
from dpwgan.plan import Cost, Run
from dpwgan.privacy.events import Unprotected
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import TableShape

CLASSES_LABEL = "unprotected class sizes"
STEPS_LABEL = "unprotected critic steps"

_HIDDEN = (256, 256)
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
_PROGRESS_CALLS = 100


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
            working = 64 * 2**20 + 4 * self.batch_size * 1_000 * self.grid.pixels
        else:
            hidden, weights = sum(self.hidden_critic) + sum(self.hidden_generator), self._count_weights()
            working = 4 * (10 * weights + self.batch_size * (60 * self.shape.width + 12 * hidden))
        return Cost(
            row_bytes=8 * self.shape.records * max(1, len(self.shape.spans)),
            working_bytes=working,
            seconds=TENSORFLOW_SECONDS + self.steps * self.estimate_step(product_rate=_MEASURED_RATE),
        )

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""
        settings = asdict(self.settings)
        if self.grid is not None:
            del settings["hidden_critic"], settings["hidden_generator"]
            settings["label"] = self.grid.label.column
        else:
            settings["hidden_critic"] = list(self.hidden_critic)
            settings["hidden_generator"] = list(self.hidden_generator)
        return {**settings, "expected_batch_size": self.batch_size, "steps": self.steps}

    def estimate_step(self, *, product_rate: float) -> float:
        """Estimates what a critic step and its part of a generator step take, in seconds."""
        if self.grid is not None:
            a_pass = self.batch_size * self.grid.pixels * _SECONDS_A_PIXEL
        else:
            products = 6 * self.batch_size * self._count_weights()
            a_pass = products / product_rate + len(self.shape.spans) * _SECONDS_A_SPAN
        return a_pass * (self.passes + 1 / self.settings.critic_steps_per_generator_step)

    def _count_weights(self) -> int:
        sizes = [self.settings.latent, *self.hidden_generator, self.shape.width, *self.hidden_critic, 1]
        return count_weights(sizes)


def plan_game(
    shape: TableShape, settings: GameSettings, *, method: str, batch_size: int, passes: float, steps: int | None = None
) -> Game:
    """Chooses the steps, and finds the label. `batch_size`, `steps`: where none are asked for.

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
    every = settings.critic_steps_per_generator_step
    batch_size = min(settings.expected_batch_size or batch_size, shape.records)
    game = Game(shape=shape, settings=settings, grid=grid, batch_size=batch_size, steps=1, passes=passes)
    chosen = settings.steps or steps
    if chosen is None:
        fitting = round(_SECONDS / game.estimate_step(product_rate=_PRODUCT_RATE))
        chosen = max(1, max(_LEAST_STEPS, min(_MOST_STEPS, fitting)) // every) * every
    if chosen < every:
        raise UsageError("there are fewer critic steps than one generator step takes: the generator would stand still")
    return replace(game, steps=chosen)


@dataclass(frozen=True, kw_only=True)
class PlainDesign:
    """A run that reads rows as they are: how often, and its description."""

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
        """The settings as JSON-able pairs."""
        return {**self.game.summary(), "noise_multiplier": self.noise_multiplier}


Steps = tuple[Callable[[Integers], None], Callable[[], None]]
"""A critic's step on row numbers, and a generator's."""


def fit_plainly(
    plan: PlainDesign,
    run: Run,
    *,
    make_steps: Callable[[Any], Steps],
    feature_clip_norm: float | None = None,
    activation_stddev: float = 0.0,
) -> ConvSampler | MlpSampler:
    """Counts the classes of images, trains, and takes the generator out.

    `make_steps` makes the steps that networks take. With a `feature_clip_norm` the critic's features are bounded by it
    and get the plan's noise; with `activation_stddev` its activations get some, where it has convolutions.
    Privacy: none, but every read is charged before it happens.
    Raises: PrivacyError, ResourceError, UsageError.
    """
    from dpwgan.critic.device import on_device
    from dpwgan.methods.published.convolutions import NoisyFeatures, make_device_rng
    from dpwgan.methods.published.networks import ImageNetworks, Perceptrons

    game, encoded, ledger = plan.game, run.rows.own, run.ledger
    settings: dict[str, Any] = {"latent": game.settings.latent, "rng": run.model}
    if game.grid is not None:
        ledger.charge(CLASSES_LABEL)
        settings["shares"] = count_labels(encoded, game.grid.label) / encoded.records
        settings["activation_stddev"] = activation_stddev
    with on_device(run.device, threads=run.threads, seconds=plan.cost.seconds):
        if feature_clip_norm is not None:
            settings["noisy_features"] = NoisyFeatures(
                l2_clip_norm=feature_clip_norm,
                noise_multiplier=plan.noise_multiplier,
                device_rng=make_device_rng(ledger.lend_streams(STEPS_LABEL).noise),
            )
        networks: ImageNetworks | Perceptrons
        if game.grid is not None:
            networks = ImageNetworks(encoded, game.grid, **settings)
        else:
            settings |= {"hidden_generator": game.hidden_generator, "hidden_critic": game.hidden_critic}
            networks = Perceptrons(encoded, **settings)
        critic_step, generator_step = make_steps(networks)
        train_plainly(
            run,
            label=STEPS_LABEL,
            batch_size=game.batch_size,
            steps=game.steps,
            every=game.settings.critic_steps_per_generator_step,
            critic_step=critic_step,
            generator_step=generator_step,
        )
    return networks.make_sampler()


def train_plainly(
    run: Run,
    *,
    label: str,
    batch_size: int,
    steps: int,
    critic_step: Callable[[Integers], None],
    generator_step: Callable[[], None] = lambda: None,
    every: int = 1,
) -> None:
    """Runs critic steps, each on rows drawn without replacement, and a generator step after every `every` of them.

    Privacy: none. Each critic step is charged, as `label`, before its batch is drawn, so that the claim says how often
      rows were read.
    Raises: PrivacyError from the ledger.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1.
    """
    batches, a_call = run.ledger.lend_streams(label).batches, max(1, steps // _PROGRESS_CALLS)
    for done in range(1, steps + 1):
        run.ledger.charge(label)
        critic_step(batches.choice(run.rows.records, size=batch_size, replace=False, shuffle=False))
        if done % every == 0:
            generator_step()
        if done % a_call == 0 or done == steps:
            run.progress(done, steps, run.ledger.epsilon_spent())
