"""Puts two files of results side by side: medians, their ratio, and which differ by more than their spread.

    python benchmarks/compare.py A.json B.json

Two figures differ where the spreads (least to most of all runs) do not meet. A figure of one run has no spread, and a
difference of less than 5% of it is taken for none.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import Figure, read_figures

_OF_ONE_RUN = 0.05


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
    """Compares two files."""
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
        machine = document.get("machine", {}) if isinstance(document, dict) else {}
        told = ", ".join(f"{key} {value}" for key, value in machine.items())
        print(f"{letter}: {path} ({told})")
    print("\n| what | A | B | B / A | |\n|---|---|---|---|---|")
    for row in compare(documents[0][1], documents[1][1]):
        print(row)


if __name__ == "__main__":
    main()
