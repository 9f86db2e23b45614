"""The settings of every method, in a file of their own: --help reads them without loading the methods.

Raises: all of them UsageError, for a value out of its range and for what does not go together.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpwgan.critic.settings import CRITIC, DpWganSettings
from dpwgan.errors import UsageError
from dpwgan.marginals.settings import MARGINALS, AnchorSettings
from dpwgan.settings import MethodSettings, again, asked_of, declared, setting

GAUSSIAN = "training: the Gaussian in a random projection"

# What a critic without an anchor has: a generator of its own, a slow engine to compare, noise that is given.
ALONE = ("hidden_generator", "latent", "engine", "noise_multiplier")
_ANCHORED: Mapping[str, Any] = {"hidden_critic": (64,), "generator_steps": 1, "generator_learning_rate": 0.01}
# Each step of the generator goes over all codes and all answers, and costs as much as many of the critic's.
_ANCHORED_STEPS: Mapping[str, Any] = {"critic_steps_per_generator_step": 5, "steps": 50}

_OF_ONE_LAYER = ("oracle", "rounds", "codes", "fit_learning_rate")
_OF_PUBLISHED = ("private_part", "prior_share", "hidden_critic", "hidden_generator", "latent", "steps")


@dataclass(frozen=True, kw_only=True)
class AnchoredSettings(MethodSettings):
    """Settings of the DP-WGAN: its critic's, and the anchor's that the generator is fitted to first.

    `critic_share`, in units of rho: see docs/utility.md for what it buys. `critic_weight`, in units of log-likelihood a
    record.
    """

    heading = CRITIC

    anchor: Literal["queries", "none"] = setting(
        "queries",
        "what holds the generator beside the critic: marginals asked for one at a time, or nothing (default: queries)",
    )
    critic_share: float = setting(0.005, "share of the budget that the critic gets beside an anchor", above=0, below=1)
    critic_weight: float = setting(
        1e-4, "weight of the critic's score beside the anchor's loss", at_least=0, at_most=1_000
    )
    critic: DpWganSettings = field(default_factory=DpWganSettings)
    fit: AnchorSettings = field(default_factory=AnchorSettings)

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds the defaults that a critic has beside an anchor."""
        if asked.get("anchor") == "none":
            if "critic_share" in asked or "critic_weight" in asked:
                raise UsageError(f"without an anchor the method {method} has no critic-share and no critic-weight")
            _refuse(cls, asked, declared(AnchorSettings), f"without an anchor the method {method} has no setting {{}}")
            return super().complete(method, asked)
        _refuse(
            cls, asked, ALONE, f"beside an anchor the method {method} has no setting {{}}: it needs the anchor none"
        )
        defaults = _ANCHORED if "steps" in asked or "epochs" in asked else {**_ANCHORED, **_ANCHORED_STEPS}
        return {**defaults, **asked}


@dataclass(frozen=True, kw_only=True)
class QueryGanSettings(MethodSettings):
    """Settings of QueryGAN: those of the fit, and which family of discriminators plays."""

    heading = MARGINALS

    oracle: Literal["marginals", "one-layer"] = setting(
        "marginals", "query-gan only: what looks for the generator's errors (default: marginals)"
    )
    fit: AnchorSettings = field(default_factory=AnchorSettings)

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuses what does not go together."""
        if asked.get("oracle") == "one-layer":
            others = declared(cls).keys() - set(_OF_ONE_LAYER)
            _refuse(cls, asked, others, "with one-layer networks there is no setting {}")
            if asked.get("rounds") == 0:
                raise UsageError("one-layer networks need at least one round")
        return super().complete(method, asked)


@dataclass(frozen=True, kw_only=True)
class RonGaussSettings(MethodSettings):
    """Settings of RON-Gauss; None stands for a choice that the plan makes from public facts.

    `noise`: laplace, with Wishart noise on matrices, is pure epsilon; gaussian composes better. `mean_share`: of
    epsilon, or of rho for Gaussian noise.
    """

    heading = GAUSSIAN

    label: str | None = setting(
        None,
        "the column of categories whose classes get a Gaussian each (default: one for all rows; of images, the label "
        "in their layout)",
        metavar="COLUMN",
        form="the name of a column",
    )
    # A covariance of 1,024 dimensions has half a million numbers.
    projection_dimension: int | None = setting(
        None, "dimensions of the orthonormal projection", at_least=1, at_most=1_024
    )
    noise: Literal["laplace", "gaussian"] = setting(
        "laplace",
        "laplace: pure epsilon, no delta is spent; gaussian: composes better (default: laplace; for independent what "
        "is less)",
    )
    mean_share: float | None = setting(
        None, "share of the budget that the one-way counts, or the means of images, get", above=0, below=1
    )
    projection: Literal["cosine", "random"] | None = setting(
        None,
        "cosine: the lowest frequencies of images; random: directions drawn at random, as published (default: cosine "
        "for images, random for all else)",
    )


@dataclass(frozen=True, kw_only=True)
class IndependentSettings(MethodSettings):
    """Settings of the baseline. `noise` None takes what is less."""

    heading = GAUSSIAN

    noise: Literal["laplace", "gaussian"] | None = again(RonGaussSettings, "noise", None)


@dataclass(frozen=True, kw_only=True)
class DpGanSettings(MethodSettings):
    """Settings of the DP-GAN.

    `training`: the networks' and the steps' settings by name; what is not named is chosen by the plan.
    `projection_dimension`: coordinates of an image that the private discriminator sees.
    """

    heading = CRITIC

    private_part: Literal["discriminator", "generator"] = setting(
        "discriminator",
        "dp-gan and ron-dp-gan only: whose gradients get noise; generator is as published, and has no guarantee "
        "(default: discriminator)",
    )
    training: Mapping[str, Any] = asked_of(DpWganSettings, but=("engine",))
    projection_dimension: int | None = again(RonGaussSettings, "projection_dimension")

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuses what does not go together."""
        if asked.get("private_part") == "generator":
            others = declared(cls).keys() - set(_OF_PUBLISHED)
            sentence = f"with the private-part generator the method {method} has no setting {{}}: as published"
            _refuse(cls, asked, others, sentence)
        return super().complete(method, asked)


@dataclass(frozen=True, kw_only=True)
class RonDpGanSettings(DpGanSettings):
    """Settings of the DP-GAN with a prior. `prior_share` is in units of rho."""

    prior_share: float = setting(
        0.7,
        "ron-dp-gan only: share of the budget that the latents' prior gets",
        heading=GAUSSIAN,
        above=0,
        below=1,
    )

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuses what does not go together."""
        if "latent" in asked:
            raise UsageError(f"the method {method} has no setting latent: the prior is the latent's law")
        return super().complete(method, asked)


@dataclass(frozen=True, kw_only=True)
class GameSettings(MethodSettings):
    """Settings of a published game of two networks; None stands for a choice that the plan makes from public facts.

    `label` may only name the label of a table of images. `expected_batch_size` is the number of rows that a critic
    step reads. `hidden_critic`, `hidden_generator`: widths for tables; images have convolutions of their own.
    """

    label: str | None = again(RonGaussSettings, "label", heading=CRITIC)
    hidden_critic: tuple[int, ...] | None = again(DpWganSettings, "hidden_critic", None)
    hidden_generator: tuple[int, ...] | None = again(DpWganSettings, "hidden_generator", None)
    latent: int = again(DpWganSettings, "latent", 100)
    expected_batch_size: int | None = again(DpWganSettings, "expected_batch_size", at_most=100_000)
    critic_steps_per_generator_step: int = again(DpWganSettings, "critic_steps_per_generator_step")
    steps: int | None = again(DpWganSettings, "steps")
    generator_learning_rate: float = again(DpWganSettings, "generator_learning_rate", 1e-3)
    critic_learning_rate: float = again(DpWganSettings, "critic_learning_rate", 3e-4)


@dataclass(frozen=True, kw_only=True)
class DpCriticSettings(GameSettings):
    """Settings of the DP-critic; `l2_clip_norm` belongs to `formal`."""

    formal: bool = setting(
        False,
        "dp-critic only: train the critic privately, for a guarantee, and not as published",
        heading=CRITIC,
    )
    l2_clip_norm: float | None = again(DpWganSettings, "l2_clip_norm", None)

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds the defaults that go with `formal`."""
        formal = asked.get("formal", False)
        if not formal and "l2_clip_norm" in asked:
            raise UsageError(f"the method {method} has a clip-norm with --formal only")
        # The paper has 5 critic steps at 1e-4, for runs of many thousand generator steps; here there are hundreds.
        defaults = {
            "critic_steps_per_generator_step": 1 if formal else 5,
            "generator_learning_rate": 5e-3 if formal else 1e-3,
            "critic_learning_rate": 1e-3,
        }
        return {**defaults, **asked}


def _refuse(owner: type[MethodSettings], asked: Mapping[str, Any], names: Container[str], sentence: str) -> None:
    """Raises: UsageError for a setting asked for that is among `names`; the sentence has a place for it."""
    for name in asked:
        if name in names:
            raise UsageError(sentence.format(declared(owner)[name].name))
