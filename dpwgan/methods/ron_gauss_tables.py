"""A table under RON-Gauss: one-way counts class by class, then the covariance in a random orthonormal projection."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpwgan.array_types import AnyArray, Integers
from dpwgan.errors import UsageError
from dpwgan.gaussians.class_moments import (
    MOST_CLASSES,
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
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.one_way.merging import MOST_CELLS, coarsen
from dpwgan.marginals.one_way.one_ways import Blocks, OneWayPlan, begin_one_ways, name_look, plan_one_ways
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.settings import RonGaussSettings
from dpwgan.plan import Cost, Run
from dpwgan.privacy.events import DiscreteGaussian, Laplace, round_up_stddev
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, Span, TableShape

COVARIANCE_LABEL = "projected covariance"

MOST_DIMENSION = 1_024
"""The largest projection: its covariance has half a million numbers."""

MEAN_SHARE = 0.6
"""Without counts that are near the truth nothing else helps; a covariance of few dimensions is known well enough."""

# The noise of the covariance may push its eigenvalues by this many times their mean: the few large ones, which hold
# what hangs together, still stand out.
_MOST_NOISE = 4.0
# Points longer than this many times their mean square length are shortened to it.
_CLIP = 1.5


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
                    label=name_look(look),
                    event=event,
                    times=1,
                    mechanism=f"{kind} noise on all one-way counts together{of_sizes}"
                    if look == 0
                    else f"{kind} noise on finer counts",
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
            "mean_share": self.settings.mean_share or MEAN_SHARE,
            "columns_with_an_order": "one-hot" if self.one_hot else "ranks",
        }


def lay_out_table(
    counts: Noise, *, covariance: MatrixNoise, shape: TableShape, settings: RonGaussSettings
) -> RonGaussDesign:
    """Chooses coordinates and their dimension for releases whose noise was chosen. Privacy: of public facts only.

    Raises: UsageError for a label or a dimension that the table does not have.
    """
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


def choose_dimension(records: float, noise: MatrixNoise) -> int:
    """The largest dimension in which the covariance's noise pushes eigenvalues by so many times their mean.

    The eigenvalues' mean is at most n/p in a ball of radius 1, by the clip's margin less.
    Privacy: of public numbers only.
    """
    p = bearable_dimension(records, noise, push=_MOST_NOISE / _CLIP)
    return max(1, min(MOST_DIMENSION, int(p)))


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


def fit_table(plan: RonGaussDesign, run: Run) -> ClassSampler:
    """Measures counts and covariances class by class. Privacy: each release is charged before it reads rows."""
    encoded, ledger, progress = run.rows.own, run.ledger, run.progress
    tables: list[EncodedTable] = []
    measured, totals = [begin_one_ways(plan.one_way_plan)] * plan.classes, np.zeros(0)

    def count(look: int, blocks: Sequence[Blocks]) -> Integers:
        if not tables:
            tables.extend(split_classes(encoded, plan.label))
        sized = plan.label is not None and look == 0
        return count_classes(tables, plan.one_way_plan, look, blocks, sized=sized)

    for look in range(len(plan.histograms)):
        # Where a look goes is made of the looks before.
        blocks = [one_ways.choose_blocks(look) for one_ways in measured]
        noisy = ledger.release(name_look(look), partial(count, look, blocks))
        measured, sizes = read_classes(noisy, look, blocks, measured=measured)
        totals = sizes if look == 0 else totals
    progress(1, 2, ledger.epsilon_spent())
    # From here on, up to the covariance, all is made of the counts and of public randomness.
    records = np.array([float(run.rows.records)])
    if plan.label is not None:
        records = project_on_simplex(totals, np.ones(plan.classes), total=float(run.rows.records))
    drafts = [
        _draft(coarsen(one_ways, records=max(1, round(size)), least_count=0.0), plan, rng=run.model)
        for one_ways, size in zip(measured, records, strict=True)
    ]
    models = [model for model, _ in drafts]
    seen = [index for index, model in enumerate(models) if model.dimension > 0]

    def add_up() -> list[AnyArray]:
        return [write_products(_sum_products(*drafts[index], tables[index]), noise=plan.covariance) for index in seen]

    for index, noisy in zip(seen, ledger.release_all(COVARIANCE_LABEL, add_up), strict=True):
        model, radius = drafts[index]
        products = read_products(noisy, dimension=model.dimension) * (radius**2 / max(1.0, records[index]))
        models[index] = replace(model, factor=project_on_semidefinite(products))
    models = [replace(model, offsets=fit_offsets(model, rng=run.model)) for model in models]
    progress(2, 2, ledger.epsilon_spent())
    return ClassSampler(spans=encoded.spans, label=plan.label, shares=records / records.sum(), models=tuple(models))


def _draft(
    coarsening: Coarsening, plan: RonGaussDesign, *, rng: np.random.Generator
) -> tuple[ProjectedGaussian, float]:
    """Makes a class's model after its counts, without a covariance yet, and the radius of the ball in its projection.

    Of no dimension where every column is constant.
    """
    is_rank = tuple(
        # Two groups are one coordinate either way.
        part.size <= 2 or attribute.levels > 0 or (attribute.ordered and not plan.one_hot)
        for part, attribute in zip(coarsening.parts, coarsening.attributes, strict=True)
    )
    coordinates = Coordinates(probabilities=coarsening.probabilities, is_rank=is_rank)
    width, variance = coordinates.width, coordinates.variance
    dimension = min(plan.dimension, width) if variance > 0 else 0
    model = ProjectedGaussian(
        coarsening=coarsening,
        is_rank=is_rank,
        projection=draw_projection(width, dimension, rng=rng),
        factor=np.zeros((dimension, dimension)),
        offsets=np.zeros(width),
    )
    return model, math.sqrt(_CLIP * variance * dimension / width) if dimension else 1.0


def _sum_products(model: ProjectedGaussian, radius: float, encoded: EncodedTable) -> Integers:
    """Sums the products of the rows' points in the ball. The result is not released."""
    projection = model.projection / radius
    return sum_products(
        model.coarsening.to_groups(encoded),
        lambda groups: model.coordinates.project(groups, projection),
        dimension=model.dimension,
    )
