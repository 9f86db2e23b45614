"""Combinations of groups that rules between columns forbid: known to be empty, at no cost to privacy.

Whether a combination of groups is forbidden is told by cells that stand for all of it: every cell where an attribute
has few, else the ends of its intervals and whatever the rule's constants and its other columns part. Where those do not
speak for all (arithmetic on a long range, say) a rule has no part in the fit, and sampling alone sees to it.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpwgan.marginals.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.groups import Marginal
from dpwgan.marginals.layout import Attribute, Cells
from dpwgan.marginals.zeros import Flags, Zeros
from dpwgan.table.encoded import EncodedTable, RowRule

_MOST_ATTRIBUTES = 3
# An attribute with no more cells than this is looked at whole.
_FEW_CELLS = 512
_MOST_ROWS = 1 << 19


def find_zeros(coarsening: Coarsening, rules: Sequence[RowRule]) -> Zeros:
    """Finds the combinations of groups of which every cell breaks a rule. Privacy: public rules, released groups."""
    places = {attribute.column: place for place, attribute in enumerate(coarsening.attributes)}
    zeros: dict[Marginal, Flags] = {}
    for rule in rules:
        marginal = tuple(sorted(places[name] for name in rule.columns))
        found = _judge(coarsening, rule, marginal) if len(marginal) <= _MOST_ATTRIBUTES else None
        if found is not None and found.any() and not found.all():
            zeros[marginal] = zeros.get(marginal, np.False_) | found
    return zeros


def _judge(coarsening: Coarsening, rule: RowRule, marginal: Marginal) -> Flags | None:
    """Which combinations of groups break a rule throughout; None where that cannot be told."""
    attributes = [coarsening.attributes[index] for index in marginal]
    parts = [coarsening.parts[index] for index in marginal]
    numbers = list(rule.numbers)
    for attribute, part in zip(attributes, parts, strict=True):
        if attribute.cells > _FEW_CELLS:
            if attribute.column in rule.opaque or attribute.column not in rule.ranges or not attribute.levels:
                return None
            numbers += _list_ends(attribute, part, rule.ranges[attribute.column])
    chosen = [_choose_cells(attribute, part, rule, numbers) for attribute, part in zip(attributes, parts, strict=True)]
    if math.prod(len(cells) for cells in chosen) > _MOST_ROWS:
        return None
    rows = np.indices([len(cells) for cells in chosen]).reshape(len(chosen), -1)
    encoded = _make_rows(coarsening, rows.shape[1])
    groups = []
    for attribute, part, cells, row in zip(attributes, parts, chosen, rows, strict=True):
        attribute.put_cells(cells[row], into=encoded)
        groups.append(part.find_groups(cells)[row])
    kept = ~rule.break_rows(encoded)
    sizes = [part.size for part in parts]
    counts = np.bincount(np.ravel_multi_index(groups, sizes)[kept], minlength=math.prod(sizes))
    empty: Flags = (counts == 0).reshape(sizes)
    return empty


def _make_rows(coarsening: Coarsening, rows: int) -> EncodedTable:
    numbers = sum(span.head == "linear" for span in coarsening.spans)
    return EncodedTable(
        codes=np.zeros((rows, len(coarsening.spans) - numbers), np.int32),
        numbers=np.zeros((rows, numbers), np.float32),
        spans=coarsening.spans,
    )


def _list_ends(attribute: Attribute, part: AttributeGroups, ends: tuple[float, float]) -> list[float]:
    """The numbers at both ends of an attribute's intervals, of a column with this range."""
    starts = part.starts[part.starts >= attribute.codes] - attribute.codes
    levels = np.append(starts, [*(starts[1:] - 1), attribute.levels - 1])
    numbers: list[float] = (ends[0] + attribute.scale_levels(levels) * (ends[1] - ends[0])).tolist()
    return numbers


def _choose_cells(attribute: Attribute, part: AttributeGroups, rule: RowRule, numbers: Sequence[float]) -> Cells:
    """Cells of an attribute that stand for all: all of them, or those at and beside the given numbers.

    Left out are those that are never drawn.
    """
    cells: Cells = np.arange(attribute.cells)
    if attribute.cells > _FEW_CELLS:
        minimum, maximum = rule.ranges[attribute.column]
        scaled = (np.array(numbers) - minimum) / (maximum - minimum)
        levels = attribute.find_levels(scaled[(scaled >= 0) & (scaled <= 1)].astype(np.float32))
        around = np.concatenate([levels + offset for offset in (-1, 0, 1)]).clip(0, attribute.levels - 1)
        cells = np.unique(np.append(cells[: attribute.codes], attribute.codes + around))
    intervals = np.searchsorted(part.starts, cells, side="right") - 1
    drawn: Cells = cells[part.weights[intervals] > 0]
    return drawn
