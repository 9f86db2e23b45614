"""Rows of groups that hang together, and codes of a mixture, both small and random; and what loops say of them."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dpwgan.marginals.answers.measurements import MeasuredMarginals, answer_marginal
from dpwgan.marginals.fit.mixture import Mixture
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.loss import Codes, Probabilities, ReleasedLoss, sum_gradients
from dpwgan.marginals.one_way.coarsening import CELLS, AttributeGroups, Coarsening, CoarseRows
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.rows import Rows
from tests.rows import hold

Floats = npt.NDArray[np.float64]


def make_groups(records: int, *, sizes: Sequence[int], seed: int) -> npt.NDArray[np.int32]:
    """Draws rows in which each attribute follows the one before it three times out of four."""
    rng = np.random.default_rng(seed)
    groups = np.empty((records, len(sizes)), np.int32)
    for attribute, size in enumerate(sizes):
        free = rng.choice(size, records, p=rng.dirichlet(np.ones(size)))
        tied = groups[:, attribute - 1] % size if attribute else free
        groups[:, attribute] = np.where(rng.random(records) < 0.75, tied, free)
    return groups


def make_probabilities(codes: int, *, sizes: Sequence[int], seed: int) -> npt.NDArray[np.float32]:
    """Draws each code's distribution of every attribute. Shapes: (codes, width)."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.dirichlet(np.full(size, 0.5), codes) for size in sizes]).astype(np.float32)


def make_halves(spans: tuple[Span, ...], *, cells: Sequence[int]) -> Coarsening:
    """Puts each attribute's cells into two groups, the lower half and the upper one."""
    return Coarsening(spans=spans, parts=tuple(make_part([0, count // 2], cells=count) for count in cells))


def make_part(
    starts: npt.ArrayLike,
    *,
    cells: int,
    groups: npt.ArrayLike | None = None,
    weights: Floats | None = None,
    counts: npt.ArrayLike | None = None,
    stddev: float = 1.0,
    **more: Any,
) -> AttributeGroups:
    """Intervals of cells that begin so, each a group by itself unless it is said; groups alike, and what is in them."""
    first = np.asarray(starts)
    of_intervals = np.arange(len(first)) if groups is None else np.asarray(groups)
    sizes = np.bincount(of_intervals)
    held = np.ones(len(sizes)) if counts is None else np.asarray(counts, float)
    return AttributeGroups(
        cells=cells,
        starts=first,
        groups=of_intervals.astype(np.int32),
        weights=1.0 / sizes[of_intervals] if weights is None else weights,
        probabilities=held / held.sum(),
        counts=held,
        stddevs=np.full(len(sizes), stddev),
        **more,
    )


def group_codes(cells: npt.NDArray[np.integer], groups: npt.NDArray[np.integer], *, stddev: float) -> AttributeGroups:
    """Codes in groups, as often as the cells of rows have them. Shapes: `groups` (codes,), none without a row."""
    counts = np.bincount(cells, minlength=len(groups)).astype(float)
    sums, many = np.bincount(groups, counts), len(groups)
    more = {"weights": counts / sums[groups], "counts": sums, "stddev": stddev, "codes": many}
    return make_part(np.arange(many), cells=many, groups=groups, **more)


def replace_row(groups: npt.NDArray[np.int32], row: int, *, by: Sequence[int]) -> npt.NDArray[np.int32]:
    """Gives the rows with one of them replaced."""
    other = groups.copy()
    other[row] = by
    return other


def make_mixture(codes: int, *, layout: GroupLayout, seed: int = 1, spread: float = 2.0) -> Mixture:
    """Draws the logits of a mixture."""
    rng = np.random.default_rng(seed)
    return Mixture(layout.sizes, (spread * rng.standard_normal((codes, layout.width))).astype(np.float32))


def list_cells(marginal: Marginal, layout: GroupLayout) -> list[tuple[int, ...]]:
    """All combinations of groups of a marginal."""
    return list(itertools.product(*(range(layout.sizes[attribute]) for attribute in marginal)))


def count_by_loop(groups: npt.NDArray[np.int32], marginal: Marginal, layout: GroupLayout) -> Floats:
    """The counts of a marginal, row by row."""
    counts = np.zeros([layout.sizes[attribute] for attribute in marginal])
    for row in groups:
        counts[tuple(row[attribute] for attribute in marginal)] += 1
    return counts


def answer_by_loop(probabilities: npt.NDArray[np.floating], marginal: Marginal, layout: GroupLayout) -> Floats:
    """The mean over codes of the product of their probabilities, cell by cell, in float64."""
    answers = np.zeros([layout.sizes[attribute] for attribute in marginal])
    for cell in list_cells(marginal, layout):
        places = [layout.starts[attribute] + group for attribute, group in zip(marginal, cell, strict=True)]
        answers[cell] = probabilities[:, places].astype(np.float64).prod(axis=1).mean()
    return answers


def find_slope(value: Callable[[Floats], float], at: Floats, *, step: float = 1e-5) -> Floats:
    """The slope of a function by differences, place by place."""
    slope = np.empty_like(at)
    for place in np.ndindex(*at.shape):
        change = np.zeros_like(at)
        change[place] = step
        slope[place] = (value(at + change) - value(at - change)) / (2 * step)
    return slope


def see(probabilities: Probabilities) -> Codes:
    """All codes of a generator. Shapes: (codes, width)."""
    rows = np.ascontiguousarray(probabilities.T)
    return Codes(rows, np.log(np.maximum(rows, np.float32(1e-12))), 1.0 / len(probabilities))


def loss_of(measured: MeasuredMarginals, probabilities: npt.NDArray[np.floating]) -> float:
    """Half the sum of squared errors over the variances that answers are kept with, marginal by marginal in float64."""
    loss, exact = 0.0, probabilities.astype(np.float64)
    for marginal in measured:
        one_way = measured.views.take(exact.T, marginal[0]).mean(axis=1)
        answer = answer_marginal(exact, marginal, measured.views) if len(marginal) > 1 else one_way
        error = answer - measured.get_shares(marginal)
        loss += 0.5 * float((measured._weights[marginal] * error**2).sum())
    return loss


def add_up_information(probabilities: npt.NDArray[np.floating], layout: GroupLayout) -> float:
    """Kullback-Leibler distance of the joint law of code and group from the product, one attribute after the other."""
    total = 0.0
    for attribute in range(layout.attributes):
        joint = probabilities[:, layout.get_slice(attribute)].astype(np.float64) / len(probabilities)
        total += float(special.rel_entr(joint, np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum())
    return total


def are_joined(attributes: Sequence[int], marginals: Iterable[Marginal]) -> bool:
    """Whether paths of pairs of those marginals, inside these attributes, lead from any of them to any other."""
    inside = set(attributes)
    pairs = {pair for found in marginals for pair in itertools.combinations(found, 2) if set(pair) <= inside}
    reached = {attributes[0]}
    for _ in attributes:
        reached |= {end for pair in pairs if set(pair) & reached for end in pair}
    return reached == inside


def add_up_gradients(losses: Iterable[ReleasedLoss], probabilities: Probabilities) -> Probabilities:
    """The gradient of a sum of losses in a generator's probabilities. Shapes: (codes, width) to the same."""
    return sum_gradients(losses, see(probabilities)).T


def coarsen(encoded: EncodedTable, *, block: int = 100) -> Coarsening:
    """Groups of so many levels each; missing codes and kinds by themselves."""
    parts = []
    for attribute in lay_out_attributes(encoded.spans):
        levels = np.arange(0, attribute.levels, block)
        starts = np.concatenate([np.arange(attribute.codes), attribute.codes + levels])
        cells = attribute.find_cells(encoded)
        counts = np.bincount(np.searchsorted(starts, cells, side="right") - 1, minlength=len(starts)) + 1e-6
        parts.append(make_part(starts, cells=attribute.cells, counts=counts, codes=attribute.codes))
    return Coarsening(spans=encoded.spans, parts=tuple(parts))


def hold_cells(encoded: EncodedTable, coarsening: Coarsening) -> Rows[CoarseRows]:
    """The rows of a run, beside their groups."""
    return hold(encoded).derive(CELLS, coarsening.to_document())


def draw_of_groups(encoded: EncodedTable, coarsening: Coarsening, *, seed: int = 7) -> EncodedTable:
    """Rows of the same groups: those of a fit that knows all of them."""
    return coarsening.to_encoded(coarsening.to_groups(encoded), rng=np.random.default_rng(seed))
