"""RON-Gauss. Chanyaswad, Liu, Mittal 2019: RON-Gauss: Enhancing Utility in Non-Interactive Private Data Release.

`ron_gauss_tables` and `ron_gauss_images` say what is released. Any method can have such a Gaussian with a share of its
budget: `lay_out_gaussians` and `measure_gaussians`.
"""

import math
from collections.abc import Sequence
from functools import partial

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.gaussians.class_moments import (
    COUNTS_REPLACE_ONE_FACTOR,
    COVARIANCE_REPLACE_ONE_FACTOR,
    MOST_CLASSES,
    PURE_REPLACE_ONE_FACTOR,
    MatrixNoise,
    Noise,
)
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.grid import ImageGrid, find_images
from dpwgan.images.moments import MEANS_REPLACE_ONE_FACTOR
from dpwgan.images.sampler import GaussianImages
from dpwgan.methods.ron_gauss_images import (
    CENTRE_SHARE,
    MEAN_SHARE_OF_IMAGES,
    RonGaussImageDesign,
    fit_images,
    lay_out_images,
)
from dpwgan.methods.ron_gauss_tables import MEAN_SHARE, RonGaussDesign, fit_table, lay_out_table
from dpwgan.methods.settings import RonGaussSettings
from dpwgan.plan import Plan, Run
from dpwgan.privacy.accountants.accountant import BASIC
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, Gaussian, Laplace, Wishart
from dpwgan.privacy.terms import AccountantChoice, Terms
from dpwgan.table.encoded import TableShape


class RonGauss:
    """A Gaussian with a private mean and, in a random orthonormal projection, a private covariance; or one a class.

    Images, where every column is a pixel or the label, get a mean vector a class in place of one-way counts.

    Privacy: two or three releases, each charged before rows are read; `dpwgan.gaussians.class_moments` and
      `dpwgan.images.moments` have their sensitivities. With the noise laplace the run is purely epsilon-DP. See
      docs/ron-gauss.md, also for what the paper states otherwise.
    Source: Chanyaswad, Liu, Mittal 2019, arXiv:1709.00054, Algorithms 1 and 3.
    """

    name = "ron-gauss"
    title = "Gaussian in an orthonormal projection (RON-Gauss)"
    paper = (
        "T. Chanyaswad, C. Liu, P. Mittal: RON-Gauss: Enhancing Utility in Non-Interactive Private Data Release, 2019"
    )

    def plan(
        self, shape: TableShape, terms: Terms, *, settings: RonGaussSettings
    ) -> Plan[RonGaussDesign | RonGaussImageDesign]:
        """Fixes all releases, their noise and the dimensions. Privacy: sees the public shape only.

        Raises: UsageError for a label that is no column of codes or a dimension beyond the table's width, PrivacyError
          if the budget cannot be met.
        """
        grid = _find_images(shape, settings)
        if grid is None and settings.projection == "cosine":
            raise UsageError(
                "the projection cosine is for images whose every column is a pixel that is a number, or the label of "
                f"{MOST_CLASSES} categories at most; other tables have the projection random"
            )
        share = settings.mean_share or (MEAN_SHARE if grid is None else MEAN_SHARE_OF_IMAGES)
        rest = 1.0 - CENTRE_SHARE
        shares = [share, 1.0 - share] if grid is None else [CENTRE_SHARE, rest * share, rest * (1.0 - share)]
        if settings.noise == "laplace":
            noises, covariance, choice = _choose_laplace(terms, shares=shares)
            design = _lay_out(shape, noises, covariance, settings=settings)
            return Plan(design=design, shape=shape, choice=choice)
        lay_out = partial(lay_out_gaussians, shape, settings=settings, shares=shares)
        choice = terms.calibrate(lambda scale: lay_out(scale=scale).releases)
        return Plan(design=lay_out(scale=choice.noise), shape=shape, choice=choice)

    def fit(self, plan: Plan[RonGaussDesign | RonGaussImageDesign], run: Run) -> ClassSampler | GaussianImages:
        """Measures counts, or means, and covariances, as `measure_gaussians` does."""
        return measure_gaussians(plan.design, run)


def measure_gaussians(design: RonGaussDesign | RonGaussImageDesign, run: Run) -> ClassSampler | GaussianImages:
    """Takes the planned releases, and fits the Gaussians. Privacy: each release is charged before it reads rows.

    Raises: PrivacyError from the ledger.
    """
    return fit_images(design, run) if isinstance(design, RonGaussImageDesign) else fit_table(design, run)


def lay_out_gaussians(
    shape: TableShape, *, settings: RonGaussSettings, shares: Sequence[float], scale: float
) -> RonGaussDesign | RonGaussImageDesign:
    """Splits rho by the shares between releases with Gaussian noise, and chooses their coordinates and dimensions.

    What a replaced record moves, over what a zeroed one does, holds whatever coordinates are chosen.
    Privacy: of public facts only. Units: `scale` is the noise of one release for it all.
    Raises: UsageError for a label or a dimension that the table does not have.
    """
    factors = [COUNTS_REPLACE_ONE_FACTOR, COVARIANCE_REPLACE_ONE_FACTOR]
    if _find_images(shape, settings) is not None:
        factors = [MEANS_REPLACE_ONE_FACTOR, MEANS_REPLACE_ONE_FACTOR, COVARIANCE_REPLACE_ONE_FACTOR]
    *noises, covariance = (
        Gaussian(noise_multiplier=scale / math.sqrt(share), replace_one_factor=factor)
        for share, factor in zip(shares, factors, strict=True)
    )
    return _lay_out(shape, noises, covariance, settings=settings)


def _lay_out(
    shape: TableShape, noises: Sequence[Noise], covariance: MatrixNoise, *, settings: RonGaussSettings
) -> RonGaussDesign | RonGaussImageDesign:
    """Chooses coordinates and dimensions of releases whose noise was chosen, `noises` in their order."""
    grid = _find_images(shape, settings)
    if grid is None:
        return lay_out_table(*noises, covariance=covariance, shape=shape, settings=settings)
    return lay_out_images(*noises, covariance=covariance, grid=grid, shape=shape, settings=settings)


def _find_images(shape: TableShape, settings: RonGaussSettings) -> ImageGrid | None:
    grid = find_images(shape)
    return grid if grid is not None and settings.label in (None, grid.label.column) else None


def _choose_laplace(terms: Terms, *, shares: Sequence[float]) -> tuple[list[Laplace], Wishart, AccountantChoice]:
    """Splits epsilon between the releases; the sum is epsilon, whoever adds it up.

    Raises: PrivacyError if the other charges leave nothing.
    """
    budget = terms.budget
    # Sums are rounded up by the accountant; this is more than all of it.
    others = terms.get_epsilon(BASIC)
    if math.isinf(others):
        raise PrivacyError(
            "What else the run releases, such as counts of linked rows, has Gaussian noise, of which no epsilon is "
            "proved without a delta: ask for Gaussian noise on all of it (--noise gaussian)"
        )
    left = (budget.epsilon - others) * (1 - 1e-9)
    if not left > 0:
        raise PrivacyError(f"The other charges leave nothing of the budget of epsilon {budget.epsilon:g}.")
    replacing = terms.neighboring_relation is NeighboringRelation.REPLACE_ONE
    factor = PURE_REPLACE_ONE_FACTOR
    epsilons = [share * left / ((factor if replacing else 1.0) * terms.unit.rows) for share in shares]
    noises = [Laplace(epsilon=epsilon, replace_one_factor=factor) for epsilon in epsilons[:-1]]
    covariance = Wishart(epsilon=epsilons[-1], replace_one_factor=factor)
    charges: list[Charge] = [*((event, 1) for event in noises), (covariance, 1)]
    total = terms.get_epsilon(BASIC, charges)
    if not total <= budget.epsilon:
        raise PrivacyError(f"The planned releases would cost epsilon {total:.6g} of {budget.epsilon:g}.")
    reason = (
        "releases with Laplace and Wishart noise have an epsilon each and no delta; epsilons are added, whatever "
        f"accountant is asked for: {', '.join(f'{share * left:.4g}' for share in shares)} in the order of the ledger."
    )
    choice = AccountantChoice(
        accountant=BASIC, terms=terms, noise=1 / left, chosen_charges=tuple(charges), reason=reason
    )
    return noises, covariance, choice
