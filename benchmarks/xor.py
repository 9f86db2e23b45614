"""Says at which size and epsilon a parity of many columns is found, which no smaller marginal shows. NOT private.

    python benchmarks/xor.py [--ways K...] [--rows N...] [--epsilons E...] [--methods M...] [--runs N]

The table is made up: k - 1 random bits, their exclusive or, and four more columns of five cells that mean nothing, in a
fixed random order. All marginals of fewer than k columns are flat. The score is the share of the rows written that
satisfy the parity: .5 is nothing found, 1 all of it. A METHOD is written as for benchmarks/utility.py, peers included.

Source: the stress test of private-evolution's Tab-PE, arXiv:2606.08259. Prints a Markdown table; progress on stderr.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.processes import RUN, read_peers, run_measured  # noqa: E402
from benchmarks.slices import write  # noqa: E402
from benchmarks.utility import head, read_method, row  # noqa: E402

NOISE_COLUMNS, NOISE_CELLS = 4, 5
METHODS = ("dp-wgan", "query-gan", "query-gan:ways=6")


def make_table(folder: Path, rng: np.random.Generator, *, ways: int, rows: int) -> None:
    """Writes a table whose first columns, x0 to x(k - 1), have an even sum in each row."""
    bits = rng.integers(2, size=(rows, ways))
    bits[:, -1] = bits[:, :-1].sum(axis=1) % 2
    noise = rng.integers(NOISE_CELLS, size=(rows, NOISE_COLUMNS))
    names = [f"x{place}" for place in range(ways)] + [f"z{place}" for place in range(NOISE_COLUMNS)]
    table = pd.DataFrame(np.hstack([bits, noise]), columns=names)[
        [names[place] for place in rng.permutation(len(names))]
    ]
    specs = {name: {"type": "enum", "count": 2 if name[0] == "x" else NOISE_CELLS} for name in table}
    write(folder, specs, {"train.csv.gz": table})


def share_found(path: Path) -> float:
    table = pd.read_csv(path)
    return float((table.filter(regex="^x").sum(axis=1) % 2 == 0).mean())


def run_once(folder: Path, method: str, epsilon: float, peers: dict[str, list[str]]) -> tuple[float, float]:
    """Runs a method once. Gives the share found and CPU seconds. Raises: RuntimeError if it fails."""
    files = {"data": str(folder / "train.csv.gz"), "specs": str(folder / "data-specs.json")}
    output = folder / "output.csv"
    if method in peers:
        command = [part.format(**files, output=output, epsilon=epsilon) for part in peers[method]]
    else:
        asked = read_method(method)
        command = [*RUN, files["data"], str(output), files["specs"], str(epsilon), "--method", asked.name, *asked.flags]
    run = run_measured(command)
    if run.exit_code != 0:
        raise RuntimeError(f"{method} ended with {run.exit_code}: {run.errors[-300:]}")
    return share_found(output), run.cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", type=int, default=[3, 4, 5, 6, 7], metavar="K")
    parser.add_argument("--rows", nargs="+", type=int, default=[2_000, 10_000, 100_000], metavar="N")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0], metavar="E")
    parser.add_argument("--methods", nargs="+", default=METHODS, metavar="M")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    asked = parser.parse_args()
    peers = read_peers(os.environ.get("BENCH_PEERS", ""))
    print(
        "\n".join(head(["columns", "rows", "epsilon", *(f"{method}, CPU s" for method in asked.methods)])), flush=True
    )
    for ways in asked.ways:
        for rows in asked.rows:
            with tempfile.TemporaryDirectory() as scratch:
                make_table(Path(scratch), np.random.default_rng(ways), ways=ways, rows=rows)
                for epsilon in asked.epsilons:
                    cells = [str(ways), str(rows), f"{epsilon:g}"]
                    for method in asked.methods:
                        runs = [run_once(Path(scratch), method, epsilon, peers) for _ in range(asked.runs)]
                        found, seconds = (statistics.median(values) for values in zip(*runs, strict=True))
                        cells.append(f"{found:.3f}, {seconds:.0f}")
                        print(f"xor: {ways} {rows} {epsilon:g} {method}: {cells[-1]}", file=sys.stderr, flush=True)
                    print(row(cells), flush=True)


if __name__ == "__main__":
    main()
