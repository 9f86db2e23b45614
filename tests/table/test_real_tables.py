"""Public tables as they are found: every cell of a list comes back exactly, every number within its digits.

The tables are not part of the project. They are looked for in the folder that DPWGAN_TABLES names, else in
../shared/data, each as <name>/data.csv or data.csv.gz beside its data-specs.json.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpwgan.table.encoder import TableEncoder
from dpwgan.table.reader import open_table
from dpwgan.table.schema import CategoricalColumn, NumericColumn
from dpwgan.table.specs import read_specs
from dpwgan.table.writer import write_table

TABLES = Path(os.environ.get("DPWGAN_TABLES", Path(__file__).parents[3] / "shared" / "data"))
SHAPES = {"adult": (48_842, 15), "acs-national-2019": (27_253, 24), "ipums-microdata": (170_254, 35)}


@pytest.mark.parametrize("name", SHAPES)
def test_real_table_comes_back_when_it_is_encoded_decoded_and_written(name, tmp_path):
    folder = TABLES / name
    path = next(iter(sorted(folder.glob("data.csv*"))), None)
    if path is None:
        pytest.skip(f"the public table {name!r} is not here; DPWGAN_TABLES can name the folder that has it")
    schema = read_specs(folder / "data-specs.json")
    source = open_table(path, schema)
    assert (source.records, len(source.header)) == SHAPES[name]
    encoder = TableEncoder(schema, source.header)
    encoded = encoder.encode_pieces(source.pieces(), records=source.records)
    decoded = encoder.decode(encoded, np.random.default_rng(1))
    encoder.validate(decoded)
    decoded = decoded.cast(pl.String)
    write_table(tmp_path / "out.csv.gz", [decoded], header=source.header, line_ending=source.line_ending)
    assert open_table(tmp_path / "out.csv.gz", schema).frame().equals(decoded)
    write_table(tmp_path / "out.parquet", [decoded], header=source.header, schema=schema)
    typed, plain = (
        encoder.encode(open_table(tmp_path / f"out.{form}", schema).frame()) for form in ("parquet", "csv.gz")
    )
    assert (typed.codes == plain.codes).all()
    assert (typed.numbers == plain.numbers).all()
    frame = source.frame()
    for column in schema.columns:
        before, after = frame[column.name], decoded[column.name]
        if isinstance(column, CategoricalColumn):
            assert before.equals(after), column.name
        elif isinstance(column, NumericColumn):
            missing = before.is_in(list(column.missing))
            assert before.filter(missing).equals(after.filter(missing)), column.name
            error = (before.filter(~missing).cast(pl.Float64) - after.filter(~missing).cast(pl.Float64)).abs().max()
            # Half of the last digit that is written, and what a float32 of the range loses.
            precision = 0.5 * 10.0**-column.decimals + (column.maximum - column.minimum) * 2.0**-24
            assert isinstance(error, float)
            assert error <= precision, column.name
            if column.integer:
                assert error == 0, column.name
