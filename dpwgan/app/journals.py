"""What a run writes down before it charges: the journal by which it can go on, and its account in the table's book."""

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpwgan.app.book.book import BookAccount, read_book
from dpwgan.app.checkpoint import open_checkpoint
from dpwgan.app.config import SynthesisConfig
from dpwgan.app.logs import LOGGER
from dpwgan.app.planning import RunPlan, resume_plan
from dpwgan.privacy.journal import Journal
from dpwgan.table.schema import Schema
from dpwgan.table.source import SourceTable
from dpwgan.version import __version__


def open_journal(
    table: SourceTable, run_plan: RunPlan, *, schema: Schema, cited: Mapping[str, str | None]
) -> tuple[Journal, BookAccount | None]:
    """The journal of a run on a table, and with a book the account there, as `Synthesizer.open_journal` says.

    `cited`: digests of the files that were read beside table and specs, None for those that were not.
    """
    config = run_plan.config
    path = config.book
    book = None if path is None else read_book(path)
    if book is not None:
        book.refuse_other(run_plan.terms)
    seal = None if book is None else book.seals[0]
    facts = _describe_facts(config, table, schema, {**cited, "book": seal})
    journal = _open_checkpoint(config, facts)
    if path is None:
        return journal, None
    try:
        resumed = resume_plan(run_plan, journal)
        ledger = resumed.foresee(journal)
        journal.account = account = BookAccount(
            Path(path),
            release=secrets.token_hex(16) if journal.key is None else f"{journal.key:032x}",
            life=journal.life,
            about={
                "method": config.method,
                "version": __version__,
                "delta": ledger.budget.delta,
                "accountant": ledger.accountant.name,
            },
        )
        account.reserve(ledger, charged=journal.charged)
    except BaseException:
        journal.close()
        raise
    return journal, account


def _open_checkpoint(config: SynthesisConfig, facts: Mapping[str, Any]) -> Journal:
    if config.checkpoint is None:
        return Journal()
    checkpoint = open_checkpoint(Path(config.checkpoint), facts=facts, resume=config.resume)
    if checkpoint.life:
        LOGGER.info("going on with the run in %r: resume %d", str(config.checkpoint), checkpoint.life)
    lost = checkpoint.missing
    if lost:
        checkpoint.start_over()
        LOGGER.warning(
            "the run was stopped while %s was being released: all that was charged is spent, and what is left of "
            "the budget is planned anew",
            ", ".join(lost),
        )
    return checkpoint


def _describe_facts(
    config: SynthesisConfig, table: SourceTable, schema: Schema, cited: Mapping[str, str | None]
) -> dict[str, Any]:
    """Lists the public facts that decide a plan, each under the words for it; a run is resumed under the same only."""
    return {
        "version of the tool": __version__,
        "number of rows": table.records,
        "header": list(table.header),
        "specs file": schema.sha256,
        # Some of them lie in files beside the specs.
        **({"rules between columns": hashlib.sha256(repr(schema.rules).encode()).hexdigest()} if schema.rules else {}),
        **{name: digest for name, digest in cited.items() if digest is not None or name == "codebook"},
        "epsilon": config.epsilon,
        "delta": config.delta,
        "method": config.method,
        "accountant": config.accountant,
        "neighbours": config.neighbours,
        **({} if config.rows_per_unit is None else {"rows per unit": config.rows_per_unit}),
        "preset": config.preset,
        "seed": config.seed,
        **{key.replace("_", "-"): value for key, value in config.settings.items()},
    }
