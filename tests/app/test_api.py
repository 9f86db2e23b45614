"""The road from a table to a model: what is charged, asked and held, in which order."""

import datetime
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from threadpoolctl import threadpool_info, threadpool_limits

from dpwgan.app.api import Synthesizer, synthesize
from dpwgan.app.config import Options, SynthesisConfig
from dpwgan.app.planning import DISCOVERY_SHARE
from dpwgan.errors import DataError, UsageError
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release
from dpwgan.table import frames
from dpwgan.table.source import Piece, SourceTable, make_piece
from dpwgan.table.specs import parse_specs
from tests.end_to_end.bad_inputs import SETTINGS as FAST

MEMBER = {"member": {"type": "enum", "count": 2}}
PAID = {"type": "enum", "values_from": "data", "domain_privacy": "private", "optional": True}
SPECS = {**MEMBER, "town": PAID, "job": PAID}
RECORDS = 400


def make_watched_table(acts: list[str], *, columns: tuple[str, ...] = ("member", "town", "job")) -> SourceTable:
    """A table that notes when its rows are read."""
    cells = pl.DataFrame({name: [str(row % 2) for row in range(RECORDS)] for name in columns})

    def read() -> Iterator[Piece]:
        acts.append("read")
        yield make_piece(cells)

    return SourceTable(header=columns, records=RECORDS, pieces=read)


class Fitted(Exception):
    """Raised in place of training."""


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is charged and read, in order; training is left out."""
    seen: list[str] = []
    charge = Ledger.charge

    def watched_charge(self: Ledger, label: str, count: int = 1) -> None:
        seen.append(f"charge {label}")
        charge(self, label, count)

    def fit(self: DpWgan, *arguments: Any, **options: Any) -> None:
        seen.append("fit")
        raise Fitted

    monkeypatch.setattr(Ledger, "charge", watched_charge)
    monkeypatch.setattr(DpWgan, "fit", fit)
    return seen


def fit(synthesizer: Synthesizer, table: SourceTable) -> None:
    with pytest.raises(Fitted):
        synthesizer.fit_encoded(synthesizer.encode_table(table))


def test_every_discovery_is_charged_when_no_row_was_read_yet(acts):
    fit(Synthesizer(SPECS, 8.0, settings=FAST), make_watched_table(acts))
    assert acts == ["charge cells of town", "charge cells of job", "read", "read", "fit"]


@pytest.mark.parametrize(
    ("neighbours", "relation"),
    [("zero-out", NeighboringRelation.ZERO_OUT), ("replace-one", NeighboringRelation.REPLACE_ONE)],
)
def test_lists_are_found_under_the_relation_and_budget_that_were_planned_when_discovered(
    acts, monkeypatch, neighbours, relation
):
    asked: list[Release] = []

    def discover(self: NoiseSource, release: Release, counts: Any, *, neighboring_relation: Any) -> tuple[str, ...]:
        assert neighboring_relation is relation
        asked.append(release)
        return ()

    monkeypatch.setattr(NoiseSource, "discover", discover)
    fit(Synthesizer(SPECS, 8.0, 1e-6, neighbours=neighbours, settings=FAST), make_watched_table(acts))
    assert len(asked) == 2
    for release in asked:
        assert release.event.epsilon == pytest.approx(8.0 * DISCOVERY_SHARE / 2)
        assert release.event.delta == pytest.approx(1e-6 * DISCOVERY_SHARE / 2)


@pytest.mark.parametrize(("cells", "level", "many"), [((), "WARNING", "none"), (("a",), "INFO", "1")])
def test_how_many_cells_of_a_list_are_released_is_told(acts, monkeypatch, caplog, cells, level, many):
    caplog.set_level("INFO", logger="dpwgan")
    monkeypatch.setattr(NoiseSource, "discover", lambda self, release, counts, **more: cells)
    fit(Synthesizer(SPECS, 8.0, 1e-6, settings=FAST), make_watched_table(acts))
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "often" in record.getMessage()]
    assert [(told, text.split(" of its")[0]) for told, text in said] == [
        (level, f"column {name!r}: {many}") for name in ("town", "job")
    ]


def test_plan_is_refused_when_it_was_made_for_another_table_or_budget(acts):
    table = make_watched_table(acts, columns=("member",))
    synthesizer = Synthesizer(MEMBER, 1.0, settings=FAST)
    plan = synthesizer.plan(records=RECORDS)
    larger = synthesizer.plan(records=10 * RECORDS)
    richer = Synthesizer(MEMBER, 100.0, settings=FAST).plan(records=RECORDS)
    elsewhere = Synthesizer(SPECS, 1.0, settings=FAST).plan(records=RECORDS)
    for wrong, words in ((larger, "rows"), (richer, "settings"), (elsewhere, "specs")):
        with pytest.raises(UsageError, match=words):
            synthesizer.encode_table(table, run_plan=wrong)
    assert acts == []
    run = synthesizer.encode_table(table, run_plan=plan)
    with pytest.raises(UsageError, match="other settings"):
        Synthesizer(MEMBER, 100.0, settings=FAST).fit_encoded(run)
    with pytest.raises(UsageError, match="other settings"):
        synthesizer.fit_encoded(replace(run, run_plan=richer))
    assert "fit" not in acts


def test_matrix_products_have_the_threads_asked_for_when_fitting():
    frame = pd.DataFrame({"member": [0, 1] * 50})
    seen: list[set[int]] = []

    def count(*_: Any) -> None:
        seen.append({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})

    with threadpool_limits(limits=2):
        Synthesizer(MEMBER, 1.0, method="independent", threads=1).fit(frame, progress=count)
        count()
    assert seen[0] == {1}
    assert seen[-1] == {2}


def test_saved_model_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def name(path: Path, target: Path) -> Path:
        assert set(map(str, [path, *path.rglob("*")])) <= set(synced)
        synced.append("renamed")
        return rename(path, target)

    frame = pd.DataFrame({"member": [0, 1] * 50})
    synthesizer = Synthesizer(MEMBER, 1.0, method="independent").fit(frame)
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", name)
    synthesizer.save(tmp_path / "model")
    assert synced[-2:] == ["renamed", str(tmp_path)]


def test_polars_frame_comes_back_as_one_when_it_is_fitted_to():
    specs = {
        "town": {"type": "enum", "values": ["a", "b"]},
        "age": {"type": "integer", "min": 0, "max": 100, "missing": [""]},
        "since": {"type": "date", "min": "2020-01-01", "max": "2021-01-01"},
    }
    frame = pl.DataFrame(
        {
            "town": pl.Series(["a", "b"] * 50, dtype=pl.Categorical),
            "age": pl.Series([5, None] * 50, dtype=pl.Int16),
            "since": [datetime.date(2020, 3, 4), datetime.date(2020, 9, 1)] * 50,
        }
    )
    options: Options = {"method": "independent", "seed": 1}
    synthetic, claim = synthesize(frame, specs, 1.0, **options)
    assert (synthetic.schema, claim.rows) == (frame.schema, 100)
    cells = Synthesizer(specs, 1.0, **options).fit(frame.to_pandas()).sample_cells()
    assert_frame_equal(
        pl.concat(cells), frames.from_polars(synthetic, parse_specs(specs, sha256="")), check_dtypes=False
    )
    with pytest.raises(DataError, match="'town'"):
        synthesize(frame.with_columns(town=pl.lit("S3CRET")), specs, 1.0, **options)
    with pytest.raises(DataError, match="no rows"):
        synthesize(frame[:0], specs, 1.0, **options)


def test_options_are_those_of_the_configuration_when_compared():
    declared = get_type_hints(SynthesisConfig)
    assert get_type_hints(Options) == {
        name: hint for name, hint in declared.items() if name not in ("epsilon", "delta")
    }


FRAME = pd.DataFrame({"member": [0, 1] * 50})


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: Synthesizer(5, 1.0), "specs must be a path"),
        (lambda: Synthesizer(MEMBER, 1.0, codebook=5), "codebook must be a path"),
        (lambda: Synthesizer(MEMBER, 1.0, settings=5), "settings must be a mapping"),
        (lambda: Synthesizer(MEMBER, 1.0, settings={5: 1}), "there is no training setting 5"),
        (lambda: Synthesizer(MEMBER, 1.0).plan(records="5"), "records must be a whole number"),
        (lambda: Synthesizer(MEMBER, 1.0).fit({"member": [0, 1]}), "must be a data frame"),
        (lambda: Synthesizer(MEMBER, 1.0).fit(FRAME, progress=5), "progress must be a function"),
        (lambda: Synthesizer.load(None), "the folder must be a path"),
        (lambda: fit_short().sample("5"), "rows must be a whole number"),
        (lambda: fit_short().sample(5, where=["member"]), "where must be a text"),
        (lambda: fit_short().claim(1.5), "rows must be a whole number"),
        (lambda: fit_short().save(5), "the folder must be a path"),
    ],
)
def test_what_cannot_be_acted_on_is_a_usage_error_when_it_is_of_the_wrong_type(act, sentence):
    with pytest.raises(UsageError, match=sentence):
        act()


def fit_short() -> Synthesizer:
    return Synthesizer(MEMBER, 1.0, method="independent").fit(FRAME)


def test_bar_is_shown_on_stderr_when_progress_is_asked_for(monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    synthesize(FRAME, MEMBER, 1.0, method="independent", progress=True)
    assert "training" in stream.getvalue()
