"""Rows straight to lines: the bytes that Python's own writer makes of the decoded cells, and refused like those."""

import csv
import gzip
import hashlib
import io
import itertools
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DpwganError
from dpwgan.table import codecs, lines
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.lines import LineWriter
from dpwgan.table.schema import CategoricalColumn, Column, DerivedColumn, IdentifierColumn, NumericColumn, Schema
from dpwgan.table.writer import write_table
from tests.table import test_encoder

SPELLINGS = (
    "",
    'say "so"',
    "a,b",
    "two\nlines",
    "two\r\nlines",
    "é",
    "\ufeff",
    " x ",
    "as long as several words",
    "\0",
)
COLUMNS: tuple[Column, ...] = (
    CategoricalColumn(name="token", tokens=SPELLINGS),
    CategoricalColumn(name="pair", tokens=("0", "1")),
    CategoricalColumn(name="place", tokens=("100", "150", "0999", ""), missing=("0999", ""), integer=True),
    NumericColumn(name="age", minimum=-3, maximum=120, integer=True),
    NumericColumn(name="pay", minimum=-9, maximum=1e5, integer=False, decimals=2, missing=("N/A, or not", "")),
    NumericColumn(name="wage", minimum=0, maximum=9_999_997, integer=True, missing=("9999998",)),
    NumericColumn(name="debt", minimum=0, maximum=9_999_997, integer=True, missing=("", "-1")),
    NumericColumn(name="far", minimum=-(10**9), maximum=10**9, integer=True),
    NumericColumn(name="city", minimum=0, maximum=99_999, integer=True, edges=(0, 10, 99_999)),
    NumericColumn(name="hours", minimum=0, maximum=99, integer=True, edges=(0, 40, 99), missing=("",)),
    NumericColumn(name="even", minimum=1, maximum=9, integer=True, decimals=1),
    DerivedColumn(name="region", source="place", floordiv=100, missing="0"),
    DerivedColumn(name="days", source="hours", multiply=7),
    DerivedColumn(name="word", source="pair", mapping={"0": "no, never", "1": "yes"}),
    IdentifierColumn(name="row", start=10),
    IdentifierColumn(name="key"),
)


def draw_rows(encoder: TableEncoder, rng: np.random.Generator, records: int) -> EncodedTable:
    sizes = [span.categories for span in encoder.spans if span.head != "linear"]
    codes = np.array([rng.integers(0, size, records) for size in sizes], np.int32).T.reshape(records, len(sizes))
    numbers = rng.uniform(-0.1, 1.1, (records, len(encoder.spans) - len(sizes))).astype(np.float32)
    wild = rng.random(numbers.shape) < 0.1
    numbers[wild] = rng.choice([np.nan, np.inf, -np.inf, 0, 1, 1e-4], int(wild.sum()))
    return EncodedTable(codes=codes.copy(), numbers=numbers, spans=encoder.spans)


def write_slowly(frame: pl.DataFrame, line_ending: str) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=line_ending).writerows(frame.rows())
    return text.getvalue().encode()


@pytest.fixture(autouse=True)
def _repeat_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row names come from the system's randomness: here from the number of bytes, so that two tables have the same."""
    monkeypatch.setattr(os, "urandom", lambda size: np.random.default_rng(size).bytes(size))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    columns=st.sets(st.sampled_from([column.name for column in COLUMNS if not isinstance(column, DerivedColumn)])),
    order=st.randoms(use_true_random=False),
    records=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    line_ending=st.sampled_from(["\n", "\r\n"]),
    seed=st.integers(0, 1 << 30),
    few=st.booleans(),
)
def test_lines_are_those_of_pythons_writer_when_columns_are_any(
    monkeypatch: pytest.MonkeyPatch,
    columns: set[str],
    order: "object",
    records: list[int],
    line_ending: str,
    seed: int,
    few: bool,
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 4)
    monkeypatch.setattr(codecs, "_MOST_LISTED", 5 if few else 1 << 14)
    columns |= {"age"} if not columns - {"row", "key"} else set()
    kept = [c for c in COLUMNS if c.name in columns or (isinstance(c, DerivedColumn) and c.source in columns)]
    header = [column.name for column in kept]
    order.shuffle(header)  # type: ignore[attr-defined]
    encoder = TableEncoder(Schema(columns=tuple(kept), sha256="0"), header)
    chunks = [draw_rows(encoder, np.random.default_rng(seed + index), count) for index, count in enumerate(records)]
    writer = encoder.open_lines(line_ending=line_ending)
    written = writer.write(chunks, np.random.default_rng(seed), first_record=5)
    # A byte that no text holds fills up cells; a zero is one of the listed cells, which Python's writer takes as it is.
    frames = [
        f for f in encoder.decode_chunks([c for c in chunks if c.records], np.random.default_rng(seed), first_record=5)
    ]
    assert written.records == sum(records)
    assert b"".join(written.texts) == b"".join(write_slowly(frame, line_ending) for frame in frames)


@pytest.mark.parametrize("line_ending", ["\n", "\r\n"])
def test_empty_cells_are_quoted_when_there_is_one_column(line_ending: str) -> None:
    encoder = TableEncoder(Schema(columns=(CategoricalColumn(name="a", tokens=("", "x")),), sha256="0"), ["a"])
    rows = EncodedTable(
        codes=np.array([[1], [0], [1]], np.int32), numbers=np.zeros((3, 0), np.float32), spans=encoder.spans
    )
    written = encoder.open_lines(line_ending=line_ending).write([rows], np.random.default_rng(0))
    assert b"".join(written.texts) == line_ending.join(["x", '""', "x", ""]).encode()


def test_lines_are_written_as_frames_are_when_the_table_is_packed_or_not(tmp_path: Path) -> None:
    encoder = TableEncoder(Schema(columns=COLUMNS, sha256="0"), [column.name for column in COLUMNS])
    chunks = [draw_rows(encoder, np.random.default_rng(seed), 700) for seed in range(3)]
    writer = encoder.open_lines(line_ending="\n")
    for name in ("out.csv", "out.csv.gz"):
        texts = (writer.write([chunk], np.random.default_rng(1)) for chunk in chunks)
        frames = (f for c in chunks for f in encoder.decode_chunks([c], np.random.default_rng(1), numbers=True))
        digests = []
        for rows in (texts, frames):
            digests.append(write_table(tmp_path / name, rows, header=encoder.header).sha256)
            assert digests[-1] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert digests[0] == digests[1]
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == (tmp_path / "out.csv").read_bytes()


def test_every_size_of_number_is_written_plainly_when_it_is_not_listed() -> None:
    column = NumericColumn(name="a", minimum=0, maximum=10**8, integer=True)
    edges = [10**power + step for power, step in itertools.product(range(9), (-1, 0, 1))]
    encoder = TableEncoder(Schema(columns=(column, CategoricalColumn(name="b", tokens=("x",))), sha256="0"), ["a", "b"])
    for numbers in (edges, [number for number in edges if number < 10**7]):
        writer = encoder.open_lines(line_ending="\n")
        assert (
            writer._pack(pl.Series(numbers), "a").tobytes().replace(b"\xff", b"")
            == "".join(f"{number}," for number in numbers).encode()
        )


@pytest.mark.parametrize("code", [-1, 2, 1 << 30])
def test_rows_are_refused_as_an_internal_error_when_a_code_is_no_listed_cell(code: int) -> None:
    encoder = TableEncoder(Schema(columns=COLUMNS, sha256="0"), [column.name for column in COLUMNS])
    rows = draw_rows(encoder, np.random.default_rng(0), 600)
    rows.codes[599, next(span.source for span in encoder.spans if span.column == "pair")] = code
    with pytest.raises(DpwganError, match="a code is beyond"):
        encoder.open_lines(line_ending="\n").write([rows], np.random.default_rng(0))


def test_rows_are_refused_as_an_internal_error_when_they_are_laid_out_otherwise() -> None:
    writer = TableEncoder(Schema(columns=COLUMNS, sha256="0"), [c.name for c in COLUMNS]).open_lines(line_ending="\n")
    other = TableEncoder(Schema(columns=COLUMNS[:2], sha256="0"), ["token", "pair"])
    with pytest.raises(DpwganError, match="not laid out"):
        writer.write([draw_rows(other, np.random.default_rng(0), 3)], np.random.default_rng(0))


@pytest.mark.parametrize(
    ("column", "method", "broken"),
    [
        ("place", "list_cells", lambda codec: ["100", "150", "999", ""]),
        ("hours", "list_cells", lambda codec: [*map(str, range(99)), "100", ""]),
        ("pay", "decode", lambda codec, encoded, rng, numbers: pl.Series(["1.5"] * 3)),
        ("wage", "decode", lambda codec, encoded, rng, numbers: pl.Series([9_999_999] * 3)),
    ],
)
def test_rows_are_refused_as_an_internal_error_when_decoding_is_broken(
    monkeypatch: pytest.MonkeyPatch, column: str, method: str, broken: object
) -> None:
    kept = tuple(c for c in COLUMNS if c.name == column or c.name == "token")
    encoder = TableEncoder(Schema(columns=kept, sha256="0"), [c.name for c in kept])
    rows = draw_rows(encoder, np.random.default_rng(0), 3)
    encoder.open_lines(line_ending="\n").write([rows], np.random.default_rng(0))
    monkeypatch.setattr(type(encoder._codecs[column]), method, broken)
    if method == "list_cells":
        monkeypatch.setattr(codecs.CategoricalCodec, "list_cells", broken if column == "place" else lambda c: SPELLINGS)
    with pytest.raises(DpwganError, match=f"{column!r}.* with a cell that"):
        encoder.open_lines(line_ending="\n").write([rows], np.random.default_rng(0))


def test_derived_cells_are_refused_as_an_internal_error_when_they_do_not_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = TableEncoder(test_encoder.SCHEMA, test_encoder.HEADER)
    rows = draw_rows(encoder, np.random.default_rng(0), 3)
    for column in ("region", "days"):
        with monkeypatch.context() as patch:
            rule = next(rule for rule in encoder._derived if rule.name == column)
            patch.setattr(rule, "derive", lambda cells: ["3"] * len(list(cells)))
            with pytest.raises(DpwganError, match=f"{column!r}.* does not follow from its source"):
                encoder.open_lines(line_ending="\n").write([rows], np.random.default_rng(0))


def test_lines_are_refused_when_the_table_is_no_csv(tmp_path: Path) -> None:
    encoder = TableEncoder(Schema(columns=COLUMNS[:2], sha256="0"), ["token", "pair"])
    rows = draw_rows(encoder, np.random.default_rng(0), 3)
    writer: LineWriter = encoder.open_lines(line_ending="\n")
    with pytest.raises(DpwganError, match="another form"):
        write_table(
            tmp_path / "out.parquet",
            [writer.write([rows], np.random.default_rng(0))],
            header=encoder.header,
            schema=encoder.schema,
        )
    assert not list(tmp_path.iterdir())
