"""What an attack achieves on training rows beside hold-out rows, and which of many such findings hold together.

Without a leak training and hold-out rows are alike to the synthetic table: each p-value is the chance, at most, of so
large a difference between two samples of one population.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpwgan.audit.intervals import (
    Interval,
    Scores,
    bound_area,
    bound_mean,
    bound_mean_difference,
    bound_share,
    bound_share_difference,
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was achieved on training rows, what on hold-out rows, and the difference, each with its own interval."""

    success: Interval
    baseline: Interval
    excess: Interval
    p_value: float


def compare_shares(hits: int, trials: int, controls: int, control_trials: int, *, confidence: float) -> Comparison:
    """Compares `hits` of `trials` on training rows with `controls` of `control_trials` on hold-out rows.

    Source of the p-value: Fisher 1935, the exact test, one-sided.
    """
    return Comparison(
        success=bound_share(hits, trials, confidence=confidence),
        baseline=bound_share(controls, control_trials, confidence=confidence),
        excess=bound_share_difference(hits, trials, controls, control_trials, confidence=confidence),
        p_value=float(stats.hypergeom.sf(hits - 1, trials + control_trials, hits + controls, trials)),
    )


def compare_means(scores: Scores, others: Scores, *, confidence: float) -> Comparison:
    """Compares the mean score of training rows with that of hold-out rows. Shapes: (n,) and (m,)."""
    return Comparison(
        success=bound_mean(scores, confidence=confidence),
        baseline=bound_mean(others, confidence=confidence),
        excess=bound_mean_difference(scores, others, confidence=confidence),
        p_value=_rank(scores, others),
    )


def compare_order(scores: Scores, others: Scores, *, confidence: float) -> Comparison:
    """Compares the chance that a training row scores above a hold-out row with one half. Shapes: (n,) and (m,)."""
    area = bound_area(scores, others, confidence=confidence)
    return _compare_with_half(area, p_value=_rank(scores, others))


def compare_with_half(hits: int, trials: int, *, confidence: float) -> Comparison:
    """Compares a share with the half that it is where nothing tells training from hold-out rows."""
    p_value = float(stats.binom.sf(hits - 1, trials, 0.5))
    return _compare_with_half(bound_share(hits, trials, confidence=confidence), p_value=p_value)


def _compare_with_half(success: Interval, *, p_value: float) -> Comparison:
    half = Interval(value=0.5, lower=0.5, upper=0.5)
    return Comparison(success=success, baseline=half, excess=success.shift(-0.5), p_value=p_value)


def _rank(scores: Scores, others: Scores) -> float:
    """How often ranks of one population differ so. Source: Mann and Whitney 1947, with its correction for ties."""
    return float(stats.mannwhitneyu(scores, others, alternative="greater", method="asymptotic").pvalue)


def adjust(p_values: Sequence[float]) -> list[float]:
    """P-values for a family of findings: to call those at or below a rate is wrong about any with that rate at most.

    Holds however the findings depend on one another.
    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = np.argsort(p_values, kind="stable")
    stepped = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return [float(value) for value in adjusted]
