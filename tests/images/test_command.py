"""The command as users run it: both ways without loss, a sheet that can be read, and a sentence for each refusal."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dpwgan.app.images.cli import PROGRAM, main
from dpwgan.images.idx import read_idx, write_idx
from tests.app.images.test_sheet import read_png
from tests.programs import ROOT, TABLES, call
from tests.table.images import draw_images, make_specs

MNIST = TABLES / "mnist10k"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the working one, with two idx files of 30 images of 3 x 4 and their specs."""
    images, labels = draw_images(30, 3, 4)
    (tmp_path / "images.idx.gz").write_bytes(write_idx(images, packed=True))
    (tmp_path / "labels.idx").write_bytes(write_idx(labels.astype(np.uint8)))
    (tmp_path / "specs.json").write_text(json.dumps(make_specs(3, 4)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> int:
    return main([*line.split(), "specs.json"])


@pytest.mark.parametrize("table", ["t.npz", "t.csv", "t.csv.gz", "t.parquet"])
def test_idx_files_come_back_as_they_were_when_they_went_through_a_table(folder, table):
    assert run(f"from-idx images.idx.gz labels.idx {table}") == 0
    assert run(f"to-idx {table} again.idx.gz again.idx") == 0
    assert (folder / "again.idx.gz").read_bytes() == (folder / "images.idx.gz").read_bytes()
    assert (folder / "again.idx").read_bytes() == (folder / "labels.idx").read_bytes()


def test_sheet_shows_the_first_rows_by_class_when_asked(folder, capfd):
    assert run("from-idx images.idx.gz labels.idx t.npz") == 0
    capfd.readouterr()
    assert run("sheet t.npz t.png --rows 12 --scale 1") == 0
    images, labels = (read_idx(folder / name)[:12] for name in ("images.idx.gz", "labels.idx"))
    sheet = read_png((folder / "t.png").read_bytes())[..., 0]
    top = 2
    for label in range(3):
        for place, image in enumerate(images[labels == label]):
            assert (sheet[top : top + 3, 2 + 6 * place : 6 + 6 * place] == image).all()
        top += 5
    assert capfd.readouterr().err.splitlines() == [f"dpwgan: line {k + 1}: class '{k}'" for k in range(3)]


def test_sheet_names_no_class_that_the_specs_do_not_list_when_the_table_has_one(folder, capfd):
    pixels = [f"p{number}" for number in range(12)]
    (folder / "t.csv").write_text("\n".join([",".join([*pixels, "y"]), "7," * 12 + "1", "9," * 12 + "S3CRET"]) + "\n")
    assert run("sheet t.csv t.png") == 0
    err = capfd.readouterr().err
    assert "S3CRET" not in err
    assert "line 2: a class that the specs do not list" in err


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("sheet none.npz t.png", 66, "does not exist"),
        ("sheet images.idx.gz t.png", 65, "is not a text in UTF-8"),
        ("sheet t.csv t.png --rows 0", 2, "--rows must be at least 1"),
        ("sheet t.csv t.png --scale x", 2, "argument --scale"),
        ("sheet t.csv none/t.png", 73, "its folder does not exist"),
        ("sheet specs.json specs.json", 2, "PNG would write over a file that is read"),
        ("from-idx images.idx.gz labels.idx labels.idx", 2, "TABLE would write over a file that is read"),
        ("from-idx labels.idx labels.idx t.npz", 65, "an image has the shape"),
        ("from-idx images.idx.gz images.idx.gz t.npz", 65, "'labels' must be one for each image"),
        ("from-idx images.idx.gz none.idx t.npz", 66, "does not exist"),
        ("from-idx images.idx.gz specs.json t.npz", 65, "is not an idx file"),
        ("to-idx t.csv one.idx ./one.idx", 2, "IMAGES and LABELS are the same file"),
        ("to-idx t.csv one.idx", 2, "required: SPECS"),
        ("turn t.csv", 2, "the first argument must be one of from-idx, to-idx, sheet"),
    ],
)
def test_command_is_refused_in_one_sentence_when(folder, capfd, line, code, words):
    before = sorted(folder.iterdir())
    assert run(line) == code
    err = capfd.readouterr().err
    assert words.lower() in err.lower()
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_command_is_refused_when_the_specs_have_no_layout_or_other_columns(folder, capfd):
    (folder / "specs.json").write_text(json.dumps({"y": {"type": "enum", "count": 3}}))
    assert run("from-idx images.idx.gz labels.idx t.npz") == 2
    assert "have no 'layout'" in capfd.readouterr().err
    (folder / "specs.json").write_text(json.dumps(make_specs(3, 4, age={"type": "integer", "min": 0, "max": 9})))
    assert run("from-idx images.idx.gz labels.idx t.npz") == 2
    assert "1 other column, the first of them 'age'" in capfd.readouterr().err
    assert run("from-idx images.idx.gz labels.idx t.csv") == 65
    assert "the header does not have 'age'" in capfd.readouterr().err


def test_help_names_every_command_when_run_as_a_module():
    done = call(sys.executable, "-m", "dpwgan.images", "--help", cwd=ROOT, check=True)
    assert all(f"  {name}" in done.stdout for name in PROGRAM.commands)
    assert all(len(line) <= 120 for line in done.stdout.splitlines())


@pytest.mark.skipif(not MNIST.is_dir(), reason="the MNIST test images are not here")
def test_mnist_comes_back_as_it_was_when_it_went_through_npz(folder):
    specs = make_specs(28, 28, 1, label={"type": "enum", "count": 10})
    (folder / "specs.json").write_text(json.dumps(specs))
    sources = [MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz"]
    assert run(f"from-idx {sources[0]} {sources[1]} t.npz") == 0
    assert run("to-idx t.npz images.idx labels.idx") == 0
    for name, source in zip(("images.idx", "labels.idx"), sources, strict=True):
        assert (folder / name).read_bytes() == gzip.decompress(source.read_bytes())
