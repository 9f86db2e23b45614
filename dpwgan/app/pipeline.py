"""The story of a run, one call a stage: specs, outputs, n and header, plan, fit, sample, decode, write, claim.

What can fail early fails early: specs, paths, header, budget and memory are settled before TensorFlow is imported.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from dpwgan.app.api import Synthesizer
from dpwgan.app.claim import Claim
from dpwgan.app.claims.signature import read_key
from dpwgan.app.config import ResampleConfig, RunConfig
from dpwgan.app.delivery import Delivery, Voice
from dpwgan.app.interruption import complete, pass_point_of_no_return
from dpwgan.app.logs import LOGGER, print_out
from dpwgan.app.memory import BASE_BYTES, check_memory, choose_limit, gigabytes
from dpwgan.app.planning import warn_of_noise
from dpwgan.app.preview import show_plan
from dpwgan.app.progress import PATIENCE, duration, show_progress
from dpwgan.app.sampling import check_condition
from dpwgan.app.saved_model import check_model_folder
from dpwgan.app.teamwork import do_together, gather_team
from dpwgan.errors import InputError, OutputError
from dpwgan.table.files.arrays import measure_arrays
from dpwgan.table.files.parts import list_parts
from dpwgan.table.files.places import choose_passing_name, goes_to_stream, hold_place
from dpwgan.table.files.reader import check_format, get_format, open_table
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.files.writer import WrittenTable, check_writable, write_bytes, write_table
from dpwgan.table.schema import Schema
from dpwgan.table.source import SourceTable
from dpwgan.table.specs import read_specs


def run(config: RunConfig) -> None:
    """Makes one release, or with `check` says what it would be.

    Raises: the errors of dpwgan.errors; in each case no new output file is there.
    """
    schema = read_specs(config.specs, codebook=config.codebook)
    check_format(config.output, schema)
    if config.where is not None:
        check_condition(config.where, schema)
    with ExitStack() as places:
        if config.cluster is None and not config.check:
            hold_outputs(config, places)
        _run(config, schema, places)


def _run(config: RunConfig, schema: Schema, places: ExitStack) -> None:
    LOGGER.debug("reading the table")
    table = read(config.data, schema, memory=config.synthesis.memory)
    synthesizer = Synthesizer(schema, codebook=config.codebook, **vars(config.synthesis))
    table = synthesizer.find_units(table)
    run_plan = synthesizer.plan(records=table.records)
    memory = run_plan.plan_memory()
    rows, _ = config.synthesis.rows_and_reason
    columns = sum(map(schema.is_written, table.header))
    check_room(config.output, rows=table.records if rows is None else rows, columns=columns)
    if config.check:
        warn_of_noise(run_plan)
        show_plan(run_plan, memory, voice=config.voice)
        return
    quick = run_plan.seconds < PATIENCE and not memory.on_disk and config.voice.log_format == "text"
    LOGGER.log(
        logging.DEBUG if quick else logging.INFO,
        "%d rows of %d columns, encoded width %d; about %s and %s of memory%s",
        table.records,
        len(table.header),
        run_plan.shape.width,
        duration(run_plan.seconds),
        gigabytes(memory.needed),
        "; the rows are kept on disk" if memory.on_disk else "",
        extra={"fields": {"event": "plan", "records": table.records, "width": run_plan.shape.width}},
    )
    units = None if table.units is None else table.units.count
    with gather_team(config, run_plan=run_plan, units=units) as team:
        if team is not None:
            # Together: a chief that ended before it met the others would leave them waiting for it.
            do_together(team, partial(hold_outputs, config, places) if team.leads else lambda: None)
        with show_progress(config.voice) as progress:
            encoded = synthesizer.encode_table(table, run_plan=run_plan, team=team)
            del table  # its text need not be held while training
            if team is not None and not team.leads:
                synthesizer.serve_encoded(encoded, team=team)
                return
            synthesizer.fit_encoded(encoded, progress=progress)
        del encoded  # the rows are not needed any more
        write(synthesizer, synthesizer.claim(), config=config)


def resample(config: ResampleConfig) -> None:
    """Writes more rows from a saved model.

    Privacy: reads no private row and costs nothing: post-processing of a release.
    Raises: the errors of dpwgan.errors; in each case no new output file is there.
    """
    synthesizer = Synthesizer.load(config.model, seed=config.seed, threads=config.threads)
    check_format(config.output, synthesizer.schema)
    if config.where is not None:
        check_condition(config.where, synthesizer.schema)
    with ExitStack() as places:
        hold_outputs(config, places)
        claim = synthesizer.claim(config.rows)
        check_room(config.output, rows=claim.rows, columns=len(synthesizer.form["header"]))
        write(synthesizer, claim, config=config)


def hold_outputs(config: Delivery, places: ExitStack) -> None:
    """Makes sure that every output can be written, and keeps their places for this run until the block ends.

    Raises: OutputError if something cannot, or another run is about to.
    """
    if sys.stdout is None and "-" in (config.output, config.claim):
        raise OutputError("stdout is closed")
    if config.output != "-":
        check_writable(config.output)
    if config.claim_path is not None:
        check_writable(config.claim_path)
        if config.claim_path.is_file():
            LOGGER.warning(
                "the claim %r will be replaced: if its table was given away, that release still counts, and adds up "
                "with others",
                str(config.claim_path),
            )
    elif config.claim is None and config.voice.log_format == "text":
        LOGGER.warning("the claim will be in no file, and cannot be checked later: --claim PATH names one")
    if config.sign is not None:
        read_key(config.sign)
    if config.signature_path is not None:
        check_writable(config.signature_path)
    if config.save_model is not None:
        check_model_folder(config.save_model)
    files: list[str | Path] = [] if goes_to_stream(config.output) else [config.output]
    files += [path for path in (config.claim_path, config.save_model) if path is not None]
    for path in files:
        places.enter_context(hold_place(path))


def check_room(output: str, *, rows: int, columns: int) -> None:
    """Raises: OutputError if the disk has no room even for the separators of a CSV file."""
    if goes_to_stream(output) or not output.lower().endswith(".csv"):
        return  # a compressed one may take next to nothing
    with suppress(OSError):  # of what does not tell how much is free
        if rows * columns > shutil.disk_usage(os.path.dirname(os.path.realpath(output))).free:
            needed = gigabytes(rows * columns)
            raise OutputError(
                f"there is no room for {output!r}: {rows} rows of {columns} cells take more than {needed}"
            )


def read(path: str, schema: Schema, *, memory: int | None = None) -> SourceTable:
    """Opens the table: header checked, rows counted, no cell parsed.

    Raises: ResourceError for an .npz too large for the memory there is; else as `open_table`.
    """
    try:
        size = os.stat(path).st_size if path != "-" and list_parts(path) is None else 0
    except FileNotFoundError:
        raise InputError(f"the table {path!r} does not exist") from None
    except (OSError, ValueError):
        raise InputError(f"the table {path!r} cannot be opened") from None
    if get_format(path) == "npz":
        # Its bytes and its arrays are held side by side, the arrays until all rows are encoded.
        check_memory(BASE_BYTES + size + measure_arrays(path), limit=choose_limit(memory))
    return open_table(path, schema)


def write(synthesizer: Synthesizer, claim: Claim, *, config: Delivery) -> None:
    """Samples, decodes, validates and writes the table; its claim is put in place with it, and then said aloud.

    Raises: OutputError, TransferError; whatever sampling raises. No table appears then, and no model.
    """
    claim = claim.for_output_with(where=config.where)
    goes_to_file, undo = not goes_to_stream(config.output), ExitStack()

    def make_claim(written: WrittenTable) -> bytes:
        """Called when the table is complete and not to be seen yet: what can still fail has to fail here."""
        nonlocal claim
        claim = claim.for_output_with(sha256=written.sha256)
        synthesizer.note_output(written.sha256)
        if config.claim == "-":
            print_out(claim.to_text())
        content = claim.to_json().encode()
        path, signature = config.claim_path, config.signature_path
        if config.sign is not None and path is not None and signature is not None:
            before = read_bytes(signature) if signature.is_file() else None
            write_bytes(signature, read_key(config.sign).sign(content))
            undo.callback(_take_back, signature, before, claim=path, signed=content)
        if goes_to_file:
            pass_point_of_no_return()
        return content

    chunks = synthesizer.sample_cells(claim.rows, where=config.where)
    LOGGER.debug("sampling and writing %d rows", claim.rows)
    with _saved(synthesizer, config.save_model), undo:
        if config.claim_path is not None:
            write_table(config.output, chunks, claim_path=config.claim_path, make_claim=make_claim, **synthesizer.form)
        else:
            make_claim(write_table(config.output, chunks, **synthesizer.form))
        complete()
        undo.pop_all()
    say(claim, printed=config.claim == "-", voice=config.voice)


def _take_back(signature: Path, before: bytes | None, *, claim: Path, signed: bytes) -> None:
    """Puts back the signature that was there, if any, unless the claim stays: a stream's reader has seen some rows."""
    with suppress(OSError):
        if claim.is_file() and claim.read_bytes() == signed:
            return
    if before is None:
        signature.unlink(missing_ok=True)
    else:
        write_bytes(signature, before)


@contextmanager
def _saved(synthesizer: Synthesizer, folder: Path | None) -> Iterator[None]:
    """Saves the model before the table appears, and takes it back if the table does not."""
    if folder is not None:
        synthesizer.save(folder)
    try:
        yield
    except BaseException:
        if folder is not None:
            # At once out of sight, whether or not all of it can be removed.
            gone = choose_passing_name(folder)
            try:
                os.rename(folder, gone)
            except OSError:
                gone = folder
            shutil.rmtree(gone, ignore_errors=True)
        raise


def say(claim: Claim, *, printed: bool, voice: Voice) -> None:
    """Says what the claim comes to on stderr, or all of it to who wants to hear more, unless it was printed on stdout.

    What is not private is always said.
    """
    if voice.log_format == "json":
        LOGGER.info("privacy claim", extra={"fields": {"event": "claim", "claim": claim.document}})
    elif not printed and (claim.private or voice.verbose):
        for line in claim.to_text().splitlines() if voice.verbose else claim.document["summary"]:
            LOGGER.info("%s", line)
    if not claim.private:
        LOGGER.warning("%s", claim.document["statement"])
