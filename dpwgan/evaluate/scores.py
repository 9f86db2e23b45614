"""All scores of one evaluation, and the JSON document that holds them.

Privacy: NOT private. The scores are statistics of the real rows, and no epsilon covers them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from dpwgan.evaluate import classifiers, dependence, marginals, nist2018, principal
from dpwgan.evaluate.tables import NOTICE, ComparedTable, TableSet
from dpwgan.table.schema import ComputedColumn, DerivedColumn, Schema

WORST = 10
"""Triples that are named."""

PURPOSES = ("triples", "conjunctions", "floor", "ceiling", "trial", "classifiers", "detection", "dependence")

Say = Callable[[str], None]


def spawn_streams(seed: int) -> dict[str, np.random.Generator]:
    """Draws for each purpose, so that one score's do not depend on another's."""
    seeds = np.random.SeedSequence(seed).spawn(len(PURPOSES))
    return {purpose: np.random.default_rng(own) for purpose, own in zip(PURPOSES, seeds, strict=True)}


def look_up(scores: Any, path: Sequence[str]) -> float | None:
    """One number of a table's scores, or None where the table has no columns for it."""
    for key in path:
        scores = scores[key]
    return None if scores is None else float(scores)


class Nist2018:
    """The challenge's scores against one real table, with all draws made: every table meets the same questions."""

    def __init__(self, real: ComparedTable, *, seed: int, roles: Mapping[str, str]) -> None:
        streams = spawn_streams(seed)
        columns = len(real.columns)
        self._real = real
        self._triples = nist2018.draw_triples(columns, streams["triples"]) if columns >= 3 else []
        self._conjunctions = nist2018.draw_conjunctions(real, streams["conjunctions"])
        self._roles = nist2018.find_roles(real, **roles)

    def score(self, table: ComparedTable) -> dict[str, float | None]:
        """The three scores of a table and their mean; None for a score that it has no columns for."""
        real = self._real
        scores = {
            "marginals": nist2018.score_marginals(real, table, self._triples) if self._triples else None,
            "conjunctions": nist2018.score_conjunctions(real, table, self._conjunctions),
            "gini_and_pay_gap": nist2018.score_gini_and_pay_gap(real, table, self._roles) if self._roles else None,
        }
        return {**scores, "mean": _mean([score for score in scores.values() if score is not None])}


class Workload:
    """Every score against one real table, with what does not depend on the other table done once."""

    def __init__(self, tables: TableSet, *, seed: int, roles: Mapping[str, str], say: Say) -> None:
        real = self._real = tables.real
        self._seed = seed
        streams = spawn_streams(seed)
        self._nist2018 = Nist2018(real, seed=seed, roles=roles)
        self.sets = marginals.draw_column_sets(len(real.columns))
        say("the real table's own structure")
        self._component = principal.find_first_component(real)
        self._dependence = dependence.measure_dependence(real, streams["dependence"])
        say("classifiers on real rows")
        self._trial = classifiers.prepare_trial(real, tables.holdout, streams["trial"])

    def score(self, table: ComparedTable) -> tuple[dict[str, Any], dict[int, list[float]]]:
        """All scores of a table, and its agreement with the real one for each set of columns in `sets`."""
        streams = spawn_streams(self._seed)  # the same draws for every table
        agreement = marginals.measure_agreement(self._real, table, self.sets)
        trained = classifiers.score_classifiers(table, self._trial, streams["classifiers"])
        depends = dependence.measure_dependence(table, streams["dependence"])
        scores = {
            "nist2018": self._nist2018.score(table),
            **marginals.score_kway(agreement),
            "pc1_distance": principal.score_first_component(self._component, principal.find_first_component(table)),
            "correlations": dependence.score_correlations(table, self._dependence, depends),
            "classifier_auc": _mean([trial["auc"] for trial in trained]),
            "classifier_auc_real": _mean([trial["auc_real"] for trial in trained]),
            "classifiers": trained,
            "detection_auc": classifiers.score_detection(self._real, table, streams["detection"]),
        }
        return scores, agreement


def make_floor(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """A table whose single columns are the real ones and nothing else is: each column shuffled by itself."""
    cells = np.empty((rows, len(real.columns)), dtype=np.int32)
    numbers = np.empty((rows, len(real.columns)), dtype=np.float64)
    for place in range(len(real.columns)):
        order = np.resize(rng.permutation(real.rows), rows)
        cells[:, place], numbers[:, place] = real.cells[order, place], real.numbers[order, place]
    return replace(real, cells=cells, numbers=numbers)


def make_ceiling(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """Real rows drawn with replacement: as good as a table of that many rows can be expected to be."""
    return real.take(rng.integers(real.rows, size=rows))


def describe_legality(table: ComparedTable, schema: Schema) -> dict[str, Any]:
    """How many rows hold a cell that the specs do not allow, how many derived cells do not follow, each broken rule."""
    derived = {column.name for column in schema.columns if isinstance(column, DerivedColumn | ComputedColumn)}
    return {
        "rows": table.rows + table.illegal,
        "illegal_rows": table.illegal,
        "derived_columns": len(derived),
        "derived_broken": sum(rows for column, _, rows in table.broken if column in derived),
        "broken": [{"column": column, "rule": rule, "rows": rows} for column, rule, rows in table.broken],
    }


def evaluate(
    tables: TableSet,
    *,
    claim: Mapping[str, Any] | None,
    claim_matches: bool | None,
    match: Mapping[str, Any] | None,
    seed: int,
    roles: Mapping[str, str],
    say: Say,
) -> dict[str, Any]:
    """Compares a synthetic table with the real one, and two tables made of real rows beside it.

    What comes back is what --json writes and the report shows: plain dictionaries, lists, numbers and strings. Its
    "scores" has "synthetic", "floor" and "ceiling", each with the same keys. `claim` is the file beside the synthetic
    table as it stands, `claim_matches` whether it names the digest of the table's bytes, `match` the scores of several
    synthetic tables. The same seed gives the same scores. `say` is told what is being worked on.
    Privacy: NOT private: the ceiling is made of real rows, the floor of their cells; neither is written.
    """
    start = time.perf_counter()
    real, synthetic = tables.real, tables.synthetic
    work = Workload(tables, seed=seed, roles=roles, say=say)
    say("the synthetic table")
    of_synthetic, agreement = work.score(synthetic)
    streams = spawn_streams(seed)
    scores = {"synthetic": of_synthetic}
    for name, make in (("floor", make_floor), ("ceiling", make_ceiling)):
        say(f"the {name}")
        scores[name] = work.score(make(real, rows=synthetic.rows, rng=streams[name]))[0]
    seconds = time.perf_counter() - start
    named = {"real": real, "synthetic": synthetic, "holdout": tables.holdout}
    return {
        "notice": NOTICE,
        "tables": {name: None if table is None else _describe(table) for name, table in named.items()},
        "claim": claim,
        "claim_matches": claim_matches,
        "seed": seed,
        "scores": scores,
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "agreement": marginals.measure_overlap(real, synthetic, (place,)),
            }
            for place, column in enumerate(real.columns)
        ],
        "triples": [
            {"columns": [real.columns[place].name for place in places], "agreement": value}
            for value, places in sorted(zip(agreement[3], work.sets[3], strict=True))[:WORST]
        ],
        "legality": describe_legality(synthetic, tables.schema),
        "match": match,
        "seconds": seconds,
        "rows_per_second": sum(table.rows for table in named.values() if table is not None) / seconds,
    }


def _describe(table: ComparedTable) -> dict[str, Any]:
    return {"file": PurePath(table.path).name, "rows": table.rows, "columns": len(table.columns)}


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
