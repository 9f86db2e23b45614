"""A saved model's description: comes back as it was, and is refused when it is damaged."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dpwgan.app.saved_model import DESCRIPTION_FILE, ModelDescription, read_description, write_description
from dpwgan.errors import InputError
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.schema import (
    BooleanColumn,
    CategoricalColumn,
    DerivedColumn,
    FixedColumn,
    IdentifierColumn,
    ImageLayout,
    NumericColumn,
    Schema,
)
from tests.claims import make_claim

COLUMNS = (
    IdentifierColumn(name="id"),
    IdentifierColumn(name="number", start=1),
    CategoricalColumn(name="town", tokens=("007", "x, y", ""), missing=("",), domain="waived"),
    NumericColumn(name="age", minimum=0.0, maximum=120.0, integer=True, missing=("N",)),
    NumericColumn(name="income", minimum=-1.5, maximum=9.5, integer=False, decimals=1, edges=(-1.5, 0.0, 9.5)),
    DerivedColumn(name="decade", source="age", floordiv=10, missing="N"),
    DerivedColumn(name="region", source="town", mapping={"007": "1", "x, y": "2", "": ""}),
    BooleanColumn(name="alive", tokens=("yes", "no", ""), missing=("",), spellings=(("y", "j"), ())),
    CalendarColumn(name="seen", written="datetime", format="%Y-%m-%d %H", first=0, step=3600, steps=99, zone="UTC"),
    FixedColumn(name="note", cell="-"),
    FixedColumn(name="left out", cell=None),
)
DESCRIPTION = ModelDescription(
    method="dp-wgan",
    header=tuple(reversed([column.name for column in COLUMNS if column.is_written])),
    line_ending="\r\n",
    schema=Schema(columns=COLUMNS, sha256="ab" * 32),
)


def test_description_comes_back_as_it_was_when_written(tmp_path):
    write_description(tmp_path, DESCRIPTION, claim=make_claim())
    assert read_description(tmp_path) == (DESCRIPTION, make_claim())


IMAGES = ModelDescription(
    method="ron-gauss",
    header=("p0", "p1", "y"),
    line_ending="\n",
    schema=Schema(
        columns=(
            NumericColumn(name="p0", minimum=0.0, maximum=255.0, integer=True),
            NumericColumn(name="p1", minimum=0.0, maximum=255.0, integer=True),
            CategoricalColumn(name="y", tokens=("0", "1"), integer=True),
        ),
        sha256="ab" * 32,
        layout=ImageLayout(shape=(2, 1, 1), pixels=("p0", "p1"), minimum=0, maximum=255, label="y"),
    ),
)


def test_layout_comes_back_as_it_was_when_the_table_holds_images(tmp_path):
    write_description(tmp_path, IMAGES, claim=make_claim())
    assert read_description(tmp_path)[0] == IMAGES
    change("layout", None)(tmp_path)
    assert read_description(tmp_path)[0].schema.layout is None


def test_description_is_read_when_it_was_written_before_there_were_layouts(tmp_path):
    write_description(tmp_path, DESCRIPTION, claim=make_claim())
    path = tmp_path / DESCRIPTION_FILE
    document = json.loads(path.read_text())
    del document["layout"]
    path.write_text(json.dumps(document))
    assert read_description(tmp_path)[0] == DESCRIPTION


@pytest.mark.parametrize("layout", [{}, {"shape": [2, 1, 1]}, {**asdict(IMAGES.schema.layout), "label": "z"}, [1]])
def test_description_is_refused_when_its_layout_is_damaged(tmp_path, layout):
    write_description(tmp_path, IMAGES, claim=make_claim())
    change("layout", layout)(tmp_path)
    with pytest.raises(InputError, match="damaged"):
        read_description(tmp_path)


def change(key: str, value: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / DESCRIPTION_FILE
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))

    return damage


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda folder: (folder / DESCRIPTION_FILE).unlink(), "not a saved model"),
        (lambda folder: (folder / "privacy.json").unlink(), "claim of the saved model cannot be read"),
        (lambda folder: (folder / DESCRIPTION_FILE).write_text("{"), "damaged"),
        (lambda folder: (folder / DESCRIPTION_FILE).write_text("[]"), "damaged"),
        (change("format", 99), "another version"),
        (change("columns", [{"kind": "magic"}]), "damaged"),
        (change("columns", [{"kind": "categorical", "name": "a", "surprise": 1}]), "damaged"),
        (change("header", ["other"]), "damaged"),
    ],
)
def test_description_is_refused_when_it_is_damaged(tmp_path, damage, fragment):
    write_description(tmp_path, DESCRIPTION, claim=make_claim())
    damage(tmp_path)
    with pytest.raises(InputError, match=fragment):
        read_description(tmp_path)
