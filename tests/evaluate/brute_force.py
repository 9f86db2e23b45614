"""The three NIST 2018 scores once more, by another route: plain loops over rows of text, with nothing of the package.

The definitions are those of the challenge's problem statement and competitor pack for match 3. The drawn questions
(sets of columns, conjunctions) are given from outside, as text.
"""

import math
from collections import Counter
from typing import Any

Row = list[str]
BUCKETS = 100


def find_cell(text: str, spec: dict[str, Any]) -> object:
    """Gives what a cell counts as in a marginal: itself, its bucket, or "" where a number is missing."""
    if spec["type"] == "enum":
        return text
    if text == "" or text in [str(code) for code in spec.get("missing", [])]:
        return ""
    width = 1.0001 * float(spec["max"] - spec["min"]) / BUCKETS
    return int((float(text) - spec["min"]) / width)


def score_marginals(
    real: list[Row], synthetic: list[Row], triples: list[tuple[str, str, str]], specs: dict[str, Any]
) -> float:
    """Starts from 2 points a set of columns and takes off every difference of shares."""
    header = list(specs)
    total = 0.0
    for names in triples:
        shares: list[dict[object, float]] = []
        for rows in (real, synthetic):
            counts = Counter(tuple(find_cell(row[header.index(name)], specs[name]) for name in names) for row in rows)
            shares.append({cell: count / len(rows) for cell, count in counts.items()})
        points = 2.0
        for cell in {*shares[0], *shares[1]}:
            points -= abs(shares[0].get(cell, 0.0) - shares[1].get(cell, 0.0))
        total += points
    return total * 1_000_000.0 / 2.0 / len(triples)


def score_conjunctions(
    real: list[Row],
    synthetic: list[Row],
    conjunctions: list[list[tuple[str, set[str] | tuple[str, float]]]],
    specs: dict[str, Any],
) -> float:
    """A condition is (column, accepted texts) or (column, (text of the centre, distance))."""
    header = list(specs)

    def satisfies(row: Row, conjunction: list[tuple[str, set[str] | tuple[str, float]]]) -> bool:
        for name, condition in conjunction:
            text = row[header.index(name)]
            if isinstance(condition, set):
                if text not in condition:
                    return False
                continue
            center, distance = condition
            missing = ["", *(str(code) for code in specs[name].get("missing", []))]
            if (text in missing) != (center in missing):
                return False
            if text not in missing and abs(float(text) - float(center)) > distance:
                return False
        return True

    squares = 0.0
    for conjunction in conjunctions:
        wanted = sum(satisfies(row, conjunction) for row in real) / len(real)
        found = sum(satisfies(row, conjunction) for row in synthetic) / len(synthetic)
        squares += (math.log(max(found, 1e-6)) - math.log(wanted)) ** 2
    return 1e6 * max(0.0, 1.0 + math.sqrt(squares / len(conjunctions)) / math.log(1e-3))


def describe_cities(rows: list[Row], specs: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Gives each city's Gini index, and the cities ranked by pay gap."""
    header = list(specs)
    sex, city, wage = (header.index(name) for name in ("SEX", "CITY", "INCWAGE"))
    people: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        people.setdefault(row[city], []).append((row[sex], int(row[wage])))
    gini: dict[str, float] = {}
    gaps: list[tuple[str, float]] = []
    for name, members in people.items():  # in the order in which the cities come up first
        paid = sorted((wage, sex) for sex, wage in members if wage < 999_998)
        total = sum(wage for wage, _ in paid)
        area, so_far = 0.0, 0
        for wage, _ in paid:
            so_far += wage
            area += so_far / len(paid) / total if total else 0.0
        gini[name] = 1.0 - 2.0 * area
        means = []
        for code in ("1", "2"):
            wages = [wage for wage, sex in paid if sex == code]
            means.append(sum(wages) / len(wages) if wages else 0.0)
        gaps.append((name, means[0] - means[1]))
    ranked = sorted(gaps, key=lambda pair: -pair[1])  # a stable sort: ties stay in order
    return gini, [name for name, _ in ranked]


def score_gini_and_pay_gap(real: list[Row], synthetic: list[Row], specs: dict[str, Any]) -> float:
    """Adds up both halves city by city."""
    (gini, order), (other_gini, other_order) = describe_cities(real, specs), describe_cities(synthetic, specs)
    first = second = 0.0
    for place, name in enumerate(order):
        if name not in other_gini:
            continue
        first += (1.0 - abs(gini[name] - other_gini[name])) ** 2
        gap = abs(place - other_order.index(name)) / (len(order) - 1) if len(order) > 1 else 0.0
        second += max(0.0, 1.0 - gap) ** 2
    return 500_000.0 * math.sqrt(first / len(order)) + 500_000.0 * math.sqrt(second / len(order))
