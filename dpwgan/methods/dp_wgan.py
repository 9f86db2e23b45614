"""DP-WGAN. Srivastava and Alzantot 2019: Differential Privacy Synthetic Data Generation using WGAN, Algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.accounting.budget import Budget, NeighboringRelation
from dpwgan.accounting.events import Charge
from dpwgan.encoded import EncodedTable, TableShape
from dpwgan.errors import ResourceError, UsageError
from dpwgan.generators.sampler import MlpSampler
from dpwgan.methods.base import Progress
from dpwgan.randomness import Streams
from dpwgan.training.plan import TrainingPlan, plan_training
from dpwgan.training.settings import DpWganSettings

if TYPE_CHECKING:
    from dpwgan.accounting.ledger import Ledger


class DpWgan:
    """A Wasserstein GAN whose critic reads rows through clipped, noised gradients; the generator sees the critic alone.

    Privacy: the only road from a row to the result is the critic's steps, each a Gaussian mechanism on a Poisson
      sample; the generator, its average and every sampled row are post-processing. See docs/privacy.md.
    """

    name = "dp-wgan"
    title = "Differentially private Wasserstein GAN"
    paper = (
        "M. Srivastava, M. Alzantot: Differential Privacy Synthetic Data Generation using WGAN, 2019 "
        "(UCLANESL entry to the NIST Differential Privacy Synthetic Data Challenge, Match 3)"
    )

    def make_settings(self, **asked: Any) -> DpWganSettings:
        """Checks settings by name. Raises: UsageError."""
        return DpWganSettings(**asked)

    def plan(
        self,
        shape: TableShape,
        budget: Budget,
        *,
        settings: DpWganSettings,
        accountant_rule: str,
        neighboring_relation: NeighboringRelation,
        other_charges: Sequence[Charge] = (),
    ) -> TrainingPlan:
        """Fixes batch, noise and steps. Privacy: sees the public shape only. Raises: PrivacyError."""
        return plan_training(
            shape,
            budget,
            settings=settings,
            accountant_rule=accountant_rule,
            neighboring_relation=neighboring_relation,
            other_charges=other_charges,
        )

    def fit(
        self,
        encoded: EncodedTable,
        plan: TrainingPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> MlpSampler:
        """Trains critic and generator for the planned steps.

        Privacy: each critic step is charged before it reads rows. Raises: PrivacyError, ResourceError, UsageError.
        """
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.training.device import prepare_device

        name = prepare_device(device, threads=threads)
        import tensorflow as tf

        from dpwgan.discriminators.critic import Critic
        from dpwgan.generators.mlp import MlpGenerator
        from dpwgan.training.generator_step import GeneratorStep
        from dpwgan.training.latents import LatentSource
        from dpwgan.training.loop import train

        if plan.settings.engine == "reference":
            from dpwgan.training.reference_step import ReferenceStep as CriticStep
        else:
            from dpwgan.training.private_step import FusedStep as CriticStep  # type: ignore[assignment]

        settings, spans, rng = plan.settings, plan.shape.spans, streams.model
        try:
            with tf.device(name):
                critic = Critic(spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=rng)
                generator = MlpGenerator(spans, latent=settings.latent, hidden=settings.hidden_generator, rng=rng)
                latents = LatentSource(latent=settings.latent, width=plan.shape.width, rng=rng)
                parts: dict[str, Any] = {"critic": critic, "generator": generator, "latents": latents, "plan": plan}
                generator_step = GeneratorStep(**parts)
                train(
                    plan,
                    critic_step=CriticStep(encoded, **parts),
                    generator_step=generator_step,
                    ledger=ledger,
                    streams=streams,
                    progress=progress,
                )
        except tf.errors.ResourceExhaustedError:
            raise ResourceError(f"the device {name} ran out of memory: use smaller layers or batches") from None
        weights = tuple(weight.numpy() for weight in generator_step.averaged_weights())
        # A function of released numbers: asking costs nothing.
        if not all(np.isfinite(weight).all() for weight in weights):
            raise UsageError("training ran off to numbers that are not finite: lower the learning rates")
        return MlpSampler(weights=weights, spans=spans)
