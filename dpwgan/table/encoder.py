"""A whole table, both ways: string cells to the encoded table that a method sees, and back to legal rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from dpwgan.array_types import AnyArray, Flags, Floats, Integers
from dpwgan.errors import DataError, DpwganError, SpecsError, quote
from dpwgan.table.codecs import make_codecs, make_derivation
from dpwgan.table.codecs.codec import Codec, EncodedCells, ReadCodec, list_distinct
from dpwgan.table.codecs.numbers import NumericCodec
from dpwgan.table.codecs.untrained import FixedCell, FreshIdentifiers, MemberCells
from dpwgan.table.conditions import read_sql
from dpwgan.table.encoded import EncodedTable, RowRule, choose_number_type, lay_out_spans
from dpwgan.table.findings import Findings, check_header, describe
from dpwgan.table.rules import RuleBook
from dpwgan.table.schema import FixedColumn, FunctionColumn, IdentifierColumn, MemberColumn, Rule, Schema, SizeColumn
from dpwgan.table.source import Piece
from dpwgan.table.storage import allocate, cut, let_go, move_up
from dpwgan.table.threads import map_in_order
from dpwgan.table.units.unit_rules import UnitRules

# Rows that are turned from columns at a time.
_BLOCK = 512


class TableEncoder:
    """Turns tables of string cells into encoded tables and back, column by column, by public rules alone.

    Privacy: the encoder holds nothing of any row. Encoding acts on each row by itself; decoding is post-processing.
    Raises: SpecsError if a column's list of cells is not discovered yet; DataError if header and specs differ.
    """

    def __init__(self, schema: Schema, header: Sequence[str]) -> None:
        check_header(header, schema)
        for unknown in schema.undiscovered:
            raise SpecsError(f"Column {quote(unknown.name)}: its list of cells is not discovered yet.")
        self.schema = schema
        self.header = tuple(filter(schema.is_written, header))
        # What is decoded: until rows are put together into units they say how many rows theirs has.
        self._drawn = (*self.header, *(column.name for column in schema.columns if isinstance(column, SizeColumn)))
        self.spans = lay_out_spans(schema)
        self._trained = make_codecs(schema.columns)
        self._derived = {
            column.name: make_derivation(column, self._trained)
            for column in schema.columns
            if isinstance(column, FunctionColumn)
        }
        self._readable: dict[str, ReadCodec] = {**self._trained, **self._derived}
        self.rules = RuleBook(schema.rules, self._readable)
        self._identifiers = {
            column.name: FreshIdentifiers(column)
            for column in schema.columns
            if isinstance(column, IdentifierColumn) and column.is_written
        }
        self._members = {
            column.name: MemberCells(column, schema.unit.name)
            for column in schema.columns
            if isinstance(column, MemberColumn) and schema.unit is not None
        }
        self._fixed = {column.name: FixedCell(column) for column in schema.columns if isinstance(column, FixedColumn)}
        # In which columns of the arrays a column's codes and numbers lie, if it has them.
        self._code_of, self._number_of, spans = {}, {}, iter(self.spans)
        for column in schema.columns:
            own = [next(spans) for _ in column.parts]
            self._code_of[column.name] = _place([span.source for span in own if span.head != "linear"])
            self._number_of[column.name] = _place([span.source for span in own if span.head == "linear"])
        linear = sum(span.head == "linear" for span in self.spans)
        self._codes, self._numbers = len(self.spans) - linear, linear

    def encode_pieces(
        self, pieces: Iterable[Piece], *, records: int, on_disk: bool = False, threads: int | None = None
    ) -> EncodedTable:
        """Parses and encodes a table of `records` rows, several pieces side by side, into memory or onto the disk.

        Raises: DataError, naming each column and rule that is broken, with the number of rows in all pieces; whatever
          parsing raises; TransferError if the disk has no room for the rows.
        """
        codes = allocate((records, self._codes), np.int32, on_disk=on_disk)
        numbers = allocate((records, self._numbers), choose_number_type(self.spans), on_disk=on_disk)
        kept = np.ones(records, np.bool_)

        def encode(task: tuple[int, Piece]) -> Findings:
            first, piece = task
            rows, findings = slice(first, first + piece.records), piece.findings
            frame = piece.parse()
            if findings.rows:  # what is empty in its place may break other rules, which nobody broke
                return findings
            # The different cells of each column are found once for all who ask (`list_distinct`), in categories of
            # their own: what was read of one piece is forgotten with it.
            texts = [cells.name for cells in frame.get_columns() if cells.dtype == pl.String]
            frame = frame.cast({name: pl.Categorical(pl.Categories.random()) for name in texts})
            # Column after column first: rows are written in blocks that stay in the processor's cache.
            code_columns = np.empty((self._codes, piece.records), np.int32)
            number_columns = np.empty((self._numbers, piece.records), numbers.dtype)
            for name, part in self._judge(frame, findings):
                self._put(name, part, code_columns, number_columns)
            kept[rows] = self.find_kept(frame, findings)
            for block in cut(piece.records, size=_BLOCK):
                codes[rows][block] = code_columns[:, block].T
                numbers[rows][block] = number_columns[:, block].T
            let_go(codes, numbers)
            return findings

        _gather(map_in_order(encode, _number(pieces, records=records), threads=threads)).raise_if_any()
        if self.schema.drops_rows:
            codes, numbers = move_up(codes, kept), move_up(numbers, kept)
        return EncodedTable(codes=codes, numbers=numbers, spans=self.spans)

    def find_kept(self, frame: pl.DataFrame, findings: Findings) -> Flags:
        """Which of (n,) rows no rule between columns drops; those that break a rule that rejects are counted.

        Not counted are rows with an illegal cell in a column that the rule reads: they were, for that cell.
        Privacy: a function of each row by itself. How many are dropped is neither counted nor told.
        """
        kept = np.ones(frame.height, np.bool_)
        for rule, broken in zip(self.rules.rules, self.rules.find_broken(frame), strict=True):
            if rule.violations == "reject":
                findings.add_broken(rule.name, self._count_sound(frame.filter(broken), rule) if broken.any() else 0)
            elif rule.violations == "drop":
                kept &= ~broken
        return kept

    def _count_sound(self, frame: pl.DataFrame, rule: Rule) -> int:
        """How many of (n,) rows have only legal cells where a rule reads them."""
        for name in {source for read in rule.columns for source in self.list_sources(read)}:
            distinct, places = list_distinct(frame.get_column(name))
            _, illegal = self._trained[name].encode_distinct(distinct)
            is_sound = ~np.logical_or.reduce([*illegal.values(), np.zeros(len(distinct), np.bool_)])
            frame = frame.filter(is_sound.take(places))
        return frame.height

    def find_misfits(self, pieces: Iterable[Piece]) -> Findings:
        """Counts the rows that break a rule, by column and rule, and keeps nothing else of them.

        Raises: whatever parsing raises.
        """

        def look(piece: Piece) -> Findings:
            findings, frame = piece.findings, piece.parse()
            if not findings.rows:
                for _ in self._judge(frame, findings):
                    pass
                self.find_kept(frame, findings)
            return findings

        return _gather(map_in_order(look, pieces))

    def _judge(self, frame: pl.DataFrame, findings: Findings) -> Iterator[tuple[str, EncodedCells]]:
        """Encodes the trained columns in turn, and counts the rows that break a rule of any column."""
        for name, codec in self._trained.items():
            yield name, codec.encode_row(frame, findings)
        for rule in self._derived.values():
            rule.check(frame, findings)
        for fixed in self._fixed.values():
            fixed.check(frame, findings)

    def decode(
        self,
        encoded: EncodedTable,
        rng: np.random.Generator,
        *,
        first_record: int = 0,
        known: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Writes encoded rows as cells in the order of the header: legal ones, whatever the numbers are.

        Behind them is how many rows a row's unit has, where rows are still to be put together into units.
        Cells are text, of the type `pl.Enum` where the specs list them. Columns that are `known` are decoded already.
        `first_record` is the position of the first row in the whole output, where identifiers go on counting.
        `rng` is used for numbers drawn from bins.
        Raises: DpwganError, an internal error, if the encoded table is not laid out as this encoder's.
        """
        cells = self.decode_columns(encoded, rng, names=self.schema.by_name, known=known)
        for name, identifiers in self._identifiers.items():
            cells[name] = identifiers.make(first_record=first_record, records=encoded.records)
        for name, members in self._members.items():
            cells[name] = members.make(np.ones(encoded.records, np.int64))
        for name, fixed in self._fixed.items():
            cells[name] = fixed.make(records=encoded.records)
        return pl.DataFrame({name: cells[name] for name in self._drawn})

    def decode_columns(
        self,
        encoded: EncodedTable,
        rng: np.random.Generator,
        *,
        names: Iterable[str],
        known: pl.DataFrame | None = None,
    ) -> dict[str, pl.Series]:
        """The cells of some columns and of those that they are derived from; names of rows are no such. As `decode`."""
        codes, numbers = encoded.codes.shape, encoded.numbers.shape
        if encoded.spans != self.spans or codes[1:] != (self._codes,) or numbers != (codes[0], self._numbers):
            raise DpwganError("Internal error: the encoded table is not laid out as its specs ask.")
        wanted = {*names}
        wanted.update(*map(self.list_sources, wanted & self._readable.keys()))
        cells: dict[str, pl.Series] = {}
        for name, codec in sorted(self._trained.items(), key=lambda item: bool(item[1].sources)):
            if name not in wanted:
                continue
            if known is not None and name in known.columns:
                cells[name] = known.get_column(name)
                continue
            code, number = self._code_of[name], self._number_of[name]
            part = EncodedCells(
                codes=None if code is None else encoded.codes[:, code].T.astype(np.int32, copy=False),
                numbers=None if number is None else encoded.numbers[:, number].T,
            )
            cells[name] = codec.decode_row(part, rng, cells)
        for name, rule in self._derived.items():
            if name in wanted:
                cells[name] = rule.apply(pl.DataFrame(cells))
        return cells

    def list_rules(self) -> tuple[RowRule, ...]:
        """The rules between columns, and what is derived of one list of categories, as methods see them."""
        sources = {name: self.list_sources(name) for name in self._derived}
        of_lists = [name for name, (first, *more) in sources.items() if not more and self._number_of[first] is None]
        derived = (self._describe_derived(name, *sources[name]) for name in of_lists)
        return (*map(self._describe_rule, self.schema.rules), *derived)

    def _describe_derived(self, name: str, source: str) -> RowRule:
        def tell_apart(encoded: EncodedTable) -> Integers:
            cells = self.decode_columns(encoded, np.random.default_rng(0), names=[name])[name]
            return cells.fill_null("").rank("dense").to_numpy().astype(np.int64)

        return RowRule(
            columns=(source,),
            opaque=frozenset([source]),
            break_rows=lambda encoded: np.zeros(encoded.records, np.bool_),
            tell_apart=tell_apart,
        )

    def _describe_rule(self, rule: Rule) -> RowRule:
        condition = None if rule.sql is None else read_sql(rule.sql)
        book = RuleBook([rule], self._readable)

        def list_sources(names: Iterable[str]) -> list[str]:
            return [source for name in names for source in self.list_sources(name)]

        def break_rows(encoded: EncodedTable) -> Flags:
            cells = self.decode_columns(encoded, np.random.default_rng(0), names=rule.columns)
            return book.find_broken(pl.DataFrame(cells))[0]

        columns = tuple(dict.fromkeys(list_sources(rule.columns)))
        ends = ((name, self.schema.by_name[name].ends) for name in columns)
        derived = [name for name in rule.columns if name in self._derived]
        return RowRule(
            columns=columns,
            ranges={name: both for name, both in ends if both is not None},
            numbers=() if condition is None else tuple(constant for _, _, constant in condition.comparisons),
            opaque=frozenset(columns if condition is None else list_sources({*condition.opaque, *derived})),
            break_rows=break_rows,
            drops=rule.violations == "drop",
        )

    def read_values(self, frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
        """What rules between columns would see of (n,) rows of cells of some columns that are trained."""
        return pl.DataFrame({name: self._trained[name].get_values(frame) for name in names})

    def put_cells(
        self, frame: pl.DataFrame, cells: pl.DataFrame, *, rng: np.random.Generator
    ) -> tuple[pl.DataFrame, Flags]:
        """(n,) rows with other cells in some columns, and which now break a rule.

        What is derived from these is derived anew, and what is told by them stays as far from them as it was.
        """
        told = [
            (codec, codec.encode_row(frame, Findings()))
            for name, codec in self._trained.items()
            if name not in cells and not {*codec.sources}.isdisjoint(cells.columns)
        ]
        frame = frame.with_columns(cells)
        for codec, lag in told:
            frame = frame.with_columns(codec.decode_row(lag, rng, frame.to_dict()).alias(codec.name))
        derived = (rule.apply(frame).alias(name) for name, rule in self._derived.items())
        frame = frame.with_columns(*derived)
        broken = [np.zeros(frame.height, np.bool_), *self.rules.find_broken(frame)]
        return frame, np.logical_or.reduce(broken)

    def name_units(self, frame: pl.DataFrame, sizes: Integers, *, first_unit: int, first_record: int) -> pl.DataFrame:
        """The rows, sorted into units of these sizes, with fresh names of units and rows, and their places.

        Shapes: (n,), (units,).
        """
        unit = self.schema.unit
        if unit is None:
            raise DpwganError("Internal error: the specs name no unit.")
        names = {
            name: identifiers.make(first_record=first_record, records=frame.height)
            for name, identifiers in self._identifiers.items()
            if name != unit.name
        }
        of_units = self._identifiers[unit.name].make(first_record=first_unit, records=len(sizes))
        names[unit.name] = of_units.gather(np.repeat(np.arange(len(sizes)), sizes))
        names |= {name: members.make(sizes) for name, members in self._members.items()}
        return frame.with_columns(**names).select(self.header)

    def exchange(self, into: EncodedTable, other: EncodedTable, names: Iterable[str], rows: Flags) -> None:
        """Copies into flagged rows what another table has there of some columns, or of those that they derive from."""
        for name in {source for seen in names for source in self.list_sources(seen)}:
            for place, mine, theirs in (
                (self._code_of[name], into.codes, other.codes),
                (self._number_of[name], into.numbers, other.numbers),
            ):
                for column in [] if place is None else np.atleast_1d(place):
                    mine[rows, column] = theirs[rows, column]

    def move(self, into: EncodedTable, cells: pl.Series, *, by: Floats) -> None:
        """Adds to a column's numbers, of which these are the cells, and ends at the nearest that it may have.

        Shapes: (n,) each. Raises: DpwganError, an internal error, if it is no column of numbers by itself.
        """
        codec = self._trained[cells.name]
        if not isinstance(codec, NumericCodec):
            raise DpwganError("Internal error: a column is moved that has no numbers.")
        missing, values, _ = codec.read(cells)
        column = codec.column
        part = codec.encode_values(missing, np.clip(values + by, column.minimum, column.maximum))
        self._put(cells.name, part, into.codes.T, into.numbers.T)

    def _put(self, name: str, part: EncodedCells, codes: AnyArray, numbers: AnyArray) -> None:
        """Writes an encoded column into its places in arrays of codes and of numbers. Shapes: (columns, n) each."""
        if part.codes is not None:
            codes[self._code_of[name]] = part.codes
        if part.numbers is not None:
            numbers[self._number_of[name]] = part.numbers

    def list_sources(self, name: str) -> tuple[str, ...]:
        """The trained columns without whose cells a column's say nothing, itself among them if it is trained."""
        names = self._derived[name].sources if name in self._derived else (name,)
        return tuple(dict.fromkeys(source for own in names for source in (own, *self._trained[own].sources)))

    def make_unit_rules(self, *, free_of: Iterable[str] = ()) -> UnitRules:
        """The rules between rows of a unit; none of those that read what hangs on some columns."""
        texts = () if self.schema.unit is None else self.schema.unit.rules
        without = {*free_of}

        def is_free(text: str) -> bool:
            read = UnitRules([text], self._readable).columns
            return without.isdisjoint(source for name in read for source in self.list_sources(name))

        return UnitRules([*filter(is_free, texts)], self._readable)

    def add_rule(self, rule: Rule) -> RuleBook:
        """The rules of the specs and one more."""
        return RuleBook((*self.schema.rules, rule), self._readable)

    def validate(self, frame: pl.DataFrame) -> None:
        """Checks every cell of an output table against the specs.

        Raises: DpwganError, an internal error, naming column, rule and count of rows.
        """
        if tuple(frame.columns) not in (self.header, self._drawn):
            raise DpwganError("Internal error: the columns of the output are not those of the header.")
        codecs: Mapping[str, Codec] = {**self._readable, **self._identifiers, **self._members, **self._fixed}
        checked = {name: codecs[name].validate(frame) for name in self.schema.by_name if name in self.header}
        wrong = {(name, rule): rows for name, (rule, rows) in checked.items() if rows}
        for rule, broken in zip(self.rules.rules, self.rules.find_broken(frame), strict=True):
            if broken.any():
                wrong["", rule.name] = int(np.count_nonzero(broken))
        if wrong:
            raise DpwganError(f"Internal error: the output does not fit the specs: {describe(wrong)}.")


def _gather(parts: Iterable[Findings]) -> Findings:
    findings = Findings()
    for found in parts:
        findings.merge(found)
    return findings


def _place(sources: list[int]) -> int | list[int] | None:
    """One column of an array, several, or none."""
    return sources if len(sources) > 1 else sources[0] if sources else None


def _number(pieces: Iterable[Piece], *, records: int) -> Iterator[tuple[int, Piece]]:
    """Gives each piece the place of its first row. Raises: DataError if they are not as many rows as were counted."""
    first = 0
    for piece in pieces:
        if first + piece.records > records:
            break
        yield first, piece
        first += piece.records
    else:
        if first == records:
            return
    raise DataError("The table does not have the number of rows that was counted before.")
