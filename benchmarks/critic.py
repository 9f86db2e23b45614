"""Says what the critic adds to the anchor it starts from: both tables of one run, before it and after. NOT private.

    python benchmarks/critic.py FOLDER... [--epsilons E...] [--runs N] [--variants SETTING=VALUE[:...]...]

A FOLDER is one of those that benchmarks/utility.py takes. A run of dp-wgan fits its anchor, then trains the critic
beside it; here the generator is kept as it was in between, and a table is drawn of either. What noise and questions
happened to be is the same in both, so that the difference shows what the critic did, but not what its share of the
budget costs the anchor: that is between the rows of a smaller share and of a larger one.

A variant is a list of run.py's settings, such as `critic-share=0.3:batch-size=4096`, or `default`. One more is no
setting of the tool: `noise=0`, that share of the noise that was charged for, to see what a critic could do without any.

Prints a Markdown table, each score before and after (means over the runs); a line of JSON a run goes to stderr.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pandas as pd  # noqa: E402

from benchmarks import scores  # noqa: E402
from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.app.config import TRAINING_OPTIONS  # noqa: E402
from dpwgan.methods import dp_wgan  # noqa: E402
from dpwgan.privacy.noise_source import NoiseSource  # noqa: E402

SHOWN = ("kway_2", "kway_3", "hoc", "pc1_dist", "tstr_auc", "apart")
VARIANTS = (
    "default",
    "critic-weight=0.1",
    "critic-share=0.1",
    "critic-share=0.3:critic-weight=0.01",
    "critic-share=0.3:batch-size=4096:critic-steps=20",
)


def read_variant(text: str) -> tuple[dict[str, Any], float]:
    """Reads the settings of a variant, and the share of the noise.

    Raises: ValueError for a name that is none; UsageError for a value.
    """
    known = {option.name: option for option in TRAINING_OPTIONS.values()}
    settings, noise = {}, 1.0
    for part in text.split(":") if text != "default" else ():
        name, _, value = part.partition("=")
        if name == "noise":
            noise = float(value)
        elif name in known:
            settings[known[name].key] = known[name].read(value, origin=name)
        else:
            raise ValueError(f"there is no setting {name}")
    return settings, noise


def measure(folder: Path, epsilon: float, variant: str) -> dict[str, Any]:
    """Runs one variant once, in this process, and scores what was before the critic and after it."""
    frame = pd.read_csv(folder / "train.csv.gz", dtype=str, keep_default_na=False)
    kept: dict[str, Any] = {}
    fit_anchor = dp_wgan.fit_anchor

    def keep(*arguments: Any, **more: Any) -> Any:
        anchor = fit_anchor(*arguments, **more)
        kept["before"], kept["start"] = anchor.generator.probabilities().copy(), time.process_time()
        return anchor

    settings, noise = read_variant(variant)
    synthesizer = Synthesizer(folder / "data-specs.json", epsilon, device="cpu", settings=settings)
    # No run of the product can have less noise than was charged for.
    quieter = mock.patch.object(NoiseSource, "get_stddev", lambda source, release: noise * release.stddev)
    with mock.patch.object(dp_wgan, "fit_anchor", keep), quieter:
        synthesizer.fit(frame)
    record: dict[str, Any] = {"table": folder.name, "epsilon": epsilon, "variant": variant}
    record["critic_cpu_s"] = round(time.process_time() - kept["start"], 1)
    fit = synthesizer._require_fit()
    after = fit.model
    for name, model in (("before", dataclasses.replace(after, probabilities=kept["before"])), ("after", after)):
        fit.model = model
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "synthetic.csv"
            synthesizer.sample().to_csv(path, index=False)
            scored = scores.score(folder, path)
        record[name] = {score: scored[score] for score in SHOWN if score in scored}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 8.0], metavar="E")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, metavar="VARIANT")
    asked = parser.parse_args()
    for variant in asked.variants:
        read_variant(variant)
    print(f"| table, epsilon | settings | runs | {' | '.join(SHOWN)} | critic's CPU s |")
    print("|---" * (len(SHOWN) + 4) + "|")
    for folder in asked.folders:
        for epsilon in asked.epsilons:
            for variant in asked.variants:
                records = []
                for _ in range(asked.runs):
                    records.append(measure(folder, epsilon, variant))
                    print(json.dumps(records[-1]), file=sys.stderr, flush=True)
                cells = [
                    " to ".join(
                        f"{statistics.mean(record[when][name] for record in records):.4g}"
                        for when in ("before", "after")
                    )
                    if name in records[0]["before"]
                    else ""
                    for name in SHOWN
                ]
                seconds = statistics.median(record["critic_cpu_s"] for record in records)
                print(
                    f"| {folder.name} {epsilon:g} | {variant} | {asked.runs} | {' | '.join(cells)} | {seconds:.3g} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
