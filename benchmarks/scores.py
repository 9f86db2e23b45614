"""Scores a synthetic table against real rows it was made from. NOT private: the scores are for tables that are public.

    python benchmarks/scores.py FOLDER SYNTHETIC.csv
    python benchmarks/scores.py FOLDER --reference bootstrap|one-ways

FOLDER holds data-specs.json, train.csv.gz and holdout.csv.gz. Prints one JSON object:

kway_1, kway_2, kway_3  1000 times the mean overlap of marginals: the sum over cells of min(real share, synthetic
                        share), 1 minus the total variation; over all columns, and over 100 pairs and triples fixed once
hoc                     200 conjunctions, fixed once, each around a real row and over a third of the columns: how far
                        off their share of rows is, as 1 - RMS(ln synthetic share - ln real share) / ln 1000, at least
                        0; a synthetic share counts as 1e-6 at least
pc1_dist                distance between the first principal components of the standardised one-hot tables: 0 the same,
                        1.414 at right angles; here lower is better
tstr_acc, tstr_auc      a classifier trained on the synthetic table and tested on real hold-out rows;
                        benchmarks/tasks.json names the target of each table; one that is not in it gets no such score
apart                   how well gradient boosting tells synthetic rows from real ones by all columns as written
                        (dpwgan.evaluate.apart): .5 not at all, 1 always; here lower is better
bad_rows                rows with a cell that the specs do not allow; a table that has any is not scored

The references are made of real rows: `bootstrap` draws rows with replacement, and `one-ways` shuffles each column by
itself, so that single columns are exact and nothing else is kept.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

Codes = npt.NDArray[np.int64]

TASKS_FILE = Path(__file__).resolve().parent / "tasks.json"
BINS = 32  # of a number, between the ends of its public range
SETS = 100  # of columns, for each size above one that has more of them
CONJUNCTIONS = 200
SMALLEST_SHARE = 1e-6
DENSE_CELLS = 1 << 22  # a marginal of more cells is counted over the cells that occur
REFERENCES = ("bootstrap", "one-ways")


class TableError(Exception):
    """A table that cannot be scored, with the reason in one sentence."""


# -------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Domain:
    """The public cells of one column, numbered 0 .. size - 1, and the rule that gives a cell its number, or -1."""

    name: str
    size: int
    code: Callable[[str], int]


def read_domains(specs: dict[str, Any]) -> list[Domain]:
    """Gives each column's cells, by a plain reading of the specs that does not use the package.

    Raises: TableError for a column whose cells the specs alone do not list.
    """
    # Rules between columns are a list.
    return [_read_domain(name, spec) for name, spec in specs.items() if isinstance(spec, dict)]


def _read_domain(name: str, spec: dict[str, Any]) -> Domain:
    absent = {str(cell): place for place, cell in enumerate(spec.get("missing", ()))}
    if spec.get("optional"):
        absent.setdefault("", len(absent))
    kind = spec.get("type")
    if kind == "enum" and ("count" in spec or "maxval" in spec) and "domain_from" not in spec:
        size = int(spec["count"]) if "count" in spec else int(spec["maxval"]) + 1

        def code(cell: str) -> int:
            value = _number(cell)
            return int(value) if value is not None and value.is_integer() and 0 <= value < size else -1

    elif kind == "enum" and "values" in spec:
        places = {str(value): place for place, value in enumerate(spec["values"])}
        size = len(places)

        def code(cell: str) -> int:
            return places.get(cell, -1)

    elif kind in ("integer", "float") and not spec.get("uuid"):
        low, high = float(spec["min"]), float(spec["max"])
        size = min(BINS, int(high - low) + 1) if kind == "integer" else BINS
        step = (high - low + (kind == "integer")) / size or 1.0

        def code(cell: str) -> int:
            value = _number(cell)
            return min(int((value - low) / step), size - 1) if value is not None and low <= value <= high else -1

    else:
        raise TableError(f"the cells of column {name} are not listed in the specs alone, so it cannot be scored")

    def code_or_absent(cell: str) -> int:
        return size + absent[cell] if cell in absent else code(cell)

    return Domain(name, size + len(absent), code_or_absent)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def read_codes(path: Path, domains: list[Domain]) -> Codes:
    """Reads a table as cell numbers, columns in the order of the specs; -1 where a cell is not legal.

    Shapes: (rows, columns).
    Raises: TableError if the columns are not those of the specs.
    """
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    if sorted(frame.columns) != sorted(domain.name for domain in domains):
        raise TableError("the header does not name the columns of the specs")
    codes = np.empty((len(frame), len(domains)), dtype=np.int64)
    for place, domain in enumerate(domains):
        inverse, cells = pd.factorize(frame[domain.name])
        codes[:, place] = np.array([domain.code(cell) for cell in cells], dtype=np.int64)[inverse]
    return codes


def count_bad_rows(codes: Codes) -> int:
    return int((codes < 0).any(axis=1).sum())


def make_reference(name: str, real: Codes, rng: np.random.Generator) -> Codes:
    """Gives a table made of the real rows: the `bootstrap` ceiling or the `one-ways` floor. Not private."""
    if name == "bootstrap":
        return np.asarray(real[rng.integers(len(real), size=len(real))])
    return rng.permuted(real, axis=0)


# -------------------------------------------------------------------------------------------------------- scores


def score_marginals(real: Codes, synthetic: Codes, sizes: list[int]) -> dict[str, float]:
    """Gives kway_1, kway_2 and kway_3.

    Shapes: both tables (rows, columns), the numbers of rows may differ.
    """
    rng = np.random.RandomState(100)  # the sets are the same in every comparison
    scores = {}
    for k in (1, 2, 3):
        sets = list(itertools.combinations(range(len(sizes)), k))
        if len(sets) > SETS:
            sets = [sets[place] for place in rng.choice(len(sets), SETS, replace=False)]
        if sets:
            scores[f"kway_{k}"] = 1000.0 * float(np.mean([_overlap(real, synthetic, sizes, chosen) for chosen in sets]))
    return scores


def _overlap(real: Codes, synthetic: Codes, sizes: list[int], columns: tuple[int, ...]) -> float:
    shape = tuple(sizes[column] for column in columns)
    ours, theirs = (np.ravel_multi_index(tuple(t[:, list(columns)].T), shape) for t in (real, synthetic))
    cells = int(np.prod(shape))
    if cells > DENSE_CELLS:
        seen, both = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        cells, ours, theirs = len(seen), both[: len(ours)], both[len(ours) :]
    shares = [np.bincount(keys, minlength=cells) / len(keys) for keys in (ours, theirs)]
    return float(np.minimum(*shares).sum())


def draw_conjunctions(real: Codes, sizes: list[int]) -> Iterator[dict[int, npt.NDArray[np.bool_]]]:
    """Gives the fixed conjunctions: for each of some columns those cells that satisfy it."""
    rng = np.random.RandomState(200)  # the order of the draws is part of the score's definition
    columns = len(sizes)
    for _ in range(CONJUNCTIONS):
        row = real[rng.randint(len(real))]
        conjunction = {}
        for column in rng.choice(columns, max(1, round(columns / 3)), replace=False):
            accepted = np.zeros(sizes[column], dtype=bool)
            many = rng.randint(1, sizes[column] + 1)
            accepted[rng.permutation(sizes[column])[:many]] = True
            accepted[row[column]] = True
            conjunction[int(column)] = accepted
        yield conjunction


def score_conjunctions(real: Codes, synthetic: Codes, sizes: list[int]) -> float:
    """Gives hoc."""

    def share(codes: Codes, conjunction: dict[int, npt.NDArray[np.bool_]]) -> float:
        rows = np.arange(len(codes))
        for column, accepted in conjunction.items():  # only the rows that are still in are looked at
            rows = rows[accepted[codes[rows, column]]]
        return len(rows) / len(codes)

    ratios = [
        np.log(max(share(synthetic, conjunction), SMALLEST_SHARE) / share(real, conjunction))
        for conjunction in draw_conjunctions(real, sizes)
    ]
    return max(0.0, 1.0 - float(np.sqrt(np.mean(np.square(ratios)))) / float(np.log(1000.0)))


def score_first_component(real: Codes, synthetic: Codes, sizes: list[int]) -> float:
    """Gives pc1_dist: components have no sign, so the nearer of the two signs counts."""
    cosine = abs(float(_first_component(real, sizes) @ _first_component(synthetic, sizes)))
    return float(np.sqrt(max(0.0, 2.0 - 2.0 * cosine)))


def _first_component(codes: Codes, sizes: list[int]) -> npt.NDArray[np.float64]:
    from scipy.linalg import eigh
    from scipy.sparse import csr_matrix

    rows, columns = codes.shape
    places = codes + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    indptr = np.arange(rows + 1, dtype=np.int64) * columns
    hot = csr_matrix((np.ones(rows * columns), places.ravel(), indptr), shape=(rows, sum(sizes)))
    together = (hot.T @ hot).toarray() / rows
    means = np.diag(together).copy()  # of 0-or-1 columns
    spread = np.sqrt(means * (1.0 - means))
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)  # a constant column has no part
    correlation = (together - np.outer(means, means)) * np.outer(inverse, inverse)
    last = len(means) - 1
    return np.asarray(eigh(correlation, subset_by_index=[last, last])[1][:, 0])


@dataclass(frozen=True)
class Task:
    """What is predicted from what: rows whose target is in `positive` from rows whose target is in `keep`.

    Units: both ranges in cell numbers, ends included; `keep` of None keeps every row.
    """

    target: str
    positive: tuple[int, int]
    keep: tuple[int, int] | None = None
    left_out: tuple[str, ...] = ()


def read_task(table: str) -> Task | None:
    """Gives the task of a table of that name, or one of its slices (benchmarks/slices.py); None where there is none."""
    known = json.loads(TASKS_FILE.read_text())
    task = known.get(table.partition(".")[0])
    if task is None:
        return None
    keep = tuple(task["keep"]) if "keep" in task else None
    return Task(task["target"], tuple(task["positive"]), keep, tuple(task.get("left_out", ())))


def score_task(task: Task, names: list[str], synthetic: Codes, holdout: Codes) -> dict[str, float]:
    """Gives tstr_acc and tstr_auc; neither where the synthetic target has one class only, as nothing can be trained."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    target = names.index(task.target)
    inputs = [place for place, name in enumerate(names) if name != task.target and name not in task.left_out]

    def split(codes: Codes) -> tuple[Codes, Codes]:
        if task.keep is not None:
            codes = codes[(codes[:, target] >= task.keep[0]) & (codes[:, target] <= task.keep[1])]
        positive = (codes[:, target] >= task.positive[0]) & (codes[:, target] <= task.positive[1])
        return codes[:, inputs], positive.astype(np.int64)

    inputs_synthetic, labels = split(synthetic)
    inputs_holdout, truth = split(holdout)
    if len(np.unique(labels)) < 2:
        return {}
    model = HistGradientBoostingClassifier(random_state=0).fit(inputs_synthetic, labels)
    chances = model.predict_proba(inputs_holdout)[:, 1]
    return {
        "tstr_acc": float(np.mean((chances >= 0.5) == truth)),
        "tstr_auc": float(roc_auc_score(truth, chances)),
    }


def score_apart(real_path: Path, names: list[str], synthetic_path: Path | None, reference: str) -> float | None:
    """Gives apart, of a table or of a reference made of the real rows; None where there are hardly any rows."""
    from dpwgan.evaluate.apart import tell_apart

    rng = np.random.default_rng(0)
    real = pl.read_csv(real_path, infer_schema=False, empty_string_is_null=False).select(names)
    if synthetic_path is not None:
        synthetic = pl.read_csv(synthetic_path, infer_schema=False, empty_string_is_null=False).select(names)
    elif reference == "bootstrap":
        synthetic = real[rng.integers(real.height, size=real.height)]
    else:
        synthetic = real.select(column[rng.permutation(real.height)] for column in real)
    telling = tell_apart(real, synthetic, rng)
    return None if telling is None else round(telling.auc, 4)


# ---------------------------------------------------------------------------------------------------- command line


def score(folder: Path, synthetic_path: Path | None = None, *, reference: str | None = None) -> dict[str, Any]:
    """Scores a table, or a reference made here, against the folder's real rows.

    Raises: TableError if the folder's tables or the synthetic one cannot be scored.
    """
    domains = read_domains(json.loads((folder / "data-specs.json").read_text()))
    names, sizes = [domain.name for domain in domains], [domain.size for domain in domains]
    real = read_codes(folder / "train.csv.gz", domains)
    holdout = read_codes(folder / "holdout.csv.gz", domains)
    if not len(real) or count_bad_rows(real) or count_bad_rows(holdout):
        raise TableError(f"the real table {folder.name} is empty or holds cells that its specs do not allow")
    if synthetic_path is None:
        synthetic = make_reference(reference or "", real, np.random.default_rng())
    else:
        synthetic = read_codes(synthetic_path, domains)
    result: dict[str, Any] = {"table": folder.name, "rows": len(synthetic), "bad_rows": count_bad_rows(synthetic)}
    if not len(synthetic) or result["bad_rows"]:
        return result
    result |= {name: round(value, 1) for name, value in score_marginals(real, synthetic, sizes).items()}
    result["hoc"] = round(score_conjunctions(real, synthetic, sizes), 4)
    result["pc1_dist"] = round(score_first_component(real, synthetic, sizes), 4)
    apart = score_apart(folder / "train.csv.gz", names, synthetic_path, reference or "")
    if apart is not None:
        result["apart"] = apart
    task = read_task(folder.name)
    if task is None or task.target not in names:
        result["tstr_skipped"] = f"benchmarks/tasks.json names no target for a table called {folder.name}"
    else:
        tested = score_task(task, names, synthetic, holdout)
        result |= {name: round(value, 4) for name, value in tested.items()}
        if not tested:
            result["tstr_skipped"] = "the synthetic target has one class only, so there is nothing to train"
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("synthetic", type=Path, nargs="?", metavar="SYNTHETIC.csv")
    parser.add_argument("--reference", choices=REFERENCES, help="score a table made of the real rows instead")
    asked = parser.parse_args(arguments)
    if (asked.synthetic is None) == (asked.reference is None):
        parser.error("give either SYNTHETIC.csv or --reference")
    try:
        print(json.dumps(score(asked.folder, asked.synthetic, reference=asked.reference)))
    except (TableError, OSError) as error:
        print(f"scores: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
