"""The settings of the marginals and of the fit to them."""

from dataclasses import dataclass

from dpwgan.settings import MethodSettings, setting

MARGINALS = "training: marginals and the fit to them"


@dataclass(frozen=True, kw_only=True)
class AnchorSettings(MethodSettings):
    """How marginals are chosen and fitted; None stands for a choice that the plan makes from public facts.

    `rounds`: marginals asked for beyond those of the tree. `most_cells` is a public limit. `information_weight`: what a
    nat between codes and columns weighs against one of a record's likelihood.
    Raises: UsageError for a value out of its range.
    """

    heading = MARGINALS

    rounds: int | None = setting(
        None,
        "marginals asked for beyond those of the first tree; networks, for one-layer",
        at_least=0,
        at_most=10_000,
    )
    ways: int | None = setting(None, "columns in a marginal, at most", at_least=2, at_most=7)
    most_cells: int = setting(16_384, "cells that a marginal may have, at most", at_least=4, at_most=10_000_000)
    codes: int | None = setting(None, "latent codes of the generator", at_least=2, at_most=1_000_000)
    fit_steps: int | None = setting(
        None, "steps of the last fit to all that was measured", at_least=1, at_most=1_000_000
    )
    fit_learning_rate: float = setting(0.1, "learning rate of that fit", above=0, at_most=10)
    information_weight: float | None = setting(
        None, "how much codes are kept from differing beyond what the answers ask", at_least=0, at_most=1_000
    )
