"""Guesses from outputs and from counts: brute-force routes, and what the attack can and cannot catch."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.audit.canaries import black_box
from dpwgan.audit.canaries.black_box import audit_runs, find_buckets, locate_one_ways, score_counts
from dpwgan.audit.canaries.watch import Seen
from dpwgan.errors import UsageError
from dpwgan.marginals.one_ways import count_one_ways, plan_one_ways
from tests.audit.canaries.broken import Bootstrap
from tests.audit.canaries.runs import make_plan, make_table

FALSE_ALARM = 1e-6


def count_all(encoded: Any, plan: Any) -> Any:
    return np.concatenate([one for tables in count_one_ways(encoded, plan) for one in tables])


def test_rows_are_located_where_they_are_counted_when_numbers_have_trees_of_histograms():
    encoded = make_table(records=30, canaries=10)
    plan = plan_one_ways(encoded.spans)
    assert max(len(blocks) for blocks in plan.blocks) > 1
    located = locate_one_ways(encoded, plan)
    for row in range(encoded.records):
        counted = count_all(encoded.take(np.array([row])), plan)
        np.testing.assert_array_equal(np.asarray(located[row].todense()).ravel(), counted)


def test_scores_of_counts_are_the_coins_when_there_is_next_to_no_noise():
    encoded = make_table(records=60, canaries=12)
    plan = plan_one_ways(encoded.spans)
    present = np.ones(encoded.records, bool)
    coins = np.arange(12) % 3 == 0
    present[60:] = coins
    counts = count_all(encoded.take(present), plan) / plan.sensitivity
    release = Seen(line="", sensitivity=plan.sensitivity, exact=counts, released=counts)
    scores = score_counts(release, encoded, plan, stddev=1e-4 * plan.sensitivity, canaries=12)
    np.testing.assert_allclose(scores + 0.5, coins, atol=1e-3)


def test_scores_of_an_output_equal_plain_loops():
    encoded, canaries = make_table(records=40, canaries=6), 6
    output = make_table(records=70, canaries=0, seed=9)
    found = black_box._Looks(encoded, base=40, rng=np.random.default_rng(0)).score([output])
    cells, seen = find_buckets(encoded), find_buckets(output)
    attributes = range(cells.shape[1])
    looks = [*((a,) for a in attributes), *itertools.combinations(attributes, 2), tuple(attributes)]
    for canary in range(canaries):
        total = 0.0
        for look in looks:
            wanted = cells[40 + canary, look]
            in_output = sum(bool((row[list(look)] == wanted).all()) for row in seen)
            in_base = sum(bool((row[list(look)] == wanted).all()) for row in cells[:40])
            others = sum(bool((row[list(look)] == wanted).all()) for row in cells[40:]) - 1
            total += (in_output * (40 + 3) / 70 - in_base - others / 2) / (in_base / 10 + others / 4 + 0.25)
        assert found[canary] == pytest.approx(total)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["independent", "ron-gauss, gaussian"])
def test_bounds_stay_below_the_claim_when_the_method_is_formal(name):
    encoded = make_table(canaries=100)
    for epsilon in (1.0, 8.0):
        bound = audit_runs(
            encoded,
            make_plan(name, encoded, epsilon=epsilon),
            canaries=100,
            runs=4,
            rng=np.random.default_rng(1),
            failure_probability=FALSE_ALARM,
            seed=1,
        )
        assert bound.from_output.found <= bound.claimed
        assert bound.from_counts is not None
        assert bound.from_counts.found <= bound.claimed


@pytest.mark.statistical
def test_bound_passes_the_claim_when_rows_are_handed_out_again():
    """Against 8 it cannot be more than what all right guesses would give: e^8 guesses are not made here."""
    encoded = make_table(canaries=200)
    shared: dict[str, Any] = {"canaries": 200, "runs": 4, "failure_probability": 1e-3, "seed": 2}
    bound = audit_runs(
        encoded,
        replace(make_plan("independent", encoded), method=Bootstrap()),
        rng=np.random.default_rng(2),
        **shared,
    )
    assert bound.from_counts is None
    assert bound.from_output.found > 1.0
    assert bound.from_output.most < 8.0
    formal = audit_runs(encoded, make_plan("independent", encoded), rng=np.random.default_rng(2), **shared)
    assert formal.from_output.found < 1.0


@pytest.mark.statistical
def test_bound_by_counts_passes_a_small_claim_when_the_budget_is_larger_than_claimed():
    """The twin: a run that spends 100 and claims 1. One that spends twice its claim would not be caught by guesses."""
    encoded = make_table(canaries=300)
    bound = audit_runs(
        encoded,
        make_plan("independent", encoded, epsilon=100.0),
        canaries=300,
        runs=4,
        rng=np.random.default_rng(3),
        failure_probability=1e-3,
        seed=3,
    )
    assert bound.from_counts is not None
    assert bound.from_counts.found > 1.0
    assert math.isfinite(bound.from_counts.most)


@pytest.mark.parametrize("name", ["ron-dp-gan", "ron-gauss, label"])
def test_guesses_are_of_the_output_alone_when_counts_are_not_of_the_whole_table(name):
    encoded = make_table(canaries=20)
    bound = audit_runs(encoded, make_plan(name, encoded), canaries=20, runs=1, rng=np.random.default_rng(5), seed=5)
    assert bound.from_counts is None
    assert 0 <= bound.from_output.found < 1.0


@pytest.mark.parametrize(("canaries", "runs"), [(0, 1), (20, 0), (420, 1)])
def test_audit_refuses_runs_that_cannot_be_made(canaries, runs):
    encoded = make_table(canaries=20)
    with pytest.raises(UsageError):
        audit_runs(
            encoded, make_plan("independent", encoded), canaries=canaries, runs=runs, rng=np.random.default_rng(0)
        )
