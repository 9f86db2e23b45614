"""Poisson batches: each record by itself, with the planned probability."""

import numpy as np
import pytest
from scipy import stats

from dpwgan.privacy.poisson import sample_poisson_rows

FALSE_ALARM = 1e-6


def draw_sizes(*, records: int, probability: float, trials: int, fixed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """How often each record was drawn, and how large the batches were."""
    rng = np.random.default_rng(1)
    counts, sizes = np.zeros(records), []
    for _ in range(trials):
        if fixed:
            rows = rng.choice(records, round(records * probability), replace=False)
        else:
            rows = sample_poisson_rows(records, sampling_probability=probability, rng=rng)
        counts[rows] += 1
        sizes.append(len(rows))
    return counts, np.array(sizes)


@pytest.mark.statistical
@pytest.mark.parametrize("probability", [0.003, 0.05, 0.4, 0.97])
def test_every_record_is_drawn_equally_often_when_batches_are_many(probability):
    records, trials = 50, 4_000
    counts, _ = draw_sizes(records=records, probability=probability, trials=trials)
    variance = trials * probability * (1 - probability)
    statistic = float(np.sum((counts - trials * probability) ** 2) / variance)
    assert stats.chi2.sf(statistic, records) > FALSE_ALARM
    assert stats.chi2.cdf(statistic, records) > FALSE_ALARM


@pytest.mark.statistical
def test_batch_sizes_are_binomial_when_drawn_by_gaps_and_a_fixed_size_is_found_out():
    records, probability, trials = 60, 0.1, 3_000
    expected = stats.binom.pmf(np.arange(16), records, probability) * trials

    def p_value(fixed: bool) -> float:
        _, sizes = draw_sizes(records=records, probability=probability, trials=trials, fixed=fixed)
        observed = np.bincount(np.minimum(sizes, 15), minlength=16).astype(float)
        wanted = expected.copy()
        wanted[15] = trials - wanted[:15].sum()
        keep = wanted > 5
        return float(stats.chi2.sf(np.sum((observed - wanted)[keep] ** 2 / wanted[keep]), keep.sum() - 1))

    assert p_value(fixed=False) > FALSE_ALARM
    assert p_value(fixed=True) < FALSE_ALARM


@pytest.mark.statistical
def test_neighbouring_records_are_drawn_independently_when_batches_are_many():
    rng = np.random.default_rng(2)
    together = 0
    trials, probability = 20_000, 0.3
    for _ in range(trials):
        rows = sample_poisson_rows(5, sampling_probability=probability, rng=rng)
        together += 1 in rows and 2 in rows
    assert stats.binomtest(together, trials, probability**2).pvalue > FALSE_ALARM


def test_every_record_and_every_size_come_as_often_as_stated_when_batches_are_many_under_one_seed():
    counts, sizes = draw_sizes(records=6, probability=0.3, trials=20_000)
    assert counts / 20_000 == pytest.approx(np.full(6, 0.3), abs=0.01)
    assert sizes.var() == pytest.approx(6 * 0.3 * 0.7, rel=0.05)


def test_batch_is_the_whole_table_when_the_probability_is_one_and_may_be_empty_when_it_is_small():
    rng = np.random.default_rng(0)
    assert sample_poisson_rows(7, sampling_probability=1.0, rng=rng).tolist() == list(range(7))
    assert min(len(sample_poisson_rows(10, sampling_probability=1e-4, rng=rng)) for _ in range(200)) == 0
    # A gap of a tiny probability passes what an integer holds.
    assert len(sample_poisson_rows(5, sampling_probability=1e-15, rng=rng)) == 0


def test_rows_ascend_without_repeats_when_drawn_from_a_large_table():
    rows = sample_poisson_rows(1_000_000, sampling_probability=0.01, rng=np.random.default_rng(0))
    assert np.all(np.diff(rows) > 0)
    assert rows[0] >= 0
    assert rows[-1] < 1_000_000
    assert 9_000 < len(rows) < 11_000
    assert rows[-1] > 990_000  # the tail of the table takes part
