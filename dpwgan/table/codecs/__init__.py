"""How cells become numbers and come back: a file for each type of column, and one for those told by another's cells.

Start with codec.py: the base class of what they all do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpwgan.table.calendar import CalendarColumn, LaterColumn
from dpwgan.table.codecs.categories import BooleanCodec, CategoricalCodec
from dpwgan.table.codecs.codec import TrainedCodec
from dpwgan.table.codecs.derived import ComputedRule, Derivation, DerivedRule
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import BinCodec, NumberCodec
from dpwgan.table.codecs.relative import HigherCodec, LaterCodec
from dpwgan.table.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DerivedColumn,
    FunctionColumn,
    HigherColumn,
    NumericColumn,
    SizeColumn,
    TrainedColumn,
)

_CODECS: dict[type[TrainedColumn], Callable[[Any], TrainedCodec]] = {
    CategoricalColumn: CategoricalCodec,
    SizeColumn: CategoricalCodec,
    BooleanColumn: BooleanCodec,
    NumericColumn: lambda column: (NumberCodec if column.edges is None else BinCodec)(column),
    CalendarColumn: MomentCodec,
    # Of their cells by themselves; `LaterCodec` and `HigherCodec` see the others of the row.
    LaterColumn: MomentCodec,
    HigherColumn: NumberCodec,
}


def make_codec(column: TrainedColumn) -> TrainedCodec:
    """Chooses the codec of a trained column. Raises: SpecsError if its missing codes take its range."""
    return _CODECS[type(column)](column)


def make_codecs(columns: Sequence[Column]) -> dict[str, TrainedCodec]:
    """Makes the codec of each trained column among these, by name; what is told by others' cells knows of those."""
    codecs = {column.name: make_codec(column) for column in columns if isinstance(column, TrainedColumn)}
    for column in columns:
        if isinstance(column, LaterColumn) and isinstance(earlier := codecs.get(column.since), MomentCodec):
            codecs[column.name] = LaterCodec(column, earlier)
        if isinstance(column, HigherColumn) and isinstance(base := codecs.get(column.above), NumberCodec):
            codecs[column.name] = HigherCodec(column, base)
    return codecs


def make_derivation(column: FunctionColumn, codecs: Mapping[str, TrainedCodec]) -> Derivation:
    """Makes the function of a column from the codecs of its sources."""
    return DerivedRule(column, codecs) if isinstance(column, DerivedColumn) else ComputedRule(column, codecs)
