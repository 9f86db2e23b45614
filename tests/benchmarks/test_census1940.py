"""The made-up population of 1940: legal, of full width, its columns hanging together, the same for the same seed."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.census1940 import SPECS, draw_pieces, write_population
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import DerivedColumn
from dpwgan.table.specs import read_specs

SCHEMA = read_specs(SPECS)
ROWS = 6_000


@pytest.fixture(scope="module")
def population() -> pl.DataFrame:
    return pl.concat(list(draw_pieces(SCHEMA, rows=ROWS, seed=3)))


def test_every_cell_is_legal_when_a_population_is_drawn(population: pl.DataFrame) -> None:
    assert population.width == 98
    encoded = TableEncoder(SCHEMA, tuple(population.columns)).encode_frames(iter([population]), records=ROWS)
    assert encoded.records == ROWS  # the encoder refuses an illegal cell


def test_derived_columns_follow_their_rule_when_a_population_is_drawn(population: pl.DataFrame) -> None:
    derived = [column for column in SCHEMA.columns if isinstance(column, DerivedColumn)]
    assert len(derived) == 15
    for column in derived:
        sources, cells = population[column.source].to_list(), population[column.name].to_list()
        assert cells[:500] == [column.derive(cell, available=True) for cell in sources[:500]]


@pytest.mark.parametrize(
    ("one", "other"), [("COUNTY", "SEA"), ("EDUCD", "OCC"), ("CITY", "CITYPOP"), ("AGE", "MARST"), ("OCC", "OCCSCORE")]
)
def test_columns_hang_together_when_a_population_is_drawn(population: pl.DataFrame, one: str, other: str) -> None:
    rng = np.random.default_rng(0)
    first, second = (population[name].rank("dense").to_numpy().astype(np.int64) for name in (one, other))

    def information(left: np.ndarray, right: np.ndarray) -> float:
        joint = np.unique(left * 100_000 + right, return_counts=True)[1] / len(left)
        alone = [np.unique(part, return_counts=True)[1] / len(part) for part in (left, right)]
        return float(np.sum(joint * np.log(joint)) - sum(np.sum(part * np.log(part)) for part in alone))

    shuffled = max(information(first, rng.permutation(second)) for _ in range(5))
    assert information(first, second) > 1.2 * shuffled


def test_file_is_the_same_when_the_seed_is(tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        write_population(tmp_path / name, rows=300, seed=seed)
    read = {name: (tmp_path / name / "data.csv").read_bytes() for name in "abc"}
    assert read["a"] == read["b"] != read["c"]
    assert read["a"].count(b"\n") == 301
    assert (tmp_path / "a" / "data-specs.json").read_bytes() == SPECS.read_bytes()
