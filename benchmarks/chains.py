"""Makes four tables of chains: a payroll, trips, orders, and loans. What each column says is nearly settled by others.

    python benchmarks/chains.py FOLDER

FOLDER/payroll (115,000 x 9): department > job (700) > grade > salary. FOLDER/trips (190,000 x 10): two areas of 286
each, the miles between them, the time these take, the fare. FOLDER/orders (12,000 x 10): none closed before it was
opened, amounts that are so many times a price, and what is paid and a discount. FOLDER/loans (53,000 x 10): counties,
their states, where they lie, and what is lent. Each folder is one that benchmarks/utility.py takes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Specs = dict[str, dict[str, Any]]

_FIRST_DAY = pd.Timestamp("2018-01-01")


def make_payroll(rng: np.random.Generator, rows: int = 130_000) -> tuple[pd.DataFrame, Specs]:
    """People with jobs, each in one department but for a few, of a grade that sets the salary."""
    jobs, departments = 700, 60
    job = rng.choice(jobs, rows, p=_fall(jobs, 0.9))
    home = rng.choice(departments, jobs, p=_fall(departments, 0.7))
    department = np.where(rng.random(rows) < 0.93, home[job], rng.choice(departments, rows, p=_fall(departments, 0.7)))
    grade = np.clip(rng.integers(0, 30, jobs)[job] + (rng.random(rows) < 0.2), 0, 30)
    years = np.minimum(rng.gamma(1.5, 7, rows), 45).astype(int)
    step = np.clip(years // 3 + rng.integers(-1, 2, rows), 0, 9)
    union = (np.arange(jobs) * 7 % 12)[job]
    salary = (28_000 * 1.065**grade * 1.025**step * rng.choice([1, 1, 1, 0.98, 0.5], rows)).round(-1)
    has_overtime = rng.random(rows) < (rng.random(jobs) ** 3)[job]
    overtime = np.where(has_overtime, (salary * rng.exponential(0.12, rows)).round(0), 0)
    columns = {"department": department, "job": job, "grade": grade, "step": step, "years": years, "union": union}
    numbers = {"salary": np.minimum(salary, 400_000), "overtime": np.minimum(overtime, 200_000)}
    frame = pd.DataFrame({**columns, **numbers, "total": np.minimum(salary + overtime, 500_000)}).astype(int)
    counts = {"department": departments, "job": jobs, "grade": 31, "step": 10, "union": 12}
    most = {"years": 45, "salary": 400_000, "overtime": 200_000, "total": 500_000}
    return frame, _describe(frame, counts, most)


def make_trips(rng: np.random.Generator, rows: int = 215_000) -> tuple[pd.DataFrame, Specs]:
    """Trips between areas of a city: the nearer two are, and the larger, the more of them."""
    areas = 286
    places, sizes = rng.normal(0, 5, (areas, 2)), _fall(areas, 1.0)
    apart = np.hypot(*(places[:, None] - places[None]).T).T + 0.4
    between = np.outer(sizes, rng.permutation(sizes) + sizes) * np.exp(-apart / 4)
    cells = rng.choice(areas * areas, rows, p=(between / between.sum()).ravel())
    start, end = np.divmod(cells, areas)
    hour = (rng.beta(2.5, 1.8, rows) * 24).astype(int)
    weekday = rng.choice(7, rows)
    miles = (apart[start, end] * rng.lognormal(0.15, 0.15, rows)).round(1)
    speed = np.where((hour > 7) & (hour < 19) & (weekday < 5), 11, 19) + miles / 2
    seconds = ((miles / speed * 3600 * rng.lognormal(0, 0.2, rows)) // 60 * 60).astype(int)
    fare = ((3.25 + 2.25 * miles + seconds / 144) * 4).round() / 4
    payment = rng.choice(5, rows, p=[0.5, 0.4, 0.06, 0.03, 0.01])
    tip = np.where(payment == 0, (fare * rng.choice([0.2, 0.25, 0.15], rows)).round(1), 0)
    codes = {"start": start, "end": end, "hour": hour, "weekday": weekday, "payment": payment}
    numbers = {"miles": np.minimum(miles, 60), "seconds": np.minimum(seconds, 10_800)}
    money = {"fare": np.minimum(fare, 150), "tip": np.minimum(tip, 50)}
    frame = pd.DataFrame(
        {**codes, "company": (start * 3 + rng.choice(40, rows, p=_fall(40, 1.2))) % 40, **numbers, **money}
    )
    counts = {"start": areas, "end": areas, "hour": 24, "weekday": 7, "payment": 5, "company": 40}
    specs = _describe(frame, counts, {"seconds": 10_800})
    for name, most, decimals in (("miles", 60, 1), ("fare", 150, 2), ("tip", 50, 1)):
        specs[name] = {"type": "float", "min": 0, "max": most, "decimals": decimals}
    return frame, {name: specs[name] for name in frame.columns}


def make_orders(rng: np.random.Generator, rows: int = 13_500) -> tuple[pd.DataFrame, Specs]:
    """Orders that are closed some days after they were opened, those of kind a on that day."""
    kind, opened = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]), rng.integers(0, 1_500, rows)
    days = np.select([kind == 0, kind == 1], [0, rng.geometric(0.2, rows)], rng.gamma(2, 40, rows)).astype(int)
    quantity, price = 1 + np.minimum(rng.geometric(0.4, rows), 29), (rng.lognormal(3, 1, rows) * 100).astype(int) + 1
    amount = quantity * price
    discount = np.where(rng.random(rows) < 0.3, (amount * rng.choice([0.1, 0.2, 0.25], rows)).astype(int), 0)
    dates = {
        name: _FIRST_DAY + pd.to_timedelta(after, "D")
        for name, after in (("opened", opened), ("closed", opened + days))
    }
    cents = {"price": price, "amount": amount, "discount": discount, "net": amount - discount}
    frame = pd.DataFrame(
        {
            "kind": np.array(list("abcd"))[kind],
            **{name: days.strftime("%Y-%m-%d") for name, days in dates.items()},
            "quantity": quantity,
            **{name: [f"{cent / 100:.2f}" for cent in column] for name, column in cents.items()},
            "age": rng.integers(18, 90, rows),
            "region": rng.integers(0, 9, rows),
        }
    )
    date = {"type": "date", "format": "%Y-%m-%d", "min": "2018-01-01", "max": "2024-12-31"}
    money = {"type": "float", "min": 0, "max": 20_000, "decimals": 2}
    specs: Specs = {"kind": {"type": "enum", "values": list("abcd")}, "opened": date, "closed": date}
    specs |= {"quantity": {"type": "integer", "min": 1, "max": 30}, **dict.fromkeys(cents, money)}
    return frame, {**specs, "age": {"type": "integer", "min": 0, "max": 120}, "region": {"type": "enum", "count": 9}}


def make_loans(rng: np.random.Generator, rows: int = 60_000) -> tuple[pd.DataFrame, Specs]:
    """Loans in counties, many of them small, each of which lies in one state, at one place; a grade sets the rate."""
    counties, states = 250, 20
    state = rng.integers(0, states, counties)
    latitude = (rng.uniform(28, 47, states)[state] + rng.normal(0, 1.0, counties)).round(4)
    longitude = (rng.uniform(-120, -70, states)[state] + rng.normal(0, 1.3, counties)).round(4)
    county = rng.choice(counties, rows, p=rng.permutation(_fall(counties, 0.7)))
    income = rng.lognormal(10.9 + 0.2 * np.sin(county / 7), 0.6).round(-3).astype(int)
    loan = (income * rng.uniform(0.5, 4, rows)).round(-3).astype(int)
    grade = np.clip(3 * income / np.maximum(loan, 1_000) + rng.normal(0, 1, rows), 0, 6).astype(int)
    born, year = rng.integers(1940, 2003, rows), rng.integers(2015, 2025, rows)
    names = {"county": [f"C{300 + code}" for code in range(counties)], "state": [f"S{code}" for code in range(states)]}
    names["grade"] = list("ABCDEFG")
    codes = {"county": county, "state": state[county], "grade": grade}
    most = {"income": 2_000_000, "loan": 5_000_000}
    frame = pd.DataFrame(
        {
            **{name: np.array(names[name])[own] for name, own in codes.items()},
            **{"latitude": latitude[county], "longitude": longitude[county], "rate": 3 + 1.25 * grade},
            **{name: np.minimum(own, most[name]) for name, own in {"income": income, "loan": loan}.items()},
            **{"born": born, "year": year},
        }
    )
    specs: Specs = {name: {"type": "enum", "values": values} for name, values in names.items()}
    for name, least, end, decimals in (("latitude", 24, 50, 4), ("longitude", -125, -66, 4), ("rate", 0, 30, 2)):
        specs[name] = {"type": "float", "min": least, "max": end, "decimals": decimals}
    specs |= _describe(frame, {}, most)
    specs |= {
        "born": {"type": "integer", "min": 1900, "max": 2010},
        "year": {"type": "integer", "min": 2015, "max": 2024},
    }
    return frame, specs


def _fall(size: int, power: float) -> Any:
    weights = np.arange(1, size + 1.0) ** -power
    return weights / weights.sum()


def _describe(frame: pd.DataFrame, counts: dict[str, int], most: dict[str, int]) -> Specs:
    enums: Specs = {name: {"type": "enum", "count": count} for name, count in counts.items()}
    numbers: Specs = {name: {"type": "integer", "min": 0, "max": end} for name, end in most.items()}
    return {name: {**enums, **numbers}[name] for name in frame.columns if name in enums or name in numbers}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    into: Path = parser.parse_args().folder
    for name, make in (
        ("payroll", make_payroll),
        ("trips", make_trips),
        ("orders", make_orders),
        ("loans", make_loans),
    ):
        folder = into / name
        folder.mkdir(parents=True)
        table, specs = make(np.random.default_rng(1))
        held = len(table) // 9
        table[held:].to_csv(folder / "train.csv.gz", index=False)
        table[:held].to_csv(folder / "holdout.csv.gz", index=False)
        (folder / "data-specs.json").write_text(json.dumps(specs))
