"""DP-WGAN. Srivastava and Alzantot 2019: Differential Privacy Synthetic Data Generation using WGAN, Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpwgan.critic.plan import (
    CRITIC_LABEL,
    SECONDS_A_ROW_CELL,
    TENSORFLOW_SECONDS,
    TrainingPlan,
    choose_sampling_probability,
    choose_steps,
    lay_out_training,
    plan_training,
)
from dpwgan.critic.sampler import MlpSampler
from dpwgan.errors import UsageError
from dpwgan.marginals.anchor import AnchorPlan, choose_maker, fit_anchor, lay_out_anchor, on_one_thread
from dpwgan.marginals.groups import lay_out_groups
from dpwgan.marginals.mixture_sampler import MixtureSampler
from dpwgan.marginals.serving import RowServer
from dpwgan.methods.base import Progress
from dpwgan.methods.settings import ALONE, AnchoredSettings
from dpwgan.plan import Cost, Plan, Terms, make_plan
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, Span, TableShape
from dpwgan.table.workers import Numbers, Task, Team

if TYPE_CHECKING:
    from dpwgan.privacy.ledger import Ledger


# What a code's group takes in a step of the generator beside a critic, in seconds of two cores: measured on the tables
# of `AnchorPlan`, from 3,000 codes of 89 groups to 1,100 of 1,817.
_SECONDS_A_CODE_CELL = 6e-8
# How many steps of a fit a critic step takes as long as, for the progress bar.
_TICKS_A_STEP = 2


@dataclass(frozen=True, kw_only=True)
class AnchoredPlan:
    """An anchor and the critic steps that come after it, under one accountant.

    `critic.shape` is the table's, until the groups are known that the critic reads beside an anchor.
    """

    settings: AnchoredSettings
    anchor: AnchorPlan
    critic: TrainingPlan

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
        anchor, encoded = self.anchor.cost, 4 * self.anchor.shape.records * len(self.anchor.shape.spans)
        return Cost(
            # Both phases count the encoded table, which is there once.
            row_bytes=anchor.row_bytes + self.critic.cost.row_bytes - encoded,
            working_bytes=max(anchor.working_bytes, critic.working_bytes),
            seconds=anchor.seconds + self._estimate_steps(),
        )

    def _estimate_steps(self) -> float:
        settings, width = self.critic.settings, self.anchor.likely_width
        batch = self.critic.expected_batch_size * self.anchor.attributes * settings.hidden_critic[0]
        turns = settings.generator_steps / settings.critic_steps_per_generator_step
        turn = self.anchor.choose_codes(round(width)) * width * _SECONDS_A_CODE_CELL
        return TENSORFLOW_SECONDS + self.critic.steps * (batch * SECONDS_A_ROW_CELL + turns * turn)

    def summary(self) -> dict[str, Any]:
        """Gives the settings as JSON-able pairs."""
        critic = self.critic.summary()
        for name in (*ALONE[:-1], "generator_weights", "critic_weights"):
            del critic[name]
        return {
            **self.anchor.summary(),
            "critic_share": self.settings.critic_share,
            "critic_weight": self.settings.critic_weight,
            **critic,
        }


def plan_anchored(shape: TableShape, terms: Terms, *, settings: AnchoredSettings) -> Plan[AnchoredPlan]:
    """Fixes an anchor's releases and the critic's steps as one family of charges, under one accountant.

    How the noise of a step stands to that of the anchor is fixed first, by the share that the critic is to have; then
    all noise is scaled together until the budget is met.
    Privacy: sees public facts only. Raises: PrivacyError if the budget cannot be met.
    """
    anchor = lay_out_anchor(
        shape,
        terms,
        kind="moments" if settings.anchor == "moments" else "queries",
        settings=settings.fit,
        share=1.0 - settings.critic_share,
    )
    probability = choose_sampling_probability(shape, settings.critic)
    steps = choose_steps(settings.critic, sampling_probability=probability)
    if steps < settings.critic.critic_steps_per_generator_step:
        raise UsageError("there are fewer critic steps than one generator step takes: the generator would stand still")
    # A critic alone, with its share of rho: by a central limit T steps at rate q are about as private as one Gaussian
    # release with this noise. Only the ratio rests on this; the budget is met by the accountant.
    ratio = probability * math.sqrt(steps / settings.critic_share)

    def lay_out(scale: float) -> AnchoredPlan:
        return AnchoredPlan(
            settings=settings,
            anchor=replace(anchor, scale=scale / math.sqrt(1.0 - settings.critic_share)),
            critic=lay_out_training(
                shape,
                settings.critic,
                steps=steps,
                sampling_probability=probability,
                noise_multiplier=max(1.0, ratio * scale),
            ),
        )

    choice = terms.calibrate(lambda scale: lay_out(scale).releases)
    return make_plan(lay_out(choice.noise_scale), shape=shape, choice=choice)


class DpWgan:
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

    def make_settings(self, **asked: Any) -> AnchoredSettings:
        """Checks settings by name. Raises: UsageError."""
        return AnchoredSettings.make(self.name, asked)

    def plan(self, shape: TableShape, terms: Terms, *, settings: AnchoredSettings) -> Plan[TrainingPlan | AnchoredPlan]:
        """Fixes releases, batch, noise and steps. Privacy: sees the public shape only. Raises: PrivacyError."""
        if settings.anchor == "none":
            return plan_training(shape, terms, settings=settings.critic)
        return plan_anchored(shape, terms, settings=settings)

    def fit(
        self,
        encoded: EncodedTable,
        plan: Plan[TrainingPlan | AnchoredPlan],
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
        team: Team | None = None,
    ) -> MlpSampler | MixtureSampler:
        """Fits the anchor if there is one, then trains critic and generator for the planned steps.

        With a `team`, `encoded` is the chief's share of the rows.
        Privacy: each release and each critic step is charged before it reads rows.
        Raises: PrivacyError, ResourceError, UsageError.
        """
        run: dict[str, Any] = {"streams": streams, "ledger": ledger, "progress": progress, "team": team}
        if isinstance(plan.design, AnchoredPlan):
            return self._fit_anchored(encoded, plan.design, device=device, threads=threads, **run)
        return self._fit_alone(encoded, plan.design, device=device, threads=threads, **run)

    def _fit_anchored(
        self,
        encoded: EncodedTable,
        plan: AnchoredPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str,
        threads: int | None,
        team: Team | None,
    ) -> MixtureSampler:
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.critic.anchored_step import AnchoredStep
        from dpwgan.critic.critic import Critic
        from dpwgan.critic.device import on_device
        from dpwgan.critic.finite import refuse_unless_finite
        from dpwgan.critic.loop import train
        from dpwgan.critic.private_step import FusedStep
        from dpwgan.critic.shared_step import SharedStep
        from dpwgan.critic.tensor_mixture import CodeSource, TensorMixture

        anchor_ticks, critic_ticks = plan.anchor.fit_ticks, _TICKS_A_STEP * plan.critic.steps
        total = anchor_ticks + critic_ticks
        with on_device(device, threads=threads), on_one_thread():
            anchor = fit_anchor(
                encoded,
                plan.anchor,
                streams=streams,
                ledger=ledger,
                progress=lambda done, of, epsilon: progress(done * anchor_ticks // of, total, epsilon),
                make_generator=choose_maker(plan.anchor, rng=streams.model, device=device, threads=threads),
                team=team,
            )
            spans = lay_out_groups(plan.anchor.columns, anchor.layout.sizes)
            shape = TableShape(records=plan.critic.shape.records, spans=spans)
            critic_plan = replace(plan.critic, shape=shape)
            groups = _as_table(anchor.groups, spans)
            settings = critic_plan.settings
            critic = Critic(spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=streams.model)
            if isinstance(anchor.generator, TensorMixture):
                generator = anchor.generator
            else:
                logits = np.log(np.maximum(anchor.generator.probabilities(), 1e-9))
                generator = TensorMixture(spans, logits, rng=streams.model)
            latents = CodeSource(codes=generator.codes, width=shape.width, rng=streams.model)
            parts: dict[str, Any] = {
                "critic": critic,
                "generator": generator,
                "latents": latents,
                "plan": critic_plan,
            }
            generator_step = AnchoredStep(**parts, losses=anchor.losses, weight=plan.settings.critic_weight)
            parts["steps"] = steps = ledger.open(CRITIC_LABEL)
            train(
                critic_plan,
                steps=steps,
                critic_step=(
                    FusedStep(groups, **parts) if team is None else SharedStep(groups, add_up=team.add_up, **parts)
                ),
                generator_step=generator_step,
                ledger=ledger,
                progress=lambda done, of, epsilon: progress(anchor_ticks + done * critic_ticks // of, total, epsilon),
                records=groups.records,
            )
        probabilities = generator_step.averaged_probabilities()
        refuse_unless_finite([probabilities])
        return MixtureSampler(probabilities=probabilities, coarsening=anchor.coarsening)

    def _fit_alone(
        self,
        encoded: EncodedTable,
        plan: TrainingPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str,
        threads: int | None,
        team: Team | None,
    ) -> MlpSampler:
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.critic.critic import Critic
        from dpwgan.critic.device import on_device
        from dpwgan.critic.latents import LatentSource
        from dpwgan.critic.mlp import MlpGenerator
        from dpwgan.critic.private_game import play
        from dpwgan.critic.shared_step import SharedStep

        if plan.settings.engine == "reference":
            from dpwgan.critic.reference_step import ReferenceStep as CriticStep
        else:
            from dpwgan.critic.private_step import FusedStep as CriticStep  # type: ignore[assignment]

        settings, spans, rng = plan.settings, plan.shape.spans, streams.model
        with on_device(device, threads=threads):
            weights = play(
                encoded,
                plan,
                critic=Critic(spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=rng),
                generator=MlpGenerator(spans, latent=settings.latent, hidden=settings.hidden_generator, rng=rng),
                latents=LatentSource(latent=settings.latent, width=plan.shape.width, rng=rng),
                make_critic_step=CriticStep if team is None else partial(SharedStep, add_up=team.add_up),
                steps=ledger.open(CRITIC_LABEL),
                ledger=ledger,
                progress=progress,
            )
        return MlpSampler(weights=weights, spans=spans)

    def check_shared(self, plan: Plan[TrainingPlan | AnchoredPlan]) -> None:
        """Raises: UsageError if what is planned needs all rows in one place: the reference engine."""
        if isinstance(plan.design, TrainingPlan) and plan.design.settings.engine == "reference":
            raise UsageError("the reference engine needs all rows on one machine: several workers need the fused one")

    def make_tasks(
        self, encoded: EncodedTable, plan: Plan[TrainingPlan | AnchoredPlan], *, streams: Streams, ledger: Ledger
    ) -> Mapping[str, Task]:
        """Gives what another worker than the chief does with its own rows when asked."""
        # Taking part means TensorFlow, which is imported by then.
        from dpwgan.critic.critic import Critic
        from dpwgan.critic.shared_step import GRADIENTS_TASK, ShareOfGradients

        def make_share(rows: EncodedTable, critic_plan: TrainingPlan) -> ShareOfGradients:
            settings = critic_plan.settings
            hidden, clip = settings.hidden_critic, settings.weight_clip
            # Its first weights are never used: the chief's come with each question.
            critic = Critic(rows.spans, hidden=hidden, weight_clip=clip, rng=streams.model)
            return ShareOfGradients(rows, critic=critic, plan=critic_plan)

        steps = ledger.open(CRITIC_LABEL, with_noise=False)
        design = plan.design
        if isinstance(design, TrainingPlan):
            alone = make_share(encoded, design)
            return {GRADIENTS_TASK: lambda argument, array: alone.sum_batch(array, steps=steps)}
        server = RowServer(encoded, design.anchor.one_way_plan)
        shares: list[ShareOfGradients] = []

        def sum_gradients(argument: Any, array: Numbers) -> Numbers:
            if not shares:  # the groups are there with the first step
                groups, layout = server.get_groups()
                spans = lay_out_groups(design.anchor.columns, layout.sizes)
                shares.append(make_share(_as_table(groups, spans), design.critic))
            return shares[0].sum_batch(array, steps=steps)

        return {**server.tasks, GRADIENTS_TASK: sum_gradients}


def _as_table(groups: npt.NDArray[np.int32], spans: tuple[Span, ...]) -> EncodedTable:
    """Gives rows of groups as a table of categories, which the critic beside an anchor reads."""
    return EncodedTable(codes=groups, numbers=np.zeros((len(groups), 0), np.float32), spans=spans)
