"""Is the synthetic table as good to learn from as the real one? NOT private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from dpwgan.array_types import Integers32
from dpwgan.evaluate.apart import FEWEST_ROWS
from dpwgan.evaluate.tables import ComparedTable

LOW_CARDINALITY = 10
"""Most cells of a column that is predicted."""
TARGETS = 50
"""Most columns that are predicted: of more, so many are drawn."""
ROWS = 10_000
"""Most rows to train on, and most to test on."""
CLASSIFIERS = ("naive_bayes", "decision_tree", "gradient_boosting")


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """Real rows to train on and to test on, and what training on real rows reaches for each column to predict.

    Shapes: `train` and `test` are (rows, columns) cells; `real_auc` has one number for each (target, classifier).
    """

    train: Integers32
    test: Integers32
    sizes: tuple[int, ...]
    real_auc: dict[tuple[int, str], float]


def prepare_trial(real: ComparedTable, holdout: ComparedTable | None, rng: np.random.Generator) -> Trial:
    """Chooses rows and targets, and trains on real rows.

    Tested is on hold-out rows where there are any, else on a fifth of the real rows, on which the real classifiers are
    not trained; the synthesizer may have seen those. Targets are the columns of at most `LOW_CARDINALITY` cells that
    have two of them in the rows to train on and in those to test on; none where rows are too few to learn from.
    """
    order = rng.permutation(real.rows)
    if holdout is None:
        tests = max(1, real.rows // 5)
        test, order = real.cells[order[:tests][:ROWS]], order[tests:]
    else:
        test = holdout.cells[rng.permutation(holdout.rows)[:ROWS]]
    train = real.cells[order[:ROWS]]
    targets = [
        place
        for place, column in enumerate(real.columns)
        if column.cells <= LOW_CARDINALITY and _has_two(train[:, place]) and _has_two(test[:, place])
        if len(real.columns) > 1  # there must be something to predict it from
        if real.rows >= FEWEST_ROWS
    ]
    if len(targets) > TARGETS:
        targets = sorted(rng.choice(targets, TARGETS, replace=False).tolist())
    real_auc = {
        (target, name): measure_auc(name, train, test, target, real.sizes) for target in targets for name in CLASSIFIERS
    }
    return Trial(train=train, test=test, sizes=real.sizes, real_auc=real_auc)


def score_classifiers(
    table: ComparedTable, trial: Trial, rng: np.random.Generator, *, is_ceiling: bool = False
) -> list[dict[str, Any]]:
    """For each target and classifier the AUC after training on this table, beside that after real rows.

    They are the same of the ceiling, among whose rows are those that are tested on.
    """
    train = table.cells[rng.permutation(table.rows)[:ROWS]]
    return [
        {
            "target": table.columns[target].name,
            "classifier": name,
            "auc": auc_real if is_ceiling else measure_auc(name, train, trial.test, target, trial.sizes),
            "auc_real": auc_real,
        }
        for (target, name), auc_real in trial.real_auc.items()
    ]


def measure_auc(name: str, train: Integers32, test: Integers32, target: int, sizes: Sequence[int]) -> float:
    """Trains one classifier and gives the area under its ROC curve on the test rows.

    Of more than two classes: each against the rest, weighted by its share of the test rows. A class that was not in the
    rows to train on is given no chance; with one class to train on nothing is learnt, and the area is 0.5.
    Shapes: (rows, columns) cells; the target is a column of both.
    """
    inputs = [place for place in range(train.shape[1]) if place != target]
    classes = np.unique(train[:, target])
    if len(classes) < 2:
        return 0.5
    model = _make(name, [sizes[place] for place in inputs])
    model.fit(train[:, inputs], train[:, target])
    chances = np.zeros((len(test), sizes[target]))
    chances[:, classes] = model.predict_proba(test[:, inputs])
    truth = test[:, target]
    labels, weights = np.unique(truth, return_counts=True)
    areas = [roc_auc_score(truth == label, chances[:, label]) for label in labels]
    return float(np.average(areas, weights=weights))


def _make(name: str, sizes: list[int]) -> Any:
    # Settings are fixed, and the same for every table: a comparison, not a contest.
    if name == "naive_bayes":
        return CategoricalNB(min_categories=sizes)
    if name == "decision_tree":
        return DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
    return HistGradientBoostingClassifier(
        max_iter=20, learning_rate=0.3, max_leaf_nodes=15, early_stopping=False, random_state=0
    )


def _has_two(cells: Integers32) -> bool:
    return len(cells) > 1 and bool((cells != cells[0]).any())
