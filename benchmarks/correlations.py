"""What rank correlations in one release give tables of many columns that rise together: two made-up ones.

    python benchmarks/correlations.py [--epsilons .3,1,8] [--runs 3] [--method dp-wgan]

survey: 4,000 persons, 40 questions of five answers that hang on six attitudes, region, age and education. meters: 9,000
homes with what each used in twelve months. Prints a line a table, epsilon and way, without and with the release:
medians of the slope of all correlations on those of the table, of their root mean square error, and of kway_3.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from benchmarks.links import read_arguments, tell  # noqa: E402
from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.marginals import anchor_plan  # noqa: E402

Table = tuple[pd.DataFrame, dict[str, Any]]


def make_survey(rng: np.random.Generator, records: int = 4_000) -> Table:
    """Answers of 1 to 5, of which some do not answer, every fifth question turned around."""
    age = np.clip(rng.gamma(6, 8, records), 18, 95).astype(int)
    education = np.clip(np.round(2 + 1.2 * rng.normal(size=records) - (age > 60) * 0.8), 0, 5).astype(int)
    attitudes = rng.normal(size=(records, 6))
    attitudes[:, 0] += 0.02 * (age - 45)
    attitudes[:, 1] += 0.4 * (education - 2)
    attitudes[:, 2] = 0.6 * attitudes[:, 2] + 0.6 * attitudes[:, 0]
    columns = {"region": rng.choice(16, records, p=rng.dirichlet(np.full(16, 3.0))), "age": age, "education": education}
    for question in range(40):
        turned = 1 if question % 5 else -1
        answer = 3 + 0.8 * attitudes[:, question % 6] * turned + 0.6 * rng.normal(size=records) + 0.4 * rng.normal()
        known = pd.Series(np.clip(np.round(answer), 1, 5)).mask(rng.random(records) < 0.03)
        columns[f"q{question + 1}"] = known.astype("Int64")
    specs: dict[str, Any] = {
        name: {"type": "enum", "values": [1, 2, 3, 4, 5], "optional": True} if name[0] == "q" else {}
        for name in columns
    }
    specs["region"], specs["education"] = {"type": "enum", "count": 16}, {"type": "enum", "count": 6}
    specs["age"] = {"type": "integer", "min": 18, "max": 99}
    return pd.DataFrame(columns), specs


def make_meters(rng: np.random.Generator, records: int = 9_000) -> Table:
    """Use that goes by the home, more in winter where heating is electric, and by chance."""
    kind = rng.choice(3, records, p=[0.5, 0.42, 0.08])
    electric = rng.random(records) < np.array([0.2, 0.4, 0.6])[kind]
    usual = np.exp(rng.normal(np.array([5.2, 5.8, 6.3])[kind], 0.4))
    columns = {"kind": kind, "electric": electric.astype(int)}
    for month in range(12):
        season = 1 + np.where(electric, 0.6, 0.1) * np.cos(2 * np.pi * month / 12)
        columns[f"kwh_{month + 1}"] = np.round(usual * season * np.exp(0.12 * rng.normal(size=records))).astype(int)
    frame = pd.DataFrame(columns)
    frame["year"] = frame.iloc[:, 2:].sum(axis=1)
    specs: dict[str, Any] = {name: {"type": "integer", "min": 0, "max": 10**6} for name in frame}
    return frame, specs | {"kind": {"type": "enum", "count": 3}, "electric": {"type": "enum", "count": 2}}


def measure(frame: pd.DataFrame, table: pd.DataFrame) -> dict[str, float]:
    """How near a table is to the real one: its correlations by rank, and 300 triples in 20 quantiles."""
    ordered = [name for name in table if name not in ("region", "kind")]
    upper = np.triu_indices(len(ordered), 1)
    found, real = (of[ordered].astype(float).corr("spearman").to_numpy()[upper] for of in (frame, table))
    codes = [{}, {}]
    for name in table:
        ends = np.unique(table[name].astype(float).quantile(np.linspace(0.05, 0.95, 19)))
        for own, of in zip(codes, (frame, table), strict=True):
            own[name] = np.searchsorted(ends, of[name].astype(float).fillna(1e12))
    triples = list(itertools.combinations(table, 3))
    agreed = []
    for place in np.random.default_rng(0).permutation(len(triples))[:300]:
        cells = [sum(own[name] * 21**power for power, name in enumerate(triples[place])) for own in codes]
        shares = [np.bincount(own, minlength=21**3) / len(own) for own in cells]
        agreed.append(1_000 * np.minimum(*shares).sum())
    error = float(np.sqrt(np.mean(np.square(found - real))))
    return {"slope": float(np.polyfit(real, found, 1)[0]), "error": error, "kway_3": float(np.mean(agreed))}


def main() -> None:
    arguments = read_arguments(__doc__)
    usual = anchor_plan._choose_correlated
    for make in (make_survey, make_meters):
        table, specs = make(np.random.default_rng(5))
        for epsilon in map(float, arguments.epsilons.split(",")):
            for way, choose in (("without", lambda _: ()), ("with", usual)):
                anchor_plan._choose_correlated = choose
                found = []
                for _ in range(arguments.runs):
                    synthesizer = Synthesizer(specs, epsilon, method=arguments.method)
                    found.append(measure(synthesizer.fit(table).sample(), table))
                tell(make.__name__[5:], f"{way}, {epsilon:g}", found)


if __name__ == "__main__":
    main()
