"""How well a classifier tells synthetic rows from real ones, and by which columns. NOT private."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from dpwgan.array_types import Floats
from dpwgan.table.codecs.codec import list_distinct
from dpwgan.table.codecs.numbers import read_numbers

FEWEST_ROWS = 100
"""Of each table: with fewer boosting hardly learns, and its guesses look like those about a perfect table."""
ROWS = 10_000
"""Most rows taken from each table."""
FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class Telling:
    """The area under the ROC curve over all folds, and how much of it goes when one column's cells are shuffled."""

    auc: float
    columns: dict[str, float]


def tell_apart(
    real: pl.DataFrame, synthetic: pl.DataFrame, rng: np.random.Generator, *, by_column: bool = False
) -> Telling | None:
    """Trains gradient boosting to tell rows of text apart: an area of 0.5 is guessing, 1 always right.

    As many rows of one table as of the other; each row is judged by a model that did not see it. A number is seen as it
    is, so that rounding and gaps give a table away; any other cell is a code of its own below all numbers. None for
    tables of fewer than `FEWEST_ROWS`, or without columns. With `by_column` each column of the rows judged by one model
    is shuffled in turn.
    Source: the classifier two-sample test, Lopez-Paz and Oquab 2017, arXiv:1610.06545; importance by shuffling, Breiman
      2001, "Random forests", section 10.
    """
    rows = min(real.height, synthetic.height, ROWS)
    if rows < FEWEST_ROWS or not real.width:
        return None
    drawn = [table[np.sort(rng.choice(table.height, rows, replace=False))] for table in (real, synthetic)]
    columns = [_read(pl.concat([table.get_column(name).cast(pl.String) for table in drawn])) for name in real.columns]
    cells, labels = np.stack(columns, axis=1), np.repeat([0, 1], rows)
    chances = np.empty(len(labels))
    drops: dict[str, float] = {}
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(cells, labels):
        model = HistGradientBoostingClassifier(max_iter=50, learning_rate=0.2, early_stopping=False, random_state=0)
        model.fit(cells[train], labels[train])
        chances[test] = model.predict_proba(cells[test])[:, 1]
        if by_column and not drops:
            whole = roc_auc_score(labels[test], chances[test])
            for place, name in enumerate(real.columns):
                shuffled = cells[test]
                shuffled[:, place] = rng.permutation(shuffled[:, place])
                drops[name] = float(whole - roc_auc_score(labels[test], model.predict_proba(shuffled)[:, 1]))
    # Rows that stand in both tables are taken for the wrong one: that is no worse than guessing.
    return Telling(auc=max(0.5, float(roc_auc_score(labels, chances))), columns=drops)


def _read(cells: pl.Series) -> Floats:
    distinct, places = list_distinct(cells)
    is_number, numbers = read_numbers(pl.Series(distinct, dtype=pl.String))
    lowest = numbers[is_number].min(initial=0.0)
    seen = np.where(is_number, numbers, lowest - 1.0 - np.argsort(np.argsort(np.array(distinct, dtype=str))))
    return seen.take(places)
