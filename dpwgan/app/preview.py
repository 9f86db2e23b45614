"""What `--check` says of a planned run: its budget itemised, memory and time."""

import json
from collections.abc import Mapping
from typing import Any

from dpwgan.app.book.book import read_book
from dpwgan.app.claim import NOT_PRIVATE, list_rules
from dpwgan.app.claims.text import (
    describe_accountant,
    describe_book,
    describe_ledger,
    describe_published,
    describe_rules,
    round_up,
)
from dpwgan.app.delivery import Voice
from dpwgan.app.logs import print_lines, print_out
from dpwgan.app.planning import MemoryPlan, RunPlan
from dpwgan.app.progress import duration


def show_plan(run_plan: RunPlan, memory: MemoryPlan, *, voice: Voice) -> None:
    """Prints the plan on stdout: the budget itemised, memory and time. Nothing here was computed from cells."""
    document = _describe_plan(run_plan, memory)
    if voice.log_format == "json":
        print_out(json.dumps(document, indent=2, allow_nan=False) + "\n")
        return
    lines = [
        f"rows: {document['records']}; encoded width: {document['width']}"
        + (" (lists of cells are still to be read: a guess)" if document["width_is_a_guess"] else ""),
        f"asked: epsilon {run_plan.terms.budget.epsilon:.6g}, delta {run_plan.terms.budget.delta:.4g} "
        f"({run_plan.delta_chosen_by}), neighbours {run_plan.config.neighbours}",
        *_describe_planned(run_plan, document, verbose=voice.verbose),
        "ledger, all of it reserved and nothing charged:",
        *describe_ledger(document["ledger"]),
        f"memory: {memory.describe()}",
        f"time: about {duration(document['seconds'])} on a machine of two cores",
        *describe_rules(document["rules"]),
        *describe_book(document.get("book")),
        f"The specs and the header fit{'' if run_plan.unprotected else ', and the budget can be met'}. "
        + (
            "Cells were not looked at."
            if run_plan.schema.unit is None
            else "Of the cells only the unit's were looked at, and those of its own and its unique columns."
        ),
    ]
    print_lines(lines)


def _describe_planned(run_plan: RunPlan, document: Mapping[str, Any], *, verbose: bool) -> list[str]:
    unprotected = run_plan.unprotected
    if unprotected is None:
        planned = f"planned: epsilon {round_up(document['epsilon_planned'], digits=6)}"
        return [planned, *describe_accountant(run_plan.choice.describe(), verbose=verbose)]
    published = unprotected.published
    return [
        f"planned: {NOT_PRIVATE}: {unprotected.reason}",
        *([] if published is None else [describe_published(published.describe())]),
    ]


def _describe_plan(run_plan: RunPlan, memory: MemoryPlan) -> dict[str, Any]:
    """The plan as one JSON document."""
    ledger = run_plan.foresee()
    held: dict[str, Any] = {}
    if run_plan.config.book is not None:
        book = read_book(run_plan.config.book)
        book.refuse_other(run_plan.terms)
        held["book"] = {**book.describe(), "epsilon": book.foresee(one.charge for one in ledger.releases)}
    return {
        "records": run_plan.shape.records,
        "width": run_plan.shape.width,
        "width_is_a_guess": run_plan.undiscovered,
        "epsilon_asked": run_plan.terms.budget.epsilon,
        "epsilon_planned": None if run_plan.unprotected else ledger.epsilon_reserved(),
        "delta_asked": run_plan.terms.budget.delta,
        "delta_chosen_by": run_plan.delta_chosen_by,
        "neighbours": run_plan.config.neighbours,
        "accountant": run_plan.choice.describe(),
        "ledger": ledger.itemise(),
        "settings": run_plan.plan.settings,
        "rules": list_rules(run_plan.schema),
        **held,
        "memory_bytes": memory.needed,
        "memory_limit_bytes": memory.limit,
        "disk_bytes": memory.on_disk,
        "seconds": run_plan.seconds,
    }
