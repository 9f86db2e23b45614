"""Rules between columns: which rows break one, on the typed values of their cells, each row by itself."""

import functools
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from dpwgan.array_types import Flags, Floats
from dpwgan.errors import quote
from dpwgan.table.codecs import make_codec, make_codecs, make_derivation
from dpwgan.table.codecs.codec import ReadCodec
from dpwgan.table.codecs.derived import Derivation
from dpwgan.table.conditions import ConditionError, RowExpression, double_one, find_type, read_sql
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import (
    CategoricalColumn,
    DerivedColumn,
    FunctionColumn,
    Kind,
    NumericColumn,
    Rule,
    Schema,
    TrainedColumn,
    UndiscoveredColumn,
)

_NO_COLUMN = "names no column; a name stands in double quotes or none, in single ones a text"


class RuleBook:
    """The rules of a table, and how its cells are seen by them.

    Numbers are numbers, and so are the cells of an enum whose values are all whole numbers; what means not available is
    NULL; all else is text. As a CHECK of SQL a condition that is NULL holds.
    Privacy: whether a row breaks a rule is a function of that row alone: rules are read by `read_sql`, which refuses
      all else.
    """

    def __init__(self, rules: Sequence[Rule], codecs: Mapping[str, ReadCodec]) -> None:
        self.rules = tuple(rules)
        self._conditions = [None if rule.sql is None else read_sql(rule.sql) for rule in rules]
        self._equations = [() if condition is None else condition.equations for condition in self._conditions]
        self.columns = tuple(dict.fromkeys(name for rule in rules for name in rule.columns))
        self._codecs = {name: codecs[name] for name in self.columns}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.rules)

    def find_broken(self, frame: pl.DataFrame) -> list[Flags]:
        """Which of (n,) rows of cells break each rule. Shapes: one (n,) a rule."""
        values = self._read_values(frame)
        read = {str(place): one.see(values.schema) for place, one in enumerate(self._conditions) if one is not None}
        # All of them see the values as they came, whatever the names of the columns that they are written into.
        kept = double_one(values).with_columns(one.fill_null(True).alias(name) for name, one in read.items())
        return [
            ~kept.get_column(str(place)).head(values.height).to_numpy()
            if str(place) in read
            else self._break_combinations(rule, values)
            for place, rule in enumerate(self.rules)
        ]

    def has_equations(self, place: int) -> bool:
        """Whether a rule may ask for two sides to be the same, or nearly."""
        return bool(self._equations[place])

    def find_gaps(self, place: int, frame: pl.DataFrame) -> list[Floats]:
        """By how much the sides of each equation of a rule differ, 0 where that is not known. Shapes: (n,) each."""
        values, gaps = self._read_values(frame), []
        for left, right in self._equations[place]:
            sides = values.select(left.alias("left"), right.alias("right"))
            if all(kind.is_numeric() for kind in sides.dtypes):
                gap = sides.select(pl.col("left").cast(pl.Float64) - pl.col("right")).to_series()
                gaps.append(gap.fill_nan(0.0).fill_null(0.0).to_numpy())
        return gaps

    def _read_values(self, frame: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame({name: codec.get_values(frame) for name, codec in self._codecs.items()})

    def _break_combinations(self, rule: Rule, values: pl.DataFrame) -> Flags:
        """Which of (n,) rows of values break a rule that lists combinations. Shapes: (n,)."""
        seen = values.select(rule.columns)
        listed = _list_combinations(rule, tuple(self._codecs[name] for name in rule.columns), tuple(seen.dtypes))
        marked = seen.join(listed, on=rule.columns, how="left", nulls_equal=True, maintain_order="left")
        is_listed: Flags = marked.get_column("").is_not_null().to_numpy()
        return ~is_listed if rule.allowed else is_listed


def read_condition(text: str, schema: Schema, *, of_unit: bool = False) -> RowExpression:
    """Reads a condition on a row of the schema's columns, or with `of_unit` on rows of one unit.

    Raises: ConditionError.
    """
    condition = read_sql(text)
    if not condition.columns and not condition.others:
        raise ConditionError(_NO_COLUMN)
    if of_unit and not condition.others:
        raise ConditionError("reads one row by itself, as the rules between columns do: write it there")
    if _find_type(condition, schema, of_unit=of_unit) != pl.Boolean:
        raise ConditionError("is no condition: it is neither true nor false")
    return condition


def can_be_true(condition: RowExpression, schema: Schema) -> bool:
    """Whether a condition on one number is true of any in its range; true of others, which are not looked into."""
    column = schema.by_name[condition.columns[0]]
    if len(condition.columns) > 1 or condition.opaque or type(column) is not NumericColumn:
        return True
    # Between the constants that it is compared with, and at each, all numbers are alike.
    constants = (constant for *_, constant in condition.comparisons if column.minimum <= constant <= column.maximum)
    low, high = column.find_ends()
    steps = {min(max(column.count_steps(at, up=True) + step, low), high) for at in constants for step in (-1, 0, 1)}
    values = [None] * bool(column.missing) + [step / column.steps_per_unit for step in {low, high, *steps}]
    numbers = pl.Series(column.name, values, pl.Float64).cast(get_value_type(column.name, schema))
    return bool(condition.evaluate(numbers.to_frame()).any())


def read_derivation(text: str, sources: Schema) -> tuple[tuple[str, ...], Kind]:
    """Which of the sources an SQL expression reads, and what kind of cells it gives. Raises: ConditionError."""
    expression = read_sql(text)
    if not expression.columns:
        raise ConditionError(_NO_COLUMN)
    found = _find_type(expression, sources)
    if found == pl.String:
        return expression.columns, "text"
    if found == pl.Boolean or found.is_integer():
        return expression.columns, "whole"
    if not found.is_numeric():
        raise ConditionError("gives neither text nor numbers; a time divided by INTERVAL '1 day' is a number")
    return expression.columns, "real"


def _find_type(expression: RowExpression, schema: Schema, *, of_unit: bool = False) -> pl.DataType:
    """As `find_type`. Raises: ConditionError as well where a column is compared with a text that it never has."""
    if expression.others and not of_unit:
        row, name = expression.others[0]
        raise ConditionError(f"reads another row ({row}.{name}), which only the 'rules' of a unit can")
    names = dict.fromkeys((*expression.columns, *(name for _, name in expression.others)))
    found = find_type(expression, {name: get_value_type(name, schema) for name in names})
    for name, text in expression.texts:
        column = schema.by_name[name]
        # A list that was found in a table may lack what the specs' author knows of.
        if not isinstance(column, CategoricalColumn) or column.domain != "specs":
            continue
        if text not in column.tokens or text in column.missing:
            raise ConditionError(
                f"compares {quote(name)} with a text that is none of its values; a missing cell is NULL"
            )
    return found


def get_value_type(name: str, schema: Schema) -> pl.DataType:
    """The type in which rules see a column, before its list of cells is known even. Raises: ConditionError."""
    column = schema.by_name.get(name)
    if column is None:
        raise ConditionError(
            f"names {quote(name)}, which the specs do not; texts have single quotes, names with blanks, - or . double"
        )
    if isinstance(column, UndiscoveredColumn):
        return pl.Int64() if column.integer else pl.String()
    if isinstance(column, TrainedColumn):
        return make_codec(column).read_values([]).dtype
    if isinstance(column, FunctionColumn):
        rule = make_rule(column, schema)
        return rule.get_values(pl.DataFrame(schema=dict.fromkeys((name, *column.sources), pl.String()))).dtype
    raise ConditionError(f"reads {quote(name)}, which is a row name or of a type that is not trained")


def make_rule(column: FunctionColumn, schema: Schema) -> Derivation:
    """The codec of a column that follows from others. Raises: ConditionError if their cells are not known yet."""
    codecs = make_codecs([schema.by_name[source] for source in column.sources])
    if len(codecs) < len(column.sources):
        raise ConditionError(f"reads {quote(column.name)}, which is derived from cells that are not known yet")
    return make_derivation(column, codecs)


def make_reader(name: str, schema: Schema) -> Callable[[str], str | None]:
    """What reads a column's cells in lists of combinations: as the output writes them, None for not available.

    Raises: ConditionError if no rule may read the column; the reader, if a cell is illegal.
    """
    is_number, column = get_value_type(name, schema).is_numeric(), schema.by_name[name]
    teller = column.source if isinstance(column, DerivedColumn) and column.missing is None else name
    told = getattr(schema.by_name[teller], "missing", ())
    missing = (told,) if isinstance(told, str) else told
    codec = make_codec(column) if isinstance(column, TrainedColumn) else None

    def read(cell: str) -> str | None:
        found = cell if codec is None or cell in missing else codec.get_canonical(cell)
        if found is None or (codec is None and is_number and cell not in missing and read_number(cell) is None):
            raise ConditionError(f"lists cells of {quote(name)} that the specs do not allow")
        return None if found in missing else found

    return read


@functools.lru_cache(maxsize=64)
def _list_combinations(rule: Rule, codecs: tuple[ReadCodec, ...], types: tuple[pl.DataType, ...]) -> pl.DataFrame:
    """A rule's combinations as values of these types, each once, marked in a column without a name."""
    columns = {}
    for place, (codec, kind) in enumerate(zip(codecs, types, strict=True)):
        cells = pl.Series(rule.columns[place], [row[place] for row in rule.combinations], dtype=pl.String)
        if kind == pl.Boolean or kind.is_temporal():
            values = codec.get_values(cells.fill_null("").to_frame())
        else:  # by themselves, as a list that was found in a table may lack some
            values = cells if kind == pl.String else cells.cast(pl.Float64).cast(kind)
        columns[cells.name] = values
    return pl.DataFrame(columns).unique().with_columns(pl.lit(True).alias(""))
