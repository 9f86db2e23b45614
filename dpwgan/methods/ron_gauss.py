"""RON-Gauss. Chanyaswad, Liu, Mittal 2019: RON-Gauss: Enhancing Utility in Non-Interactive Private Data Release."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError, PrivacyError, UsageError
from dpwgan.gaussians.class_moments import (
    MatrixNoise,
    Noise,
    bearable_dimension,
    counts_replace_one_factor,
    counts_sensitivity,
    covariance_replace_one_factor,
    leave_out,
    measure_classes,
    measure_products,
    products_sensitivity,
    split_classes,
    sum_products,
)
from dpwgan.gaussians.projected_gaussian import (
    ClassSampler,
    Coordinates,
    ProjectedGaussian,
    fit_offsets,
)
from dpwgan.images.image_moments import MEANS_REPLACE_ONE_FACTOR
from dpwgan.images.projected_images import ImageSampler, fit_pixels
from dpwgan.images.projection import draw_projection, project_on_semidefinite
from dpwgan.marginals.coarsening import MOST_CELLS, Coarsening, coarsen
from dpwgan.marginals.one_ways import OneWayPlan, plan_one_ways
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.base import Progress
from dpwgan.methods.image_gaussian import (
    ImageGaussianPlan,
    find_images,
    plan_image_gaussian,
    release_image_gaussian,
)
from dpwgan.methods.settings import RonGaussSettings
from dpwgan.privacy.accountants.basic import BASIC
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.choose import FamilyChoice, choose_accountant_for_family
from dpwgan.privacy.events import Charge, Event, Gaussian, Laplace, Wishart, gaussian, laplace, wishart
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, Span, TableShape

Floats = npt.NDArray[np.float64]

COUNTS_LABEL = "one-way counts"
COVARIANCE_LABEL = "projected covariance"

MOST_DIMENSION = 1_024
"""The largest projection: its covariance has half a million numbers."""

MOST_CLASSES = 128
"""A label of more classes would leave few records to each, and all the noise."""

# Without counts that are near the truth nothing else helps; a covariance of few dimensions is known well enough.
_MEAN_SHARE = 0.6
# Of images the mean of all is known of many more records than a class's, and needs little; of the rest means need a bit
# more than the covariance, which has the more records.
_CENTRE_SHARE = 0.1
_MEAN_SHARE_OF_IMAGES = 0.55
# The noise of the covariance may push its eigenvalues by this many times their mean: the few large ones, which hold
# what hangs together, still stand out.
_MOST_NOISE = 4.0
# Points longer than this many times their mean square length are shortened to it.
_CLIP = 1.5


@dataclass(frozen=True, kw_only=True)
class RonGaussPlan:
    """Both releases of a run, and the projection's dimension, fixed before a row is read.

    `counts`, `covariance`: the events of the two releases. `one_hot`: whether columns of codes that have an order are
    one-hot all the same, because the budget bears the width, or the dimension asked for has no use without.
    """

    shape: TableShape
    settings: RonGaussSettings
    label: Span | None
    one_way_plan: OneWayPlan
    dimension: int
    one_hot: bool
    counts: Noise
    covariance: MatrixNoise
    choice: FamilyChoice

    @property
    def classes(self) -> int:
        """Number of Gaussians."""
        return 1 if self.label is None else self.label.categories

    @property
    def one_ways_noise_multiplier(self) -> float:
        """Noise of the one-way counts over their joint sensitivity. Raises: UsageError under Laplace noise."""
        if not isinstance(self.counts, Gaussian):
            raise UsageError("Laplace noise has no noise multiplier")
        return self.counts.noise_multiplier

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        kind = "Laplace" if isinstance(self.counts, Laplace) else "Gaussian"
        of_matrix = "Wishart" if isinstance(self.covariance, Wishart) else "Gaussian"
        histograms = self.one_way_plan.histograms + (self.label is not None)
        where = "" if self.label is None else f" of every class of {self.label.column}, and on the classes' sizes"
        return [
            Release(
                label=COUNTS_LABEL,
                event=self.counts,
                times=1,
                mechanism=f"{kind} noise on all one-way counts together{where}",
                sensitivity=counts_sensitivity(self.counts, histograms=histograms),
                details={"histograms": histograms},
            ),
            Release(
                label=COVARIANCE_LABEL,
                event=self.covariance,
                times=1,
                mechanism=f"{of_matrix} noise on the projected rows' covariance"
                + ("" if self.label is None else ", of all classes together"),
                sensitivity=products_sensitivity(self.covariance),
                details={"dimension": self.dimension},
            ),
        ]

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the fit holds at its peak: rows of groups, histograms, projections and matrices."""
        levels = sum(attribute.cells for attribute in self.one_way_plan.attributes)
        model = 8 * (4 * _most_width(self.one_way_plan) * self.dimension + 8 * self.dimension**2)
        return int(self.row_bytes + self.classes * (40 * levels + model) + 128 * 2**20)

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return self.shape.records * (8 * len(self.one_way_plan.attributes) + 16)

    @property
    def seconds(self) -> float:
        """Estimate of the time that fitting and sampling take on two cores.

        Measured on RAND HIE, adult, IPUMS and a made-up census, in 18 to 655 dimensions of widths of 18 to 3,358.
        """
        width, p = _most_width(self.one_way_plan), self.dimension
        fit = p * (len(self.one_way_plan.attributes) * 2e-9 + p * 5e-10) + width * 2e-9
        return 0.8 + self.shape.records * (fit + width * p * 3e-10) + self.classes * (width + p) * p * p * 1e-9

    def summary(self) -> dict[str, Any]:
        """Gives the settings, those asked for and those chosen, as JSON-able pairs."""
        return {
            "label": self.settings.label,
            "noise": self.settings.noise,
            "projection_dimension": self.dimension,
            "projection": "random",
            "mean_share": self.settings.mean_share or _MEAN_SHARE,
            "columns_with_an_order": "one-hot" if self.one_hot else "ranks",
        }


@dataclass(frozen=True, kw_only=True)
class RonGaussImagePlan:
    """A run on images: all releases as `dpwgan.methods.image_gaussian` has them, fixed before a row is read."""

    images: ImageGaussianPlan
    settings: RonGaussSettings
    mean_share: float
    choice: FamilyChoice

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        return self.images.releases

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the fit holds at its peak."""
        return self.images.memory_bytes

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return self.images.row_bytes

    @property
    def seconds(self) -> float:
        """Estimate of the time that the fit takes on two cores."""
        return self.images.seconds

    def summary(self) -> dict[str, Any]:
        """Gives the settings, those asked for and those chosen, as JSON-able pairs."""
        return {
            "label": self.images.label.column,
            "noise": self.settings.noise,
            "projection": self.images.projection,
            "projection_dimension": {
                "centre": self.images.centre_dimension,
                "means": self.images.means_dimension,
                "covariance": self.images.covariance_dimension,
            },
            "mean_share": self.mean_share,
            "covariance": "one a class" if self.images.by_class else "one within all classes",
        }


class RonGauss:
    """A Gaussian with a private mean and, in a random orthonormal projection, a private covariance; or one a class.

    Images, where every column is a pixel or the label, get a mean vector a class in place of one-way counts.

    Privacy: two releases, both charged before rows are read; `dpwgan.gaussians.class_moments` and
      `dpwgan.images.image_moments` have their sensitivities. With the noise laplace the run is purely epsilon-DP. See
      docs/ron-gauss.md, also for what the paper states otherwise.
    Source: Chanyaswad, Liu, Mittal 2019, arXiv:1709.00054, Algorithms 1 and 3.
    """

    name = "ron-gauss"
    title = "Gaussian in an orthonormal projection (RON-Gauss)"
    paper = (
        "T. Chanyaswad, C. Liu, P. Mittal: RON-Gauss: Enhancing Utility in Non-Interactive Private Data Release, 2019"
    )

    def make_settings(self, **asked: Any) -> RonGaussSettings:
        """Checks settings by name. Raises: UsageError."""
        return RonGaussSettings.make(self.name, asked)

    def plan(
        self,
        shape: TableShape,
        budget: Budget,
        *,
        settings: RonGaussSettings,
        accountant_rule: str,
        neighboring_relation: NeighboringRelation,
        other_charges: Sequence[Charge] = (),
    ) -> RonGaussPlan | RonGaussImagePlan:
        """Fixes both releases, their noise and the dimension. Privacy: sees the public shape only.

        Raises: UsageError for a label that is no column of codes or a dimension beyond the table's width, PrivacyError
          if the budget cannot be met.
        """
        grid = find_images(shape)
        if grid is not None and settings.label in (None, grid.label.column):
            return _plan_images(
                shape,
                budget,
                settings=settings,
                accountant_rule=accountant_rule,
                neighboring_relation=neighboring_relation,
                other_charges=other_charges,
            )
        if settings.projection == "cosine":
            raise UsageError(
                "the projection cosine is for images whose every column is a pixel that is a number, or the label of "
                f"{MOST_CLASSES} categories at most; other tables have the projection random"
            )
        label = _find_label(shape.spans, settings.label)
        spans = shape.spans if label is None else leave_out(shape.spans, label)
        if not spans:
            raise UsageError("ron-gauss needs a column to train on" + (" besides its label" if label else ""))
        make_choice = _choose_laplace if settings.noise == "laplace" else _choose_gaussian
        share = settings.mean_share or _MEAN_SHARE
        choice = make_choice(
            accountant_rule,
            budget,
            releases=(
                _Release(share, counts_replace_one_factor),
                _Release(1.0 - share, covariance_replace_one_factor, of_matrices=True),
            ),
            neighboring_relation=neighboring_relation,
            other_charges=other_charges,
        )
        (counts, _), (covariance, _) = choice.chosen_charges
        return lay_out_releases(
            shape,
            settings=settings,
            counts=refuse_other_noise(counts),
            covariance=refuse_other_matrix_noise(covariance),
            choice=choice,
        )

    def fit(
        self,
        encoded: EncodedTable,
        plan: RonGaussPlan | RonGaussImagePlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> ClassSampler | ImageSampler:
        """Measures counts, or means, and covariances. Privacy: each release is charged before it reads rows.

        `device` and `threads` have nothing to do here.
        Raises: PrivacyError from the ledger.
        """
        if isinstance(plan, RonGaussImagePlan):
            return _fit_images(encoded, plan, streams=streams, ledger=ledger, progress=progress)
        ledger.charge(COUNTS_LABEL)
        tables = split_classes(encoded, plan.label)
        measured = measure_classes(
            tables, plan.one_way_plan, sized=plan.label is not None, noise=plan.counts, rng=streams.noise
        )
        progress(1, 2, ledger.epsilon_spent())
        # From here on, up to the second release, all is made of the first one and of public randomness.
        records = _share_out(measured.totals, records=encoded.records, classes=plan.classes)
        drafts = [
            _draft(
                coarsen(one_ways, records=max(1, round(size)), least_count=0.0),
                plan,
                records=size,
                rng=streams.model,
            )
            for one_ways, size in zip(measured.classes, records, strict=True)
        ]
        ledger.charge(COVARIANCE_LABEL)
        seen = [draft for draft in drafts if draft.dimension > 0]
        matrices: dict[int, Floats] = {}
        if seen:
            sums = [
                draft.sum_products(table) for table, draft in zip(tables, drafts, strict=True) if draft.dimension > 0
            ]
            released = measure_products(sums, noise=plan.covariance, rng=streams.noise)
            matrices = {id(draft): matrix for draft, matrix in zip(seen, released, strict=True)}
        models = tuple(draft.finish(matrices.get(id(draft)), rng=streams.model) for draft in drafts)
        progress(2, 2, ledger.epsilon_spent())
        return ClassSampler(spans=encoded.spans, label=plan.label, shares=records / records.sum(), models=models)


def _fit_images(
    encoded: EncodedTable, plan: RonGaussImagePlan, *, streams: Streams, ledger: Ledger, progress: Progress
) -> ImageSampler:
    done = itertools.count(1)
    moments = release_image_gaussian(
        encoded,
        plan.images,
        streams=streams,
        ledger=ledger,
        told=lambda: progress(next(done), 3, ledger.epsilon_spent()),
    )
    images = plan.images
    return fit_pixels(
        moments, spans=encoded.spans, label=images.label, sources=np.array(images.sources), levels=images.levels
    )


def lay_out_releases(
    shape: TableShape, *, settings: RonGaussSettings, counts: Noise, covariance: MatrixNoise, choice: FamilyChoice
) -> RonGaussPlan:
    """Chooses coordinates and dimension of a table's releases, whose noise was chosen by the caller.

    Privacy: of public facts only. Raises: UsageError for a label or a dimension that the table does not have.
    """
    label = _find_label(shape.spans, settings.label)
    one_way_plan = plan_one_ways(shape.spans if label is None else leave_out(shape.spans, label))
    records = shape.records / (1 if label is None else label.categories)
    bearable = choose_dimension(records, covariance)
    most_width, least_width = _most_width(one_way_plan), _most_width(one_way_plan, ranks=True)
    dimension = settings.projection_dimension
    one_hot = most_width <= bearable if dimension is None else dimension > least_width
    if dimension is not None and dimension > most_width:
        raise UsageError(
            f"projection-dimension must be at most {most_width}, the number of coordinates that the columns have"
        )
    return RonGaussPlan(
        shape=shape,
        settings=settings,
        label=label,
        one_way_plan=one_way_plan,
        dimension=dimension or min(bearable, most_width if one_hot else least_width),
        one_hot=one_hot,
        counts=counts,
        covariance=covariance,
        choice=choice,
    )


def choose_dimension(records: float, noise: MatrixNoise) -> int:
    """Gives the largest dimension in which the covariance's noise pushes eigenvalues by so many times their mean.

    The eigenvalues' mean is at most n/p in a ball of radius 1, by the clip's margin less.
    Privacy: of public numbers only.
    """
    p = bearable_dimension(records, noise, push=_MOST_NOISE / _CLIP)
    return max(1, min(MOST_DIMENSION, int(p)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Draft:
    """One class after its counts, before its covariance. Units: `radius` is that of the ball in the projection."""

    coarsening: Coarsening
    coordinates: Coordinates
    projection: Floats
    radius: float
    records: float

    @property
    def dimension(self) -> int:
        """Dimensions of the projection; 0 where every column is constant."""
        return int(self.projection.shape[1])

    def sum_products(self, encoded: EncodedTable) -> npt.NDArray[np.int64]:
        """Adds up the products of the rows' places in the ball. What it gives is not released."""
        projection = self.projection / self.radius
        return sum_products(
            self.coarsening.to_groups(encoded),
            lambda groups: self.coordinates.project(groups, projection),
            dimension=self.dimension,
        )

    def finish(self, products: Floats | None, *, rng: np.random.Generator) -> ProjectedGaussian:
        """Makes the model of the released sums. Privacy: post-processing."""
        factor = np.zeros((self.dimension, self.dimension))
        if products is not None:
            factor = project_on_semidefinite(products * (self.radius**2 / max(1.0, self.records)))
        model = ProjectedGaussian(
            coarsening=self.coarsening,
            is_rank=self.coordinates.is_rank,
            projection=self.projection,
            factor=factor,
            offsets=np.zeros(self.coordinates.width),
        )
        return replace(model, offsets=fit_offsets(model, rng=rng))


def _draft(coarsening: Coarsening, plan: RonGaussPlan, *, records: float, rng: np.random.Generator) -> _Draft:
    is_rank = tuple(
        # Two groups are one coordinate either way.
        part.size <= 2 or attribute.levels > 0 or (attribute.ordered and not plan.one_hot)
        for part, attribute in zip(coarsening.parts, coarsening.attributes, strict=True)
    )
    coordinates = Coordinates(probabilities=coarsening.probabilities, is_rank=is_rank)
    width, variance = coordinates.width, coordinates.variance
    dimension = min(plan.dimension, width) if variance > 0 else 0
    return _Draft(
        coarsening=coarsening,
        coordinates=coordinates,
        projection=draw_projection(width, dimension, rng=rng),
        radius=math.sqrt(_CLIP * variance * dimension / width) if dimension else 1.0,
        records=records,
    )


def _find_label(spans: Sequence[Span], name: str | None) -> Span | None:
    if name is None:
        return None
    mine = [span for span in spans if span.column == name]
    if not mine:
        raise UsageError(f"label must name a column of the specs that is trained on; there is none named {name}")
    if len(mine) > 1 or mine[0].head == "linear":
        raise UsageError(f"the label {name} must be a column of categories or bins, not of numbers")
    if mine[0].categories > MOST_CLASSES:
        raise UsageError(f"the label {name} has {mine[0].categories} classes; {MOST_CLASSES} at most can be told apart")
    return mine[0]


def _most_width(plan: OneWayPlan, *, ranks: bool = False) -> int:
    """The most coordinates that the columns can have together; with `ranks`, where an order makes one of a column."""
    return sum(
        1 if attribute.levels or (ranks and attribute.ordered) else min(attribute.cells, MOST_CELLS)
        for attribute in plan.attributes
    )


def _share_out(totals: Floats | None, *, records: int, classes: int) -> Floats:
    """Gives each class a number of records, none negative, that add to the public total."""
    if totals is None:
        return np.array([float(records)])
    return project_on_simplex(totals, np.ones(classes), total=float(records))


class _Release(NamedTuple):
    """A release's share of the budget, what a replaced record moves it by, and whether it is of matrices."""

    share: float
    factor: Callable[[type[Any]], float]
    of_matrices: bool = False


def _plan_images(
    shape: TableShape,
    budget: Budget,
    *,
    settings: RonGaussSettings,
    accountant_rule: str,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
) -> RonGaussImagePlan:
    share = settings.mean_share or _MEAN_SHARE_OF_IMAGES
    make_choice = _choose_laplace if settings.noise == "laplace" else _choose_gaussian
    rest = 1.0 - _CENTRE_SHARE
    choice = make_choice(
        accountant_rule,
        budget,
        releases=(
            _Release(_CENTRE_SHARE, lambda _: MEANS_REPLACE_ONE_FACTOR),
            _Release(rest * share, lambda _: MEANS_REPLACE_ONE_FACTOR),
            _Release(rest * (1.0 - share), covariance_replace_one_factor, of_matrices=True),
        ),
        neighboring_relation=neighboring_relation,
        other_charges=other_charges,
    )
    (centre, _), (means, _), (covariance, _) = choice.chosen_charges
    images = plan_image_gaussian(
        shape,
        centre=refuse_other_noise(centre),
        means=refuse_other_noise(means),
        covariance=refuse_other_matrix_noise(covariance),
        projection=settings.projection or "cosine",
        dimension=settings.projection_dimension,
    )
    return RonGaussImagePlan(images=images, settings=settings, mean_share=share, choice=choice)


def refuse_other_noise(event: Event) -> Noise:
    """Gives the event of counts or means as what it must be. Raises: DpwganError."""
    if not isinstance(event, (Laplace, Gaussian)):
        raise DpwganError("Internal error: counts or means have other noise than was planned.")
    return event


def refuse_other_matrix_noise(event: Event) -> MatrixNoise:
    """Gives the event of a covariance as what it must be. Raises: DpwganError."""
    if not isinstance(event, (Wishart, Gaussian)):
        raise DpwganError("Internal error: a covariance has other noise than was planned.")
    return event


def _choose_laplace(
    rule: str,
    budget: Budget,
    *,
    releases: Sequence[_Release],
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
) -> FamilyChoice:
    """Splits epsilon between the releases; the sum is epsilon, whoever adds it up.

    Raises: PrivacyError if the other charges leave nothing.
    """
    spent = BASIC.get_epsilon(other_charges, delta=budget.delta, neighboring_relation=neighboring_relation)
    # Sums are rounded up by the accountant; this is more than all of it.
    left = (budget.epsilon - spent) * (1 - 1e-9)
    if not left > 0:
        raise PrivacyError(f"The other charges leave nothing of the budget of epsilon {budget.epsilon:g}.")
    replacing = neighboring_relation is NeighboringRelation.REPLACE_ONE
    charges: list[Charge] = []
    for release in releases:
        factor = release.factor(Wishart if release.of_matrices else Laplace)
        make = wishart if release.of_matrices else laplace
        epsilon = release.share * left / (factor if replacing else 1.0)
        charges.append((make(epsilon=epsilon, replace_one_factor=factor), 1))
    total = BASIC.get_epsilon((*other_charges, *charges), delta=budget.delta, neighboring_relation=neighboring_relation)
    if not total <= budget.epsilon:
        raise PrivacyError(f"The planned releases would cost epsilon {total:.6g} of {budget.epsilon:g}.")
    return FamilyChoice(
        accountant=BASIC,
        rule=rule,
        budget=budget,
        neighboring_relation=neighboring_relation,
        noise=1 / left,
        chosen_charges=tuple(charges),
        other_charges=tuple(other_charges),
        reason=(
            "releases with Laplace and Wishart noise have an epsilon each and no delta; epsilons are added, "
            "whatever accountant is asked for: "
            + ", ".join(f"{release.share * left:.4g}" for release in releases)
            + " in the order of the ledger."
        ),
        alternatives=(),
    )


def _choose_gaussian(
    rule: str,
    budget: Budget,
    *,
    releases: Sequence[_Release],
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
) -> FamilyChoice:
    """Chooses the accountant and the least noise, rho split between the releases. Raises: PrivacyError."""
    return choose_accountant_for_family(
        rule,
        budget=budget,
        charges=lambda scale: [
            (
                gaussian(
                    noise_multiplier=scale / math.sqrt(release.share), replace_one_factor=release.factor(Gaussian)
                ),
                1,
            )
            for release in releases
        ],
        neighboring_relation=neighboring_relation,
        other_charges=other_charges,
    )
