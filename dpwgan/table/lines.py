"""Encoded rows straight to lines of CSV: what each code of each column is written as, for all columns of a row at once.

Every cell that a column may write is spelt beforehand and checked against the specs. A column of too many numbers, what
is derived from numbers, and row names are spelt and checked as they come.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import DpwganError
from dpwgan.table.codecs import Codec, NumericCodec, take_column
from dpwgan.table.derived import DerivedRule
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.identifiers import make_identifiers
from dpwgan.table.numeric import write_numbers
from dpwgan.table.schema import IdentifierColumn, Schema
from dpwgan.table.storage import cut
from dpwgan.table.validation import check_cells

Words = npt.NDArray[np.uint64]

_WORD = 8
# No text in UTF-8 has this byte: it fills cells up to whole words, and is left out when all of them are put together.
_FILLING = b"\xff"
# Rows that are put together at a time: what is made of them stays in the processor's cache.
_BLOCK = 512
# Whole numbers up to this one fit a word, with what ends the cell.
_MOST_NUMBER = 9_999_999


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Rows as they stand in a CSV file, piece by piece."""

    records: int
    texts: Sequence[bytes | memoryview]


class LineWriter:
    """Writes encoded rows as lines of CSV: the same bytes as those of decoded and checked frames, and as legal.

    Privacy: holds public facts only; writing is post-processing.
    Raises: DpwganError, an internal error, if a cell that a column may write does not fit the specs.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        schema: Schema,
        codecs: Mapping[str, Codec],
        spans: Sequence[Span],
        rules: Sequence[DerivedRule],
        whole: Iterable[str],
        line_ending: str,
    ) -> None:
        self._codecs, self._spans, self._whole, self._rules = codecs, tuple(spans), frozenset(whole), tuple(rules)
        self._spans_of = {name: [span for span in spans if span.column == name] for name in codecs}
        self._ends = {name: "," for name in header} | {header[-1]: line_ending}
        self._may_be_blank = len(header) == 1
        self._identifiers = [column for column in schema.columns if isinstance(column, IdentifierColumn)]
        by_code = {name for name, codec in codecs.items() if not isinstance(codec, NumericCodec)}
        # What is derived from numbers is worked out for those that are met.
        spelt = {rule.source for rule in rules} - by_code
        listed = {name: codec.list_cells() for name, codec in codecs.items() if name not in spelt}
        cells = {name: column for name, column in listed.items() if column is not None}
        cells |= {rule.name: rule.derive(cells[rule.source]) for rule in rules if rule.source in cells}
        _check_lists(cells, schema)
        self._spelt = replace(schema, columns=tuple(c for c in schema.columns if c.name not in cells), layout=None)
        numeric = {name: codec for name, codec in codecs.items() if isinstance(codec, NumericCodec) and name in cells}
        self._chosen = {name: (index, codec) for index, (name, codec) in enumerate(numeric.items())}
        # Codes, behind them what is chosen from lists of numbers, and nothing, which stands in for what is spelt.
        codes = sum(span.head != "linear" for span in spans)
        sources = {span.column: span.source for span in spans if span.column in by_code}
        sources |= {name: codes + index for name, (index, _) in self._chosen.items()}
        sources |= {rule.name: sources[rule.source] for rule in rules if rule.name in cells}
        # The lists of all columns, one after the other, once for each word of a column's cells.
        lists = {name: self._pack_list(cells[name], name) for name in header if name in cells}
        self._entries = np.concatenate([*(words.T.ravel() for words in lists.values()), np.zeros(1, np.uint64)])
        self._sources = np.array([sources[name] for name, words in lists.items() for _ in words.T], np.intp)
        lengths = np.array([len(words) for words in lists.values() for _ in words.T], np.intp)
        self._starts = np.cumsum(lengths) - lengths
        self._lasts = np.full(codes + len(self._chosen) + 1, np.iinfo(np.int32).max)
        self._lasts[self._sources] = lengths - 1
        # How many words stand before each column that is spelt.
        before = np.cumsum([lists[name].shape[1] if name in lists else 0 for name in header]).tolist()
        self._gaps = {name: count for name, count in zip(header, before, strict=True) if name not in lists}

    def write(self, chunks: Iterable[EncodedTable], rng: np.random.Generator, *, first_record: int = 0) -> Lines:
        """Writes tables that come in chunks. `rng` and `first_record` are as `TableEncoder.decode` has them.

        Raises: DpwganError, an internal error, if a cell is not legal or a chunk is not laid out as the specs ask.
        """
        records = 0
        texts: list[memoryview] = []
        for chunk in chunks:
            if not chunk.records:
                continue
            if chunk.spans != self._spans:
                raise DpwganError("Internal error: the encoded table is not laid out as its specs ask.")
            texts += self._write(chunk, rng, first_record=first_record + records)
            records += chunk.records
        return Lines(records=records, texts=texts)

    def _write(self, encoded: EncodedTable, rng: np.random.Generator, *, first_record: int) -> Iterator[memoryview]:
        records = encoded.records
        chosen = np.zeros((records, len(self._chosen) + 1), np.int32)
        spelt: dict[str, pl.Series] = {}
        # In the order of decoding, which is that of the numbers drawn.
        for name, codec in self._codecs.items():
            if name in self._chosen:
                index, numeric = self._chosen[name]
                chosen[:, index] = numeric.choose(take_column(encoded, self._spans_of[name]), rng)
            elif name in self._spelt.by_name:
                part = take_column(encoded, self._spans_of[name])
                spelt[name] = codec.decode(part, rng, numbers=name in self._whole)
        for rule in self._rules:
            if rule.name in self._spelt.by_name:
                spelt[rule.name] = rule.apply(spelt[rule.source])
        for column in self._identifiers:
            spelt[column.name] = make_identifiers(column, first_record=first_record, records=records)
        if spelt:
            check_cells(pl.DataFrame(spelt), self._spelt)
        words = [self._pack(spelt[name], name) for name in self._gaps]
        gaps = np.repeat(np.array([*self._gaps.values()], np.intp), [part.shape[1] for part in words])
        sources = np.insert(self._sources, gaps, chosen.shape[1] + encoded.codes.shape[1] - 1)
        starts = np.insert(self._starts, gaps, len(self._entries) - 1)
        at = gaps + np.arange(len(gaps))
        for rows in cut(records, size=_BLOCK):
            places = np.hstack((encoded.codes[rows], chosen[rows]))
            # As numbers without a sign, so that one comparison sees those below 0 too.
            if (places.view(np.uint32).max(axis=0) > self._lasts).any():
                raise DpwganError("Internal error: a code is beyond the cells of its column.")
            places = places.astype(np.intp).take(sources, axis=1)
            places += starts
            found = np.empty(places.shape, np.uint64)
            # Any mode but the default writes where it is to, without a copy; none is out of range.
            self._entries.take(places, out=found, mode="clip")
            if words:
                found[:, at] = np.hstack([part[rows] for part in words])
            filled = pl.Series(found.view(np.uint8).ravel())
            yield filled.filter(filled != _FILLING[0]).to_numpy().data

    def _pack_list(self, cells: Sequence[str], name: str) -> Words:
        """Gives (n, words) cells as they stand in a file, each with what ends it, filled up to whole words."""
        texts = [(self._quote(cell) + self._ends[name]).encode() for cell in cells]
        size = -(-max(map(len, texts)) // _WORD) * _WORD
        joined = b"".join(text.ljust(size, _FILLING) for text in texts)
        return np.frombuffer(joined, np.uint64).reshape(len(cells), -1)

    def _pack(self, cells: pl.Series, name: str) -> Words:
        """Does the same for a column, sooner where it is one of whole numbers."""
        end = self._ends[name].encode()
        if len(end) == 1 and cells.dtype.is_integer() and cells.is_between(0, _MOST_NUMBER).fill_null(False).all():
            thousands, rest = np.divmod(cells.to_numpy(), 1000)
            leading, following = _list_digits()
            words: Words = leading[thousands] | following[np.minimum(thousands, 1), rest] | np.uint64(end[0] << 56)
            return words.reshape(-1, 1)
        return self._pack_list(write_numbers(cells).to_list(), name)

    def _quote(self, cell: str) -> str:
        # An empty cell by itself would be a blank line, which readers skip.
        if not set(cell).isdisjoint(',"\r\n') or (self._may_be_blank and not cell):
            return '"' + cell.replace('"', '""') + '"'
        return cell


@functools.cache
def _list_digits() -> tuple[Words, Words]:
    """Gives thousands as the first four bytes of a word, and numbers below a thousand as the next three.

    Those come in two rows: by themselves, and behind thousands.
    """

    def pack(texts: Iterable[str], first: int, last: int) -> Words:
        filled = (b"\0" * first + text.encode().rjust(last - first, _FILLING) for text in texts)
        return np.frombuffer(b"".join(text.ljust(_WORD, b"\0") for text in filled), "<u8")

    leading = pack(["", *map(str, range(1, 10_000))], 0, 4)
    following = np.stack([pack(map(str, range(1000)), 4, 7), pack((f"{n:03}" for n in range(1000)), 4, 7)])
    return leading, following


def _check_lists(cells: Mapping[str, Sequence[str]], schema: Schema) -> None:
    """Checks lists of cells as if they were columns of a table, each again and again down to the end of the longest.

    What is derived stands beside what it is derived from: those lists are as long as each other.
    """
    lengths = {len(column).bit_length() for column in cells.values()}
    for length in lengths:
        alike = {name: column for name, column in cells.items() if len(column).bit_length() == length}
        rows = np.arange(max(map(len, alike.values())))
        frame = pl.DataFrame({name: pl.Series(column).gather(rows % len(column)) for name, column in alike.items()})
        check_cells(frame, replace(schema, columns=tuple(schema.by_name[name] for name in alike), layout=None))
