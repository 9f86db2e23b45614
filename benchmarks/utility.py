"""Measures what the product's tables are worth: method x table x epsilon, repeated with fresh noise, beside its peers.

    python benchmarks/utility.py [--tables FOLDER] [--only TABLE...] [--methods M...] [--epsilons E...] [--seeds N]
                                 [--resume FILE] [--jobs N] [--threads N] [--keep DIR]
    python benchmarks/utility.py --report FILE

A cell is one run of `run.py train.csv.gz output.csv data-specs.json EPSILON` as a user would start it, in a process of
its own, with noise from the operating system and delta left at 1/n^2. It counts only if the run exits with 0, all that
it wrote is legal, and the claim holds and stays within the budget. benchmarks/scores.py says what the scores mean.

A METHOD is a name that run.py knows, with settings behind it if need be: `dp-wgan`, `dp-wgan:anchor=none`,
`dp-wgan:steps=40:batch-size=64`. Two names are made of the real rows and are not private: `bootstrap` (the ceiling) and
`one-ways` (the floor). A peer that BENCH_PEERS names (benchmarks/processes.py) is a method, too: its command is run as
it stands, and what it writes is scored alike; only its claim is nobody's to check.

Each cell is appended to the results file as one line of JSON as soon as it is there. --resume goes on with such a file
and skips what it holds; --report prints it. The tables are Markdown on stdout, progress is on stderr.
Exit code 0: every cell is there; 1: not; 2: usage; 130: stopped.
"""

import argparse
import collections
import datetime
import gzip
import hashlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# This process stays small, without numpy: a child's peak memory counts that of the process which forked it.
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.figures import describe_versions, name_processor  # noqa: E402
from benchmarks.processes import read_peers  # noqa: E402

RUN = HERE.parent / "run.py"
SCORES = HERE / "scores.py"
PEERS = HERE / "peers.json"

METHODS = ("dp-wgan", "dp-wgan:anchor=none", "query-gan", "independent", "bootstrap", "one-ways")
REFERENCES = {
    "bootstrap": "bootstrap of the real rows (ceiling, not private)",
    "one-ways": "true one-way marginals, independent (floor, not private)",
}
BASELINES = ("independent",)  # shown, but no goal is set for them
EPSILONS = (0.3, 1.0, 8.0)
SCORE_NAMES = ("kway_1", "kway_2", "kway_3", "hoc", "pc1_dist", "tstr_acc", "tstr_auc", "apart")
GOALS = {"kway_2": 1, "kway_3": 1, "hoc": 1, "tstr_auc": 1, "pc1_dist": -1}  # -1: lower is better
DIGITS = {"kway_1": 1, "kway_2": 1, "kway_3": 1}
# A child runs with the versions of this same environment.
VERSIONS = ("numpy", "pandas", "scipy", "scikit-learn", "tensorflow", "dp-accounting")
# Fresh noise is what the ranges are of; the other two would leave no table to score.
FORBIDDEN = ("seed", "check", "from-model")

Record = dict[str, Any]


# --------------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class Method:
    """A method and the settings it is run with, as pairs of flag name and text; None for a flag without a value."""

    name: str
    settings: tuple[tuple[str, str | None], ...] = ()

    @property
    def is_reference(self) -> bool:
        return self.name in REFERENCES

    @property
    def flags(self) -> list[str]:
        return [part for name, value in self.settings for part in ([f"--{name}"] + ([] if value is None else [value]))]

    @property
    def title(self) -> str:
        return REFERENCES.get(self.name, " ".join([self.name, *self.flags]))


def read_setting(text: str) -> tuple[str, str | None]:
    """Reads NAME=VALUE or NAME. Raises: ValueError for an empty name and for what no cell may set."""
    name, equals, value = text.partition("=")
    name = name.strip().lstrip("-").replace("_", "-")
    if not name or name in FORBIDDEN:
        raise ValueError(f"a cell cannot be run with the setting {text!r}")
    return name, value if equals else None


def read_method(text: str) -> Method:
    """Reads NAME[:SETTING=VALUE...]. Raises: ValueError."""
    name, *settings = text.split(":")
    if not name:
        raise ValueError(f"{text!r} names no method")
    if name in REFERENCES:
        if settings:
            raise ValueError(f"{name} has no settings")
        return Method(name)
    return Method(name, tuple(dict(map(read_setting, settings)).items()))


@dataclass(frozen=True)
class Cell:
    """One run: which table, which method, at which epsilon (None for a reference), the how-manieth time."""

    table: str
    split_sha256: str
    method: Method
    epsilon: float | None
    repetition: int

    @property
    def key(self) -> str:
        """What tells it from every other cell, whenever and by whomever it is run."""
        settings = sorted(self.method.settings)
        return json.dumps([self.table, self.split_sha256, self.method.name, settings, self.epsilon, self.repetition])

    def describe(self) -> Record:
        """The part of its record that is known before it is run."""
        return {
            "table": self.table,
            "split_sha256": self.split_sha256,
            "method": self.method.name,
            "settings": [list(setting) for setting in self.method.settings],
            "epsilon": self.epsilon,
            "repetition": self.repetition,
        }


def cell_of(record: Record) -> Cell:
    method = Method(record["method"], tuple((name, value) for name, value in record["settings"]))
    return Cell(record["table"], record["split_sha256"], method, record["epsilon"], record["repetition"])


def plan_cells(tables: dict[str, str], methods: list[Method], epsilons: Iterable[float], seeds: int) -> list[Cell]:
    """Lists the cells, a first repetition of all before a second of any, so that what is broken off is of use.

    `tables` gives each table's digest.
    """
    levels = list(epsilons)
    return [
        Cell(table, digest, method, epsilon, repetition)
        for repetition in range(seeds)
        for table, digest in tables.items()
        for method in methods
        for epsilon in ([None] if method.is_reference else levels)
    ]


def digest_split(folder: Path) -> str:
    """Gives a digest of the rows, whatever gzip wrote around them: figures from other rows are never compared."""
    digest = hashlib.sha256()
    for name in ("train.csv.gz", "holdout.csv.gz"):
        with gzip.open(folder / name) as stream:
            digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------------- one cell


class Children:
    """The processes that are running now, so that none outlives this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._stopped = False

    def run(self, command: list[str], *, stdout: Any, stderr: Any, cwd: Path | None = None) -> tuple[int, Any, float]:
        """Runs a command to its end. Gives its exit code (negative: the signal), its usage and its wall time in s."""
        # Settings in the environment of whoever measures would change every cell unseen.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DPWGAN_")}
        start = time.perf_counter()
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=clean, cwd=cwd
            )
            self._running.add(process)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        with self._lock:
            self._running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage, wall

    def stop(self) -> None:
        """Ends what is running and starts nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                os.kill(process.pid, signal.SIGTERM)


def run_cell(
    cell: Cell,
    folder: Path,
    children: Children,
    *,
    threads: int | None,
    keep: Path | None,
    peers: dict[str, list[str]],
) -> Record:
    """Runs and scores one cell. What goes wrong is in the record: `ok` is false and `why` says it."""
    record = cell.describe() | {"ok": False, "why": None, "scores": {}}
    with try_cell(record) as scratch:
        if cell.method.is_reference:
            arguments = ["--reference", cell.method.name]
        else:
            output = (keep or scratch) / f"{hashlib.sha256(cell.key.encode()).hexdigest()[:16]}.csv"
            record["output"] = str(output) if keep else None
            if cell.method.name in peers:
                _run_peer(peers[cell.method.name], cell, folder, output, scratch, children, record)
            else:
                _run_product(cell, folder, output, scratch, children, threads, record)
            arguments = [str(output)]
        record["scores"] = _score(folder, arguments, scratch, children, record)
        record["ok"] = True
    return record


class CellError(Exception):
    """Why a cell does not count, in one sentence."""


@contextmanager
def try_cell(record: Record) -> Iterator[Path]:
    """A cell's folder while it is run and scored. What goes wrong is in the record, and leaves other cells alone."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            yield Path(scratch)
        except CellError as error:
            record["why"] = str(error)
        except (OSError, ValueError) as error:
            record["why"] = f"the cell could not be run or read ({type(error).__name__}: {error})"


def list_flags(cell: Cell, *, threads: int | None) -> list[str]:
    """The flags that run.py gets for a cell."""
    flags = ["--method", cell.method.name, *cell.method.flags, "--quiet"]
    return flags if threads is None or "threads" in dict(cell.method.settings) else [*flags, "--threads", str(threads)]


def _run_product(
    cell: Cell, folder: Path, output: Path, scratch: Path, children: Children, threads: int | None, record: Record
) -> None:
    specs = folder / "data-specs.json"
    command = [sys.executable, str(RUN), str(folder / "train.csv.gz"), str(output), str(specs), repr(cell.epsilon)]
    call_product([*command, *list_flags(cell, threads=threads)], scratch, children, record)
    check_claim(output, cell, record)
    if record["why_no_guarantee"] is not None:
        raise CellError("the claim promises nothing")


def _run_peer(
    command: list[str], cell: Cell, folder: Path, output: Path, scratch: Path, children: Children, record: Record
) -> None:
    files = {"data": folder / "train.csv.gz", "specs": folder / "data-specs.json", "output": output}
    record["peer"] = True
    call_product([part.format(epsilon=cell.epsilon, **files) for part in command], scratch, children, record)


def call_product(command: list[str], scratch: Path, children: Children, record: Record) -> None:
    """Runs run.py or a peer and records its exit code and what it cost. Raises: CellError if it failed."""
    with (scratch / "stderr").open("w+b") as errors:
        code, usage, wall = children.run(command, stdout=subprocess.DEVNULL, stderr=errors)
    record |= {
        "exit_code": code,
        "wall_s": round(wall, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": usage.ru_maxrss // 1024,
    }
    if code != 0:
        name = "the peer" if "peer" in record else "run.py"
        raise CellError(f"{name} ended with {code}: {last_line(scratch / 'stderr')}")


def check_claim(output: Path, cell: Cell, record: Record, *, delta: float | None = None) -> None:
    """Reads the claim beside an output; `delta` is what was asked for, by itself 1/n^2.

    Raises: CellError unless it keeps to the budget, or is null, as was asked for, and says why.
    """
    try:
        claim = json.loads(output.with_name(output.name + ".privacy.json").read_text())
        guarantee, why, published = claim["guarantee"], claim["why_no_guarantee"], claim.get("published")
        budget, records, seeded = claim["budget"], claim["public"]["records"], claim["randomness"]["seeded"]
        spent, spent_delta, asked = budget["epsilon_spent"], budget["delta_spent"], budget["delta_asked"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CellError(f"the claim cannot be read ({type(error).__name__})") from None
    record |= {"epsilon_spent": spent, "delta_spent": spent_delta, "records": records}
    record |= {"why_no_guarantee": why, "published": published}
    if seeded:
        raise CellError("the run was seeded, and its noise is no noise")
    if guarantee is None:
        if not why or "no-guarantee" not in dict(cell.method.settings):
            raise CellError("the claim promises nothing" + ("" if why else " and does not say why"))
        return
    # `not ... <=` also refuses a NaN and catches what compares as nothing.
    if not isinstance(spent, float | int) or not 0 <= spent <= (cell.epsilon or 0.0):
        raise CellError(f"the claim spends epsilon {spent} of {cell.epsilon}")
    most = delta or 1.0 / max(records, 2) ** 2 * (1 + 1e-9)
    if not isinstance(spent_delta, float | int) or not 0 <= spent_delta <= asked <= most:
        raise CellError(f"the claim spends delta {spent_delta} of {most:g}")


def call_scores(command: list[str], scratch: Path, children: Children, record: Record, *, fault: str) -> dict[str, Any]:
    """Scores in a process of its own. Raises: CellError if it fails, or of any row can be said what `fault` says."""
    with (scratch / "scores").open("w+b") as figures, (scratch / "scores-stderr").open("w+b") as errors:
        code, _, wall = children.run(command, stdout=figures, stderr=errors)
    if code != 0:
        raise CellError(f"{Path(command[1]).name} ended with {code}: {last_line(scratch / 'scores-stderr')}")
    scored: dict[str, Any] = json.loads((scratch / "scores").read_text())
    record |= {"rows": scored["rows"], "bad_rows": scored["bad_rows"], "score_s": round(wall, 1)}
    if scored["bad_rows"]:
        raise CellError(f"{scored['bad_rows']} of {scored['rows']} {fault} that the specs do not allow")
    if not scored["rows"]:
        raise CellError("the table written has no rows")
    return scored


def _score(folder: Path, arguments: list[str], scratch: Path, children: Children, record: Record) -> dict[str, float]:
    command = [sys.executable, str(SCORES), str(folder), *arguments]
    scored = call_scores(command, scratch, children, record, fault="rows hold a cell")
    if "tstr_skipped" in scored:
        record["tstr_skipped"] = scored["tstr_skipped"]
    return {name: scored[name] for name in SCORE_NAMES if name in scored}


def last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing on stderr"


# ------------------------------------------------------------------------------------------------ where it was run


def describe_machine() -> Record:
    """Says on what machine, without its name."""
    return {"system": platform.system(), "processor": name_processor(), "cores": len(os.sched_getaffinity(0))}


def describe_code() -> Record:
    """Says which code: the commit, whether files were changed since, and a digest of what really lies there."""
    digest = hashlib.sha256()
    for path in sorted([RUN, *(RUN.parent / "dpwgan").rglob("*.py")]):
        try:
            digest.update(f"{path.relative_to(RUN.parent)}\0".encode() + path.read_bytes() + b"\0")
        except FileNotFoundError:
            continue  # taken away since it was listed

    def ask_git(*arguments: str) -> str | None:
        try:
            answer = subprocess.run(["git", *arguments], cwd=RUN.parent, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None  # a copy without its history
        return answer.stdout.strip()

    changed = ask_git("status", "--porcelain", "--", "dpwgan", "run.py")
    return {
        "commit": ask_git("rev-parse", "HEAD"),
        "changed": None if changed is None else bool(changed),
        "code_sha256": digest.hexdigest(),
    }


# -------------------------------------------------------------------------------------------------------- results


def read_results(path: Path) -> dict[str, Record]:
    """Reads a results file: the latest record of each cell, one that counts before one that does not.

    A last line that was cut off by an interruption is passed over.
    """
    latest: dict[str, Record] = {}
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            key = cell_of(record).key
        except (ValueError, KeyError, TypeError):
            if number == len(lines):
                break
            raise SystemExit(f"utility: line {number} of {path} is not a result") from None
        if record["ok"] or not latest.get(key, {}).get("ok"):
            latest[key] = record
    return latest


class Measurement:
    """Cells to measure as the command line asks, those that a results file holds already, and those that are left."""

    def __init__(self, cells: list[Cell], asked: argparse.Namespace, *, name: str) -> None:
        """Reads what is there; `name` is the program's."""
        self.cells, self._name, self._jobs = cells, name, asked.jobs
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.results = asked.resume or Path("build") / name / f"{stamp}.jsonl"
        there = asked.resume is not None and asked.resume.exists()
        finished = {key: record for key, record in read_results(self.results).items() if record["ok"]} if there else {}
        wanted = {cell.key for cell in cells}
        self.done = [record for key, record in finished.items() if key in wanted]
        self.left = [cell for cell in cells if cell.key not in finished]
        spread = max(1, len(os.sched_getaffinity(0)) // asked.jobs) if asked.jobs > 1 else None
        self.threads: int | None = asked.threads or spread

    def say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def run(self, run_one: Callable[[Cell, Children], Record]) -> list[Record] | None:
        """Runs what is left, appends each record to the results as it comes, and gives them all; None if stopped."""
        before = signal.signal(signal.SIGTERM, stop)
        try:
            return self._run(run_one)
        except KeyboardInterrupt:
            self.say(f"stopped; go on with --resume {self.results}")
            return None
        finally:
            signal.signal(signal.SIGTERM, before)

    def count_failed(self, made: list[Record]) -> int:
        """How many cells do not count, which is said."""
        failed = sum(not record["ok"] for record in made)
        if failed:
            self.say(f"{failed} of {len(self.cells)} cells failed; run them again with --resume {self.results}")
        return failed

    def _run(self, run_one: Callable[[Cell, Children], Record]) -> list[Record]:
        children = Children()
        about = {"machine": describe_machine(), "versions": describe_versions(VERSIONS)}
        records: list[Record] = []

        def work(cell: Cell) -> Record:
            made_by = describe_code()  # now: the code may change while cells wait
            record = run_one(cell, children)
            date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            return record | about | made_by | {"date": date, "jobs": self._jobs, "threads": self.threads}

        self.results.parent.mkdir(parents=True, exist_ok=True)
        mend_last_line(self.results)
        pool = ThreadPoolExecutor(self._jobs)
        try:
            with self.results.open("a") as stream:
                for done in as_completed([pool.submit(work, cell) for cell in self.left]):
                    record = done.result()
                    stream.write(json.dumps(record) + "\n")
                    stream.flush()
                    records.append(record)
                    self.say(f"{len(records)} of {len(self.left)}: {summarise(record)}")
        finally:
            children.stop()
            pool.shutdown(wait=True, cancel_futures=True)
        return records


def mend_last_line(results: Path) -> None:
    if results.exists():
        text = results.read_bytes()
        if not text.endswith(b"\n"):
            results.write_bytes(text[: text.rfind(b"\n") + 1])


def summarise(record: Record) -> str:
    """Says in a line what came of a cell."""
    epsilon = "" if record["epsilon"] is None else f" at epsilon {record['epsilon']:g}"
    what = f"{record['table']}, {title_of(record)}{epsilon}, repetition {record['repetition'] + 1}"
    if not record["ok"]:
        return f"{what}: FAILED: {record['why']}"
    scores = ", ".join(f"{name} {value:g}" for name, value in record["scores"].items())
    took = (
        f" ({record['wall_s']:.0f} s, {record['cpu_s']:.0f} CPU s, {record['peak_mb']} MB)"
        if "wall_s" in record
        else ""
    )
    return f"{what}: {scores}{took}"


# --------------------------------------------------------------------------------------------------------- report


def title_of(record: Record) -> str:
    return cell_of(record).method.title


Group = tuple[str, str, str, float | None]  # table, digest of its rows, title, epsilon


def group_records(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """Puts the repetitions of a cell together, those that count only."""
    groups: dict[Group, list[Record]] = collections.defaultdict(list)
    for record in records:
        if record["ok"]:
            groups[record["table"], record["split_sha256"], title_of(record), record["epsilon"]].append(record)
    return dict(groups)


def list_scores(records: list[Record], score: str) -> list[float]:
    return [record["scores"][score] for record in records if score in record["scores"]]


def median_of(records: list[Record], score: str) -> float | None:
    values = list_scores(records, score)
    return statistics.median(values) if values else None


def report(records: Iterable[Record], peers: Record) -> str:
    """Gives the results as Markdown: what each method reaches, and whether that is more than the best peer does."""
    records = sorted(records, key=_place)
    groups = group_records(record for record in records if "peer" not in record)
    measured = group_records(record for record in records if "peer" in record)
    blocks, shown = [], []
    for table, digest in dict.fromkeys((table, digest) for table, digest, _, _ in [*groups, *measured]):
        known = (
            [figure for figure in peers["figures"] if figure["table"] == table]
            if (peers["splits"].get(table) == digest)
            else []
        )
        here = {
            (title, epsilon): group for (t, d, title, epsilon), group in groups.items() if (t, d) == (table, digest)
        }
        known = known + [_figure_of(group) for (t, d, _, _), group in measured.items() if (t, d) == (table, digest)]
        blocks += [f"## {table}", "\n".join(_table_of_scores(here, known))]
        shown += [
            figure
            for figure in known
            if "runs" not in figure and any(figure["epsilon"] == epsilon for _, epsilon in here)
        ]
        if not known:
            blocks.append("No peer was measured on these rows, so there is nothing to compare with.")
        elif len(goals := _table_of_goals(here, known)) > 2:
            blocks.append("\n".join(goals))
    return "\n\n".join([*blocks, "\n".join(_remarks(records, peers, shown))]) + "\n"


def _figure_of(group: list[Record]) -> Record:
    """Gives the runs of a peer that was measured here as a figure beside those of peers.json."""
    first, scores = group[0], {name: median_of(group, name) for name in SCORE_NAMES}
    costs = {
        "cpu_s": round(statistics.median(record["cpu_s"] for record in group)),
        "peak_gb": round(max(record["peak_mb"] for record in group) / 1024, 1),
    }
    named = {"table": first["table"], "peer": first["method"], "version": "measured here", "kind": "peer"}
    found = {name: value for name, value in scores.items() if value is not None}
    return {**named, "epsilon": first["epsilon"], "runs": len(group), **found, **costs}


def _place(record: Record) -> tuple[str, int, str, int]:
    """Where a record stands, in whatever order the cells came in."""
    title = title_of(record)
    known = [read_method(method).title for method in METHODS]
    place = known.index(title) if title in known else 0 if record["method"] not in (*BASELINES, *REFERENCES) else 2
    return record["table"], place, title, record["repetition"]


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(cells: list[str]) -> list[str]:
    return [row(cells), "|" + "---|" * len(cells)]


def show_spread(values: list[float], digits: int) -> str:
    if not values:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def write_epsilon(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:g}"


def _in_order(here: Iterable[tuple[str, float | None]]) -> list[tuple[str, float | None]]:
    """By epsilon, references last; methods as they came."""
    return sorted(here, key=lambda pair: float("inf") if pair[1] is None else pair[1])


def _table_of_scores(here: dict[tuple[str, float | None], list[Record]], known: list[Record]) -> list[str]:
    lines = head(["epsilon", "method", *SCORE_NAMES, "runs", "CPU s", "peak GB"])
    measured = [("", figure["epsilon"]) for figure in known if "runs" in figure]
    epsilons = dict.fromkeys(epsilon for _, epsilon in _in_order([*here, *measured]))
    for epsilon in epsilons:
        for title, at in here:
            if at != epsilon:
                continue
            group = here[title, at]
            times = [record["cpu_s"] for record in group if "cpu_s" in record]
            sizes = [record["peak_mb"] for record in group if "peak_mb" in record]
            costs = [f"{statistics.median(times):.0f}" if times else "-", f"{max(sizes) / 1024:.1f}" if sizes else "-"]
            scores = [show_spread(list_scores(group, name), DIGITS.get(name, 3)) for name in SCORE_NAMES]
            lines.append(row([write_epsilon(epsilon), f"**{title}**", *scores, str(len(group)), *costs]))
        for figure in known:
            if figure["epsilon"] == epsilon:
                scores = [f"{figure[score]:g}" if score in figure else "-" for score in SCORE_NAMES]
                costs = [f"{figure[cost]:g}" if cost in figure else "-" for cost in ("cpu_s", "peak_gb")]
                lines.append(
                    row([write_epsilon(epsilon), _name_peer(figure), *scores, str(figure.get("runs", 1)), *costs])
                )
    return lines


def _name_peer(figure: Record) -> str:
    version = f" ({figure['version']})" if figure["version"] else ""
    mark = "" if figure["kind"] == "peer" else f" [{figure['kind']}]"
    return f"{figure['peer']}{version}{mark}"


def find_best_peer(known: list[Record], score: str, epsilon: float) -> Record | None:
    """Gives the figure to beat: the best of all peers at this epsilon or a smaller one, which promises no less."""
    rivals = [
        figure
        for figure in known
        if figure["kind"] == "peer"
        and score in figure
        and figure["epsilon"] is not None
        and figure["epsilon"] <= epsilon
    ]
    return max(rivals, key=lambda figure: GOALS[score] * figure[score], default=None)


def judge(ours: float, peer: float, score: str) -> tuple[bool, float]:
    """Says whether our score is the better one, and by how much: above 0 is better, also where lower scores are."""
    gain = GOALS[score] * (ours - peer) + 0.0  # no minus before a zero
    return gain > 0, gain


def _table_of_goals(here: dict[tuple[str, float | None], list[Record]], known: list[Record]) -> list[str]:
    names = [f"{score} {'above' if sign > 0 else 'below'} the best peer" for score, sign in GOALS.items()]
    lines = head(["epsilon", "method", *names, "met"])
    for title, epsilon in _in_order(here):
        group = here[title, epsilon]
        if epsilon is None or group[0]["method"] in BASELINES:
            continue
        cells, met, asked = [], 0, 0
        for score in GOALS:
            ours, peer = median_of(group, score), find_best_peer(known, score, epsilon)
            if ours is None or peer is None:
                cells.append("-")
                continue
            better, gain = judge(ours, peer[score], score)
            asked, met = asked + 1, met + better
            whose = f"{peer['peer']} at {peer['epsilon']:g}: {peer[score]:g}"
            cells.append(f"{'yes' if better else 'no'}, {gain:+.{DIGITS.get(score, 3)}f} ({whose})")
        lines.append(row([write_epsilon(epsilon), title, *cells, f"{met} of {asked}"]))
    return lines


def _remarks(records: list[Record], peers: Record, shown: list[Record]) -> Iterator[str]:
    yield "Figures are medians over the runs, with their range in brackets; pc1_dist is better when lower."
    yield "The noise is fresh in each run; delta is 1/n^2; every run counted left a legal table and a claim that holds."
    if shown:
        yield (
            "Peers: " + "; ".join(peers["conditions"]) + ". The best peer at an epsilon is looked for at smaller ones "
            "too, as what holds at those holds at it."
        )
    notes = collections.defaultdict(list)
    for figure in shown:
        if "note" in figure:
            notes[f"{_name_peer(figure)}: {figure['note']}"].append(
                f"{figure['table']} {write_epsilon(figure['epsilon'])}"
            )
    for note, where in notes.items():
        yield f"- {note} ({', '.join(where)})."
    for why in dict.fromkeys(record["tstr_skipped"] for record in records if "tstr_skipped" in record):
        yield f"- no tstr: {why}."
    yield from list_runs(records, REFERENCES)


def list_runs(records: list[Record], references: Iterable[str]) -> Iterator[str]:
    """Says by which code the runs were made, and which of them do not count."""
    made_by = collections.Counter(name_code(record) for record in records if record["method"] not in references)
    for code, many in made_by.items():
        yield f"- Runs: {many} by {code}."
    for record in records:
        if not record["ok"]:
            yield f"- {summarise(record)}"


def name_code(record: Record) -> str:
    commit = (record["commit"] or "no commit")[:10] + (" with changes" if record["changed"] else "")
    machine = record["machine"]
    where = f"{machine['cores']} cores of {machine['processor']}, Python {record['versions']['python']}"
    return f"{commit} (code {record['code_sha256'][:10]}) on {where}, {record['jobs']} at once"


# --------------------------------------------------------------------------------------------------- command line


def main(arguments: list[str] | None = None) -> int:
    commands = read_peers(os.environ.get("BENCH_PEERS", ""))
    parser = make_parser([*METHODS, *commands])
    asked = parser.parse_args(arguments)
    peers = json.loads(PEERS.read_text())
    if asked.report is not None:
        records = list(read_results(asked.report).values())
        print(report(records, peers), end="")
        return 0 if all(record["ok"] for record in records) else 1

    try:
        methods = [Method(text) if text in commands else read_method(text) for text in asked.methods]
        epsilons = list(dict.fromkeys(asked.epsilons))
        folders = find_tables(asked.tables, asked.only)
    except ValueError as error:
        parser.error(str(error))
    cells = plan_cells({name: digest_split(folder) for name, folder in folders.items()}, methods, epsilons, asked.seeds)
    cells = list({cell.key: cell for cell in cells}.values())
    work = Measurement(cells, asked, name="utility")
    code, done = describe_code()["code_sha256"], work.done
    if done:
        others = sum(record["code_sha256"] != code and not cell_of(record).method.is_reference for record in done)
        skipped = f"{len(done)} finished cells are in {work.results} and skipped"
        work.say(f"{skipped}, {others} of them made by other code than today's")
    work.say(f"{len(work.left)} cells to run, results go to {work.results}")
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)

    def run_one(cell: Cell, children: Children) -> Record:
        return run_cell(cell, folders[cell.table], children, threads=work.threads, keep=asked.keep, peers=commands)

    made = work.run(run_one)
    if made is None:
        return 130
    print(report([*done, *made], peers), end="")
    return 1 if work.count_failed(made) else 0


def stop(*_: Any) -> None:
    """Ends the measurement when a signal asks for it, as Ctrl-C does. Raises: KeyboardInterrupt."""
    raise KeyboardInterrupt


def find_tables(folder: Path, only: list[str]) -> dict[str, Path]:
    """Gives the tables of a folder: its subfolders that hold specs, rows and hold-out rows.

    Raises: ValueError if there is none, or not one that was asked for.
    """
    files = ("data-specs.json", "train.csv.gz", "holdout.csv.gz")
    found = {
        path.name: path
        for path in (sorted(folder.iterdir()) if folder.is_dir() else [])
        if all((path / name).is_file() for name in files)
    }
    absent = [name for name in only if name not in found]
    if absent or not found:
        raise ValueError(f"{folder} has no table {', '.join(absent)}" if absent else f"{folder} has no tables: {files}")
    return {name: found[name] for name in only} if only else found


def make_parser(methods: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = HERE.parent.parent / "shared" / "bench"
    parser.add_argument(
        "--tables", type=Path, default=root, metavar="FOLDER", help=f"folder of tables (default: {root})"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="TABLE", help="these tables only")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="repetitions of each cell (default: 3)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the tables written, and their claims")
    add_options(parser, methods=methods, epsilons=EPSILONS)
    return parser


def add_options(parser: argparse.ArgumentParser, *, methods: Iterable[str], epsilons: Iterable[float]) -> None:
    """Adds what every measurement of cells asks for; by itself it takes these methods and epsilons."""
    parser.add_argument("--methods", nargs="+", default=list(methods), metavar="METHOD")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(epsilons), metavar="EPSILON")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells at once (default: 1)")
    parser.add_argument("--threads", type=int, metavar="N", help="of each cell (default: run.py's; cores / jobs)")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--resume", type=Path, metavar="FILE", help="append here, and skip the cells it holds")
    files.add_argument("--report", type=Path, metavar="FILE", help="print this file, run nothing")


if __name__ == "__main__":
    sys.exit(main())
