"""A saved model's description: comes back as it was, and is refused when it is damaged."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dpwgan.app import saved_model
from dpwgan.app.api import Synthesizer
from dpwgan.app.saved_model import (
    DESCRIPTION_FILE,
    ModelDescription,
    check_model_folder,
    read_description,
    write_description,
)
from dpwgan.errors import InputError, OutputError
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
from tests.lives import SPECS, make_frame

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


@pytest.mark.parametrize("layout", [{}, {"shape": [2, 1, 1]}, {**asdict(IMAGES.schema.layout), "label": "z"}, [1]])
def test_description_is_refused_when_its_layout_is_damaged(tmp_path, layout):
    write_description(tmp_path, IMAGES, claim=make_claim())
    change("layout", layout)(tmp_path)
    with pytest.raises(InputError, match="damaged"):
        read_description(tmp_path)


def change(key: str, value: object) -> Callable[[Path], None]:
    """Puts another value into the description, and seals it anew."""

    def damage(folder: Path) -> None:
        path = folder / DESCRIPTION_FILE
        document = {**json.loads(path.read_text()), key: value}
        document["sha256"] = saved_model._seal({name: part for name, part in document.items() if name != "sha256"})
        path.write_text(json.dumps(document))

    return damage


def flip(path: Path) -> None:
    """Changes one digit: the file is as well formed as before."""
    content = path.read_bytes()
    place = max(content.rfind(digit) for digit in b"0123456789")
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def link(path: Path) -> None:
    """Puts a link to the same bytes elsewhere in a file's place."""
    other = path.parents[1].parent / "elsewhere"
    path.rename(other)
    path.symlink_to(other)


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda folder: (folder / DESCRIPTION_FILE).unlink(), "not a saved model"),
        (lambda folder: (folder / "privacy.json").unlink(), "not the files that it was saved with"),
        (lambda folder: (folder / "more.npz").write_text("x"), "not the files that it was saved with"),
        (lambda folder: flip(folder / "privacy.json"), "privacy.json is not as it was saved"),
        (lambda folder: flip(folder / "synthesizer" / "weights.npz"), "synthesizer/weights.npz is not as it was saved"),
        (lambda folder: flip(folder / DESCRIPTION_FILE), "damaged"),
        (lambda folder: (folder / DESCRIPTION_FILE).write_text("[" * 100_000), "damaged"),
        (change("line_ending", '",x\n'), "damaged"),
        (lambda folder: link(folder / "synthesizer" / "weights.npz"), "cannot be read: Too many levels"),
        (lambda folder: (folder / "synthesizer" / "weights.npz").chmod(0o666), "others can write to"),
        (lambda folder: (folder / "synthesizer").chmod(0o777), "others can write to"),
        (lambda folder: folder.chmod(0o775), "others can write to"),
        (lambda folder: (folder / DESCRIPTION_FILE).write_text("{"), "damaged"),
        (lambda folder: (folder / DESCRIPTION_FILE).write_text("[]"), "damaged"),
        (change("format", 99), "another version"),
        (change("columns", [{"kind": "magic"}]), "damaged"),
        (change("columns", [{"kind": "categorical", "name": "a", "surprise": 1}]), "damaged"),
        (change("header", ["other"]), "damaged"),
        (
            change("columns", [{**asdict(COLUMNS[-2]), "kind": COLUMNS[-2].kind, "name": name} for name in ("a", 1)]),
            "damaged",
        ),
    ],
)
def test_description_is_refused_when_it_is_damaged(tmp_path, damage, fragment):
    (tmp_path / "synthesizer").mkdir(mode=0o755)
    (tmp_path / "synthesizer" / "weights.npz").write_bytes(b"123")
    write_description(tmp_path, DESCRIPTION, claim=make_claim())
    damage(tmp_path)
    with pytest.raises(InputError, match=fragment):
        read_description(tmp_path)


def test_model_is_refused_when_its_columns_are_forged(tmp_path):
    Synthesizer(SPECS, 1.0, method="independent").fit(make_frame()).save(tmp_path / "model")
    columns = json.loads((tmp_path / "model" / DESCRIPTION_FILE).read_text())["columns"]
    columns[0]["tokens"] = ["x", "y"]
    change("columns", columns)(tmp_path / "model")
    with pytest.raises(InputError, match="damaged"):
        Synthesizer.load(tmp_path / "model")


def test_model_is_read_when_its_rows_keep_rules_only_once_they_are_mended(tmp_path):
    rules = [{"sql": "a = 'x' AND b = 0 AND d = 0", "violations": "keep"}]
    Synthesizer({**SPECS, "rules": rules}, 20.0, method="independent").fit(make_frame()).save(tmp_path / "model")
    # As the model draws them one row in 24 keeps it.
    for _ in range(10):
        loaded = Synthesizer.load(tmp_path / "model", threads=1)
    assert set(loaded.sample(20).a) == {"x"}
    assert loaded.form["threads"] == 1


def test_folder_is_refused_when_its_name_is_too_long(tmp_path):
    with pytest.raises(OutputError, match="File name too long"):
        check_model_folder(tmp_path / ("x" * 300))
