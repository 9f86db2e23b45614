"""Says what the critic adds to the anchor it starts from: both tables of one run, before it and after. NOT private.

    python benchmarks/critic.py FOLDER... [--epsilons E...] [--runs N] [--variants SETTING=VALUE[:...]...]

A FOLDER is one of those that benchmarks/utility.py takes. A run of dp-wgan fits its anchor, then trains the critic
beside it; here the generator is kept as it was in between, and a table is drawn of either. What noise and questions
happened to be is the same in both, so that the difference shows what the critic did, but not what its share of the
budget costs the anchor: that is between the rows of a smaller share and of a larger one.

A variant is a list of run.py's settings, such as `critic-share=0.3:batch-size=4096`, or `default`. Three more that are
no settings of the tool: `projection=64`, a critic that sees rows through a public random orthonormal projection to so
many dimensions and has noise on as many fewer weights; `warm-start=0.5`, a generator that waits for that share of the
steps; `noise=0`, that share of the noise that was charged for, to see what a critic could do without any.

Prints a Markdown table, each score before and after (means over the runs); a line of JSON a run goes to stderr.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402

from benchmarks import scores  # noqa: E402
from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.app.config import TRAINING_OPTIONS  # noqa: E402
from dpwgan.critic import critic, loop  # noqa: E402
from dpwgan.methods import dp_wgan  # noqa: E402
from dpwgan.privacy.noise_source import NoiseSource  # noqa: E402
from dpwgan.table.encoded import Span  # noqa: E402

SHOWN = ("kway_2", "kway_3", "hoc", "pc1_dist", "tstr_auc", "apart")
VARIANTS = (
    "default",
    "critic-weight=0.1",
    "critic-share=0.1",
    "critic-share=0.3:critic-weight=0.01",
    "critic-share=0.3:batch-size=4096:critic-steps=20",
    "critic-share=0.1:projection=64",
    "critic-share=0.1:warm-start=0.5",
)
EXPERIMENTS = {"projection": int, "warm-start": float, "noise": float}


Plain = critic.Critic


class ProjectedCritic(Plain):
    """A critic on x P, P a public random orthonormal matrix that is never trained: no gradient, no noise on its layer.

    Source: Chanyaswad, Liu, Mittal 2019, arXiv:1709.00054, section 4 (the projection).
    """

    def __init__(
        self,
        spans: Sequence[Span],
        *,
        dimension: int,
        hidden: Sequence[int],
        weight_clip: float,
        rng: np.random.Generator,
    ) -> None:
        seen = [
            Span(column=f"z{i}", role="number", head="linear", start=i, width=1, source=i, categories=0)
            for i in range(dimension)
        ]
        super().__init__(seen, hidden=hidden, weight_clip=weight_clip, rng=rng)
        width = sum(span.width for span in spans)
        basis = np.linalg.qr(rng.standard_normal((width, dimension)))[0].astype(np.float32)
        # What reads rows by index knows the columns of the table.
        self._reader = Plain(spans, hidden=(1,), weight_clip=weight_clip, rng=rng)
        self._basis = tf.constant(basis)

    def score(self, dense: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        return super().score(dense @ self._basis, weights)

    def read_rows(self, codes: tf.Tensor, numbers: tf.Tensor) -> critic.Inputs:
        projected = self._reader._first_product(self._reader.read_rows(codes, numbers), self._basis)
        squared_norm = tf.reduce_sum(tf.square(projected), axis=1)
        return critic.Inputs(dense=projected, indices=None, squared_norm=squared_norm)

    def clipped_sums(
        self, rows: critic.Cells, generated: critic.Cells, *, l2_clip_norm: float
    ) -> tuple[critic.Sums, critic.Sums]:
        real, fake = (self.clipped_sum_of_rows(*half, l2_clip_norm=l2_clip_norm) for half in (rows, generated))
        return real, fake


@contextlib.contextmanager
def experiment(*, projection: int | None = None, warm_start: float = 0.0, noise: float = 1.0) -> Iterator[None]:
    train = loop.train

    def train_late(plan: Any, *, generator_step: Any, **more: Any) -> None:
        waits = int(warm_start * plan.steps / plan.settings.critic_steps_per_generator_step)
        waits *= plan.settings.generator_steps

        def step(*, learning_rate: float) -> None:
            nonlocal waits
            waits -= 1
            if waits < 0:
                generator_step(learning_rate=learning_rate)

        train(plan, generator_step=step, **more)

    with contextlib.ExitStack() as stack:
        if projection is not None:
            projected = functools.partial(ProjectedCritic, dimension=projection)
            stack.enter_context(mock.patch.object(critic, "Critic", projected))
        if noise != 1.0:
            # No run of the product can have less noise than was charged for.
            quieter = lambda source, release: noise * release.stddev  # noqa: E731
            stack.enter_context(mock.patch.object(NoiseSource, "get_stddev", quieter))
        if warm_start:
            stack.enter_context(mock.patch.object(loop, "train", train_late))
        yield


def read_variant(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the settings of a variant, and what is none of them.

    Raises: ValueError for a name that is none; UsageError for a value.
    """
    known = {option.name: option for option in TRAINING_OPTIONS.values()}
    settings, experiments = {}, {}
    for part in text.split(":") if text != "default" else ():
        name, _, value = part.partition("=")
        if name in EXPERIMENTS:
            experiments[name.replace("-", "_")] = EXPERIMENTS[name](value)
            continue
        if name not in known:
            raise ValueError(f"there is no setting {name}")
        settings[known[name].key] = known[name].read(value, origin=name)
    return settings, experiments


def measure(folder: Path, epsilon: float, variant: str) -> dict[str, Any]:
    """Runs one variant once, in this process, and scores what was before the critic and after it."""
    frame = pd.read_csv(folder / "train.csv.gz", dtype=str, keep_default_na=False)
    kept: dict[str, Any] = {}
    fit_anchor = dp_wgan.fit_anchor

    def keep(*arguments: Any, **more: Any) -> Any:
        anchor = fit_anchor(*arguments, **more)
        kept["before"], kept["start"] = anchor.generator.probabilities().copy(), time.process_time()
        return anchor

    settings, experiments = read_variant(variant)
    synthesizer = Synthesizer(folder / "data-specs.json", epsilon, device="cpu", settings=settings)
    with mock.patch.object(dp_wgan, "fit_anchor", keep), experiment(**experiments):
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
