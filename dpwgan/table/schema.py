"""What is public about a table: its columns, their legal cells and ranges. No row is ever seen here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

OutOfDomain = Literal["reject", "clamp", "missing"]
DomainSource = Literal["specs", "codebook", "private", "waived"]


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn:
    """A column with a finite list of legal cells.

    `tokens` holds every legal cell, in the order of their codes: the values, then the codes that mean not
    available, then "" where an empty cell is allowed. `missing` are those of them that mean not available.
    With `integer` two spellings of one whole number are the same cell ("3", "03", "3.0").
    `domain` says where the list came from; "private" was paid for in the ledger, "waived" is not covered.
    """

    name: str
    tokens: tuple[str, ...]
    missing: tuple[str, ...] = ()
    integer: bool = False
    out_of_domain: OutOfDomain = "reject"
    domain: DomainSource = "specs"


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """A column of numbers in a public range, with codes that mean not available.

    `missing` holds the cells that mean not available ("" where an empty cell is allowed). `decimals` is how many
    digits are written behind the point. `edges`, if given, are the public borders of bins (first = minimum,
    last = maximum): the column is then trained as one category a bin.
    """

    name: str
    minimum: float
    maximum: float
    integer: bool
    decimals: int = 0
    missing: tuple[str, ...] = ()
    edges: tuple[float, ...] | None = None
    out_of_domain: OutOfDomain = "reject"


@dataclass(frozen=True, kw_only=True)
class DerivedColumn:
    """A column that is a function of another one: not trained, checked at encode, recomputed at decode.

    Exactly one of `multiply` (number times k), `floordiv` (number divided by k, rounded down) and `mapping`
    (cell to cell) is given. A cell of the source that means not available (in the source's `missing`) gives `missing`
    here; with `missing` None it goes through the mapping, or without one stays as it is. Numbers are written with
    `decimals` digits behind the point and leading zeros up to `width` digits before it.
    """

    name: str
    source: str
    multiply: int | None = None
    floordiv: int | None = None
    mapping: Mapping[str, str] | None = None
    missing: str | None = None
    decimals: int = 0
    width: int = 0

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
        text = f"{abs(number):0{self.width}d}" + ("." + "0" * self.decimals if self.decimals else "")
        return "-" + text if number < 0 else text


@dataclass(frozen=True, kw_only=True)
class IdentifierColumn:
    """A column of row names: dropped before training and written anew, so that no name leaves the building.

    Whole numbers counted up from `start`; with `start` None, random UUIDs.
    """

    name: str
    start: int | None = None


@dataclass(frozen=True, kw_only=True)
class UndiscoveredColumn:
    """A categorical column whose list of cells is still to be read from the data ("values_from": "data").

    `privacy` "private": by stable selection, charged in the ledger. "waived": as it stands, named in the claim as
    not covered. Discovery turns it into a CategoricalColumn before anything is encoded.
    """

    name: str
    privacy: Literal["private", "waived"]
    missing: tuple[str, ...] = ()
    integer: bool = False


Column = CategoricalColumn | NumericColumn | DerivedColumn | IdentifierColumn | UndiscoveredColumn


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
class Schema:
    """The columns in the order of the specs file, and the SHA-256 of the bytes they were read from.

    `layout` says which columns make up an image; None for a table that is no table of images.
    """

    columns: tuple[Column, ...]
    sha256: str
    layout: ImageLayout | None = None
    by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
