"""A critic with noisy features. Triastcyn, Faltings 2019: Generating Artificial Data for Private Deep Learning."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.accounting.budget import Budget, NeighboringRelation
from dpwgan.accounting.choose import AccountantChoice, choose_accountant_for_family, choose_nothing
from dpwgan.accounting.events import Charge, Event, Gaussian, Unprotected, gaussian, poisson_gaussian
from dpwgan.accounting.journal import Arrays
from dpwgan.accounting.ledger import Ledger
from dpwgan.cells.simplex import project_on_simplex
from dpwgan.encoded import EncodedTable, TableShape
from dpwgan.errors import UsageError
from dpwgan.generators.conv_sampler import ConvSampler
from dpwgan.generators.sampler import MlpSampler
from dpwgan.mechanisms.gaussian import add_gaussian_noise
from dpwgan.methods.base import Progress
from dpwgan.methods.game import Game, GameSettings, build_players, count_classes, plan_game
from dpwgan.methods.plain_game import PlainPlan, fit_plainly, take_sampler
from dpwgan.randomness import Streams
from dpwgan.training.plan import TrainingPlan, make_plan, plan_training
from dpwgan.training.settings import DpWganSettings

COUNTS_LABEL = "class sizes"

REASON = (
    "noise on the critic's features protects no row, since rows train the critic as they are and step after step, as "
    "its paper says itself; estimate the expected loss of the output with python -m dpwgan.audit ex-post"
)

# As published (section 5.2): C and sigma of the noisy layer, and the batch.
_FEATURE_CLIP_NORM = 1.0
_FEATURE_NOISE = 1.5
_BATCH = 64
_CRITIC_STEPS = 5
# The paper has 1e-4, for runs of many thousand generator steps; here there are hundreds.
_LEARNING_RATE = 1e-3
# A penalty takes gradients of gradients: the work of a generator step, and half as much again.
_PASSES = 1.5
_CRITIC_FILTERS = (32, 64)

# With a private critic. Every weight gets noise, so there are fewer of them; every record's gradient is written out,
# so that a step reads at most as many as minutes allow. Accounting then asks for noise not far from the least useful.
_FORMAL_FILTERS = (16, 32)
_FORMAL_HIDDEN = (64, 64)
_FORMAL_BATCH = 512
_FORMAL_STEPS = 300
_FORMAL_GENERATOR_BATCH = 128
_FORMAL_LEARNING_RATE = 1e-3
_FORMAL_PASSES = 3.0
# The sizes of the classes need little: a share of rho.
_CLASSES_SHARE = 0.05
_LEAST_NOISE = 1.0


@dataclass(frozen=True, kw_only=True)
class DpCriticSettings(GameSettings):
    """Settings of the method. `formal`: whether the critic is trained privately; `l2_clip_norm` belongs to that.

    Raises: UsageError for a value out of its range.
    """

    formal: bool = False
    l2_clip_norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.formal, bool):
            raise UsageError("formal must be true or false")
        # Outside these, squares of float32 numbers vanish or overflow, and with them the clip or the noise.
        if not 1e-6 <= self.l2_clip_norm <= 1e6:
            raise UsageError("l2_clip_norm must lie between 1e-06 and 1e+06")


@dataclass(frozen=True, kw_only=True)
class FormalPlan:
    """The release of the classes' sizes, for images, and the private critic steps, under one accountant."""

    game: Game
    counts: Gaussian | None
    critic: TrainingPlan

    @property
    def choice(self) -> AccountantChoice:
        """The accountant and why."""
        return self.critic.choice

    @property
    def charges(self) -> list[tuple[str, Event, int, Mapping[str, Any]]]:
        """What to reserve in the ledger."""
        mechanism = "Gaussian on the sum of clipped per-record gradients of the critic's loss, its penalty included"
        label, event, steps, details = self.critic.charges[0]
        charges: list[tuple[str, Event, int, Mapping[str, Any]]] = [
            (label, event, steps, {**details, "mechanism": f"{mechanism}, over a Poisson sample"})
        ]
        if self.counts is not None:
            charges.insert(0, (COUNTS_LABEL, self.counts, 1, {"mechanism": "Gaussian on the sizes of the classes"}))
        return charges

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory that training takes."""
        return self.game.memory_bytes + 512 * 2**20

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return self.game.row_bytes

    @property
    def seconds(self) -> float:
        """Rough estimate of the training time on two cores."""
        return self.game.seconds

    def summary(self) -> dict[str, Any]:
        """Gives the settings as JSON-able pairs."""
        return {
            **self.game.summary(),
            "expected_batch_size": self.critic.expected_batch_size,
            "sampling_probability": self.critic.sampling_probability,
            "noise_multiplier": self.critic.noise_multiplier,
            "classes_noise_multiplier": None if self.counts is None else self.counts.noise_multiplier,
        }


class DpCritic:
    """A Wasserstein GAN with a gradient penalty and noise on the critic's features; or, formal, with a private critic.

    Privacy: as published, none. Formal: the classes' sizes are one Gaussian release, and each critic step a Gaussian
      mechanism on a Poisson sample; all else is post-processing. See docs/dp-critic.md.
    Source: Triastcyn and Faltings 2019, CEUR-WS 2335, sections 4.1 and 5.2; Gulrajani et al. 2017, arXiv:1704.00028.
    """

    name = "dp-critic"
    title = "Wasserstein GAN with a noisy layer in its critic"
    paper = "A. Triastcyn, B. Faltings: Generating Artificial Data for Private Deep Learning, 2019"

    def make_settings(self, **asked: Any) -> DpCriticSettings:
        """Checks settings by name. Raises: UsageError."""
        known = {part.name for part in fields(DpCriticSettings)}
        formal = asked.get("formal", False)
        for name in asked:
            if name not in known:
                raise UsageError(f"the method {self.name} has no setting {name.replace('_', '-')}")
        if not formal and "l2_clip_norm" in asked:
            raise UsageError(f"the method {self.name} has a clip-norm with --formal only")
        rate = _FORMAL_LEARNING_RATE if formal else _LEARNING_RATE
        defaults: dict[str, Any] = {
            "critic_steps_per_generator_step": 1 if formal else _CRITIC_STEPS,
            "generator_learning_rate": rate,
            "critic_learning_rate": rate,
        }
        return DpCriticSettings(**{**defaults, **asked})

    def plan(
        self,
        shape: TableShape,
        budget: Budget,
        *,
        settings: DpCriticSettings,
        accountant_rule: str,
        neighboring_relation: NeighboringRelation,
        other_charges: Sequence[Charge] = (),
    ) -> PlainPlan | FormalPlan:
        """Fixes batch, noise and steps. Privacy: sees the public shape only.

        Raises: UsageError for what the networks cannot take, PrivacyError if the budget cannot be met.
        """
        shared: dict[str, Any] = {
            "budget": budget,
            "neighboring_relation": neighboring_relation,
            "other_charges": other_charges,
        }
        if settings.formal:
            return _plan_formally(shape, settings, method=self.name, rule=accountant_rule, shared=shared)
        game = plan_game(
            shape,
            settings,
            method=self.name,
            batch_size=settings.expected_batch_size or _BATCH,
            passes=_PASSES,
        )
        return PlainPlan(
            game=game,
            event=Unprotected(reason=REASON),
            choice=choose_nothing(accountant_rule, **shared),
            mechanism="gradients of the critic's loss on rows as they are, noise on its last hidden layer",
            noise_multiplier=_FEATURE_NOISE,
        )

    def fit(
        self,
        encoded: EncodedTable,
        plan: PlainPlan | FormalPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> ConvSampler | MlpSampler:
        """Trains. Privacy: every read is charged before it happens. Raises: PrivacyError, ResourceError, UsageError."""
        run: dict[str, Any] = {
            "streams": streams,
            "ledger": ledger,
            "progress": progress,
            "device": device,
            "threads": threads,
        }
        if isinstance(plan, FormalPlan):
            return _fit_formally(encoded, plan, **run)
        settings, batch_size = plan.game.settings, plan.game.batch_size

        def build(shares: npt.NDArray[np.float64] | None) -> Any:
            from dpwgan.discriminators.noisy_features import NoisyFeatures, make_device_rng

            noisy_features = NoisyFeatures(
                l2_clip_norm=_FEATURE_CLIP_NORM,
                noise_multiplier=_FEATURE_NOISE,
                device_rng=make_device_rng(streams.noise),
            )
            return build_players(
                encoded,
                plan.game,
                shares=shares,
                critic_filters=_CRITIC_FILTERS,
                rng=streams.model,
                noisy_features=noisy_features,
            )

        def make_steps(players: Any) -> Any:
            from dpwgan.training.gradient_penalty_step import PlainPenaltyStep, ScoreClimb

            return (
                PlainPenaltyStep(players, batch_size=batch_size, learning_rate=settings.critic_learning_rate),
                ScoreClimb(players, batch_size=batch_size, learning_rate=settings.generator_learning_rate),
            )

        return fit_plainly(encoded, plan, build=build, make_steps=make_steps, **run)


def _plan_formally(
    shape: TableShape, settings: DpCriticSettings, *, method: str, rule: str, shared: dict[str, Any]
) -> FormalPlan:
    if settings.hidden_critic is None and shape.image is None:
        settings = DpCriticSettings(**{**_as_keywords(settings), "hidden_critic": _FORMAL_HIDDEN})
    game = plan_game(
        shape,
        settings,
        method=method,
        batch_size=settings.expected_batch_size or _FORMAL_BATCH,
        passes=_FORMAL_PASSES,
        steps=_FORMAL_STEPS,
    )
    critic = DpWganSettings(
        hidden_critic=game.hidden_critic,
        hidden_generator=game.hidden_generator,
        latent=settings.latent,
        expected_batch_size=game.batch_size,
        critic_steps_per_generator_step=settings.critic_steps_per_generator_step,
        generator_steps=1,
        generator_learning_rate=settings.generator_learning_rate,
        critic_learning_rate=settings.critic_learning_rate,
        l2_clip_norm=settings.l2_clip_norm,
        steps=game.steps,
    )
    if game.grid is None:
        plan = plan_training(shape, settings=critic, accountant_rule=rule, **shared)
        return FormalPlan(game=game, counts=None, critic=plan)
    probability = game.batch_size / shape.records
    # A critic alone, with its share of rho: by a central limit T steps at rate q are about as private as one Gaussian
    # release with this noise. Only the ratio rests on this; the budget is met by the accountant.
    ratio = probability * math.sqrt(game.steps / (1 - _CLASSES_SHARE))

    def make_counts(scale: float) -> Gaussian:
        return gaussian(noise_multiplier=scale / math.sqrt(_CLASSES_SHARE), replace_one_factor=math.sqrt(2.0))

    def charges(scale: float) -> list[Charge]:
        step = poisson_gaussian(sampling_probability=probability, noise_multiplier=max(_LEAST_NOISE, ratio * scale))
        return [(make_counts(scale), 1), (step, game.steps)]

    choice = choose_accountant_for_family(rule, charges=charges, **shared)
    return FormalPlan(
        game=game,
        counts=make_counts(choice.noise_scale),
        critic=make_plan(
            shape,
            critic,
            choice=choice,
            steps=game.steps,
            sampling_probability=probability,
            noise_multiplier=max(_LEAST_NOISE, ratio * choice.noise_scale),
        ),
    )


def _fit_formally(
    encoded: EncodedTable,
    plan: FormalPlan,
    *,
    streams: Streams,
    ledger: Ledger,
    progress: Progress,
    device: str,
    threads: int | None,
) -> ConvSampler | MlpSampler:
    # TensorFlow takes seconds to import; a plan must not pay for it.
    from dpwgan.training.device import on_device
    from dpwgan.training.gradient_penalty_step import PrivatePenaltyStep, ScoreClimb
    from dpwgan.training.loop import train

    shares = None
    if plan.counts is not None:

        def release() -> Arrays:
            ledger.charge(COUNTS_LABEL)
            return {"shares": release_shares(encoded, plan, rng=streams.noise)}

        shares = ledger.release(COUNTS_LABEL, release)["shares"].astype(np.float64)
    with on_device(device, threads=threads):
        players = build_players(
            encoded,
            plan.game,
            shares=shares,
            critic_filters=_FORMAL_FILTERS,
            rng=streams.model,
            by_products=True,
        )
        train(
            plan.critic,
            critic_step=PrivatePenaltyStep(players, plan=plan.critic),
            generator_step=ScoreClimb(players, batch_size=_FORMAL_GENERATOR_BATCH, learning_rate=1.0),
            ledger=ledger,
            streams=streams,
            progress=progress,
        )
    return take_sampler(players)


def release_shares(encoded: EncodedTable, plan: FormalPlan, *, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Releases the sizes of the classes, as shares.

    Privacy: one Gaussian event of L2 sensitivity 1, sqrt(2) where a row is replaced. The caller has charged it. Making
      shares of it is post-processing, with the public n.
    Shapes: (classes,).
    """
    if plan.game.grid is None or plan.counts is None:
        raise UsageError("only a table of images has classes")
    noisy, _ = add_gaussian_noise(
        count_classes(encoded, plan.game.grid),
        sensitivity=1.0,
        noise_multiplier=plan.counts.noise_multiplier,
        rng=rng,
        replace_one_factor=plan.counts.replace_one_factor,
    )
    return project_on_simplex(noisy, np.ones_like(noisy), total=float(encoded.records)) / encoded.records


def _as_keywords(settings: DpCriticSettings) -> dict[str, Any]:
    return {part.name: getattr(settings, part.name) for part in fields(settings)}
