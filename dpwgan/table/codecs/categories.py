"""Columns with a finite list of cells."""

import bisect
import functools
from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import polars as pl

from dpwgan.array_types import Flags
from dpwgan.table.codecs.codec import EMPTY, EncodedCells, TrainedCodec, check_codes
from dpwgan.table.numerals import BLANKS, read_number
from dpwgan.table.schema import BooleanColumn, CategoricalColumn

NOT_LISTED = "is not one of its legal cells"
ALIKE = "is one of its legal cells but for blanks or capitals"


class CategoricalCodec(TrainedCodec):
    """A finite list of cells as their index in the list.

    A cell is first looked up as it stands. In an integer column a cell that is not found so is then looked up by the
    number it writes: "3", "03", " 3" and "3.0" are one cell, and the list's own spelling is what is written, in cells
    of the type `pl.Enum`.
    Source: Srivastava and Alzantot 2019, section 7.1, "Categorical".
    """

    fault = "is not listed in the specs"

    def __init__(self, column: CategoricalColumn) -> None:
        super().__init__(column)
        self.column = column
        self._tokens = pl.Series(column.tokens, dtype=pl.Enum(column.tokens))
        self._by_text = {token: code for code, token in enumerate(column.tokens)}
        self._by_number: dict[Decimal, int] = {}
        if column.integer:
            for code, token in enumerate(column.tokens):
                number = read_number(token)
                if number is not None:
                    self._by_number.setdefault(number, code)

    @functools.cached_property
    def _clampable(self) -> list[tuple[Decimal, int]]:
        """The listed numbers that a cell may be clamped to, and their codes."""
        column = self.column
        return sorted(
            (number, code) for number, code in self._by_number.items() if column.tokens[code] not in column.missing
        )

    @functools.cached_property
    def _simplified(self) -> set[str]:
        """The legal cells without blanks and capitals: for what is wrong alone, as lists may be long."""
        return set(map(_simplify, self.column.tokens))

    def encode_distinct(self, cells: list[str]) -> tuple[EncodedCells, Mapping[str, Flags]]:
        """Finds (k,) codes."""
        codes = np.array([self._find(cell) for cell in cells], np.int32)
        wrong, blank = codes < 0, np.array([not cell.strip(BLANKS) for cell in cells], np.bool_)
        near = [code < 0 and _simplify(cell) in self._simplified for code, cell in zip(codes, cells, strict=True)]
        alike = ~blank & np.array(near, np.bool_)
        return EncodedCells(codes=codes), {EMPTY: wrong & blank, ALIKE: alike, NOT_LISTED: wrong & ~blank & ~alike}

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) codes as the listed cells."""
        return self._tokens.gather(check_codes(encoded.codes, self.name, len(self._tokens)))

    def get_canonical(self, cell: str) -> str | None:
        """The listed cell that this one stands for."""
        code = self._look_up(cell)
        return None if code is None else self.column.tokens[code]

    @functools.cached_property
    def _values(self) -> pl.Series:
        """The values of listed cells that rules see: numbers if every value is one."""
        column = self.column
        texts = pl.Series([None if token in self.missing else token for token in column.tokens], dtype=pl.String)
        return texts.cast(pl.Int64, strict=False) if column.integer else texts

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """Reads cells of the list itself by their codes, and else each different cell once."""
        cells = frame.get_column(self.name)
        if cells.dtype != self._tokens.dtype:
            return super().get_values(frame)
        return self._values.gather(cells.to_physical())

    def read_values(self, cells: list[str]) -> pl.Series:
        """Text, whole numbers where all values are, or truth values."""
        codes = np.array([self._find(cell) for cell in cells], np.int32)
        return self._values.gather(np.maximum(codes, 0)).set(pl.Series(codes < 0), None)

    def are_legal(self, cells: pl.Series) -> pl.Series:
        """Finds them in the list."""
        return cells.is_in(list(self.column.tokens))

    def _look_up(self, cell: str) -> int | None:
        code = self._by_text.get(cell)
        if code is None and self._by_number:
            number = read_number(cell)
            code = None if number is None else self._by_number.get(number)
        return code

    def _find(self, cell: str) -> int:
        code = self._look_up(cell)
        if code is not None:
            return code
        if self.column.out_of_domain == "missing":
            return self._by_text[self.missing[0]]
        if self.column.out_of_domain == "clamp":
            return self._find_nearest(cell)
        return -1

    def _find_nearest(self, cell: str) -> int:
        """The code of the nearest listed number, the lower of two; -1 if the cell is no number."""
        number = read_number(cell)
        if number is None or not self._clampable:
            return -1
        above = bisect.bisect_left(self._clampable, (number, -1))
        around = self._clampable[max(above - 1, 0) : above + 1]
        return min(around, key=lambda listed: (abs(listed[0] - number), listed[0]))[1]


def _simplify(cell: str) -> str:
    """A cell without what people write in several ways."""
    return " ".join(cell.lower().split())


class BooleanCodec(CategoricalCodec):
    """Two cells, for true and for false, each in any of its spellings and in any case, and missing codes."""

    def __init__(self, column: BooleanColumn) -> None:
        super().__init__(column)
        self._codes = {
            spelling.lower(): code
            for code, (token, more) in enumerate(zip(column.tokens, column.spellings, strict=False))
            for spelling in (token, *more)
        }

    @functools.cached_property
    def _values(self) -> pl.Series:
        """What rules see of each listed cell: truth values."""
        return pl.Series([True, False, *(None for _ in self.missing)], dtype=pl.Boolean)

    def _look_up(self, cell: str) -> int | None:
        code = super()._look_up(cell)
        return self._codes.get(cell.strip(BLANKS).lower()) if code is None else code
