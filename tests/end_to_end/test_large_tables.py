"""Whole runs on tables that pass --memory: the same release as in memory, and nothing left behind."""

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dpwgan.app import api
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.methods.query_gan import QueryGan
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from tests.end_to_end.bad_inputs import FAST, run_inside, write_good

pytestmark = pytest.mark.slow

QUICK = ("--fit-steps", "5", "--rounds", "1", "--codes", "8", "--steps", "5", "--batch-size", "8")
NETWORKS = ("--method", "query-gan", "--oracle", "one-layer", "--rounds", "2", "--codes", "16")
ARGUMENTS = ("specs.json", "1.0", "--seed", "3")
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_good(tmp_path)
    cells = pl.read_csv(tmp_path / "data.csv", infer_schema=False)
    cells.write_parquet(tmp_path / "data.parquet")
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress((tmp_path / "data.csv").read_bytes()))
    return partial(run_inside, tmp_path)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    # TensorFlow keeps code that it has traced there, and no rows.
    assert [path.name for path in folder.iterdir() if "autograph" not in path.name] == []


def plan(run: Run, capfd: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    capfd.readouterr()
    assert run("data.csv", "-", *ARGUMENTS, "--check", "--log-format", "json", *flags) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    return document


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes of each fit whether its rows were on disk."""
    seen: list[bool] = []

    def watch(method: type[DpWgan] | type[QueryGan]) -> None:
        fit = method.fit

        def watched(self: Any, plan: Any, run: Any) -> Any:
            seen.append(run.rows.own.on_disk)
            return fit(self, plan, run)

        monkeypatch.setattr(method, "fit", watched)

    watch(DpWgan)
    watch(QueryGan)
    return seen


@pytest.mark.parametrize("flags", [FAST, QUICK, NETWORKS], ids=["critic alone", "with an anchor", "one-layer networks"])
def test_release_is_the_same_when_the_rows_are_on_disk(run, tmp_path, scratch, places, capfd, flags):
    in_memory = plan(run, capfd, *flags)
    assert in_memory["disk_bytes"] == 0
    less = ("--memory", str(in_memory["memory_bytes"] - 1))
    on_disk = plan(run, capfd, *flags, *less)
    assert on_disk["disk_bytes"] > 0
    assert on_disk["memory_bytes"] < on_disk["memory_limit_bytes"] < in_memory["memory_bytes"]
    assert run("data.csv", "memory.csv", *ARGUMENTS, *flags) == 0
    assert run("data.csv", "disk.csv", *ARGUMENTS, *flags, *less) == 0
    assert run("data.csv.gz", "disk.csv.gz", *ARGUMENTS, *flags, *less) == 0
    assert run("data.parquet", "disk.parquet", *ARGUMENTS, *flags, *less) == 0
    assert places == [False, True, True, True]
    expected = (tmp_path / "memory.csv").read_bytes()
    assert (tmp_path / "disk.csv").read_bytes() == expected
    assert gzip.decompress((tmp_path / "disk.csv.gz").read_bytes()) == expected
    written = pl.read_parquet(tmp_path / "disk.parquet")
    cells = pl.read_csv(tmp_path / "memory.csv", infer_schema=False)
    assert written["age"].cast(pl.String).to_list() == cells["age"].to_list()
    assert "the rows are kept on disk" in capfd.readouterr().err


def test_check_says_where_the_rows_will_lie_when_they_do_not_fit(run, capfd):
    needed = plan(run, capfd, *FAST)["memory_bytes"]
    assert run("data.csv", "-", *ARGUMENTS, "--check", "--memory", str(needed - 1), *FAST) == 0
    assert "; the rows are kept on disk, about 0.0 GB in TMPDIR" in capfd.readouterr().out


def test_run_ends_in_one_sentence_when_the_disk_has_no_room_for_the_rows(run, tmp_path, scratch, monkeypatch, capfd):
    needed = plan(run, capfd, *FAST)["memory_bytes"]

    def refuse(*arguments: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert run("data.csv", "out.csv", *ARGUMENTS, *FAST, "--memory", str(needed - 1), "--quiet") == 74
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert "The rows need 0.0 GB on the disk of" in err
    assert "No space left on device" in err
    assert not (tmp_path / "out.csv").exists()


def test_rows_do_not_depend_on_the_number_of_threads_when_they_are_sampled(run, tmp_path):
    flags = ("--method", "independent", "--rows", "200000")
    for threads in ("1", "3"):
        assert run("data.csv", f"{threads}.csv", *ARGUMENTS, *flags, "--threads", threads) == 0
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "3.csv").read_bytes()
    assert (tmp_path / "1.csv").read_bytes().count(b"\n") == 200_001


def test_no_more_chunks_are_sampled_than_threads_can_hold_when_rows_are_many(run, tmp_path, monkeypatch):
    assert run("data.csv", "out.csv", *ARGUMENTS, "--method", "independent", "--save-model", "model") == 0
    decoded: list[int] = []
    decode = TableEncoder.decode

    def watched(self: TableEncoder, encoded: EncodedTable, *arguments: Any, **options: Any) -> pl.DataFrame:
        decoded.append(encoded.records)
        return decode(self, encoded, *arguments, **options)

    monkeypatch.setattr(TableEncoder, "decode", watched)
    synthesizer = api.Synthesizer.load(tmp_path / "model")
    frames = synthesizer.sample_cells(100_000_000)
    for number in range(1, 4):
        assert next(frames).height == 65_536
        assert len(decoded) <= number + 1 + len(os.sched_getaffinity(0))
    frames.close()  # type: ignore[attr-defined]
