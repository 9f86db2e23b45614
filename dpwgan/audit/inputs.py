"""What the subcommands of the audit have in common: the three files of those on tables, and where results go."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpwgan.app.commands import Command, write_json
from dpwgan.app.logs import LOGGER, print_lines
from dpwgan.evaluate.tables import NOTICE, TableSet, digest_file, read_tables
from dpwgan.table.specs import read_specs
from dpwgan.version import __version__


def make_table_command(
    run: Callable[[argparse.Namespace], None],
    *,
    options: str,
    summary: str,
    holdout: str,
    add_options: Callable[[argparse.ArgumentParser], None],
) -> Command:
    """A command on a real and a synthetic table; `holdout` says what it takes hold-out rows for."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("real", metavar="REAL", help="the private table that was trained on, in the forms of a run")
        parser.add_argument("synthetic", metavar="SYNTHETIC", help="the synthetic table")
        parser.add_argument("specs", metavar="SPECS", help="data-specs.json, as for the run that made the table")
        parser.add_argument("--holdout", metavar="FILE", help=holdout)
        parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
        parser.add_argument("--json", metavar="FILE", help="write every figure as JSON; - for stdout")
        parser.add_argument(
            "--threads", metavar="N", type=int, default=1, help="threads of each computation (default 1)"
        )
        parser.add_argument("--seed", metavar="N", type=int, default=0, help="of all random draws (default 0)")
        parser.add_argument("--quiet", action="store_true", help="say only what went wrong on stderr")
        add_options(parser)

    return Command(
        usage=f"REAL SYNTHETIC SPECS {options}",
        summary=summary,
        add_arguments=add_arguments,
        run=run,
        reads=("REAL", "SYNTHETIC", "SPECS", "--holdout", "--codebook"),
        shows_stages=True,
    )


def open_tables(arguments: argparse.Namespace) -> tuple[TableSet, dict[str, Any]]:
    """Reads the tables of a command; also gives their sizes as JSON. Raises: as `read_specs`, `read_tables`."""
    LOGGER.info("reading the tables")
    specs = read_specs(arguments.specs, codebook=arguments.codebook)
    tables = read_tables(arguments.real, arguments.synthetic, arguments.holdout, specs=specs)
    return tables, {
        "real": {"rows": tables.real.rows, "columns": len(tables.real.columns)},
        "synthetic": {
            "rows": tables.synthetic.rows,
            "illegal_rows_left_out": tables.synthetic.illegal,
            "sha256": digest_file(arguments.synthetic),
        },
        "holdout": None if tables.holdout is None else {"rows": tables.holdout.rows},
    }


def show(arguments: argparse.Namespace, document: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Writes the JSON document where it was asked for, and the text on stdout unless the document goes there.

    The notice stands first in both.
    Raises: OutputError, TransferError.
    """
    if arguments.json is not None:
        write_json(arguments.json, {"notice": NOTICE, "tool": {"name": "dpwgan", "version": __version__}, **document})
    if arguments.json != "-":
        print_lines([NOTICE, "", *lines])
