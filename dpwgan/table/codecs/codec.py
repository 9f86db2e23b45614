"""The interface of codecs; a new type of column is one more of these.

`out_of_domain` says what becomes of an illegal cell, by a public rule applied to each row by itself:
"reject" counts it and the run ends; "clamp" takes the nearest legal number, and rejects what is no number;
"missing" takes the first of the column's missing codes. Neither clamp nor missing tells how often it was used.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.array_types import AnyArray, AnyFloats, Flags, Integers32
from dpwgan.errors import DpwganError, quote
from dpwgan.table.findings import Findings
from dpwgan.table.schema import TrainedColumn

Array = TypeVar("Array", bound=AnyArray)

EMPTY = 'is empty, which only "optional": true allows'
"""The rule that most cells break that mean not available, where the specs do not say so."""


@dataclass(frozen=True, kw_only=True)
class EncodedCells:
    """A column after encoding, or a method's output for it: (n,) codes, (n,) numbers, or both.

    Of a column of which methods see several parts they are (parts, n).
    """

    codes: Integers32 | None = None
    numbers: AnyFloats | None = None


class Codec(ABC):
    """A column of the output: whatever wrote its cells, they are checked again.

    `fault` says what is wrong with a cell that fails this last check, which shares nothing with what wrote it.
    """

    name: str
    fault: ClassVar[str]

    def validate(self, frame: pl.DataFrame) -> tuple[str, int]:
        """The rule that cells of the output break, and in how many rows. Privacy: sees the output only."""
        cells = frame.get_column(self.name)
        if cells.dtype not in (pl.String, pl.Enum) or cells.null_count():
            return "is not text", frame.height
        return self.fault, self.count_illegal(frame)

    @abstractmethod
    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts the rows of the output whose cell, a text, is illegal."""


class ReadCodec(Codec):
    """A column that rules between columns may read."""

    sources: tuple[str, ...] = ()
    """Other columns, without whose cells those of this one say nothing."""

    @abstractmethod
    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """What rules see of (n,) rows of cells, real or of the output: NULL for not available.

        Its type does not depend on the rows. An illegal cell is NULL, or what it is taken for.
        """


class TrainedCodec(ReadCodec):
    """A column that methods see, both ways: each cell by itself, and whatever a method gives back becomes legal.

    Raises: SpecsError if codes that mean not available take all of the column's range.
    """

    def __init__(self, column: TrainedColumn) -> None:
        self.name, self.missing = column.name, column.missing

    def encode_row(self, frame: pl.DataFrame, findings: Findings) -> EncodedCells:
        """Encodes (n,) cells beside the others of their rows. As `encode`."""
        return self.encode(frame.get_column(self.name), findings)

    def decode_row(self, encoded: EncodedCells, rng: np.random.Generator, cells: Mapping[str, pl.Series]) -> pl.Series:
        """Writes (n,) cells beside those of `sources`. As `decode`."""
        return self.decode(encoded, rng)

    def encode(self, cells: pl.Series, findings: Findings) -> EncodedCells:
        """Encodes (n,) cells, each different one once; illegal ones are counted in `findings` and get any code."""
        distinct, places = list_distinct(cells)
        encoded, illegal = self.encode_distinct(distinct)
        for rule, broken in illegal.items():
            if broken.any():
                findings.add(self.name, rule, int(np.count_nonzero(broken.take(places))))
        return EncodedCells(
            codes=None if encoded.codes is None else encoded.codes.take(places, axis=-1),
            numbers=None if encoded.numbers is None else encoded.numbers.take(places, axis=-1),
        )

    @abstractmethod
    def encode_distinct(self, cells: list[str]) -> tuple[EncodedCells, Mapping[str, Flags]]:
        """Encodes (k,) different cells, and says by each rule which of them break it."""

    @abstractmethod
    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) cells as text, each of them legal whatever the codes and numbers are."""

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """Reads each different cell once."""
        distinct, places = list_distinct(frame.get_column(self.name))
        return self.read_values(distinct).gather(places)

    @abstractmethod
    def read_values(self, cells: list[str]) -> pl.Series:
        """What rules between columns see of (k,) different cells."""

    def put_missing(self, cells: pl.Series, missing: Integers32 | None) -> pl.Series:
        """Puts missing codes into (n,) cells: of each row the index of its code, below 0 where it has none."""
        if missing is None:
            return cells
        tokens = pl.Series(self.missing, dtype=pl.String).gather(np.maximum(missing, 0))
        written: pl.Series = tokens.zip_with(pl.Series(missing >= 0), cells)
        return written

    @abstractmethod
    def get_canonical(self, cell: str) -> str | None:
        """The legal cell that this one stands for, or None if it is illegal."""

    @abstractmethod
    def are_legal(self, cells: pl.Series) -> pl.Series:
        """Says of (k,) different cells of the output which ones are legal."""

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts rows, looking at each different cell once."""
        cells = frame.get_column(self.name)
        seen = cells.unique().cast(pl.String)
        legal = self.are_legal(seen)
        return 0 if legal.all() else int(cells.cast(pl.String).is_in(seen.filter(~legal).to_list()).sum())


def list_distinct(cells: pl.Series) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """The different cells of a column of text, and the place of each row's cell among them.

    Shapes: (n,) cells to k different ones and (n,) places; cells of the type `pl.Enum` give every cell of their list.
    """
    kind = cells.dtype
    if not isinstance(kind, pl.Enum | pl.Categorical):
        kind = pl.Categorical(pl.Categories.random())
        cells = cells.cast(kind)
    # polars may keep a place for a cell that none has come to; no row points there.
    return [cell or "" for cell in kind.categories], cells.to_physical().to_numpy()


def check_codes(codes: Integers32 | None, column: str, limit: int) -> Integers32:
    """The codes if all of them are below `limit`. Raises: DpwganError, an internal error."""
    # Of rows that lie side by side a column's codes are far apart, and slow to go over more than once.
    checked = np.ascontiguousarray(require(codes, column))
    if len(checked) and not (checked.min() >= 0 and checked.max() < limit):
        raise DpwganError(f"Internal error: a code for column {quote(column)} is beyond its {limit} categories.")
    return checked


def require(values: Array | None, column: str) -> Array:
    """The values, which have to be there. Raises: DpwganError, an internal error."""
    if values is None:
        raise DpwganError(f"Internal error: no values were given for column {quote(column)}.")
    return values
