"""First codes of a mixture: records drawn from a tree of released two-way marginals.

Gradients alone turn independent codes into dependent ones slowly. A tree of the strongest pairs has a closed form, the
distribution of largest entropy with these marginals, from which records can be drawn: codes that start as such
records hold its dependence, the one along its branches included, and the fit has only the rest to do.
Source: Chow and Liu 1968; McKenna, Miklau, Sheldon 2021, arXiv:2108.04978 (trees of noisy marginals).
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from dpwgan.array_types import Floats, Floats32, Integers
from dpwgan.marginals.answers.zeros import Zeros, join
from dpwgan.marginals.draws import SystematicDraws, weigh_rows
from dpwgan.marginals.fit.absence import Absence
from dpwgan.marginals.groups import Edge, GroupLayout

_LEAST_PROBABILITY = 1e-6
# A code that is all record never learns, since a saturated softmax has no slope; one that is all distribution has lost
# its record.
_RECORD_SHARE = 0.9
_JITTER = 0.02

# Records drawn for each one that is kept, where leaving some out for rules would move shares.
_SPARE = 4


class Forest:
    """The components of a forest of attributes."""

    def __init__(self, attributes: int) -> None:
        self._part = list(range(attributes))

    def is_joined(self, edge: Edge) -> bool:
        """Whether a path leads from one end to the other."""
        return self._part[edge[0]] == self._part[edge[1]]

    def join(self, edge: Edge) -> None:
        """Adds an edge."""
        old, new = self._part[edge[1]], self._part[edge[0]]
        self._part = [new if part == old else part for part in self._part]


def draw_first_codes(
    layout: GroupLayout,
    tree: Sequence[Edge],
    *,
    one_ways: Sequence[Floats],
    get_conditional: Callable[[int, int], Floats],
    codes: int,
    rng: np.random.Generator,
    zeros: Zeros | None = None,
    absence: Absence | None = None,
) -> Floats32:
    """Draws records from the tree and gives logits near them: sharp inside the tree, soft at its leaves.

    Draws are systematic, so that each group gets its share of codes up to rounding. No record has a combination that is
    known to be empty (`zeros`), if what was drawn before leaves another; logits are sharp there, too. Leaving
    combinations out moves shares, and the fit could not move them back, since on its way a code would be of two kinds
    at once: so more records are drawn, and those kept that have the shares of all attributes with rules. Of a set of
    `absence` a code has all missing, or none.
    Shapes: `one_ways[a]` (size of a,); `get_conditional(a, b)` (size of a, size of b), rows adding to 1; the result
      (codes, width).
    """
    neighbours: dict[int, list[int]] = {attribute: [] for attribute in range(layout.attributes)}
    for left, right in tree:
        neighbours[left].append(right)
        neighbours[right].append(left)
    zeros, absence = zeros or {}, absence or Absence()
    ruled = {attribute for marginal in zeros for attribute in marginal}
    drawn = codes * _SPARE if ruled else codes
    values = np.zeros((drawn, layout.attributes), np.int64)
    logits = np.empty((drawn, layout.width), np.float32)
    seen, zeros = set[int](), join(zeros, absence.find_zeros())
    for root in sorted(neighbours, key=lambda attribute: -len(neighbours[attribute])):
        waiting: list[tuple[int | None, int]] = [] if root in seen else [(None, root)]
        while waiting:
            parent, child = waiting.pop()
            if parent is None:
                groups, table = np.zeros(drawn, np.int64), one_ways[child][np.newaxis]
            else:
                groups, table = values[:, parent], get_conditional(parent, child)
            if child in ruled or child in absence.missing:
                groups, table = _leave_out(zeros, child, values, groups, table, seen=seen)
            seen.add(child)
            values[:, child] = SystematicDraws(groups, count=len(table)).draw(table, rng=rng)
            spread = table[groups]
            if child in absence.missing:
                missing = absence.missing[child]
                spread = spread * (missing == missing[values[:, child], np.newaxis])
                spread /= spread.sum(axis=1, keepdims=True)
            if len(neighbours[child]) > 1 or child in ruled:
                spread = (1.0 - _RECORD_SHARE) * spread
                spread[np.arange(drawn), values[:, child]] += _RECORD_SHARE
            logits[:, layout.get_slice(child)] = np.log(np.maximum(spread, _LEAST_PROBABILITY))
            waiting += [(child, other) for other in neighbours[child] if other not in seen]
    if ruled:
        # In the order of their values, so that shares of groups are off by rounding alone.
        order = np.lexsort(values[:, sorted(ruled)].T)
        ends = np.cumsum(weigh_rows(values, {attribute: one_ways[attribute] for attribute in sorted(ruled)})[order])
        points = (np.arange(codes) + rng.random()) * (ends[-1] / codes)
        logits = logits[order[np.minimum(np.searchsorted(ends, points), drawn - 1)]]
    logits += np.float32(_JITTER) * rng.standard_normal(logits.shape, dtype=np.float32)
    return logits


def _leave_out(
    zeros: Zeros,
    child: int,
    values: Integers,
    groups: Integers,
    table: Floats,
    *,
    seen: Collection[int],
) -> tuple[Integers, Floats]:
    """The rows of an attribute's table that codes draw from, without what their earlier values rule out.

    Shapes: `values` (codes, attributes), `groups` (codes,), `table` (rows, size), to the like of the last two.
    """
    others = {m: [a for a in m if a != child] for m in zeros if child in m and set(m) - {child} <= set(seen)}
    if not others:
        return groups, table
    given = sorted({attribute for marginal in others.values() for attribute in marginal})
    _, firsts, places = np.unique(groups, return_index=True, return_inverse=True)
    for attribute in given:  # one at a time: all at once they would be sorted as bytes, which takes longer
        together = places * (values[:, attribute].max() + 1) + values[:, attribute]
        _, firsts, places = np.unique(together, return_index=True, return_inverse=True)
    kept = np.ones((len(firsts), table.shape[1]), np.bool_)
    for marginal, rest in others.items():
        flags = np.moveaxis(zeros[marginal], marginal.index(child), -1)
        kept &= ~flags[tuple(values[firsts, attribute] for attribute in rest)]
    rows = table[groups[firsts]]
    left = np.where(kept, rows, 0.0)
    left = np.where(left.sum(axis=1, keepdims=True) > 0, left, rows)
    return places, left / left.sum(axis=1, keepdims=True)
