#!/usr/bin/env python3
"""Writes the made-up table of the tutorial: 2,000 stays in a clinic, the same bytes every time.

Usage: python examples/clinic/make_table.py visits.csv
"""

import csv
import random
import sys
from datetime import date, timedelta

HEADER = ("stay", "name", "sex", "born", "admitted", "discharged", "ward", "smoker", "insurance", "own_share", "charge")
FIRST = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jon", "Kira", "Leo")
LAST = ("Abt", "Berg", "Cole", "Diaz", "Ek", "Fox", "Gray", "Hall", "Ito", "Jung", "Kern", "Lund")
WARDS = {"01": "general", "02": "surgery", "03": "maternity", "04": "children", "09": "emergency"}


def write_stay(number: int, rng: random.Random) -> tuple[str, ...]:
    """One row."""
    ward = rng.choices(list(WARDS), weights=(40, 25, 12, 15, 8))[0]
    years = (
        rng.betavariate(1.3, 6) * 16
        if ward == "04"
        else rng.triangular(18, 42, 30)
        if ward == "03"
        else 18 + 75 * rng.betavariate(2, 2)
    )
    sex = "f" if ward == "03" else rng.choice("fm")
    admitted = date(2024, 1, 1) + timedelta(days=rng.randrange(366))
    nights = min(60, int(rng.expovariate(1 / (2 if ward in ("04", "09") else 6))))
    discharged = admitted + timedelta(days=nights)
    charge = round(180 + 240.5 * nights + rng.lognormvariate(5, 1) + 2400 * (ward == "02"), 2)
    own = 0.0 if years < 18 else round(min(280, 10 * nights) + (0.1 * charge if rng.random() < 0.2 else 0), 2)
    smoker = "" if years < 18 or rng.random() < 0.06 else "yes" if rng.random() < 0.22 else "no"
    return (
        f"S{10_000 + number}",
        f"{rng.choice(FIRST)} {rng.choice(LAST)}",
        sex,
        (admitted - timedelta(days=int(years * 365.25))).strftime("%d.%m.%Y"),
        admitted.strftime("%d.%m.%Y"),
        discharged.strftime("%d.%m.%Y") if discharged < date(2025, 1, 1) else "",
        ward,
        smoker,
        f"{charge - own:.2f}",
        f"{own:.2f}",
        f"{charge:.2f}",
    )


def main() -> None:
    """Writes the table to the path given."""
    rng = random.Random(2024)
    with open(sys.argv[1], "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(write_stay(number, rng) for number in range(2000))


if __name__ == "__main__":
    main()
