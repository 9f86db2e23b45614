"""Made-up tables and documents for the tests of the report: no data, no evaluation."""

from typing import Any

import numpy as np

from dpwgan.evaluate.marginals import measure_overlap
from dpwgan.evaluate.numbers import add_up, describe_groups, describe_numbers
from dpwgan.evaluate.report.page import render_report
from dpwgan.evaluate.scores import compare_all_pairs, rank
from dpwgan.evaluate.tables import NOTICE, ComparedColumn, ComparedTable

HOSTILE = (
    "<script>document.title='owned'</script>",
    "\"'><img src=x onerror=\"document.title='owned'\">",
    "</style><style>body{display:none}</style>",
    "</svg><svg onload=document.title='owned'>",
    "{{ 7*7 }}{% raw %}&amp;&lt;",
    "A" * 5000,
    "\u202egnp.exe \u2066nested\x00\x07\x1b[31m",
    "javascript:document.title='owned'",
    "",
    "   ",
    "\ud800 half a pair",
)


def make_tables(*, columns: int = 8, rows: int = 400, hostile: bool = False, seed: int = 1) -> list[ComparedTable]:
    """Makes a real and a synthetic table with columns of every kind, neighbours depending on each other."""
    rng = np.random.default_rng(seed)
    described = tuple(_describe(place, hostile=hostile) for place in range(columns))
    tables = []
    for blur in (0.0, 0.25):
        cells = np.empty((rows, columns), dtype=np.int32)
        common = rng.random(rows)
        for place, column in enumerate(described):
            own = rng.random(rows)
            mixed = np.where(rng.random(rows) < 0.5 + blur, own, common)
            cells[:, place] = np.minimum(column.cells - 1, (mixed**2 * column.cells).astype(np.int32))
        tables.append(
            ComparedTable(columns=described, cells=cells, numbers=cells.astype(np.float64), path="/secret/place.csv")
        )
    return tables


def _describe(place: int, *, hostile: bool) -> ComparedColumn:
    kind = place % 5
    name = f"column_{place}"
    if hostile:
        name = HOSTILE[place % len(HOSTILE)] + str(place // len(HOSTILE) or "")
    if kind == 0:
        labels = HOSTILE if hostile else ("clerk", "nurse", "farmer", "missing")
        return ComparedColumn(name=name, kind="categorical", labels=labels)
    if kind == 1:
        return ComparedColumn(name=name, kind="number", labels=tuple(f"{k} to {k + 1}" for k in range(100)))
    if kind == 2:
        labels = (*(f"{5 * k} to {5 * k + 4}" for k in range(60)), "missing")
        return ComparedColumn(name=name, kind="number_or_missing", labels=labels)
    if kind == 3:
        start = HOSTILE[0] if hostile else "town"
        return ComparedColumn(name=name, kind="categorical", labels=tuple(f"{start} {k}" for k in range(250)))
    return ComparedColumn(name=name, kind="categorical", labels=tuple(str(k) for k in range(1900, 2140)))


def render(real: ComparedTable, synthetic: ComparedTable, **changes: Any) -> str:
    """The page of made-up scores, with these parts of the document changed."""
    pairs = compare_all_pairs(real, synthetic, real)[0]
    return render_report(make_document(real, synthetic) | changes, real, synthetic, pairs)


def make_audit() -> dict[str, Any]:
    """Makes what `audit attack` writes: one attack that finds nothing but in a column, and one that was not played."""

    def find(excess: float) -> dict[str, Any]:
        return {
            "success": {"value": 0.5 + excess},
            "baseline": {"value": 0.5},
            "excess": {"value": excess, "lower": excess - 0.1, "upper": excess + 0.1},
            "beats_baseline": excess > 0.2,
        }

    attack = {"name": "attribute inference", "measure": "share of cells", "headline": find(-0.01), "details": {}}
    return {
        "tables": {"real": {"rows": 400}, "holdout": {"rows": 100}},
        "confidence": 0.95,
        "false_alarm_rate": 0.05,
        "attacks": [attack | {"parts": {"column_0": find(0.4), "column_1": find(0.1)}}],
        "skipped": [{"name": "linkability", "skipped": "the package anonymeter is not installed"}],
    }


def make_document(real: ComparedTable, synthetic: ComparedTable) -> dict[str, Any]:
    """Makes what `evaluate` gives: scores made up, agreements counted."""

    def scores(level: float) -> dict[str, Any]:
        nist = {"gini_and_pay_gap": None, "marginals": 1e6 * level, "conjunctions": 9e5 * level, "mean": 9.5e5 * level}
        trial = {"classifier": "logistic regression", "auc": 0.8 * level, "auc_real": 0.83}
        return {
            "nist2018": nist,
            **{"kway_1": 998.0, "kway_2": 1000.0 * level, "kway_3": 950.0 * level, "pc1_distance": 2.0 * (1.0 - level)},
            "correlations": {"cramers_v": 0.1, "correlation_ratio": None, "pearson": None, "all": 0.1},
            "classifiers": [{"target": column.name, **trial} for column in real.columns[:2]],
            **{"classifier_auc": 0.8 * level, "classifier_auc_real": 0.83, "detection_auc": 1.5 - level},
            "interval_overlap": {"means": level, "coefficients": None},
        }

    names, weights, count = real.names, real.numeric[:1], len(real.columns)
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "agreement": measure_overlap(real, synthetic, (place,)),
            "ceiling": 0.99,
        }
        for place, column in enumerate(real.columns)
    ]
    whole = {"file": "real.csv", "rows": real.rows, "compared": real.rows, "sampled": False, "columns": count}
    drawn = {"file": "synthetic.csv", "rows": 2 * synthetic.rows, "compared": synthetic.rows, "sampled": True}
    regression = {"inputs": names[:2], "coefficients": 9, "overlap": 0.25}
    return {
        "notice": NOTICE,
        "tables": {"real": whole, "synthetic": drawn, "holdout": None},
        **dict.fromkeys(("claim", "claim_matches", "match", "audit")),
        "scores": {"synthetic": scores(0.93), "floor": scores(0.7), "ceiling": scores(0.99)},
        "columns": columns,
        "best_and_worst": {"columns": rank(columns), "pairs": rank(compare_all_pairs(real, synthetic, real)[1])},
        "units": None,
        "links": None,
        "told_apart_by": [{"column": name, "importance": 0.25} for name in names[:3]],
        "numbers": describe_numbers(real, synthetic),
        "weights": [add_up(real, synthetic, place) for place in weights],
        "groups": [describe_groups(real, synthetic, place, weights) for place in range(min(4, count))],
        "intervals": {
            "means": [{"name": names[place], "overlap": 0.5} for place in weights],
            "regressions": [{"target": names[place], **regression} for place in weights],
        },
        "triples": [{"columns": list(names[a : a + 3]), "agreement": 0.5 + a / 100} for a in range(count - 2)][:10],
        "legality": {
            **{"illegal_rows": 0, "derived_columns": 1, "derived_broken": 3},
            "broken": [{"column": names[0], "rule": "does not follow", "rows": 3}],
            "rules": [{"rule": "rule 1 ('age < 16')", "real": 0, "synthetic": 5}],
        },
        **{"seed": 7, "seconds": 12.3, "rows_per_second": 345.6},
    }
