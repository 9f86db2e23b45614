"""The command `dpwgan specs`: drafts specs from public dictionaries, and lists all that is wrong with specs and tables.

Privacy: a draft reads no row, unless --from-rows names a table: what is taken from it is marked in the specs as waived.
  A check with a table reads every cell, and counts rows by column and rule. No cell is shown; the counts are for
  whoever holds the table, and no epsilon covers them.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from dpwgan.app.commands import Command, Program, write_json
from dpwgan.app.logs import LOGGER, print_lines
from dpwgan.drafts.entry import format_draft, list_holes
from dpwgan.drafts.kinds import KINDS, draft_specs
from dpwgan.drafts.owners import find_owners
from dpwgan.drafts.rows import fill_from_rows
from dpwgan.drafts.ties import find_ties
from dpwgan.errors import DataError, SpecsError, UsageError, quote, say_both, say_count
from dpwgan.table.codebook import read_codebook
from dpwgan.table.codecs import make_codec
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import get_format, open_table, open_undescribed, read_types
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.files.writer import write_bytes
from dpwgan.table.findings import compare_header, describe
from dpwgan.table.schema import (
    CategoricalColumn,
    ComputedColumn,
    DerivedColumn,
    FixedColumn,
    NumericColumn,
    Schema,
    SizeColumn,
    UndiscoveredColumn,
    UnitColumn,
)
from dpwgan.table.source import SourceTable
from dpwgan.table.specs import Problems, load_document, survey_specs
from dpwgan.table.specs.keys import LAYOUT, UNIT, declares
from dpwgan.table.spelling import has_no_cells, name_type
from dpwgan.table.units.units import read_units

EPILOG = """\
draft: what the dictionary says of a column becomes its specs. What it leaves open, a range or a list, is null in the
draft: fill it in by hand. A run refuses a null, and check lists it.

check: SPECS is data-specs.json. With DATA, the private table, every cell is read as well, and rows that break a rule
are counted by column and rule: no epsilon covers the counts, and no cell is shown. Each problem stands on a line of its
own, behind the line of SPECS to look at.

docs/specs.md describes the specs. Nobody but a public document should say what a column may hold: a range or a list
that is read from private rows gives those rows away.

exit codes: 0 done; 2 usage; 65 the table does not fit the specs; 66 an input is missing; 70 internal error; 73 an
output cannot be created; 74 reading or writing broke off; 78 bad specs, codebook or dictionary; 130, 143 stopped by a
signal."""

_MOST_NAMED = 10

Place = tuple[str, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n', re.DOTALL)
_QUOTED = re.compile(r"'([\w.]+)'|\"([\w.]+)\":")


def _add_draft(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", metavar="FILE", dest="dictionary", help="the dictionary; - for stdin")
    parser.add_argument("--kind", metavar="KIND", help="what it is, where its content does not tell")
    parser.add_argument("--table", metavar="NAME", help="which table, of a dictionary of several")
    parser.add_argument(
        "--from-rows",
        metavar="DATA",
        help="read what is left open from the rows of this table: NOT private, and the claim says for which columns",
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="the specs to write (default -, stdout)")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")
    kinds = "\n".join(f"{name:<14}{kind.title}" for name, kind in KINDS.items())
    parser.add_argument_group("kinds", description=kinds)


def _check_draft(arguments: argparse.Namespace) -> None:
    if not (arguments.dictionary or arguments.from_rows):
        raise UsageError("--from FILE names the dictionary to draft from; --help lists what it may be")
    if arguments.from_rows == "-":
        raise UsageError("--from-rows must be a file: it is gone over more than once")
    if arguments.from_rows and get_format(arguments.from_rows) == "npz":
        raise UsageError("--from-rows reads CSV and Parquet; images need a 'layout' in the specs (docs/images.md)")


def _draft(arguments: argparse.Namespace) -> None:
    draft: dict[str, dict[str, Any]] = {}
    kind = "no dictionary"
    if arguments.dictionary:
        kind, draft = draft_specs(read_bytes(arguments.dictionary), kind=arguments.kind, table=arguments.table)
        kind = KINDS[kind].title
    waived: list[str] = []
    owners: dict[str, list[str]] = {}
    why: dict[str, str] = {}
    full: list[str] = []
    ties: list[str] = []
    if arguments.from_rows:
        types = read_types(arguments.from_rows)
        odd = {name: name_type(kind) for name, kind in types.items() if kind is not None and has_no_cells(kind)}
        skipped = {name: FixedColumn(name=name, cell="") for name in odd}
        table = open_undescribed(arguments.from_rows, skipped, types=types, read=True)
        told = draft
        draft, waived, why = fill_from_rows(told, table.frames())
        draft = {name: draft.get(name, {"type": None}) for name in (*told, *table.header)}
        why |= {name: f"{kind}? make numbers or text of it" for name, kind in odd.items()}
        header = [name for name in table.header if name not in odd]
        owners = find_owners(draft, table.frames)
        for name in owners.keys() & {*waived}:  # somebody's number has no place in what is published
            draft[name], why[name] = dict(told.get(name, {"type": None})), "whose a row is?"
            waived.remove(name)
        if full := [name for name in header if told.get(name, {}).get("optional")]:
            empty = {name for frame in table.frames() for name in full if (frame[name] == "").any()}
            full = [name for name in full if name not in empty]
        # What follows from whose a row is, is said of that column.
        ties = find_ties({name: draft[name] for name in header if name not in owners}, table.frames())
    write_bytes(arguments.output, format_draft(draft).encode())
    holes = {name: list_holes(keys) for name, keys in draft.items()}
    left = [
        f"{quote(name)} ({', '.join(keys)}{f': {why[name]}' if name in why else ''})"
        for name, keys in holes.items()
        if keys
    ]
    LOGGER.info("%s: %d of %d columns are complete", kind, len(draft) - len(left), len(draft))
    if waived:
        LOGGER.warning("read from the rows, and named by every claim as not covered: %s", _shorten(map(repr, waived)))
    if owners:
        name, own = next(iter(owners.items()))
        LOGGER.warning(
            "column %s may say whose a row is: many of its values have several rows. A run protects one row unless "
            'the specs name a unit: add "unit": {"column": %s, "max_rows": K}, and list it as "drop", or as row names, '
            'with "linked" columns for what lasts from row to row (docs/specs.md, Unit)%s%s',
            " or ".join(map(quote, islice(owners, _MOST_NAMED))),
            json.dumps(name, ensure_ascii=False),
            f'; all its rows have the same {_shorten(own)}: mark such columns "of": "unit"' if own else "",
            f"; {say_both(UNIT)}" if UNIT in draft else "",
        )
    if doubts := [f"{quote(name)} ({why[name]})" for name in draft if name in why and not holes[name]]:
        LOGGER.info("drafted, and to be looked at again: %s", _shorten(doubts))
    if rough := [name for name, keys in draft.items() if keys["type"] == "float" and "decimals" not in keys]:
        LOGGER.info(
            'without "decimals": %s; say how many there are, for about six digits in all are written else',
            _shorten(map(quote, rough)),
        )
    if full:
        LOGGER.info(
            'optional by the dictionary, and never empty in the rows: %s; where a blank cannot be, take "optional" '
            "out, for some rows of the output have one",
            _shorten(map(quote, full)),
        )
    if ties:
        LOGGER.info(
            'in every row %s: if that is so by its nature, derive the one, tell it "since" the other, or tie both by a '
            "rule (docs/specs.md), for the output breaks it else",
            _shorten(ties),
        )
    if left:
        LOGGER.info("to be filled in by hand, null in the draft: %s", _shorten(left))


def _shorten(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, and the line of the specs to look at: the key's, or else the column's."""

    line: int | None
    column: str | None
    key: str | None = None
    rows: int | None = None
    problem: str


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPECS", help=argparse.SUPPRESS)
    parser.add_argument("data", metavar="DATA", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON, too; - for stdout, in its place")
    parser.add_argument("--quiet", action="store_true", help="say only how many problems there are")


def _check_check(arguments: argparse.Namespace) -> None:
    if not arguments.specs or arguments.data == "":
        raise UsageError("SPECS and DATA must not be empty")
    if arguments.data == "-":
        raise UsageError("DATA must be a file: it is gone over more than once")


def _check(arguments: argparse.Namespace) -> None:
    content = read_bytes(arguments.specs)
    codebook = None if arguments.codebook is None else read_codebook(arguments.codebook)
    found = Problems()
    schema: Schema | None = None
    lines: dict[Place, int] = {}
    with found.gathered():
        document = load_document(content, found)
        lines = find_lines(content.decode("utf-8-sig"))
        digest, folder = hashlib.sha256(content).hexdigest(), Path(arguments.specs).parent
        schema = survey_specs(document, found, sha256=digest, codebook=codebook, folder=folder)
    wrong = sorted((_place(error, lines) for error in found.found), key=lambda problem: problem.line or 0)
    misfits: list[Problem] = []
    if schema is not None and isinstance(document, dict) and arguments.data is not None:
        misfits = list(_judge(arguments.data, document, schema, found, lines))
    if arguments.json is not None:
        listed = {"specs": [asdict(problem) for problem in wrong], "data": [asdict(problem) for problem in misfits]}
        write_json(arguments.json, {"files": {"specs": arguments.specs, "data": arguments.data}, "problems": listed})
    if arguments.json != "-" and not arguments.quiet:
        for problem in (*wrong, *misfits):
            print_lines([f"{arguments.specs}{'' if problem.line is None else f':{problem.line}'}: {problem.problem}"])
    if wrong:
        besides = f", and the table {say_count(len(misfits), 'problem')}" if misfits else ""
        raise SpecsError(f"The specs have {say_count(len(wrong), 'problem')}{besides}")
    if misfits:
        raise DataError(f"The table has {say_count(len(misfits), 'problem')}")
    if not arguments.quiet and arguments.json != "-":
        print_lines([f"{arguments.specs}: nothing is wrong"])


def _list_names(entries: Mapping[str, Mapping[str, Any]], schema: Schema, found: Problems) -> list[str]:
    """The columns that a table has by the specs, also where something is wrong with these."""
    names = dict.fromkeys([*schema.by_name, *found.skipped, *sorted(found.columns)])
    column = entries.get(UNIT, {}).get("column")
    if UNIT in found.columns and isinstance(column, str):
        names = {**{name: None for name in names if name != UNIT}, column: None}  # an entry that names one
    return [*names]


def _judge(
    data: str, document: Mapping[str, Any], schema: Schema, found: Problems, lines: Mapping[Place, int]
) -> Iterator[Problem]:
    """What is wrong with a table by the specs, as far as these are right."""
    if LAYOUT in found.columns:
        return  # nobody knows the names of the pixels
    schema = replace(schema, columns=tuple(own for own in schema.columns if not isinstance(own, SizeColumn)))
    entries = {key: document[key] for key in (LAYOUT, UNIT) if isinstance(document.get(key), dict)}
    taken = [key for key in entries if declares(entries, key)]
    names = _list_names(entries, schema, found)
    for column, rows, said in _find_misfits(data, schema, names=names, taken=taken):
        _, line = find_line(lines, column=column, sentence=said)
        yield Problem(line=line, column=column, rows=rows, problem=f"{data}: {said}{'' if said[-1] == '?' else '.'}")


def _find_misfits(
    path: str, schema: Schema, *, names: Sequence[str], taken: Collection[str]
) -> Iterator[tuple[str | None, int | None, str]]:
    """What is wrong with a table's form, its header against `names`, and its cells against the columns of the schema.

    `taken` are entries of the specs that are no columns. Of each column, rows and a sentence without its full stop.
    Privacy: no cell gets into a sentence.
    Raises: InputError if the file is missing; TransferError if reading breaks off.
    """
    try:
        image = open_table(path, schema) if get_format(path) == "npz" else None
        types = read_types(path) if image is None else {}
        left_out = [column.name for column in schema.columns if not column.is_written]
        faults = compare_header([*types] if image is None else image.header, names, may_lack=left_out)
        for name in faults.absent:
            yield name, None, f"the header of the table does not have the column {quote(name)}"
        for name in faults.unknown:
            why = f": {say_both(name)}" if name in taken else ""
            yield None, None, f"the specs do not have the column {quote(name)} of the table{why}"
        if faults.untold:
            yield None, None, f"the specs do not have {faults.untold} of the names in the first line"
        # Behind the header: where that is none, rows do not fit it, and would be all that is told.
        table = image or open_undescribed(path, schema.by_name, types=types)
        yield from _find_illegal_cells(table, schema)
        _warn_of_zeros(table, schema)
        if schema.unit is not None:
            read_units(table, _keep_known(schema.unit, schema))
    except DataError as error:
        yield None, None, str(error).rstrip(".")


def _keep_known(unit: UnitColumn, schema: Schema) -> UnitColumn:
    """A unit without what it says of columns that are described wrongly, and so not read."""
    shared = tuple(name for name in unit.shared if name in schema.by_name)
    return replace(unit, shared=shared, unique=unit.unique if schema.by_name.keys() >= {*unit.unique} else ())


def _find_illegal_cells(table: SourceTable, schema: Schema) -> Iterator[tuple[str | None, int | None, str]]:
    columns = [column for column in schema.columns if column.name in table.header]
    waived = [column for column in columns if isinstance(column, UndiscoveredColumn) and column.privacy == "waived"]
    found = discover_domains(table.frames(), replace(schema, columns=tuple(waived), layout=None)).by_name
    known = {
        column.name: found.get(column.name, column)
        for column in columns
        if column.name in found or not isinstance(column, UndiscoveredColumn)
    }
    judged = {
        name: column
        for name, column in known.items()
        if not isinstance(column, DerivedColumn | ComputedColumn) or known.keys() >= {*column.sources}
    }
    if not judged:
        return
    rules = tuple(rule for rule in schema.rules if judged.keys() >= {*rule.columns})
    part = replace(schema, columns=tuple(judged.values()), layout=None, rules=rules)
    for (name, rule), rows in TableEncoder(part, tuple(part.by_name)).find_misfits(table.pieces()).rows.items():
        yield name or None, rows, describe({(name, rule): rows})


def _warn_of_zeros(table: SourceTable, schema: Schema) -> None:
    """Names columns whose leading zeros a run drops in silence, as a word of it there would tell of the rows."""
    numbers = [
        make_codec(column)
        for column in schema.columns
        if isinstance(column, CategoricalColumn | NumericColumn) and column.integer and column.name in table.header
    ]
    dropped = dict.fromkeys(
        codec.name
        for frame in (table.frames() if numbers else ())
        for codec in numbers
        for cell in frame[codec.name].unique().str.extract(r"^(0\d.*)$").drop_nulls()
        if not (codec.get_canonical(cell) or cell).startswith(cell.partition(".")[0])
    )
    if dropped:
        LOGGER.warning(
            "the table has leading zeros in %s, which the output drops: 'width', or an enum's 'values' as text, keep "
            "them",
            _shorten(map(quote, dropped)),
        )


def _place(error: SpecsError, lines: Mapping[Place, int]) -> Problem:
    key, line = find_line(lines, column=error.column, sentence=str(error))
    return Problem(line=line, column=error.column, key=key, problem=str(error))


def find_lines(text: str) -> dict[Place, int]:
    """The line of each key of a JSON text, by the names on the way to it; of two equal ones, the later.

    What stands in a list goes by its number, from 0. Lines of numbers in lists are not told. The text must be JSON.
    """
    lines: dict[Place, int] = {}
    path: list[str] = []
    # For each bracket that is open: whether it is an object's, whether a name is due in it, and how many commas it had.
    brackets: list[tuple[bool, bool, int]] = []
    line, name = 1, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        is_object, is_due, commas = brackets[-1] if brackets else (True, False, 0)
        if token == "\n":
            line += 1
        elif token in "}]":
            brackets.pop()
            path.pop()
        elif token == ",":
            brackets[-1] = is_object, is_object, commas + 1
        elif token != ":" and (is_due or not is_object):
            name = json.loads(token) if is_due else str(commas)
            place = (*path[1:], name)
            lines[place] = line
            brackets[-1] = is_object, False, commas
        if token in "{[":
            path.append(name)
            brackets.append((token == "{", token == "{", 0))
    return lines


def find_line(lines: Mapping[Place, int], *, column: str | None, sentence: str) -> tuple[str | None, int | None]:
    """The key of a column that a sentence quotes, if it is there, and the line to look at."""
    if column is None:
        if rule := re.match(r"[Rr]ule (\d+)", sentence):
            return None, lines.get(("rules", str(int(rule[1]) - 1)))
        twin = re.search(r"name '(.+)' twice", sentence)
        places = [place for place in lines if twin and place[-1] == twin[1]]
        return None, lines[places[-1]] if places else None
    if (column,) not in lines:
        return None, None
    for plain, double in _QUOTED.findall(sentence.replace(repr(column), "", 1)):
        place = (column, *(plain or double).split("."))
        if place in lines:
            return plain or double, lines[place]
    return None, lines[(column,)]


PROGRAM = Program(
    name="dpwgan specs",
    commands={
        "draft": Command(
            usage="--from FILE [-o FILE] [options]",
            summary="draft specs from a public dictionary",
            add_arguments=_add_draft,
            check=_check_draft,
            run=_draft,
            reads=("dictionary", "--from_rows"),
            writes=("--output",),
        ),
        "check": Command(
            usage="SPECS [DATA] [options]",
            summary="list all that is wrong with specs, and with a table against them",
            add_arguments=_add_check,
            check=_check_check,
            run=_check,
            reads=("SPECS", "DATA", "--codebook"),
        ),
    },
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
