"""All scores of one evaluation, and the JSON document that holds them.

Privacy: NOT private. The scores are statistics of the real rows, and no epsilon covers them.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from dpwgan.evaluate import classifiers, dependence, marginals, nist2018, numbers, principal
from dpwgan.evaluate.apart import Telling, tell_apart
from dpwgan.evaluate.dependence import Pairs
from dpwgan.evaluate.inference import Analysis
from dpwgan.evaluate.links import describe_links
from dpwgan.evaluate.tables import NOTICE, ComparedTable, TableSet
from dpwgan.table.schema import FunctionColumn, Schema, TrainedColumn

NAMED = 5
"""Columns and pairs that are named as the best, and as the worst."""
WORST = 10
"""Triples that are named, and columns that tell the tables apart."""

LISTED = (
    ("NIST 2018: three-column marginals", ("nist2018", "marginals"), ",.0f", "higher"),
    ("NIST 2018: conjunctions", ("nist2018", "conjunctions"), ",.0f", "higher"),
    ("NIST 2018: Gini index and pay gap", ("nist2018", "gini_and_pay_gap"), ",.0f", "higher"),
    ("NIST 2018: mean", ("nist2018", "mean"), ",.0f", "higher"),
    ("One-way agreement", ("kway_1",), ".1f", "higher"),
    ("Two-way agreement", ("kway_2",), ".1f", "higher"),
    ("Three-way agreement", ("kway_3",), ".1f", "higher"),
    ("First principal component, distance", ("pc1_distance",), ".4f", "lower"),
    ("Cram\u00e9r's V, change of a pair", ("correlations", "cramers_v"), ".4f", "lower"),
    ("Correlation ratio, change of a pair", ("correlations", "correlation_ratio"), ".4f", "lower"),
    ("Pearson, change of a pair", ("correlations", "pearson"), ".4f", "lower"),
    ("All three, mean change of a pair", ("correlations", "all"), ".4f", "lower"),
    ("Classifiers trained on it, AUC", ("classifier_auc",), ".4f", "higher"),
    ("Classifiers trained on real rows", ("classifier_auc_real",), ".4f", ""),
    ("Telling the tables apart, AUC", ("detection_auc",), ".4f", "0.5 is best"),
    ("Overlap of intervals: means", ("interval_overlap", "means"), ".4f", "higher"),
    ("Overlap of intervals: regressions", ("interval_overlap", "coefficients"), ".4f", "higher"),
)
"""Every score by name: where it stands in a table's scores, how it is written, and which way is better."""

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


def write_scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str | None], str]]:
    """Each listed score of the synthetic table, the floor and the ceiling: its title, as text, and which way is better.

    None where a table has no columns for it; those that none has are left out.
    """
    for title, path, form, way in LISTED:
        values = {name: look_up(of_table, path) for name, of_table in scores.items()}
        if any(value is not None for value in values.values()):
            yield title, {name: None if value is None else format(value, form) for name, value in values.items()}, way


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


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The scores of a table; and what they came from: agreement by set of columns, what tells it apart, intervals."""

    scores: dict[str, Any]
    agreement: dict[int, list[float]]
    telling: Telling | None
    intervals: dict[str, Any]


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
        self._analysis = Analysis(real, self._dependence)

    def score(self, table: ComparedTable, *, by_column: bool = False, is_ceiling: bool = False) -> Scored:
        """All scores of a table; with `by_column` also which columns tell it apart."""
        streams = spawn_streams(self._seed)  # the same draws for every table
        agreement = marginals.measure_agreement(self._real, table, self.sets)
        trained = classifiers.score_classifiers(table, self._trial, streams["classifiers"], is_ceiling=is_ceiling)
        depends = dependence.measure_dependence(table, streams["dependence"])
        overlap, intervals = self._analysis.compare(table)
        telling = tell_apart(self._real.written, table.written, streams["detection"], by_column=by_column)
        scores = {
            "nist2018": self._nist2018.score(table),
            **marginals.score_kway(agreement),
            "pc1_distance": principal.score_first_component(self._component, principal.find_first_component(table)),
            "correlations": dependence.score_correlations(table, self._dependence, depends),
            "classifier_auc": _mean([trial["auc"] for trial in trained]),
            "classifier_auc_real": _mean([trial["auc_real"] for trial in trained]),
            "classifiers": trained,
            "detection_auc": None if telling is None else telling.auc,
            "interval_overlap": overlap,
        }
        return Scored(scores=scores, agreement=agreement, telling=telling, intervals=intervals)


def make_floor(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """A table whose single columns are the real ones and nothing else is: each column shuffled by itself."""
    cells = np.empty((rows, len(real.columns)), dtype=np.int32)
    numbers = np.empty((rows, len(real.columns)), dtype=np.float64)
    for place in range(len(real.columns)):
        order = np.resize(rng.permutation(real.rows), rows)
        cells[:, place], numbers[:, place] = real.cells[order, place], real.numbers[order, place]
    written = real.written.select(column[np.resize(rng.permutation(real.rows), rows)] for column in real.written)
    return replace(real, cells=cells, numbers=numbers, written=written)


def make_ceiling(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """Real rows drawn with replacement: as good as a table of that many rows can be expected to be."""
    return real.take(rng.integers(real.rows, size=rows))


def describe_legality(real: ComparedTable, table: ComparedTable, schema: Schema) -> dict[str, Any]:
    """How many rows hold a cell that the specs do not allow, how many derived cells do not follow, each broken rule.

    `rules` has the rules between columns with the rows of either table that break them.
    """
    derived = {column.name for column in schema.columns if isinstance(column, FunctionColumn)}
    return {
        "rows": table.records,
        "illegal_rows": table.illegal,
        "derived_columns": len(derived),
        "derived_broken": sum(rows for column, _, rows in table.broken if column in derived),
        "broken": [{"column": column, "rule": rule, "rows": rows} for column, rule, rows in table.broken],
        "rules": [
            {"rule": rule, "real": ours, "synthetic": theirs}
            for (rule, ours), (_, theirs) in zip(real.rules, table.rules, strict=True)
        ],
    }


def describe_units(real: ComparedTable, table: ComparedTable, schema: Schema) -> dict[str, list[float]] | None:
    """Of both tables the shares of units with 1, 2, ... rows, of so many as the specs keep; None without units."""
    if schema.unit is None or real.units is None or table.units is None:
        return None
    most, both = schema.unit.max_rows, {"real": real.units, "synthetic": table.units}
    return {
        name: (np.bincount(np.minimum(units.sizes, most), minlength=most + 1)[1:] / units.count).tolist()
        for name, units in both.items()
    }


def evaluate(
    tables: TableSet,
    *,
    claim: Mapping[str, Any] | None,
    claim_matches: bool | None,
    match: Mapping[str, Any] | None,
    seed: int,
    roles: Mapping[str, str],
    by: Sequence[str] = (),
    weights: Sequence[str] = (),
    say: Say,
) -> tuple[dict[str, Any], Pairs | None]:
    """Compares a synthetic table with the real one, and two tables made of real rows beside it.

    What comes back is what --json writes and the report shows: plain dictionaries, lists, numbers and strings; and
    beside it all pairs of columns, for the report's maps, unless there are too many. The document's "scores" has
    "synthetic", "floor" and "ceiling", each with the same keys. `claim` is the file beside the synthetic table as it
    stands, `claim_matches` whether it names the digest of the table's bytes, `match` the scores of several synthetic
    tables. `by` are columns to group rows by, `weights` columns to add up. The same seed gives the same scores. `say`
    is told what is being worked on.
    Privacy: NOT private: the ceiling is made of real rows, the floor of their cells; neither is written.
    """
    start = time.perf_counter()
    real, synthetic = tables.real, tables.synthetic
    work = Workload(tables, seed=seed, roles=roles, say=say)
    say("the synthetic table")
    found = work.score(synthetic, by_column=True)
    streams = spawn_streams(seed)
    scores = {"synthetic": found.scores}
    say("the floor")
    scores["floor"] = work.score(make_floor(real, rows=synthetic.rows, rng=streams["floor"])).scores
    say("the ceiling")
    ceiling = make_ceiling(real, rows=synthetic.rows, rng=streams["ceiling"])
    scores["ceiling"] = work.score(ceiling, is_ceiling=True).scores
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "agreement": marginals.measure_overlap(real, synthetic, (place,)),
            "ceiling": marginals.measure_overlap(real, ceiling, (place,)),
        }
        for place, column in enumerate(real.columns)
    ]
    say("pairs of columns")
    pairs, listed = compare_all_pairs(real, synthetic, ceiling)
    places = {name: place for place, name in enumerate(real.names)}
    added = [places[name] for name in weights]
    seconds = time.perf_counter() - start
    named = {"real": real, "synthetic": synthetic, "holdout": tables.holdout}
    return {
        "notice": NOTICE,
        "tables": {name: None if table is None else _describe(table, tables.schema) for name, table in named.items()},
        "claim": claim,
        "claim_matches": claim_matches,
        "seed": seed,
        "scores": scores,
        "columns": columns,
        "best_and_worst": {"columns": rank(columns), "pairs": rank(listed)},
        "told_apart_by": [] if found.telling is None else list_tellers(found.telling),
        "numbers": numbers.describe_numbers(real, synthetic),
        "weights": [numbers.add_up(real, synthetic, place) for place in added],
        "groups": [numbers.describe_groups(real, synthetic, places[name], added) for name in by],
        "intervals": found.intervals,
        "triples": [
            {"columns": [real.columns[place].name for place in places], "agreement": value}
            for value, places in sorted(zip(found.agreement[3], work.sets[3], strict=True))[:WORST]
        ],
        "legality": describe_legality(real, synthetic, tables.schema),
        "units": describe_units(real, synthetic, tables.schema),
        "links": describe_links(real.links, synthetic.links),
        "match": match,
        "seconds": seconds,
        "rows_per_second": sum(table.rows for table in named.values() if table is not None) / seconds,
    }, pairs


def compare_all_pairs(
    real: ComparedTable, synthetic: ComparedTable, ceiling: ComparedTable
) -> tuple[Pairs | None, list[dict[str, Any]]]:
    """The pairs of columns of a table, and a list of them with their agreement beside the ceiling's."""
    names = real.names
    if not 2 <= len(names) <= dependence.MOST_COLUMNS:
        return None, []
    pairs, best = dependence.compare_pairs(real, (synthetic, ceiling))
    return pairs, [
        {
            "columns": [names[one], names[other]],
            "agreement": float(pairs.agreement[one, other]),
            "ceiling": float(best.agreement[one, other]),
        }
        for one, other in itertools.combinations(range(len(names)), 2)
    ]


def rank(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The best and the worst few, by how much of the ceiling's agreement they lack; none is among both."""
    order = sorted(entries, key=lambda entry: float(entry["ceiling"] - entry["agreement"]))
    few = min(NAMED, len(order) // 2)
    return {"best": order[:few], "worst": order[::-1][: min(NAMED, len(order) - few)]}


def list_tellers(telling: Telling) -> list[dict[str, Any]]:
    """The columns that tell the tables apart most, by how much of the area goes without them."""
    order = sorted(telling.columns.items(), key=lambda item: -item[1])
    return [{"column": name, "importance": drop} for name, drop in order[:WORST] if drop > 0.0]


def _describe(table: ComparedTable, schema: Schema) -> dict[str, Any]:
    sampled = table.rows + table.illegal < table.records
    # A column that is compared in two parts, such as a datetime's day and time, is one.
    columns = sum(isinstance(column, TrainedColumn) and column.is_written for column in schema.columns)
    shape = {"rows": table.records, "compared": table.rows, "sampled": sampled, "columns": columns}
    return {"file": PurePath(table.path).name, **shape}


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
