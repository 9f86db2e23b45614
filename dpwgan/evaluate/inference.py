"""Would an analyst say the same? How far the confidence intervals of both tables overlap. NOT private."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

from dpwgan.array_types import Floats, Integers
from dpwgan.evaluate.tables import ComparedTable

Z = 1.959964
"""Half the width of an interval of 95%, in standard errors."""
INPUTS = 5
MOST_CELLS = 10
"""Of a category that takes part in a regression."""
TARGETS = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Numbers with their standard errors, as of so many rows. Shapes: (k,) each."""

    values: Floats
    errors: Floats


def share_intervals(ours: Estimates, theirs: Estimates) -> Floats:
    """How far intervals of 95% overlap: the mean of the overlap's share of the one and of the other, at least 0.

    Shapes: (k,).
    Source: Karr, Kohnen, Oganian, Reiter, Sanil 2006, "A framework for evaluating the utility of data altered to
      protect confidentiality", as the R package synthpop has it, which goes on below 0.
    """
    lower = np.maximum(ours.values - Z * ours.errors, theirs.values - Z * theirs.errors)
    upper = np.minimum(ours.values + Z * ours.errors, theirs.values + Z * theirs.errors)
    common = np.maximum(upper - lower, 0.0)
    shares = []
    for side in (ours, theirs):
        width = 2.0 * Z * side.errors
        # An interval without a width lies in the other one or does not.
        shares.append(np.divide(common, width, out=(upper >= lower).astype(np.float64), where=width > 0.0))
    overlap: Floats = (shares[0] + shares[1]) / 2.0
    return overlap


def estimate_means(table: ComparedTable, *, rows: int) -> Estimates:
    """The mean of each number, with the error that it has in a table of `rows` rows."""
    values, errors = [], []
    for place in table.numeric:
        there = table.numbers[~np.isnan(table.numbers[:, place]), place]
        values.append(there.mean() if len(there) else 0.0)
        errors.append(there.std() / np.sqrt(len(there) * rows / table.rows) if len(there) else 0.0)
    return Estimates(values=np.array(values), errors=np.array(errors))


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """A linear regression of one number on the columns that it hangs together with most in the real rows.

    Numbers are scaled by their public range; a missing one is told apart. Of a category the cell that is commonest in
    the real rows is what others are compared with. `kept` are the terms that the real rows can tell apart.
    """

    target: int
    inputs: tuple[int, ...]
    baselines: tuple[int, ...]
    kept: Integers

    def fit(self, table: ComparedTable, *, rows: int) -> Estimates:
        """The coefficients but for the constant, with the errors that they have in a table of `rows` rows."""
        there = np.flatnonzero(~np.isnan(table.numbers[:, self.target]))
        terms = lay_out_terms(table, there, self.inputs, self.baselines)[:, self.kept]
        truth = table.numbers[there, self.target]
        inverse = np.linalg.pinv(terms.T @ terms, hermitian=True)
        values = inverse @ (terms.T @ truth)
        left = truth - terms @ values
        variance = float(left @ left) / max(1, len(there) - len(self.kept)) * table.rows / rows
        errors = np.sqrt(np.maximum(np.diag(inverse), 0.0) * variance)
        slopes = self.kept > 0
        return Estimates(values=values[slopes], errors=errors[slopes])


def lay_out_terms(table: ComparedTable, rows: Integers, inputs: Sequence[int], baselines: Sequence[int]) -> Floats:
    """The terms of a regression, the first of which is the constant. Shapes: (rows, terms)."""
    terms = [np.ones((len(rows), 1))]
    for place, baseline in zip(inputs, baselines, strict=True):
        column = table.columns[place]
        if column.kind == "categorical":
            cells = np.delete(np.arange(column.cells), baseline)
            terms.append((table.cells[rows, place][:, None] == cells).astype(np.float64))
        else:
            scaled = (table.numbers[rows, place] - column.minimum) / (column.maximum - column.minimum or 1.0)
            missing = np.isnan(scaled)
            terms.append(np.column_stack([np.where(missing, 0.0, scaled), missing]))
    return np.concatenate(terms, axis=1)


def choose_regressions(real: ComparedTable, dependence: Floats) -> list[Regression]:
    """One for each of the first `TARGETS` numbers that hangs together with another column.

    Shapes: `dependence` is (columns, columns).
    """
    usable = [column.kind != "categorical" or 2 <= column.cells <= MOST_CELLS for column in real.columns]
    found = []
    for target in real.numeric[:TARGETS]:
        order = np.argsort(-np.abs(dependence[target]), kind="stable")
        fitting = [int(place) for place in order if usable[place] and place != target and dependence[target, place]]
        inputs = tuple(fitting[:INPUTS])
        baselines = tuple(int(np.bincount(real.cells[:, place]).argmax()) for place in inputs)
        there = np.flatnonzero(~np.isnan(real.numbers[:, target]))
        terms = lay_out_terms(real, there, inputs, baselines)
        norms = np.linalg.norm(terms, axis=0)
        diagonal, order = qr(terms / np.where(norms > 0.0, norms, 1.0), mode="r", pivoting=True)
        size = np.abs(np.diag(diagonal))
        kept = np.sort(order[: len(size)][size > 1e-6])
        if (kept > 0).any() and len(there) > len(kept):
            found.append(Regression(target=target, inputs=inputs, baselines=baselines, kept=kept))
    return found


class Analysis:
    """What an analyst estimates from the real rows: means of numbers and coefficients of regressions."""

    def __init__(self, real: ComparedTable, dependence: Floats) -> None:
        self._real = real
        self._means = estimate_means(real, rows=real.rows)
        self._regressions = choose_regressions(real, dependence)
        self._fits = [regression.fit(real, rows=real.rows) for regression in self._regressions]

    def compare(self, table: ComparedTable) -> tuple[dict[str, float | None], dict[str, Any]]:
        """How far the intervals from this table, were it as long, overlap with those: the means, and each of them."""
        names = self._real.names
        means = share_intervals(self._means, estimate_means(table, rows=self._real.rows))
        slopes = [
            share_intervals(fit, regression.fit(table, rows=self._real.rows))
            for regression, fit in zip(self._regressions, self._fits, strict=True)
        ]
        return {
            "means": float(means.mean()) if len(means) else None,
            "coefficients": float(np.concatenate(slopes).mean()) if slopes else None,
        }, {
            "means": [
                {"name": names[place], "overlap": float(overlap)}
                for place, overlap in zip(self._real.numeric, means, strict=True)
            ],
            "regressions": [
                {
                    "target": names[regression.target],
                    "inputs": [names[place] for place in regression.inputs],
                    "coefficients": len(overlaps),
                    "overlap": float(overlaps.mean()),
                }
                for regression, overlaps in zip(self._regressions, slopes, strict=True)
            ],
        }
