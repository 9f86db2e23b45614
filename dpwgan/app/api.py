"""The Python interface, and the one road from a table to a synthetic one: the command line takes it too.

synthetic, claim = dpwgan.synthesize(frame, specs, epsilon=1.0)

synthesizer = dpwgan.Synthesizer(specs, epsilon=1.0).fit(frame)
synthesizer.sample(1000); synthesizer.claim(); synthesizer.save("model"); dpwgan.Synthesizer.load("model")
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from dpwgan.app.book.book import BookAccount
from dpwgan.app.claim import Claim
from dpwgan.app.config import RECORDS, Options, SynthesisConfig
from dpwgan.app.fitting import Cited, EncodedRun, claim_run, encode_run, fit_run, open_journal
from dpwgan.app.links import release_links
from dpwgan.app.planning import RunPlan, plan_run
from dpwgan.app.progress import ignore_progress, show_bar
from dpwgan.app.public_table import read_public_table
from dpwgan.app.sampling import RowSource
from dpwgan.app.saved_model import WEIGHTS_FOLDER, ModelDescription, load_synthesizer, read_description, save_model
from dpwgan.app.teamwork import agree_on_charges, do_together, open_together
from dpwgan.app.together import draw_chunks
from dpwgan.errors import UsageError
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.methods.registry import finds_intervals, make_settings
from dpwgan.privacy.randomness import make_streams
from dpwgan.settings import declared
from dpwgan.stages import Progress
from dpwgan.table import frames
from dpwgan.table.codebook import read_codebook
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.stream import read_public
from dpwgan.table.rows import serve
from dpwgan.table.saved import reading_saved
from dpwgan.table.schema import Schema
from dpwgan.table.source import SourceTable, make_table
from dpwgan.table.specs import parse_specs, read_specs
from dpwgan.table.units.units import read_units
from dpwgan.table.workers import Team

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    Frame = TypeVar("Frame", pd.DataFrame, pl.DataFrame)


def synthesize(
    frame: "Frame",
    specs: Schema | Mapping[str, Any] | str | os.PathLike[str],
    epsilon: float,
    delta: float | None = None,
    *,
    codebook: str | os.PathLike[str] | None = None,
    progress: Progress | bool = False,
    **options: "Unpack[Options]",
) -> tuple["Frame", Claim]:
    """Makes a synthetic data frame with the columns of a private one, and the claim that goes with it.

    Takes what `Synthesizer` and its `fit` take; `rows` defaults to the number of rows of `frame`.
    Privacy: (epsilon, delta)-differential privacy for one row of `frame`, as the claim says in full.
    Raises: the errors of dpwgan.errors, each one sentence without any cell.
    """
    synthesizer = Synthesizer(specs, epsilon, delta, codebook=codebook, **options).fit(frame, progress=progress)
    return cast("Frame", synthesizer.sample()), synthesizer.claim()


@dataclass(kw_only=True, eq=False)
class _Fit:
    """What a fit leaves: the model with its own randomness, the claim, and how its rows are written."""

    model: FittedSynthesizer
    rng: np.random.Generator
    claim: Claim
    encoder: TableEncoder
    line_ending: str
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    account: BookAccount | None = None


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
        self.config = config = SynthesisConfig(epsilon=epsilon, delta=delta, **options)
        self.schema = _choose_bins(schema, config)
        text = None if codebook is None else read_public(Path(codebook), name="the codebook")
        sha256 = None if text is None else hashlib.sha256(text).hexdigest()
        public = None if config.public is None else read_public_table(config.public, self.schema, memory=config.memory)
        self._cited = Cited(codebook_sha256=sha256, public=public)
        self._fit: _Fit | None = None
        self._dtypes: Mapping[str, Any] | None = {}  # none for polars

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
        """The table, which then says whose each row is, if the specs name a unit, and counts the rows that are kept.

        Privacy: that number is the same in neighbouring tables, and public.
        Raises: DataError if a row does not say whose it is.
        """
        unit = self.schema.unit
        return table if unit is None or table.units is not None else read_units(table, unit)

    # ------------------------------------------------------------------------------------------------------------- fit

    def fit(self, frame: "pd.DataFrame | pl.DataFrame", *, progress: Progress | bool = False) -> "Synthesizer":
        """Fits to a data frame of pandas or polars; samples will be of the same kind.

        `progress` is called with (step, steps, epsilon spent so far); True shows a bar, also in a notebook
        that has ipywidgets.
        Raises: DataError if it does not fit the specs, PrivacyError, ResourceError; UsageError for no data frame.
        """
        if not (isinstance(progress, bool) or callable(progress)):
            raise UsageError("progress must be a function, True or False")
        if isinstance(frame, pl.DataFrame):
            table = replace(make_table(frames.from_polars(frame, self.schema), frame.columns), types=frame.schema)
            dtypes = None
        else:
            table = make_table(frames.from_pandas(frame, self.schema), [*frame.columns])
            dtypes = dict(frame.dtypes)
        with show_bar() if progress is True else nullcontext(progress or ignore_progress) as callback:
            self.fit_encoded(self.encode_table(table), progress=callback)
        self._dtypes = dtypes
        return self

    def encode_table(
        self, table: SourceTable, *, run_plan: RunPlan | None = None, team: Team | None = None
    ) -> EncodedRun:
        """Does all that needs the cells of a table: discovers lists of cells and encodes. `fit_encoded` comes next.

        Afterwards the table is not needed any more, so that training need not hold it in memory. With a `team` only
        this worker's share of the rows is encoded.
        With a checkpoint, what an earlier life of the run released is taken from there and not released again. With a
        book all that the run will charge is set aside there.
        Privacy: opens journal and ledger; each discovery is charged before the first row is read.
        Raises: UsageError if `run_plan` was made for something else, after a fit, or if the checkpoint is not this
          run's, or the book not for it; PrivacyError if the book has no room; InputError if one is damaged;
          OutputError, TransferError; else as `fit`.
        """
        self._refuse_second_fit()
        table = self.find_units(table)
        if run_plan is None:
            run_plan = self.plan(records=table.records)
        run_plan.refuse_unless_for(self.schema, records=table.records, config=self.config)
        journal = open_together(team, partial(open_journal, table, run_plan, cited=self._cited))
        try:
            run = do_together(team, partial(encode_run, table, run_plan, journal=journal, team=team, cited=self._cited))
            agree_on_charges(team, run.ledger)
        except BaseException:
            journal.close()
            raise
        return run

    def fit_encoded(self, run: EncodedRun, *, progress: Progress = ignore_progress) -> "Synthesizer":
        """Trains on the result of `encode_table`; each step is charged before it happens.

        Of a team this is the chief: the others `serve_encoded`.
        Raises: UsageError after a fit, or if another synthesizer's settings made `run`; else as `fit`.
        """
        self._refuse_second_fit()
        self._refuse_other_settings(run)
        if run.team is not None:
            run.team.follow(lambda: run.ledger.charged)
        account = run.ledger.journal.account if isinstance(run.ledger.journal.account, BookAccount) else None
        try:
            # Without a number of threads the matrix products of numpy take all cores, as those of TensorFlow do.
            with threadpool_limits(limits=self.config.threads):
                model, certificate = fit_run(run, progress=progress)
                run = release_links(run, model)
            book = None if account is None else account.settle()
        finally:
            run.ledger.journal.close()
        self._fit = _Fit(
            model=model,
            rng=run.streams.model,
            claim=claim_run(run, certificate=certificate, book=book),
            encoder=run.encoder,
            line_ending=run.line_ending,
            types=run.types,
            account=account,
        )
        self.schema = run.encoder.schema
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

    def _refuse_second_fit(self) -> None:
        if self._fit is not None:
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
        if self._dtypes is None:
            return frames.to_polars(cells, self.schema, self._require_fit().types)
        return frames.to_pandas(cells, self.schema, self._dtypes)

    def sample_cells(self, rows: int | None = None, *, where: str | None = None) -> Iterator[pl.DataFrame]:
        """Samples tables of cells, chunk by chunk, every cell and rule checked against the specs.

        Cells are text, of the type `pl.Enum` where the specs list them.

        Chunks are made side by side, by as many threads as the settings say, each with a stream of randomness of its
        own; what is made does not depend on how many there are.
        Raises: as `sample`; DpwganError if a cell is not legal, which would be an error of this tool.
        """
        fit = self._require_fit()
        rows = fit.claim.rows if rows is None else _check_count(rows)
        if where is not None and not isinstance(where, str):
            raise UsageError("where must be a text: an SQL condition")
        source = RowSource(fit.model, fit.encoder, rows=rows, where=where)
        return draw_chunks(source, fit.encoder, rows, rng=fit.rng, threads=self.config.threads)

    def note_output(self, sha256: str) -> None:
        """Notes a table written in the book, if there is one. Raises: InputError, OutputError, TransferError."""
        if (account := self._require_fit().account) is not None:
            account.note_output(sha256)

    def _require_fit(self) -> _Fit:
        if self._fit is None:
            raise UsageError("the synthesizer is not fitted yet")
        return self._fit

    def claim(self, rows: int | None = None) -> Claim:
        """The claim; with `rows`, for another table of that many rows sampled from this model.

        Raises: UsageError before `fit`.
        """
        claim = self._require_fit().claim
        if rows is None or _check_count(rows) == claim.rows:
            return claim
        loaded = bool(claim.document["output"]["from_saved_model"])
        return claim.for_output(rows=rows, chosen_by="asked for", from_saved_model=loaded)

    @property
    def form(self) -> dict[str, Any]:
        """How a table of samples is written: header, line ending, types of columns. Raises: UsageError before `fit`."""
        fit = self._require_fit()
        return {
            "header": fit.encoder.header,
            "line_ending": fit.line_ending,
            "schema": self.schema,
            "types": fit.types,
            "threads": self.config.threads,
        }

    # ------------------------------------------------------------------------------------------------------------ save

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Keeps the fitted model in a new folder, which appears whole or not at all.

        Privacy: the model is covered by the claim, which is saved with it. No row is saved.
        Raises: UsageError before `fit`; OutputError if the folder is there already and not empty, or cannot be made.
        """
        target, fit = _read_path(directory, name="the folder"), self._require_fit()
        description = ModelDescription(
            method=self.config.method, header=fit.encoder.header, line_ending=fit.line_ending, schema=self.schema
        )
        save_model(target, fit.model, description, claim=fit.claim)

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], *, seed: int | None = None, threads: int | None = None
    ) -> "Synthesizer":
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
            threads=threads,
        )
        with reading_saved():
            model = load_synthesizer(folder / WEIGHTS_FOLDER)
            encoder = TableEncoder(description.schema, description.header)
            # A row that nobody gets: a model that does not fit its columns is told here and not in the midst of a run.
            # It may break rules between columns, which are for `RowSource` to keep.
            rng = np.random.default_rng()
            for chunk in model.sample(1, rng=rng):
                encoder.decode(chunk, rng)
        records = int(document["public"]["records"])
        self._fit = _Fit(
            model=model,
            rng=make_streams(seed).model,
            claim=claim.for_output(rows=records, chosen_by=RECORDS, from_saved_model=True),
            encoder=encoder,
            line_ending=description.line_ending,
        )
        return self


def _choose_bins(schema: Schema, config: SynthesisConfig) -> Schema:
    """Leaves bins to methods that need them, and to the column of a method's label; others find intervals between."""
    settings = make_settings(config.method, **config.training)
    if not finds_intervals(config.method, settings):
        return schema
    return schema.cut_at_bins(but=getattr(settings, "label", None))


def _read_schema(
    specs: Schema | Mapping[str, Any] | str | os.PathLike[str], *, codebook: str | os.PathLike[str] | None
) -> Schema:
    """The schema of specs that are a path, a document or a schema. Raises: UsageError, SpecsError, InputError."""
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
    """Passes a path through. Raises: UsageError for what is none."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f"{name} must be a path")
    return Path(value)


def _check_count(rows: int, *, name: str = "rows") -> int:
    """Passes a number of rows through. Raises: UsageError unless it can be acted on."""
    declared(SynthesisConfig)["rows"].check(rows, origin=name)
    return rows
