"""Tables for the tests of cells: every dialect of column, and random legal rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way import one_ways
from dpwgan.marginals.one_way.one_ways import OneWayPlan, OneWays
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.encoded import EncodedTable, Span, choose_number_type, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, Column, NumericColumn, Schema
from tests.ledgers import open_ledger
from tests.rows import hold

COLUMNS: tuple[Column, ...] = (
    CategoricalColumn(name="letters", tokens=("a", "b", "c", "d", "N", ""), missing=("N", "")),
    CategoricalColumn(name="two", tokens=("no", "yes")),
    CategoricalColumn(name="same", tokens=("only",)),
    CategoricalColumn(name="places", tokens=("3", "07", "11", "250", "N"), missing=("N",), integer=True),
    NumericColumn(name="age", minimum=0, maximum=15, integer=True),
    NumericColumn(name="pay", minimum=-500, maximum=1e5, integer=True, missing=("N", "")),
    NumericColumn(name="rate", minimum=0.25, maximum=1.87, integer=False, decimals=1, missing=("",)),
    NumericColumn(name="weight", minimum=-1, maximum=1, integer=False, decimals=6),
    NumericColumn(name="fixed", minimum=7, maximum=7, integer=True),
    NumericColumn(name="whole", minimum=0, maximum=9, integer=True, decimals=2, missing=("N",)),
    NumericColumn(name="wide", minimum=0, maximum=5e9, integer=True),
    NumericColumn(name="lone", minimum=0.1, maximum=1.9, integer=False, decimals=0),
    NumericColumn(name="hours", minimum=0, maximum=99, integer=True, edges=(0, 20, 40, 99), missing=("",)),
)
NARROW = [column for column in COLUMNS if column.name not in ("wide", "weight", "pay")]
"""Those that are looked at once."""

SCHEMA = Schema(columns=COLUMNS, sha256="0" * 64)
SPANS = lay_out_spans(SCHEMA)


def lay_out(*columns: Column | CalendarColumn) -> tuple[Span, ...]:
    """The spans of some columns."""
    return lay_out_spans(Schema(columns=columns, sha256="0" * 64))  # type: ignore[arg-type]


def make_encoded(
    records: int, *, seed: int, columns: Sequence[Column] = COLUMNS, uniform: bool = False
) -> EncodedTable:
    """Draws legal rows; numbers are anywhere in their range, its ends included, or uniform."""
    rng = np.random.default_rng(seed)
    spans = lay_out(*columns)
    linear = sum(span.head == "linear" for span in spans)
    codes = np.zeros((records, len(spans) - linear), np.int32)
    numbers = np.zeros((records, linear), choose_number_type(spans))
    available = np.ones(records, bool)
    for span in spans:
        if span.head == "linear":
            drawn = (rng.random(records) if uniform else rng.beta(0.3, 1.0, records)).astype(np.float32)
            if not uniform:
                drawn = np.where(rng.random(records) < 0.3, np.round(drawn * 4) / 4, drawn)
            numbers[:, span.source] = np.where(available, drawn, 0)
            available = np.ones(records, bool)
        else:
            codes[:, span.source] = rng.integers(0, span.categories, records)
            if span.role == "available":
                available = codes[:, span.source] == span.categories - 1
    return EncodedTable(codes=codes, numbers=numbers, spans=spans)


def write_cells(spans: tuple[Span, ...], *cells: npt.NDArray[np.int64]) -> EncodedTable:
    """Rows of these cells, one array for each attribute."""
    encoded = EncodedTable.make_empty(spans, len(cells[0]))
    for attribute, own in zip(lay_out_attributes(spans), cells, strict=True):
        attribute.put_cells(own, into=encoded)
    return encoded


def read_cells(encoded: EncodedTable) -> list[npt.NDArray[np.int64]]:
    """The cell of every row in each attribute."""
    return [attribute.find_cells(encoded) for attribute in lay_out_attributes(encoded.spans)]


def replace_first_row(encoded: EncodedTable, other: EncodedTable) -> EncodedTable:
    """Gives the rows with the first one replaced by that of another table."""
    parts = ((getattr(other, name)[:1], getattr(encoded, name)[1:]) for name in ("codes", "numbers"))
    codes, numbers = map(np.concatenate, parts)
    return replace(encoded, codes=codes, numbers=numbers)


def measure_one_ways(encoded: EncodedTable, plan: OneWayPlan, *, noise_multiplier: float, seed: int = 0) -> OneWays:
    """Releases the one-way counts of a plan, by a ledger of their own."""
    releases = plan.plan_releases(noise_multiplier=noise_multiplier)
    return measure_by(open_ledger(releases, source=seed), encoded, plan)


def measure_by(ledger: Ledger, encoded: EncodedTable, plan: OneWayPlan) -> OneWays:
    """Releases the one-way counts of a plan."""
    return one_ways.measure_one_ways(hold(encoded), plan, ledger=ledger)
