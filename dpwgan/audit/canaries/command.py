"""`python -m dpwgan.audit canaries`: how large epsilon is at least, as an attacker would show it. No guarantee.

Privacy: NOT private. It fits the method to the private table several times, each time with rows of its own making among
  them, and what it says was computed from all that. It is for testing the tool, not for releasing a table.
"""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dpwgan.app.commands import Command
from dpwgan.app.config import TRAINING_OPTIONS, SynthesisConfig, read_delta, read_epsilon
from dpwgan.app.logs import LOGGER
from dpwgan.app.planning import RunPlan, plan_run
from dpwgan.audit.canaries.black_box import RunsBound, audit_runs
from dpwgan.audit.canaries.watch import add_canaries
from dpwgan.audit.canaries.white_box import WhiteBoxBound, audit_releases
from dpwgan.audit.inputs import show
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import discover_schema
from dpwgan.privacy.events import Pure
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import open_table
from dpwgan.table.findings import Findings
from dpwgan.table.schema import Schema
from dpwgan.table.specs import read_specs
from dpwgan.table.units.units import Units, keep_rows, read_units

CANARIES = 200
RUNS = 2
CONFIDENCE = 0.95

WHY_NO_GUARANTEE = (
    "A LOWER BOUND, NOT A GUARANTEE: what these attackers could not show, others may. Only a proof bounds epsilon from "
    "above."
)

_SETTINGS = tuple(option for option in TRAINING_OPTIONS.values() if option.name != "engine")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("data", metavar="DATA", help="the table that canaries are put into, in the forms of a run")
    parser.add_argument("specs", metavar="SPECS", help="data-specs.json, as for a run")
    parser.add_argument("--method", metavar="NAME", default="dp-wgan", help="as for a run (default dp-wgan)")
    parser.add_argument("--epsilon", metavar="E", required=True, help="the budget of the runs that are audited")
    parser.add_argument("--delta", metavar="D", help="as for a run (default 1/n^2)")
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    canaries = f"rows put into the table (default {CANARIES})"
    parser.add_argument("--canaries", metavar="M", type=int, default=CANARIES, help=canaries)
    runs = f"runs in which canaries come and go by the toss of a coin; 0 for none (default {RUNS})"
    parser.add_argument("--runs", metavar="R", type=int, default=RUNS, help=runs)
    parser.add_argument("--threads", metavar="N", type=int, help="threads to use (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write every figure as JSON; - for stdout")
    seed = "of canaries, coins and noise, for tests (default: never the same)"
    parser.add_argument("--seed", metavar="N", type=int, help=seed)
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong on stderr")
    training = parser.add_argument_group("training, as for a run")
    for option in _SETTINGS:
        training.add_argument("--" + option.name, dest=option.key, help=option.help, metavar=option.metavar)


def check(arguments: argparse.Namespace) -> None:
    """Raises: UsageError for numbers and files that cannot be acted on."""
    if arguments.data == "-":
        raise UsageError("DATA is read twice where specs leave lists of cells to it; it cannot be stdin")
    if arguments.canaries < 1 or arguments.runs < 0:
        raise UsageError("--canaries must be at least 1 and --runs at least 0")
    if arguments.runs and arguments.runs * arguments.canaries < 2:
        raise UsageError("guesses need two canaries or more, in all runs together")


def run(arguments: argparse.Namespace) -> None:
    """Audits a method on a table with canaries, and writes the bounds.

    Raises: AuditError if part of what was reserved was not seen; else the errors of dpwgan.errors.
    """
    config = SynthesisConfig(
        epsilon=read_epsilon(arguments.epsilon),
        delta=None if arguments.delta is None else read_delta(arguments.delta),
        method=arguments.method,
        settings={
            option.key: option.read(getattr(arguments, option.key), origin="--" + option.name)
            for option in _SETTINGS
            if getattr(arguments, option.key) is not None
        },
        threads=arguments.threads,
    )
    LOGGER.info("reading the table")
    schema = discover_schema(read_specs(arguments.specs, codebook=arguments.codebook), arguments.data)
    if schema.unit is not None and schema.unit.has_sizes:
        raise UsageError("audits do not see how many rows units have: leave the unit's column out of the columns")
    rng = np.random.default_rng(arguments.seed)
    encoded, units = plant_canaries(arguments.data, schema, canaries=arguments.canaries, rng=rng)
    canary = (encoded.records if units is None else units.count) - 1
    # The relation is zero-out: a canary that is out is a null record, and n stays the same.
    run_plan = plan_run(schema, records=encoded.records, config=config)
    if any(isinstance(release.event, Pure) for release in run_plan.plan.releases):
        raise UsageError("canaries are watched under Gaussian noise: --noise gaussian, of ron-gauss and independent")
    LOGGER.info("a run with every release watched, and its replay without one canary")
    shown = audit_releases(encoded, run_plan, canary=canary, seed=arguments.seed, units=units)
    guessed: RunsBound | None = None
    if arguments.runs:
        LOGGER.info("runs with canaries in and out: %d", arguments.runs)
        guessed = audit_runs(
            encoded,
            run_plan,
            canaries=arguments.canaries,
            runs=arguments.runs,
            rng=rng,
            seed=arguments.seed,
            units=units,
        )
    document = describe(run_plan, shown, guessed, canaries=arguments.canaries, seed=arguments.seed)
    show(arguments, document, write_lines(document))


def plant_canaries(
    path: str, schema: Schema, *, canaries: int, rng: np.random.Generator
) -> tuple[EncodedTable, Units | None]:
    """The private table as a method sees it, then canaries: rows, or units of as many rows as one keeps.

    Raises: as `open_table`; DataError for an illegal cell.
    """
    table, unit = open_table(path, schema), schema.unit
    if unit is not None:
        table = keep_rows(read_units(table, unit), unit.max_rows, rng=rng)
    encoder = TableEncoder(schema, table.header)
    encoded = encoder.encode_pieces(table.pieces(), records=table.records)
    if unit is None or table.units is None:
        return add_canaries(encoded, canaries=canaries, rng=rng), None
    of_rows = table.units.of_rows
    if schema.drops_rows:
        kept = np.concatenate([encoder.find_kept(frame, Findings()) for frame in table.frames()])
        # Numbered anew: of some units no row may be left.
        of_rows = np.unique(of_rows[kept], return_inverse=True)[1].astype(np.int32)
    own = of_rows.max(initial=-1) + 1 + np.repeat(np.arange(canaries, dtype=np.int32), unit.max_rows)
    units = Units(np.concatenate([of_rows, own.astype(np.int32)]))
    return add_canaries(encoded, canaries=canaries, rng=rng, rows=unit.max_rows), units


def describe(
    run_plan: RunPlan, shown: WhiteBoxBound, guessed: RunsBound | None, *, canaries: int, seed: int | None
) -> dict[str, Any]:
    """Puts everything into one JSON document, in which the guarantee is null."""
    guesses: dict[str, Any] | None = None
    found = [shown.found]
    if guessed is not None:
        attackers = {"from_output": guessed.from_output, "from_one_way_counts": guessed.from_counts}
        guesses = {"runs": guessed.runs} | {name: bound and asdict(bound) for name, bound in attackers.items()}
        found += [bound.found for bound in attackers.values() if bound is not None]
    return {
        "command": "canaries",
        "kind": "lower bound",
        "guarantee": None,
        "why_no_guarantee": WHY_NO_GUARANTEE,
        "method": run_plan.method.name,
        "settings": run_plan.plan.settings,
        "records": run_plan.shape.records,
        "canaries": canaries,
        "rows_of_a_canary": run_plan.terms.unit.rows,
        "seed": seed,
        "neighbours": run_plan.config.neighbours,
        "claimed_epsilon": shown.claimed,
        "delta": shown.delta,
        "accountant": run_plan.choice.accountant.name,
        "confidence_of_each_attacker": CONFIDENCE,
        "largest_bound": max(found),
        "passes_the_claim": shown.passes_the_claim or max(found) > shown.claimed,
        "releases": {"found": shown.found, "lines": [asdict(line) for line in shown.lines]},
        "guesses": guesses,
    }


def write_lines(document: Mapping[str, Any]) -> list[str]:
    """The lines of text for the terminal."""
    lines = [
        f"{document['method']}: the claim is epsilon {document['claimed_epsilon']:.4f} at delta "
        f"{document['delta']:.3g} ({document['neighbours']}, {document['accountant']}), for {document['records']} "
        f"rows, {document['canaries']} canaries of {document['rows_of_a_canary']} among them.",
        "",
        f"{'lower bounds on epsilon, each at 95% confidence':<52}{'bound':>8}{'claim':>9}",
        f"{'shown every release: influence and noise measured':<52}{document['releases']['found']:>8.3f}"
        f"{document['claimed_epsilon']:>9.3f}",
    ]
    lines += map(write_line, document["releases"]["lines"])
    guesses = document["guesses"]
    if guesses is not None:
        for title, bound in (
            ("guessing canaries by the output alone", guesses["from_output"]),
            ("guessing canaries by the noisy one-way counts", guesses["from_one_way_counts"]),
        ):
            if bound is not None:
                lines.append(f"{title:<52}{bound['found']:>8.3f}{document['claimed_epsilon']:>9.3f}")
                lines.append(
                    f"  {bound['right']} of {bound['guesses']} guesses right, of {bound['canaries']} canaries in "
                    f"{guesses['runs']} runs; all right would give {bound['found_if_all_were_right']:.3f}"
                )
    verdict = (
        "A BOUND PASSES ITS CLAIM: the method is not what it claims to be, or this is a false alarm, of which each "
        "attacker has one in twenty at most."
        if document["passes_the_claim"]
        else "No bound passes its claim."
    )
    return [*lines, "", verdict, WHY_NO_GUARANTEE]


def write_line(line: Mapping[str, Any]) -> str:
    """The text of one line of the ledger."""
    found, said = "-", "  seen, not bounded"
    if line["found"] is not None:
        found, said = f"{line['found']:.3f}", "  <- passes its claim" if line["passes_the_claim"] else ""
    label = f"{line['label']}, {line['releases']} times"
    return f"  {label:<50}{found:>8}{line['claimed_epsilon']:>9.3f}{said}"


COMMAND = Command(
    usage="DATA SPECS --epsilon E [options]",
    summary="train with and without canaries, and bound a method's epsilon from below",
    add_arguments=add_arguments,
    check=check,
    run=run,
    reads=("DATA", "SPECS", "--codebook"),
    shows_stages=True,
)
