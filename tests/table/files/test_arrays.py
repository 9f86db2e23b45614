"""Images as .npz: the same cells as in CSV, both ways, and a sentence for each archive that does not fit."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError, DpwganError, TransferError, UsageError
from dpwgan.table.files.arrays import read_images, read_label_bytes
from dpwgan.table.files.reader import check_format, open_table
from dpwgan.table.files.writer import write_table
from tests.table.images import draw_images, make_schema

GRAY = make_schema(2, 3, 1)
COLOURED = make_schema(1, 2, 3)


def put(folder: Path, name: str = "data.npz", **arrays: Any) -> Path:
    np.savez(folder / name, **arrays)
    return folder / name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(st.data())
def test_table_is_the_same_when_it_is_written_as_npz_csv_or_parquet(tmp_path, data):
    schema = data.draw(
        st.sampled_from([GRAY, COLOURED, make_schema(3, 2, label={"type": "enum", "values": ["a", "ß"]})])
    )
    layout = schema.layout
    cells = st.sampled_from(schema.by_name["y"].tokens)
    row = st.tuples(*[st.integers(0, 255).map(str)] * len(layout.pixels), cells)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    frame = pl.DataFrame(rows, schema=[*layout.pixels, "y"], orient="row")
    for name in ("out.npz", "out.csv", "out.csv.gz", "out.parquet"):
        write_table(tmp_path / name, [frame[:2], frame[2:]], header=frame.columns, schema=schema)
        table = open_table(tmp_path / name, schema)
        assert (table.header, table.records) == (tuple(frame.columns), len(rows))
        assert table.frame().equals(frame)


@pytest.mark.parametrize(
    ("schema", "images"),
    [(GRAY, draw_images(5, 2, 3)[0]), (COLOURED, np.arange(30, dtype=np.uint8).reshape(5, 1, 2, 3))],
    ids=["gray", "coloured"],
)
def test_archive_holds_the_documented_arrays_when_written(tmp_path, schema, images):
    labels = np.arange(5) % 3
    table = open_table(put(tmp_path, images=images, labels=labels), schema)
    assert table.frame().row(1) == (*map(str, images[1].ravel()), "1")
    written = [
        write_table(tmp_path / name, table.frames(), header=table.header, schema=schema) for name in ("a.npz", "b.npz")
    ]
    assert written[0] == written[1]
    with np.load(tmp_path / "a.npz") as arrays:
        assert set(arrays) == {"images", "labels"}
        assert (arrays["images"].dtype, arrays["labels"].dtype) == (np.uint8, np.int64)
        np.testing.assert_array_equal(arrays["images"], images)
        np.testing.assert_array_equal(arrays["labels"], labels)


def test_channel_of_gray_images_may_be_written_out_when_read(tmp_path):
    images, labels = draw_images(4, 2, 3)
    flat = open_table(put(tmp_path, images=images, labels=labels), GRAY).frame()
    deep = open_table(put(tmp_path, images=images[..., None], labels=labels.astype(">u2")), GRAY).frame()
    assert flat.equals(deep)


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ({"type": "enum", "count": 3}, "i"),
        ({"type": "enum", "count": 3, "optional": True}, "U"),
        ({"type": "enum", "count": 3, "width": 2}, "U"),
        ({"type": "enum", "values": ["0", "x"]}, "U"),
    ],
)
def test_labels_have_the_type_that_the_specs_ask_for_when_written(tmp_path, label, kind):
    # Every row says 0, so that the rows could not tell.
    schema = make_schema(1, 2, label=label)
    token = schema.by_name["y"].tokens[0]
    frame = pl.DataFrame({"p0": ["1"], "p1": ["2"], "y": [token]})
    write_table(tmp_path / "out.npz", [frame], header=frame.columns, schema=schema)
    with np.load(tmp_path / "out.npz") as written:
        assert written["labels"].dtype.kind == kind
    assert open_table(tmp_path / "out.npz", schema).frame().equals(frame)


IMAGES, LABELS = draw_images(4, 2, 3)
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no_images": ({"labels": LABELS}, "does not hold an array 'images'"),
    "no_labels": ({"images": IMAGES}, "does not hold an array 'labels'"),
    "more": ({"images": IMAGES, "labels": LABELS, "x": LABELS}, "holds 3 arrays"),
    "floats": ({"images": IMAGES / 255, "labels": LABELS}, "uint8), and is float64"),
    "signed": ({"images": IMAGES.astype(np.int16), "labels": LABELS}, "uint8), and is int16"),
    "turned": ({"images": IMAGES.transpose(0, 2, 1), "labels": LABELS}, "the shape 3 x 2, and in the specs 2 x 3 x 1"),
    "flat": ({"images": IMAGES.reshape(4, 6), "labels": LABELS}, "the shape 6, and in the specs 2 x 3 x 1"),
    "number": ({"images": np.uint8(3), "labels": LABELS}, "in the specs 2 x 3 x 1"),
    "short_labels": ({"images": IMAGES, "labels": LABELS[:3]}, "'labels' must be one for each image"),
    "one_hot": ({"images": IMAGES, "labels": np.eye(4)}, "'labels' must be one for each image"),
    "real_labels": ({"images": IMAGES, "labels": LABELS / 1.0}, "whole numbers or text, and is float64"),
    "object_labels": ({"images": IMAGES, "labels": LABELS.astype(object)}, "not an .npz archive of plain arrays"),
    # Numbers that no character has: half of one, and one beyond the last.
    "surrogate": (
        {"images": IMAGES, "labels": np.full(4, 0xD800, np.uint32).view("<U1")},
        "cannot be written in UTF-8",
    ),
    "no_character": ({"images": IMAGES, "labels": np.full(4, 0x110001, np.uint32).view("<U1")}, "written in UTF-8"),
    "no_rows": ({"images": IMAGES[:0], "labels": LABELS[:0]}, "no rows"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_archive_is_refused_in_one_sentence_when(tmp_path, case):
    arrays, words = FAULTS[case]
    with pytest.raises(DataError) as caught:
        open_table(put(tmp_path, **arrays), GRAY).frame()
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


def test_archive_is_refused_when_it_is_none_or_damaged(tmp_path):
    whole = put(tmp_path, images=IMAGES, labels=LABELS).read_bytes()
    single = io.BytesIO()
    np.save(single, IMAGES)
    strange = io.BytesIO()
    with zipfile.ZipFile(strange, "w") as archive:
        archive.writestr("images", b"no array")
    for data, error in (
        (b"", DpwganError),
        (b"p0,p1\n1,2\n", DataError),
        (single.getvalue(), DataError),
        (strange.getvalue(), DataError),
        (whole.replace(b"'descr'", b"(descr'"), DpwganError),
        (whole[:-30], TransferError),
        (whole[:200] + b"????????" + whole[208:], DpwganError),
    ):
        (tmp_path / "bad.npz").write_bytes(data)
        with pytest.raises(error) as caught:
            open_table(tmp_path / "bad.npz", GRAY)
        assert type(caught.value) is not DpwganError
        assert "'" + str(tmp_path / "bad.npz") in str(caught.value)


def test_npz_is_refused_when_the_specs_are_not_those_of_images_alone(tmp_path):
    path = put(tmp_path, images=IMAGES, labels=LABELS)
    more = make_schema(2, 3, sex={"type": "enum", "count": 2}, age={"type": "integer", "min": 0, "max": 9})
    words = "the specs have 2 other columns, the first of them 'sex'"
    with pytest.raises(DataError, match=words):
        open_table(path, more)
    with pytest.raises(UsageError, match=words):
        check_format("out.npz", more)
    check_format("out.csv", more)
    check_format("out.npz", GRAY)


def test_pixels_and_labels_are_refused_when_they_are_no_bytes():
    frame = pl.DataFrame({f"p{number}": ["0", "255", "7.0"] for number in range(6)} | {"y": ["0", "2", "255"]})
    layout = GRAY.layout
    assert read_images(frame, layout)[:, 0, 0, 0].tolist() == [0, 255, 7]
    assert read_label_bytes(frame, layout).tolist() == [0, 2, 255]
    bad = frame.with_columns(p3=pl.Series(["256", "x", "1.5"]), y=pl.Series(["-1", "", "1"]))
    with pytest.raises(DataError, match="The table has 3 rows with a pixel that is no whole number between 0 and 255"):
        read_images(bad, layout)
    with pytest.raises(DataError, match="2 rows with a label"):
        read_label_bytes(bad, layout)


def test_rows_do_not_show_when_a_table_of_images_is_printed(tmp_path):
    table = open_table(put(tmp_path, images=IMAGES, labels=LABELS), GRAY)
    assert json.dumps(str(IMAGES[0, 0, 0])) not in repr(table)
    assert "array" not in repr(table)
