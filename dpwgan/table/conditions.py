"""SQL expressions on one row, parsed and evaluated by polars; those that look beyond their row are refused.

But for `previous.age` and `first.age`: cells of other rows of the row's unit, which the row is given with its own.
"""

import functools
import io
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import polars as pl

from dpwgan.errors import quote
from dpwgan.table.moments import MOMENT

MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq", "NotEq": "NotEq"}
"""Comparisons, and what each is when its sides are swapped."""

_DISTINCT = {"EqValidity", "NotEqValidity"}
_COMPARISONS = {*MIRRORED, *_DISTINCT}
_JOINTS = {"And", "Or", *_DISTINCT, "Xor"}
_LOGIC = {"IsNull", "IsNotNull", "Not"}
# Functions of a row's own values, by the names that polars keeps them under. An aggregate, a window, a rank or a shift
# has another name, and so has what is not known here.
_FUNCTIONS = {
    "Boolean": {*_LOGIC, "IsIn", "IsNan", "IsNotNan", "IsFinite", "IsInfinite"},
    "StringExpr": {
        *("Contains", "StartsWith", "EndsWith", "Slice", "Head", "Tail", "Uppercase", "Lowercase", "LenChars"),
        *("LenBytes", "StripChars", "StripCharsStart", "StripCharsEnd", "ConcatHorizontal", "Replace", "Find"),
        "Split",
    },
    "ListExpr": {"Get"},
    "TemporalExpr": {
        *("Year", "IsoYear", "Quarter", "Month", "Week", "WeekDay", "Day", "OrdinalDay"),
        *("Hour", "Minute", "Second", "ToString"),
    },
    "Sql": {"ToFloat", "Round"},
    "Pow": {"Generic", "Sqrt", "Cbrt"},
    **{key: {""} for key in ("Abs", "Sign", "Floor", "Ceil", "Log", "Exp", "Coalesce", "FillNull")},
    **{key: {""} for key in ("MinHorizontal", "MaxHorizontal", "Truncate", "Clip")},
}
_NARROW = _FUNCTIONS["TemporalExpr"] - {"ToString"} | {"LenChars", "LenBytes", "Find"}
# A time moved by an interval.
_MOVE = {"TemporalExpr": "OffsetBy"}
OTHER_ROWS = ("previous", "first")
"""What other rows of a row's unit are called: the one before it, which the first one lacks, and the first one."""

_ROUNDING = 1e-13
_MIXED = "compares or combines columns and constants of kinds that do not go together"
_NUMBER = "is a number, as an enum of whole numbers is: compare it with one without quotes"
_QUOTED = re.compile("'[^']*'|\"[^\"]*\"")
_CHAINED = re.compile(r"\b(?:OR|AND|NOT|WHEN)\b|[+*/%|]|\w\s*-", re.I)
_MOST_CHAINED = 500
"""With some thousand in a chain polars ends the process, as its stack does."""
_TOO_DEEP = 'has too many parts in a chain (some 40 OR, AND, WHEN or +): write IN (...), a "map" or "allowed_from"'
_THREE = "; a comparison is true or false: write a <= b AND b <= c for a <= b <= c"
_PROBES: dict[Any, Any] = {
    **{pl.Int64: 1, pl.Float64: 0.5, pl.String: "x", pl.Boolean: True},
    **{pl.Date: date(2000, 1, 1), MOMENT: datetime(2000, 1, 1), pl.Time: time()},
}


class ConditionError(Exception):
    """Why an expression is refused, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowExpression:
    """An SQL expression that is a function of one row's values.

    `columns` are those it reads. `comparisons` are those of a column with a constant in it: column, operator, and the
    number, or the moment as `dpwgan.table.calendar` counts them.
    `opaque` are the columns in anything but comparisons of columns and constants joined by AND, OR, NOT and IS NULL.
    `sides` are the two sides of each comparison, and a text beside what a function of texts takes; `equations` those of
    each that may ask for both to be the same, or nearly (`ABS(a - b) <= 1`: what is near 0, and 0). `texts` are columns
    and the texts that they may or may not be.
    `others` are the columns that it reads of `OTHER_ROWS`, by the name of the row.
    """

    node: Any = field(repr=False)
    columns: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    comparisons: tuple[tuple[str, str, float], ...]
    opaque: frozenset[str]
    sides: tuple[tuple[pl.Expr, pl.Expr], ...] = field(repr=False)
    equations: tuple[tuple[pl.Expr, pl.Expr], ...] = field(repr=False)
    texts: tuple[tuple[str, str], ...] = field(repr=False)

    def evaluate(self, values: pl.DataFrame) -> pl.Series:
        """Its value for each of (n,) rows of typed values; a constant is repeated."""
        rows = double_one(values)
        found = rows.select(self.see(values.schema).alias("value")).get_column("value")
        return found.head(values.height) if len(found) == rows.height else found.new_from_index(0, values.height)

    def see(self, types: Mapping[str, pl.DataType]) -> pl.Expr:
        """What polars evaluates on rows of these types.

        Two sides of a comparison are equal where they differ by no more than rounding to doubles does, which is less
        than 1e-13 of the numbers that they are computed from: cents add up as cents do.
        """
        return _make_expression(self, tuple((name, types[name]) for name in (*self.columns, *self._rows)))

    @property
    def _rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row for row, _ in self.others))

    def list_types(self, types: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """The types of what it reads, where columns have these: of another row all in one."""
        of_rows = {row: pl.Struct({name: types[name] for own, name in self.others if own == row}) for row in self._rows}
        return {**{name: types[name] for name in self.columns}, **of_rows}


def double_one(values: pl.DataFrame) -> pl.DataFrame:
    """(n,) rows, or a row that is alone twice: polars divides one by a constant, and multiplies many by its inverse."""
    if values.height != 1:
        return values
    return pl.DataFrame({cells.name: cells.new_from_index(0, 2) for cells in values})


@functools.lru_cache(maxsize=1024)
def _make_expression(expression: RowExpression, types: tuple[tuple[str, pl.DataType], ...]) -> pl.Expr:
    return _deserialize(_settle(expression.node, pl.DataFrame(schema=dict(types))))


@functools.lru_cache(maxsize=1024)
def read_sql(text: str) -> RowExpression:
    """Reads an SQL expression on a row. Raises: ConditionError."""
    if len(_CHAINED.findall(_QUOTED.sub("x", text))) > _MOST_CHAINED:
        raise ConditionError(_TOO_DEEP)
    try:
        node = _spell_out(_write(pl.sql_expr(text)))
        _deserialize(node)
    except (pl.exceptions.PolarsError, ValueError, TypeError, RecursionError) as error:
        why = (
            "is not an SQL expression that polars can read; names with blanks or of SQL's own words need double quotes"
        )
        raise ConditionError(_TOO_DEEP if _is_too_deep(error) else why) from None
    reader = _Reader()
    reader.read(node)
    return RowExpression(
        node=node,
        columns=tuple(dict.fromkeys(reader.columns)),
        others=tuple(dict.fromkeys(reader.others)),
        comparisons=tuple(reader.comparisons),
        opaque=frozenset(reader.opaque),
        sides=tuple((_deserialize(left), _deserialize(right)) for left, right in reader.sides),
        equations=tuple((_deserialize(left), _deserialize(right)) for left, right in reader.equations),
        texts=tuple(reader.texts),
    )


def _is_too_deep(error: Exception) -> bool:
    """Whether an expression is a tree too deep to go over, or for polars to read back what it has written."""
    return isinstance(error, RecursionError) or str(error).startswith("could not deserialize")


def _spell_out(node: Any) -> Any:
    """The expression with `x IN (1, 2)` as `x = 1 OR x = 2`, where the list is of numbers, truth values or moments.

    A cast that fails gives NULL, and so does a cell that is no pattern, as one row must not end the run for all. Nor
    must an exponent below 0, which polars does not take of whole numbers: those of columns are doubles; nor a cell that
    is looked for in another, which is no pattern. Parts of moments and lengths are integers of 64 bits: polars has them
    in so few that 23 * 60 would be 100. A part of a text has no length below 0, as one up to a mark that is not there
    would.
    """
    if isinstance(node, list):
        return [_spell_out(part) for part in node]
    if not isinstance(node, dict) or "Literal" in node:
        return node
    node = {key: _spell_out(part) for key, part in node.items()}
    if node.get("options") == "Strict":
        node["options"] = "NonStrict"
    content = node.get("Function", {})
    _, which = _name(content.get("function"))
    if which in ("Contains", "Find") and "Literal" not in content["input"][1]:
        content["function"]["StringExpr"][which] = {"literal": which == "Find", "strict": False}
    if which in _NARROW:
        return _write(_deserialize(node).cast(pl.Int64, strict=False))
    if which == "Generic" and _deserialize(content["input"][1]).meta.root_names():
        content["input"][1] = _write(_deserialize(content["input"][1]).cast(pl.Float64))
    if which == "Slice" and "Literal" not in content["input"][2]:
        content["input"][2] = _write(_deserialize(content["input"][2]).clip(0))
    if which != "IsIn":
        return node
    side, constants = content["input"]
    listed = _list_constants(constants)
    if not listed or any(isinstance(constant, str) for constant in listed):
        return node
    spelt = [_deserialize(side) == constant for constant in listed]
    while len(spelt) > 1:  # two by two, so that a long list does not make a deep tree
        pairs = zip(spelt[::2], spelt[1::2], strict=False)
        spelt = [left | right for left, right in pairs] + spelt[len(spelt) // 2 * 2 :]
    return _write(spelt[0])


def find_type(expression: RowExpression, types: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of its values where columns are of these types. Raises: ConditionError if it cannot have one."""
    read = expression.list_types(types)
    columns = {name: [None, _PROBES.get(kind)] for name, kind in read.items()}
    probe = pl.DataFrame(columns, schema=read) if read else pl.DataFrame([1, 2])
    try:
        for sides in reversed(expression.sides):  # what is inside of others first
            _check_kinds(sides, [probe.select(side.alias("")).dtypes[0] for side in sides])
        return expression.evaluate(probe).dtype
    except (pl.exceptions.PolarsError, TypeError) as error:
        if _is_too_deep(error):
            raise ConditionError(_TOO_DEEP) from None
        quoted = [f"; {quote(name)} {_NUMBER}" for name, _ in expression.texts if types[name].is_numeric()]
        moved = ["; a date is moved by INTERVAL '1 day'"] if any(kind.is_temporal() for kind in types.values()) else []
        raise ConditionError("".join([_MIXED, *quoted[:1], *moved])) from None


def _check_kinds(sides: Sequence[pl.Expr], types: Sequence[pl.DataType]) -> None:
    """Refuses a comparison for which polars would turn values of one kind into another."""
    like = (pl.Datetime if found == pl.Date else found for found in types)  # a date is the beginning of its day
    each = ["number" if found.is_numeric() else found.base_type() for found in like]
    kinds = {*each}
    if len(kinds - {pl.Null}) < 2:
        return
    if kinds & {"number", pl.String} and any(found.is_temporal() for found in types):
        other = "number" if "number" in kinds else "text"
        raise ConditionError(f"compares a time with a {other}; write DATE '...', TIMESTAMP '...' or INTERVAL '...'")
    advice: dict[object, str] = {pl.Boolean: "is true or false: write it alone or after NOT"}
    if kinds == {"number", pl.String}:
        advice[pl.String] = "is text, as an enum is unless its 'values' are whole numbers, or 'maxval' says so"
        advice["number"] = _NUMBER
    said = "".join(
        f"; {quote(side.meta.output_name())} {advice[kind]}" if side.meta.is_column() else _THREE
        for side, kind in zip(sides, each, strict=True)
        if kind in advice and (side.meta.is_column() or kind == pl.Boolean)
    )
    raise ConditionError(f"{_MIXED}{said}")


def _settle(node: Any, probe: pl.DataFrame) -> Any:
    """The expression, with comparisons of computed doubles as `RowExpression.see` says, on rows of a probe's types."""
    if isinstance(node, list):
        return [_settle(part, probe) for part in node]
    if not isinstance(node, dict) or "Literal" in node:
        return node
    node = {key: _settle(part, probe) for key, part in node.items()}
    node = _keep_hours(node, probe)
    operation, sides = _split(node)
    if operation not in _COMPARISONS or all("Column" in side or "Literal" in side for side in sides):
        return node
    left, right = map(_deserialize, sides)
    types = probe.select(left.alias("left"), right.alias("right")).dtypes
    if not any(kind.is_float() for kind in types) or not all(kind.is_numeric() for kind in types):
        return node
    left, right = left.cast(pl.Float64), right.cast(pl.Float64)
    # Below, not at most: what is infinite is near nothing.
    is_near = (left - right).abs() < _ROUNDING * (_weigh(sides[0]) + _weigh(sides[1]))
    settled = pl.when(is_near).then(right).otherwise(left)
    return {"BinaryExpr": {"left": _write(settled), "op": operation, "right": _write(right)}}


def _keep_hours(node: Any, probe: pl.DataFrame) -> Any:
    """The expression, with each date that is moved by a time as the beginning of its day: a date would drop hours."""
    operation, sides = _split(node)
    if operation not in ("Plus", "Minus", "OffsetBy"):
        return node
    types = probe.select(_deserialize(side).alias(str(place)) for place, side in enumerate(sides)).dtypes
    if pl.Date not in types or (operation != "OffsetBy" and pl.Duration not in types):
        return node
    moments = [
        _write(_deserialize(side).cast(MOMENT)) if kind == pl.Date else side
        for side, kind in zip(sides, types, strict=True)
    ]
    if operation == "OffsetBy":
        return {"Function": {"input": moments, "function": _MOVE}}
    return {"BinaryExpr": {"left": moments[0], "op": operation, "right": moments[1]}}


def _weigh(node: Any) -> pl.Expr:
    """How large the numbers are that are added up: they are rounded to their digits, however small the sum is."""
    operation, sides = _split(node)
    if operation in ("Plus", "Minus"):
        return _weigh(sides[0]) + _weigh(sides[1])
    if operation == "Mul":
        return _weigh(sides[0]) * _weigh(sides[1])
    if operation == "Div":
        return _weigh(sides[0]) / _deserialize(sides[1]).cast(pl.Float64).abs()
    return _weigh(node["Function"]["input"][0]) if _is_abs(node) else _deserialize(node).cast(pl.Float64).abs()


def _is_abs(node: Any) -> bool:
    return isinstance(node, dict) and "Function" in node and node["Function"]["function"] == "Abs"


def _split(node: Any) -> tuple[str, list[Any]]:
    """The operation between two sides that a node is, and its sides; none if it is another one."""
    kind, content = next(iter(node.items())) if isinstance(node, dict) and node else ("", {})
    if kind == "BinaryExpr":
        return content["op"], [content["left"], content["right"]]
    function = content["function"] if kind == "Function" else ""
    if function == _MOVE:
        return "OffsetBy", content["input"]
    sql = function.get("Sql") if isinstance(function, dict) else ""
    return (sql["Binary"], content["input"]) if isinstance(sql, dict) and "Binary" in sql else ("", [])


def _name(function: Any) -> tuple[Any, Any]:
    """The group and the name that polars keeps a function under."""
    name, which = next(iter(function.items())) if isinstance(function, dict) else (function, "")
    return name, next(iter(which)) if isinstance(which, dict) else which


def _find_other(function: Any, inputs: Sequence[Any]) -> tuple[str, str] | None:
    """Which of `OTHER_ROWS` a function reads, and which column of it, if it is that."""
    _, which = _name(function)
    row = inputs[0].get("Column") if which == "FieldByName" else None
    return (row, function["StructExpr"][which]) if row in OTHER_ROWS else None


def _write(expression: pl.Expr) -> Any:
    """Its node, which alone says in full what polars has read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(expression.meta.serialize(format="json"))


def _deserialize(node: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


class _Reader:
    """Goes over an expression as polars writes it down."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.others: list[tuple[str, str]] = []
        self.comparisons: list[tuple[str, str, float]] = []
        self.opaque: set[str] = set()
        self.sides: list[tuple[Any, Any]] = []
        self.equations: list[tuple[Any, Any]] = []
        self.texts: list[tuple[str, str]] = []

    def read(self, *nodes: Any, plain: bool = True) -> None:
        """Reads expressions; where they are not `plain`, ends of intervals do not speak for what lies between."""
        before = len(self.columns)
        for node in nodes:
            self._read(node)
        if not plain:
            self.opaque.update(self.columns[before:])

    def _read(self, node: Any) -> None:
        kind, content = next(iter(node.items())) if isinstance(node, dict) else (node, {})
        operation, sides = _split(node)
        if operation:
            self._read_pair(operation, sides)
        elif kind == "Column":
            self.columns.append(str(content))
        elif kind == "Function":
            self._read_function(content["function"], content["input"])
        elif kind == "Ternary":
            self.read(*(content[part] for part in ("predicate", "truthy", "falsy")))
        elif kind == "Cast":
            # NOT is written with a cast to truth values.
            self.read(content["expr"], plain=content["dtype"] == {"Literal": "Boolean"})
        elif kind != "Literal":
            raise ConditionError("looks at more than one row (an aggregate, a window, a subquery) or is not known here")

    def _read_function(self, function: Any, inputs: list[Any]) -> None:
        name, which = _name(function)
        other = _find_other(function, inputs)
        if other is not None:
            self.others.append(other)
            return
        if which == "FieldByName":
            raise ConditionError(
                "has a point between names: one with points needs double quotes, other rows are 'previous' and 'first'"
            )
        known = _FUNCTIONS.get(name, set())
        if which not in known and "" not in known:
            raise ConditionError("has a function that is not one of a single row's values, or is not known here")
        if which == "IsIn":
            self._read_texts(*inputs)
        elif name == "StringExpr" and which != "ConcatHorizontal":  # which takes numbers
            self.sides.append((inputs[0], _write(pl.lit(""))))
        self.read(*inputs, plain=name == "Boolean" and which in _LOGIC)

    def _read_texts(self, side: Any, constants: Any) -> None:
        content = side.get("Function", {"function": "", "input": []})
        _, column = _find_other(content["function"], content["input"]) or ("", side.get("Column"))
        if column is not None:
            self.texts.extend((column, text) for text in _list_constants(constants) if isinstance(text, str))

    def _read_pair(self, operation: str, sides: list[Any]) -> None:
        if operation in MIRRORED and any(_is_null(side) for side in sides):
            raise ConditionError("compares with NULL, which is neither true nor false: write IS NULL or IS NOT NULL")
        if operation in _COMPARISONS:
            self.sides.append((sides[0], sides[1]))
            near = [side["Function"]["input"][0] for side in sides if _is_abs(side)]
            zero = _write(pl.lit(0.0))
            self.equations.extend([(sides[0], sides[1])] if operation == "Eq" else [(one, zero) for one in near])
        if operation in ("Eq", "NotEq", *_DISTINCT):
            self._read_texts(*sides)
            self._read_texts(*sides[::-1])
        if operation not in MIRRORED:
            self.read(*sides, plain=operation in _JOINTS)
            return
        for (side, other), name in zip((sides, sides[::-1]), (operation, MIRRORED[operation]), strict=True):
            constant = _read_constant(other)
            if "Column" in side and constant is not None:
                self.comparisons.append((side["Column"], name, constant))
        self.read(*sides, plain=all(_is_operand(side) for side in sides))


def _is_operand(node: Any) -> bool:
    """Says whether a side of a comparison is a column, a constant, or itself made of comparisons."""
    if not isinstance(node, dict):
        return False
    kind, content = next(iter(node.items()))
    operation, _ = _split(node)
    if operation:
        return operation in MIRRORED or operation in _JOINTS
    if kind == "Cast":
        return bool(content["dtype"] == {"Literal": "Boolean"})
    if kind == "Function":
        return any(content["function"] == {"Boolean": name} for name in _LOGIC)
    return kind in ("Column", "Literal")


def _read_constant(node: Any) -> float | None:
    """A number, or a moment as it is counted."""
    found = _read_literal(node)
    if found is None or found.null_count():
        return None
    if found.dtype == pl.Time:
        return float(found.cast(pl.Int64).item() / 1_000)  # polars counts nanoseconds of the day
    moment = found.cast(MOMENT).cast(pl.Int64) if found.dtype in (pl.Date, pl.Datetime) else found
    return float(moment.item()) if moment.dtype.is_numeric() else None


def _is_null(node: Any) -> bool:
    found = _read_literal(node)
    return found is not None and found.dtype == pl.Null


def _list_constants(node: Any) -> list[Any]:
    """The value of a constant, or the values of a list but NULL; empty if the node is neither."""
    found = _read_literal(node)
    if found is None:
        return []
    return (found.explode() if found.dtype == pl.List else found).drop_nulls().to_list()


def _read_literal(node: Any) -> pl.Series | None:
    return pl.select(_deserialize(node)).to_series() if "Literal" in node else None
