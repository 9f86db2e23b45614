"""`claim verify`: whether a claim agrees with itself, and whether a table is the one that it names."""

import argparse
import json
from typing import Any

from dpwgan.app.commands import Command, write_json
from dpwgan.app.logs import print_lines
from dpwgan.errors import DataError, DpwganError, UsageError
from dpwgan.table.stream import read_bytes

DETAILS = """\
CLAIM is OUTPUT.privacy.json. Its form is checked; its ledger is added up anew by the accountant that it names, whatever
number stands in it; all else that follows from the ledger is made anew and compared. With TABLE the SHA-256 of that
file is, too. Each fault stands on a line of its own. A claim that was made up from the start, and agrees with itself,
is told from a true one by its signature alone: with --key, CLAIM.sig must be that of the key's owner."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("claim", metavar="CLAIM", help=argparse.SUPPRESS)
    parser.add_argument("table", metavar="TABLE", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--key", metavar="PEM", help="the public key that the claim must be signed with, in CLAIM.sig")
    parser.add_argument("--json", metavar="FILE", help="write what was found as JSON, too; - for stdout, in its place")
    parser.add_argument("--quiet", action="store_true", help="say only how many faults there are")


def check(arguments: argparse.Namespace) -> None:
    """Refuses what can be told from the arguments. Raises: UsageError."""
    if not arguments.claim or arguments.table == "":
        raise UsageError("CLAIM and TABLE must not be empty")


def run(arguments: argparse.Namespace) -> None:
    """Lists the faults. Raises: DataError if there are any; InputError, TransferError, OutputError."""
    from dpwgan.app.claim import Claim
    from dpwgan.app.claims.signature import SUFFIX, find_fault
    from dpwgan.app.claims.verification import check_table, find_faults

    content, document = load_document(arguments.claim)
    faults: list[str] = []
    if arguments.key is not None:
        fault = find_fault(content, signature_path=arguments.claim + SUFFIX, key_path=arguments.key)
        faults += [] if fault is None else [fault]
    try:
        claim = Claim(document=document)
    except DpwganError as error:
        faults.append(str(error)[:1].upper() + str(error)[1:])
    else:
        faults += find_faults(claim)
        if arguments.table is not None and (fault := check_table(document, arguments.table)) is not None:
            faults.append(fault)
    if arguments.json is not None:
        write_json(arguments.json, {"claim": arguments.claim, "table": arguments.table, "faults": faults})
    if arguments.json != "-" and not arguments.quiet:
        print_lines(faults or [f"{arguments.claim}: the claim holds", *document["summary"]])
    if faults:
        raise DataError(f"The claim has {'1 fault' if len(faults) == 1 else f'{len(faults)} faults'}")


def read_claim_file(path: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a claim, and the document in them, of which the form was checked and no more.

    Raises: InputError, TransferError; DataError if it has not the form of a claim.
    """
    from dpwgan.app.claim import validate_claim

    content, document = load_document(path)
    try:
        validate_claim(document)
    except DpwganError as error:
        raise DataError(f"{path!r} is no claim of this tool's version: {error}") from None
    return content, document


def load_document(path: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a claim, and what stands in them, unchecked. Raises: as `read_claim_file`, of anything but JSON."""
    content = read_bytes(path)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise DataError(f"the claim {path!r} is not a JSON object")
    return content, document


COMMAND = Command(
    usage="CLAIM [TABLE] [options]",
    summary="check a claim against itself, and a table against its claim",
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("CLAIM", "TABLE", "--key"),
)
