"""Measures one private critic step beside what it is compared with: its own non-private twin, dense steps, the rivals.

    python benchmarks/steps.py [--cases WIDTH,BATCH...] [--rounds N] [--seconds S] [--threads N] [--json FILE]

Every step reads a Poisson batch of made-up one-hot rows, has the fakes of the same generator beside them and updates
the same critic (256, 256) in the same way. Steps of different kinds take turns, `--rounds` times for `--seconds` each,
so that what else the machine does meets all of them. Times are CPU seconds of this process: medians over the rounds,
the least and the largest behind them.

  private          the product's: closed-form norms, rows by index, noise from the cryptographic stream
  twin             the same without clip and noise, gradients by differentiation
  dense            the twin on dense one-hot rows
  ghost            tensorflow-privacy's fast gradient clipping and Gaussian query (the engine `reference`)
  vectorized       tensorflow-privacy's VectorizedDPKerasSGDOptimizer: a gradient for each row; small cases alone
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from dpwgan.accounting.budget import Budget, NeighboringRelation  # noqa: E402
from dpwgan.discriminators.critic import LEAK, Critic  # noqa: E402
from dpwgan.encoded import EncodedTable, Span, TableShape  # noqa: E402
from dpwgan.generators.mlp import MlpGenerator  # noqa: E402
from dpwgan.randomness import make_streams  # noqa: E402
from dpwgan.training.critic_update import CriticUpdate  # noqa: E402
from dpwgan.training.latents import LatentSource  # noqa: E402
from dpwgan.training.plan import TrainingPlan, plan_training  # noqa: E402
from dpwgan.training.private_step import FusedStep  # noqa: E402
from dpwgan.training.reference_step import ReferenceStep  # noqa: E402
from dpwgan.training.sampling import sample_poisson_rows  # noqa: E402
from dpwgan.training.settings import DpWganSettings  # noqa: E402

CASES = ((120, 64), (1300, 512), (1300, 4096), (9000, 512))
CATEGORIES = 20
RECORDS = 20_000
# A gradient for each row needs batch x weights numbers.
_MOST_VECTORIZED = 2**28
HIDDEN = (256, 256)

Step = Callable[[np.ndarray], None]


def make_table(width: int, rng: np.random.Generator) -> EncodedTable:
    """Makes rows of width / 20 columns with 20 categories each."""
    columns = width // CATEGORIES
    spans = tuple(
        Span(
            column=f"c{i}",
            role="category",
            head="softmax",
            start=i * CATEGORIES,
            width=CATEGORIES,
            source=i,
            categories=CATEGORIES,
        )
        for i in range(columns)
    )
    codes = rng.integers(0, CATEGORIES, size=(RECORDS, columns)).astype(np.int32)
    return EncodedTable(codes=codes, numbers=np.zeros((RECORDS, 0), np.float32), spans=spans)


class _Parts:
    """A critic, a generator and an update of their own for each kind of step."""

    def __init__(self, table: EncodedTable, plan: TrainingPlan) -> None:
        rng = np.random.default_rng(1)
        self.table, self.plan = table, plan
        self.critic = Critic(table.spans, hidden=HIDDEN, weight_clip=1.0, rng=rng)
        self.generator = MlpGenerator(table.spans, latent=64, hidden=HIDDEN, rng=rng)
        self.latents = LatentSource(latent=64, width=plan.shape.width, rng=rng)

    @property
    def as_arguments(self) -> dict[str, Any]:
        return {"critic": self.critic, "generator": self.generator, "latents": self.latents, "plan": self.plan}


class _PlainStep:
    """The step without privacy: mean gradients by differentiation, the same update."""

    def __init__(self, parts: _Parts, *, dense: bool) -> None:
        self._parts, self._dense = parts, dense
        self._codes = tf.constant(parts.table.codes)
        self._update = CriticUpdate(parts.critic, parts.plan)
        self._step = tf.function(self._trace, input_signature=[tf.TensorSpec([None], tf.int64)])

    def __call__(self, rows: np.ndarray) -> None:
        self._step(tf.constant(rows))

    def _trace(self, rows: tf.Tensor) -> None:
        parts, critic = self._parts, self._parts.critic
        codes = tf.gather(self._codes, rows)
        fakes = tf.stop_gradient(parts.generator.rows(*parts.latents.draw(parts.plan.generated_batch_size)))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(critic.weights)
            if self._dense:
                real = critic.score(tf.reshape(tf.one_hot(codes, CATEGORIES), [-1, parts.plan.shape.width]))
            else:
                read = critic.read_rows(codes, tf.zeros((tf.shape(codes)[0], 0)))
                first = critic._first_product(read, critic.weights[0])
                activation = tf.nn.leaky_relu(first + critic.weights[1], LEAK)
                activation = tf.nn.leaky_relu(activation @ critic.weights[2] + critic.weights[3], LEAK)
                real = tf.squeeze(activation @ critic.weights[4], axis=1)
            loss = tf.reduce_sum(real)
        # What differentiation gives for a matrix read by index is a list of its rows: added up, as an update needs it.
        real_sums = [tf.convert_to_tensor(part) for part in tape.gradient(loss, critic.weights)]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(critic.weights)
            loss = tf.reduce_sum(critic.score(fakes))
        self._update.apply(
            real_sums,
            tape.gradient(loss, critic.weights),
            generated=parts.plan.generated_batch_size,
            learning_rate=tf.constant(1e-3),
        )


class _VectorizedStep:
    """tensorflow-privacy's vectorized optimizer on dense rows, real ones alone: a gradient for each row."""

    def __init__(self, parts: _Parts) -> None:
        from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras_vectorized import VectorizedDPKerasSGDOptimizer

        plan = parts.plan
        layers: list[Any] = [tf.keras.layers.InputLayer(input_shape=(plan.shape.width,))]
        for width in HIDDEN:
            layers += [tf.keras.layers.Dense(width), tf.keras.layers.LeakyReLU(LEAK)]
        model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1, use_bias=False)])
        size = int(plan.expected_batch_size)
        optimizer = VectorizedDPKerasSGDOptimizer(
            l2_norm_clip=plan.l2_clip_norm,
            noise_multiplier=plan.noise_multiplier,
            num_microbatches=size,
            learning_rate=1e-3,
        )
        codes = tf.constant(parts.table.codes)

        @tf.function(input_signature=[tf.TensorSpec([size], tf.int64)])
        def step(rows: tf.Tensor) -> None:
            dense = tf.reshape(tf.one_hot(tf.gather(codes, rows), CATEGORIES), [size, plan.shape.width])
            with tf.GradientTape(persistent=True) as tape:
                loss = -tf.squeeze(model(dense), axis=1)
            pairs = optimizer._compute_gradients(loss, model.trainable_variables, tape=tape)
            optimizer.apply_gradients(pairs)

        self._size, self._step = size, step

    def __call__(self, rows: np.ndarray) -> None:
        # It takes batches of one size alone: rows are taken again, or left out, to that size.
        self._step(tf.constant(np.resize(rows, self._size)))


def make_steps(width: int, batch: int) -> tuple[TrainingPlan, dict[str, Step]]:
    """Makes every kind of step that fits into memory."""
    table = make_table(width, np.random.default_rng(0))
    settings = DpWganSettings(hidden_critic=HIDDEN, hidden_generator=HIDDEN, expected_batch_size=batch, steps=1_000)
    plan = plan_training(
        TableShape(records=RECORDS, spans=table.spans),
        Budget(epsilon=1.0, delta=1e-9),
        settings=settings,
        accountant_rule="moments",
        neighboring_relation=NeighboringRelation.ZERO_OUT,
    )
    # As many fakes as rows, as in the published method: what is compared is the cost of a row.
    plan = replace(plan, generated_batch_size=batch)

    def private(kind: Any) -> Step:
        parts = _Parts(table, plan)
        step = kind(table, **parts.as_arguments)
        streams = make_streams()
        return lambda rows: step(rows, noise_rng=streams.noise, learning_rate=1e-3)

    steps: dict[str, Step] = {
        "private": private(FusedStep),
        "twin": _PlainStep(_Parts(table, plan), dense=False),
        "dense": _PlainStep(_Parts(table, plan), dense=True),
        "ghost": private(ReferenceStep),
    }
    if batch * plan.critic_weights <= _MOST_VECTORIZED:
        steps["vectorized"] = _VectorizedStep(_Parts(table, plan))
    return plan, steps


def measure(width: int, batch: int, *, rounds: int, seconds: float) -> dict[str, Any]:
    """Measures one case. Units: CPU milliseconds a step, a list of one number a round for each kind of step."""
    plan, steps = make_steps(width, batch)
    rng = np.random.default_rng(3)
    probability = plan.sampling_probability
    times: dict[str, list[float]] = {name: [] for name in steps}
    counts = {}
    for name, step in steps.items():
        step(sample_poisson_rows(RECORDS, sampling_probability=probability, rng=rng))  # traces
        start = time.process_time()
        step(sample_poisson_rows(RECORDS, sampling_probability=probability, rng=rng))
        counts[name] = max(1, round(seconds / max(time.process_time() - start, 1e-4)))
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.process_time()
            for _ in range(counts[name]):
                step(sample_poisson_rows(RECORDS, sampling_probability=probability, rng=rng))
            times[name].append(1e3 * (time.process_time() - start) / counts[name])
    return {"width": width, "batch": batch, "critic_weights": plan.critic_weights, "cpu_ms": times}


def describe(case: dict[str, Any]) -> str:
    """Writes a case as a row of the table: the private step's time, and ratios of one round each."""
    times = case["cpu_ms"]

    def show(values: list[float]) -> str:
        return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"

    def ratio(over: str, under: str) -> str:
        if over not in times:
            return "too large"
        return show([one / other for one, other in zip(times[over], times[under], strict=True)])

    cells = [
        f"{case['width']}, {case['batch']}",
        show(times["private"]),
        ratio("private", "twin"),
        ratio("private", "dense"),
        ratio("ghost", "private"),
        ratio("vectorized", "private"),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measures every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[f"{width},{batch}" for width, batch in CASES], metavar="W,B")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each kind of step in a round")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--json", type=Path, help="write all times there")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(asked.threads)
    print(
        "| width, batch | private, CPU ms | private / twin | private / dense | ghost / private | vectorized / private |"
    )
    print("|---" * 6 + "|")
    results = []
    for text in asked.cases:
        width, batch = (int(part) for part in text.split(","))
        results.append(measure(width, batch, rounds=asked.rounds, seconds=asked.seconds))
        print(describe(results[-1]), flush=True)
    if asked.json is not None:
        machine = {"cores": os.cpu_count(), "machine": platform.machine(), "tensorflow": tf.__version__}
        asked.json.write_text(json.dumps({"machine": machine, "cases": results}, indent=1))


if __name__ == "__main__":
    main()
