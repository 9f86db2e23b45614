"""Model inversion: climbing a classifier trained on the synthetic table back to the rows that it was made from."""

import warnings
from typing import Any

import numpy as np

from dpwgan.array_types import Floats, Integers, Integers32
from dpwgan.audit.attacks.base import AttackResult, CannotPlayError, Game, choose_target
from dpwgan.audit.comparisons import compare_with_half
from dpwgan.audit.points import CATEGORY, MOST_WIDTH, Points, lay_out_points
from dpwgan.evaluate.tables import ComparedTable

HIDDEN = (100,)
STARTS = 50
STEPS = 30
STEP_SIZE = 0.1
SURE = 0.99
"""A reconstruction is done when the classifier is this sure of it, as in the original algorithm. Climbing on would take
every start of a class to one and the same extreme."""

_MOST_TRAINED_ON = 20_000
_MOST_NEAR = 5_000  # rows of a kind and class that a reconstruction may find
_FEWEST_NEIGHBOURS = 5


def invert_classifier(game: Game, rng: np.random.Generator) -> AttackResult:
    """Reconstructs inputs of each class from a classifier, and looks whether training rows lie nearest to them.

    The classifier sees the synthetic table alone. From each of several starts the attacker goes up the probability of a
    class, over inputs whose categories are mixtures. As many training as hold-out rows of that class stand by; were the
    classifier as much made of the one as of the other, the row nearest to a reconstruction would be a training row half
    of the time. Each row found counts once, however many reconstructions lead to it.

    The paper shows reconstructed faces to a face recogniser; for a table nearness has to stand in for recognition.
    Raises: UsageError if the target asked for cannot be predicted.
    Source: Fredrikson, Jha, Ristenpart 2015, "Model inversion attacks that exploit confidence information", algorithm
      1, as Triastcyn and Faltings 2019, section 5.4, use it: on a model trained on artificial data.
    """
    target = choose_target(game)
    if target is None:
        raise CannotPlayError("the table has no column of 2 to 50 categories to classify by")
    inputs = [place for place in range(len(game.synthetic.columns)) if place != target]
    if not inputs:
        raise CannotPlayError("a table of one column has no inputs to reconstruct")

    def read_inputs(table: ComparedTable) -> Points:
        return lay_out_points(table).keep(inputs)

    trained_on = game.synthetic.draw(_MOST_TRAINED_ON, rng)
    labels, points = trained_on.cells[:, target], read_inputs(trained_on)
    if (width := points.parts[-1].stop) > MOST_WIDTH:
        raise CannotPlayError(f"the inputs have {width} cells together, more than {MOST_WIDTH}")
    if len(np.unique(labels)) < 2:
        raise CannotPlayError("the synthetic table has one class of the target only")
    model = _train(points.spread_out(), labels, rng)
    found, members = 0, 0
    classes = []
    for number, label in enumerate(model.classes_):
        sides = [table.take(np.flatnonzero(table.cells[:, target] == label)) for table in (game.real, game.holdout)]
        many = min(_MOST_NEAR, *(side.rows for side in sides))
        if not many:
            continue
        drawn = [side.take(rng.choice(side.rows, size=many, replace=False)) for side in sides]
        pool = np.concatenate([read_inputs(side).spread_out() for side in drawn])
        nearest = _find_owners(_climb(model, number, points, rng), pool, rng)
        found += len(nearest)
        members += int((nearest < many).sum())
        classes.append({"class_number": int(label), "rows_of_each_kind": many, "rows_found": len(nearest)})
    if found < _FEWEST_NEIGHBOURS:
        raise CannotPlayError(
            f"reconstructions led to {found} rows of classes that both training and hold-out rows have"
        )
    tested_on = game.holdout.draw(_MOST_NEAR, rng)
    accuracy = float(model.score(read_inputs(tested_on).spread_out(), tested_on.cells[:, target]))
    return AttackResult(
        question="Do inputs reconstructed from a classifier of the synthetic table lie nearer to training rows?",
        measure="share of training rows among those nearest to a reconstruction, of as many hold-out rows",
        attacked_rows=found,
        headline=compare_with_half(members, found, confidence=game.settings.confidence),
        details={
            "target": game.synthetic.names[target],
            "classes": classes,
            "reconstructions_of_each_class": STARTS,
            "rows_trained_on": trained_on.rows,
            "accuracy_on_holdout_rows": accuracy,
        },
    )


def _project(rows: Floats, points: Points) -> Floats:
    """Moves rows to the nearest that a mixture could have: categories sum to 1, numbers lie in [0, 1]."""
    for part, numeric in zip(points.parts, points.numeric, strict=True):
        own = rows[:, part]
        rows[:, part] = np.clip(own, 0.0, 1.0) if numeric else CATEGORY * _project_to_simplex(own / CATEGORY)
    return rows


def _draw_starts(points: Points, rng: np.random.Generator) -> Floats:
    """Draws legal rows: every category as likely, numbers evenly over their range, nothing missing."""
    parts = []
    for size, numeric in zip(points.sizes, points.numeric, strict=True):
        if numeric:
            parts.append(np.column_stack([rng.random(STARTS), np.zeros(STARTS)]))
        else:
            parts.append(CATEGORY * np.eye(size)[rng.integers(size, size=STARTS)])
    return np.concatenate(parts, axis=1)


def _train(rows: Floats, labels: Integers32, rng: np.random.Generator) -> Any:
    """A multilayer perceptron with ReLU layers."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(HIDDEN, alpha=1e-5, max_iter=60, random_state=int(rng.integers(1 << 31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it might be trained for longer
        return model.fit(rows, labels)


def _find_slope(model: Any, rows: Floats, number: int) -> Floats:
    """The gradient, in the inputs, of the log-probability of one class. Shapes: (b, width) both."""
    layers = [rows]
    for weights, biases in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        layers.append(np.maximum(layers[-1] @ weights + biases, 0.0))
    error = -model.predict_proba(rows)
    error[:, number] += 1.0
    error = error[:, -model.coefs_[-1].shape[1] :]  # two classes have one score, that of the second
    for weights, inputs in zip(model.coefs_[:0:-1], layers[:0:-1], strict=True):
        error = (error @ weights.T) * (inputs > 0.0)
    return np.asarray(error @ model.coefs_[0].T)


def _climb(model: Any, number: int, points: Points, rng: np.random.Generator) -> Floats:
    rows = _draw_starts(points, rng)
    for _ in range(STEPS):
        unsure = np.flatnonzero(model.predict_proba(rows)[:, number] < SURE)
        if not len(unsure):
            break
        slope = _find_slope(model, rows[unsure], number)
        length = np.linalg.norm(slope, axis=1, keepdims=True)
        rows[unsure] = _project(rows[unsure] + STEP_SIZE * slope / np.maximum(length, 1e-12), points)
    return rows


def _find_owners(found: Floats, pool: Floats, rng: np.random.Generator) -> Integers:
    """Finds the rows of the pool nearest to the reconstructions, each once; a draw decides between twins."""
    order = rng.permutation(len(pool))
    # |a - b|^2 less |a|^2, which is the same for all of a row.
    apart = np.square(pool[order]).sum(axis=1)[None, :] - 2.0 * found @ pool[order].T
    owners: Integers = np.unique(order[np.round(apart, 9).argmin(axis=1)])
    return owners


def _project_to_simplex(rows: Floats) -> Floats:
    """The nearest distributions. Source: Duchi, Shalev-Shwartz, Singer, Chandra 2008, figure 1."""
    ordered = -np.sort(-rows, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1.0
    counts = np.arange(1, rows.shape[1] + 1)
    last = (ordered - excess / counts > 0.0).sum(axis=1)
    shift = excess[np.arange(len(rows)), last - 1] / last
    return np.asarray(np.maximum(rows - shift[:, None], 0.0))
