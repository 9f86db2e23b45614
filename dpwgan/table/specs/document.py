"""Reads data-specs.json, in every dialect, into a Schema: what is public about a table, and nothing else."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from dpwgan.errors import SpecsError, quote, say_both
from dpwgan.table.codebook import Codebook, read_codebook
from dpwgan.table.files.stream import read_public
from dpwgan.table.schema import CategoricalColumn, Column, Schema, TrainedColumn, UndiscoveredColumn, UnitColumn
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.derived import parse_derived
from dpwgan.table.specs.form import check_form
from dpwgan.table.specs.keys import LAYOUT, UNIT, Keys
from dpwgan.table.specs.layout import expand_layout, refuse_layout
from dpwgan.table.specs.problems import Problems
from dpwgan.table.specs.rules import add_rules
from dpwgan.table.specs.unit import check_unit, check_unit_rules, take_unit


def read_specs(path: Path | str, *, codebook: Path | str | None = None) -> Schema:
    """Reads a data-specs.json file, with a codebook where a column's domain comes from one.

    Privacy: reads public files only, never the table.
    Raises: InputError if a file is missing or cannot be opened, SpecsError if it is not of the documented form.
    """
    path = Path(path)
    content = read_public(path, name=f"The specs {str(path)!r}")
    listing = None if codebook is None else read_codebook(codebook)
    sha256 = hashlib.sha256(content).hexdigest()
    return parse_specs(load_document(content), sha256=sha256, codebook=listing, folder=path.parent)


def load_document(content: bytes, problems: Problems | None = None) -> object:
    """Turns the bytes of a specs file into a JSON document.

    Raises: SpecsError if they are not UTF-8 or not JSON, hold NaN or infinity, or name a key twice; the last of these
      is gathered where there is something to gather it in, and the later entry counts.
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
            why = f": {say_both(twin)}" if twin in (LAYOUT, UNIT) else ""
            error = SpecsError(f"The specs name {quote(twin)} twice in one object{why}.")
            if problems is None:
                raise error
            problems.found.append(error)
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
    Raises: SpecsError in one sentence that names the column and the key, and says whether there are more.
    """
    problems = Problems()
    schema = survey_specs(document, problems, sha256=sha256, codebook=codebook, folder=folder)
    problems.raise_if_any()
    unit = schema.unit
    # Behind the rules, which cannot read it.
    return replace(schema, columns=(*schema.columns, unit.size_column)) if unit and unit.has_sizes else schema


def survey_specs(
    document: object,
    problems: Problems,
    *,
    sha256: str,
    codebook: Codebook | None = None,
    folder: Path | None = None,
) -> Schema:
    """The valid columns of a specs document, as a Schema; problems of the others are gathered.

    A column derived from one that is wrong is left out, for nothing can be said of it. How many rows a unit has is no
    column of a table, and none here.
    Raises: SpecsError if the document has no columns at all.
    """
    try:
        columns, rules = check_form(document, problems)
    except RecursionError:
        raise SpecsError("The specs hold objects too deep to be read.") from None
    named, layout = document.keys() if isinstance(document, Mapping) else set(), None
    unit: UnitColumn | None = None
    with problems.gathered():
        columns, layout = expand_layout(columns, named=named)
    with problems.gathered():
        columns, unit = take_unit(columns, wrong=problems.columns)
    keys = {name: Keys(name, given, codebook) for name, given in columns.items() if name not in problems.columns}
    parsed: dict[str, Column] = {}
    # Those that are told by another one come behind it.
    for name, given in sorted(keys.items(), key=lambda item: item[1].told_by is not None):
        if given.told_by is not None and problems.concern(given.told_by):
            problems.skipped.append(name)
        elif "derived" not in given:
            with problems.gathered():
                if given.told_by is not None and given.told_by not in columns:
                    between = "since" if "since" in given else "above"
                    raise given.refuse(f"{between!r} is {quote(given.told_by)}, which the specs do not name")
                parsed[name] = parse_column(replace(given, earlier=parsed.get(given.told_by or "")))
    sources = dict(parsed)
    if not problems.found and not any(isinstance(c, TrainedColumn | UndiscoveredColumn) for c in sources.values()):
        problems.found.append(
            SpecsError(
                "The specs leave nothing to train: every column is a row name, derived from another, or of a type that"
                " is not trained."
            )
        )
    for name, given in keys.items():
        if "derived" in given and problems.concern([given["derived"].get(key) for key in ("from", "sql")]):
            problems.skipped.append(name)
        elif "derived" in given:
            with problems.gathered():
                parsed[name] = parse_derived(given, sources=sources, columns=columns)
    label = None if layout is None else parsed.get(layout.label)
    with problems.gathered():
        if label is not None and not isinstance(label, CategoricalColumn | UndiscoveredColumn):
            raise refuse_layout(f"its 'label', {quote(label.name)}, must be a column of categories, of the type 'enum'")
    if unit is not None and not problems.found:
        with problems.gathered():
            check_unit(unit, parsed)
    ordered = (*(parsed[name] for name in columns if name in parsed), *([] if unit is None else [unit]))
    waived = tuple(name for name, given in keys.items() if given.waives_range)
    schema = Schema(columns=ordered, sha256=sha256, layout=None if problems.found else layout, waived=waived)
    schema = add_rules(schema, rules, problems, folder=folder or Path()) if rules else schema
    if unit is not None and not problems.found:
        with problems.gathered():
            check_unit_rules(unit, schema)
    return schema
