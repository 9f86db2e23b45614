"""Guesses from outputs and from counts: brute-force routes, and what the attack can and cannot catch."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.audit.canaries import black_box
from dpwgan.audit.canaries.black_box import RunsBound, audit_runs, find_buckets, locate_one_ways, score_counts
from dpwgan.audit.canaries.watch import Seen
from dpwgan.marginals.one_way.one_ways import Blocks, begin_one_ways, count_one_ways, plan_one_ways
from dpwgan.privacy.release import Noisy
from tests.audit.canaries.broken import Bootstrap
from tests.audit.canaries.runs import make_plan, make_table

FALSE_ALARM = 1e-6


def look_at_all(encoded: Any, plan: Any, *, stddev: float) -> tuple[list[Blocks], list[Seen]]:
    """The looks of a run, with the noise left out of what is seen."""
    measured, blocks, looks = begin_one_ways(plan), [], []
    for look, histograms in enumerate(plan.histograms):
        blocks.append(measured.choose_blocks(look))
        counts, sensitivity = count_one_ways(encoded, plan, look, blocks[-1]), math.sqrt(histograms)
        noisy = Noisy(values=counts, stddev=stddev)
        measured = measured.add(look, blocks[-1], noisy)
        looks.append(Seen(line="", sensitivity=sensitivity, exact=counts / sensitivity, noisy=noisy))
    return blocks, looks


def test_rows_are_located_where_they_are_counted_when_numbers_have_trees_of_histograms():
    encoded = make_table(records=30, canaries=10)
    plan = plan_one_ways(encoded.spans)
    assert max(plan.looks) > 1
    blocks, _ = look_at_all(encoded, plan, stddev=1.0)
    located = locate_one_ways(encoded, plan, blocks)
    for row in range(encoded.records):
        one = encoded.take(np.array([row]))
        counted = np.concatenate([count_one_ways(one, plan, look, own) for look, own in enumerate(blocks)])
        np.testing.assert_array_equal(np.asarray(located[row].todense()).ravel(), counted)


def test_scores_of_counts_are_the_coins_when_there_is_next_to_no_noise():
    encoded = make_table(records=60, canaries=12)
    plan = plan_one_ways(encoded.spans)
    present = np.ones(encoded.records, bool)
    coins = np.arange(12) % 3 == 0
    present[60:] = coins
    _, looks = look_at_all(encoded.take(present), plan, stddev=1e-4)
    scores = score_counts(looks, encoded, plan, canaries=12)
    np.testing.assert_allclose(scores + 0.5, coins, atol=1e-3)


def test_scores_of_an_output_equal_plain_loops():
    encoded = make_table(records=40, canaries=6)
    output = make_table(records=70, canaries=0, seed=9)
    found = black_box._Looks(encoded, base=40, rows=1, rng=np.random.default_rng(0)).score([output])
    cells, seen = find_buckets(encoded), find_buckets(output)
    attributes = range(cells.shape[1])
    looks = [*((a,) for a in attributes), *itertools.combinations(attributes, 2), tuple(attributes)]
    for canary in range(6):
        total = 0.0
        for look in looks:
            wanted = cells[40 + canary, look]
            in_output, in_base, in_canaries = (
                sum(bool((row[list(look)] == wanted).all()) for row in rows) for rows in (seen, cells[:40], cells[40:])
            )
            others = in_canaries - 1
            total += (in_output * (40 + 3) / 70 - in_base - others / 2) / (in_base / 10 + others / 4 + 0.25)
        assert found[canary] == pytest.approx(total)


def guess(name: str, *, canaries: int, runs: int, seed: int, epsilon: float = 1.0, **more: Any) -> RunsBound:
    """Audits runs on a table with canaries; `more` is for the audit, but for a `method` that takes the plan's place."""
    encoded = make_table(canaries=canaries)
    run_plan = make_plan(name, encoded, epsilon=epsilon)
    if "method" in more:
        run_plan = replace(run_plan, method=more.pop("method"))
    rng = np.random.default_rng(seed)
    return audit_runs(encoded, run_plan, canaries=canaries, runs=runs, rng=rng, seed=seed, **more)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("name", ["independent", "ron-gauss, gaussian"])
def test_bounds_stay_below_the_claim_when_the_method_is_formal(name, epsilon):
    bound = guess(name, canaries=100, runs=4, seed=1, epsilon=epsilon, failure_probability=FALSE_ALARM)
    assert bound.from_output.found <= epsilon
    assert bound.from_counts is not None
    assert bound.from_counts.found <= epsilon


@pytest.mark.statistical
def test_bound_passes_the_claim_when_rows_are_handed_out_again():
    """Against 8 it cannot be more than what all right guesses would give: e^8 guesses are not made here."""
    shared: dict[str, Any] = {"canaries": 200, "runs": 4, "failure_probability": 1e-3, "seed": 2}
    bound = guess("independent", method=Bootstrap(), **shared)
    assert bound.from_counts is None
    assert bound.from_output.found > 1.0
    assert bound.from_output.found_if_all_were_right < 8.0
    assert guess("independent", **shared).from_output.found < 1.0


@pytest.mark.statistical
def test_bound_by_counts_passes_a_small_claim_when_the_budget_is_larger_than_claimed():
    """The twin: a run that spends 100 and claims 1. One that spends twice its claim would not be caught by guesses."""
    bound = guess("independent", canaries=300, runs=4, seed=3, epsilon=100.0, failure_probability=1e-3)
    assert bound.from_counts is not None
    assert bound.from_counts.found > 1.0
    assert math.isfinite(bound.from_counts.found_if_all_were_right)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ron-dp-gan", "ron-gauss, label"])
def test_guesses_are_of_the_output_alone_when_counts_are_not_of_the_whole_table(name):
    bound = guess(name, canaries=20, runs=1, seed=5)
    assert bound.from_counts is None
    assert 0 <= bound.from_output.found < 1.0
