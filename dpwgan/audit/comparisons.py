"""What an attack achieves on training rows beside hold-out rows, with intervals, and which findings hold together.

Without a leak training and hold-out rows are alike to the synthetic table: each p-value is the chance, at most, of so
large a difference between two samples of one population.
Units: `confidence` is the probability of both sides together, so an interval whose lower end must lie above the truth
  errs with probability (1 - confidence) / 2.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import stats

from dpwgan.array_types import Floats


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A measured value between the ends of its confidence interval."""

    value: float
    lower: float
    upper: float


def bound_share(count: int, trials: int, *, confidence: float) -> Interval:
    """The share of successes in independent trials, with its exact interval. Source: Clopper and Pearson 1934."""
    lower, upper = stats.binomtest(count, trials).proportion_ci(confidence, method="exact")
    return Interval(value=count / trials, lower=float(lower), upper=float(upper))


def bound_share_difference(
    count: int, trials: int, other_count: int, other_trials: int, *, confidence: float
) -> Interval:
    """How much larger a share of successes is than that of an independent sample.

    Holds its level where shares are near 0 or 1, where a normal approximation does not.
    Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10, of the
      score intervals of Wilson 1927.
    """
    low, high = stats.binomtest(count, trials).proportion_ci(confidence, method="wilson")
    other_low, other_high = stats.binomtest(other_count, other_trials).proportion_ci(confidence, method="wilson")
    share, other = count / trials, other_count / other_trials
    difference = share - other
    return Interval(
        value=difference,
        lower=difference - math.hypot(share - low, other_high - other),
        upper=difference + math.hypot(high - share, other - other_low),
    )


def bound_mean(scores: Floats, *, confidence: float) -> Interval:
    """The mean of independent scores, with Student's interval. Shapes: (n,), n at least 2."""
    lower, upper = stats.ttest_1samp(scores, 0.0).confidence_interval(confidence)
    return Interval(value=float(scores.mean()), lower=float(lower), upper=float(upper))


def bound_mean_difference(scores: Floats, others: Floats, *, confidence: float) -> Interval:
    """How much larger the mean of independent scores is than that of another, independent sample.

    Shapes: (n,) and (m,), both at least 2.
    Source: Welch 1947.
    """
    lower, upper = stats.ttest_ind(scores, others, equal_var=False).confidence_interval(confidence)
    return Interval(value=float(scores.mean() - others.mean()), lower=float(lower), upper=float(upper))


def bound_area(members: Floats, others: Floats, *, confidence: float) -> Interval:
    """The chance that a member scores above a non-member (the area under the ROC curve), ties counting half.

    Where every pair is told right or wrong the variance is 0 and says nothing; the interval is then that of as many
    trials as the smaller sample has rows.
    Shapes: (n,) and (m,), both at least 2.
    Source: DeLong, DeLong, Clarke-Pearson 1988, equations 3 to 5.
    """
    above = stats.rankdata(np.concatenate([members, others]))
    own, theirs = above[: len(members)], above[len(members) :]
    of_members = (own - stats.rankdata(members)) / len(others)
    of_others = 1.0 - (theirs - stats.rankdata(others)) / len(members)
    area = float(of_members.mean())
    variance = float(of_members.var(ddof=1)) / len(members) + float(of_others.var(ddof=1)) / len(others)
    if variance <= 0.0 and area in (0.0, 1.0):
        trials = min(len(members), len(others))
        return bound_share(round(area * trials), trials, confidence=confidence)
    half = math.sqrt(variance) * float(stats.norm.isf((1.0 - confidence) / 2.0))
    return Interval(value=area, lower=max(0.0, area - half), upper=min(1.0, area + half))


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


def compare_means(scores: Floats, others: Floats, *, confidence: float) -> Comparison:
    """Compares the mean score of training rows with that of hold-out rows. Shapes: (n,) and (m,)."""
    return Comparison(
        success=bound_mean(scores, confidence=confidence),
        baseline=bound_mean(others, confidence=confidence),
        excess=bound_mean_difference(scores, others, confidence=confidence),
        p_value=_rank(scores, others),
    )


def compare_order(scores: Floats, others: Floats, *, confidence: float) -> Comparison:
    """Compares the chance that a training row scores above a hold-out row with one half. Shapes: (n,) and (m,)."""
    area = bound_area(scores, others, confidence=confidence)
    return _compare_with_half(area, p_value=_rank(scores, others))


def compare_with_half(hits: int, trials: int, *, confidence: float) -> Comparison:
    """Compares a share with the half that it is where nothing tells training from hold-out rows."""
    p_value = float(stats.binom.sf(hits - 1, trials, 0.5))
    return _compare_with_half(bound_share(hits, trials, confidence=confidence), p_value=p_value)


def _compare_with_half(success: Interval, *, p_value: float) -> Comparison:
    half = Interval(value=0.5, lower=0.5, upper=0.5)
    excess = Interval(**{end: value - 0.5 for end, value in asdict(success).items()})
    return Comparison(success=success, baseline=half, excess=excess, p_value=p_value)


def _rank(scores: Floats, others: Floats) -> float:
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
