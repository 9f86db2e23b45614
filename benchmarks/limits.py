"""Says what limits the tables of the anchor, by switching off one after the other what takes from them. NOT private.

    python benchmarks/limits.py FOLDER... [--epsilons E...] [--runs N] [--only PART...]

A FOLDER is one of those that benchmarks/utility.py takes. The method is query-gan. Each part is the same run but for
one thing, which no run of the product can do: it reads rows without noise.

as it is            the method
no noise            every count is released exactly, so that nothing is merged and no answer is drawn towards what was
                    expected; marginals are chosen as before, and codes are fitted as if the noise were a tenth
no selection error  the marginal of the largest expected gain is always the one that is asked for
neither             no noise and no selection error: what is left is what was not asked for

Prints a Markdown table, the median of the runs; a line of JSON a run goes to stderr.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from benchmarks import scores  # noqa: E402
from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.marginals.fit import plan as fit_plan  # noqa: E402
from dpwgan.marginals.selection import queries  # noqa: E402
from dpwgan.privacy.noise_source import NoiseSource  # noqa: E402
from dpwgan.privacy.release import Noisy, Release  # noqa: E402

SHOWN = ("kway_1", "kway_2", "kway_3", "hoc", "pc1_dist", "tstr_auc")


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Makes every release of counts exact, and the fit act accordingly."""

    def release(source: NoiseSource, release: Release, exact: Any) -> Noisy:
        return Noisy(values=np.asarray(exact, np.float64).copy(), stddev=release.stddev)

    weight = fit_plan._INFORMATION_WEIGHT / 10
    with (
        mock.patch.object(NoiseSource, "add_noise", release),
        mock.patch.object(queries, "denoise", lambda noisy, expected, stddev, **more: (noisy, stddev)),
        mock.patch.multiple(fit_plan, _LEAST_STDDEVS=1e-6, _INFORMATION_WEIGHT=weight),
    ):
        yield


def without_selection_error() -> Any:
    def select(source: NoiseSource, release: Release, scores: Any) -> int:
        return int(np.argmax(scores))

    return mock.patch.object(NoiseSource, "select", select)


PARTS: dict[str, tuple[Callable[[], Any], ...]] = {
    "as it is": (),
    "no noise": (without_noise,),
    "no selection error": (without_selection_error,),
    "neither": (without_noise, without_selection_error),
}


def measure(folder: Path, epsilon: float, part: str) -> dict[str, Any]:
    frame = pd.read_csv(folder / "train.csv.gz", dtype=str, keep_default_na=False)
    start = time.process_time()
    with ExitStack() as stack:
        for switch in PARTS[part]:
            stack.enter_context(switch())
        synthesizer = Synthesizer(folder / "data-specs.json", epsilon, method="query-gan", device="cpu").fit(frame)
        synthetic = synthesizer.sample()
    seconds = time.process_time() - start
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "synthetic.csv"
        synthetic.to_csv(path, index=False)
        scored = scores.score(folder, path)
    kept = {name: scored[name] for name in SHOWN if name in scored}
    return {"table": folder.name, "epsilon": epsilon, "part": part, "cpu_s": round(seconds, 1), **kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 8.0], metavar="E")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    asked = parser.parse_args()
    print(f"| table, epsilon | part | runs | {' | '.join(SHOWN)} | CPU s |")
    print("|---" * (len(SHOWN) + 4) + "|")
    for folder in asked.folders:
        for epsilon in asked.epsilons:
            for part in asked.only:
                records = []
                for _ in range(asked.runs):
                    records.append(measure(folder, epsilon, part))
                    print(json.dumps(records[-1]), file=sys.stderr, flush=True)
                medians = [
                    f"{statistics.median(record[name] for record in records):.4g}" if name in records[0] else ""
                    for name in (*SHOWN, "cpu_s")
                ]
                print(f"| {folder.name} {epsilon:g} | {part} | {asked.runs} | {' | '.join(medians)} |", flush=True)


if __name__ == "__main__":
    main()
