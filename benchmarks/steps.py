"""Measures one private critic step beside what it is compared with: its own non-private twin, dense steps, a rival.

    python benchmarks/steps.py [--cases WIDTH,BATCH...] [--rounds N] [--seconds S] [--threads N] [--quick] [--json FILE]

What is timed is the critic's step alone: every kind of step has the same made-up one-hot rows by a Poisson batch, as
many fakes that were drawn beforehand, the same critic (256, 256) and the same update. `with generator` has the
product's step draw its fakes as well. Steps of different kinds take turns, `--rounds` times for `--seconds` each, so
that what else the machine does meets all of them. All are taken in the product's compiled loop, as many at a time as
it takes. Times are CPU seconds of this process, for one step.

  private          the product's: closed-form norms, real and generated rows by index, cryptographic noise
  plain noise      the same with --step-noise plain
  twin             the same step without norms, clip and noise
  dense            the same without privacy on dense one-hot rows, gradients by differentiation
  ghost            tensorflow-privacy's fast gradient clipping on dense real rows, compiled, TensorFlow's noise
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from benchmarks.figures import HEADING, Figure, describe, take_figure, take_ratios, write_results  # noqa: E402
from dpwgan.critic.critic import LEAK, Cells, Critic, Inputs, Sums, pass_back  # noqa: E402
from dpwgan.critic.device import compile_step  # noqa: E402
from dpwgan.critic.generators import LatentSource, MlpGenerator  # noqa: E402
from dpwgan.critic.loop import CompiledLoop  # noqa: E402
from dpwgan.critic.optimizers import CriticUpdate  # noqa: E402
from dpwgan.critic.plan import TrainingDesign, plan_training  # noqa: E402
from dpwgan.critic.private_step import FusedStep  # noqa: E402
from dpwgan.critic.settings import DpWganSettings  # noqa: E402
from dpwgan.privacy.budget import Budget, NeighboringRelation  # noqa: E402
from dpwgan.privacy.poisson import sample_poisson_rows  # noqa: E402
from dpwgan.privacy.randomness import make_streams  # noqa: E402
from dpwgan.privacy.terms import Terms  # noqa: E402
from dpwgan.table.encoded import EncodedTable, Span, TableShape  # noqa: E402
from tests.critic.tables import make_steps as make_free_steps  # noqa: E402

CASES = ((120, 64), (1300, 512), (1300, 4096), (9000, 512), (9000, 4096))
# As tables are: some twenty categories a column, and on wide tables more of them, not more columns than the 98 of the
# NIST challenge (13,145 in all).
_CATEGORIES, _MOST_COLUMNS = 20, 98
RECORDS = 20_000
HIDDEN = (256, 256)
# What one core does. The floor of a step is its products, its noise and its update at these rates.
_NOISE_NS, _UPDATE_NS = 2.4, 1.8

Take = Callable[[Sequence[np.ndarray]], None]
"""Takes a step on each batch."""


def count_columns(width: int) -> int:
    return min(width // _CATEGORIES, _MOST_COLUMNS)


def make_table(width: int, rng: np.random.Generator) -> EncodedTable:
    """Makes rows of columns with equally many categories each: `width` of them in all, or just below."""
    columns = count_columns(width)
    categories = width // columns
    spans = tuple(
        Span(
            column=f"c{i}",
            role="category",
            head="softmax",
            start=i * categories,
            width=categories,
            source=i,
            categories=categories,
        )
        for i in range(columns)
    )
    codes = rng.integers(0, categories, size=(RECORDS, columns)).astype(np.int32)
    return EncodedTable(codes=codes, numbers=np.zeros((RECORDS, 0), np.float32), spans=spans)


class _ReadyFakes:
    """In place of a generator: rows that were drawn beforehand, by index and dense."""

    def __init__(self, table: EncodedTable, batch: int) -> None:
        codes = table.codes[:batch]
        self._cells = tf.constant(codes), tf.zeros((batch, 0))
        self._dense = tf.reshape(tf.one_hot(codes, table.spans[0].width), [batch, -1])

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.zeros((batch, 0)), tf.zeros((batch, 0))

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        return self._dense

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> Cells:
        return self._cells


class UnclippedCritic(Critic):
    """The critic whose gradients are added up as they are: what norms and clip cost is left out."""

    def _clip(
        self, inputs: Inputs, *, scale: Callable[[tf.Tensor], tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        _, after = self._go_forward(inputs, self.weights)
        errors = [self._last_error(inputs, after[-1])]
        for kernel, output in zip(reversed(self.weights[2::2]), reversed(after), strict=True):
            errors.insert(0, pass_back(tf.matmul(errors[0], kernel, transpose_b=True), output))
        return errors, after, inputs.dense


class Parts:
    """A critic, fakes and an update of their own for each kind of step."""

    def __init__(
        self, table: EncodedTable, plan: TrainingDesign, *, kind: type[Critic] = Critic, generator: bool = False
    ) -> None:
        rng = np.random.default_rng(1)
        self.table, self.plan = table, plan
        self.critic = kind(table.spans, hidden=HIDDEN, weight_clip=1.0, rng=rng)
        ready = _ReadyFakes(table, plan.generated_batch_size)
        self.generator = MlpGenerator(table.spans, latent=64, hidden=HIDDEN, rng=rng) if generator else ready
        self.latents = LatentSource(latent=64, width=plan.shape.width, rng=rng) if generator else ready
        self.fakes = ready.rows(*ready.draw(0))
        self.codes = tf.constant(table.codes)

    @property
    def as_arguments(self) -> dict[str, Any]:
        return {"critic": self.critic, "generator": self.generator, "latents": self.latents, "plan": self.plan}

    def densify(self, rows: tf.Tensor) -> tf.Tensor:
        """Writes real rows out. Shapes: (b,) to (b, width)."""
        codes = tf.gather(self.codes, rows)
        return tf.reshape(tf.one_hot(codes, self.table.spans[0].width), [-1, self.plan.shape.width])

    def differentiate(self, dense: tf.Tensor) -> Sums:
        """Gives the gradient of the sum of scores by differentiation. Shapes: (b, width) to those of the weights."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.critic.weights)
            total = tf.reduce_sum(self.critic.score(dense))
        sums: Sums = tape.gradient(total, self.critic.weights)
        return sums


class PlainStep:
    """A step without noise that is drawn beforehand: the sums of both `halves`, then the product's update."""

    most_at_once = 1
    noise_spec = tf.TensorSpec([0], tf.float32)

    def __init__(self, parts: Parts, halves: Callable[[tf.Tensor], tuple[Sums, Sums]]) -> None:
        self.halves = halves
        self._update = CriticUpdate(parts.critic, parts.plan)

    def draw_noise(self, count: int) -> tf.Tensor:
        return tf.zeros((count, 0))

    def trace(self, rows: tf.Tensor, drawn: tf.Tensor, learning_rate: tf.Tensor) -> None:
        real, fake = self.halves(rows)
        self._update.apply(real, fake, learning_rate=learning_rate)


class _NoGenerator:
    def trace(self, learning_rate: tf.Tensor) -> None:
        """Does nothing."""


def loop(plan: TrainingDesign, step: "PlainStep | FusedStep") -> Take:
    """Compiles steps of any kind into the loop that the product takes them in."""
    never = replace(plan, settings=replace(plan.settings, critic_steps_per_generator_step=2**30))
    take = CompiledLoop(never, critic_step=step, generator_step=_NoGenerator())
    return lambda batches: take(batches, first=0)


def make_twin(table: EncodedTable, plan: TrainingDesign) -> PlainStep:
    """Makes the step without norms, clip and noise."""
    parts = Parts(table, plan, kind=UnclippedCritic)
    none = tf.zeros((RECORDS, 0))
    fakes = parts.generator.cells(*parts.latents.draw(0))
    return PlainStep(
        parts,
        lambda rows: parts.critic.clipped_sums(
            (tf.gather(parts.codes, rows), tf.gather(none, rows)), fakes, l2_clip_norm=1.0
        ),
    )


def make_dense(table: EncodedTable, plan: TrainingDesign) -> PlainStep:
    """Makes the step without privacy on dense rows."""
    parts = Parts(table, plan)
    return PlainStep(parts, lambda rows: (parts.differentiate(parts.densify(rows)), parts.differentiate(parts.fakes)))


def make_model(width: int) -> tf.keras.Sequential:
    """Makes the critic's network of Keras layers, for tensorflow-privacy."""
    layers: list[Any] = [tf.keras.layers.InputLayer(input_shape=(width,))]
    for outputs in HIDDEN:
        layers += [tf.keras.layers.Dense(outputs), tf.keras.layers.LeakyReLU(LEAK)]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(1, use_bias=False)])


def make_ghost(table: EncodedTable, plan: TrainingDesign) -> PlainStep:
    """Makes tensorflow-privacy's fast gradient clipping for the real half; the other half needs none."""
    from dpwgan.critic.reference_step import _Score, clip_grads, layer_registry

    parts = Parts(table, plan)
    model, registry = make_model(plan.shape.width), layer_registry.make_default_layer_registry()
    score = _Score(reduction=tf.keras.losses.Reduction.SUM)
    model.compile(loss=score)
    stddev = plan.noise_multiplier * plan.l2_clip_norm

    def halves(rows: tf.Tensor) -> tuple[Sums, Sums]:
        dense, none = parts.densify(rows), tf.zeros((tf.shape(rows)[0], 1))
        sums, _, _ = clip_grads.compute_clipped_gradients_and_outputs(
            model, plan.clip_target, registry, dense, none, clipping_loss=score
        )
        noisy = [total + tf.random.normal(total.shape, stddev=stddev) for total in sums]
        return noisy, parts.differentiate(parts.fakes)

    return PlainStep(parts, halves)


def make_private(table: EncodedTable, plan: TrainingDesign, **how: Any) -> FusedStep:
    return FusedStep(table, steps=make_free_steps(plan, seed=make_streams()), **Parts(table, plan, **how).as_arguments)


def make_steps(width: int, batch: int) -> tuple[TrainingDesign, int, dict[str, Take]]:
    """Makes every kind of step, and says how many the product takes at a time."""
    table = make_table(width, np.random.default_rng(0))
    plan = plan_training(
        TableShape(records=RECORDS, spans=table.spans),
        Terms(
            budget=Budget(epsilon=1.0, delta=1e-9),
            neighboring_relation=NeighboringRelation.ZERO_OUT,
            accountant_rule="moments",
        ),
        settings=DpWganSettings(hidden_critic=HIDDEN, hidden_generator=HIDDEN, expected_batch_size=batch),
    ).design
    # As many fakes as rows, as in the published method: what is compared is the cost of a row.
    plan = replace(plan, generated_batch_size=batch)
    plain = replace(plan, settings=replace(plan.settings, step_noise="plain"))
    private = make_private(table, plan)
    steps: dict[str, Take] = {
        name: loop(plan, step)
        for name, step in {
            "private": private,
            "plain noise": make_private(table, plain),
            "with generator": make_private(table, plan, generator=True),
            "twin": make_twin(table, plan),
            "dense": make_dense(table, plan),
            "ghost": make_ghost(table, plan),
        }.items()
    }
    return plan, private.most_at_once, steps


def time_turns(steps: Mapping[str, Callable[[], None]], *, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Runs things in turns. Units: CPU milliseconds each, a list of one number a round."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    counts = {}
    for name, step in steps.items():
        step()  # traces
        start = time.process_time()
        step()
        counts[name] = max(1, round(seconds / max(time.process_time() - start, 1e-4)))
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.process_time()
            for _ in range(counts[name]):
                step()
            times[name].append(1e3 * (time.process_time() - start) / counts[name])
    return times


def measure(width: int, batch: int, *, rounds: int, seconds: float) -> dict[str, Any]:
    plan, at_once, steps = make_steps(width, batch)
    rng = np.random.default_rng(3)

    def draw() -> np.ndarray:
        return sample_poisson_rows(RECORDS, sampling_probability=plan.sampling_probability, rng=rng)

    def take(name: str) -> Callable[[], None]:
        return lambda: steps[name]([draw() for _ in range(at_once)])

    times = time_turns({name: take(name) for name in steps}, rounds=rounds, seconds=seconds)
    times = {name: [each / at_once for each in taken] for name, taken in times.items()}
    return {
        "width": width,
        "batch": batch,
        "at_once": at_once,
        "critic_weights": plan.critic_weights,
        "floor_flops": count_flops(width, batch),
        "cpu_ms": times,
    }


def count_flops(width: int, batch: int) -> float:
    """Counts what a step multiplies and adds: both halves, forwards and back, rows of the first layer by index."""
    columns, (first, second) = count_columns(width), HIDDEN
    return 2.0 * batch * (2 * columns * first + 6 * first * second + 6 * second)


def measure_flop_rate(*, seconds: float) -> float:
    """Measures what a product of matrices of the critic's size does, in operations a CPU second."""
    left, right = tf.random.normal((1024, 256)), tf.random.normal((256, 256))
    multiply = compile_step(lambda: [tf.matmul(left + float(i), right) for i in range(20)])
    times = time_turns({"product": multiply}, rounds=3, seconds=seconds)["product"]
    return 20 * 2.0 * 1024 * 256 * 256 / (1e-3 * min(times))


def make_figures(case: dict[str, Any], *, flop_rate: float) -> list[Figure]:
    times, width, batch = case["cpu_ms"], case["width"], case["batch"]
    label = f"d {width:,}, B {batch:,}"
    large = width >= 1300 and batch >= 512
    main_case = (width, batch) == (1300, 512)
    floor = 1e3 * case["floor_flops"] / flop_rate + 1e-6 * (_NOISE_NS + _UPDATE_NS) * case["critic_weights"]
    return [
        take_figure(f"private step, {label}", times["private"], unit="CPU ms"),
        take_ratios(
            f"private step / non-private twin, {label}",
            times["private"],
            times["twin"],
            goal="<= 1.2" if large else "<= 1.4",
        ),
        take_ratios(
            f"private step / dense non-private step, {label}",
            times["private"],
            times["dense"],
            goal="<= 0.8" if large else None,
        ),
        take_ratios(
            f"fast_gradient_clipping / private step, {label}",
            times["ghost"],
            times["private"],
            goal=">= 1.7" if main_case else None,
        ),
        take_ratios(
            f"private step / floor, {label}",
            times["private"],
            [floor] * len(times["private"]),
            goal="<= 1.5" if batch >= 512 else None,
        ),
        take_ratios(f"plain noise / fast noise, whole step, {label}", times["plain noise"], times["private"]),
        take_ratios(f"private step with its generator / without, {label}", times["with generator"], times["private"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[f"{width},{batch}" for width, batch in CASES], metavar="W,B")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each kind of step in a round")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--quick", action="store_true", help="the two small cases, three short rounds")
    parser.add_argument("--json", type=Path, help="write figures and all times there")
    asked = parser.parse_args()
    if asked.quick:
        asked.cases, asked.rounds, asked.seconds = asked.cases[:2], 3, 0.2
    tf.config.threading.set_intra_op_parallelism_threads(asked.threads)
    print(HEADING)
    cases, figures = [], []
    flop_rate = measure_flop_rate(seconds=min(asked.seconds, 1.0))
    for text in asked.cases:
        width, batch = (int(part) for part in text.split(","))
        cases.append(measure(width, batch, rounds=asked.rounds, seconds=asked.seconds))
        for figure in make_figures(cases[-1], flop_rate=flop_rate):
            figures.append(figure)
            print(describe(figure), flush=True)
    if asked.json is not None:
        write_results(asked.json, figures, cases=cases, gflop_a_second=flop_rate / 1e9, threads=asked.threads)


if __name__ == "__main__":
    main()
