"""What the subcommands on tables have in common: the three files, the specs, the seed, and where results go."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpwgan.app.cli import check_seed, refuse_overwriting
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import NOTICE, ComparedTable, discover_schema, read_compared
from dpwgan.table.schema import Schema
from dpwgan.table.specs import read_specs
from dpwgan.table.writer import check_writable, write_bytes
from dpwgan.version import __version__


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditedTables:
    """Rows trained on, rows made from them, rows held out (or None), and the public facts about their columns.

    Privacy: holds private rows.
    """

    real: ComparedTable
    synthetic: ComparedTable
    holdout: ComparedTable | None
    schema: Schema

    def describe(self) -> dict[str, Any]:
        """The sizes of the tables as a JSON document."""
        return {
            "real": {"rows": self.real.rows, "columns": len(self.real.columns)},
            "synthetic": {"rows": self.synthetic.rows, "illegal_rows_left_out": self.synthetic.illegal},
            "holdout": None if self.holdout is None else {"rows": self.holdout.rows},
        }


def add_table_arguments(parser: argparse.ArgumentParser, *, holdout: str) -> None:
    """Adds the files and what every command on tables takes; `holdout` says what the hold-out rows are for."""
    parser.add_argument("real", metavar="REAL", help="the private table that was trained on: CSV, .gz too")
    parser.add_argument("synthetic", metavar="SYNTHETIC", help="the synthetic table")
    parser.add_argument("specs", metavar="SPECS", help="data-specs.json, as for the run that made the table")
    parser.add_argument("--holdout", metavar="FILE", help=holdout)
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--json", metavar="FILE", help="write every figure as JSON; - for stdout")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of all random draws (default 0)")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong on stderr")


def check_arguments(arguments: argparse.Namespace) -> None:
    """Checks what can be checked before a row is read. Raises: UsageError, OutputError."""
    check_seed(arguments.seed)
    if not (arguments.real and arguments.synthetic and arguments.specs):
        raise UsageError("REAL, SYNTHETIC and SPECS must not be empty")
    read = (arguments.real, arguments.synthetic, arguments.specs, arguments.holdout, arguments.codebook)
    refuse_overwriting("--json", arguments.json, read=read)
    if arguments.json is not None:
        check_writable(arguments.json)


def read_tables(arguments: argparse.Namespace) -> AuditedTables:
    """Reads the tables; rows of the synthetic one that the specs do not allow are left out and counted.

    Raises: as `read_compared` and `read_specs`.
    """
    schema = discover_schema(arguments.real, read_specs(arguments.specs, codebook=arguments.codebook))
    return AuditedTables(
        real=read_compared(arguments.real, schema),
        synthetic=read_compared(arguments.synthetic, schema, illegal="leave out"),
        holdout=None if arguments.holdout is None else read_compared(arguments.holdout, schema),
        schema=schema,
    )


def show(arguments: argparse.Namespace, document: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Writes the JSON document where it was asked for, and the text on stdout unless the document goes there.

    The notice stands first in both.
    Raises: OutputError, TransferError.
    """
    whole = {"notice": NOTICE, "tool": {"name": "dpwgan", "version": __version__}, **document}
    if arguments.json is not None:
        text = json.dumps(whole, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        write_bytes(arguments.json, text.encode())
    if arguments.json != "-":
        encoding = sys.stdout.encoding or "utf-8"
        text = "\n".join([NOTICE, "", *lines]) + "\n"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
