"""Measures what the product makes of images: method x epsilon, repeated with fresh noise, beside floor and ceiling.

    python benchmarks/images.py IMAGES_IDX LABELS_IDX [--methods M...] [--epsilons E...] [--delta D] [--runs N]
                                [--jobs J] [--threads N] [--resume FILE]
    python benchmarks/images.py --report FILE

The images are split once, by a fixed random order: four fifths to train on, the rest to test on. A cell is one run of
`run.py train.npz out.npz specs.json EPSILON DELTA` as a user would start it, in a process of its own, with noise from
the operating system. It counts only if the run exits with 0, all that it wrote is legal, and the claim is right: what
it spends stays within what was asked, or it is null and says why. benchmarks/image_scores.py says what the scores mean.

A METHOD is written as for benchmarks/utility.py: `ron-gauss:label=label:noise=gaussian`,
`dp-gan:private-part=generator:no-guarantee`. Two names are made of the real images and are not private: `real`, the
training images themselves (the ceiling), and `one-ways`, each pixel shuffled by itself (the floor).

Each cell is appended to the results file as one line of JSON as soon as it is there. --resume goes on with such a file
and skips what it holds. The table is Markdown on stdout, progress is on stderr.
Exit code 0: every cell is there; 1: not; 2: usage; 130: stopped.
"""

import argparse
import gzip
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

# This process stays small, without numpy: a child's peak memory counts that of the process which forked it.
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import utility  # noqa: E402
from benchmarks.utility import Cell, Children, Method, Record, list_scores, show_spread  # noqa: E402

RUN = ROOT / "run.py"
SCORES = ROOT / "benchmarks" / "image_scores.py"

METHODS = ("ron-gauss:label=label:noise=gaussian", "real", "one-ways")
REFERENCES = {
    "real": "the real training images (ceiling, not private)",
    "one-ways": "each pixel of the real images shuffled by itself (floor, not private)",
}
EPSILONS = (1.0, 3.0, 10.0)
DELTA = 1e-5
SCORE_NAMES = {"pc1": 3, "accuracy_lr": 3, "accuracy_mlp": 3, "mean_pixel": 1}


# --------------------------------------------------------------------------------------------------------- cells


def plan_cells(digest: str, methods: list[Method], epsilons: list[float], *, delta: float, runs: int) -> list[Cell]:
    """Lists the cells, a first run of all before a second of any. A cell's table names delta: others do not compare."""
    cells = [
        Cell(f"images at delta {delta:g}", digest, method, epsilon, run)
        for run in range(runs)
        for method in methods
        for epsilon in ([None] if method.name in REFERENCES else epsilons)
    ]
    # The ceiling has no chance in it.
    kept = [cell for cell in cells if cell.method.name != "real" or cell.repetition == 0]
    return list({cell.key: cell for cell in kept}.values())


def digest_files(paths: Iterable[Path]) -> str:
    """Gives a digest of the images, whatever gzip wrote around them: figures from others are never compared."""
    digest = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        digest.update(hashlib.sha256(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).digest())
    return digest.hexdigest()


def run_cell(cell: Cell, folder: Path, children: Children, *, delta: float, threads: int | None) -> Record:
    """Runs and scores one cell. What goes wrong is in the record: `ok` is false and `why` says it."""
    record = cell.describe() | {"delta": delta, "ok": False, "why": None, "scores": {}}
    with utility.try_cell(record) as scratch:
        output = scratch / "out.npz"
        if cell.method.name in REFERENCES:
            arguments = ["--reference", cell.method.name]
        else:
            files = [str(folder / "train.npz"), str(output), str(folder / "specs.json")]
            command = [sys.executable, str(RUN), *files, repr(cell.epsilon), repr(delta)]
            command += utility.list_flags(cell, threads=threads)
            utility.call_product(command, scratch, children, record)
            utility.check_claim(output, cell, record, delta=delta)
            arguments = [str(output)]
        record["scores"] = score(folder, arguments, scratch, children, record)
        record["ok"] = True
    return record


def score(folder: Path, arguments: list[str], scratch: Path, children: Children, record: Record) -> dict[str, float]:
    """Scores images. Raises: CellError if that fails, or one has a label that the specs do not allow."""
    command = [sys.executable, str(SCORES), "score", str(folder), *arguments]
    scored = utility.call_scores(command, scratch, children, record, fault="images have a label")
    return {name: scored[name] for name in SCORE_NAMES}


# -------------------------------------------------------------------------------------------------------- report


def title_of(record: Record) -> str:
    return REFERENCES.get(record["method"], utility.title_of(record))


def report(records: Iterable[Record]) -> str:
    """Gives the results as Markdown, a table for each set of images: medians over the runs, ranges in brackets."""
    records = list(records)
    places = {title: place for place, title in enumerate(REFERENCES.values())}
    groups: dict[tuple[str, str], dict[tuple[float, int, str], list[Record]]] = {}
    for record in records:
        if record["ok"]:
            title = title_of(record)
            epsilon = float("inf") if record["epsilon"] is None else record["epsilon"]
            here = groups.setdefault((record["table"], record["split_sha256"]), {})
            here.setdefault((epsilon, places.get(title, -1), title), []).append(record)
    blocks = []
    for (table, digest), here in groups.items():
        lines = utility.head(
            ["epsilon", "method", "guarantee", *SCORE_NAMES, "runs", "wall s", "CPU s", "peak MB"],
        )
        for key in sorted(here, key=lambda key: key[:2]):
            group = here[key]
            epsilon = None if group[0]["epsilon"] is None else key[0]
            cells = [utility.write_epsilon(epsilon), f"**{key[2]}**", "; ".join(dict.fromkeys(map(_promise, group)))]
            cells += [show_spread(list_scores(group, name), digits) for name, digits in SCORE_NAMES.items()]
            cells.append(str(len(group)))
            cells += [
                show_spread([one[name] for one in group if name in one], 0) for name in ("wall_s", "cpu_s", "peak_mb")
            ]
            lines.append(utility.row(cells))
        blocks += [f"## {table} (sha256 {digest[:10]})", "\n".join(lines)]
    return "\n\n".join([*blocks, "\n".join(_remarks(records))]) + "\n"


def _promise(record: Record) -> str:
    if record["method"] in REFERENCES:
        return "-"
    if record["why_no_guarantee"] is None:
        return f"epsilon {record['epsilon_spent']:.4g}, delta {record['delta_spent']:.2g}"
    published = record.get("published") or {}
    provable = published.get("provable_epsilon")
    return "none" + ("" if provable is None else f" (provable: epsilon {provable:.4g})")


def _remarks(records: list[Record]) -> Iterator[str]:
    yield "Figures are medians over the runs, with their range in brackets; pc1 is better when lower, accuracies when"
    yield "higher. The noise is fresh in each run; every run counted left legal images and a claim that holds."
    yield from utility.list_runs(records, REFERENCES)


# -------------------------------------------------------------------------------------------------- command line


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    asked = parser.parse_args(arguments)
    if asked.report is not None:
        records = list(utility.read_results(asked.report).values())
        print(report(records), end="")
        return 0 if all(record["ok"] for record in records) else 1
    if asked.images is None or asked.labels is None:
        parser.error("the idx files of images and labels are needed")
    try:
        methods = [utility.read_method(text) for text in asked.methods]
        digest = digest_files([asked.images, asked.labels])
    except (OSError, ValueError, EOFError) as error:
        parser.error(str(error))
    epsilons = list(dict.fromkeys(asked.epsilons))
    cells = plan_cells(digest, methods, epsilons, delta=asked.delta, runs=asked.runs)
    work = utility.Measurement(cells, asked, name="images")
    work.say(f"{len(work.left)} of {len(cells)} cells to run, results go to {work.results}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, str(SCORES), "split", str(asked.images), str(asked.labels), name]
        if work.left and subprocess.run(command, check=False).returncode != 0:
            return 1

        def run_one(cell: Cell, children: Children) -> Record:
            return run_cell(cell, folder, children, delta=asked.delta, threads=work.threads)

        made = work.run(run_one)
    if made is None:
        return 130
    print(report([*work.done, *made]), end="")
    return 1 if work.count_failed(made) else 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="?", metavar="IMAGES_IDX", help="idx file, gzipped or not")
    parser.add_argument("labels", type=Path, nargs="?", metavar="LABELS_IDX", help="idx file, gzipped or not")
    parser.add_argument("--delta", type=float, default=DELTA, help=f"of every run (default: {DELTA:g})")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each cell (default: 1)")
    utility.add_options(parser, methods=METHODS, epsilons=EPSILONS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
