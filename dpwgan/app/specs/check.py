"""`dpwgan specs check`: all that is wrong with specs, and with a table by them, each with the line to look at."""

import argparse
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from dpwgan.app.commands import Command, write_json
from dpwgan.app.logs import print_lines
from dpwgan.app.specs.lines import Place, find_line, find_lines
from dpwgan.app.specs.misfits import find_misfits
from dpwgan.errors import DataError, SpecsError, UsageError, say_count
from dpwgan.table.codebook import read_codebook
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.schema import Schema
from dpwgan.table.specs import Problems, load_document, survey_specs


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, and the line of the specs to look at: the key's, or else the column's."""

    line: int | None
    column: str | None
    key: str | None = None
    rows: int | None = None
    problem: str


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPECS", help=argparse.SUPPRESS)
    parser.add_argument("data", metavar="DATA", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON, too; - for stdout, in its place")
    parser.add_argument("--quiet", action="store_true", help="say only how many problems there are")


def _refuse(arguments: argparse.Namespace) -> None:
    if arguments.data == "-":
        raise UsageError("DATA must be a file: it is gone over more than once")


def _run(arguments: argparse.Namespace) -> None:
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
    wrong: list[Problem] = []
    for error in found.found:
        key, line = find_line(lines, column=error.column, sentence=str(error))
        wrong.append(Problem(line=line, column=error.column, key=key, problem=str(error)))
    wrong.sort(key=lambda problem: problem.line or 0)
    misfits: list[Problem] = []
    if schema is not None and isinstance(document, dict) and arguments.data is not None:
        for column, rows, said in find_misfits(arguments.data, schema, document=document, problems=found):
            _, line = find_line(lines, column=column, sentence=said)
            sentence = f"{arguments.data}: {said}{'' if said[-1] == '?' else '.'}"
            misfits.append(Problem(line=line, column=column, rows=rows, problem=sentence))
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


COMMAND = Command(
    usage="SPECS [DATA] [options]",
    summary="list all that is wrong with specs, and with a table against them",
    add_arguments=_add_arguments,
    check=_refuse,
    run=_run,
    reads=("SPECS", "DATA", "--codebook"),
)
