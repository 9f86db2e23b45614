"""DP-WGAN. Srivastava and Alzantot 2019: Differential Privacy Synthetic Data Generation using WGAN, Algorithm 2."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.critic.plan import (
    CRITIC_LABEL,
    SECONDS_A_ROW_CELL,
    TENSORFLOW_SECONDS,
    TrainingDesign,
    plan_beside,
    plan_training,
)
from dpwgan.critic.sampler import MlpSampler
from dpwgan.errors import PrivacyError, UsageError
from dpwgan.marginals.anchor import fit_anchor, on_one_thread
from dpwgan.marginals.anchor_plan import AnchorDesign, lay_out_anchor
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.groups import lay_out_groups
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.methods.base import SharedMethod
from dpwgan.methods.settings import ALONE, AnchoredSettings
from dpwgan.plan import Cost, Plan, Run
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.rows import Beside, Derivation, Rows

if TYPE_CHECKING:
    from dpwgan.critic.loop import TrainingStep
    from dpwgan.critic.shared_step import ShareOfGradients


# What a code's group takes in a step of the generator beside a critic, in seconds: measured on the 1940 census, 5,500
# codes of 2,900 groups.
_SECONDS_A_CODE_CELL = 3.5e-8
# How many steps of a fit a critic step takes as long as, for the progress bar.
_TICKS_A_STEP = 2


@dataclass(frozen=True, kw_only=True)
class AnchoredDesign:
    """An anchor and the critic steps that come after it, under one accountant.

    `critic.shape` is the table's, until the groups are known that the critic reads beside an anchor.
    """

    settings: AnchoredSettings
    anchor: AnchorDesign
    critic: TrainingDesign

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return [*self.anchor.releases, *self.critic.releases]

    @property
    def cost(self) -> Cost:
        """The larger one of the two phases, which follow each other, and the time of both."""
        # The critic reads groups; how many there are is not known yet.
        spans = lay_out_groups(self.anchor.columns, self.anchor.most_sizes)
        critic = replace(self.critic, shape=TableShape(records=self.critic.shape.records, spans=spans)).cost
        anchor = self.anchor.cost
        return Cost(
            # Both phases count the encoded table, which is there once.
            row_bytes=anchor.row_bytes + self.critic.cost.row_bytes - self.anchor.shape.row_bytes,
            working_bytes=max(anchor.working_bytes, critic.working_bytes),
            seconds=anchor.seconds + self.critic_seconds,
        )

    @property
    def critic_seconds(self) -> float:
        """What the steps of both networks are expected to take, without the anchor. Units: seconds of two cores."""
        settings, width = self.critic.settings, self.anchor.fit.likely_width
        batch = self.critic.expected_batch_size * self.anchor.attributes * settings.hidden_critic[0]
        turns = settings.generator_steps / settings.critic_steps_per_generator_step
        turn = self.anchor.fit.choose_codes(round(width)) * width * _SECONDS_A_CODE_CELL
        return TENSORFLOW_SECONDS + self.critic.steps * (batch * SECONDS_A_ROW_CELL + turns * turn)

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        critic = self.critic.summary()
        for name in (*ALONE[:-1], "generator_weights", "critic_weights"):
            del critic[name]
        return {
            **self.anchor.summary(),
            "critic_share": self.settings.critic_share,
            "critic_weight": self.settings.critic_weight,
            **critic,
        }


def plan_anchored(shape: TableShape, terms: Terms, *, settings: AnchoredSettings) -> Plan[AnchoredDesign]:
    """Fixes an anchor's releases and the critic's steps as one family of charges, under one accountant.

    Privacy: sees public facts only. Raises: PrivacyError if the budget cannot be met.
    """
    anchor = lay_out_anchor(
        shape,
        terms,
        kind="queries",
        settings=settings.fit,
        share=1.0 - settings.critic_share,
    )

    def scale_anchor(scale: float) -> AnchorDesign:
        return replace(anchor, scale=scale / math.sqrt(1.0 - settings.critic_share))

    critic = plan_beside(
        shape,
        terms,
        settings=settings.critic,
        share=settings.critic_share,
        others=lambda scale: scale_anchor(scale).releases,
    )
    design = AnchoredDesign(settings=settings, anchor=scale_anchor(critic.choice.noise), critic=critic.design)
    return Plan(design=design, shape=shape, choice=critic.choice)


class DpWgan(SharedMethod):
    """A Wasserstein GAN whose critic reads rows through clipped, noised gradients.

    With an anchor (the default), the generator is first fitted to noisy marginals; then a critic with what is left of
    the budget goes on, and the anchor's loss stays in the generator's objective. With none it is the published method.
    Privacy: rows are read by the anchor's releases and by the critic's steps, each a Gaussian mechanism on a Poisson
      sample; the generator, its average and every sampled row are post-processing. See docs/privacy.md.
    """

    name = "dp-wgan"
    title = "Differentially private Wasserstein GAN"
    paper = (
        "M. Srivastava, M. Alzantot: Differential Privacy Synthetic Data Generation using WGAN, 2019 "
        "(UCLANESL entry to the NIST Differential Privacy Synthetic Data Challenge, Match 3)"
    )

    def plan(
        self, shape: TableShape, terms: Terms, *, settings: AnchoredSettings
    ) -> Plan[TrainingDesign | AnchoredDesign]:
        """Fixes releases, batch, noise and steps.

        Privacy: sees the public shape only.
        Raises: PrivacyError; UsageError if the reference engine is asked for where it cannot be.
        """
        if settings.anchor == "none":
            if settings.critic.engine == "reference" and find_spec("tensorflow_privacy") is None:
                raise UsageError(
                    "the reference engine is made of tensorflow-privacy, which is for Python 3.10 and 3.11; without "
                    "--engine reference the same steps are taken, faster"
                )
            return plan_training(shape, terms, settings=settings.critic)
        return plan_anchored(shape, terms, settings=settings)

    def fit(self, plan: Plan[TrainingDesign | AnchoredDesign], run: Run) -> MlpSampler | MixtureSampler:
        """Fits the anchor if there is one, then trains critic and generator for the planned steps.

        Privacy: each release and each critic step is charged before it reads rows.
        Raises: PrivacyError, ResourceError, UsageError.
        """
        if isinstance(plan.design, AnchoredDesign):
            return self._fit_anchored(plan.design, run)
        return self._fit_alone(plan.design, run)

    def _fit_anchored(self, plan: AnchoredDesign, run: Run) -> MixtureSampler:
        anchor_ticks, critic_ticks = plan.anchor.fit.ticks, _TICKS_A_STEP * plan.critic.steps
        total = anchor_ticks + critic_ticks
        rng, ledger, progress = run.model, run.ledger, run.progress

        def enter_device() -> None:
            from dpwgan.critic.device import on_device

            stack.enter_context(on_device(run.device, threads=run.threads, seconds=plan.critic_seconds))

        # TensorFlow takes seconds to import: beside a fit, unless the device, or the threads of one that runs already,
        # may have to be refused before rows are read.
        is_early = run.device == "gpu" or "tensorflow" in sys.modules
        with on_one_thread(), ExitStack() as stack:
            if is_early:
                enter_device()
            first = replace(run, progress=lambda done, of, epsilon: progress(done * anchor_ticks // of, total, epsilon))
            anchor = fit_anchor(first, plan.anchor, meanwhile=None if is_early else _import_networks)
            if not is_early:
                enter_device()

            from dpwgan.critic.critic import Critic
            from dpwgan.critic.generator_steps import AnchoredStep
            from dpwgan.critic.generators import CodeSource, CodeTable
            from dpwgan.critic.loop import train
            from dpwgan.critic.weights import refuse_unless_finite

            tables = anchor.table.rows.derive(TABLE_OF_GROUPS, plan.anchor.columns)
            shape = TableShape(records=plan.critic.shape.records, spans=tables.own.spans)
            critic_plan = replace(plan.critic, shape=shape)
            settings = critic_plan.settings
            critic = Critic(shape.spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=rng)
            logits = anchor.generator.see().logs.T
            drawn, latents = CodeTable(shape.spans, logits), CodeSource(codes=len(logits), width=shape.width, rng=rng)
            generator_step = AnchoredStep(
                critic=critic,
                generator=anchor.generator,
                drawn=drawn,
                latents=latents,
                plan=critic_plan,
                losses=anchor.losses,
                weight=plan.settings.critic_weight,
            )
            parts: dict[str, Any] = {"critic": critic, "generator": drawn, "latents": latents}
            parts["steps"] = steps = ledger.open(CRITIC_LABEL, of_units=tables.units is not None)
            train(
                critic_plan,
                steps=steps,
                critic_step=_make_critic_step(tables, critic_plan, **parts),
                generator_step=generator_step,
                ledger=ledger,
                progress=lambda done, of, epsilon: progress(anchor_ticks + done * critic_ticks // of, total, epsilon),
                records=_count_sampled(tables),
            )
        probabilities = generator_step.averaged_probabilities()
        refuse_unless_finite([probabilities])
        return anchor.make_sampler(anchor.make_pure(probabilities))

    def _fit_alone(self, plan: TrainingDesign, run: Run) -> MlpSampler:
        from dpwgan.critic.device import on_device  # isort: split
        from dpwgan.critic.critic import Critic
        from dpwgan.critic.generators import LatentSource, MlpGenerator
        from dpwgan.critic.loop import play

        settings, spans, rng = plan.settings, plan.shape.spans, run.model
        with on_device(run.device, threads=run.threads, seconds=plan.cost.seconds):
            weights = play(
                run.rows.own,
                plan,
                critic=Critic(spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=rng),
                generator=MlpGenerator(spans, latent=settings.latent, hidden=settings.hidden_generator, rng=rng),
                latents=LatentSource(latent=settings.latent, width=plan.shape.width, rng=rng),
                make_critic_step=lambda encoded, *, plan, **parts: _make_critic_step(run.rows, plan, **parts),
                steps=run.ledger.open(CRITIC_LABEL, of_units=run.rows.units is not None),
                ledger=run.ledger,
                progress=run.progress,
                records=_count_sampled(run.rows),
            )
        return MlpSampler(weights=weights, spans=spans)

    def check_shared(self, plan: Plan[TrainingDesign | AnchoredDesign]) -> None:
        """Raises: UsageError if what is planned needs all rows in one place: the reference engine."""
        if isinstance(plan.design, TrainingDesign) and plan.design.settings.engine == "reference":
            raise UsageError("the reference engine needs all rows on one machine: several workers need the fused one")


def _import_networks() -> None:
    """Imports all that trains the critic: TensorFlow takes seconds."""
    for name in ("device", "generator_steps", "loop", "private_step"):
        import_module(f"dpwgan.critic.{name}")


def _make_critic_step(rows: Rows[EncodedTable], plan: TrainingDesign, **parts: Any) -> TrainingStep:
    """Makes the step that reads rows where they lie, by the engine that was asked for."""
    if rows.shared:
        from dpwgan.critic.private_step import count_units
        from dpwgan.critic.shared_step import SharedStep

        settings = plan.settings
        share = 1.0 if rows.units is None else rows.units.count / plan.shape.records
        shares = rows.derive(SHARES, [settings.hidden_critic, settings.weight_clip, plan.clip_target, share])
        return SharedStep(shares, plan=plan if rows.units is None else count_units(plan, rows.units), **parts)
    if plan.settings.engine == "reference":
        from dpwgan.critic.reference_step import ReferenceStep

        return ReferenceStep(rows.own, plan=plan, **parts)
    from dpwgan.critic.private_step import FusedStep

    return FusedStep(rows.own, plan=plan, units=rows.units, **parts)


def _count_sampled(rows: Rows[EncodedTable]) -> int:
    """How many there are to be sampled from: units, or rows that are here."""
    return rows.own.records if rows.units is None else len(rows.units.sizes)


def _make_share(encoded: EncodedTable, argument: Any, beside: Beside) -> ShareOfGradients:
    """Makes what clips and sums gradients of a worker's own rows.

    Raises: PrivacyError if the chief would clip them to more than this worker reserved.
    """
    from dpwgan.critic.critic import Critic
    from dpwgan.critic.shared_step import ShareOfGradients

    (hidden, weight_clip, l2_clip_norm, share), ledger, units = argument, beside.ledger, beside.units
    if ledger is None or l2_clip_norm > ledger.find(CRITIC_LABEL).sensitivity:
        raise PrivacyError("The chief would clip gradients to more than this worker reserved.")
    # Its first weights are never used: the chief's come with each question.
    critic = Critic(encoded.spans, hidden=tuple(hidden), weight_clip=weight_clip, rng=np.random.default_rng(0))
    steps = ledger.open(CRITIC_LABEL, with_noise=False, of_units=units is not None)
    return ShareOfGradients(encoded, critic=critic, l2_clip_norm=l2_clip_norm, steps=steps, units=units, share=share)


def _as_table(rows: GroupedRows, columns: Sequence[str], beside: Beside) -> EncodedTable:
    """Rows of groups as a table of categories, which the critic beside an anchor reads."""
    spans = lay_out_groups(columns, rows.layout.sizes)
    return EncodedTable(codes=rows.groups, numbers=np.zeros((len(rows.groups), 0), np.float32), spans=spans)


TABLE_OF_GROUPS: Derivation[GroupedRows, EncodedTable] = Derivation("table of groups", _as_table)
SHARES: Derivation[EncodedTable, Any] = Derivation("shares of gradients", _make_share)
"""What clips and sums gradients of everybody's own rows, at a critic's widths, its clip and that of gradients; of units
with the share of a row that counts."""
