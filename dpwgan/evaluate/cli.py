"""The command `python -m dpwgan.evaluate`: real rows and a synthetic table in, scores out. NOT private.

Privacy: everything it writes holds statistics of the real rows that no epsilon covers, and says so. It runs apart from
  the job that makes a release, writes nowhere but where it is told to, and its messages on stderr hold no cell.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwgan.app.cli import Job, Parser, check_seed, refuse_overwriting, run_job
from dpwgan.app.config import Voice
from dpwgan.app.logs import LOGGER
from dpwgan.errors import DataError, InputError, UsageError
from dpwgan.evaluate.tables import NOTICE, ComparedTable, discover_schema, read_compared
from dpwgan.table.schema import Schema
from dpwgan.table.specs import read_specs
from dpwgan.table.writer import check_writable, write_bytes
from dpwgan.version import __version__

USAGE = "python -m dpwgan.evaluate REAL SYNTHETIC [SYNTHETIC ...] SPECS [options]"

DESCRIPTION = f"""\
Says how good a synthetic table is, measured against the real rows. NOT private: {NOTICE[0].lower() + NOTICE[1:]}

  REAL       the private table: CSV with a header, .gz too
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

CLAIM_SUFFIX = ".privacy.json"
ROLES = {"sex": "SEX", "city": "CITY", "wage": "INCWAGE"}
"""Roles of columns in the third NIST score, and who plays them in the 1940 census."""


def build_parser() -> argparse.ArgumentParser:
    """Builds the list of arguments."""
    parser = Parser(
        prog="python -m dpwgan.evaluate",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"dpwgan {__version__}")
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--holdout", metavar="FILE", help="real rows that the synthesizer never saw, to test on")
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--html", metavar="FILE", help="write the report, one file that needs no network; - for stdout")
    parser.add_argument("--json", metavar="FILE", help="write every score as JSON; - for stdout")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of all random draws (default 0)")
    for role, column in ROLES.items():
        parser.add_argument(
            f"--{role}", metavar="COLUMN", help=f"the column in the role {role} of the third NIST score ({column})"
        )
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The checked arguments: `real`, `synthetic` (one path or more), `specs`, `roles` by name, and the flags.

    Raises: UsageError, also if it would write over what it reads; SystemExit after --help and --version.
    """
    arguments = build_parser().parse_intermixed_args(list(argv))
    files: list[str] = arguments.files
    if len(files) < 3 or not all(files):
        raise UsageError(
            f"REAL, SYNTHETIC and SPECS are three arguments or more, none of them empty, not {len(files)}; "
            "--help says more"
        )
    arguments.real, *arguments.synthetic, arguments.specs = files
    arguments.roles = {role: name for role in ROLES if (name := getattr(arguments, role)) is not None}
    check_seed(arguments.seed)
    if arguments.html is not None and arguments.html == arguments.json:
        raise UsageError("--html and --json must not be the same file")
    claims = [path + CLAIM_SUFFIX for path in arguments.synthetic]
    read = [*files, *claims, arguments.holdout, arguments.codebook]
    refuse_overwriting("--html", arguments.html, read=read)
    refuse_overwriting("--json", arguments.json, read=read)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""

    def prepare() -> Job:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        to_stdout = "-" in (arguments.html, arguments.json)
        return Job(work=lambda: run(arguments), voice=Voice(quiet=arguments.quiet), to_stdout=to_stdout)

    return run_job(prepare)


def run(arguments: argparse.Namespace) -> None:
    """Reads the tables, measures, and writes what was asked for.

    Raises: the errors of dpwgan.errors.
    """
    from dpwgan.evaluate.scores import RoleNames, describe_legality, evaluate

    for path in (arguments.html, arguments.json):
        if path is not None:
            check_writable(path)
    if arguments.html is not None and importlib.util.find_spec("jinja2") is None:
        raise UsageError("--html needs the packages of requirements-evaluation.txt, which are not installed")
    specs = read_specs(arguments.specs, codebook=arguments.codebook)
    LOGGER.info("reading the tables")
    schema = discover_schema(arguments.real, specs)
    real = read_compared(arguments.real, schema)
    holdout = None if arguments.holdout is None else read_compared(arguments.holdout, schema)
    synthetic = read_compared(arguments.synthetic[0], schema, illegal="leave out")
    roles = RoleNames(**arguments.roles)
    _check_roles(real, arguments.roles, roles)
    claim, matches = read_claim(arguments.synthetic[0])
    document = evaluate(
        real,
        synthetic,
        legality=describe_legality(synthetic, schema),
        holdout=holdout,
        claim=claim,
        claim_matches=matches,
        match=_score_match(arguments, schema, real, synthetic, roles),
        seed=arguments.seed,
        roles=roles,
        say=lambda stage: LOGGER.info("measuring: %s", stage),
    )
    outputs: list[tuple[str, str]] = []
    if arguments.html is not None:
        from dpwgan.evaluate.report.page import render_report

        LOGGER.info("drawing the report")
        outputs.append((arguments.html, render_report(document, real, synthetic)))
    if arguments.json is not None:
        outputs.append((arguments.json, json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"))
    for path, text in outputs:
        write_bytes(path, text.encode())
    if "-" not in (arguments.html, arguments.json):
        sys.stdout.write("\n".join(write_summary(document)) + "\n")
        sys.stdout.flush()


def _check_roles(real: ComparedTable, asked: Mapping[str, str], roles: Any) -> None:
    """Refuses a role that was given by flag and cannot be acted on; defaults that do not fit are let pass."""
    if not asked:
        return
    from dpwgan.evaluate.nist2018 import find_roles

    for role, name in asked.items():
        if name not in real.names:
            raise UsageError(f"--{role} names {name!r}, which is no column of the specs that can be compared")
    if find_roles(real, sex=roles.sex, city=roles.city, wage=roles.wage) is None:
        raise UsageError(
            "the third NIST score needs a categorical sex with two cells, a categorical city and a numeric wage: "
            f"{roles.sex!r}, {roles.city!r} and {roles.wage!r} are not"
        )


def _score_match(
    arguments: argparse.Namespace, schema: Schema, real: ComparedTable, first: ComparedTable, roles: Any
) -> dict[str, Any] | None:
    """The NIST 2018 scores of several synthetic tables and their mean; None for a single one.

    `first`: the first of them, which has been read already; the others are read one after another.
    """
    if len(arguments.synthetic) == 1:
        return None
    from dpwgan.evaluate.scores import Nist2018

    questions = Nist2018(real, seed=arguments.seed, roles=roles)
    tables: list[dict[str, Any]] = []
    for path in arguments.synthetic:
        LOGGER.info("measuring: the NIST 2018 scores of every table")
        table = first if path == first.path else read_compared(path, schema, illegal="leave out")
        scores = questions.score(table)
        tables.append({"file": Path(path).name, "rows": table.rows, "illegal_rows": table.illegal, "nist2018": scores})
    return {"tables": tables, "mean": sum(table["nist2018"]["mean"] for table in tables) / len(tables)}


def read_claim(synthetic: str) -> tuple[dict[str, Any] | None, bool | None]:
    """Reads the claim beside a synthetic table, and says whether it names the digest of the table's bytes.

    (None, None) where there is no claim; (claim, None) where it names no digest.
    Raises: InputError if the file cannot be read; DataError if it is not a JSON object.
    """
    path = Path(synthetic + CLAIM_SUFFIX)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise InputError(f"the claim {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"the claim {str(path)!r} is not JSON") from None
    if not isinstance(document, dict):
        raise DataError(f"the claim {str(path)!r} is not a JSON object")
    output = document.get("output")
    named = output.get("sha256") if isinstance(output, dict) else None
    if named is None:
        return document, None
    return document, hashlib.sha256(Path(synthetic).read_bytes()).hexdigest() == named


_ROWS = (
    ("NIST 2018: marginals", ("nist2018", "marginals"), "{:,.0f}", "higher"),
    ("NIST 2018: conjunctions", ("nist2018", "conjunctions"), "{:,.0f}", "higher"),
    ("NIST 2018: Gini and pay gap", ("nist2018", "gini_and_pay_gap"), "{:,.0f}", "higher"),
    ("NIST 2018: mean", ("nist2018", "mean"), "{:,.0f}", "higher"),
    ("1-way marginals", ("kway_1",), "{:.1f}", "higher"),
    ("2-way marginals", ("kway_2",), "{:.1f}", "higher"),
    ("3-way marginals", ("kway_3",), "{:.1f}", "higher"),
    ("first principal component", ("pc1_distance",), "{:.4f}", "lower"),
    ("correlations, mean difference", ("correlations", "all"), "{:.4f}", "lower"),
    ("classifiers trained on it, AUC", ("classifier_auc",), "{:.4f}", "higher"),
    ("  the same on real rows", ("classifier_auc_real",), "{:.4f}", ""),
    ("detection, AUC", ("detection_auc",), "{:.4f}", "0.5 is best"),
)


def write_summary(document: Mapping[str, Any]) -> list[str]:
    """The lines of text for the terminal: each headline score beside floor and ceiling."""
    tables, scores, legality = document["tables"], document["scores"], document["legality"]
    holdout = tables["holdout"]
    lines = [
        document["notice"],
        "",
        f"Real {tables['real']['rows']:,} rows, synthetic {tables['synthetic']['rows']:,} rows, "
        f"{tables['real']['columns']} columns compared"
        + (f"; hold-out {holdout['rows']:,} rows." if holdout else "; no hold-out rows."),
        f"Illegal rows: {legality['illegal_rows']:,} of {legality['rows']:,}, left out. "
        f"Derived cells that do not follow: {legality['derived_broken']:,}.",
        _say_claim(document),
        "",
        f"{'score':<32}{'synthetic':>12}{'floor':>12}{'ceiling':>12}",
    ]
    for title, path, form, way in _ROWS:
        values = [_look_up(scores[name], path) for name in ("synthetic", "floor", "ceiling")]
        if values[0] is not None:
            shown = "".join(f"{form.format(value) if value is not None else '-':>12}" for value in values)
            lines.append(f"{title:<32}{shown}  {way}".rstrip())
    if document["match"] is not None:
        lines += [
            "",
            f"Mean NIST 2018 score of {len(document['match']['tables'])} tables: {document['match']['mean']:,.0f}",
        ]
    if document["triples"]:
        lines += [
            "",
            "Worst columns: "
            + ", ".join(
                f"{column['name']} {column['agreement']:.3f}"
                for column in sorted(document["columns"], key=lambda column: float(column["agreement"]))[:5]
            ),
        ]
    return [*lines, "", f"{document['seconds']:.0f} s, {document['rows_per_second']:,.0f} rows a second."]


def _say_claim(document: Mapping[str, Any]) -> str:
    if document["claim"] is None:
        return "Claim: none beside the synthetic table."
    statement = str(document["claim"].get("statement", "of another form than this tool's."))
    mismatch = " It does NOT belong to this file: the digests differ." if document["claim_matches"] is False else ""
    return f"Claim: {statement}{mismatch}"


def _look_up(scores: Any, path: Sequence[str]) -> float | None:
    for key in path:
        scores = scores[key]
    return None if scores is None else float(scores)
