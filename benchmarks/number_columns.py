"""Single columns of numbers: what `independent` makes of them, beside other ways at the same budget.

    python benchmarks/number_columns.py [--records N...] [--epsilon E...] [--runs R] [--only NAME...] [--json FILE]

Made-up columns with generous public ranges, drawn anew for each run; delta is 1/n^2. Rivals: bins of equal width (32,
100), bins at private quantiles (32) and PrivTree (Zhang, Xiao, Xie 2016, arXiv:1601.03229), which has the whole epsilon
and needs no delta; "PrivTree, rho" is the same at the epsilon that costs no more than ours beside other releases:
e^2/2 = rho. Of each: Wasserstein-1 over that of the best constant, the error of the mean in stddevs of the column, that
of the stddev over it, that of quantiles .05 to .99 in their shares, and how much of the mass of values that hold 1% or
more is missing. The mean of a run is also compared with a bound: 3 stddevs of a noisy mean that is clipped to the
public range and has the whole budget.
"""

import argparse
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dpwgan.marginals.anchor import fit_anchor  # noqa: E402
from dpwgan.marginals.anchor_plan import AnchorDesign, Noise, plan_anchor  # noqa: E402
from dpwgan.marginals.settings import AnchorSettings  # noqa: E402
from dpwgan.plan import Plan  # noqa: E402
from dpwgan.privacy.budget import Budget, NeighboringRelation  # noqa: E402
from dpwgan.privacy.ledger import Ledger  # noqa: E402
from dpwgan.privacy.noise_source import NoiseSource  # noqa: E402
from dpwgan.privacy.randomness import make_streams  # noqa: E402
from dpwgan.privacy.terms import Terms  # noqa: E402
from dpwgan.table.encoded import EncodedTable, TableShape, choose_number_type, lay_out_spans  # noqa: E402
from dpwgan.table.rows import Rows  # noqa: E402
from dpwgan.table.schema import NumericColumn, Schema  # noqa: E402

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
GRID = 10_000


@dataclass(frozen=True)
class Density:
    """Mass spread evenly over whole numbers, interval by interval. Shapes: (m,) each; `last` is inside."""

    first: Integers
    last: Integers
    masses: Floats

    @property
    def mean(self) -> float:
        """The mean, exactly."""
        return float(np.sum(self.masses * (self.first + (self.last - self.first) / 2)))

    @property
    def stddev(self) -> float:
        """The standard deviation, exactly."""
        middles, sizes = self.first + (self.last - self.first) / 2, (self.last - self.first + 1).astype(np.float64)
        return float(np.sqrt(np.sum(self.masses * (np.square(middles - self.mean) + (np.square(sizes) - 1) / 12))))

    def find_quantiles(self, shares: Floats) -> Floats:
        """The quantile of each share."""
        ends = np.cumsum(self.masses)
        places = np.minimum(np.searchsorted(ends, shares * ends[-1]), len(ends) - 1)
        within = (shares * ends[-1] - (ends - self.masses)[places]) / np.maximum(self.masses[places], 1e-300)
        sizes = self.last[places] - self.first[places] + 1
        return self.first[places] + np.minimum(np.floor(np.clip(within, 0, 1) * sizes), sizes - 1)

    def weigh(self, values: Integers) -> Floats:
        """The mass of single numbers."""
        places = np.searchsorted(self.first, values, side="right") - 1
        inside = (places >= 0) & (values <= self.last[places])
        return np.where(inside, self.masses[places] / (self.last[places] - self.first[places] + 1), 0.0)


# ----------------------------------------------------------------------------------------------------------- columns


def _round_some(values: Floats, rng: np.random.Generator) -> Floats:
    """Rounds 60% of numbers to thousands and some to hundreds, as people do."""
    kind = rng.random(len(values))
    return np.where(kind < 0.6, np.rint(values / 1e3) * 1e3, np.where(kind < 0.8, np.rint(values / 100) * 100, values))


def _choose(rng: np.random.Generator, share: float, one: Floats, other: Any) -> Floats:
    return np.where(rng.random(len(one)) < share, one, other)


_ELEVEN = np.array([0, 5, 7, 13, 20, 29, 41, 50, 66, 83, 100])

COLUMNS: Mapping[str, tuple[int, int, Callable[[np.random.Generator, int], Floats]]] = {
    "lognormal": (0, 2_000_000, lambda rng, n: rng.lognormal(10, 1, n)),
    "lognormal wide": (0, 20_000_000, lambda rng, n: rng.lognormal(9, 2, n)),
    "pareto": (0, 10_000_000, lambda rng, n: 5_000 * (1 + rng.pareto(1.5, n))),
    "zero-inflated": (0, 1_000_000, lambda rng, n: _choose(rng, 0.6, rng.lognormal(9.5, 0.8, n), 0)),
    "heaped": (0, 1_000_000, lambda rng, n: _round_some(rng.lognormal(10.3, 0.8, n), rng)),
    "two modes": (0, 100_000, lambda rng, n: _choose(rng, 0.7, rng.normal(2e4, 2e3, n), rng.normal(6e4, 5e3, n))),
    "eleven values": (0, 100, lambda rng, n: rng.choice(_ELEVEN, n, p=np.arange(11, 0, -1) / 66)),
    "bell": (0, 1_000_000, lambda rng, n: rng.normal(5e4, 1e4, n)),
    "late": (0, 2_000_000, lambda rng, n: 1_950_000 - rng.lognormal(10, 1, n)),
    "a millionth": (0, 2_000_000_000, lambda rng, n: 700_000_000 + 2_000 * rng.random(n)),
    "top code": (0, 501, lambda rng, n: np.minimum(rng.exponential(500, n), 501)),
    "income": (-10_000, 2_000_000, lambda rng, n: _choose(rng, 0.25, 0 * rng.random(n), rng.lognormal(10.2, 0.9, n))
               - (rng.random(n) < 0.02) * 9_000),
}  # fmt: skip


def draw_column(name: str, records: int, seed: int) -> tuple[int, int, Integers]:
    """Draws a column: its public range and its numbers."""
    low, high, draw = COLUMNS[name]
    values = np.clip(np.rint(draw(np.random.default_rng(seed), records)), low, high)
    return low, high, values.astype(np.int64)


# -------------------------------------------------------------------------------------------------------------- ways


@functools.lru_cache
def plan_column(low: int, high: int, *, records: int, epsilon: float, noise: Noise | None = None) -> Plan[AnchorDesign]:
    """The plan of `independent` for one column."""
    column = NumericColumn(name="x", minimum=low, maximum=high, integer=True)
    shape = TableShape(records=records, spans=lay_out_spans(Schema(columns=(column,), sha256="0" * 64)))
    terms = Terms(
        budget=Budget(epsilon=epsilon, delta=records**-2.0),
        neighboring_relation=NeighboringRelation.ZERO_OUT,
        accountant_rule="auto",
    )
    return plan_anchor(shape, terms, kind="one-ways", settings=AnchorSettings(), noise=noise)


def make_ours(values: Integers, low: int, high: int, *, epsilon: float) -> Density:
    """What `independent` draws from."""
    plan = plan_column(low, high, records=len(values), epsilon=epsilon)
    streams = make_streams(None)
    ledger = Ledger(
        plan.choice.terms.budget,
        accountant=plan.choice.accountant,
        neighboring_relation=plan.choice.terms.neighboring_relation,
        source=NoiseSource(noise=streams.noise, batches=streams.batches),
    )
    for release in plan.releases:
        ledger.reserve(release)
    spans, attribute = plan.shape.spans, plan.design.one_way_plan.attributes[0]
    numbers = np.zeros((len(values), 1), choose_number_type(spans))
    encoded = EncodedTable(codes=np.zeros((len(values), 0), np.int32), numbers=numbers, spans=spans)
    attribute.put_cells(values - low, into=encoded)
    fitted = fit_anchor(
        Rows(encoded, records=len(values)),
        plan.design,
        rng=np.random.default_rng(),
        ledger=ledger,
        progress=lambda *_: None,
    )
    part = fitted.table.coarsening.parts[0]
    last = np.append(part.starts[1:], attribute.levels) - 1
    return Density(low + part.starts, low + last, part.weights * part.probabilities[part.groups])


def _keep_positive(first: Integers, last: Integers, noisy: Floats) -> Density:
    kept = np.maximum(noisy, 0.0)
    return Density(first, last, kept / kept.sum() if kept.sum() else np.full(len(kept), 1 / len(kept)))


def make_equal(values: Integers, low: int, high: int, *, noise: float, bins: int) -> Density:
    """Bins of equal width with Gaussian noise."""
    bins = min(bins, high - low + 1)
    first = low + np.arange(bins) * (high - low + 1) // bins
    last = np.append(first[1:], high + 1) - 1
    counts = np.bincount(np.searchsorted(first, values, side="right") - 1, minlength=bins)
    return _keep_positive(first, last, counts + np.random.default_rng().normal(0, noise, bins))


def make_quantiles(values: Integers, low: int, high: int, *, noise: float, levels: int = 5) -> Density:
    """Bins between private quantiles: halves of halves, each cut drawn by the exponential mechanism."""
    # A selection of epsilon e is e^2/8-zCDP, and each level of halves has an equal part of 1/(2 noise^2).
    epsilon, rng = 2 / (noise * np.sqrt(levels)), np.random.default_rng()
    cuts: list[int] = []

    def halve(own: Integers, first: int, last: int, level: int) -> None:
        if level == 0:
            return
        middle = first
        if last > first:
            ends = np.concatenate(([first], own, [last]))
            rooms = np.maximum(np.diff(ends), 0).astype(np.float64)
            scores = -np.abs(np.arange(len(own) + 1) - len(own) / 2) * epsilon / 2
            with np.errstate(divide="ignore"):
                place = int(np.argmax(scores + np.log(rooms) + rng.gumbel(size=len(rooms))))
            middle = int(ends[place] + rng.integers(0, max(1, int(rooms[place]))))
        cut = int(np.searchsorted(own, middle, side="right"))
        halve(own[:cut], first, middle, level - 1)
        cuts.append(middle)
        halve(own[cut:], middle, last, level - 1)

    halve(np.sort(values), low - 1, high, levels)
    ends = np.array([low - 1, *cuts, high])
    share = np.full(len(ends) - 1, 1 / (len(ends) - 1))
    first, last = ends[:-1] + 1, ends[1:]
    # Cuts at the same number leave an interval without one: its mass is that number's.
    return Density(np.minimum(first, last), last, share)


def make_priv_tree(values: Integers, low: int, high: int, *, epsilon: float) -> Density:
    """PrivTree of halves, with half of epsilon for the tree and half for its leaves."""
    scale, rng, ordered = 3 / (epsilon / 2), np.random.default_rng(), np.sort(values)
    decay = scale * np.log(2)
    leaves, nodes = [], [(low, high, 0)]
    while nodes:
        first, last, depth = nodes.pop()
        count = np.searchsorted(ordered, last, side="right") - np.searchsorted(ordered, first)
        biased = max(count - depth * decay, -decay)
        if first == last or biased + rng.laplace(0, scale) <= 0:
            leaves.append((first, last, count + rng.laplace(0, 2 / epsilon)))
            continue
        middle = (first + last) // 2
        nodes += [(middle + 1, last, depth + 1), (first, middle, depth + 1)]
    first, last, noisy = (np.array(part) for part in zip(*sorted(leaves), strict=True))
    return _keep_positive(first, last, noisy)


def make_all(values: Integers, low: int, high: int, *, epsilon: float, noise: float) -> dict[str, Density]:
    """One run of each way."""
    return {
        "ours": make_ours(values, low, high, epsilon=epsilon),
        "equal 32": make_equal(values, low, high, noise=noise, bins=32),
        "equal 100": make_equal(values, low, high, noise=noise, bins=100),
        "quantiles 32": make_quantiles(values, low, high, noise=noise),
        "PrivTree": make_priv_tree(values, low, high, epsilon=epsilon),
        "PrivTree, rho": make_priv_tree(values, low, high, epsilon=1 / noise),
    }


# ------------------------------------------------------------------------------------------------------------ scores


def score(values: Integers, density: Density) -> dict[str, float]:
    """How far a density is from the numbers."""
    ordered = np.sort(values).astype(np.float64)
    shares = (np.arange(GRID) + 0.5) / GRID
    real = ordered[np.ceil(shares * len(ordered)).astype(np.int64) - 1]
    distance = float(np.mean(np.abs(real - density.find_quantiles(shares))))
    found = density.find_quantiles(np.array(QUANTILES))
    # In shares: how far the real share below the synthetic quantile is from what it should be.
    below, upto = (np.searchsorted(ordered, found, side=side) / len(ordered) for side in ("left", "right"))
    off = np.maximum(np.array(QUANTILES) - upto, below - np.array(QUANTILES)).clip(0)
    single, counts = np.unique(values, return_counts=True)
    heaps = counts >= max(0.01 * len(values), 2)
    held, wanted = density.weigh(single[heaps]), counts[heaps] / len(values)
    return {
        "W1": distance / float(np.mean(np.abs(real - np.median(real)))),
        "mean": abs(density.mean - float(ordered.mean())) / float(ordered.std()),
        "stddev": abs(density.stddev / float(ordered.std()) - 1),
        "quantiles": float(off.mean()),
        "heaps": float(np.sum(np.maximum(wanted - held, 0))) if np.any(heaps) else 0.0,
    }


def compare(name: str, *, records: int, epsilon: float, runs: int) -> dict[str, Any]:
    """Medians of each way's scores, and the worst mean of ours over the bound."""
    low, high, _ = COLUMNS[name]
    noise = plan_column(low, high, records=records, epsilon=epsilon, noise="gaussian").design.scale
    scores: dict[str, list[dict[str, float]]] = {}
    worst = 0.0
    bound = 3 * max(abs(low), abs(high)) * noise / records
    for run in range(runs):
        _, _, values = draw_column(name, records, seed=run)
        for way, density in make_all(values, low, high, epsilon=epsilon, noise=noise).items():
            scores.setdefault(way, []).append(score(values, density))
            if way == "ours":
                worst = max(worst, abs(density.mean - float(values.mean())) / bound)
    medians = {
        way: {measure: float(np.median([run[measure] for run in of_way])) for measure in of_way[0]}
        for way, of_way in scores.items()
    }
    return {"column": name, "records": records, "epsilon": epsilon, "ways": medians, "worst_over_bound": worst}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 8.0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=list(COLUMNS), default=list(COLUMNS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    results = []
    for records in given.records:
        for epsilon in given.epsilon:
            print(
                f"\nn = {records:,}, epsilon {epsilon:g}: W1, mean, stddev, quantiles, heaps; ours ahead in (W1, mean)"
            )
            ahead = {"W1": 0, "mean": 0}
            for name in given.only:
                found = compare(name, records=records, epsilon=epsilon, runs=given.runs)
                results.append(found)
                ways = found["ways"]
                lead = {measure: all(ways["ours"][measure] <= ways[way][measure] for way in ways) for measure in ahead}
                ahead = {measure: ahead[measure] + lead[measure] for measure in ahead}
                marks = "".join("+" if lead[measure] else "-" for measure in ahead)
                cells = "  ".join(
                    f"{way} {' '.join(f'{value:.4f}' for value in scores.values())}" for way, scores in ways.items()
                )
                print(f"{name:15} {marks} worst mean {found['worst_over_bound']:.2f} of bound  {cells}")
            print(f"ahead of each rival in W1 on {ahead['W1']}, in the mean on {ahead['mean']} of {len(given.only)}")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
