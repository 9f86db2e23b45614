"""RON-Gauss. Chanyaswad, Liu, Mittal 2019: RON-Gauss: Enhancing Utility in Non-Interactive Private Data Release.

A table has two releases, both class by class: one-way counts, then the covariance of its rows in a random orthonormal
projection. Images have the paper's own shape of release, which such counts are not: a picture of 784 pixels would be in
785 histograms. They have three: the classes' sizes and the mean of all pictures, the classes' mean pictures, and
covariances; in each, one picture moves one vector, or matrix, of length 1. Any method can have such a Gaussian with a
share of its budget: it chooses the events, `lay_out_releases` makes the rest of them and of the public shape.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError, PrivacyError, UsageError
from dpwgan.gaussians.class_moments import (
    COUNTS_REPLACE_ONE_FACTOR,
    COVARIANCE_REPLACE_ONE_FACTOR,
    MOST_CLASSES,
    PURE_REPLACE_ONE_FACTOR,
    RADIUS,
    MatrixNoise,
    Noise,
    bearable_dimension,
    count_classes,
    counts_sensitivity,
    leave_out,
    products_sensitivity,
    read_classes,
    read_products,
    split_classes,
    sum_products,
    write_products,
)
from dpwgan.gaussians.projected_gaussian import (
    ClassSampler,
    Coordinates,
    ProjectedGaussian,
    draw_projection,
    fit_offsets,
    project_on_semidefinite,
)
from dpwgan.images.basis import bend_basis, make_cosine_basis
from dpwgan.images.grid import ImageGrid, find_images
from dpwgan.images.moments import (
    MEANS_REPLACE_ONE_FACTOR,
    ImageProjection,
    centre_sensitivity,
    means_sensitivity,
    read_points,
    shrink_centre,
    shrink_covariance,
    shrink_means,
    sum_centre,
    sum_image_products,
    sum_means,
    weigh_sizes,
)
from dpwgan.images.sampler import GaussianImages, fit_pixels
from dpwgan.marginals.coarsening import MOST_CELLS, Coarsening, coarsen
from dpwgan.marginals.one_ways import Blocks, OneWayPlan, begin_one_ways, name_look, plan_one_ways
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.base import Run
from dpwgan.methods.settings import RonGaussSettings
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.accountants.accountant import BASIC
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, Wishart, round_up_stddev
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import AccountantChoice, Terms
from dpwgan.table.encoded import EncodedTable, Span, TableShape

Floats = npt.NDArray[np.float64]

COUNTS_LABEL = "one-way counts"
COVARIANCE_LABEL = "projected covariance"
CENTRE_LABEL = "class sizes and mean of projected images"
MEANS_LABEL = "class means of projected images"
IMAGE_COVARIANCE_LABEL = "covariance of projected images"

MOST_DIMENSION = 1_024
"""The largest projection: its covariance has half a million numbers."""

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
# A class of images gets a covariance of its own where noise lets this many dimensions be seen; else all share one.
_CLASS_DIMENSIONS = 64
# The root of a pixel's mean square from its class's mean, at most: black and white halves have 0.5, photographs 0.25.
_CONTRAST = 0.3
_LEAST_CONTRAST = 0.1


@dataclass(frozen=True, kw_only=True)
class RonGaussDesign:
    """Both releases of a table, and the projection's dimension, fixed before a row is read.

    `counts`, `covariance`: the noise of the two releases. `one_hot`: whether columns of codes that have an order are
    one-hot all the same, because the budget bears the width, or the dimension asked for has no use without.
    """

    shape: TableShape
    settings: RonGaussSettings
    counts: Noise
    covariance: MatrixNoise
    label: Span | None
    one_way_plan: OneWayPlan
    dimension: int
    one_hot: bool

    @property
    def classes(self) -> int:
        """Number of Gaussians."""
        return 1 if self.label is None else self.label.categories

    @property
    def histograms(self) -> tuple[int, ...]:
        """Number of histograms that a record is in, look by look, that of the classes among the first."""
        first, *others = self.one_way_plan.histograms
        return (first + (self.label is not None), *others)

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        of_sizes = "" if self.label is None else f" of every class of {self.label.column}, and on the classes' sizes"
        of_all = "" if self.label is None else ", of all classes together"
        covariance = type(self.covariance).__name__
        kind = "Laplace" if isinstance(self.counts, Laplace) else "discrete Gaussian"
        return [
            *(
                Release(
                    label=name_look(COUNTS_LABEL, look),
                    event=event,
                    times=1,
                    mechanism=f"{kind} noise on all one-way counts together{of_sizes}"
                    if look == 0
                    else f"{kind} noise on finer counts of numbers",
                    sensitivity=counts_sensitivity(event, histograms=histograms),
                    details={"histograms": histograms},
                )
                for look, (event, histograms) in enumerate(zip(self._events, self.histograms, strict=True))
            ),
            Release(
                label=COVARIANCE_LABEL,
                event=self.covariance,
                times=1,
                mechanism=f"{covariance} noise on the projected rows' covariance{of_all}",
                sensitivity=products_sensitivity(self.covariance),
                details={"dimension": self.dimension},
            ),
        ]

    @property
    def _events(self) -> list[Laplace | DiscreteGaussian]:
        """The noise of each look, the same on every count; together they are as private as `counts`."""
        total, noise = sum(self.histograms), self.counts
        if isinstance(noise, Laplace):
            return [replace(noise, epsilon=noise.epsilon * (histograms / total)) for histograms in self.histograms]
        # Counts are whole numbers, and so is their noise.
        stddev = round_up_stddev(noise.noise_multiplier * math.sqrt(total))
        return [DiscreteGaussian(stddev=stddev, cells=histograms) for histograms in self.histograms]

    @property
    def cost(self) -> Cost:
        """Rows of groups, histograms, projections and matrices; the time of fitting and of sampling.

        Measured on RAND HIE, adult, IPUMS and a made-up census, in 18 to 655 dimensions of widths of 18 to 3,358.
        """
        attributes, width, p = self.one_way_plan.attributes, _most_width(self.one_way_plan), self.dimension
        model = 8 * (4 * width * p + 8 * p**2)
        fit = p * (len(attributes) * 2e-9 + p * 5e-10) + width * 2e-9
        return Cost(
            row_bytes=self.shape.records * (8 * len(attributes) + 16),
            working_bytes=self.classes * (40 * self.one_way_plan.most_cells + model) + 128 * 2**20,
            seconds=0.8 + self.shape.records * (fit + width * p * 3e-10) + self.classes * (width + p) * p * p * 1e-9,
        )

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""
        return {
            "label": self.settings.label,
            "noise": self.settings.noise,
            "projection_dimension": self.dimension,
            "projection": "random",
            "mean_share": self.settings.mean_share or _MEAN_SHARE,
            "columns_with_an_order": "one-hot" if self.one_hot else "ranks",
        }


@dataclass(frozen=True, kw_only=True)
class RonGaussImageDesign:
    """All three releases of images, and the projections, fixed before a row is read.

    `centre`, `means`, `covariance`: their events. `centre_dimension`, `means_dimension`, `covariance_dimension`: how
    many of the basis's first directions each sees. `by_class`: whether each class has a covariance, or all share the
    one within classes.
    """

    shape: TableShape
    settings: RonGaussSettings
    centre: Noise
    means: Noise
    covariance: MatrixNoise
    grid: ImageGrid
    centre_dimension: int
    means_dimension: int
    covariance_dimension: int
    by_class: bool

    @property
    def projection(self) -> Literal["cosine", "random"]:
        """What the basis is: the lowest frequencies, or random directions."""
        return self.settings.projection or "cosine"

    @property
    def dimension(self) -> int:
        """Number of directions in the basis."""
        return max(self.centre_dimension, self.means_dimension, self.covariance_dimension)

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        points, matrices = type(self.means).__name__, type(self.covariance).__name__
        whose = f"{'each class' if self.by_class else 'all classes'} of {self.grid.label.column}"
        why = ": continuous, since points are not whole" if isinstance(self.centre, Gaussian) else ""
        return [
            Release(
                label=CENTRE_LABEL,
                event=self.centre,
                times=1,
                mechanism=f"{points} noise on the classes' sizes and the sum of all projected images, together{why}",
                sensitivity=centre_sensitivity(self.centre, dimension=self.centre_dimension),
                details={"dimension": self.centre_dimension},
            ),
            Release(
                label=MEANS_LABEL,
                event=self.means,
                times=1,
                mechanism=f"{points} noise on the classes' sums of projected images, all together",
                sensitivity=means_sensitivity(self.means, dimension=self.means_dimension),
                details={"dimension": self.means_dimension},
            ),
            Release(
                label=IMAGE_COVARIANCE_LABEL,
                event=self.covariance,
                times=1,
                mechanism=f"{matrices} noise on the projected images' covariance, {whose}",
                sensitivity=products_sensitivity(self.covariance),
                details={"dimension": self.covariance_dimension},
            ),
        ]

    @property
    def cost(self) -> Cost:
        """The rows, the basis, matrices and the model; the time of the fit.

        Measured on MNIST at epsilon 1 and 10, in 49, 309 and 784 dimensions.
        """
        pixels, p, classes = len(self.grid.sources), self.dimension, self.grid.classes
        matrices = classes if self.by_class else 1
        model = 8 * pixels * (3 * p + 12 * classes + 2 * matrices * p) + 8 * p * p * (4 * matrices + 6)
        rows = self.shape.records * p * (pixels * 3e-10 + p * 1e-10)
        return Cost(
            row_bytes=4 * self.shape.records * (pixels + 1),
            working_bytes=model + 192 * 2**20,
            seconds=0.5 + rows + classes * (pixels * 5e-5 + p**3 * 6e-10),
        )

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""
        return {
            "label": self.grid.label.column,
            "noise": self.settings.noise,
            "projection": self.projection,
            "projection_dimension": {
                "centre": self.centre_dimension,
                "means": self.means_dimension,
                "covariance": self.covariance_dimension,
            },
            "mean_share": self.settings.mean_share or _MEAN_SHARE_OF_IMAGES,
            "covariance": "one a class" if self.by_class else "one within all classes",
        }


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
        share = settings.mean_share or (_MEAN_SHARE if grid is None else _MEAN_SHARE_OF_IMAGES)
        rest = 1.0 - _CENTRE_SHARE
        shares = [share, 1.0 - share] if grid is None else [_CENTRE_SHARE, rest * share, rest * (1.0 - share)]
        if settings.noise == "laplace":
            choice = _choose_laplace(terms, shares=shares)
            design = _lay_out(shape, settings=settings, events=[event for event, _ in choice.chosen_charges])
            return Plan(design=design, shape=shape, choice=choice)
        lay_out = partial(lay_out_gaussians, shape, settings=settings, shares=shares)
        choice = terms.calibrate(lambda scale: lay_out(scale=scale).releases)
        return Plan(design=lay_out(scale=choice.noise), shape=shape, choice=choice)

    def fit(self, plan: Plan[RonGaussDesign | RonGaussImageDesign], run: Run) -> ClassSampler | GaussianImages:
        """Measures counts, or means, and covariances. Privacy: each release is charged before it reads rows.

        Raises: PrivacyError from the ledger.
        """
        return measure_gaussians(plan.design, run)


def measure_gaussians(design: RonGaussDesign | RonGaussImageDesign, run: Run) -> ClassSampler | GaussianImages:
    """Measures what is laid out, and fits the Gaussians to it. Privacy: each release is charged before it reads rows.

    Raises: PrivacyError from the ledger.
    """
    return _fit_images(design, run) if isinstance(design, RonGaussImageDesign) else _fit_table(design, run)


# ------------------------------------------------------------------------------------------------------------- plans


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
    events = [
        Gaussian(noise_multiplier=scale / math.sqrt(share), replace_one_factor=factor)
        for share, factor in zip(shares, factors, strict=True)
    ]
    return _lay_out(shape, settings=settings, events=events)


def _lay_out(
    shape: TableShape, *, settings: RonGaussSettings, events: Sequence[Event]
) -> RonGaussDesign | RonGaussImageDesign:
    """Chooses coordinates and dimensions of releases whose noise was chosen, `events` in their order."""
    *others, covariance = events
    if not isinstance(covariance, (Wishart, Gaussian)):
        raise DpwganError("Internal error: a covariance has other noise than was planned.")
    noises = [event for event in others if isinstance(event, (Laplace, Gaussian))]
    grid = _find_images(shape, settings)
    if len(noises) != (1 if grid is None else 2):
        raise DpwganError("Internal error: counts or means have other noise than was planned.")
    if grid is None:
        return _lay_out_table(*noises, covariance=covariance, shape=shape, settings=settings)
    return _lay_out_images(*noises, covariance=covariance, grid=grid, shape=shape, settings=settings)


def _find_images(shape: TableShape, settings: RonGaussSettings) -> ImageGrid | None:
    grid = find_images(shape)
    return grid if grid is not None and settings.label in (None, grid.label.column) else None


def _lay_out_table(
    counts: Noise, *, covariance: MatrixNoise, shape: TableShape, settings: RonGaussSettings
) -> RonGaussDesign:
    label = _find_label(shape.spans, settings.label)
    spans = shape.spans if label is None else leave_out(shape.spans, label)
    if not spans:
        raise UsageError("ron-gauss needs a column to train on" + (" besides its label" if label else ""))
    one_way_plan = plan_one_ways(spans)
    bearable = choose_dimension(shape.records / (1 if label is None else label.categories), covariance)
    most_width, least_width = _most_width(one_way_plan), _most_width(one_way_plan, ranks=True)
    dimension = settings.projection_dimension
    one_hot = most_width <= bearable if dimension is None else dimension > least_width
    if dimension is not None and dimension > most_width:
        raise UsageError(
            f"projection-dimension must be at most {most_width}, the number of coordinates that the columns have"
        )
    return RonGaussDesign(
        shape=shape,
        settings=settings,
        counts=counts,
        covariance=covariance,
        label=label,
        one_way_plan=one_way_plan,
        dimension=dimension or min(bearable, most_width if one_hot else least_width),
        one_hot=one_hot,
    )


def _lay_out_images(
    centre: Noise,
    means: Noise,
    *,
    covariance: MatrixNoise,
    grid: ImageGrid,
    shape: TableShape,
    settings: RonGaussSettings,
) -> RonGaussImageDesign:
    pixels, classes, records = len(grid.sources), grid.classes, shape.records
    most, dimension = min(pixels, MOST_DIMENSION), settings.projection_dimension
    if dimension is not None and dimension > most:
        raise UsageError(f"projection-dimension must be from 1 to {most:,} for images of {pixels:,} pixels")
    by_class = bearable_dimension(records / classes, covariance, push=1.0) >= _CLASS_DIMENSIONS
    seen = records / classes if by_class else records
    # Shrinkage sets right what is too noisy of each class, so that a class may have as many directions as all.
    of_covariance = max(bearable_dimension(seen, covariance, push=1.0), _CLASS_DIMENSIONS * 2.0 if by_class else 1.0)
    return RonGaussImageDesign(
        shape=shape,
        settings=settings,
        centre=centre,
        means=means,
        covariance=covariance,
        grid=grid,
        # Half of the first release is spent on the sizes.
        centre_dimension=dimension or _choose_means_dimension(records / 2.0, centre, most=most),
        means_dimension=dimension or _choose_means_dimension(records / classes, means, most=most),
        covariance_dimension=dimension or max(1, min(most, int(of_covariance))),
        by_class=by_class,
    )


def choose_dimension(records: float, noise: MatrixNoise) -> int:
    """The largest dimension in which the covariance's noise pushes eigenvalues by so many times their mean.

    The eigenvalues' mean is at most n/p in a ball of radius 1, by the clip's margin less.
    Privacy: of public numbers only.
    """
    p = bearable_dimension(records, noise, push=_MOST_NOISE / _CLIP)
    return max(1, min(MOST_DIMENSION, int(p)))


def _choose_means_dimension(records: float, noise: Noise, *, most: int) -> int:
    """The largest p at which the noise on a class's mean, coordinate by coordinate, is at most 1/p of the radius.

    All of it together is then 1/sqrt p of the radius. Of public numbers only.
    """
    if isinstance(noise, Laplace):
        # sqrt 2 sqrt p/(n E) <= 1/p.
        p = (records * noise.epsilon / math.sqrt(2.0)) ** (2.0 / 3.0)
    else:
        p = records / noise.noise_multiplier
    return max(1, min(most, int(p)))


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


# ------------------------------------------------------------------------------------------------------------ a table


def _fit_table(plan: RonGaussDesign, run: Run) -> ClassSampler:
    encoded, ledger, progress = run.rows.own, run.ledger, run.progress
    tables: list[EncodedTable] = []
    measured, totals = [begin_one_ways(plan.one_way_plan)] * plan.classes, np.zeros(0)

    def count(look: int, blocks: Sequence[Blocks]) -> npt.NDArray[np.int64]:
        if not tables:
            tables.extend(split_classes(encoded, plan.label))
        sized = plan.label is not None and look == 0
        return count_classes(tables, plan.one_way_plan, look, blocks, sized=sized)

    for look in range(len(plan.histograms)):
        # Where a look goes is made of the looks before.
        blocks = [one_ways.choose_blocks(look) for one_ways in measured]
        noisy = ledger.release(name_look(COUNTS_LABEL, look), partial(count, look, blocks))
        measured, sizes = read_classes(noisy, look, blocks, measured=measured)
        totals = sizes if look == 0 else totals
    progress(1, 2, ledger.epsilon_spent())
    # From here on, up to the covariance, all is made of the counts and of public randomness.
    records = np.array([float(run.rows.records)])
    if plan.label is not None:
        records = project_on_simplex(totals, np.ones(plan.classes), total=float(run.rows.records))
    drafts = [
        _draft(coarsen(one_ways, records=max(1, round(size)), least_count=0.0), plan, records=size, rng=run.model)
        for one_ways, size in zip(measured, records, strict=True)
    ]
    seen = [index for index, draft in enumerate(drafts) if draft.dimension > 0]

    def add_up() -> list[npt.NDArray[Any]]:
        return [write_products(drafts[index].sum_products(tables[index]), noise=plan.covariance) for index in seen]

    released = ledger.release_all(COVARIANCE_LABEL, add_up)
    matrices = {
        index: read_products(noisy, dimension=drafts[index].dimension)
        for index, noisy in zip(seen, released, strict=True)
    }
    models = tuple(draft.finish(matrices.get(index), rng=run.model) for index, draft in enumerate(drafts))
    progress(2, 2, ledger.epsilon_spent())
    return ClassSampler(spans=encoded.spans, label=plan.label, shares=records / records.sum(), models=models)


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


def _draft(coarsening: Coarsening, plan: RonGaussDesign, *, records: float, rng: np.random.Generator) -> _Draft:
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


# ------------------------------------------------------------------------------------------------------------- images


def _fit_images(plan: RonGaussImageDesign, run: Run) -> GaussianImages:
    encoded, ledger, progress = run.rows.own, run.ledger, run.progress
    grid, total = plan.grid, float(plan.shape.records)
    projection = _make_projection(plan, rng=run.model)
    first = projection.take(plan.centre_dimension)
    noisy = ledger.release(CENTRE_LABEL, lambda: sum_centre(encoded, first, noise=plan.centre))
    progress(1, 3, ledger.epsilon_spent())
    # From here on, up to the next release, all is made of the earlier ones and of public numbers.
    released, stddev = read_points(noisy, plan.centre)
    sizes = released[: grid.classes] * (RADIUS / weigh_sizes(plan.centre_dimension, plan.centre))
    records = project_on_simplex(sizes, np.ones(grid.classes), total=total)
    shares = records / records.sum()
    mean = shrink_centre(released[grid.classes :] / total, first.bands, variance=(stddev / total) ** 2)
    picture = np.clip(0.5 + first.radius * mean @ first.basis, 0.0, 1.0)
    if plan.projection == "cosine":
        bent = bend_basis(projection.basis, picture, least_variance=_LEAST_CONTRAST**2)
        projection = replace(projection, basis=bent)
    centre = projection.basis @ (picture - 0.5)

    second = projection.take(plan.means_dimension)
    radius = _choose_radius(picture[np.newaxis], np.ones(1), second)
    noisy = ledger.release(
        MEANS_LABEL,
        lambda: sum_means(encoded, second, centre=centre[: second.dimension], radius=radius, noise=plan.means),
    )
    progress(2, 3, ledger.epsilon_spent())
    sums, stddev = read_points(noisy, plan.means)
    means = np.zeros((grid.classes, plan.dimension))
    means[:, : second.dimension] = radius * shrink_means(sums, records, second.bands, stddev=stddev, total=total)
    pictures = np.clip(picture + means @ projection.basis, 0.0, 1.0)

    # Where classes share a covariance, what is released is that of all pictures about the centre; what the classes'
    # means explain of it is taken off, so that an error of theirs is in the parts and not in the whole.
    third, p = projection.take(plan.covariance_dimension), plan.covariance_dimension
    centres = centre[:p] + (means[:, :p] if plan.by_class else np.zeros((1, p)))
    if plan.by_class:
        reach, counted = _choose_radius(pictures, shares, third), np.maximum(records, 1.0)
    else:
        reach, counted = _choose_radius(picture[np.newaxis], np.ones(1), third), np.array([total])
    matrices = ledger.release_all(
        IMAGE_COVARIANCE_LABEL,
        lambda: [
            write_products(products, noise=plan.covariance)
            for products in sum_image_products(encoded, third, centres=centres, radius=reach)
        ],
    )
    progress(3, 3, ledger.epsilon_spent())
    between = 0.0 if plan.by_class else (means[:, :p] * records[:, np.newaxis]).T @ means[:, :p] / reach**2
    covariances = np.zeros((len(matrices), plan.dimension, plan.dimension))
    for covariance, noisy, size in zip(covariances, matrices, counted, strict=True):
        products = read_products(noisy, dimension=p) - between
        covariance[:p, :p] = shrink_covariance(products, third.bands, noise=plan.covariance) * (reach**2 / size)
    return fit_pixels(grid, pictures=pictures, basis=projection.basis, covariances=covariances, shares=shares)


def _make_projection(plan: RonGaussImageDesign, *, rng: np.random.Generator) -> ImageProjection:
    """Makes the basis. Privacy: of public facts and public randomness."""
    if plan.projection == "cosine":
        basis, bands = make_cosine_basis(plan.grid.shape, dimension=plan.dimension)
        return ImageProjection(grid=plan.grid, basis=basis, bands=bands)
    basis = draw_projection(len(plan.grid.sources), plan.dimension, rng=rng).T
    return ImageProjection(grid=plan.grid, basis=basis, bands=np.zeros(plan.dimension, np.int64), random=True)


def _choose_radius(pictures: Floats, shares: Floats, projection: ImageProjection) -> float:
    """A ball's radius: no pixel of a mean has more variance than a coin. Of earlier releases only.

    A public contrast bounds it too, and in random directions the share of the square that they hold.
    """
    square, pixels = float(shares @ (pictures * (1.0 - pictures)).sum(axis=1)), projection.pixels
    square = min(max(square, _LEAST_CONTRAST**2 * pixels), _CONTRAST**2 * pixels)
    return math.sqrt(square * projection.share)


# ------------------------------------------------------------------------------------------------------------- budgets


def _choose_laplace(terms: Terms, *, shares: Sequence[float]) -> AccountantChoice:
    """Splits epsilon between the releases; the sum is epsilon, whoever adds it up.

    Raises: PrivacyError if the other charges leave nothing.
    """
    budget = terms.budget
    # Sums are rounded up by the accountant; this is more than all of it.
    left = (budget.epsilon - terms.get_epsilon(BASIC)) * (1 - 1e-9)
    if not left > 0:
        raise PrivacyError(f"The other charges leave nothing of the budget of epsilon {budget.epsilon:g}.")
    replacing = terms.neighboring_relation is NeighboringRelation.REPLACE_ONE
    factor = PURE_REPLACE_ONE_FACTOR
    epsilons = [share * left / ((factor if replacing else 1.0) * terms.unit.rows) for share in shares]
    events: list[Event] = [Laplace(epsilon=epsilon, replace_one_factor=factor) for epsilon in epsilons[:-1]]
    events.append(Wishart(epsilon=epsilons[-1], replace_one_factor=factor))
    charges = [(event, 1) for event in events]
    total = terms.get_epsilon(BASIC, charges)
    if not total <= budget.epsilon:
        raise PrivacyError(f"The planned releases would cost epsilon {total:.6g} of {budget.epsilon:g}.")
    return AccountantChoice(
        accountant=BASIC,
        terms=terms,
        noise=1 / left,
        chosen_charges=tuple(charges),
        reason=(
            "releases with Laplace and Wishart noise have an epsilon each and no delta; epsilons are added, "
            "whatever accountant is asked for: "
            + ", ".join(f"{share * left:.4g}" for share in shares)
            + " in the order of the ledger."
        ),
    )
