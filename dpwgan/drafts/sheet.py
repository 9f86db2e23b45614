"""A sheet of variables, as most agencies have one: a row for each column of the table, or each of its codes.

It is CSV, a table in Markdown, or JSON: a list of objects, whose members are the cells of a row, or one that has such
an object, or the labels of its codes, for each column by name.

The header is found by its words, also below a title, and what none of them names is left out. So
information_schema.columns of a database is such a sheet. Codes are written as "1 = male; 2 = female", ranges as
"0-120", and both in one cell: a code beside the range of a number means not available, but one that goes on where it
ends. A row without a name goes on with the one above. Numbers that are not said to have decimals are whole.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from dpwgan.drafts.entry import (
    Entry,
    Number,
    Source,
    Type,
    are_whole,
    choose_calendar,
    extend_range,
    join_words,
    read_number,
)

_HEADER = {
    "name": "name|variable|variable name|field|field name|column|column name|attribute|attribute name|data element",
    "table": "table|table name|dataset|data set|file|file name",
    "description": "description|label|variable label|title|definition|question|question text|meaning",
    "type": "type|data type|datatype|variable type|field type|column type",
    "values": "values|value|codes|code|categories|category|allowed values|permitted values|permissible values"
    "|valid values|value labels|value list|code list|coding|domain|levels|choices|options|response options"
    "|range|valid range|allowed range|value range|values range|values codes",
    "of_value": "value label|value description|value meaning|value name|code label|code description|code meaning",
    "minimum": "min|minimum|lower|lower bound|lower limit|min value|minimum value",
    "maximum": "max|maximum|upper|upper bound|upper limit|max value|maximum value",
    "missing": "missing|missing values|missing value|missing codes|missing code|na values|null values",
    "format": "format|date format|pattern",
    "decimals": "decimals|decimal places|scale|numeric scale",
    "required": "required|mandatory|not null",
    "nullable": "nullable|is nullable|null|nulls|allows null|optional",
    "key": "primary key|is primary key|pk|key|column key",
}
_MEANINGS = {words: meaning for meaning, listed in _HEADER.items() for words in listed.split("|")}
_BETWEEN = re.compile(r"[^a-z _.-]|\b(?:and|or)\b")
"""What parts names for one thing, as in "Range / codes"."""
_MOST_ABOVE = 10
"""Among so many rows the header is looked for."""
_MOST_CODES = 1_000
"""A range of codes is listed up to so many."""

# The first whose words are in the name of a type is what it is.
_TYPES: tuple[tuple[str, Type], ...] = (
    ("bool|logical|yes.?no", "boolean"),
    ("date.?time|timestamp", "datetime"),
    ("date", "date"),
    ("time", "time"),
    ("categor|nominal|ordinal|factor|enum|code|choice|select", "enum"),
    (r"identif|\bid\b|uuid|guid|\bkey", "string"),
    ("free.?text|memo|note|blob|json|xml", "text"),
    (r"decimal|float|double|real|money|currency|continu|percent|\( ?\d+ ?, ?[1-9]", "float"),
    (r"\bint|[a-z]int\b|whole|\bcount\b|year|serial|num", "integer"),
    ("char|str|text|alpha", "enum"),
)
_DIGITS = re.compile(r"\( ?\d+ ?, ?(\d+) ?\)")
_YES, _NO = ("yes", "y", "true", "1", "x", "pk", "pri", "required", "mandatory", "not null"), ("no", "n", "false", "0")

_NUMBER = r"([+-]?\d+(?:\.\d+)?)"
_RANGE = re.compile(rf"{_NUMBER}\s*(?:-|to|through|\.\.+)\s*{_NUMBER}(?:\s*[^\d\s]+)?", re.I)
_IN_BRACKETS = re.compile(r"[\[(]([^,]+),([^,]+)[\])]")
_LEAST = re.compile(rf"(?:>=|≥|at least)\s*{_NUMBER}", re.I)
_DAYS = re.compile(r"(\S*\d\S*)\s+(?:-|to|through)\s+(\S*\d\S*)", re.I)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:([ T])\d\d:\d\d(:\d\d)?)?")
_ELLIPSIS = re.compile(r"(?:\s+\.\.+\s+|[,;]\s*\.\.+\s*[,;]?\s*)(?=[+-]?\d+\s*[=:])")
"""What stands for the codes between two that have labels, as in "1 = never ... 5 = always"."""
_CODE = re.compile(r"(.+?)\s*(?:=|:|\s-\s)\s*(.+)|(-?\d+)\s*-\s*([^\W\d].*)", re.S)
_NOTHING = re.compile(
    r"missing|unknown|\bnot?\b.*\b(known|available|applicable|stated|answer)|refus|\bn/?a\b|don.?t know", re.I
)
_BLANK = re.compile(r"\W*(?:left )?(?:blanks?|empty)(?: cells?)?\W*", re.I)
_PLAIN = str.maketrans({"\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2026": "..."})
_FIELDS = {"hh(.?)mm": r"%H\1%M", "yyyy": "%Y", "yy": "%y", "mm": "%m", "dd": "%d", "hh": "%H", "ss": "%S"}

_Values = tuple[dict[str, str], Number | None, Number | None]
"""Codes with their labels, and the ends of the range."""


def recognise(source: Source) -> bool:
    """Whether it has a header that names variables and says what they hold."""
    try:
        return next(_read_rows(source), None) is not None
    except csv.Error:
        return False


def read(source: Source) -> Iterator[Entry]:
    """The variables, of the table that was asked for where there are several. Raises: SpecsError."""
    tables: dict[str, Any] = {}
    name = table = ""
    for row in _read_rows(source):
        name, table = row.pop("name", "") or name, row.pop("table", "") or table
        said = tables.setdefault(table, {}).setdefault(name, {})
        value = " = ".join(filter(None, (row.get("values"), row.pop("of_value", ""))))
        values = filter(None, (said.get("values"), value))
        said.update({meaning: cell for meaning, cell in row.items() if not said.get(meaning)}, values="\n".join(values))
    for name, said in source.choose(tables).items():
        yield _read_variable(name, said)


def _read_rows(source: Source) -> Iterator[dict[str, str]]:
    """What each row below the header says, by its meaning; none if no row looks like a header."""
    if source.document is not None:
        yield from _read_objects(source)
        return
    for delimiter in ",;\t|":
        rows = csv.reader(io.StringIO(source.text), delimiter=delimiter)
        if header := next(filter(None, map(_find_meanings, islice(rows, _MOST_ABOVE))), None):
            for row in rows:
                if not re.search(r"\w", "".join(row)):
                    continue  # nothing, or the line below the header of a table in Markdown
                yield _name_cells(header, row)
            return


def _read_objects(source: Source) -> Iterator[dict[str, str]]:
    """The same of JSON objects, listed or by name, at the top or one below: the members of each are its own header."""
    for listed in (source.document, *source.members.values()):
        named = [_name_object(*member) for member in listed.items()] if isinstance(listed, dict) else listed
        objects = named if isinstance(named, list) and all(isinstance(said, dict) for said in named) else []
        if _find_meanings([*dict.fromkeys(key for said in objects for key in said)]):
            for said in objects:
                told = {key: cell for key, member in said.items() if (cell := _write_cell(member, of=key))}
                yield _name_cells([*map(_find_meaning, told)], [*told.values()])
            return


def _name_object(name: str, said: object) -> dict[str, Any] | None:
    """What is said of a column by name as if it stood in a list, with labels of codes as its values; None of others."""
    if isinstance(said, dict) and any(map(_find_meaning, said)):
        return {"name": name} | said | {"name": name}
    is_labels = isinstance(said, dict) and all(isinstance(label, str) for label in said.values())
    return {"name": name, "values": said} if is_labels else None


def _name_cells(header: list[str | None], row: list[str]) -> dict[str, str]:
    """The cells of a row by their meanings, the first of one meaning."""
    named: dict[str, str] = {}
    for meaning, cell in zip(header, row, strict=False):
        if meaning:
            named.setdefault(meaning, cell.translate(_PLAIN).strip())
    return named


def _write_cell(said: object, *, of: str = "") -> str:
    """A member of a JSON object as a sheet would have it: codes, with labels or without, on a line each; or a range."""
    if isinstance(said, list) and len(said) == 2 and "range" in of.lower():
        return "-".join(map(str, said))
    if isinstance(said, dict):
        return "\n".join(f"{code} = {label}" for code, label in said.items())
    if isinstance(said, list):
        pairs = ([*part.values()][:2] if isinstance(part, dict) else [part] for part in said)
        return "\n".join(" = ".join(filter(None, map(_write_cell, pair))) for pair in pairs)
    return "" if said is None else str(said)


def _find_meanings(row: list[str]) -> list[str | None]:
    """The meaning of each cell of a header; none if the row is no header."""
    found = [*map(_find_meaning, row)]
    return [] if "name" not in found or {"type", "values", "minimum"}.isdisjoint(found) else found


def _find_meaning(cell: str) -> str | None:
    """What a cell of a header means; of one that names several things, what all of them do that are known."""
    name, *parts = (" ".join(re.findall("[a-z]+", part)) for part in (cell.lower(), *_BETWEEN.split(cell.lower())))
    found = {_MEANINGS[part] for part in parts if part in _MEANINGS}
    return _MEANINGS.get(name) or (min(found) if len(found) == 1 else None)


def _read_variable(name: str, said: Mapping[str, str]) -> Entry:
    words = said.get("type", "").lower()
    kind = next((kind for known, kind in _TYPES if re.search(known, words)), None)
    is_key = said.get("key", "").lower() in _YES
    is_needed = is_key or said.get("required", "").lower() in _YES or said.get("nullable", "").lower() in _NO
    codes = (_part(piece)[0] for piece in _cut(said.get("missing", "")))
    missing = ["" if _BLANK.fullmatch(code) else code for code in codes] + ([] if is_needed else [""])
    entry: dict[str, Any] = {"name": name, "description": join_words(said.get("description")), "missing": missing}
    styles = (said.get("format", ""), said["values"], *re.split("[()]", said.get("type", "")))
    style = next(filter(None, map(_read_style, styles)), None)
    if is_key or kind in ("string", "text"):
        return Entry(**entry, type="string" if is_key else kind)
    if style or kind in ("date", "datetime", "time"):
        return _read_moment(entry, choose_calendar(style) if style else kind, style, said)
    values = _read_values(said["values"])
    return _find_number(entry, kind, said, values) or Entry(**entry, **_read_codes(kind, said, values))


def _read_moment(entry: Mapping[str, Any], kind: Type | None, style: str | None, said: Mapping[str, str]) -> Entry:
    days = _DAYS.fullmatch(said["values"])
    low, high = days.groups() if days else (said.get("minimum") or None, said.get("maximum") or None)
    iso = _ISO.fullmatch(low or "")
    if iso and kind == ("datetime" if iso[1] else "date"):
        style = style or "%Y-%m-%d" + (f"{iso[1]}%H:%M" if iso[1] else "") + (":%S" if iso[2] else "")
    return Entry(**entry, type=kind, format=style, minimum=low, maximum=high)


def _read_codes(kind: Type | None, said: Mapping[str, str], values: _Values) -> dict[str, Any]:
    """The list of codes, a range of them told one by one; the type alone where there is no list."""
    codes, low, high = values
    if isinstance(low, int) and isinstance(high, int) and high - low < _MOST_CODES:
        codes = dict.fromkeys([*map(str, range(low, high + 1)), *codes], "")
    more = {"ordered": True} if "ordinal" in said.get("type", "").lower() else {}
    return {"type": "enum", "values": [*codes], "more": more} if codes else {"type": kind}


def _find_number(entry: Mapping[str, Any], kind: Type | None, said: Mapping[str, str], values: _Values) -> Entry | None:
    """The number that a range, or a type without a list of codes, says; None where they say none."""
    codes, low, high = values
    nothing = {code for code, label in codes.items() if _NOTHING.search(label or code)}
    told = {code for code in codes if code not in nothing and read_number(code) is not None}
    low, high = (read_number(said.get(end) or found) for end, found in (("minimum", low), ("maximum", high)))
    is_number = kind in ("integer", "float")
    ends = [end for end in (low, high) if end is not None]
    if not (is_number or (kind is None and ends)) or (told and not ends):
        return None
    missing = []
    for code in codes:
        is_next = False
        if code in told and low is not None and high is not None:
            low, high, is_next = extend_range(low, high, read_number(code))
        missing += [code] if code in nothing or (code in told and not is_next) else []
    digits = said.get("decimals") or next(iter(_DIGITS.findall(said.get("type", ""))), "")
    decimals = int(digits) if digits.isdigit() else None
    whole = decimals == 0 or (decimals is None and kind != "float" and are_whole(ends))
    kept = {**entry, "missing": [*entry["missing"], *missing], "decimals": None if whole else decimals}
    return Entry(**kept, type="integer" if whole else "float", minimum=low, maximum=high)


def _read_values(text: str) -> _Values:
    """The values that a cell lists; one word alone is no list."""
    codes = dict[str, str]()
    low: Number | None = None
    high: Number | None = None
    pieces = [piece for part in _ELLIPSIS.split(text) for piece in (*_cut(part), "...")][:-1]
    if pieces[1:2] == ["..."] and "..." not in pieces[2:]:
        first, last = (read_number(_part(piece)[0]) for piece in (pieces[0], pieces[2]))
        if isinstance(first, int) and isinstance(last, int) and first < last:
            low, high, pieces = first, last, pieces[3:]
    for piece in pieces:
        code, label = _part(piece)
        if found := _RANGE.fullmatch(piece) or _RANGE.fullmatch(code):
            low, high = read_number(found[1]), read_number(found[2])
        elif found := _LEAST.fullmatch(piece):
            low = read_number(found[1])
        else:
            codes[code] = label
    is_list = len(codes) > 1 or any(codes.values()) or low is not None
    return (codes if is_list and not codes.keys() & {"...", "etc", "etc."} else {}), low, high


def _cut(text: str) -> list[str]:
    """The pieces of a list, whatever stands between them; a comma within a label is none of it."""
    text = _IN_BRACKETS.sub(r"\1-\2", text)
    if re.search("[\n;|]", text):
        pieces = re.split("[\n;|]", text)
    elif "=" in text or ":" in text:
        pieces = re.split(r",\s*(?=[^,=:]+[=:])", text)
    else:
        pieces = [text] if _RANGE.fullmatch(text) or text.upper() == "N/A" else re.split(r",|(?<=\w)/(?=\w)", text)
    return [piece.strip(" '\"") for piece in pieces if piece.strip(" '\"")]


def _part(piece: str) -> tuple[str, str]:
    """A code and its label, if it has one."""
    found = _CODE.fullmatch(piece)
    code, label = (found[1] or found[3], found[2] or found[4]) if found else (piece, "")
    return code.strip(" '\""), label


def _read_style(text: str) -> str | None:
    """The strftime format for one such as DD/MM/YYYY; None if it is no format."""
    style = text if "%" in text else text.lower().replace("mi", "mm")
    for letters, field in _FIELDS.items():
        style = re.sub(letters, field, style)
    return style if re.search("%[YyH]", style) and not re.search("[0-9]|(?<![%-])[a-su-y]", style) else None
