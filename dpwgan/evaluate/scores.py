"""All scores of one evaluation, and the JSON document that holds them.

Privacy: NOT private. The scores are statistics of the real rows, and no epsilon covers them.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from dpwgan.evaluate import baselines, classifiers, dependence, detection, marginals, nist2018, principal
from dpwgan.evaluate.tables import NOTICE, ComparedTable

WORST = 10
"""Triples that are named."""

PURPOSES = ("triples", "conjunctions", "floor", "ceiling", "trial", "classifiers", "detection", "dependence")

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RoleNames:
    """Names of the columns that the third NIST score needs; the defaults are those of the 1940 census."""

    sex: str = "SEX"
    city: str = "CITY"
    wage: str = "INCWAGE"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured, ready to be written.

    `scores` has "synthetic", "floor" and "ceiling", each with the same keys. `claim` is the file beside the synthetic
    table as it stands, and `claim_matches` whether that claim names the digest of the table's bytes. `match` is the
    mean over several synthetic tables, as the challenge took it over three epsilons.
    """

    tables: Mapping[str, Any]
    claim: Mapping[str, Any] | None
    seed: int
    scores: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    triples: tuple[Mapping[str, Any], ...]
    legality: Mapping[str, Any]
    seconds: float
    rows_per_second: float
    claim_matches: bool | None = None
    match: Mapping[str, Any] | None = field(default=None)

    def to_document(self) -> dict[str, Any]:
        """Gives what --json writes and the report shows: plain dictionaries, lists, numbers and strings."""
        return {
            "notice": NOTICE,
            "tables": dict(self.tables),
            "claim": None if self.claim is None else dict(self.claim),
            "claim_matches": self.claim_matches,
            "seed": self.seed,
            "scores": dict(self.scores),
            "columns": [dict(column) for column in self.columns],
            "triples": [dict(triple) for triple in self.triples],
            "legality": dict(self.legality),
            "match": None if self.match is None else dict(self.match),
            "seconds": self.seconds,
            "rows_per_second": self.rows_per_second,
        }


def spawn_streams(seed: int) -> dict[str, np.random.SeedSequence]:
    """Gives each purpose its own stream, so that one score's draws do not depend on another's."""
    return dict(zip(PURPOSES, np.random.SeedSequence(seed).spawn(len(PURPOSES)), strict=True))


class Nist2018:
    """The challenge's scores against one real table, with all draws made: every table meets the same questions."""

    def __init__(self, real: ComparedTable, *, seed: int, roles: RoleNames) -> None:
        streams = spawn_streams(seed)
        self._real = real
        columns = len(real.columns)
        draw = np.random.default_rng
        self._triples = nist2018.draw_triples(columns, draw(streams["triples"])) if columns >= 3 else []
        self._conjunctions = nist2018.draw_conjunctions(real, draw(streams["conjunctions"]))
        self._roles = nist2018.find_roles(real, sex=roles.sex, city=roles.city, wage=roles.wage)

    def score(self, table: ComparedTable) -> dict[str, float | None]:
        """Gives the three scores and the mean of those that the table has columns for; None for one that it has not."""
        real = self._real
        scores = {
            "marginals": nist2018.score_marginals(real, table, self._triples) if self._triples else None,
            "conjunctions": nist2018.score_conjunctions(real, table, self._conjunctions),
            "gini_and_pay_gap": nist2018.score_gini_and_pay_gap(real, table, self._roles) if self._roles else None,
        }
        return {**scores, "mean": float(np.mean([score for score in scores.values() if score is not None]))}


class Workload:
    """Every score against one real table, with what does not depend on the other table done once."""

    def __init__(
        self, real: ComparedTable, *, holdout: ComparedTable | None, seed: int, roles: RoleNames, say: Say
    ) -> None:
        self._streams = spawn_streams(seed)
        self._real = real
        self.nist2018 = Nist2018(real, seed=seed, roles=roles)
        self.sets = marginals.draw_column_sets(len(real.columns))
        say("the real table's own structure")
        self._component = principal.find_first_component(real)
        self._dependence = dependence.measure_dependence(real, self._draw("dependence"))
        say("classifiers on real rows")
        self._trial = classifiers.prepare_trial(real, holdout, self._draw("trial"))

    def score(self, table: ComparedTable) -> tuple[dict[str, Any], dict[int, list[float]]]:
        """Gives a table's scores, and its agreement for each set of columns in `sets`."""
        agreement = marginals.measure_agreement(self._real, table, self.sets)
        trained = classifiers.score_classifiers(table, self._trial, self._draw("classifiers"))
        depends = dependence.measure_dependence(table, self._draw("dependence"))
        scores = {
            "nist2018": self.nist2018.score(table),
            **marginals.score_kway(agreement),
            "pc1_distance": principal.score_first_component(self._component, principal.find_first_component(table)),
            "correlations": dependence.score_correlations(table, self._dependence, depends),
            "classifier_auc": _mean([trial["auc"] for trial in trained]),
            "classifier_auc_real": _mean([trial["auc_real"] for trial in trained]),
            "classifiers": trained,
            "detection_auc": detection.score_detection(self._real, table, self._draw("detection")),
        }
        return scores, agreement

    def _draw(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(self._streams[purpose])


def evaluate(
    real: ComparedTable,
    synthetic: ComparedTable,
    *,
    legality: Mapping[str, Any],
    holdout: ComparedTable | None = None,
    claim: Mapping[str, Any] | None = None,
    claim_matches: bool | None = None,
    match: Mapping[str, Any] | None = None,
    seed: int = 0,
    roles: RoleNames | None = None,
    say: Say = lambda stage: None,
) -> Evaluation:
    """Compares a synthetic table with the real one, and two tables made of real rows beside it.

    The same seed gives the same scores. `say` is told what is being worked on.
    Privacy: NOT private.
    """
    start = time.perf_counter()
    work = Workload(real, holdout=holdout, seed=seed, roles=roles or RoleNames(), say=say)
    say("the synthetic table")
    of_synthetic, agreement = work.score(synthetic)
    streams = spawn_streams(seed)
    scores = {"synthetic": of_synthetic}
    for name, make in (("floor", baselines.make_floor), ("ceiling", baselines.make_ceiling)):
        say(f"the {name}")
        scores[name] = work.score(make(real, rows=synthetic.rows, rng=np.random.default_rng(streams[name])))[0]
    seconds = time.perf_counter() - start
    rows = real.rows + synthetic.rows + (holdout.rows if holdout is not None else 0)
    triples = sorted(zip(agreement[3], work.sets[3], strict=True))[:WORST]
    return Evaluation(
        tables={
            "real": _describe(real),
            "synthetic": _describe(synthetic),
            "holdout": None if holdout is None else _describe(holdout),
        },
        claim=claim,
        claim_matches=claim_matches,
        match=match,
        seed=seed,
        scores=scores,
        columns=tuple(
            {
                "name": column.name,
                "kind": column.kind,
                "agreement": marginals.measure_overlap(real, synthetic, (place,)),
            }
            for place, column in enumerate(real.columns)
        ),
        triples=tuple(
            {"columns": [real.columns[place].name for place in places], "agreement": value} for value, places in triples
        ),
        legality=legality,
        seconds=seconds,
        rows_per_second=rows / seconds,
    )


def _describe(table: ComparedTable) -> dict[str, Any]:
    return {"file": PurePath(table.path).name, "rows": table.rows, "columns": len(table.columns)}


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
