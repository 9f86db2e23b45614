"""The made-up population of 1940: legal, of full width, its columns hanging together, the same for the same seed."""

import polars as pl
import pytest

from benchmarks.census1940 import SPECS, draw_pieces, write_population
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import read_specs
from tests.rows import encode_table

SCHEMA = read_specs(SPECS)
ROWS = 6_000


@pytest.fixture(scope="module")
def population() -> pl.DataFrame:
    return pl.concat(list(draw_pieces(SCHEMA, rows=ROWS, seed=3)))


def test_every_cell_is_legal_when_a_population_is_drawn(population):
    assert population.width == 98
    encoded = encode_table(TableEncoder(SCHEMA, tuple(population.columns)), population)
    assert encoded.records == ROWS  # the encoder refuses an illegal cell


def test_file_is_the_same_when_the_seed_is(tmp_path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        write_population(tmp_path / name, rows=300, seed=seed)
    read = {name: (tmp_path / name / "data.csv").read_bytes() for name in "abc"}
    assert read["a"] == read["b"] != read["c"]
    assert read["a"].count(b"\n") == 301
    assert (tmp_path / "a" / "data-specs.json").read_bytes() == SPECS.read_bytes()
