"""What reading and writing a table costs, against polars on the same file, and what memory it takes.

    python benchmarks/tables.py [--rows N] [--rounds R] [--quick] [--json FILE]

A made-up census of 98 columns (benchmarks/census1940.py) is read into codes, in memory and on disk, and written
again; in between polars reads and writes the same file as whole numbers, its fastest way. The same is done with the
census in other line endings, and read is a made-up table of words and fractions. Each figure is the median of
the rounds, with the smallest and largest. CPU seconds count all threads. The parts of the default job that read rows
(reading onto the disk, one-way counts, groups, counts of all pairs) are done for a tenth of the rows and for all of
them. Peaks of memory are those of processes of their own.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.census1940 import write_population  # noqa: E402
from benchmarks.figures import Figure, report, take_figure, take_ratios  # noqa: E402
from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.marginals.answers.measurements import count_pairs  # noqa: E402
from dpwgan.marginals.groups import GroupLayout  # noqa: E402
from dpwgan.marginals.one_way.merging import coarsen  # noqa: E402
from dpwgan.marginals.one_way.one_ways import plan_one_ways  # noqa: E402
from dpwgan.table.encoder import TableEncoder  # noqa: E402
from dpwgan.table.files.reader import open_table  # noqa: E402
from dpwgan.table.files.writer import write_table  # noqa: E402
from dpwgan.table.specs import read_specs  # noqa: E402
from dpwgan.table.storage import cut  # noqa: E402
from tests.marginals.tables import measure_one_ways  # noqa: E402

GOAL_OF_CSV = "<= 1.3"
SAMPLED = 1_000_000
QUICK_ROWS, QUICK_SAMPLED = 2_000, 20_000
# Groups hold at least one of so many parts of the rows.
LEAST_SHARE = 2_000
# Rows that are written at a time.
CHUNK = 1 << 15


def read_encoded(folder: Path, *, on_disk: bool) -> Any:
    """Reads data.csv of a folder as a method sees it."""
    schema = read_specs(folder / "data-specs.json")
    table = open_table(folder / "data.csv", schema)
    encoder = TableEncoder(schema, table.header)
    return encoder.encode_pieces(table.pieces(), records=table.records, on_disk=on_disk)


def read_with_polars(folder: Path) -> pl.DataFrame:
    return pl.read_csv(folder / "data.csv")


def write_decoded(folder: Path, encoder: TableEncoder, encoded: Any) -> None:
    """Decodes and writes rows; the encoder is there since they were read."""
    rng = np.random.default_rng(0)
    chunks = (
        replace(encoded, codes=encoded.codes[rows], numbers=encoded.numbers[rows])
        for rows in cut(encoded.records, size=CHUNK)
    )
    frames = (encoder.decode(chunk, rng) for chunk in chunks)
    write_table(folder / "decoded.csv", frames, header=encoder.header)


def write_frames(folder: Path, frame: pl.DataFrame) -> None:
    """Writes cells that are decoded already."""
    parts = (frame[rows] for rows in cut(frame.height, size=CHUNK))
    write_table(folder / "written.csv", parts, header=frame.columns)


def measure(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(folder: Path, *, rounds: int) -> dict[str, list[float]]:
    """Times every way in turn, as often as asked."""
    encoded = read_encoded(folder, on_disk=False)
    numbers = read_with_polars(folder)
    encoder = TableEncoder(read_specs(folder / "data-specs.json"), numbers.columns)
    text = pl.read_csv(folder / "data.csv", infer_schema=False)
    ways: dict[str, Callable[[], Any]] = {
        "polars_read": lambda: read_with_polars(folder),
        "read": lambda: read_encoded(folder, on_disk=False),
        "read_to_disk": lambda: read_encoded(folder, on_disk=True),
        "polars_write": lambda: numbers.write_csv(folder / "polars.csv"),
        "write": lambda: write_frames(folder, numbers),
        "polars_write_text": lambda: text.write_csv(folder / "polars.csv"),
        "write_text": lambda: write_frames(folder, text),
        "decode_check_write": lambda: write_decoded(folder, encoder, encoded),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            seconds[name].append(measure(work))
    return seconds


def sample_rows(folder: Path, *, rows: int) -> tuple[float, float]:
    """Fits the quickest method and writes rows of it; gives CPU and wall-clock seconds of all that follows the fit."""
    schema = read_specs(folder / "data-specs.json")
    synthesizer = Synthesizer(schema, 1.0, method="independent")
    synthesizer.fit_encoded(synthesizer.encode_table(open_table(folder / "data.csv", schema)))
    cpu, wall = time.process_time(), time.perf_counter()
    write_table(folder / "sampled.csv", synthesizer.sample_cells(rows), **synthesizer.form)
    return time.process_time() - cpu, time.perf_counter() - wall


def count_rows_of(folder: Path) -> None:
    """Does what the default method does with all rows, those being on disk."""
    encoded = read_encoded(folder, on_disk=True)
    plan = plan_one_ways(encoded.spans)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=1.0)
    # Groups of the same size whatever the number of rows, as the default method has them.
    coarsening = coarsen(one_ways, records=encoded.records, least_count=encoded.records / LEAST_SHARE)
    groups = coarsening.to_groups(encoded)
    count_pairs(groups, GroupLayout(coarsening.sizes))


def spend_on(task: str, folder: Path, *, rows: int) -> tuple[float, float]:
    """Gives CPU seconds and the peak of memory, in GB, of one task in a process of its own."""
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder), "--rows", str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def do_task(task: str, folder: Path, *, rows: int) -> None:
    """Does one task and prints the peak of memory of this process, in GB."""
    if task == "sample":
        sample_rows(folder, rows=rows)
    elif task == "count":
        count_rows_of(folder)
    else:
        read_encoded(folder, on_disk=task == "read-to-disk")
    # Not ru_maxrss, which a process takes over from the one that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(time.process_time(), int(peak.split()[1]) / 2**20)


def write_mixed(folder: Path, *, rows: int, line_ending: str) -> None:
    """Writes a made-up table of ten columns of words, three of whole numbers and two of fractions, and its specs."""
    rng = np.random.default_rng(1)
    words = [f"{word}-{index}" for index in range(5) for word in ("Private", "Local-gov", "Never-married", "?")]
    whole = {f"number_{index}": rng.integers(0, 100, rows) for index in range(3)}
    listed = {f"word_{index}": pl.Series(words).gather(rng.integers(0, 20, rows)) for index in range(10)}
    fractions = {f"share_{index}": np.round(rng.uniform(0, 100, rows), 2) for index in range(2)}
    specs: dict[str, dict[str, Any]] = {
        **{name: {"type": "integer", "min": 0, "max": 99} for name in whole},
        **{name: {"type": "enum", "values": words} for name in listed},
        **{name: {"type": "float", "min": 0, "max": 100, "decimals": 2} for name in fractions},
    }
    folder.mkdir(exist_ok=True)
    pl.DataFrame({**whole, **listed, **fractions}).write_csv(folder / "data.csv", line_terminator=line_ending)
    (folder / "data-specs.json").write_text(json.dumps(specs))


def compare_forms(folder: Path, *, rows: int, rounds: int) -> list[Figure]:
    """Reads the census with other line endings, and tables of words and fractions, against polars in turn."""
    crlf = folder / "crlf"
    crlf.mkdir()
    (crlf / "data.csv").write_bytes((folder / "data.csv").read_bytes().replace(b"\n", b"\r\n"))
    shutil.copy(folder / "data-specs.json", crlf)
    write_mixed(folder / "mixed", rows=rows, line_ending="\n")
    write_mixed(folder / "mixed_crlf", rows=rows, line_ending="\r\n")
    figures = []
    for name in ("crlf", "mixed", "mixed_crlf"):
        place = folder / name
        pairs = [
            (measure(partial(read_encoded, place, on_disk=False)), measure(partial(read_with_polars, place)))
            for _ in range(rounds)
        ]
        figures.append(
            take_ratios(f"csv_{name}_in_over_polars", *map(list, zip(*pairs, strict=True)), goal=GOAL_OF_CSV)
        )
    return figures


def run(folder: Path, *, rows: int, rounds: int, sampled: int) -> list[Figure]:
    write_population(folder, rows=rows, seed=1)
    seconds = compare(folder, rounds=rounds)
    figures = [take_figure(f"csv_{name}_cpu", values, unit="s") for name, values in seconds.items()]

    def ratio(name: str, ours: str, theirs: str) -> None:
        figures.append(take_ratios(name, seconds[ours], seconds[theirs], goal=GOAL_OF_CSV))

    ratio("csv_in_over_polars", "read", "polars_read")
    ratio("csv_in_to_disk_over_polars", "read_to_disk", "polars_read")
    ratio("csv_out_over_polars", "write", "polars_write")
    ratio("csv_text_out_over_polars", "write_text", "polars_write_text")
    ratio("csv_decoded_checked_out_over_polars", "decode_check_write", "polars_write")
    for name, ours in (("csv_in_and_out", "write"), ("csv_in_and_decoded_out", "decode_check_write")):
        both = [sum(times) for times in zip(seconds["read"], seconds[ours], strict=True)]
        theirs = [sum(times) for times in zip(seconds["polars_read"], seconds["polars_write"], strict=True)]
        figures.append(take_ratios(f"{name}_over_polars", both, theirs, goal=GOAL_OF_CSV))
    figures += compare_forms(folder, rows=rows, rounds=rounds)
    cpu, wall = sample_rows(folder, rows=sampled)
    figures.append(take_figure(f"sample_{sampled}_cpu", [cpu], unit="s"))
    figures.append(take_figure(f"sample_{sampled}_wall", [wall], unit="s", goal="<= 60"))
    for name in ("read-in-memory", "read-to-disk"):
        figures.append(take_figure(f"peak_{name}", [spend_on(name, folder, rows=rows)[1]], unit="GB"))
    for count in (sampled // 10, sampled):
        figures.append(take_figure(f"peak_sample_{count}", [spend_on("sample", folder, rows=count)[1]], unit="GB"))
    write_population(folder / "tenth", rows=rows // 10, seed=1)
    few, many = (spend_on("count", place, rows=rows) for place in (folder / "tenth", folder))
    figures.append(take_figure("peak_counts_tenth", [few[1]], unit="GB"))
    figures.append(take_figure("peak_counts_all", [many[1]], unit="GB"))
    figures.append(take_figure("counts_of_ten_times_the_rows", [many[0] / few[0]], unit="ratio", goal="<= 10"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small tables, one round: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--task", choices=("sample", "count", "read-in-memory", "read-to-disk"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.task is not None:
        do_task(asked.task, asked.folder, rows=asked.rows)
        return
    rows, rounds, sampled = (QUICK_ROWS, 1, QUICK_SAMPLED) if asked.quick else (asked.rows, asked.rounds, SAMPLED)
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), rows=rows, rounds=rounds, sampled=sampled)
    report(figures, asked.json, rows=rows)


if __name__ == "__main__":
    main()
