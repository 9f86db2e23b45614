"""The command `dpwgan evaluate`: real rows and a synthetic table in, scores out. NOT private.

Privacy: everything it writes holds statistics of the real rows that no epsilon covers, and says so. It runs apart from
  the job that makes a release, writes nowhere but where it is told to, and its messages on stderr hold no cell.
"""

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwgan.app.commands import Command, read_object, run_job, write_json
from dpwgan.app.delivery import CLAIM_SUFFIX
from dpwgan.app.logs import LOGGER, print_lines
from dpwgan.errors import DataError, UsageError
from dpwgan.evaluate.tables import NOTICE, ComparedTable, TableSet, digest_file, read_compared, read_tables
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.files.writer import write_bytes
from dpwgan.table.specs import read_specs
from dpwgan.version import __version__

DESCRIPTION = f"""\
Says how good a synthetic table is, measured against the real rows. NOT private: {NOTICE[0].lower() + NOTICE[1:]}

  REAL       the private table, in the forms of a run: CSV, .parquet, a folder of parts, .npz
  SYNTHETIC  the synthetic table; its claim is looked for at SYNTHETIC.privacy.json. Several tables (the challenge had
             three, one an epsilon) get the mean of the NIST 2018 scores; the other scores are those of the first
  SPECS      data-specs.json, as for the run that made the table"""

EXIT_CODES = """\
exit codes: 0 done; 2 usage; 65 a table does not fit SPECS; 66 an input is missing; 70 internal error; 73 an output
cannot be created; 74 reading or writing broke off; 75 out of memory; 76 an audit did not see its whole
ledger; 78 bad SPECS or codebook; 130, 143 stopped by SIGINT, SIGTERM."""

EPILOG = f"""\
Each score stands beside a floor (each column by itself) and a ceiling (real rows drawn with replacement).
docs/evaluation.md says how to read them. The same seed gives the same scores.

{EXIT_CODES}"""

ROWS = 200_000
ROLES = {"sex": "SEX", "city": "CITY", "wage": "INCWAGE"}
"""Roles of columns in the third NIST score, and who plays them in the 1940 census."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--version", action="version", version=f"dpwgan {__version__}")
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--holdout", metavar="FILE", help="real rows that the synthesizer never saw, to test on")
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--audit", metavar="FILE", help="what audit attack --json wrote: its findings go in the report")
    parser.add_argument("--html", metavar="FILE", help="write the report, one file that needs no network; - for stdout")
    parser.add_argument("--json", metavar="FILE", help="write every score as JSON; - for stdout")
    again: dict[str, Any] = {"metavar": "COLUMN", "action": "append", "default": []}
    parser.add_argument("--by", help="compare the means of numbers in groups of rows too; may be given again", **again)
    parser.add_argument("--weight", help="a number that is a weight: compare its totals; may be given again", **again)
    parser.add_argument(
        "--rows", metavar="N", type=int, default=ROWS, help=f"of longer tables so many are drawn (default {ROWS})"
    )
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="threads of each computation (default 1)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of all random draws (default 0)")
    for role, column in ROLES.items():
        parser.add_argument(
            f"--{role}", metavar="COLUMN", help=f"the column in the role {role} of the third NIST score ({column})"
        )
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")


def check(arguments: argparse.Namespace) -> None:
    """Parts the files into `real`, `synthetic` (one path or more) and `specs`, and gathers `roles` and `claims`.

    Raises: UsageError.
    """
    files: list[str] = arguments.files
    if len(files) < 3 or not all(files):
        raise UsageError(
            f"REAL, SYNTHETIC and SPECS are three arguments or more, none of them empty, not {len(files)}; "
            "--help says more"
        )
    arguments.real, *arguments.synthetic, arguments.specs = files
    arguments.claims = [path + CLAIM_SUFFIX for path in arguments.synthetic]
    arguments.roles = {role: name for role in ROLES if (name := getattr(arguments, role)) is not None}
    if arguments.rows < 1:
        raise UsageError("--rows must be a whole number of at least 1")
    if arguments.html is not None and arguments.html == arguments.json:
        raise UsageError("--html and --json must not be the same file")


def run(arguments: argparse.Namespace) -> None:
    """Reads the tables, measures, and writes what was asked for. Raises: the errors of dpwgan.errors."""
    from dpwgan.evaluate.scores import evaluate

    if arguments.html is not None and importlib.util.find_spec("jinja2") is None:
        raise UsageError("--html needs the packages of requirements-evaluation.txt, which are not installed")
    specs = read_specs(arguments.specs, codebook=arguments.codebook)
    LOGGER.info("reading the tables")
    draw = {"most": arguments.rows, "seed": arguments.seed}
    tables = read_tables(arguments.real, arguments.synthetic[0], arguments.holdout, specs=specs, **draw)
    roles = ROLES | arguments.roles
    _check_columns(tables.real, arguments)
    _check_roles(tables.real, arguments.roles, roles)
    claim, matches = read_claim(arguments.synthetic[0])
    audit = None if arguments.audit is None else read_audit(arguments.audit, arguments.synthetic[0])
    document, pairs = evaluate(
        tables,
        claim=claim,
        claim_matches=matches,
        match=_score_match(arguments, tables, roles),
        seed=arguments.seed,
        roles=roles,
        by=list(dict.fromkeys(arguments.by)),
        weights=list(dict.fromkeys(arguments.weight)),
        say=lambda stage: LOGGER.info("measuring: %s", stage),
    )
    document["audit"] = audit
    if arguments.html is not None:
        from dpwgan.evaluate.report.page import render_report

        LOGGER.info("drawing the report")
        write_bytes(
            arguments.html, render_report(document, tables.real, tables.synthetic, pairs).encode(), private=True
        )
    if arguments.json is not None:
        write_json(arguments.json, document)
    if "-" not in (arguments.html, arguments.json):
        print_lines(write_summary(document))


def _check_columns(real: ComparedTable, arguments: argparse.Namespace) -> None:
    are_numbers = {column.name: column.kind != "categorical" and column.write is None for column in real.columns}
    for flag, names in (("by", arguments.by), ("weight", arguments.weight)):
        for name in names:
            if name not in are_numbers or (flag == "weight" and not are_numbers[name]):
                what = "column" if flag == "by" else "number"
                raise UsageError(f"--{flag} names {name!r}, which is no {what} of the specs that can be compared")


def _check_roles(real: ComparedTable, asked: Mapping[str, str], roles: Mapping[str, str]) -> None:
    """Refuses a role that was given by flag and cannot be acted on; defaults that do not fit are let pass."""
    from dpwgan.evaluate.nist2018 import find_roles

    for role, name in asked.items():
        if name not in real.names:
            raise UsageError(f"--{role} names {name!r}, which is no column of the specs that can be compared")
    if asked and find_roles(real, **roles) is None:
        sex, city, wage = (repr(roles[role]) for role in ROLES)
        raise UsageError(
            "the third NIST score needs a categorical sex with two cells, a categorical city and a numeric wage: "
            f"{sex}, {city} and {wage} are not"
        )


def _score_match(arguments: argparse.Namespace, tables: TableSet, roles: Mapping[str, str]) -> dict[str, Any] | None:
    """The NIST 2018 scores of several synthetic tables and their mean; None for a single one.

    The first of them has been read already; the others are read one after another.
    """
    if len(arguments.synthetic) == 1:
        return None
    from dpwgan.evaluate.scores import Nist2018

    questions = Nist2018(tables.real, seed=arguments.seed, roles=roles)
    found: list[dict[str, Any]] = []
    for path in arguments.synthetic:
        LOGGER.info("measuring: the NIST 2018 scores of every table")
        table = tables.synthetic
        if path != table.path:
            table = read_compared(path, tables.schema, illegal="leave out", most=arguments.rows, seed=arguments.seed)
        scores = questions.score(table)
        found.append(
            {"file": Path(path).name, "rows": table.records, "illegal_rows": table.illegal, "nist2018": scores}
        )
    return {"tables": found, "mean": sum(table["nist2018"]["mean"] for table in found) / len(found)}


def read_claim(synthetic: str) -> tuple[dict[str, Any] | None, bool | None]:
    """Reads the claim beside a synthetic table, and says whether it names the digest of the table's bytes.

    (None, None) where there is no claim; (claim, None) where it names no digest.
    Raises: InputError if the file cannot be read; DataError if it is not a JSON object.
    """
    path = Path(synthetic + CLAIM_SUFFIX)
    if not path.exists():
        return None, None
    document = read_object(read_bytes(path), refusal=f"the claim {str(path)!r} is not a JSON object")
    output = document.get("output")
    named = output.get("sha256") if isinstance(output, dict) else None
    return document, None if named is None else digest_file(synthetic) == named


def read_audit(path: str, synthetic: str) -> dict[str, Any]:
    """Reads what `dpwgan audit attack --json` wrote about a synthetic table.

    Raises: InputError if the file cannot be read; DataError if it is no such document, or about another table.
    """
    document = read_object(read_bytes(path), refusal=f"the audit {path!r} is not a JSON object")
    try:
        command, digest = document["command"], document["tables"]["synthetic"]["sha256"]
    except (KeyError, TypeError):
        command, digest = None, None
    if command != "attack":
        raise DataError(f"the audit {path!r} is not what audit attack --json writes")
    if digest != digest_file(synthetic):
        raise DataError(f"the audit {path!r} is of another table than {synthetic!r}: the digests differ")
    return document


def write_summary(document: Mapping[str, Any]) -> list[str]:
    """The lines of text for the terminal: each headline score beside floor and ceiling."""
    from dpwgan.evaluate.links import write_link
    from dpwgan.evaluate.scores import write_scores

    tables, scores, legality = document["tables"], document["scores"], document["legality"]
    holdout = tables["holdout"]
    lines = [
        document["notice"],
        "",
        *(
            f"Of the {name} table {table['compared']:,} rows are compared, drawn by the seed."
            for name, table in tables.items()
            if table is not None and table["sampled"]
        ),
        f"Real {tables['real']['rows']:,} rows, synthetic {tables['synthetic']['rows']:,} rows, "
        f"{tables['real']['columns']} columns compared"
        + (f"; hold-out {holdout['rows']:,} rows." if holdout else "; no hold-out rows."),
        f"Illegal rows: {legality['illegal_rows']:,} of {legality['rows']:,}, left out. "
        f"Derived cells that do not follow: {legality['derived_broken']:,}.",
        *(
            f"Rule broken: {rule['rule']}: {rule['real']:,} real rows, {rule['synthetic']:,} synthetic rows."
            for rule in legality["rules"]
            if rule["real"] or rule["synthetic"]
        ),
        *(
            f"Units by their number of rows, agreement {sum(map(min, units['real'], units['synthetic'])):.3f}."
            for units in [document["units"]]
            if units
        ),
        *map(write_link, document["links"] or ()),
        _say_claim(document),
        "",
        f"{'score':<36}{'synthetic':>12}{'floor':>12}{'ceiling':>12}",
    ]
    for title, shown, way in write_scores(scores):
        if shown["synthetic"] is not None:
            values = "".join(f"{value or '-':>12}" for value in shown.values())
            lines.append(f"{title:<36}{values}  {way}".rstrip())
    match = document["match"]
    if match is not None:
        lines += ["", f"Mean NIST 2018 score of {len(match['tables'])} tables: {match['mean']:,.0f}"]
    lines += ["", *_name_best_and_worst(document)]
    return [*lines, "", f"{document['seconds']:.0f} s, {document['rows_per_second']:,.0f} rows a second."]


def _name_best_and_worst(document: Mapping[str, Any]) -> list[str]:
    lines = []
    for what, ranked in document["best_and_worst"].items():
        for which, entries in ranked.items():
            named = (
                f"{' x '.join(entry.get('columns') or [entry['name']])} {entry['agreement']:.3f} "
                f"({entry['ceiling']:.3f})"
                for entry in entries
            )
            lines.append(f"{which.capitalize()} {what}, agreement (the ceiling's): {', '.join(named) or '-'}")
    tellers = (f"{entry['column']} {entry['importance']:.3f}" for entry in document["told_apart_by"])
    return [*lines, f"Told apart by, loss of AUC without it: {', '.join(tellers) or '-'}"]


def _say_claim(document: Mapping[str, Any]) -> str:
    if document["claim"] is None:
        return "Claim: none beside the synthetic table."
    statement = str(document["claim"].get("statement", "of another form than this tool's."))
    mismatch = " It does NOT belong to this file: the digests differ." if document["claim_matches"] is False else ""
    return f"Claim: {statement}{mismatch}"


COMMAND = Command(
    usage="REAL SYNTHETIC [SYNTHETIC ...] SPECS [options]",
    summary=DESCRIPTION,
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("files", "claims", "--holdout", "--codebook", "--audit"),
    writes=("--html", "--json"),
    shows_stages=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""
    words = sys.argv[1:] if argv is None else argv
    program = "dpwgan evaluate"
    more = {"prog": program, "usage": f"{program} {COMMAND.usage}", "description": DESCRIPTION, "epilog": EPILOG}
    return run_job(lambda: COMMAND.make_job(COMMAND.parse(words, **more)))
