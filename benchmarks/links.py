"""What rows of one unit keep in common by linked columns, on three made-up tables that are told by what is measured.

    python benchmarks/links.py [--epsilons .3,1,8] [--runs 3] [--method dp-wgan]

panel: persons in up to six waves, with pay and a status. households: heads, spouses and children, with ages.
visits: patients on up to eight days, with a diagnosis and a cost. Prints a line a table, epsilon and way:
medians of two measures, and those of the table itself first.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from dpwgan.app.api import Synthesizer  # noqa: E402

Table = tuple[pd.DataFrame, dict[str, Any], list[str], Callable[[pd.DataFrame], dict[str, float]]]


def make_panel(rng: np.random.Generator) -> Table:
    """Pay that lasts but for a tenth of it, and a status that changes once in ten waves."""
    rows = []
    for person in range(3_000):
        waves = range(6) if rng.random() < 0.6 else sorted(rng.choice(6, rng.integers(1, 6), replace=False))
        level, works = rng.normal(10, 0.5), rng.random() < 0.7
        for wave in waves:
            works ^= rng.random() < 0.1
            pay = round(np.exp(level + rng.normal(0, 0.1) + 0.02 * wave))
            rows.append((person, str(wave), str(pay) if works else "none", "works" if works else "does not"))
    unit = {"max_rows": 6, "unique": ["wave"], "kind": "wave"}
    specs = {
        "wave": {"type": "enum", "count": 6},
        "pay": {"type": "integer", "min": 0, "max": 10**6, "missing": ["none"]},
        "status": {"type": "enum", "values": ["works", "does not"]},
    }
    return _lay_out(rows, unit, specs), specs | {"unit": unit}, ["pay", "status"], measure_panel


def measure_panel(frame: pd.DataFrame) -> dict[str, float]:
    """Of a row and the one before it in its unit."""
    frame = frame.assign(pay=np.log1p(pd.to_numeric(frame.pay, errors="coerce")))
    before = frame.groupby("name")[["pay", "status"]].shift()
    same = (frame.status == before.status)[before.status.notna()]
    return {"pay correlates": frame.pay.corr(before.pay), "same status": same.mean()}


def make_households(rng: np.random.Generator) -> Table:
    """Couples a few years apart, and children some thirty years younger than the head."""
    rows = []
    for house in range(5_000):
        head = int(np.clip(rng.normal(48, 16), 20, 95))
        rows.append((house, "head", head))
        if rng.random() < 0.6:
            rows.append((house, "spouse", int(np.clip(head + rng.normal(-1, 3), 18, 95))))
        first = head - int(np.clip(rng.normal(29, 4), 20, 40))
        ages = [first - 3 * place + int(rng.integers(-1, 2)) for place in range(min(rng.poisson(1.5), 4))]
        rows += [(house, "child", age) for age in ages if 24 < head < 62 and 0 <= age < 24]
    unit = {"max_rows": 6, "kind": "role"}
    roles = {"type": "enum", "values": ["head", "spouse", "child"]}
    specs = {"role": roles, "age": {"type": "integer", "min": 0, "max": 95}}
    return _lay_out(rows, unit, specs), specs | {"unit": unit}, ["age"], measure_households


def measure_households(frame: pd.DataFrame) -> dict[str, float]:
    """Of the others in a household beside its head."""
    heads = frame[frame.role == "head"].drop_duplicates("name").set_index("name").age.astype(int)
    apart = frame.name.map(heads) - frame.age.astype(int)
    return {
        "years of a couple": apart[frame.role == "spouse"].abs().mean(),
        "children within 15": (apart[frame.role == "child"].dropna() < 15).mean(),
    }


def make_visits(rng: np.random.Generator) -> Table:
    """A diagnosis that comes again in most visits, and a cost that hangs on the patient."""
    rows = []
    for patient in range(4_000):
        main, level = rng.choice(30, p=np.arange(30, 0, -1) / 465), rng.normal()
        for day in np.sort(rng.choice(1_095, min(1 + rng.poisson(3), 12), replace=False)):
            code = main if rng.random() < 0.7 else rng.integers(30)
            cost = np.exp(5 + 0.8 * level + 0.03 * code + rng.normal(0, 0.4))
            rows.append((patient, str(np.datetime64("2021-01-01") + day), f"D{code:02d}", f"{cost:.2f}"))
    unit = {"max_rows": 8, "unique": ["date"]}
    specs = {
        "date": {"type": "date", "min": "2021-01-01", "max": "2023-12-31"},
        "diagnosis": {"type": "enum", "values": [f"D{code:02d}" for code in range(30)]},
        "cost": {"type": "float", "min": 0, "max": 100_000, "decimals": 2},
    }
    return _lay_out(rows, unit, specs), specs | {"unit": unit}, ["diagnosis", "cost"], measure_visits


def measure_visits(frame: pd.DataFrame) -> dict[str, float]:
    """Of a row and the one before it in its unit."""
    frame = frame.assign(cost=np.log1p(frame.cost.astype(float)))
    before = frame.groupby("name")[["cost", "diagnosis"]].shift()
    same = (frame.diagnosis == before.diagnosis)[before.diagnosis.notna()]
    return {"cost correlates": frame.cost.corr(before.cost), "same diagnosis": same.mean()}


def _lay_out(rows: list[tuple[Any, ...]], unit: dict[str, Any], specs: dict[str, Any]) -> pd.DataFrame:
    unit["column"] = "name"
    frame = pd.DataFrame(rows, columns=["name", *specs])
    specs["name"] = {"type": "integer", "uuid": True, "min": 1}
    return frame


def main() -> None:
    arguments = read_arguments(__doc__)
    for make in (make_panel, make_households, make_visits):
        frame, specs, linked, measure = make(np.random.default_rng(5))
        tell(make.__name__[5:], "the table", [measure(frame)])
        for epsilon in map(float, arguments.epsilons.split(",")):
            for way, unit in (("not linked", specs["unit"]), ("linked", {**specs["unit"], "linked": linked})):
                found = []
                for _ in range(arguments.runs):
                    synthesizer = Synthesizer({**specs, "unit": unit}, epsilon, method=arguments.method)
                    found.append(measure(synthesizer.fit(frame).sample()))
                tell(make.__name__[5:], f"{way}, {epsilon:g}", found)


def read_arguments(description: str | None) -> argparse.Namespace:
    """Which budgets and method are asked for, and how many runs of each."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", default=".3,1,8")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--method", default="dp-wgan")
    return parser.parse_args()


def tell(table: str, what: str, found: list[dict[str, float]]) -> None:
    """Prints the median of each measure of some runs, and between which it lay."""
    told = (
        f"{name} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
        for name in found[0]
        for values in [[own[name] for own in found]]
    )
    print(f"{table:10s}  {what:16s}  {'  '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
