"""`claim export`: a claim in the forms of registries, supply chains and catalogues. Reads no private row."""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from dpwgan.app.commands import Command
from dpwgan.errors import DataError, UsageError
from dpwgan.table.writer import write_bytes

DETAILS = """\
--registry makes a draft for the Differential Privacy Deployments Registry and needs --curator, --use, --region and
--date; --in-toto an unsigned in-toto Statement v1 over table and claim; --croissant Croissant 1.1 metadata of a table
in CSV or Parquet, with its columns. TABLE is looked for beside the claim; where it is there, or is given, its digest
must be the claim's."""

FORMS = ("registry", "in-toto", "croissant")
_FACTS = {
    "name": "what the release is called (default: the table's name)",
    "curator": "who publishes it",
    "use": "what it is meant for",
    "region": "where its people live, or whose laws apply",
    "license": "the licence it is published under, as a URL",
}
_REGISTRY = ("curator", "use", "region", "date")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("claim", metavar="CLAIM", help=argparse.SUPPRESS)
    forms = parser.add_mutually_exclusive_group(required=True)
    for form in FORMS:
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help="make this form")
    parser.add_argument("--table", metavar="TABLE", help="the released table (default: CLAIM without .privacy.json)")
    for fact, what in _FACTS.items():
        parser.add_argument(f"--{fact}", metavar="TEXT", help=what)
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="when it was published")
    parser.add_argument("--output", metavar="FILE", default="-", help="where it goes (default: stdout)")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")


def check(arguments: argparse.Namespace) -> None:
    """Refuses what can be told from the arguments. Raises: UsageError."""
    if not arguments.claim:
        raise UsageError("CLAIM must not be empty")
    if arguments.date is not None:
        try:
            datetime.date.fromisoformat(arguments.date)
        except ValueError:
            raise UsageError("--date must be a day, as 2026-01-31") from None
    missing = [fact for fact in _REGISTRY if not getattr(arguments, fact)]
    if arguments.form == "registry" and missing:
        raise UsageError("--registry needs " + ", ".join(f"--{fact}" for fact in missing))


def run(arguments: argparse.Namespace) -> None:
    """Writes the form. Raises: DataError if the claim or the table is not right; InputError, OutputError."""
    from dpwgan.app.claims.verification import check_table
    from dpwgan.app.claims.verify_command import read_claim_file

    content, document = read_claim_file(arguments.claim)
    beside = arguments.claim.removesuffix(".privacy.json")
    table = arguments.table or beside
    there = arguments.table is not None or (beside != arguments.claim and Path(beside).is_file())
    if there and (fault := check_table(document, table)) is not None:
        raise DataError(fault)
    if arguments.form == "croissant" and not there:
        raise UsageError("--croissant needs --table TABLE: the released table lies not beside the claim")
    facts = {key: getattr(arguments, key) for key in (*_FACTS, "date") if getattr(arguments, key)}
    made = _make(arguments, document, content=content, table=table, facts={"name": Path(table).name, **facts})
    text = json.dumps(made, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_bytes(arguments.output, text.encode())


def _make(
    arguments: argparse.Namespace, document: dict[str, Any], *, content: bytes, table: str, facts: dict[str, str]
) -> dict[str, Any]:
    if arguments.form == "registry":
        from dpwgan.app.claims.registry import make_record

        return make_record(document, **{key: facts[key] for key in ("name", *_REGISTRY)})
    if arguments.form == "in-toto":
        from dpwgan.app.claims.attestation import make_statement

        return make_statement(document, claim_path=arguments.claim, content=content, table=table)
    from dpwgan.app.claims.croissant import make_metadata

    return make_metadata(document, table=table, claim_path=arguments.claim, content=content, about=facts)


COMMAND = Command(
    usage="CLAIM --registry|--in-toto|--croissant [options]",
    summary="write a claim as a registry's record, an attestation or a catalogue's metadata",
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("CLAIM", "--table"),
    writes=("--output",),
)
