"""`specs check`: all that is wrong with specs, and with a table against them, in one list.

Privacy: with a table every cell is read, and rows are counted by column and rule. No cell is shown; the counts are for
  whoever holds the table, and no epsilon covers them.
"""

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from dpwgan.app.commands import Command, write_json
from dpwgan.app.logs import print_lines
from dpwgan.app.specs.lines import Place, find_line, find_lines
from dpwgan.errors import DataError, SpecsError, UsageError
from dpwgan.table.codebook import read_codebook
from dpwgan.table.schema import Schema
from dpwgan.table.specs import Problems, load_document, survey_specs
from dpwgan.table.stream import read_bytes

DETAILS = """\
SPECS is data-specs.json. With DATA, the private table, every cell is read as well, and rows that break a rule
are counted by column and rule: no epsilon covers the counts, and no cell is shown. Each problem stands on a line of its
own, behind the line of SPECS to look at."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, and the line of the specs to look at: the key's, or else the column's."""

    line: int | None
    column: str | None
    key: str | None = None
    rows: int | None = None
    problem: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("specs", metavar="SPECS", help=argparse.SUPPRESS)
    parser.add_argument("data", metavar="DATA", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON, too; - for stdout, in its place")
    parser.add_argument("--quiet", action="store_true", help="say only how many problems there are")


def check(arguments: argparse.Namespace) -> None:
    """Refuses what can be told from the arguments. Raises: UsageError."""
    if not arguments.specs or arguments.data == "":
        raise UsageError("SPECS and DATA must not be empty")
    if arguments.data == "-":
        raise UsageError("DATA must be a file: it is gone over more than once")


def run(arguments: argparse.Namespace) -> None:
    """Lists the problems. Raises: SpecsError or DataError if there are any; the other errors of dpwgan.errors."""
    content = read_bytes(arguments.specs)
    codebook = None if arguments.codebook is None else read_codebook(arguments.codebook)
    found = Problems()
    schema: Schema | None = None
    lines: dict[Place, int] = {}
    with found.gathered():
        document = load_document(content, found)
        lines = find_lines(content.decode("utf-8-sig"))
        schema = survey_specs(document, found, sha256=hashlib.sha256(content).hexdigest(), codebook=codebook)
    wrong = sorted((_place(error, lines) for error in found.found), key=lambda problem: problem.line or 0)
    misfits = [] if schema is None or arguments.data is None else list(_judge(arguments.data, schema, found, lines))
    if arguments.json is not None:
        listed = {"specs": [asdict(problem) for problem in wrong], "data": [asdict(problem) for problem in misfits]}
        write_json(arguments.json, {"files": {"specs": arguments.specs, "data": arguments.data}, "problems": listed})
    if arguments.json != "-" and not arguments.quiet:
        for problem in (*wrong, *misfits):
            print_lines([f"{arguments.specs}{'' if problem.line is None else f':{problem.line}'}: {problem.problem}"])
    if wrong:
        raise SpecsError(f"The specs have {_count(wrong)}" + (f", and the table {_count(misfits)}" if misfits else ""))
    if misfits:
        raise DataError(f"The table has {_count(misfits)}")
    if not arguments.quiet and arguments.json != "-":
        print_lines([f"{arguments.specs}: nothing is wrong"])


def _judge(data: str, schema: Schema, found: Problems, lines: Mapping[Place, int]) -> Iterator[Problem]:
    from dpwgan.app.specs.misfits import find_misfits

    if "layout" in found.columns:
        return  # nobody knows the names of the pixels
    for column, rows, said in find_misfits(data, schema, names=[*schema.by_name, *found.skipped, *found.columns]):
        _, line = find_line(lines, column=column, sentence=said)
        yield Problem(line=line, column=column, rows=rows, problem=f"{data}: {said}.")


def _place(error: SpecsError, lines: Mapping[Place, int]) -> Problem:
    key, line = find_line(lines, column=error.column, sentence=str(error))
    return Problem(line=line, column=error.column, key=key, problem=str(error))


def _count(problems: list[Problem]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"


COMMAND = Command(
    usage="SPECS [DATA] [options]",
    summary="list all that is wrong with specs, and with a table against them",
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("SPECS", "DATA", "--codebook"),
)
