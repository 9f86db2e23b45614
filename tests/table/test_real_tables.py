"""Tables and specs as they are found, those that come with the project and public ones: legal cells come back.

The public tables are not part of the project. They are looked for in the folder that PUBLIC_TABLES names, else in
../shared/data, each as <name>/data.csv or data.csv.gz beside its data-specs.json.
"""

import gzip
import hashlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dpwgan.table.encoded import EncodedTable, Span, choose_number_type
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import write_table
from dpwgan.table.schema import CategoricalColumn, NumericColumn, UndiscoveredColumn
from dpwgan.table.specs import read_specs
from tests.programs import ROOT, TABLES
from tests.rows import encode_table

SHAPES = {"adult": (48_842, 15), "acs-national-2019": (27_253, 24), "ipums-microdata": (170_254, 35)}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_real_table_comes_back_when_it_is_encoded_decoded_and_written(name, tmp_path):
    folder = TABLES / name
    path = next(iter(sorted(folder.glob("data.csv*"))), None)
    if path is None:
        pytest.skip(f"the public table {name!r} is not here; PUBLIC_TABLES can name the folder that has it")
    schema = read_specs(folder / "data-specs.json")
    source = open_table(path, schema)
    assert (source.records, len(source.header)) == SHAPES[name]
    encoder = TableEncoder(schema, source.header)
    encoded = encoder.encode_pieces(source.pieces(), records=source.records)
    decoded = encoder.decode(encoded, np.random.default_rng(1))
    encoder.validate(decoded)
    decoded = decoded.cast(pl.String)
    write_table(tmp_path / "out.csv.gz", [decoded], header=source.header, line_ending=source.line_ending, schema=schema)
    assert open_table(tmp_path / "out.csv.gz", schema).frame().equals(decoded)
    write_table(tmp_path / "out.parquet", [decoded], header=source.header, schema=schema)
    typed, plain = (
        encode_table(encoder, open_table(tmp_path / f"out.{form}", schema).frame()) for form in ("parquet", "csv.gz")
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


@pytest.mark.parametrize("path", ["specs/nist2018-match3.json", "examples/rand-hie/data-specs.json"])
def test_codes_come_back_when_sampled_rows_are_encoded_again(path):
    schema = replace(read_specs(ROOT / path), rules=())
    assert not any(isinstance(column, UndiscoveredColumn) for column in schema.columns)
    encoder = TableEncoder(schema, [column.name for column in schema.columns])
    rng = np.random.default_rng(7)
    # Every code of every list, the longest one once through.
    coded: list[Span] = [span for span in encoder.spans if span.head != "linear"]
    records = max(span.categories for span in coded)
    codes = np.stack([np.arange(records) % span.categories for span in coded], axis=1).astype(np.int32)
    ends = [(span.first_level, span.last_level) for span in encoder.spans if span.head == "linear"]
    numbers = np.stack([rng.uniform(*end, records) for end in ends], axis=1).astype(choose_number_type(encoder.spans))
    frame = encoder.decode(EncodedTable(codes=codes, numbers=numbers, spans=encoder.spans), rng)
    encoder.validate(frame)
    again = encode_table(encoder, frame)
    assert np.array_equal(again.codes, codes)
    for span in encoder.spans:
        column = schema.by_name[span.column]
        if span.role == "number" and isinstance(column, NumericColumn):
            beside = [other for other in coded if other.column == span.column]
            available = codes[:, beside[0].source] == beside[0].categories - 1 if beside else slice(None)
            width = max(column.maximum - column.minimum, 1e-300)
            step = (1.0 if column.integer else 10.0**-column.decimals) / width
            error = np.abs(again.numbers[available, span.source] - numbers[available, span.source]).max()
            # Half a step inside the range; at its ends, where only part of a step is left, up to a whole one.
            assert error <= step + 2.0**-23


def quote(data: bytes) -> bytes:
    return b"".join(b",".join(b'"%b"' % cell for cell in line.split(b",")) + b"\n" for line in data.splitlines())


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        quote,
        lambda data: data.rstrip(b"\n"),
        lambda data: data + b"\n\n",
        gzip.compress,
    ],
    ids=["as it is", "CRLF", "byte order mark", "quoted", "no last line ending", "blank lines", "gzip"],
)
def test_example_table_is_encoded_as_ever_when_its_file_is_written_another_way(tmp_path, change):
    folder = ROOT / "examples/rand-hie"
    schema = read_specs(folder / "data-specs.json")
    (tmp_path / "data.csv").write_bytes(change((folder / "data.csv").read_bytes()))
    source = open_table(tmp_path / "data.csv", schema)
    assert (source.records, len(source.header)) == (20_190, 10)
    encoder = TableEncoder(schema, source.header)
    encoded = encoder.encode_pieces(source.pieces(), records=source.records)
    # What the readers before this one made of the same file.
    digests = [hashlib.sha256(array.tobytes()).hexdigest()[:20] for array in (encoded.codes, encoded.numbers)]
    assert digests == ["7554cd59db7d45b08945", "fecbde393f5541bf158d"]
    encoder.validate(encoder.decode(encoded, np.random.default_rng(1)))
