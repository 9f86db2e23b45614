"""The command that measures images: what it runs, what it believes, what it does again, and what it prints."""

import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import images
from dpwgan.images.idx import write_idx

pytestmark = pytest.mark.slow

# Stands in for run.py: fails or lies where the method's name says so, counts its runs beside itself, and else gives
# back the images that it was given.
FAKE_RUN = """
import json, pathlib, sys
import numpy as np
data, output, specs, epsilon, delta = sys.argv[1:6]
flags = sys.argv[6:]
method = flags[flags.index("--method") + 1]
with open(pathlib.Path(__file__).with_name("calls"), "a") as stream:
    stream.write(json.dumps(sys.argv[4:]) + "\\n")
if method == "fails":
    print("dpwgan: error: The budget cannot be met.", file=sys.stderr)
    sys.exit(69)
with np.load(data) as archive:
    real, labels = archive["images"], archive["labels"]
np.savez(output, images=real.astype(float) if method == "floats" else real, labels=labels + 9 * (method == "illegal"))
open_ended = method == "gan"
spent = None if open_ended else 0.99 * float(epsilon)
pathlib.Path(output + ".privacy.json").write_text(json.dumps({
    "guarantee": None if open_ended else {},
    "why_no_guarantee": "no noise" if open_ended else None,
    "published": {"provable_epsilon": 81234.5} if open_ended else None,
    "budget": {"epsilon_spent": spent, "delta_spent": None if open_ended else float(delta),
               "delta_asked": float(delta)},
    "public": {"records": len(real)},
    "randomness": {"seeded": False},
}))
"""


def draw(records: int = 60) -> tuple[Any, Any]:
    """Draws images of 6 x 5 in which class k of six is bright in line k: few are named rightly by luck."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 6, records).astype(np.uint8)
    pixels = rng.integers(0, 60, (records, 6, 5)).astype(np.uint8)
    pixels[np.arange(records), labels] += 190
    return pixels, labels


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Idx files of tiny images, and a stand-in for the product."""
    pixels, labels = draw()
    Path(tmp_path / "images.gz").write_bytes(write_idx(pixels, packed=True))
    Path(tmp_path / "labels").write_bytes(write_idx(labels))
    (tmp_path / "run.py").write_text(textwrap.dedent(FAKE_RUN))
    monkeypatch.setattr(images, "RUN", tmp_path / "run.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*arguments: str) -> int:
    return images.main(["images.gz", "labels", "--resume", "r.jsonl", *arguments])


def read_records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]


def test_each_cell_is_run_scored_and_recorded_once_when_all_goes_well(bench, capsys):
    flags = ["--methods", "good:label=y", "real", "one-ways", "--epsilons", "1", "3"]
    assert start(*flags) == 0
    records = {(record["method"], record["epsilon"]): record for record in read_records()}
    assert sorted(records, key=str) == [("good", 1.0), ("good", 3.0), ("one-ways", None), ("real", None)]
    good, floor = records["good", 1.0], records["one-ways", None]
    assert good["scores"] == records["real", None]["scores"], "it gives back the real images"
    assert good["scores"]["pc1"] < 1e-6 < floor["scores"]["pc1"]
    assert good["scores"]["accuracy_lr"] > 0.9 > floor["scores"]["accuracy_lr"]
    assert good["scores"]["mean_pixel"] == pytest.approx(floor["scores"]["mean_pixel"])
    assert good["epsilon_spent"] <= 1.0
    assert good["delta_spent"] <= 1e-5
    assert good["peak_mb"] > 0
    assert good["cpu_s"] >= 0
    calls = [json.loads(line) for line in (bench / "calls").read_text().splitlines()]
    assert calls == [[epsilon, "1e-05", "--method", "good", "--label", "y", "--quiet"] for epsilon in ("1.0", "3.0")]
    printed = capsys.readouterr().out
    assert "| 1 | **good --label y** | epsilon 0.99, delta 1e-05 |" in printed
    assert "| - | **the real training images (ceiling, not private)** | - |" in printed

    assert start(*flags) == 0, "all is there already"
    assert len((bench / "calls").read_text().splitlines()) == 2
    assert capsys.readouterr().out == printed
    assert images.main(["--report", "r.jsonl"]) == 0
    assert capsys.readouterr().out == printed


def test_method_without_a_guarantee_counts_only_when_it_was_asked_for_as_such(bench, capsys):
    assert start("--methods", "gan:no-guarantee", "gan", "--epsilons", "2") == 1
    counted, other = read_records()
    assert counted["ok"]
    assert counted["why_no_guarantee"] == "no noise"
    assert other["why"] == "the claim promises nothing"
    assert "| none (provable: epsilon 8.123e+04) |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("illegal", "48 of 48 images have a label that the specs do not allow"),
        ("floats", "another shape or type"),
    ],
)
def test_cell_is_reported_and_the_command_fails_when_its_run_does_not_count(bench, capsys, method, why):
    assert start("--methods", method, "--epsilons", "1") == 1
    (record,) = read_records()
    assert not record["ok"]
    assert why in record["why"]
    assert why in capsys.readouterr().out
