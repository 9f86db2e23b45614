"""What a benchmark measured, in one form: figures with their spread and goal, and the machine they were taken on.

    python benchmarks/figures.py A.json B.json

puts two files of results side by side: medians, their ratio, and which differ by more than their spread. Two figures
differ where the spreads (least to most of all runs) do not meet. A figure of one run has no spread, and a difference of
less than 5% of it is taken for none.

A file of results is JSON: `machine`, `versions`, `figures` (a list of name, unit, median, low, high, runs, goal) and
`skipped` (a reason by name). A goal is text like "<= 1.2"; a figure without one is there to be known.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_OF_ONE_RUN = 0.05
PACKAGES = ("tensorflow", "tensorflow-privacy", "numpy", "scipy", "pandas", "polars", "dp-accounting", "randomgen")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number that was measured: the median over `runs`, the least and the largest."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    goal: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the goal; None where there is none."""
        if self.goal is None:
            return None
        relation, bound = self.goal.split()
        return self.median <= float(bound) if relation == "<=" else self.median >= float(bound)


def take_figure(name: str, values: Sequence[float], *, unit: str, goal: str | None = None) -> Figure:
    return Figure(
        name=name,
        unit=unit,
        median=statistics.median(values),
        low=min(values),
        high=max(values),
        runs=len(values),
        goal=goal,
    )


def take_ratios(name: str, over: Sequence[float], under: Sequence[float], *, goal: str | None = None) -> Figure:
    """Makes a figure of ratios, each of two times of one round: what else the machine did met both."""
    return take_figure(name, [one / other for one, other in zip(over, under, strict=True)], unit="ratio", goal=goal)


def name_processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def describe_machine() -> dict[str, Any]:
    return {
        "cpu": name_processor(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": list(os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def describe_versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Gives the versions of what the figures depend on, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_results(
    path: Path, figures: Sequence[Figure], *, skipped: Mapping[str, str] | None = None, **more: Any
) -> None:
    """Writes a file of results; `more` goes beside them."""
    document = {
        "machine": describe_machine(),
        "versions": describe_versions(),
        "figures": [asdict(figure) for figure in figures],
        "skipped": dict(skipped or {}),
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def read_figures(document: Mapping[str, Any]) -> list[Figure]:
    """Takes the figures out of a results document. Raises: KeyError, TypeError for what is none."""
    return [Figure(**item) for item in document["figures"]]


def describe(figure: Figure) -> str:
    verdict = {True: "yes", False: "**no**", None: ""}[figure.met]
    spread = f"{figure.median:.3g} ({figure.low:.3g}-{figure.high:.3g})"
    return f"| {figure.name} | {spread} {figure.unit} | {figure.runs} | {figure.goal or ''} | {verdict} |"


HEADING = "| what | median (least-most) | runs | goal | met |\n|---|---|---|---|---|"


def report(
    figures: Sequence[Figure], path: Path | None, *, skipped: Mapping[str, str] | None = None, **more: Any
) -> None:
    """Prints the table of figures, and writes a file of results where there is a path for one."""
    print(HEADING)
    for figure in figures:
        print(describe(figure))
    if path is not None:
        write_results(path, figures, skipped=skipped, **more)


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits a command line at `--`: what is the benchmark's, and what goes to the program that it measures."""
    if "--" not in arguments:
        return list(arguments), []
    place = list(arguments).index("--")
    return list(arguments[:place]), list(arguments[place + 1 :])


def differ(one: Figure, other: Figure) -> bool:
    """Says whether two figures are further apart than their spreads reach."""

    def bounds(figure: Figure) -> tuple[float, float]:
        margin = _OF_ONE_RUN * abs(figure.median) if figure.runs == 1 else 0.0
        return figure.low - margin, figure.high + margin

    (low, high), (other_low, other_high) = bounds(one), bounds(other)
    return high < other_low or other_high < low


def compare(first: list[Figure], second: list[Figure]) -> list[str]:
    """Writes the rows of the table, in the first file's order; what only one file has comes with a gap."""
    ours, theirs = ({figure.name: figure for figure in figures} for figures in (first, second))
    rows = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        one, other = ours.get(name), theirs.get(name)
        cells = [_show(one), _show(other), "", ""]
        if one is not None and other is not None:
            if one.unit != other.unit:
                cells[2:] = ["", f"{one.unit} and {other.unit}"]
            else:
                ratio = f"{other.median / one.median:.3g}" if one.median else ""
                cells[2:] = [ratio, "**differs**" if differ(one, other) else ""]
        rows.append(f"| {' | '.join([name, *cells])} |")
    return rows


def _show(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.median:.3g} ({figure.low:.3g}-{figure.high:.3g}) {figure.unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=Path, metavar="FILE")
    asked = parser.parse_args()
    documents = []
    for path in asked.files:
        try:
            document = json.loads(path.read_text())
            documents.append((document, read_figures(document)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path} is no file of results ({type(error).__name__})") from None
    for letter, path, (document, _) in zip("AB", asked.files, documents, strict=True):
        told = ", ".join(f"{key} {value}" for key, value in document.get("machine", {}).items())
        print(f"{letter}: {path} ({told})")
    print("\n| what | A | B | B / A | |\n|---|---|---|---|---|")
    for row in compare(documents[0][1], documents[1][1]):
        print(row)


if __name__ == "__main__":
    main()
