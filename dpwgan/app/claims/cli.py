"""The command `dpwgan claim`, for whoever receives a claim or passes it on. Reads no private row.

`verify` holds a claim against itself, and a table against its claim; `export` writes a claim in the forms of
registries, supply chains and catalogues.
Source: in-toto Attestation Framework, Statement v1.
"""

import argparse
import datetime
import hashlib
import re
from pathlib import Path
from typing import Any

from dpwgan.app.commands import Command, Program, read_object, write_json
from dpwgan.app.delivery import CLAIM_SUFFIX, SIGNATURE_SUFFIX
from dpwgan.app.logs import print_lines
from dpwgan.errors import DataError, DpwganError, UsageError, say_count
from dpwgan.table.files.stream import read_bytes

EPILOG = """\
verify: \
CLAIM is OUTPUT.privacy.json. Its form is checked; its ledger is added up anew by the accountant that it names, whatever
number stands in it; all else that follows from the ledger is made anew and compared. With TABLE the SHA-256 of that
file and its number of rows are, too. Each fault stands on a line of its own. A claim that was made up from the start,
and agrees with itself, is told from a true one by its signature alone: with --key, CLAIM.sig must be that of the key's
owner.

export: \
--registry makes a draft for the Differential Privacy Deployments Registry and needs --curator, --use, --region and
--date; --in-toto an unsigned in-toto Statement v1 over table and claim; --croissant Croissant 1.1 metadata of a table
in CSV or Parquet, with its columns. TABLE is looked for beside the claim; where it is there, or is given, its digest
must be the claim's.

docs/claim.md reads a claim line by line.

exit codes: 0 done, and the claim holds; 2 usage; 65 it does not, or promises nothing; 66 an input is missing; 70
internal error; 73 an output cannot be created; 74 reading or writing broke off; 130, 143 stopped by a signal."""

_FACTS = {
    "name": "what the release is called (default: the table's name)",
    "curator": "who publishes it",
    "use": "what it is meant for",
    "region": "where its people live, or whose laws apply",
    "license": "the licence it is published under, as a URL",
}
_REGISTRY = ("curator", "use", "region", "date")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("claim", metavar="CLAIM", help=argparse.SUPPRESS)
    parser.add_argument("table", metavar="TABLE", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--key", metavar="PEM", help="the public key that the claim must be signed with, in CLAIM.sig")
    parser.add_argument("--json", metavar="FILE", help="write what was found as JSON, too; - for stdout, in its place")
    parser.add_argument("--quiet", action="store_true", help="say only how many faults there are")


def _verify(arguments: argparse.Namespace) -> None:
    from dpwgan.app.claim import Claim
    from dpwgan.app.claims.signature import find_fault
    from dpwgan.app.claims.verification import check_rows, check_table, find_faults, say_again

    content, document = _load_document(arguments.claim)
    faults: list[str] = []
    if arguments.key is not None:
        fault = find_fault(content, signature_path=arguments.claim + SIGNATURE_SUFFIX, key_path=arguments.key)
        faults += [] if fault is None else [fault]
    try:
        claim = Claim(document=document)
    except DpwganError as error:
        faults.append(str(error)[:1].upper() + str(error)[1:])
    else:
        faults += find_faults(claim)
        if (table := arguments.table) is not None:
            fault = check_table(document, table) or check_rows(document, table)
            faults += [] if fault is None else [fault]
    if arguments.json is not None:
        write_json(arguments.json, {"claim": arguments.claim, "table": arguments.table, "faults": faults})
    if arguments.json != "-" and not arguments.quiet:
        print_lines(faults or [f"{arguments.claim}: the claim holds", *say_again(claim)])
    if faults:
        raise DataError(f"The claim has {say_count(len(faults), 'fault')}")


def read_claim_file(path: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a claim, and the document in them, of which the form was checked and no more.

    Raises: InputError, TransferError; DataError if it has not the form of a claim.
    """
    from dpwgan.app.claim import validate_claim

    content, document = _load_document(path)
    try:
        validate_claim(document)
    except DpwganError as error:
        raise DataError(f"{path!r} is no claim of this tool's version: {error}") from None
    return content, document


def _load_document(path: str) -> tuple[bytes, dict[str, Any]]:
    content = read_bytes(path)
    no_claim = f"{path!r} is not a JSON object, as a claim is: that of a table lies beside it, TABLE.privacy.json"
    return content, read_object(content, refusal=no_claim)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("claim", metavar="CLAIM", help=argparse.SUPPRESS)
    forms = parser.add_mutually_exclusive_group(required=True)
    for form in ("registry", "in-toto", "croissant"):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help="make this form")
    parser.add_argument("--table", metavar="TABLE", help="the released table (default: CLAIM without .privacy.json)")
    for fact, what in _FACTS.items():
        parser.add_argument(f"--{fact}", metavar="TEXT", help=what)
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="when it was published")
    parser.add_argument("--output", metavar="FILE", default="-", help="where it goes (default: stdout)")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")


def _check_export(arguments: argparse.Namespace) -> None:
    beside = arguments.claim.removesuffix(CLAIM_SUFFIX)
    if arguments.table is None and beside != arguments.claim and Path(beside).is_file():
        arguments.table = beside  # which is read, so that --output does not write over it
    if arguments.date is not None:
        day = re.sub(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", arguments.date)  # Python 3.10 wants the dashes
        try:
            arguments.date = datetime.date.fromisoformat(day).isoformat()
        except ValueError:
            raise UsageError("--date must be a day, as 2026-01-31") from None
    if arguments.form == "in-toto" and arguments.table is None and not arguments.claim.endswith(CLAIM_SUFFIX):
        raise UsageError("--in-toto needs --table TABLE: the claim is not called TABLE.privacy.json")
    missing = [fact for fact in _REGISTRY if not getattr(arguments, fact)]
    if arguments.form == "registry" and missing:
        raise UsageError("--registry needs " + ", ".join(f"--{fact}" for fact in missing))


def _export(arguments: argparse.Namespace) -> None:
    from dpwgan.app.claims.exports import make_metadata, make_record
    from dpwgan.app.claims.verification import check_table

    content, document = read_claim_file(arguments.claim)
    table = arguments.table or arguments.claim.removesuffix(CLAIM_SUFFIX)
    if arguments.table is not None and (fault := check_table(document, table)) is not None:
        raise DataError(fault)
    facts = {key: getattr(arguments, key) for key in (*_FACTS, "date") if getattr(arguments, key)}
    facts = {"name": Path(table).name, **facts}
    files = [(table, document["output"]["sha256"]), (arguments.claim, hashlib.sha256(content).hexdigest())]
    if arguments.form == "registry":
        made = make_record(document, **{key: facts[key] for key in ("name", *_REGISTRY)})
    elif arguments.form == "in-toto":
        made = _make_statement(document, files)
    elif arguments.table is not None:
        made = make_metadata(document, table=table, claim=files[1], about=facts)
    else:
        raise UsageError("--croissant needs --table TABLE: the released table lies not beside the claim")
    write_json(arguments.output, made, private=False)


def _make_statement(document: dict[str, Any], files: list[tuple[str, str | None]]) -> dict[str, Any]:
    """An in-toto statement, unsigned, about these files and their digests: whoever answers for it signs it."""
    if any(digest is None for _, digest in files):
        raise DataError("the claim names no table: it was made for a data frame")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": Path(path).name, "digest": {"sha256": digest}} for path, digest in files],
        "predicateType": f"urn:dpwgan:privacy-claim:{document['claim_version']}",
        "predicate": document,
    }


PROGRAM = Program(
    name="dpwgan claim",
    commands={
        "verify": Command(
            usage="CLAIM [TABLE] [options]",
            summary="check a claim against itself, and a table against its claim",
            add_arguments=_add_verify,
            run=_verify,
            reads=("CLAIM", "TABLE", "--key"),
        ),
        "export": Command(
            usage="CLAIM --registry|--in-toto|--croissant [options]",
            summary="write a claim as a registry's record, an attestation or a catalogue's metadata",
            add_arguments=_add_export,
            check=_check_export,
            run=_export,
            reads=("CLAIM", "--table"),
            writes=("--output",),
        ),
    },
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
