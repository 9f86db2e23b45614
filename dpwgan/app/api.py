"""The Python interface, and the one road from a table to a synthetic one: the command line takes it too.

synthetic, claim = dpwgan.synthesize(frame, specs, epsilon=1.0)

synthesizer = dpwgan.Synthesizer(specs, epsilon=1.0).fit(frame)
synthesizer.sample(1000); synthesizer.claim(); synthesizer.save("model"); dpwgan.Synthesizer.load("model")
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from dpwgan.app.book.book import BookAccount, read_book
from dpwgan.app.checkpoint import open_checkpoint
from dpwgan.app.claim import Claim, build_claim, list_rules
from dpwgan.app.claims.text import describe_accountant, describe_published
from dpwgan.app.config import RECORDS, Options, SynthesisConfig
from dpwgan.app.logs import LOGGER
from dpwgan.app.planning import RunPlan, describe_facts, discovery_label, plan_run, resume_plan
from dpwgan.app.progress import ProgressCallback, ignore_progress, show_bar
from dpwgan.app.sampling import RowSource
from dpwgan.app.saved_model import (
    WEIGHTS_FOLDER,
    ModelDescription,
    describe_column,
    load_synthesizer,
    read_column,
    read_description,
    write_description,
)
from dpwgan.app.together import UnitSource, cut_units, draw_forms
from dpwgan.errors import InputError, OutputError, UsageError
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.base import FittedSynthesizer, Run
from dpwgan.methods.registry import finds_intervals, make_settings
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.journal import Arrays, Journal
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import Streams, branch, make_choice_stream, make_streams
from dpwgan.privacy.sizes import SIZES_LABEL
from dpwgan.settings import declared
from dpwgan.table import frames
from dpwgan.table.codebook import read_codebook
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.forms import count_forms, list_forms
from dpwgan.table.places import choose_passing_name, sync
from dpwgan.table.rows import Rows, serve
from dpwgan.table.saved import pack_model, reading_saved, unpack_model
from dpwgan.table.schema import CategoricalColumn, Schema
from dpwgan.table.source import SourceTable, choose_step, make_table
from dpwgan.table.specs import parse_specs, read_specs
from dpwgan.table.storage import cut
from dpwgan.table.stream import read_public
from dpwgan.table.threads import map_in_order
from dpwgan.table.units import Units, keep_rows, read_units
from dpwgan.table.workers import Team
from dpwgan.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    Frame = TypeVar("Frame", pd.DataFrame, pl.DataFrame)


@dataclass(frozen=True, kw_only=True)
class EncodedRun:
    """A run between reading its table and training on it: the rows as numbers, and a ledger that is open.

    `rows_read`: where the specs name a unit, how many rows the table had; of some units not all were kept. `units` says
    whose those are that were, where whole units are to be sampled.
    Privacy: holds private rows, which do not show in the representation. It is for one fit.
    """

    encoded: EncodedTable = field(repr=False)
    encoder: TableEncoder = field(repr=False)
    line_ending: str
    types: Mapping[str, pl.DataType]
    run_plan: RunPlan
    ledger: Ledger = field(repr=False)
    streams: Streams = field(repr=False)
    rows_read: int | None = None
    units: Units | None = field(default=None, repr=False)


def synthesize(
    frame: "Frame",
    specs: Schema | Mapping[str, Any] | str | os.PathLike[str],
    epsilon: float,
    delta: float | None = None,
    *,
    codebook: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | bool = False,
    **options: "Unpack[Options]",
) -> tuple["Frame", Claim]:
    """Makes a synthetic data frame with the columns of a private one, and the claim that goes with it.

    Takes what `Synthesizer` and its `fit` take; `rows` defaults to the number of rows of `frame`.
    Privacy: (epsilon, delta)-differential privacy for one row of `frame`, as the claim says in full.
    Raises: the errors of dpwgan.errors, each one sentence without any cell.
    """
    synthesizer = Synthesizer(specs, epsilon, delta, codebook=codebook, **options).fit(frame, progress=progress)
    return cast("Frame", synthesizer.sample()), synthesizer.claim()


class Synthesizer:
    """Fits a method to a private table once, then samples as often as one likes.

    `specs` is a path to data-specs.json, the document itself (the claim then cites the digest of its sorted JSON
    text), or a Schema. `options` are those of `dpwgan.app.config.SynthesisConfig`; among them `settings` are the
    method's own, as {"steps": 100}.

    Privacy: only `fit` reads rows, and it may do so once: a second fit would be a second release. Afterwards nothing is
      kept of the streams that noise and batches were drawn from.
    Raises: UsageError, SpecsError, InputError.
    """

    def __init__(
        self,
        specs: Schema | Mapping[str, Any] | str | os.PathLike[str],
        epsilon: float,
        delta: float | None = None,
        *,
        codebook: str | os.PathLike[str] | None = None,
        **options: "Unpack[Options]",
    ) -> None:
        unknown = sorted(set(options) - set(SynthesisConfig.__dataclass_fields__))
        if unknown:
            raise UsageError(f"there is no option {unknown[0]}; training settings go into settings={{...}}")
        schema = _read_schema(specs, codebook=codebook)
        self._begin(schema, SynthesisConfig(epsilon=epsilon, delta=delta, **options), codebook=codebook)

    @classmethod
    def from_config(
        cls, schema: Schema, config: SynthesisConfig, *, codebook: str | os.PathLike[str] | None = None
    ) -> "Synthesizer":
        """Makes a synthesizer from a schema and settings that are checked already; the codebook is only cited."""
        self = cls.__new__(cls)
        self._begin(schema, config, codebook=codebook)
        return self

    def _begin(self, schema: Schema, config: SynthesisConfig, *, codebook: str | os.PathLike[str] | None) -> None:
        self.schema, self.config = _choose_bins(schema, config), config
        self._codebook_sha256 = _digest(codebook) if codebook is not None else None
        self._rng: np.random.Generator | None = None
        self._encoder: TableEncoder | None = None
        self._fitted: Any = None
        self._claim: Claim | None = None
        self._account: BookAccount | None = None
        self._line_ending = "\n"
        self._types: Mapping[str, pl.DataType] = {}
        self._dtypes: Mapping[str, Any] = {}
        self._in_polars = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses to be pickled or copied. Raises: UsageError."""
        raise UsageError(
            "a synthesizer cannot be copied or pickled: save(folder) keeps what may be kept, load reads it"
        )

    # ------------------------------------------------------------------------------------------------------------ plan

    def plan(self, *, records: int) -> RunPlan:
        """Plans the budget for a table of `records` rows, which are not needed for it.

        Raises: UsageError, PrivacyError if the budget cannot be met.
        """
        return plan_run(self.schema, records=_check_count(records, name="records"), config=self.config)

    def find_units(self, table: SourceTable) -> SourceTable:
        """The table with whose each row is, where the specs name a unit: its number of rows is that of those kept.

        Privacy: that number is the same in neighbouring tables, and public.
        Raises: DataError if a row does not say whose it is.
        """
        unit = self.schema.unit
        return table if unit is None or table.units is not None else read_units(table, unit)

    # ------------------------------------------------------------------------------------------------------------- fit

    def fit(self, frame: "pd.DataFrame | pl.DataFrame", *, progress: ProgressCallback | bool = False) -> "Synthesizer":
        """Fits to a data frame of pandas or polars; samples will be of the same kind.

        `progress` is called with (step, steps, epsilon spent so far); True shows a bar, also in a notebook
        that has ipywidgets.
        Raises: DataError if it does not fit the specs, PrivacyError, ResourceError; UsageError for no data frame.
        """
        if not (isinstance(progress, bool) or callable(progress)):
            raise UsageError("progress must be a function, True or False")
        dtypes: Mapping[str, Any] = {}
        if isinstance(frame, pl.DataFrame):
            table = replace(make_table(frames.from_polars(frame, self.schema), frame.columns), types=frame.schema)
        else:
            table = make_table(frames.from_pandas(frame, self.schema), [*frame.columns])
            dtypes = dict(frame.dtypes)
        with show_bar() if progress is True else nullcontext(progress or ignore_progress) as callback:
            self.fit_encoded(self.encode_table(table), progress=callback)
        self._in_polars, self._dtypes = isinstance(frame, pl.DataFrame), dtypes
        return self

    def encode_table(
        self,
        table: SourceTable,
        *,
        run_plan: RunPlan | None = None,
        team: Team | None = None,
        journal: Journal | None = None,
    ) -> EncodedRun:
        """Does all that needs the cells of a table: discovers lists of cells and encodes. `fit_encoded` comes next.

        Afterwards the table is not needed any more, so that training need not hold it in memory. With a `team` only
        this worker's share of the rows is encoded, and `journal` is the chief's own, or what it told of it; else it is
        opened here.
        With a checkpoint, what an earlier life of the run released is taken from there and not released again.
        Privacy: opens the ledger; each discovery is charged before the first row is read.
        Raises: UsageError if `run_plan` was made for something else, or after a fit, or if the checkpoint is not this
          run's; InputError if it is damaged; else as `fit`.
        """
        self._refuse_second_fit()
        table = self.find_units(table)
        if run_plan is None:
            run_plan = self.plan(records=table.records)
        run_plan.refuse_unless_for(self.schema, records=table.records, config=self.config)
        journal = self.open_journal(table, run_plan) if journal is None else journal
        try:
            return self._encode(table, run_plan, journal=journal, team=team)
        except BaseException:
            journal.close()
            raise

    def open_journal(self, table: SourceTable, run_plan: RunPlan) -> Journal:
        """Begins the journal of a run on a table, or goes on with one; without a checkpoint it keeps nothing.

        Where a release is lost that the run cannot do without, its plan is given up, and all that was charged is spent.
        With a book all that the run will charge is set aside there.
        Privacy: reads no row.
        Raises: PrivacyError if the book has no room; UsageError if the checkpoint is not this run's, or the book not
          for it; InputError if one is damaged; OutputError, TransferError.
        """
        path = self.config.book
        book = None if path is None else read_book(path)
        if book is not None:
            book.refuse_other(run_plan.terms)
        journal = self._open_checkpoint(table, book=None if book is None else book.seals[0])
        if path is None:
            return journal
        try:
            resumed = resume_plan(run_plan, journal)
            ledger = resumed.foresee(journal)
            journal.account = self._account = BookAccount(
                Path(path),
                release=secrets.token_hex(16) if journal.key is None else f"{journal.key:032x}",
                life=journal.life,
                about={
                    "method": self.config.method,
                    "version": __version__,
                    "delta": ledger.budget.delta,
                    "accountant": ledger.accountant.name,
                },
            )
            self._account.reserve(ledger, charged=journal.charged)
        except BaseException:
            journal.close()
            raise
        return journal

    def _open_checkpoint(self, table: SourceTable, *, book: str | None) -> Journal:
        if self.config.checkpoint is None:
            return Journal()
        facts = describe_facts(
            self.config,
            table,
            specs_sha256=self.schema.sha256,
            codebook_sha256=self._codebook_sha256,
            rules=_digest_rules(self.schema),
            book=book,
        )
        checkpoint = open_checkpoint(Path(self.config.checkpoint), facts=facts, resume=self.config.resume)
        if checkpoint.life:
            LOGGER.info("going on with the run in %r: resume %d", str(self.config.checkpoint), checkpoint.life)
        lost = checkpoint.missing
        if lost:
            checkpoint.start_over()
            LOGGER.warning(
                "the run was stopped while %s was being released: all that was charged is spent, and what is left of "
                "the budget is planned anew",
                ", ".join(lost),
            )
        return checkpoint

    def _encode(self, table: SourceTable, run_plan: RunPlan, *, journal: Journal, team: Team | None) -> EncodedRun:
        units, whole = table.units, table
        rows_read = None if units is None else len(units.of_rows)
        if self.schema.unit is not None:
            most = self.schema.unit.max_rows
            own = None if team is None or units is None else team.get_rows(units.count)
            table = keep_rows(whole, most, rng=make_choice_stream(self.config.seed, key=journal.key), own=own)
            # The rows of all workers: those that they have where there is a key or a seed, else others by the same law.
            whole = keep_rows(whole, most, rng=make_choice_stream(self.config.seed, key=journal.key)) if own else table
        run_plan = resume_plan(run_plan, journal)
        announce(run_plan)
        streams = make_streams(self.config.seed, life=journal.life, worker=0 if team is None else team.rank)
        ledger = run_plan.open_ledger(journal, source=NoiseSource(noise=streams.noise, batches=streams.batches))
        schema = self.schema
        if run_plan.undiscovered:
            schema = self._discover(table, run_plan, ledger=ledger)
            run_plan = run_plan.after_discovery(schema)
            run_plan.reserve_training(ledger)
            if journal.account is not None and self._account is not None:
                self._account.reserve(ledger, charged=journal.charged)
        if run_plan.sizes is not None:
            if team is None or team.leads:
                schema = _release_sizes(whole, TableEncoder(schema, table.header), ledger=ledger)
            elif not ledger.charged[SIZES_LABEL]:
                ledger.charge(SIZES_LABEL)  # the chief knows whose every row is, and releases this once
        memory = run_plan.plan_memory(self.config.memory)
        LOGGER.debug("encoding the table%s", " onto the disk" if memory.on_disk else "")
        encoder = TableEncoder(schema, table.header)
        mine = table if team is None or units is not None else table.part(*team.get_rows(table.records))
        encoded = encoder.encode_pieces(
            mine.pieces(), records=mine.records, on_disk=bool(memory.on_disk), threads=self.config.threads
        )
        return EncodedRun(
            encoded=encoded,
            encoder=encoder,
            line_ending=table.line_ending,
            types=table.types,
            run_plan=run_plan,
            ledger=ledger,
            streams=streams,
            rows_read=rows_read,
            units=table.units if run_plan.terms.unit.sampled else None,
        )

    def _discover(self, table: SourceTable, run_plan: RunPlan, *, ledger: Ledger) -> Schema:
        """Finds the lists of cells that the specs leave to the data; those that were released before are kept.

        Lists that are waived are no release: they are read anew in each life of a run.
        """

        def discover() -> Arrays:
            found = discover_domains(
                table.frames(),
                self.schema,
                select=lambda columns, count: ledger.discover([discovery_label(column) for column in columns], count),
            )
            columns = [describe_column(found.by_name[name]) for name in run_plan.discoveries]
            return {"columns": np.array(json.dumps(columns))}

        if not run_plan.discoveries:
            return discover_domains(table.frames(), self.schema)
        kept = json.loads(str(ledger.keep("lists of cells", discover)["columns"]))
        released = {column.name: column for column in map(read_column, kept)}
        columns = tuple(released.get(column.name, column) for column in self.schema.columns)
        return discover_domains(table.frames(), replace(self.schema, columns=columns))

    def fit_encoded(
        self, run: EncodedRun, *, progress: ProgressCallback = ignore_progress, team: Team | None = None
    ) -> "Synthesizer":
        """Trains on what `encode_table` gave; each step is charged before it happens.

        With a `team` this is the chief: the others `serve_encoded`.
        Raises: UsageError after a fit, or if another synthesizer's settings made `run`; else as `fit`.
        """
        self._refuse_second_fit()
        self._refuse_other_settings(run)
        run_plan, ledger, streams, schema = run.run_plan, run.ledger, run.streams, run.encoder.schema
        records = run_plan.shape.records
        if team is not None:
            team.follow(lambda: ledger.charged)
        try:
            # Without a number of threads the matrix products of numpy take all cores, as those of TensorFlow do.
            with threadpool_limits(limits=self.config.threads):
                self._fitted, certificate = self._fit(run, progress=progress, team=team)
            book = None if self._account is None else self._account.settle()
        finally:
            ledger.journal.close()
        self.schema, self._encoder, self._rng = schema, run.encoder, streams.model
        self._line_ending, self._types = run.line_ending, run.types
        rows, chosen_by = self.config.rows_and_reason
        self._claim = build_claim(
            guarantee=run_plan.unprotected or ledger.guarantee(),
            asked=run_plan.terms.budget,
            relation=run_plan.terms.neighboring_relation,
            delta_chosen_by=run_plan.delta_chosen_by,
            ledger=ledger.itemise(),
            accountant=run_plan.choice.describe(),
            records=records,
            rows_read=run.rows_read,
            rows=rows if rows is not None else records,
            rows_chosen_by=chosen_by,
            specs_sha256=schema.sha256,
            codebook_sha256=self._codebook_sha256,
            domains=_domains(schema),
            rules=list_rules(schema),
            certificate=certificate,
            book=book,
            attacker=None if run_plan.unprotected or streams.seeded else ledger.judge_attacker(),
            seeded=streams.seeded,
            method={key: getattr(run_plan.method, key) for key in ("name", "title", "paper")},
            settings={
                **({"preset": self.config.preset} if self.config.preset else {}),
                **run_plan.plan.settings,
                **({} if team is None else {"workers": team.size}),
            },
        )
        return self

    def serve_encoded(self, run: EncodedRun, *, team: Team) -> None:
        """Has the chief of a team count and sum over the rows here, until it dismisses this worker.

        Privacy: what the chief charges is charged here as well, before rows are read, against this worker's own plan.
        Raises: UsageError as `fit_encoded`; else as `Team.serve`.
        """
        self._refuse_other_settings(run)
        with threadpool_limits(limits=self.config.threads):
            serve(run.encoded, team=team, ledger=run.ledger, units=run.units)

    def _refuse_other_settings(self, run: EncodedRun) -> None:
        if run.run_plan.config != self.config:
            raise UsageError("the table was encoded under other settings than this synthesizer's")

    def _fit(
        self, run: EncodedRun, *, progress: ProgressCallback, team: Team | None
    ) -> tuple[FittedSynthesizer, Certificate | None]:
        """Fits the method, or takes what an earlier life of the run fitted and did not get to write."""

        def fit() -> FittedSynthesizer:
            plan, ledger = run.run_plan, run.ledger
            whole = Run(
                ledger=ledger,
                rows=Rows(run.encoded, records=plan.shape.records, ledger=ledger, team=team, units=run.units),
                model=run.streams.model,
                progress=progress,
                device=self.config.device,
                threads=self.config.threads,
            )
            fitted: FittedSynthesizer = plan.method.fit(plan.plan, whole)
            return fitted

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

    def _refuse_second_fit(self) -> None:
        if self._fitted is not None:
            raise UsageError("this synthesizer is fitted already; a second fit would be a second release")

    # ---------------------------------------------------------------------------------------------------------- sample

    def sample(self, rows: int | None = None, *, where: str | None = None) -> "pd.DataFrame | pl.DataFrame":
        """Samples a data frame, of polars if it was fitted to one, else of pandas; as many rows as the claim says.

        Its types are those of the frame fitted to where they do not depend on its rows, else what the specs say.

        `where`: an SQL condition on a row, of which all rows are true.
        Privacy: post-processing; free, however often.
        Raises: UsageError before `fit`, and for a condition that cannot be acted on or that hardly a row meets;
          SpecsError if the model hardly ever keeps the rules of the specs.
        """
        cells = pl.concat(self.sample_cells(rows, where=where))
        if self._in_polars:
            return frames.to_polars(cells, self.schema, self._types)
        return frames.to_pandas(cells, self.schema, self._dtypes)

    def sample_cells(self, rows: int | None = None, *, where: str | None = None) -> Iterator[pl.DataFrame]:
        """Samples tables of cells, chunk by chunk, every cell and rule checked against the specs.

        Cells are text, of the type `pl.Enum` where the specs list them.

        Chunks are made side by side, by as many threads as the settings say, each with a stream of randomness of its
        own; what is made does not depend on how many there are.
        Raises: as `sample`; DpwganError if a cell is not legal, which would be an error of this tool.
        """
        encoder, claim = self._require_encoder(), self.claim()
        rows = claim.rows if rows is None else _check_count(rows)
        if where is not None and not isinstance(where, str):
            raise UsageError("where must be a text: an SQL condition")
        if self._rng is None:  # the claim is there, so it is
            raise UsageError("the synthesizer is not fitted yet")
        source, rng, unit = RowSource(self._fitted, encoder, where=where), self._rng, self.schema.unit
        step = choose_step(len(self.header))
        if unit is not None and unit.has_sizes:
            units = UnitSource(source, encoder, unit)
            drawn = draw_forms(list_forms(self.schema), unit.sizes, rows, rng=rng)
            tasks = ((part, branch(rng)) for part in cut_units(drawn, step=step))
            return map_in_order(lambda task: units.draw(*task[0], rng=task[1]), tasks, threads=self.config.threads)

        def make(part: tuple[slice, np.random.Generator]) -> pl.DataFrame:
            places, own = part
            return source.draw(places.stop - places.start, first_record=places.start, rng=own)

        parts = ((places, branch(rng)) for places in cut(rows, size=step))
        return map_in_order(make, parts, threads=self.config.threads)

    def note_output(self, sha256: str) -> None:
        """Notes a table written in the book, if there is one. Raises: InputError, OutputError, TransferError."""
        if self._account is not None:
            self._account.note_output(sha256)

    def _require_encoder(self) -> TableEncoder:
        if self._encoder is None:
            raise UsageError("the synthesizer is not fitted yet")
        return self._encoder

    def claim(self, rows: int | None = None) -> Claim:
        """The claim; with `rows`, for another table of that many rows sampled from this model.

        Raises: UsageError before `fit`.
        """
        if self._claim is None:
            raise UsageError("the synthesizer is not fitted yet")
        if rows is None or _check_count(rows) == self._claim.rows:
            return self._claim
        loaded = bool(self._claim.document["output"]["from_saved_model"])
        return self._claim.for_output(rows=rows, chosen_by="asked for", from_saved_model=loaded)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns in the order of the table fitted to. Raises: UsageError before `fit`."""
        return self._require_encoder().header

    @property
    def line_ending(self) -> str:
        """How lines end in the table fitted to."""
        return self._line_ending

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        """The types of the columns of the table fitted to, if it had any; a saved model does not have them."""
        return self._types

    # ------------------------------------------------------------------------------------------------------------ save

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Keeps the fitted model in a new folder, which appears whole or not at all.

        Privacy: the model is covered by the claim, which is saved with it. No row is saved.
        Raises: UsageError before `fit`; OutputError if the folder is there already and not empty, or cannot be made.
        """
        target = _read_path(directory, name="the folder")
        claim, header = self.claim(), self.header
        check_model_folder(target)
        try:
            staged = choose_passing_name(Path(os.path.realpath(target)))
            staged.mkdir(mode=0o700)
            try:
                description = ModelDescription(
                    method=self.config.method, header=header, line_ending=self._line_ending, schema=self.schema
                )
                weights = staged / WEIGHTS_FOLDER
                weights.mkdir()
                self._fitted.save(weights)
                write_description(staged, description, claim=claim)
                staged.chmod(0o755)
                for path in (*staged.rglob("*"), staged):
                    path.chmod(path.stat().st_mode & ~0o022)  # nobody else is to write there, whatever the umask allows
                    sync(path)
                staged = staged.rename(os.path.realpath(target))
                sync(staged.parent)
            except BaseException:
                shutil.rmtree(staged, ignore_errors=True)
                raise
        except OSError as error:
            raise OutputError(f"the model cannot be saved: {error.strerror or type(error).__name__}") from None

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, seed: int | None = None) -> "Synthesizer":
        """Reads a saved model back. It can sample, and its claim is the one it was saved with.

        Privacy: no rows are read; sampling more is free.
        Raises: InputError if the folder is missing, is no saved model, or is damaged.
        """
        folder = _read_path(directory, name="the folder")
        description, claim = read_description(folder)
        document = claim.document
        self = cls(
            description.schema,
            document["budget"]["epsilon_asked"],
            document["budget"]["delta_asked"],
            method=description.method,
            seed=seed,
        )
        with reading_saved():
            self._fitted = load_synthesizer(folder / WEIGHTS_FOLDER)
            self._encoder = TableEncoder(description.schema, description.header)
            # A row that nobody gets: a model that does not fit its columns is told here and not in the midst of a run.
            # It may break rules between columns, which are for `RowSource` to keep.
            rng = np.random.default_rng()
            for chunk in self._fitted.sample(1, rng=rng):
                self._encoder.decode(chunk, rng)
        self._rng = make_streams(seed).model
        self._line_ending = description.line_ending
        records = int(document["public"]["records"])
        self._claim = claim.for_output(rows=records, chosen_by=RECORDS, from_saved_model=True)
        return self


def _release_sizes(table: SourceTable, encoder: TableEncoder, *, ledger: Ledger) -> Schema:
    """The schema with the shares of units of each form, as released.

    Privacy: `count_forms` of all rows that are kept, whoever has them; how many units there are is public. Of how many
      a rule leaves no row, only the noisy counts tell.
    """
    schema = encoder.schema
    unit, units = schema.unit, table.units
    if unit is None or units is None:
        raise UsageError("the table's units were not read")

    def count() -> Arrays:
        return {"sizes": ledger.release(SIZES_LABEL, lambda: count_forms(table, units, encoder)).values}

    noisy = ledger.keep(SIZES_LABEL, count)["sizes"].astype(np.float64) / len(units.sizes)
    total = float(np.clip(noisy.sum(), 1 / len(units.sizes), 1.0)) if schema.drops_rows else 1.0
    shares = project_on_simplex(noisy, np.ones(len(noisy)), total=total) / total
    released = replace(unit, sizes=tuple(map(float, shares)))
    return replace(schema, columns=tuple(released if column is unit else column for column in schema.columns))


def check_model_folder(target: Path) -> None:
    """Makes sure that a model can be saved there. Raises: OutputError if it cannot."""
    if target.is_dir():
        if any(target.iterdir()):
            raise OutputError(f"the folder {str(target)!r} for the model is not empty")
    elif os.path.lexists(target):
        raise OutputError(f"{str(target)!r} for the model is there and is not a folder")
    try:
        staged = choose_passing_name(Path(os.path.realpath(target)))
        staged.mkdir(mode=0o700)
        staged.rmdir()
    except OSError as error:
        raise OutputError(
            f"the folder {str(target)!r} for the model cannot be created: {error.strerror or type(error).__name__}"
        ) from None


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


def _read_schema(
    specs: Schema | Mapping[str, Any] | str | os.PathLike[str], *, codebook: str | os.PathLike[str] | None
) -> Schema:
    if isinstance(specs, Schema):
        return specs
    path = _read_path(codebook, name="codebook") if codebook is not None else None
    if isinstance(specs, Mapping):
        try:
            text = json.dumps(specs, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise UsageError("specs given as a mapping must hold what JSON can hold") from None
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        return parse_specs(dict(specs), sha256=sha256, codebook=read_codebook(path) if path is not None else None)
    return read_specs(_read_path(specs, name="specs"), codebook=path)


def _read_path(value: str | os.PathLike[str], *, name: str) -> Path:
    """Raises: UsageError for what is no path."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f"{name} must be a path")
    return Path(value)


def _check_count(rows: int, *, name: str = "rows") -> int:
    """Passes a number of rows through. Raises: UsageError unless it can be acted on."""
    declared(SynthesisConfig)["rows"].check(rows, origin=name)
    return rows


def _digest(path: str | os.PathLike[str]) -> str:
    try:
        return hashlib.sha256(read_public(Path(path))).hexdigest()
    except OSError as error:
        raise InputError(f"the codebook cannot be read: {error.strerror or type(error).__name__}") from None


def _choose_bins(schema: Schema, config: SynthesisConfig) -> Schema:
    """Leaves bins to methods that need them, and to the column of a method's label; others find intervals between."""
    settings = make_settings(config.method, **config.training)
    if not finds_intervals(config.method, settings):
        return schema
    return schema.cut_at_bins(but=getattr(settings, "label", None))


def _digest_rules(schema: Schema) -> str | None:
    """A digest of the rules between columns, some of which lie in files beside the specs."""
    return hashlib.sha256(repr(schema.rules).encode()).hexdigest() if schema.rules else None


def _domains(schema: Schema) -> dict[str, list[str]]:
    domains: dict[str, list[str]] = {"codebook": [], "private": [], "waived": [*schema.waived]}
    for column in schema.columns:
        if isinstance(column, CategoricalColumn) and column.domain in domains:
            domains[column.domain].append(column.name)
    return domains
