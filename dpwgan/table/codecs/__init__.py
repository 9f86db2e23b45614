"""How cells become numbers and come back: a file for each type of column, and one base class for what they all do."""

from dpwgan.table.codecs.categories import NOT_LISTED, CategoricalCodec
from dpwgan.table.codecs.codec import Codec, EncodedCells, TrainedCodec
from dpwgan.table.codecs.computed import ComputedRule
from dpwgan.table.codecs.derived import DerivedRule
from dpwgan.table.codecs.identifiers import FreshIdentifiers
from dpwgan.table.codecs.numbers import NOT_NUMBER, NOT_WHOLE, BinCodec, NumberCodec, read_numbers
from dpwgan.table.schema import CategoricalColumn, TrainedColumn

__all__ = [
    "NOT_LISTED",
    "NOT_NUMBER",
    "NOT_WHOLE",
    "Codec",
    "ComputedRule",
    "DerivedRule",
    "EncodedCells",
    "FreshIdentifiers",
    "TrainedCodec",
    "make_codec",
    "read_numbers",
]


def make_codec(column: TrainedColumn) -> TrainedCodec:
    """Chooses the codec of a trained column. Raises: SpecsError if what its specs ask for cannot be acted on."""
    if isinstance(column, CategoricalColumn):
        return CategoricalCodec(column)
    return BinCodec(column) if column.edges is not None else NumberCodec(column)
