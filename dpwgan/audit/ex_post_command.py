"""`python -m dpwgan.audit ex-post`: the expected privacy loss of one table, estimated. No guarantee."""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from dpwgan.app.logs import LOGGER
from dpwgan.audit.ex_post import GAMMA, EstimateSettings, PrivacyEstimate, estimate_privacy
from dpwgan.audit.inputs import make_table_command, open_tables, show
from dpwgan.audit.points import fit_embedding, lay_out_points
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import TableSet

ROWS = 10_000
DIMENSIONS = 8
"""Enough for what rows of a table differ by most; in many more, nearest neighbours of a table's rows are all far."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own options."""
    for flag, metavar, kind, default, words in (
        ("--gamma", "P", float, GAMMA, "chance that a loss passes mu (default 1e-5)"),
        ("--removed", "K", int, None, "artificial rows taken out for a real one (default: from the divergence)"),
        ("--neighbours", "K", int, 1, "neighbours of the divergence estimate (default 1)"),
        ("--samples", "N", int, 1000, "real rows taken out in turn (default 1000)"),
        ("--rows", "N", int, ROWS, "rows of the longer table to work on; the others are thinned alike (default 10000)"),
        ("--dimensions", "D", int, DIMENSIONS, "principal components of the synthetic rows to work in (default 8)"),
    ):
        parser.add_argument(flag, metavar=metavar, type=kind, default=default, help=words)


def run(arguments: argparse.Namespace) -> None:
    """Makes the estimate, for hold-out rows too if there are any, and writes both. Raises: those of dpwgan.errors."""
    settings = EstimateSettings(
        gamma=arguments.gamma,
        removed=arguments.removed,
        neighbours=arguments.neighbours,
        samples=arguments.samples,
    )
    if arguments.rows < 2:
        raise UsageError("at least 2 rows are needed")
    tables, sizes = open_tables(arguments)
    LOGGER.info("estimating")
    estimate, holdout = estimate_tables(
        tables, settings=settings, rows=arguments.rows, dimensions=arguments.dimensions, seed=arguments.seed
    )
    document = {
        "command": "ex-post",
        "tables": sizes,
        "seed": arguments.seed,
        "estimate": estimate.describe(),
        "holdout_estimate": None if holdout is None else holdout.describe(),
    }
    show(arguments, document, write_lines(document, estimate))


def estimate_tables(
    tables: TableSet, *, settings: EstimateSettings, rows: int, dimensions: int, seed: int
) -> tuple[PrivacyEstimate, PrivacyEstimate | None]:
    """Estimates for the real rows and, by the same synthetic rows and as many taken out, for the hold-out rows.

    Tables longer than `rows` are thinned by one factor, so that a real row stands for as many synthetic ones as before.
    Raises: UsageError if rows are too few, or all the same.
    """
    rng = np.random.default_rng(seed)
    share = min(1.0, rows / max(tables.real.rows, tables.synthetic.rows))
    real, synthetic = (
        table if share >= 1.0 else table.draw(max(2, round(share * table.rows)), rng)
        for table in (tables.real, tables.synthetic)
    )
    points = lay_out_points(synthetic)
    embedding = fit_embedding(points, components=dimensions)
    artificial = embedding.place(points, rng)
    estimate = estimate_privacy(embedding.place(lay_out_points(real), rng), artificial, settings=settings, rng=rng)
    if tables.holdout is None:
        return estimate, None
    # The same number taken out, or the two could not be compared.
    same = replace(settings, removed=int(estimate.measured["rows_removed_for_each"]))
    holdout = embedding.place(lay_out_points(tables.holdout.draw(real.rows, rng)), rng)
    return estimate, estimate_privacy(holdout, artificial, settings=same, rng=rng)


def write_lines(document: dict[str, Any], estimate: PrivacyEstimate) -> list[str]:
    """The lines of text for the terminal: the estimate as it prints itself, and what it is made of."""
    lines = [str(estimate), ""]
    columns = [("training rows", document["estimate"])]
    if document["holdout_estimate"] is not None:
        columns.append(("hold-out rows", document["holdout_estimate"]))
    lines.append(f"{'':<44}" + "".join(f"{title:>16}" for title, _ in columns))
    for title, key in (
        ("mean loss of a row, nats", "mean_loss"),
        ("largest loss seen", "largest_loss"),
        ("divergence of real from synthetic rows, nats", "divergence_of_real_from_artificial"),
    ):
        lines.append(f"{title:<44}" + "".join(f"{column['measured'][key]:>16.6f}" for _, column in columns))
    lines.append(f"{'estimated bound mu (no guarantee)':<44}" + "".join(f"{c['mu']:>16.4f}" for _, c in columns))
    measured = document["estimate"]["measured"]
    lines += [
        "",
        f"{measured['rows_removed_for_each']} synthetic rows taken out for each of {measured['real_rows_looked_at']} "
        f"real rows ({measured['rows_removed_chosen_by']}); {measured['real_rows']} real and "
        f"{measured['artificial_rows']} synthetic rows in {measured['dimensions']} dimensions.",
        f"As a bound for one more row, with mean and spread as sampled: {measured['mu_for_one_more_row']:.4f}, "
        f"passed with probability at most {measured['gamma_for_one_more_row']:.3g}, the smallest that this many rows "
        "carry.",
    ]
    return lines


COMMAND = make_table_command(
    run,
    options="[options]",
    summary="estimate the expected privacy loss of one table: (mu, gamma), which is no guarantee",
    holdout="real rows that were not trained on, whose own estimate stands beside it: the baseline",
    add_options=add_options,
)
