"""`dpwgan specs draft`: specs drafted from a public dictionary, and what is left to be filled in by hand.

Privacy: a draft reads no row, unless --from-rows names a table: what is taken from it is marked in the specs as waived.
"""

import argparse
import json
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dpwgan.app.commands import Command
from dpwgan.app.logs import LOGGER
from dpwgan.drafts.entry import format_draft, list_holes
from dpwgan.drafts.kinds import KINDS, draft_specs
from dpwgan.drafts.owners import find_owners
from dpwgan.drafts.rows import fill_from_rows
from dpwgan.drafts.ties import find_ties
from dpwgan.errors import MOST_LISTED, UsageError, list_some, quote, say_both
from dpwgan.table.files.reader import get_format, open_undescribed, read_types
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.files.writer import write_bytes
from dpwgan.table.schema import FixedColumn
from dpwgan.table.specs.keys import UNIT
from dpwgan.table.spelling import has_no_cells, name_type

_OPTIONAL = (
    'optional by the dictionary, and never empty in the rows: %s; where a blank cannot be, take "optional" out, for '
    "some rows of the output have one"
)
_TIED = (
    'in every row %s: if that is so by its nature, derive the one, tell it "since" the other, or tie both by a rule '
    "(docs/specs.md), for the output breaks it else"
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
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


def _check(arguments: argparse.Namespace) -> None:
    if not (arguments.dictionary or arguments.from_rows):
        raise UsageError("--from FILE names the dictionary to draft from; --help lists what it may be")
    if arguments.from_rows == "-":
        raise UsageError("--from-rows must be a file: it is gone over more than once")
    if arguments.from_rows and get_format(arguments.from_rows) == "npz":
        raise UsageError("--from-rows reads CSV and Parquet; images need a 'layout' in the specs (docs/images.md)")


@dataclass(kw_only=True)
class _Draft:
    """Specs, and what is to be said of them: all but the specs is of rows, and nothing where none were read.

    `waived`: columns that were read from rows. `why`: why a column is open, or to be looked at again. `owners` may say
    whose a row is, each with what all its rows have in common. `full`: columns never empty; `ties`: what holds in all.
    """

    specs: dict[str, dict[str, Any]]
    waived: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    owners: dict[str, list[str]] = field(default_factory=dict)
    full: list[str] = field(default_factory=list)
    ties: list[str] = field(default_factory=list)


def _run(arguments: argparse.Namespace) -> None:
    kind, told = "no dictionary", dict[str, dict[str, Any]]()
    if arguments.dictionary:
        name, told = draft_specs(read_bytes(arguments.dictionary), kind=arguments.kind, table=arguments.table)
        kind = KINDS[name].title
    draft = _fill(told, arguments.from_rows) if arguments.from_rows else _Draft(specs=told)
    write_bytes(arguments.output, format_draft(draft.specs).encode())
    _tell(draft, kind)


def _fill(told: dict[str, dict[str, Any]], path: str) -> _Draft:
    """What a dictionary told, with what it left open read from a table's rows."""
    types = read_types(path)
    odd = {name: name_type(kind) for name, kind in types.items() if kind is not None and has_no_cells(kind)}
    skipped = {name: FixedColumn(name=name, cell="") for name in odd}
    table = open_undescribed(path, skipped, types=types, read=True)
    filled, waived, why = fill_from_rows(told, table.frames())
    specs = {name: filled.get(name, {"type": None}) for name in (*told, *table.header)}
    why |= {name: f"{kind}? make numbers or text of it" for name, kind in odd.items()}
    header = [name for name in table.header if name not in odd]
    owners = find_owners(specs, table.frames)
    for name in owners.keys() & {*waived}:  # somebody's number has no place in what is published
        specs[name], why[name] = dict(told.get(name, {"type": None})), "whose a row is?"
        waived.remove(name)
    if full := [name for name in header if told.get(name, {}).get("optional")]:
        empty = {name for frame in table.frames() for name in full if (frame[name] == "").any()}
        full = [quote(name) for name in full if name not in empty]
    # What follows from whose a row is, is said of that column.
    ties = find_ties({name: specs[name] for name in header if name not in owners}, table.frames())
    return _Draft(specs=specs, waived=waived, why=why, owners=owners, full=full, ties=ties)


def _tell(draft: _Draft, kind: str) -> None:
    specs, why = draft.specs, draft.why
    holes = {name: list_holes(keys) for name, keys in specs.items()}
    left = [
        f"{quote(name)} ({', '.join(keys)}{f': {why[name]}' if name in why else ''})"
        for name, keys in holes.items()
        if keys
    ]
    LOGGER.info("%s: %d of %d columns are complete", kind, len(specs) - len(left), len(specs))
    if draft.waived:
        read = list_some(map(repr, draft.waived))
        LOGGER.warning("read from the rows, and named by every claim as not covered: %s", read)
    if draft.owners:
        name, own = next(iter(draft.owners.items()))
        LOGGER.warning(
            "column %s may say whose a row is: many of its values have several rows. A run protects one row unless "
            'the specs name a unit: add "unit": {"column": %s, "max_rows": K}, and list it as "drop", or as row names, '
            'with "linked" columns for what lasts from row to row (docs/specs.md, Unit)%s%s',
            " or ".join(map(quote, islice(draft.owners, MOST_LISTED))),
            json.dumps(name, ensure_ascii=False),
            f'; all its rows have the same {list_some(own)}: mark such columns "of": "unit"' if own else "",
            f"; {say_both(UNIT)}" if UNIT in specs else "",
        )
    doubts = [f"{quote(name)} ({why[name]})" for name in specs if name in why and not holes[name]]
    rough = [quote(name) for name, keys in specs.items() if keys["type"] == "float" and "decimals" not in keys]
    for things, sentence in (
        (doubts, "drafted, and to be looked at again: %s"),
        (rough, 'without "decimals": %s; say how many there are, for about six digits in all are written else'),
        (draft.full, _OPTIONAL),
        (draft.ties, _TIED),
        (left, "to be filled in by hand, null in the draft: %s"),
    ):
        if things:
            LOGGER.info(sentence, list_some(things))


COMMAND = Command(
    usage="--from FILE [-o FILE] [options]",
    summary="draft specs from a public dictionary",
    add_arguments=_add_arguments,
    check=_check,
    run=_run,
    reads=("dictionary", "--from_rows"),
    writes=("--output",),
)
