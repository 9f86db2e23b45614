"""Reads data-specs.json, in every dialect, into a Schema: what is public about a table, and nothing else."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, NoReturn

from dpwgan.errors import InputError, SpecsError
from dpwgan.table.codebook import Codebook, read_codebook
from dpwgan.table.schema import CategoricalColumn, Column, IdentifierColumn, Schema, UndiscoveredColumn
from dpwgan.table.specs.categories import check_widths
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.derived import parse_derived
from dpwgan.table.specs.form import check_form
from dpwgan.table.specs.keys import Keys, quote
from dpwgan.table.specs.layout import expand_layout, refuse_layout
from dpwgan.table.specs.rules import add_rules


def read_specs(path: Path | str, *, codebook: Path | str | None = None) -> Schema:
    """Reads a data-specs.json file, with a codebook where a column's domain comes from one.

    Privacy: reads public files only, never the table.
    Raises: InputError if a file is missing or cannot be opened, SpecsError if it is not of the documented form.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"The specs {str(path)!r} cannot be read: {error.strerror or 'unknown reason'}.") from error
    listing = None if codebook is None else read_codebook(codebook)
    sha256 = hashlib.sha256(content).hexdigest()
    return parse_specs(load_document(content), sha256=sha256, codebook=listing, folder=path.parent)


def load_document(content: bytes) -> object:
    """Turns the bytes of a specs file into a JSON document.

    Raises: SpecsError if they are not UTF-8 or not JSON, name a key twice, or hold NaN or infinity.
    """

    def refuse_constant(name: str) -> NoReturn:
        raise SpecsError(f"The specs hold {name}, which is not a number that JSON or a range can have.")

    def read_float(text: str) -> float:
        number = float(text)
        return number if math.isfinite(number) else refuse_constant("a number too large for a double")

    def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # JSON readers keep the last of two equal keys in silence; here that would lose a column's specs.
        result = dict(pairs)
        if len(result) < len(pairs):
            seen: set[str] = set()
            twin = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise SpecsError(f"The specs name {quote(twin)} twice in one object.")
        return result

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecsError("The specs are not JSON: the file is not UTF-8 text.") from error
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_float=read_float, object_pairs_hook=refuse_twins)
    except json.JSONDecodeError as error:
        raise SpecsError(f"The specs are not JSON: {error.msg} at line {error.lineno}.") from error
    except (ValueError, RecursionError) as error:
        raise SpecsError("The specs are not JSON that can be read: a number too long or lists too deep.") from error


def parse_specs(
    document: object, *, sha256: str, codebook: Codebook | None = None, folder: Path | None = None
) -> Schema:
    """Turns a specs document (as json.load gives it) into a Schema that has been checked in full.

    `folder`: where files that the rules name are looked for; None for the working directory.

    Privacy: public facts only. A domain that would have to come from the table stays an UndiscoveredColumn.
    Raises: SpecsError in one sentence that names the column and the key.
    """
    columns, rules = check_form(document)
    columns, layout = expand_layout(columns)
    check_widths(columns)
    keys = {name: Keys(name, given, codebook) for name, given in columns.items()}
    sources = {name: parse_column(given) for name, given in keys.items() if "derived" not in given}
    if all(isinstance(column, IdentifierColumn) for column in sources.values()):
        raise SpecsError("The specs leave nothing to train: every column is a row name or derived from another.")
    parsed: dict[str, Column] = {
        name: sources[name] if name in sources else parse_derived(given, sources=sources, columns=columns)
        for name, given in keys.items()
    }
    if layout is not None and not isinstance(parsed[layout.label], CategoricalColumn | UndiscoveredColumn):
        raise refuse_layout(f"its 'label', {quote(layout.label)}, must be a column of categories, of the type 'enum'")
    schema = Schema(columns=tuple(parsed.values()), sha256=sha256, layout=layout)
    return add_rules(schema, rules, folder=folder or Path()) if rules else schema
