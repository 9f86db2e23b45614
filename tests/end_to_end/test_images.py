"""Images through the main job: a table of pixels in any form in, legal images and a claim out."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpwgan.app.claim import read_claim
from dpwgan.app.images import cli as images_cli
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import write_table
from dpwgan.table.specs import read_specs
from tests.app.images.test_sheet import read_png
from tests.end_to_end.bad_inputs import inside, run_inside
from tests.table.images import draw_images, make_specs

pytestmark = pytest.mark.slow

RON_GAUSS = ("--method", "ron-gauss", "--label", "y", "--projection-dimension", "3")
INDEPENDENT = ("--method", "independent")
STEPS = ("--steps", "3", "--batch-size", "20", "--hidden-generator", "8")
DP_GAN = ("--method", "dp-gan", *STEPS)
RON_DP_GAN = ("--method", "ron-dp-gan", *STEPS)


def write_images(folder: Path, records: int, height: int, width: int) -> None:
    (folder / "specs.json").write_text(json.dumps(make_specs(height, width)))
    images, labels = draw_images(records, height, width)
    np.savez(folder / "data.npz", images=images, labels=labels)


def check_images(path: Path, *shape: int) -> None:
    with np.load(path) as written:
        assert written["images"].shape == shape
        assert written["images"].dtype == np.uint8
        assert written["labels"].shape == shape[:1]
        assert set(written["labels"].tolist()) <= {0, 1, 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with 60 images of 6 x 6 as .npz, CSV and Parquet, and their specs."""
    write_images(tmp_path, 60, 6, 6)
    schema = read_specs(tmp_path / "specs.json")
    table = open_table(tmp_path / "data.npz", schema)
    for name in ("data.csv", "data.parquet"):
        write_table(tmp_path / name, table.frames(), header=table.header, schema=schema)
    return tmp_path


@pytest.mark.parametrize(
    "method", [RON_GAUSS, INDEPENDENT, DP_GAN, RON_DP_GAN], ids=["ron-gauss", "independent", "dp-gan", "ron-dp-gan"]
)
def test_run_writes_legal_images_and_a_claim_when_the_table_is_npz(folder, method):
    assert run_inside(folder, "data.npz", "out.npz", "specs.json", "2.0", "--save-model", "model", *method) == 0
    check_images(folder / "out.npz", 60, 6, 6)
    document = read_claim(folder / "out.npz.privacy.json").document
    assert document["guarantee"]["epsilon"] <= 2.0
    assert document["public"]["records"] == 60
    (folder / "data.npz").unlink()
    assert run_inside(folder, "--from-model", "model", "more.npz", "--rows", "90") == 0
    check_images(folder / "more.npz", 90, 6, 6)
    with inside(folder):
        assert images_cli.main(["sheet", "more.npz", "more.png", "specs.json", "--rows", "90"]) == 0
    assert read_png((folder / "more.png").read_bytes()).shape[2] == 1


def test_run_names_a_pixel_and_no_cell_when_one_is_out_of_range(folder, capfd):
    specs = make_specs(6, 6, 1)
    specs["layout"]["pixels"]["max"] = 240
    (folder / "specs.json").write_text(json.dumps(specs))
    assert run_inside(folder, "data.npz", "out.npz", "specs.json", "2.0", *RON_GAUSS) == 65
    err = capfd.readouterr().err
    assert "with a cell that is not between 0 and 240" in err
    assert not (folder / "out.npz").exists()
