"""What all rows of one unit can move, against the exact divergences of the worst units there are."""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.discrete_gaussian import stand_in
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.events import (
    DiscreteGaussian,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Unprotected,
    Wishart,
    discrete_gaussian,
    read_event,
    round_up_stddev,
)
from dpwgan.privacy.mechanisms.discovery import calibrate_selection, select_categories
from dpwgan.privacy.mechanisms.laplace import find_scale
from dpwgan.privacy.unit import ONE_ROW, Unit
from tests.ledgers import make_release, open_ledger
from tests.privacy.brute_force import Line, find_epsilon, round_at_random
from tests.privacy.charges import ACCOUNTANTS, MOMENTS, PLD, RELATIONS, REPLACE_ONE, ZERO_OUT, ask, take_steps

DELTA = 1e-5
EVENTS = {
    "gaussian": (Gaussian(noise_multiplier=7.0), 0.3),
    "counts": (discrete_gaussian(noise_multiplier=9.0, cells=4), 2.0),
    "selection": (ExponentialSelection(epsilon=0.01), 1.0),
    "laplace": (Laplace(epsilon=0.02), 4.0),
    "wishart": (Wishart(epsilon=0.03), 2.0**30),
    "sample": (PoissonGaussian(sampling_probability=0.1, noise_multiplier=5.0), 0.01),
}


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("rows", [1, 2, 5, 20])
def test_noise_is_that_of_a_row_and_costs_what_a_unit_does_when_scaled(kind, rows):
    event, sensitivity = EVENTS[kind]
    planned = make_release("it", event, sensitivity=sensitivity)
    held = Unit(rows=rows).scale_release(planned)
    if rows == 1:
        assert held == planned
    if kind in ("gaussian", "counts", "sample"):
        assert held.stddev == pytest.approx(planned.stddev, rel=1e-15)
    elif kind == "laplace":
        assert find_scale(held.sensitivity, held.event.epsilon) == pytest.approx(find_scale(4.0, 0.02))
    else:
        assert held.event.epsilon / held.sensitivity == pytest.approx(event.epsilon / sensitivity)
    if kind in ("selection", "laplace", "wishart"):
        assert held.event.epsilon == pytest.approx(rows * event.epsilon)
    elif kind == "sample":
        assert (held.event.rows, held.sensitivity) == (rows, sensitivity)
    else:
        assert held.sensitivity == pytest.approx(rows * sensitivity)
    assert read_event(held.event.describe()) == held.event
    assert Unit(rows=rows, sampled=True).scale(EVENTS["sample"][0]) == EVENTS["sample"][0]


def test_nothing_is_said_of_a_unit_where_nothing_is_proved():
    event = Unprotected(reason="it is none")
    assert Unit(rows=5).scale(event) is event
    for rows in (0, -1, 2.5, True):
        with pytest.raises(PrivacyError):
            Unit(rows=rows)
    with pytest.raises(PrivacyError):
        read_event({"event": "gaussian", "noise_multiplier": 1.0, "replace_one_factor": 2.0, "rows": 3})


@pytest.mark.parametrize("kind", EVENTS)
def test_ledger_accounts_for_a_unit_when_rows_are_planned(kind):
    event, sensitivity = EVENTS[kind]
    planned = [make_release("it", event, sensitivity=sensitivity)]
    units = (ONE_ROW, Unit(rows=5), Unit(rows=20))
    spent = [open_ledger(planned, unit=unit).epsilon_reserved() for unit in units]
    assert 4 * spent[0] < spent[1] < spent[2] / 3
    budget = Budget(epsilon=100.0, delta=DELTA)
    guarantee = open_ledger(planned, budget=budget, unit=Unit(rows=5, named="person")).guarantee()
    assert guarantee.unit.rows == 5
    assert any("'person', at most 5 of which are kept" in words for words in guarantee.assumptions)
    with pytest.raises(PrivacyError, match="budget"):
        open_ledger(planned, budget=Budget(epsilon=2 * spent[0], delta=DELTA), unit=Unit(rows=5))


def test_steps_are_of_units_where_units_were_paid_for():
    event, sensitivity = EVENTS["sample"]
    for sampled in (False, True):
        steps = make_release("it", event, 3, sensitivity=sensitivity)
        ledger = open_ledger([steps], unit=Unit(rows=5, sampled=sampled))
        assert ledger.find("it").event.rows == (1 if sampled else 5)
        assert ledger.open("it", of_units=sampled).stddev == pytest.approx(0.05)
        with pytest.raises(PrivacyError, match=f"samples of {'units' if sampled else 'rows'}"):
            ledger.open("it", of_units=not sampled)


# ------------------------------------------------------------------------------------------------ samples of rows


@lru_cache
def _epsilon_of_rows(rows, *, probability, noise):
    """The exact epsilon of a step in which so many rows, all with the same gradient, are drawn each by itself."""
    line = Line(stddev=noise, reach=rows + 12 * noise, points=20_001)
    drawn = stats.binom(rows, probability).pmf(np.arange(rows + 1))
    there, gone = line.log_mixture(*zip(drawn, range(rows + 1), strict=True)), line.log_mixture((1.0, 0))
    return max(find_epsilon(p - q, np.exp(p) * line.step, delta=DELTA) for p, q in ((there, gone), (gone, there)))


@ACCOUNTANTS
@pytest.mark.parametrize("rows", [2, 5, 20])
@pytest.mark.parametrize(("probability", "noise"), [(0.01, 3.0), (0.1, 4.0), (0.5, 20.0), (1.0, 30.0)])
def test_epsilon_is_never_below_the_exact_one_when_a_units_rows_are_sampled_apart(accountant, rows, probability, noise):
    event = PoissonGaussian(sampling_probability=probability, noise_multiplier=noise, rows=rows)
    exact = _epsilon_of_rows(rows, probability=probability, noise=noise)
    assert ask(accountant, [(event, 1)], delta=DELTA) >= exact * (1 - 1e-6)
    assert ask(accountant, [(event, 1)], delta=DELTA, relation=REPLACE_ONE) >= exact * (1 - 1e-6)
    part, parts = event.split()
    assert ask(accountant, [(event, 3)], delta=DELTA) == ask(accountant, [(part, 3 * parts)], delta=DELTA)


@pytest.mark.parametrize("rows", [2, 5, 20])
def test_the_check_of_sampled_rows_fails_when_noise_is_not_split_or_rows_are_counted_by_their_root(rows):
    exact = _epsilon_of_rows(rows, probability=0.1, noise=4.0)
    for steps in (1, math.isqrt(rows)):
        assert ask(PLD, [take_steps(0.1, 4.0, steps)], delta=DELTA) < exact


# ------------------------------------------------------------------------------------------------ counts of a unit


@lru_cache
def _epsilon_of_counts(*moves, stddev):
    """The exact epsilon of counts that move by these whole numbers."""
    half = math.ceil(12 * stddev) + 2
    places = np.arange(-half, half + 1)
    law = np.exp(-(places**2) / (2 * stddev**2))
    law /= law.sum()
    losses, weights = np.zeros(1), np.ones(1)
    for move in moves:
        own = (move**2 + 2 * move * places) / (2 * stddev**2)
        losses, weights = np.add.outer(losses, own).ravel(), np.outer(weights, law).ravel()
    return find_epsilon(losses, weights, delta=DELTA)


@ACCOUNTANTS
@pytest.mark.parametrize("stddev", [0.7, 2.0, 24.0])
@pytest.mark.parametrize("rows", [2, 5, 20])
def test_epsilon_is_never_below_the_exact_one_when_a_unit_is_counted(accountant, rows, stddev):
    event = DiscreteGaussian(stddev=round_up_stddev(stddev), cells=2, rows=rows)
    for moves in ([rows, rows // 2], [1, 1], [rows, rows]):
        exact = _epsilon_of_counts(*moves, stddev=event.stddev)
        assert ask(accountant, [(event, 1)], delta=DELTA) >= exact * (1 - 1e-6)
    replaced = _epsilon_of_counts(rows, -rows, stddev=event.stddev)
    one = DiscreteGaussian(stddev=event.stddev, cells=1, rows=rows)
    assert ask(accountant, [(one, 1)], delta=DELTA, relation=REPLACE_ONE) >= replaced * (1 - 1e-6)
    if stddev == 24.0 and accountant is not MOMENTS:
        assert ask(accountant, [(event, 1)], delta=DELTA) <= 1.003 * exact
    # As if the rows of a unit were never in the same cells: not enough.
    by_root = DiscreteGaussian(stddev=event.stddev, cells=2 * rows)
    if stddev == 24.0:
        assert ask(accountant, [(by_root, 1)], delta=DELTA) < 0.9 * exact


@ACCOUNTANTS
@RELATIONS
def test_several_releases_of_a_unit_cost_what_one_of_all_their_counts_does(accountant, relation):
    apart, together = (DiscreteGaussian(stddev=24.0, cells=cells, rows=5) for cells in (2, 12))
    found = ask(accountant, [(apart, 6)], delta=DELTA, relation=relation)
    assert found == pytest.approx(ask(accountant, [(together, 1)], delta=DELTA, relation=relation), rel=1e-9)
    assert ask(accountant, [(apart, 5)], delta=DELTA, relation=relation) < 0.95 * found


def test_each_count_stays_within_the_factor_of_its_stand_in_when_rounded_at_random():
    event = DiscreteGaussian(stddev=0.625, cells=2, rows=3)
    release, cost = stand_in(event, 1)
    rounding = min(2.0, event.stddev**2 / 2)
    variance = event.stddev**2 - rounding
    assert release.noise_multiplier == pytest.approx(math.sqrt(variance) / (3 * math.sqrt(2)))
    places = np.arange(-12, 13)
    rounded = round_at_random(places, variance=variance, rounding=rounding, reach=30)
    law = np.exp(-(places**2) / (2 * event.stddev**2))
    law /= np.exp(-(np.arange(-40, 41) ** 2) / (2 * event.stddev**2)).sum()
    assert cost > 0.1
    # In each release 2 x 3 x 2 counts have two laws when a unit is replaced, and each adds what rounding may at most.
    assert 12 * np.max(np.abs(np.log(law[6:-6] / rounded[6:-6]))) <= cost + 1e-9
    low, high = (np.exp(-((places + shift) ** 2) / (2 * rounding)).sum() for shift in (0.5, 0.0))
    assert cost == pytest.approx(12 * math.log(high / low))


# ------------------------------------------------------------------------------------------------ lists of cells


@pytest.mark.parametrize("rows", [1, 2, 5, 20])
@RELATIONS
def test_cells_of_one_unit_alone_are_hardly_ever_released(rows, relation):
    event = Unit(rows=rows).scale(StableSelection(epsilon=1.0, delta=1e-6))

    def ask_for(event):
        decay, threshold = calibrate_selection(event.of_row, neighboring_relation=relation)
        a = math.exp(-decay)
        # A cell that only this unit has, and so many cells that only it has, each in one row.
        same = a ** (threshold - rows) / (1 + a) if threshold > rows else 1.0
        return max(same, -math.expm1(rows * math.log1p(-(a ** (threshold - 1)) / (1 + a))))

    assert ask_for(event) <= 1e-6
    if rows > 1 and relation is ZERO_OUT:
        assert ask_for(StableSelection(epsilon=1.0, delta=1e-6)) > 1e-6
    # What is drawn goes by what holds for a row.
    counts, rng = {"x": rows}, np.random.default_rng(1)
    assert select_categories(counts, event, rng=rng, neighboring_relation=relation) == ()
    of_row = event.of_row
    grown = of_row.delta * math.exp((rows - 1) * of_row.epsilon) * rows
    assert (rows * of_row.epsilon, grown) == pytest.approx((1.0, 1e-6))
