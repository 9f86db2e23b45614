"""How rows of a unit hang together in its linked columns: each row beside the one before it. NOT private."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Integers32
from dpwgan.table.codecs.codec import ReadCodec
from dpwgan.table.schema import CategoricalColumn, Schema
from dpwgan.table.units.forms import read_kinds
from dpwgan.table.units.links import list_order, put_in_order
from dpwgan.table.units.units import Units

LEAST_PAIRS = 100
"""Pairs of rows in both tables: of fewer nothing is said."""

ORDERED, LISTED = "rank correlation with the row before", "share of rows equal to the row before"


@dataclass(frozen=True, kw_only=True)
class Link:
    """What pairs of rows say of a column: how many there are, and the measure, None where there are none."""

    column: str
    measure: str
    pairs: int
    value: float | None


class LinkedRows:
    """The legal rows of a table, read piece by piece, by their linked columns and what they are in the order of."""

    def __init__(self, schema: Schema, codecs: Mapping[str, ReadCodec]) -> None:
        self._schema, self._codecs, self._order = schema, codecs, list_order(schema)
        self._linked = () if schema.unit is None else schema.unit.linked
        self._legal: list[Flags] = []
        self._kinds: list[Integers32] = []
        self._values: list[pl.DataFrame] = []

    def read(self, frame: pl.DataFrame, legal: Flags) -> None:
        """Reads the next (n,) rows of cells, those that are legal."""
        if self._linked:
            own = frame.filter(legal)
            names = dict.fromkeys([*self._order, *self._linked])
            self._legal.append(legal)
            self._kinds.append(read_kinds(own, self._schema))
            self._values.append(pl.DataFrame({name: self._codecs[name].get_values(own) for name in names}))

    def measure(self, units: Units | None, *, seed: int) -> tuple[Link, ...]:
        """Of each linked column how a row goes with the one before it in its unit, in the order that the output has.

        That is by kind and unique columns, or linked moments, and else the order of the file. Of units with more rows
        than the specs keep so many are drawn, as the output's are like those. Numbers that are missing are left out of
        their pair, and those that are all alike hang on nothing; a missing category is one more.
        """
        unit = self._schema.unit
        if unit is None or units is None or not self._linked:
            return ()
        kinds, values, legal = np.concatenate(self._kinds), pl.concat(self._values), np.concatenate(self._legal)
        of_rows = units.of_rows[legal].astype(np.int64)
        rows = np.flatnonzero(units.choose(unit.max_rows, rng=np.random.default_rng(seed))[legal])
        by = [values.get_column(name)[rows] for name in self._order]
        rows = rows[put_in_order(of_rows[rows], kinds[rows], by)]
        together = of_rows[rows[1:]] == of_rows[rows[:-1]]
        before, after = values[rows[:-1][together]], values[rows[1:][together]]
        return tuple(self._compare(before.get_column(name), after.get_column(name)) for name in self._linked)

    def _compare(self, before: pl.Series, after: pl.Series) -> Link:
        name = after.name
        if isinstance(self._schema.by_name[name], CategoricalColumn):
            share: Any = before.eq_missing(after).mean()
            return Link(column=name, measure=LISTED, pairs=len(after), value=share)
        pairs = pl.DataFrame({"before": before.to_physical(), "after": after.to_physical()}).drop_nulls()
        found = pairs.select(pl.corr("before", "after", method="spearman").fill_nan(0.0)).item()
        return Link(column=name, measure=ORDERED, pairs=pairs.height, value=found)


def describe_links(real: Sequence[Link], synthetic: Sequence[Link]) -> list[dict[str, Any]] | None:
    """Of each linked column the measure in both tables, None where pairs are too few; None where none is linked."""
    entries = []
    for ours, theirs in zip(real, synthetic, strict=True):
        pairs = {"real": ours.pairs, "synthetic": theirs.pairs}
        values = {"real": ours.value, "synthetic": theirs.value}
        told = values if min(pairs.values()) >= LEAST_PAIRS else dict.fromkeys(values)
        entries.append({"column": ours.column, "measure": ours.measure, **told, "pairs": pairs})
    return entries or None


def write_link(entry: Mapping[str, Any]) -> str:
    """What is said of a linked column, in one sentence."""
    name, real, synthetic, pairs = (entry[key] for key in ("column", "real", "synthetic", "pairs"))
    if real is None:
        return (
            f"Linked {name}: not measured, as fewer than {LEAST_PAIRS} pairs of rows of a unit have it "
            f"(real {pairs['real']:,}, synthetic {pairs['synthetic']:,})."
        )
    return f"Linked {name}, {entry['measure']}: real {real:.3f}, synthetic {synthetic:.3f}."
