"""A critic with noisy features. Triastcyn, Faltings 2019: Generating Artificial Data for Private Deep Learning."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwgan.array_types import Arrays, Floats
from dpwgan.critic.plan import CRITIC_LABEL, TENSORFLOW_SECONDS, TrainingDesign, plan_beside, plan_training
from dpwgan.critic.sampler import MlpSampler
from dpwgan.critic.settings import DpWganSettings
from dpwgan.gaussians.class_moments import count_labels
from dpwgan.images.basis import REACH, SmoothFrame
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.published.game import Game, PlainDesign, fit_plainly, plan_game
from dpwgan.methods.published.samplers import ConvSampler, LabelledSampler
from dpwgan.methods.settings import DpCriticSettings
from dpwgan.plan import Cost, Plan, Run
from dpwgan.privacy.events import Gaussian, Unprotected
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.storage import cut, let_go

CLASSES_LABEL = "class sizes and mean picture"

REASON = (
    "noise on the critic's features protects no row, since rows train the critic as they are and step after step, as "
    "its paper says itself; estimate the expected loss of the output with python -m dpwgan.audit ex-post"
)

# As published (section 5.2): C and sigma of the noisy layer, and the batch.
_FEATURE_CLIP_NORM = 1.0
_FEATURE_NOISE = 1.5
_BATCH = 64
# A penalty takes gradients of gradients: the work of a generator step, and half as much again.
_PASSES = 1.5

# With a private critic. Accounting for these steps asks for noise not far from the least useful.
_FORMAL_HIDDEN = (64, 64)
_FORMAL_BATCH = 512
_FORMAL_STEPS = 300
_FORMAL_GENERATOR_BATCH = 128
_FORMAL_PASSES = 3.0
_FORMAL_CLIP_NORM = 1.0
# What a row of images costs in a step, beside its pixels, on one core.
_SECONDS_A_ROW = 5e-5

# Images: a critic of few weights, since each gets noise. The first component of MNIST's pictures is .3 away from what
# 43 coordinates hold of it and .12 from what 80 do; products grow with the square of the coordinates.
_DIMENSION = 48
_IMAGE_HIDDEN = 128
_IMAGE_STEPS = 400
_IMAGE_SHARE_OF_TABLE = 0.25
_MOST_IMAGE_BATCH = 8_192
# Two pictures of pixels a quarter from their mean are 3 apart and have products of that size.
_IMAGE_CLIP_NORM = 3.0
_IMAGE_MEMORY, _IMAGE_PULL, _IMAGE_AVERAGE = 0.995, 0.3, 0.99
_IMAGE_GENERATOR_STEPS, _IMAGE_GENERATOR_BATCH = 2, 512
_IMAGE_TARGET_SLOPE = 0.0
# Classes' sizes and the mean picture need little: a share of rho, and the sizes a quarter of a record's squared length.
_CLASSES_SHARE = 0.1
_SIZES_PART = 0.5
_MEAN_PART = math.sqrt(1.0 - _SIZES_PART**2)


@dataclass(frozen=True, kw_only=True)
class FormalDesign:
    """The release of the classes, for images, and the private critic steps, under one accountant.

    `classes` and `frame`, what the critic sees of an image, are None for a table.
    """

    game: Game
    critic: TrainingDesign
    classes: Gaussian | None = None
    frame: SmoothFrame | None = None

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        mechanism = "Gaussian on the sum of clipped per-record gradients of the critic's loss, its penalty included"
        steps = replace(self.critic.releases[0], mechanism=f"{mechanism}, over a Poisson sample")
        if self.classes is None:
            return [steps]
        return [_release_classes(self.classes), steps]

    @property
    def cost(self) -> Cost:
        """That of the game, and gradients row by row; of images that of both small networks."""
        if self.frame is None:
            return self.game.cost + Cost(working_bytes=512 * 2**20)
        pixels = self.frame.grid.pixels
        held = self.game.batch_size + self.critic.generated_batch_size + _IMAGE_GENERATOR_BATCH
        rows = self.game.batch_size + _IMAGE_GENERATOR_STEPS * _IMAGE_GENERATOR_BATCH
        return Cost(
            row_bytes=self.game.cost.row_bytes,
            working_bytes=4 * held * (4 * pixels + 8 * _DIMENSION**2) + 512 * 2**20,
            seconds=TENSORFLOW_SECONDS + self.game.steps * rows * (_SECONDS_A_ROW + pixels * 2e-8),
        )

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        return {
            **self.game.summary(),
            "expected_batch_size": self.critic.expected_batch_size,
            "sampling_probability": self.critic.sampling_probability,
            "noise_multiplier": self.critic.noise_multiplier,
            "l2_clip_norm": self.critic.l2_clip_norm,
            "classes_noise_multiplier": None if self.classes is None else self.classes.noise_multiplier,
            "coordinates": None if self.frame is None else self.frame.dimension,
        }


class DpCritic:
    """A Wasserstein GAN with a gradient penalty and noise on the critic's features; or, formal, with a private critic.

    Privacy: as published, none. Formal: classes' sizes and the mean picture are one Gaussian release, and each critic
      step is a Gaussian mechanism on a Poisson sample; all else is post-processing. See docs/published.md.
    Source: Triastcyn and Faltings 2019, CEUR-WS 2335, sections 4.1 and 5.2; Gulrajani et al. 2017, arXiv:1704.00028.
    """

    name = "dp-critic"
    title = "Wasserstein GAN with a noisy layer in its critic"
    paper = "A. Triastcyn, B. Faltings: Generating Artificial Data for Private Deep Learning, 2019"

    def plan(self, shape: TableShape, terms: Terms, *, settings: DpCriticSettings) -> Plan[PlainDesign | FormalDesign]:
        """Fixes batch, noise and steps. Privacy: sees the public shape only.

        Raises: UsageError for what the networks cannot take, PrivacyError if the budget cannot be met.
        """
        if settings.formal:
            return _plan_formally(shape, terms, settings=settings, method=self.name)
        game = plan_game(shape, settings, method=self.name, batch_size=_BATCH, passes=_PASSES)
        design = PlainDesign(
            game=game,
            event=Unprotected(reason=REASON),
            mechanism="gradients of the critic's loss on rows as they are, noise on its last hidden layer",
            noise_multiplier=_FEATURE_NOISE,
        )
        return Plan(design=design, shape=shape, choice=terms.choose_nothing())

    def fit(self, plan: Plan[PlainDesign | FormalDesign], run: Run) -> ConvSampler | LabelledSampler | MlpSampler:
        """Trains. Privacy: every read is charged before it happens. Raises: PrivacyError, ResourceError, UsageError."""
        design = plan.design
        if isinstance(design, FormalDesign):
            return _fit_formally(design, run)
        settings, batch_size = design.game.settings, design.game.batch_size

        def make_steps(networks: Any) -> Any:
            from dpwgan.methods.published.gradient_penalty import PlainPenaltyStep, ScoreClimb

            return (
                PlainPenaltyStep(networks, batch_size=batch_size, learning_rate=settings.critic_learning_rate),
                ScoreClimb(networks, batch_size=batch_size, learning_rate=settings.generator_learning_rate),
            )

        return fit_plainly(design, run, make_steps=make_steps, feature_clip_norm=_FEATURE_CLIP_NORM)


def _plan_formally(shape: TableShape, terms: Terms, *, settings: DpCriticSettings, method: str) -> Plan[FormalDesign]:
    if settings.hidden_critic is None and shape.image is None:
        settings = replace(settings, hidden_critic=_FORMAL_HIDDEN)
    batch, steps = _FORMAL_BATCH, _FORMAL_STEPS
    if shape.image is not None:
        batch, steps = max(1, min(_MOST_IMAGE_BATCH, round(_IMAGE_SHARE_OF_TABLE * shape.records))), _IMAGE_STEPS
    game = plan_game(shape, settings, method=method, batch_size=batch, passes=_FORMAL_PASSES, steps=steps)
    critic = DpWganSettings(
        hidden_critic=game.hidden_critic,
        hidden_generator=game.hidden_generator,
        latent=settings.latent,
        expected_batch_size=game.batch_size,
        critic_steps_per_generator_step=settings.critic_steps_per_generator_step,
        generator_steps=1 if game.grid is None else _IMAGE_GENERATOR_STEPS,
        generator_learning_rate=settings.generator_learning_rate,
        critic_learning_rate=settings.critic_learning_rate,
        l2_clip_norm=settings.l2_clip_norm or (_FORMAL_CLIP_NORM if game.grid is None else _IMAGE_CLIP_NORM),
        steps=game.steps,
    )
    if game.grid is None:
        training = plan_training(shape, terms, settings=critic)
        design = FormalDesign(game=game, critic=training.design)
        return Plan(design=design, shape=shape, choice=training.choice)
    # Two records of unlike labels: the sizes' parts are at right angles, the points' as far apart as can be.
    farthest = math.sqrt(2.0 * _SIZES_PART**2 + 4.0 * _MEAN_PART**2)

    def scale_classes(scale: float) -> Gaussian:
        return Gaussian(noise_multiplier=scale / math.sqrt(_CLASSES_SHARE), replace_one_factor=farthest)

    training = plan_beside(
        shape,
        terms,
        settings=critic,
        share=1 - _CLASSES_SHARE,
        others=lambda scale: [_release_classes(scale_classes(scale))],
    )
    design = FormalDesign(
        game=game,
        classes=scale_classes(training.choice.noise),
        frame=SmoothFrame(grid=game.grid, dimension=min(_DIMENSION, game.grid.pixels)),
        critic=training.design,
    )
    return Plan(design=design, shape=shape, choice=training.choice)


def _release_classes(event: Gaussian) -> Release:
    what = "Gaussian on the classes' sizes and the sum of pictures' points: continuous, since points are not whole"
    return Release(label=CLASSES_LABEL, event=event, times=1, mechanism=what, sensitivity=1.0)


def _fit_formally(plan: FormalDesign, run: Run) -> LabelledSampler | MlpSampler:
    from dpwgan.critic.device import on_device
    from dpwgan.critic.loop import train
    from dpwgan.methods.published.gradient_penalty import AdamDescent, PrivatePenaltyStep, RememberedDescent, ScoreClimb
    from dpwgan.methods.published.networks import Perceptrons, PointNetworks

    game, encoded, ledger = plan.game, run.rows.own, run.ledger
    shared: dict[str, Any] = {"latent": game.settings.latent, "rng": run.model}
    networks: PointNetworks | Perceptrons
    descent: RememberedDescent | AdamDescent
    with on_device(run.device, threads=run.threads, seconds=plan.cost.seconds):
        if plan.frame is None:
            hidden: dict[str, Any] = {"hidden_generator": game.hidden_generator, "hidden_critic": game.hidden_critic}
            networks = Perceptrons(encoded, **hidden, **shared)
            descent, target_slope = AdamDescent(networks.critic_weights), 1.0
            climb = ScoreClimb(networks, batch_size=_FORMAL_GENERATOR_BATCH, learning_rate=1.0)
        else:
            frame, records = plan.frame, plan.critic.shape.records
            released = ledger.keep(
                CLASSES_LABEL, lambda: release_classes(encoded, frame, records=records, ledger=ledger)
            )
            networks = PointNetworks(
                encoded,
                frame,
                shares=released["shares"].astype(np.float64),
                centre=released["centre"].astype(np.float64),
                hidden=_IMAGE_HIDDEN,
                **shared,
            )
            clip = plan.critic.l2_clip_norm
            descent = RememberedDescent(
                networks.critic_weights, memory=_IMAGE_MEMORY, pull=_IMAGE_PULL, l2_clip_norm=clip
            )
            target_slope = _IMAGE_TARGET_SLOPE
            climb = ScoreClimb(networks, batch_size=_IMAGE_GENERATOR_BATCH, learning_rate=1.0, average=_IMAGE_AVERAGE)
        steps = ledger.open(CRITIC_LABEL)
        train(
            plan.critic,
            steps=steps,
            critic_step=PrivatePenaltyStep(
                networks, plan=plan.critic, steps=steps, descent=descent, target_slope=target_slope
            ),
            generator_step=climb,
            ledger=ledger,
            progress=run.progress,
            records=encoded.records,
        )
        return networks.make_sampler(climb.averaged)


def release_classes(encoded: EncodedTable, frame: SmoothFrame, *, records: int, ledger: Ledger) -> Arrays:
    """Releases the sizes of the classes, as `shares`, and the mean of all pictures' points, the `centre`.

    Privacy: one Gaussian release. Making shares and a mean of it is post-processing, with `records`, the public n.
    Shapes: (classes,) and (dimension,).
    """
    noisy = ledger.release(CLASSES_LABEL, lambda: sum_classes(encoded, frame)).values
    sizes, total = np.split(noisy, [frame.grid.classes])
    shares = project_on_simplex(sizes / _SIZES_PART, np.ones_like(sizes), total=float(records))
    return {"shares": shares / records, "centre": total * (REACH / _MEAN_PART / records)}


def sum_classes(encoded: EncodedTable, frame: SmoothFrame) -> Floats:
    """Sums over records of class indicators and points. The result is not released.

    Privacy: a record's part is `_SIZES_PART` in one place, and a point no longer than `_MEAN_PART` in others: at most 1
      long in L2. Two records' parts are at most sqrt(2 `_SIZES_PART`^2 + 4 `_MEAN_PART`^2) apart.
    Shapes: (classes + dimension,).
    """
    grid = frame.grid
    total = np.zeros(frame.dimension)
    for rows in cut(encoded.records):
        pixels = encoded.numbers[rows][:, list(grid.sources)]
        points = frame.to_points(pixels) / REACH
        # Pixels in [0, 1] have no longer point; this holds whatever they are.
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        total += (points / np.maximum(1.0, lengths * (1.0 + 1e-12))).sum(axis=0)
        let_go(encoded.numbers)
    return np.concatenate([_SIZES_PART * count_labels(encoded, grid.label), _MEAN_PART * total])
