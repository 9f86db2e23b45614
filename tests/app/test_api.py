"""The road from a table to a model: what is charged, asked and held, in which order."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpwgan.app.api import Synthesizer
from dpwgan.app.planning import DISCOVERY_SHARE
from dpwgan.errors import UsageError
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release
from dpwgan.table.source import Piece, SourceTable, make_piece
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


def test_every_discovery_is_charged_when_no_row_was_read_yet(acts: list[str]) -> None:
    fit(Synthesizer(SPECS, 8.0, settings=FAST), make_watched_table(acts))
    assert acts == ["charge cells of town", "charge cells of job", "read", "read", "fit"]


@pytest.mark.parametrize(
    ("neighbours", "relation"),
    [("zero-out", NeighboringRelation.ZERO_OUT), ("replace-one", NeighboringRelation.REPLACE_ONE)],
)
def test_lists_are_found_under_the_relation_and_budget_that_were_planned_when_discovered(
    acts: list[str], monkeypatch: pytest.MonkeyPatch, neighbours: str, relation: NeighboringRelation
) -> None:
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


def test_plan_is_refused_when_it_was_made_for_another_table_or_budget(acts: list[str]) -> None:
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


def test_matrix_products_have_the_threads_asked_for_when_fitting() -> None:
    frame = pd.DataFrame({"member": [0, 1] * 50})
    seen: list[set[int]] = []

    def count(*_: Any) -> None:
        seen.append({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})

    with threadpool_limits(limits=2):
        Synthesizer(MEMBER, 1.0, method="independent", threads=1).fit(frame, progress=count)
        count()
    assert seen[0] == {1}
    assert seen[-1] == {2}


def test_saved_model_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
