"""`specs draft`: a public dictionary in, specs out, with what the dictionary leaves open to be filled in by hand.

Privacy: no row is read, unless --from-rows names a table: what is taken from it is marked in the specs as waived.
"""

import argparse
from collections.abc import Iterable
from typing import Any

from dpwgan.app.commands import Command
from dpwgan.app.logs import LOGGER
from dpwgan.drafts.entry import format_draft, list_holes
from dpwgan.drafts.kinds import KINDS, draft_specs
from dpwgan.errors import UsageError, quote
from dpwgan.table.reader import get_format
from dpwgan.table.stream import read_bytes
from dpwgan.table.writer import write_bytes

DETAILS = """\
what the dictionary says of a column becomes its specs. What it leaves open, a range or a list, is null in the
draft: fill it in by hand. A run refuses a null, and check lists it."""

_MOST_NAMED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
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


def check(arguments: argparse.Namespace) -> None:
    """Refuses what can be told from the arguments. Raises: UsageError."""
    if not (arguments.dictionary or arguments.from_rows):
        raise UsageError("--from FILE names the dictionary to draft from; --help lists what it may be")
    if arguments.from_rows == "-":
        raise UsageError("--from-rows must be a file: it is gone over more than once")
    if arguments.from_rows and get_format(arguments.from_rows) == "npz":
        raise UsageError("--from-rows reads CSV and Parquet; images need a 'layout' in the specs (docs/images.md)")


def run(arguments: argparse.Namespace) -> None:
    """Writes the draft, and says what it leaves open. Raises: the errors of dpwgan.errors."""
    draft: dict[str, dict[str, Any]] = {}
    kind = "no dictionary"
    if arguments.dictionary:
        kind, draft = draft_specs(read_bytes(arguments.dictionary), kind=arguments.kind, table=arguments.table)
        kind = KINDS[kind].title
    waived: list[str] = []
    if arguments.from_rows:
        from dpwgan.drafts.rows import fill_from_rows
        from dpwgan.table.reader import open_undescribed

        draft, waived = fill_from_rows(draft, open_undescribed(arguments.from_rows, {}).frames())
    write_bytes(arguments.output, format_draft(draft).encode())
    holes = {name: list_holes(keys) for name, keys in draft.items()}
    left = [f"{quote(name)} ({', '.join(keys)})" for name, keys in holes.items() if keys]
    LOGGER.info("%s: %d of %d columns are complete", kind, len(draft) - len(left), len(draft))
    if waived:
        LOGGER.warning("read from the rows, and named by every claim as not covered: %s", _shorten(map(repr, waived)))
    if left:
        LOGGER.info("to be filled in by hand, null in the draft: %s", _shorten(left))


def _shorten(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MOST_NAMED} more columns" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


COMMAND = Command(
    usage="--from FILE [-o FILE] [options]",
    summary="draft specs from a public dictionary",
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("dictionary", "--from_rows"),
    writes=("--output",),
)
