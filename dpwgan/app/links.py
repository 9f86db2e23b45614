"""How rows of one unit depend on each other: released after the fit, by groups that the model's rows define.

Privacy: the groups of a linked column are made of rows that the model draws; one release counts rows of the table by
them (`dpwgan.table.units.links.count_links`), and all else is made of its noisy counts.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from dpwgan.app.fitting import EncodedRun
from dpwgan.app.logs import LOGGER
from dpwgan.array_types import Arrays, Floats, Integers, Integers32
from dpwgan.marginals.answers.denoising import denoise, draw_towards
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.privacy.randomness import branch, make_choice_stream
from dpwgan.privacy.unit_counts import LINKS_LABEL
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.findings import Findings
from dpwgan.table.schema import CategoricalColumn, UnitColumn
from dpwgan.table.source import SourceTable
from dpwgan.table.units.forms import count_kinds, read_kinds
from dpwgan.table.units.links import PairCells, choose_cells, choose_days, count_links, list_order, put_in_order

# Rows of the model that define groups.
_DRAWN = 10_000
# Added to the count of each group.
_LEAST_DRAWN = 0.1
# Groups of a column grow with this power of the number of pairs over the noise's stddev: more groups are more cells of
# noise, their square if they have no order.
_ORDERED, _UNORDERED, _MOST_GROUPS = 1 / 2, 1 / 3, 32
# Below so many stddevs all pairs together are hardly more than noise.
_LEAST_STDDEVS = 10.0


def release_links(run: EncodedRun, model: FittedSynthesizer) -> EncodedRun:
    """The run, with released links of linked columns in its specs; unchanged without such columns.

    A release that an earlier life of the run began, and lost, is left out.
    Raises: PrivacyError from the ledger; as reading the table does.
    """
    schema, table, ledger = run.encoder.schema, run.linked, run.ledger
    unit = schema.unit
    if unit is None or table is None or table.units is None or ledger.journal.has_lost(LINKS_LABEL):
        return run
    pairs, stddev = len(table.units.of_rows) - len(table.units.sizes), ledger.find(LINKS_LABEL).stddev
    if pairs < _LEAST_STDDEVS * stddev:
        LOGGER.warning(
            "noise of %.0f on each count of linked rows is more than a tenth of all %s of them: what rows of a unit "
            "have in common will be chance",
            stddev,
            f"{pairs:,}",
        )
    units, rng = table.units, branch(make_choice_stream(run.run_plan.config.seed, key=ledger.journal.key))

    def act() -> Arrays:
        drawn, kinds = _draw(run, model, unit.linked)
        cells = []
        for values in drawn:
            ordered = not isinstance(schema.by_name[values.name], CategoricalColumn)
            most = min(_MOST_GROUPS, 1 + int((pairs / stddev) ** (_ORDERED if ordered else _UNORDERED)))
            if isinstance(schema.by_name[values.name], CalendarColumn):
                cells.append(choose_days(values, kinds=count_kinds(schema)))
            else:
                cells.append(choose_cells(values, most=most, ordered=ordered, kinds=count_kinds(schema)))
        coins = rng.random(len(units.of_rows))
        noisy = ledger.release(LINKS_LABEL, lambda: _count(table, unit, units.of_rows, run.encoder, cells, coins))
        counts = np.split(noisy.values.astype(np.float64), np.cumsum([own.count for own in cells])[:-1])
        shares = [_find_shares(*own, kinds, stddev=stddev) for own in zip(counts, cells, drawn, strict=True)]
        return {
            "links": np.array(json.dumps([(own.bounds, own.told, of) for own, of in zip(cells, shares, strict=True)]))
        }

    kept = json.loads(str(ledger.keep(LINKS_LABEL, act, dispensable=True)["links"]))
    links = tuple((tuple(bounds), told, tuple(shares)) for bounds, told, shares in kept)
    return replace(run, encoder=TableEncoder(schema.put(replace(unit, links=links)), run.encoder.header))


def _find_shares(noisy: Floats, cells: PairCells, drawn: pl.Series, kinds: Integers32, *, stddev: float) -> list[float]:
    """The denoised shares of cells, shrunk towards independence of a unit's rows.

    Shapes: (cells,), one pair of kinds after the other, each adding to 1.
    """
    drawn_of = np.bincount(cells.find_groups(drawn, kinds), minlength=len(cells.table)) + _LEAST_DRAWN
    by_chance = np.bincount(cells.table.ravel(), np.outer(drawn_of, drawn_of).ravel(), cells.count)
    found = list[float]()
    for own, expected in zip(*(part.reshape(-1, cells.of_kinds) for part in (noisy, by_chance)), strict=True):
        total = max(float(own.sum()), stddev)
        expected *= total / expected.sum()
        # The cell of equal moments has no neighbours; by chance it has the same group's count over its moments.
        last = len(own) - cells.of_moments
        told, _ = denoise(own[:last], expected[:last], stddev=stddev, ordered=[cells.has_order])
        if cells.of_moments:
            alike = expected[[cells.same_group]] / cells.wide
            told = np.append(told, draw_towards(own[last:], alike, stddev=stddev))
        found += (project_on_simplex(told, np.ones(len(told)), total=total) / total).tolist()
    return found


def _draw(run: EncodedRun, model: FittedSynthesizer, names: Sequence[str]) -> tuple[list[pl.Series], Integers32]:
    """The values of these columns in rows of the model, and the kinds of the rows."""
    rng, schema = run.streams.model, run.encoder.schema
    kind = () if schema.unit is None or schema.unit.kind_of_row is None else (schema.unit.kind_of_row,)
    parts = [
        pl.DataFrame(run.encoder.decode_columns(part, rng, names=[*names, *kind]))
        for part in model.sample(_DRAWN, rng=rng)
    ]
    values = pl.concat(run.encoder.read_values(part, names) for part in parts)
    kinds = np.concatenate([read_kinds(part, schema) for part in parts])
    return values.get_columns(), kinds


def _count(
    table: SourceTable,
    unit: UnitColumn,
    of_rows: Integers32,
    encoder: TableEncoder,
    cells: Sequence[PairCells],
    coins: Floats,
) -> Integers:
    """`count_links` of all kept rows that no rule drops, one linked column after the other."""
    parts, kept, read, order = [], [], [], list_order(encoder.schema)
    for frame in table.frames():
        parts.append(encoder.read_values(frame, [*order, *unit.linked]))
        read.append(read_kinds(frame, encoder.schema))
        kept.append(encoder.find_kept(frame, Findings()))
    values, kinds, rows = pl.concat(parts), np.concatenate(read), np.flatnonzero(np.concatenate(kept))
    by = [values.get_column(name)[rows] for name in order]
    rows = rows[put_in_order(of_rows[rows].astype(np.int64), kinds[rows], by)]
    of_units, kinds = of_rows[rows].astype(np.int64), kinds[rows]
    found = []
    for name, own in zip(unit.linked, cells, strict=True):
        column = values.get_column(name)[rows]
        groups = own.find_groups(column, kinds)
        found.append(count_links(column, groups, of_units, coins[rows], cells=own))
    return np.concatenate(found)
