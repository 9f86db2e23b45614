"""From a table to a fitted method and its claim, stage by stage; `dpwgan.app.api` calls them in their order."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dpwgan.app.book.book import BookAccount, read_book
from dpwgan.app.checkpoint import open_checkpoint
from dpwgan.app.claim import Claim, build_claim, list_rules
from dpwgan.app.claims.text import describe_accountant, describe_published
from dpwgan.app.logs import LOGGER
from dpwgan.app.planning import RunPlan, discovery_label, resume_plan, warn_of_noise
from dpwgan.app.progress import ignore_progress
from dpwgan.app.public_table import PublicTable
from dpwgan.app.saved_model import describe_column, load_synthesizer, read_column
from dpwgan.array_types import Arrays
from dpwgan.errors import SpecsError, UsageError, quote
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.plan import Run
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import Streams, make_choice_stream, make_streams
from dpwgan.privacy.unit_counts import SIZES_LABEL
from dpwgan.stages import Progress
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.rows import Rows
from dpwgan.table.saved import pack_model, unpack_model
from dpwgan.table.schema import CategoricalColumn, Schema
from dpwgan.table.source import SourceTable
from dpwgan.table.units.forms import count_forms, find_possible
from dpwgan.table.units.units import Units, keep_rows
from dpwgan.table.workers import Team
from dpwgan.version import __version__, digest_code

_LISTS = "lists of cells"


class Cited(NamedTuple):
    """What was read beside table and specs, and the claim cites."""

    codebook_sha256: str | None
    public: PublicTable | None


def open_journal(table: SourceTable, run_plan: RunPlan, *, cited: Cited) -> Journal:
    """Begins the journal of a run on a table, or goes on with one; without a checkpoint it keeps nothing.

    Where a release is lost that the run cannot do without, its plan is given up, and all that was charged is spent.
    With a book all that the run will charge is set aside there.
    Privacy: reads no row.
    Raises: as `Synthesizer.encode_table`, for the checkpoint and the book.
    """
    warn_of_noise(run_plan)
    config = run_plan.config
    path = config.book
    book = None if path is None else read_book(path)
    if book is not None:
        book.refuse_other(run_plan.terms)
    digests = {
        "codebook": cited.codebook_sha256,
        "public table": None if cited.public is None else cited.public.sha256,
        "book": None if book is None else book.seals[0],
    }
    journal = _open_checkpoint(table, run_plan, digests)
    if path is None:
        return journal
    try:
        resumed = resume_plan(run_plan, journal)
        journal.account = account = BookAccount(
            Path(path),
            release=secrets.token_hex(16) if journal.key is None else f"{journal.key:032x}",
            lives=journal.lives or ("the only one",),
            about={
                "method": config.method,
                "version": __version__,
                "delta": resumed.terms.budget.delta,
                "accountant": resumed.choice.accountant.name,
            },
        )
        if not _knows_lists(resumed, journal):
            account.reserve(resumed.foresee(journal), charged=journal.charged)
    except BaseException:
        journal.close()
        raise
    return journal


def _knows_lists(run_plan: RunPlan, journal: Journal) -> bool:
    """Whether an earlier life read the lists of cells, and has set aside what a plan with them costs.

    The plan without them is a guess, of other noise. Nothing is charged until it is made with them and set aside.
    """
    kept = not run_plan.discoveries or journal.recall(_LISTS) is not None
    return run_plan.undiscovered and bool(journal.charged) and kept


def _open_checkpoint(table: SourceTable, run_plan: RunPlan, digests: Mapping[str, str | None]) -> Journal:
    config = run_plan.config
    if config.checkpoint is None:
        return Journal()
    facts = _describe_facts(table, run_plan, digests)
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


def _describe_facts(table: SourceTable, run_plan: RunPlan, digests: Mapping[str, str | None]) -> dict[str, Any]:
    """Lists the public facts that decide a plan, each under the words for it; a run is resumed under the same only."""
    config, schema = run_plan.config, run_plan.schema
    return {
        "version of the tool": __version__,
        # Other code may plan or draw otherwise, whatever its version says.
        "code of the tool": digest_code(),
        "number of rows": table.records,
        "header": list(table.header),
        "specs file": schema.sha256,
        # Some of them lie in files beside the specs.
        **({"rules between columns": hashlib.sha256(repr(schema.rules).encode()).hexdigest()} if schema.rules else {}),
        **{name: digest for name, digest in digests.items() if digest is not None or name == "codebook"},
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


@dataclass(frozen=True, kw_only=True)
class EncodedRun:
    """A run between reading its table and training on it: the rows as numbers, and a ledger that is open.

    `of_units`: of a table with units how many it has, and how many rows before those beyond a unit's most were left
    out. `units`: whose each row is, where whole units are to be sampled. `linked`: the rows of all workers, where it is
    still to be released how those of a unit hang together. `team`: the workers that share the run.
    Privacy: holds private rows, which do not show in the representation. It is for one fit.
    """

    encoded: EncodedTable = field(repr=False)
    encoder: TableEncoder = field(repr=False)
    line_ending: str
    types: Mapping[str, pl.DataType]
    run_plan: RunPlan
    ledger: Ledger = field(repr=False)
    streams: Streams = field(repr=False)
    of_units: Mapping[str, int] | None = None
    units: Units | None = field(default=None, repr=False)
    linked: SourceTable | None = field(default=None, repr=False)
    team: Team | None = field(default=None, repr=False)
    cited: Cited


def encode_run(
    table: SourceTable, run_plan: RunPlan, *, journal: Journal, team: Team | None, cited: Cited
) -> EncodedRun:
    """Opens the ledger, finds lists of cells and encodes the rows here, as `Synthesizer.encode_table` says."""
    config, schema = run_plan.config, run_plan.schema
    units, whole = table.units, table
    of_units = None if units is None else {"units": units.count, "rows_read": len(units.of_rows)}
    if schema.unit is not None:
        most = schema.unit.max_rows
        own = None if team is None or units is None else team.get_rows(units.count)
        table = keep_rows(whole, most, rng=make_choice_stream(config.seed, key=journal.key), own=own)
        # The rows of all workers: those that they have where there is a key or a seed, else others by the same law.
        whole = keep_rows(whole, most, rng=make_choice_stream(config.seed, key=journal.key)) if own else table
    run_plan = resume_plan(run_plan, journal)
    announce(run_plan)
    streams = make_streams(config.seed, life=journal.life, worker=0 if team is None else team.rank)
    ledger = run_plan.open_ledger(journal, source=NoiseSource(noise=streams.noise, batches=streams.batches))
    if run_plan.undiscovered:
        schema = _discover(table, run_plan, ledger=ledger)
        run_plan = run_plan.after_discovery(schema)
        run_plan.reserve_training(ledger)
        if isinstance(journal.account, BookAccount):
            journal.account.reserve(ledger, charged=journal.charged)
    if run_plan.of_units:
        if team is None or team.leads:
            schema = _release_sizes(whole, TableEncoder(schema, table.header), ledger=ledger)
        elif not ledger.charged[SIZES_LABEL]:
            ledger.charge(SIZES_LABEL)  # the chief knows whose every row is, and releases this once
    memory = run_plan.plan_memory()
    LOGGER.debug("encoding the table%s", " onto the disk" if memory.on_disk else "")
    encoder = TableEncoder(schema, table.header)
    mine = table if team is None or units is not None else table.part(*team.get_rows(table.records))
    encoded = encoder.encode_pieces(
        mine.pieces(), records=mine.records, on_disk=bool(memory.on_disk), threads=config.threads
    )
    return EncodedRun(
        encoded=encoded,
        encoder=encoder,
        line_ending=table.line_ending,
        types=table.types,
        run_plan=run_plan,
        ledger=ledger,
        streams=streams,
        of_units=of_units,
        units=table.units if run_plan.terms.unit.sampled else None,
        linked=whole if schema.unit is not None and schema.unit.linked else None,
        team=team,
        cited=cited,
    )


def _discover(table: SourceTable, run_plan: RunPlan, *, ledger: Ledger) -> Schema:
    """Finds the lists of cells that the specs leave to the data; those that were released before are kept.

    Lists that are waived are no release: they are read anew in each life of a run.
    """
    schema = run_plan.schema

    def discover() -> Arrays:
        found = discover_domains(
            table.frames(),
            schema,
            select=lambda columns, count: ledger.discover([discovery_label(column) for column in columns], count),
            firsts=None if table.units is None else table.units.firsts,
        )
        columns = [describe_column(found.by_name[name]) for name in run_plan.discoveries]
        return {"columns": np.array(json.dumps(columns))}

    if not run_plan.discoveries:
        return discover_domains(table.frames(), schema)
    kept = json.loads(str(ledger.keep(_LISTS, discover)["columns"]))
    released = {column.name: column for column in map(read_column, kept)}
    for column in released.values():
        if isinstance(column, CategoricalColumn):
            found = len({*column.tokens} - {*column.missing})
            tell = LOGGER.info if found else LOGGER.warning
            tell(
                "column %s: %s of its cells occur often enough to be released, and all others become its missing code; "
                "list its values in the specs if they are public",
                quote(column.name),
                found or "none",
            )
    return discover_domains(table.frames(), schema.put(*released.values()))


def _release_sizes(table: SourceTable, encoder: TableEncoder, *, ledger: Ledger) -> Schema:
    """The schema with the shares of units of each form, as released.

    Privacy: `count_forms` of all rows that are kept, whoever has them; how many units there are is public. Of how many
      a rule leaves no row, only the noisy counts tell.
    """
    schema = encoder.schema
    unit, units = schema.unit, table.units
    if unit is None or units is None:
        raise UsageError("the table's units were not read")
    # Units of other forms would be looked for in vain.
    possible = find_possible(schema)
    if not possible.any():
        raise SpecsError("The rules leave no unit: none of its kinds goes with any cells of its own columns.")

    def count() -> Arrays:
        released = ledger.release(SIZES_LABEL, lambda: count_forms(table, units, encoder))
        return {"sizes": released.values, "stddev": np.array(released.stddev)}

    kept = ledger.keep(SIZES_LABEL, count)
    if float(kept["stddev"]) * possible.sum() > len(units.sizes):
        LOGGER.warning(
            "noise on how many units have each number of rows, up to %d, adds up to more units than there are: how "
            "many rows units have will be chance; a larger epsilon or a smaller 'max_rows' would help",
            unit.max_rows,
        )
    noisy = kept["sizes"].astype(np.float64) / len(units.sizes)
    shares, noisy = np.zeros(len(noisy)), noisy[possible]
    total = float(np.clip(noisy.sum(), 1 / len(units.sizes), 1.0)) if schema.drops_rows else 1.0
    shares[possible] = project_on_simplex(noisy, np.ones(len(noisy)), total=total) / total
    return schema.put(replace(unit, sizes=tuple(map(float, shares))))


def announce(run_plan: RunPlan) -> None:
    """Says to who wants to hear more which accountant was chosen, why, and what the others would have said.

    Of a method without a guarantee it says why there is none, and what was published instead.
    """
    unprotected = run_plan.unprotected
    if unprotected is not None:
        LOGGER.warning("no guarantee: %s", unprotected.reason)
        if unprotected.published is not None:
            LOGGER.warning("%s", describe_published(unprotected.published.describe()))
        return
    for line in describe_accountant(run_plan.choice.describe(), verbose=True):
        LOGGER.debug("%s", line.strip(), extra={"fields": {"event": "accountant"}})


def fit_rows(
    encoded: EncodedTable,
    run_plan: RunPlan,
    *,
    ledger: Ledger,
    model: np.random.Generator,
    units: Units | None,
    progress: Progress = ignore_progress,
    team: Team | None = None,
    public: PublicTable | None = None,
) -> FittedSynthesizer:
    """Fits the method of a plan; `units` are of use where whole ones are sampled.

    A table of fewer rows than were planned for has null records for the others: rows that add nothing to any sum.
    Privacy: reads rows, and charges `ledger` alone.
    Raises: as the method's fit.
    """
    records, own = run_plan.shape.records, units if run_plan.terms.unit.sampled else None
    run = Run(
        ledger=ledger,
        rows=Rows(encoded, records=records, ledger=ledger, team=team, units=own),
        model=model,
        progress=progress,
        device=run_plan.config.device,
        threads=run_plan.config.threads,
        public=None if public is None else public.rows,
    )
    fitted: FittedSynthesizer = run_plan.method.fit(run_plan.plan, run)
    return fitted


def fit_run(run: EncodedRun, *, progress: Progress) -> tuple[FittedSynthesizer, Certificate | None]:
    """Fits the method, or takes what an earlier life of the run fitted and did not get to write."""

    def fit() -> FittedSynthesizer:
        return fit_rows(
            run.encoded,
            run.run_plan,
            ledger=run.ledger,
            model=run.streams.model,
            units=run.units,
            progress=progress,
            team=run.team,
            public=run.cited.public,
        )

    if not run.ledger.journal.keeps:
        fitted = fit()
        return fitted, fitted.certificate

    def act() -> Arrays:
        fitted = fit()
        text = json.dumps(None if fitted.certificate is None else asdict(fitted.certificate))
        return {**pack_model(fitted), "certificate": np.array(text)}

    # What a method charges outside of acts of its own is of use only once its model is there.
    files = dict(run.ledger.keep("model", act))
    certificate = json.loads(str(files.pop("certificate")))
    return unpack_model(files, load_synthesizer), None if certificate is None else Certificate(**certificate)


def claim_run(run: EncodedRun, *, certificate: Certificate | None, book: Mapping[str, Any] | None) -> Claim:
    """The claim of a run that is over. `book`: how far the book is after it, if there is one."""
    run_plan, ledger, streams, schema = run.run_plan, run.ledger, run.streams, run.encoder.schema
    config, records = run_plan.config, run_plan.shape.records
    rows, chosen_by = config.rows_and_reason
    return build_claim(
        guarantee=run_plan.unprotected or ledger.guarantee(),
        asked=run_plan.terms.budget,
        relation=run_plan.terms.neighboring_relation,
        delta_chosen_by=run_plan.delta_chosen_by,
        ledger=ledger.itemise(is_over=True),
        accountant=run_plan.choice.describe(),
        records=records,
        of_units=run.of_units,
        rows=rows if rows is not None else records,
        rows_chosen_by=chosen_by,
        specs_sha256=schema.sha256,
        codebook_sha256=run.cited.codebook_sha256,
        public_table=None if run.cited.public is None else run.cited.public.describe(),
        domains=_list_domains(schema),
        rules=list_rules(schema),
        certificate=certificate,
        book=book,
        attacker=None if run_plan.unprotected or streams.seeded else ledger.judge_attacker(),
        seeded=streams.seeded,
        method={key: getattr(run_plan.method, key) for key in ("name", "title", "paper")},
        settings={
            **({"preset": config.preset} if config.preset else {}),
            **run_plan.plan.settings,
            **({} if run.team is None else {"workers": run.team.size}),
        },
    )


def _list_domains(schema: Schema) -> dict[str, list[str]]:
    domains: dict[str, list[str]] = {"codebook": [], "private": [], "waived": [*schema.waived]}
    for column in schema.columns:
        if isinstance(column, CategoricalColumn) and column.domain in domains:
            domains[column.domain].append(column.name)
    return domains
