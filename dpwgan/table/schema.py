"""The public facts about a table: its columns, their legal cells and ranges. No row is ever seen here."""

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from numbers import Real
from typing import ClassVar, Literal

from dpwgan.table.numerals import read_beginning, read_number

OutOfDomain = Literal["reject", "clamp", "missing"]
DomainSource = Literal["specs", "codebook", "private", "waived"]
Kind = Literal["whole", "real", "text", "truth", "date", "datetime", "time"]
CellType = tuple[Kind, bool]
"""The type that holds every cell of a column outside of CSV, and whether an empty cell is one of them."""

Role = Literal["category", "bin", "available", "number"]
Head = Literal["softmax", "sigmoid", "linear"]

MOST_LEVELS = 1 << 53
"""The most levels that a number is given; a column with more numbers has this many, evenly spaced."""

MOST_SINGLE_LEVELS = 1 << 20
"""Numbers of more levels than this are carried in double precision: single precision would mix up neighbours."""

WHOLE, DAYS = "1/1", "day"
"""Units of numbers: whole ones, and days."""

FEW_LEVELS = 128
"""Of a number of no more levels it is not asked what it is rounded to, nor how days of a week differ."""

# A step is one to round to where so many of its multiples are in a range.
_LEAST_MULTIPLES = 10

# Sizes of a unit that are told from each other.
_MOST_SIZES = 1_000

# Whole numbers of fewer digits than these fit 64 bits.
_SURELY_64_BITS = 19


@dataclass(frozen=True, kw_only=True)
class Span:
    """A column's slice of the encoded width, or that of a part of it.

    `column`: whose it is, and which part, as "seen (day)". What a `Column` says of its parts has no slice yet, and
      names only what tells them apart: "day".
    `role`: "bin" is bins first, then the missing codes. "available" is the missing codes of a number first, "available"
      last; that number is the next span, 0 where not available.
    `start`, `width`: positions in a dense encoded row. Two categories take one position (sigmoid): it holds the code.
    `source`: index into `EncodedTable.codes` (softmax and sigmoid) or `EncodedTable.numbers` (linear).
    `categories`: number of codes; 0 for a number.

    All others are facts about the same layout, and take no part in comparing two spans. Of codes:
    `ordered`: those that are not missing have an order: they are bins, begin with rising numbers, or are said to.
    `missing`: how many mean not available, of "available" the first ones, else the last ones.

    Of numbers:
    `levels`: how many the column may write, at most `MOST_LEVELS`. Level i stands at `first_level` + i / (levels - 1) *
      (`last_level` - `first_level`) of [0, 1]: these are 0 and 1 unless an end of the range cannot be written itself.
    `borders`, `cuts`: levels at which an interval begins, and must begin.
    `zero_level`: that of the number 0, in the range or not.
    `round_steps`: to which multiples, in levels, people may round it, from 1 up, each of which divides the next.
    `first_day`: where levels are days, the one of level 0, counted from 1970 on.
    `unit`: what one level more is, where levels may be held against those of others of the same unit; else "".
    """

    column: str = ""
    role: Role
    head: Head = "linear"
    start: int = 0
    width: int = 1
    source: int = 0
    categories: int = 0
    levels: int = field(default=0, compare=False)
    first_level: float = field(default=0.0, compare=False)
    last_level: float = field(default=1.0, compare=False)
    ordered: bool = field(default=False, compare=False)
    missing: int = field(default=0, compare=False)
    borders: tuple[int, ...] = field(default=(), compare=False)
    cuts: tuple[int, ...] = field(default=(), compare=False)
    zero_level: int = field(default=0, compare=False)
    round_steps: tuple[int, ...] = field(default=(), compare=False)
    first_day: int | None = field(default=None, compare=False)
    unit: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Takes lists as JSON has them, too."""
        for name in ("borders", "cuts", "round_steps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """The public facts about a column, whatever its type."""

    name: str

    kind: ClassVar[str | None] = None
    """What a saved model calls this type of column."""

    kinds: ClassVar[dict[str, type["Column"]]] = {}
    """Every type of column by that name."""

    by_spelling: ClassVar[bool] = False
    """Whether two spellings of one number may be two cells, as in a list of them."""

    def __init_subclass__(cls, kind: str | None = None) -> None:
        """Registers a type of column under its name."""
        cls.kind = kind
        if kind is not None:
            Column.kinds[kind] = cls

    @property
    def is_read(self) -> bool:
        """Whether cells of the input are looked at."""
        return True

    @property
    def is_written(self) -> bool:
        """Whether the output has such a column; an input may then leave it out as well."""
        return True

    @property
    def listed(self) -> tuple[str, ...]:
        """The cells that are legal word for word."""
        return ()

    @property
    def parts(self) -> tuple[Span, ...]:
        """The spans that methods see of it; none for a column that is not trained."""
        return ()

    @property
    def ends(self) -> tuple[float, float] | None:
        """What 0 and 1 mean, as rules see it, where methods see one number of it that goes from 0 to 1."""
        return None

    @abstractmethod
    def choose_type(self, schema: "Schema") -> CellType:
        """Says which type holds every cell that the column may have."""


class TrainedColumn(Column):
    """A column that methods see, each of its cells by itself.

    `missing` holds the cells that mean not available ("" where an empty cell is allowed). With `integer` all others are
    whole numbers.
    """

    missing: tuple[str, ...]
    out_of_domain: OutOfDomain
    integer: bool

    @property
    def listed(self) -> tuple[str, ...]:
        """The codes that mean not available."""
        return self.missing


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn(TrainedColumn, kind="categorical"):
    """A column with a finite list of legal cells.

    `tokens` holds every legal cell, in the order of their codes: the values, then the codes that mean not
    available, then "" where an empty cell is allowed. `missing` are those of them that mean not available.
    With `integer` two spellings of one whole number are the same cell ("3", "03", "3.0").
    `domain` says where the list came from; "private" was paid for in the ledger, "waived" is not covered.
    `ordered`: whether cells that are not missing have an order; None where their own numbers say so.
    """

    tokens: tuple[str, ...]
    missing: tuple[str, ...] = ()
    integer: bool = False
    ordered: bool | None = None
    out_of_domain: OutOfDomain = "reject"
    domain: DomainSource = "specs"

    by_spelling = True

    @property
    def listed(self) -> tuple[str, ...]:
        """Every legal cell."""
        return self.tokens

    @property
    def parts(self) -> tuple[Span, ...]:
        """One code a token."""
        missing = len(self.missing)
        known = self.tokens[: len(self.tokens) - missing]
        ordered = _are_rising(known) if self.ordered is None else self.ordered
        return (Span(role="category", categories=len(self.tokens), missing=missing, ordered=ordered),)

    def choose_type(self, schema: "Schema") -> CellType:
        """Whole numbers if all cells are written as such, else text."""
        return _hold_listed(self.tokens)


@dataclass(frozen=True, kw_only=True)
class BooleanColumn(CategoricalColumn, kind="boolean"):
    """Two legal cells, the first of `tokens` for true and the second for false, then those for not available.

    `spellings` are more cells for true, and for false, which are read and never written; case is ignored in all of
    these.
    """

    spellings: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def choose_type(self, schema: "Schema") -> CellType:
        """Truth values where the two are written so, unless a code that means not available is none."""
        truths = tuple(token.lower() for token in self.tokens[:2]) == ("true", "false")
        return _hold_listed(self.tokens) if not truths or any(self.missing) else ("truth", bool(self.missing))


@dataclass(frozen=True, kw_only=True)
class NumericColumn(TrainedColumn, kind="numeric"):
    """A column of numbers in a public range, with codes that mean not available.

    `decimals` is how many digits are written behind the point; whole numbers are written with leading zeros up to
    `width` digits. `edges`, if given, are the public borders of bins (first = minimum, last = maximum): the column is
    then trained as one category a bin. At each of the `borders` and `cuts`, public as well, an interval begins for
    whoever finds intervals by itself; small ones may be merged beyond a border, and none has numbers on both sides of a
    cut.
    """

    minimum: float
    maximum: float
    integer: bool
    decimals: int = 0
    width: int = 0
    missing: tuple[str, ...] = ()
    edges: tuple[float, ...] | None = None
    borders: tuple[float, ...] = ()
    cuts: tuple[float, ...] = ()
    out_of_domain: OutOfDomain = "reject"

    def __post_init__(self) -> None:
        """Raises: TypeError for borders that are no numbers, as a damaged model's may be."""
        for borders in (() if self.edges is None else self.edges, self.borders, self.cuts):
            if not all(isinstance(border, Real) for border in borders):
                raise TypeError("Borders are numbers.")

    @property
    def parts(self) -> tuple[Span, ...]:
        """One code a bin and a missing code; or a number, and before it which missing code it is, or none."""
        missing = len(self.missing)
        if self.edges is not None:
            return (Span(role="bin", categories=len(self.edges) - 1 + missing, missing=missing, ordered=True),)
        levels, first, last = self._count_levels()
        low, high = self.find_ends()
        number = Span(
            role="number",
            levels=levels,
            first_level=first,
            last_level=last,
            borders=self._place_levels(self.borders, levels),
            cuts=self._place_levels(self.cuts, levels),
            zero_level=-low,
            round_steps=choose_round_steps(levels) if levels == high - low + 1 else (),
            unit=f"1/{self.steps_per_unit}" if levels == high - low + 1 else "",
        )
        return (Span(role="available", categories=missing + 1, missing=missing), number) if missing else (number,)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The range, whose ends are 0 and 1."""
        return self.minimum, self.maximum

    @property
    def steps_per_unit(self) -> int:
        """The number of steps in 1: cells are whole multiples of a step."""
        return 1 if self.integer else int(10**self.decimals)

    def count_steps(self, value: float, *, up: bool) -> int:
        """The next number that may be written above a value, or else below it, or at it, in steps."""
        # Through the decimal text of the double: 1.1 is then 11 tenths, not a hair more.
        steps = Decimal(repr(float(value))) * self.steps_per_unit
        return int(steps.to_integral_value(rounding=ROUND_CEILING if up else ROUND_FLOOR))

    def find_ends(self) -> tuple[int, int]:
        """The first and the last number that may be written, in steps."""
        return self.count_steps(self.minimum, up=True), self.count_steps(self.maximum, up=False)

    def _count_levels(self) -> tuple[int, float, float]:
        """How many numbers may be written, and where in the range, as fractions, the first and last one lie."""
        minimum, maximum = Decimal(repr(float(self.minimum))), Decimal(repr(float(self.maximum)))
        if not (minimum.is_finite() and maximum.is_finite() and minimum < maximum):
            return 1, 0.0, 0.0
        low, high = self.find_ends()
        if low > high:
            return 1, 0.0, 0.0
        levels = high - low + 1
        if MOST_SINGLE_LEVELS < levels <= MOST_LEVELS:
            # Whole numbers over a power of 2 are exact in a double, and so is the way back.
            return levels, 0.0, (levels - 1) / 2 ** (levels - 1).bit_length()
        ends = (Decimal(step) / self.steps_per_unit for step in (low, high))
        first, last = (float((end - minimum) / (maximum - minimum)) for end in ends)
        return min(levels, MOST_LEVELS), first, last

    def _place_levels(self, borders: tuple[float, ...], levels: int) -> tuple[int, ...]:
        """The first level at or above each border, but for those that leave all levels on one side."""
        low, high = self.find_ends()
        steps = (self.count_steps(cut, up=True) - low for cut in borders)
        # Where there are fewer levels than numbers, each stands for several.
        places = {step if levels > high - low else -(-step * (levels - 1) // (high - low)) for step in steps}
        return tuple(sorted(place for place in places if 0 < place < levels))

    def choose_type(self, schema: "Schema") -> CellType:
        """Numbers, unless they have leading zeros or a code that means not available is no such number."""
        return _hold_numbers(whole=self.integer and not self.decimals, width=self.width, missing=self.missing)


@dataclass(frozen=True, kw_only=True)
class HigherColumn(NumericColumn, kind="higher"):
    """A column of numbers `least` to `most` above those of the column `above`: methods see the difference.

    Its own range is that of the other column, so much higher.
    """

    above: str
    least: float
    most: float

    ends = None

    @property
    def difference(self) -> NumericColumn:
        """What methods see in its place."""
        return NumericColumn(
            name=self.name,
            minimum=self.least,
            maximum=self.most,
            integer=self.integer,
            decimals=self.decimals,
            missing=self.missing,
        )

    @property
    def parts(self) -> tuple[Span, ...]:
        """Those of the difference."""
        return self.difference.parts


def choose_round_steps(levels: int, steps: Iterable[int] | None = None) -> tuple[int, ...]:
    """To which multiples people may round a number of so many levels, from 1 up: by default 5, 10, 50, 100 and so on.

    None where there are few levels. Each of the `steps` divides the next.
    """
    if levels <= FEW_LEVELS:
        return ()
    if steps is None:
        steps = (unit * 10**power for power in range(len(str(levels))) for unit in (1, 5))
    found = tuple(step for step in steps if step == 1 or step * _LEAST_MULTIPLES <= levels)
    return found if len(found) > 1 else ()


@dataclass(frozen=True, kw_only=True)
class DerivedColumn(Column, kind="derived"):
    """A column that is a function of another one: not trained, checked at encode, recomputed at decode.

    Exactly one of `multiply` (number times k), `floordiv` (number divided by k, rounded down) and `mapping`
    (cell to cell) is given. A cell of the source that means not available (in the source's `missing`) gives `missing`
    here; with `missing` None it goes through the mapping, or without one stays as it is. Numbers are written with
    `decimals` digits behind the point and leading zeros up to `width` digits before it.
    """

    source: str
    multiply: int | None = None
    floordiv: int | None = None
    mapping: Mapping[str, str] | None = None
    missing: str | None = None
    decimals: int = 0
    width: int = 0

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it is a function of."""
        return (self.source,)

    def derive(self, cell: str, *, available: bool) -> str:
        """Gives this column's cell for one legal cell of the source, spelt as the source's schema spells it.

        `available` is False for a cell that is in the source's `missing`.
        """
        if not available and self.missing is not None:
            return self.missing
        if self.mapping is not None:
            return self.mapping[cell]
        if not available:
            return cell
        # Decimal, because a legal whole number may be spelt "15400.0" and float would round large ones.
        number = int(Decimal(cell))
        number = number * self.multiply if self.multiply is not None else number // (self.floordiv or 1)
        return write_whole(number, width=self.width, decimals=self.decimals)

    def choose_type(self, schema: "Schema") -> CellType:
        """What holds all that the rule can give."""
        own = () if self.missing is None else (self.missing,)
        if self.mapping is not None:
            # Without a code of its own, a missing cell of the source goes through the mapping too.
            return _hold_listed((*self.mapping.values(), *own))
        source = schema.by_name[self.source]
        through = source.missing if isinstance(source, TrainedColumn) else ()
        return _hold_numbers(whole=not self.decimals, width=self.width, missing=own or through)


@dataclass(frozen=True, kw_only=True)
class ComputedColumn(Column, kind="computed"):
    """A column that an SQL expression gives from others of its row: not trained, checked at encode, written at decode.

    `sources` are the columns that it reads. If it `gives` numbers, these are written with `decimals` digits
    behind the point and leading zeros up to `width` digits before it. What is NULL is written as `missing`.
    """

    sql: str
    sources: tuple[str, ...]
    gives: Kind
    missing: str = ""
    decimals: int = 0
    width: int = 0

    def choose_type(self, schema: "Schema") -> CellType:
        """Numbers if the expression gives them, unless they are written otherwise; NULL may come up anywhere."""
        if self.gives == "text":
            return "text", not self.missing
        whole = self.gives == "whole" and not self.decimals
        return _hold_numbers(whole=whole, width=self.width, missing=(self.missing,))


FunctionColumn = DerivedColumn | ComputedColumn
"""A column that is a function of others."""


@dataclass(frozen=True, kw_only=True)
class IdentifierColumn(Column, kind="identifier"):
    """A column of row names: dropped before training and written anew, so that no name leaves the building.

    Whole numbers counted up from `start`, of at least `width` digits; with `start` None, random UUIDs.
    """

    start: int | None = None
    width: int = 0

    def choose_type(self, schema: "Schema") -> CellType:
        """Whole numbers, or text for UUIDs and leading zeros."""
        return ("text" if self.start is None or self.width > 1 else "whole"), False


@dataclass(frozen=True, kw_only=True)
class FixedColumn(Column, kind="fixed"):
    """A column that tells nothing of any row: all rows of the output hold `cell`, or have no such column where None.

    With `checked` the table must hold that cell too; without, its cells are never looked at.
    """

    cell: str | None
    checked: bool = False

    @property
    def is_read(self) -> bool:
        """Only where it is to be checked."""
        return self.checked

    @property
    def is_written(self) -> bool:
        """Unless it is left out."""
        return self.cell is not None

    @property
    def listed(self) -> tuple[str, ...]:
        """The one cell."""
        return () if self.cell is None else (self.cell,)

    def choose_type(self, schema: "Schema") -> CellType:
        """What holds the one cell."""
        return _hold_listed(self.listed)


@dataclass(frozen=True, kw_only=True)
class MemberColumn(Column, kind="member"):
    """A column of whole numbers that follow from which rows are of one unit: never read, and written anew.

    `tells` the row's place among those of its unit, counted up from `start`, or the unit's size: its number of rows.
    """

    tells: Literal["place", "size"]
    start: int = 1
    width: int = 0

    is_read = False

    def choose_type(self, schema: "Schema") -> CellType:
        """Whole numbers, or text for leading zeros."""
        return _hold_numbers(whole=True, width=self.width, missing=())


@dataclass(frozen=True, kw_only=True)
class UnitColumn(IdentifierColumn, kind="unit"):
    """The column that says whose a row is: of each unit at most `max_rows` are kept, and the cell itself is let go.

    Its cells are text that is compared to the letter; none may be empty. Where it is `written`, rows of the output are
    put together into units with fresh names. `shared` columns have one cell in all rows of a unit, and no two rows of
    one are alike in all `unique` columns, if there are any; rows are told apart by `kind_of_row`, if a column of
    categories says it, and `of_kind` has how many of some kinds a unit has at least and at most. `rules` are conditions
    that rows of the output keep beside others of their unit. `sizes` are the shares of units with so many rows of each
    kind (`dpwgan.table.units.forms.list_forms`): released numbers, none before they are, or where units have one row.
    `linked` are columns in which rows of a unit hang together, and `links`, once they are released, of each of them the
    bounds of its groups, how many of them are told apart, and the shares of pairs
    (`dpwgan.table.units.links.PairCells`).
    """

    max_rows: int
    written: bool = False
    shared: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    kind_of_row: str | None = None
    of_kind: tuple[tuple[str, int, int], ...] = ()
    linked: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    sizes: tuple[float, ...] = ()
    links: tuple[tuple[tuple[float, ...] | tuple[str, ...], int, tuple[float, ...]], ...] = ()

    @property
    def is_written(self) -> bool:
        """Only with fresh names."""
        return self.written

    @property
    def has_sizes(self) -> bool:
        """Whether rows of the output are put together into units of several."""
        return self.written and self.max_rows > 1

    @property
    def size_column(self) -> "SizeColumn":
        """The column of how many rows a unit has; of the largest all that have so many or more."""
        sizes = range(1, min(self.max_rows, _MOST_SIZES) + 1)
        return SizeColumn(name=name_part(self.name, "rows"), tokens=tuple(map(str, sizes)), integer=True)

    @property
    def has_kinds_once(self) -> bool:
        """Whether no two rows of a unit are of one kind."""
        return self.unique == (self.kind_of_row,)

    def list_bounds(self, kinds: Sequence[str]) -> list[tuple[int, int]]:
        """How many rows of each of these kinds a unit has at least and at most."""
        most = 1 if self.has_kinds_once else self.max_rows
        told = {kind: (least, upper) for kind, least, upper in self.of_kind}
        return [(least, min(upper, most)) for least, upper in (told.get(kind, (0, most)) for kind in kinds)]


@dataclass(frozen=True, kw_only=True)
class SizeColumn(CategoricalColumn, kind="size"):
    """How many rows the unit of a row has: counted where units are read, and told by the rows of the output.

    So what hangs on it is fitted, and units of each kind are as large as the table's. No file has such a column.
    """

    is_read = is_written = False


@dataclass(frozen=True, kw_only=True)
class UndiscoveredColumn(Column):
    """A categorical column whose list of cells is still to be read from the data ("values_from": "data").

    `privacy` "private": by stable selection, charged in the ledger. "waived": as it stands, named in the claim as
    not covered. Discovery turns it into a CategoricalColumn before anything is encoded.
    """

    privacy: Literal["private", "waived"]
    missing: tuple[str, ...] = ()
    integer: bool = False

    by_spelling = True

    @property
    def listed(self) -> tuple[str, ...]:
        """The codes that mean not available."""
        return self.missing

    def choose_type(self, schema: "Schema") -> CellType:
        """Text: nothing else is known of its cells."""
        return "text", True


@dataclass(frozen=True, kw_only=True)
class ImageLayout:
    """Which columns of a table are the pixels of an image, and which one says what it shows.

    Shapes: `shape` is (height, width, channels), channels 1 (gray) or 3 (red, green, blue). `pixels` names a column for
      each number of such an array, in its order: row by row, in a row pixel by pixel, in a pixel channel by channel.
    Units: all pixels share one public range of whole numbers, `minimum` (black) to `maximum` (full), within 0 to 255.
    """

    shape: tuple[int, int, int]
    pixels: tuple[str, ...]
    minimum: int
    maximum: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is public about a row as a whole: an SQL condition, or a list of combinations of cells.

    `sql`: the rule is broken where the condition is false; where it is unknown (NULL) the rule holds. Without it the
    rule is broken where the cells of `columns`, None for not available, are not among `combinations`, if these are
    `allowed`, or are, if they are not. `name` says which rule it is. `violations`: what a row of the real table that
    breaks it does: it stops the run, counts as a null row, or stays. `sha256`: of the file that lists combinations.
    """

    name: str
    columns: tuple[str, ...]
    sql: str | None = None
    combinations: tuple[tuple[str | None, ...], ...] = ()
    allowed: bool = True
    violations: Literal["reject", "drop", "keep"] = "reject"
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The columns in the order of the specs file, and the SHA-256 of the bytes they were read from.

    `layout` says which columns make up an image; None for a table that is no table of images. `rules` hold in each row.
    `waived` are the columns whose range was read from rows and not paid for, as the specs say themselves.
    """

    columns: tuple[Column, ...]
    sha256: str
    layout: ImageLayout | None = None
    rules: tuple[Rule, ...] = ()
    waived: tuple[str, ...] = ()

    @functools.cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def undiscovered(self) -> tuple[UndiscoveredColumn, ...]:
        """The columns whose lists of cells are still to be read from the data."""
        return tuple(column for column in self.columns if isinstance(column, UndiscoveredColumn))

    def put(self, *columns: Column) -> "Schema":
        """The schema with these columns in the places of its own of their names."""
        others = {column.name: column for column in columns}
        return replace(self, columns=tuple(others.get(column.name, column) for column in self.columns))

    def cut_at_bins(self, *, but: str | None = None) -> "Schema":
        """The schema for whoever finds intervals by itself: borders in place of bins, `but` of one column."""
        cut = (
            replace(column, edges=None, borders=column.edges[1:-1])
            for column in self.columns
            if isinstance(column, NumericColumn) and column.edges is not None and column.name != but
        )
        return self.put(*cut)

    @property
    def unit(self) -> UnitColumn | None:
        """The column that says whose a row is, if there is one."""
        return next((column for column in self.columns if isinstance(column, UnitColumn)), None)

    @property
    def drops_rows(self) -> bool:
        """Whether a rule makes rows that break it null rows."""
        return any(rule.violations == "drop" for rule in self.rules)

    def is_written(self, name: str) -> bool:
        """Whether the output has a column of this name."""
        return self.by_name[name].is_written

    def is_read(self, name: str) -> bool:
        """Whether cells of the input's column of this name are looked at."""
        return self.by_name[name].is_read


def name_part(column: str, part: str) -> str:
    """What methods and scores call a part of a column, or the column itself where its one part has no name."""
    return f"{column} ({part})" if part else column


def write_whole(number: int, *, width: int = 0, decimals: int = 0) -> str:
    """Writes a whole number with leading zeros up to `width` digits, and zeros behind the point."""
    text = f"{abs(number):0{width}d}" + ("." + "0" * decimals if decimals else "")
    return "-" + text if number < 0 else text


@functools.lru_cache(maxsize=1 << 8)
def _are_rising(tokens: tuple[str, ...]) -> bool:
    """Says whether the tokens begin with numbers, each one above the one before it, as 0-4, 5-9, 10+ do."""
    begins = map(read_beginning, tokens)
    numbers = [number for number in begins if number is not None]
    return len(numbers) == len(tokens) and all(lower < upper for lower, upper in itertools.pairwise(numbers))


def _hold_listed(cells: Iterable[str]) -> CellType:
    listed = set(cells)
    known = listed - {""}
    return ("whole" if known and all(map(_is_plain_integer, known)) else "text"), "" in listed


def _hold_numbers(*, whole: bool, width: int, missing: tuple[str, ...]) -> CellType:
    """Widens the type of a column's numbers until it holds leading zeros and the codes that mean not available."""
    kind: Kind = "whole" if whole else "real"
    codes = (code for code in missing if code)
    if width > 1 or not all(_is_plain_integer(code) if whole else read_number(code) is not None for code in codes):
        kind = "text"
    return kind, "" in missing


def _is_plain_integer(cell: str) -> bool:
    if cell.isdecimal() and cell.isascii() and len(cell) < _SURELY_64_BITS:
        return cell[0] != "0" or cell == "0"  # most cells by far, and much faster
    number = read_number(cell)
    return number is not None and abs(number) < 1 << 63 and cell == str(int(number))
