"""How cells become numbers and come back: a file for each type of column, and one base class for what they all do."""

from collections.abc import Callable
from typing import Any

from dpwgan.table.calendar import CalendarColumn, LaterColumn
from dpwgan.table.codecs.categories import NOT_LISTED, BooleanCodec, CategoricalCodec
from dpwgan.table.codecs.codec import Codec, EncodedCells, TrainedCodec
from dpwgan.table.codecs.computed import ComputedRule
from dpwgan.table.codecs.derived import DerivedRule
from dpwgan.table.codecs.fixed import FixedCell
from dpwgan.table.codecs.identifiers import FreshIdentifiers
from dpwgan.table.codecs.later import LaterCodec
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import NOT_NUMBER, NOT_WHOLE, BinCodec, NumberCodec, read_numbers
from dpwgan.table.schema import BooleanColumn, CategoricalColumn, NumericColumn, TrainedColumn

__all__ = [
    "NOT_LISTED",
    "NOT_NUMBER",
    "NOT_WHOLE",
    "Codec",
    "ComputedRule",
    "DerivedRule",
    "EncodedCells",
    "FixedCell",
    "FreshIdentifiers",
    "LaterCodec",
    "MomentCodec",
    "TrainedCodec",
    "make_codec",
    "read_numbers",
]


_CODECS: dict[type[TrainedColumn], Callable[[Any], TrainedCodec]] = {
    CategoricalColumn: CategoricalCodec,
    BooleanColumn: BooleanCodec,
    NumericColumn: lambda column: (NumberCodec if column.edges is None else BinCodec)(column),
    CalendarColumn: MomentCodec,
    LaterColumn: MomentCodec,  # of its cells by themselves; `LaterCodec` sees the others of the row
}


def make_codec(column: TrainedColumn) -> TrainedCodec:
    """Chooses the codec of a trained column. Raises: SpecsError if what its specs ask for cannot be acted on."""
    return _CODECS[type(column)](column)
