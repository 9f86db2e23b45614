"""The exponential mechanism in every accountant, against laws of real mechanisms added up outcome by outcome."""

import math
from functools import lru_cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import integrate, special

from dpwgan.privacy.accountants.accountant import merge_gaussians
from dpwgan.privacy.accountants.amortized import gaussian_delta
from dpwgan.privacy.accountants.moments import ORDERS, bounded_range_divergences
from dpwgan.privacy.accountants.pld import _Problem, _Selection, epsilon_on_grid
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.events import ExponentialSelection, Gaussian
from tests.ledgers import make_release, open_ledger
from tests.privacy.charges import ACCOUNTANTS, ALL, RELATIONS, REPLACE_ONE, ZERO_OUT, ask, take_steps
from tests.privacy.reference_events import to_dp_event

MOMENTS, AMORTIZED, PLD = ALL


def _adaptive_laws(rng, *, epsilon, rounds, candidates, move):
    """Both tables' laws of all outcomes of selections whose scores depend on what was selected before.

    `move` is how far a record moves a score, of sensitivity 1. The mechanism is the textbook's.
    """
    laws = [(1.0, 1.0)]
    for _ in range(rounds):
        longer = []
        for p, q in laws:
            scores = rng.normal(scale=rng.choice([0.3, 3.0]) / epsilon, size=candidates)
            moved = scores + move * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=candidates)
            pair = [special.softmax(epsilon * each / 2) for each in (scores, moved)]
            longer.extend((p * a, q * b) for a, b in zip(*pair, strict=True))
        laws = longer
    return np.array(laws).T


def _hockey_stick(p, q, epsilon):
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


@lru_cache
def _draw_families(epsilon, move):
    """The laws of 40 families each of 1, 1, 3 and 8 selections: the same whatever is claimed of them."""
    rng = np.random.default_rng(11)
    sizes = {"epsilon": epsilon, "move": move}
    return [
        (rounds, [_adaptive_laws(rng, rounds=rounds, candidates=many, **sizes) for _ in range(40)])
        for rounds, many in ((1, 2), (1, 5), (3, 4), (8, 2))
    ]


def _worst_excess(accountant, *, claimed, epsilon, relation, delta):
    """By how much, at most, delta is passed at the accountant's epsilon by a random family of selections."""
    worst = -math.inf
    for rounds, families in _draw_families(epsilon, 2.0 if relation is REPLACE_ONE else 1.0):
        bound = ask(accountant, [(ExponentialSelection(epsilon=claimed), rounds)], delta=delta, relation=relation)
        for p, q in families:
            worst = max(worst, _hockey_stick(p, q, bound) - delta, _hockey_stick(q, p, bound) - delta)
    return worst


@ACCOUNTANTS
@RELATIONS
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
@pytest.mark.parametrize("delta", [1e-6, 0.02])
def test_selections_keep_the_claimed_delta_when_every_outcome_is_added_up(accountant, relation, epsilon, delta):
    # Sums of probabilities near 1 are off by some 1e-15.
    assert _worst_excess(accountant, claimed=epsilon, epsilon=epsilon, relation=relation, delta=delta) <= 1e-13


@pytest.mark.slow
@ACCOUNTANTS
@RELATIONS
def test_the_check_of_selections_fails_when_epsilon_is_half_of_what_it_is(accountant, relation):
    # What the factor 2 of e^(epsilon u / (2 D)) is there for.
    assert _worst_excess(accountant, claimed=0.75, epsilon=1.5, relation=relation, delta=0.02) > 1e-3


def test_the_check_of_selections_fails_when_a_replaced_record_is_taken_for_a_zeroed_one():
    rounds, families = _draw_families(1.0, 2.0)[-1]
    bound = ask(MOMENTS, [(ExponentialSelection(epsilon=1.0), rounds)], delta=1e-3)
    assert max(_hockey_stick(p, q, bound) for p, q in families) > 1e-3


def _two_ends(length, t):
    """The P-mass at the loss t of the law of losses t and t - length."""
    return np.expm1(length - t) * np.exp(t) / np.expm1(length)


@pytest.mark.parametrize("length", [1e-3, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 8.5, 64.0, 16384.0])
def test_divergences_are_the_largest_over_all_positions_when_searched(length, order):
    t = np.linspace(0, length, 4001)[1:-1]
    p = _two_ends(length, t)
    exponents = np.stack([np.log(p) + (order - 1) * t, np.log1p(-p) + (order - 1) * (t - length)])
    searched = np.max(special.logsumexp(exponents, axis=0)) / (order - 1)
    (computed,) = bounded_range_divergences(length, orders=[order])
    # The largest order loses its digits in the search: the logarithm is divided by what multiplies it.
    assert searched * (1 - 1e-7) <= computed <= min(length, order * length**2 / 8) * (1 + 1e-15)
    if length >= 0.3:
        assert computed == pytest.approx(searched, rel=1e-2 if order > 1e4 else 1e-5)


def test_divergences_stay_below_the_length_when_it_is_enormous():
    np.testing.assert_array_equal(bounded_range_divergences(1e6, orders=ORDERS), 1e6)


def _curve(length, x):
    """The largest delta of one selection at each x: the formula that docs and module derive."""
    x = np.clip(x, None, length)
    inside = np.expm1((x - length) / 2) ** 2 / -math.expm1(-length)
    return np.where(x < -length, -np.expm1(x), inside)


@pytest.mark.parametrize("length", [0.05, 1.0, 6.0])
def test_curve_of_the_dominating_pair_is_the_largest_over_all_positions_when_searched(length):
    t = np.linspace(0, length, 20_001)[1:-1]
    p = _two_ends(length, t)
    for x in np.linspace(-0.99, 0.99, 9) * length:
        searched = np.max(p * np.maximum(-np.expm1(x - t), 0) + (1 - p) * np.maximum(-np.expm1(x - t + length), 0))
        assert float(_curve(length, x)) == pytest.approx(searched, rel=1e-6)


@pytest.mark.parametrize("length", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2])
@pytest.mark.parametrize("removing", [True, False])
def test_one_selection_on_a_grid_is_just_above_the_exact_epsilon_when_discretised(length, delta, removing):
    problem = _Problem(
        acts=(_Selection(length=length, count=1),), delta=delta, neighboring_relation=ZERO_OUT, tail=1e-6 * delta
    )
    # The curve, solved for x; below 0 nothing is asked.
    exact = max(0.0, length + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-length))))
    for cell in (length / 3, length / 50.5, length / 200):
        computed = epsilon_on_grid(problem, removing=removing, cell=cell)
        assert computed is not None
        assert exact * (1 - 1e-12) <= computed
        # At the end of the losses' range, where a tiny delta lies, a grid has little to tell them apart by.
        assert cell > length / 100 or computed <= exact * (1.002 if delta > 1e-3 else 1.03)


@pytest.mark.parametrize(("length", "noise"), [(0.5, 3.0), (2.0, 1.0), (0.1, 40.0)])
def test_pld_is_the_exact_bound_when_a_selection_follows_a_gaussian_it_may_depend_on(length, noise):
    def delta_at(x):
        # The Gaussian's loss has law N(m, 2 m), m = 1/(2 s^2); what follows is as bad as it can be at what is left.
        mean, stddev = 1 / (2 * noise**2), 1 / noise
        kinks = sorted((x - length - mean, x + length - mean))
        value, _ = integrate.quad(
            lambda z: float(_curve(length, x - mean - z)) * math.exp(-((z / stddev) ** 2) / 2),
            -12 * stddev,
            14 * stddev,
            points=[min(max(kink, -11 * stddev), 13 * stddev) for kink in kinks],
            epsabs=1e-14,
            epsrel=1e-10,
            limit=400,
        )
        return value / (stddev * math.sqrt(2 * math.pi))

    charges = [(Gaussian(noise_multiplier=noise), 1), (ExponentialSelection(epsilon=length), 1)]
    delta = delta_at(0.8 * length + 2 / noise)
    assert 1e-12 < delta < 0.1
    for accountant in ALL:
        epsilon = ask(accountant, charges, delta=delta)
        assert delta_at(epsilon) <= delta * (1 + 1e-6)
    assert epsilon == pytest.approx(0.8 * length + 2 / noise, rel=4e-3)


@pytest.mark.parametrize(("length", "count", "noise"), [(0.1, 40, 8.0), (0.5, 10, 3.0), (1.5, 4, 20.0)])
def test_no_accountant_is_below_dp_accounting_when_the_losses_are_known_to_take_two_values(length, count, noise):
    # dp_accounting has no exponential mechanism; it composes laws of two losses t and t - length, each of which a
    # selection may have, on a grid that the losses lie on.
    interval = length / 256
    counts = privacy_loss_distribution.from_gaussian_mechanism(
        noise, pessimistic_estimate=False, value_discretization_interval=interval
    )
    composed = []
    for t in np.array([0.5, 0.625, 0.75, 0.875]) * length:
        p = _two_ends(length, t)
        one = {0: math.log(p), 1: math.log1p(-p)}
        other = {0: math.log(p) - t, 1: math.log1p(-p) - t + length}
        selection = privacy_loss_distribution.from_two_probability_mass_functions(
            other, one, pessimistic_estimate=False, value_discretization_interval=interval
        )
        composed.append(selection.self_compose(count).compose(counts))
    charges = [(ExponentialSelection(epsilon=length), count), (Gaussian(noise_multiplier=noise), 1)]
    for delta in (1e-3, 1e-7):
        possible = max(law.get_epsilon_for_delta(delta) for law in composed)
        for accountant in ALL:
            epsilon = ask(accountant, charges, delta=delta)
            assert possible <= epsilon <= 2 * possible
        assert ask(PLD, charges, delta=delta) <= 1.2 * possible


MIXED = [
    (Gaussian(noise_multiplier=30.0, replace_one_factor=math.sqrt(2)), 1),
    (ExponentialSelection(epsilon=0.02), 20),
    (Gaussian(noise_multiplier=60.0, replace_one_factor=math.sqrt(2)), 20),
    take_steps(0.02, 4.0, 200),
]


@pytest.mark.parametrize("charges", [MIXED, MIXED[:3]], ids=["with-critic-steps", "without"])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_ledger_total_is_that_of_dp_accounting_when_mixed_events_are_composed_there(charges, delta):
    ledger = open_ledger([], budget=Budget(epsilon=10.0, delta=delta))
    reference = dp_accounting.rdp.RdpAccountant(orders=list(ORDERS))
    for number, (event, count) in enumerate(charges):
        ledger.reserve(make_release(f"part {number}", event, count))
        reference.compose(to_dp_event(event), count)
    expected = reference.get_epsilon(delta)
    # Selections this small have nearly the Renyi divergences of their zCDP, which is what the reference composes.
    assert 0.99 * expected <= ledger.epsilon_reserved() <= expected * (1 + 1e-9)
    assert any("exponential mechanism" in text for text in ledger.guarantee().assumptions)


@RELATIONS
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_moments_epsilon_is_the_zcdp_one_when_recomputed_in_closed_form(relation, delta):
    replacing = relation is REPLACE_ONE
    gaussian_factor, selection_factor = (math.sqrt(2), 2.0) if replacing else (1.0, 1.0)
    rho = sum(
        count * (gaussian_factor / event.noise_multiplier) ** 2 / 2
        if hasattr(event, "noise_multiplier")
        else count * (selection_factor * event.epsilon) ** 2 / 8
        for event, count in MIXED[:3]
    )
    orders = np.geomspace(1.02, 1e4, 200_000)
    expected = np.min(orders * rho + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))
    computed = ask(MOMENTS, MIXED[:3], delta=delta, relation=relation)
    # The accountant's orders are fewer; its divergences of a selection are a little smaller than zCDP's.
    assert computed == pytest.approx(float(expected), rel=1e-2)


def test_gaussians_are_one_gaussian_when_merged():
    one = merge_gaussians([(Gaussian(noise_multiplier=3.0), 2), MIXED[1], (Gaussian(noise_multiplier=4.0), 1)])
    assert [event for event, _ in one[1:]] == [MIXED[1][0]]
    ((merged, count), *_) = one
    assert count == 1
    assert merged.noise_multiplier == pytest.approx(1 / math.sqrt(2 / 9 + 1 / 16))
    assert merged.replace_one_factor == 2.0
    moved_once = Gaussian(noise_multiplier=5.0, replace_one_factor=1.0)
    ((mixed, _),) = merge_gaussians([(moved_once, 1), take_steps(1.0, 5.0)])
    assert mixed.replace_one_factor == pytest.approx(math.sqrt((1 + 4) / 2))


@pytest.mark.parametrize("accountant", [AMORTIZED, PLD], ids=str)
@RELATIONS
def test_epsilon_is_exact_when_only_gaussians_are_composed(accountant, relation):
    charges = [(Gaussian(noise_multiplier=25.0, replace_one_factor=1.5), 30), (Gaussian(noise_multiplier=9.0), 2)]
    squares = [30 / 25**2, 2 / 9**2]
    if relation is REPLACE_ONE:
        squares = [1.5**2 * squares[0], 4 * squares[1]]
    noise = 1 / math.sqrt(sum(squares))
    epsilon = ask(accountant, charges, delta=1e-8, relation=relation)
    assert float(gaussian_delta(np.array([epsilon]), noise_multiplier=noise)[0]) <= 1e-8
    assert float(gaussian_delta(np.array([epsilon * (1 - 1e-8)]), noise_multiplier=noise)[0]) > 1e-8 * (1 - 1e-5)


@ACCOUNTANTS
@RELATIONS
def test_epsilon_is_at_most_the_sum_when_only_selections_are_composed(accountant, relation):
    event = ExponentialSelection(epsilon=0.4, replace_one_factor=1.5)
    length = 0.6 if relation is REPLACE_ONE else 0.4
    for count in (1, 3, 200):
        epsilon = ask(accountant, [(event, count)], delta=1e-9, relation=relation)
        assert epsilon <= count * length * (1 + 1e-11)
    assert epsilon < 0.5 * count * length


@pytest.mark.parametrize(("length", "count", "delta"), [(0.02, 300, 1e-9), (0.2, 100, 1e-4), (1.0, 50, 1e-2)])
def test_amortized_epsilon_is_hoeffdings_when_only_selections_are_composed(length, count, delta):
    # Mean of the sum, and its range by Hoeffding and Azuma: P(sum - mean > h) <= e^(-2 h^2 / sum of squared ranges).
    expected = count * length**2 / 8 + math.sqrt(count * length**2 * math.log(1 / delta) / 2)
    event = ExponentialSelection(epsilon=length)
    computed = ask(AMORTIZED, [(event, count)], delta=delta)
    assert computed == pytest.approx(expected, rel=1e-6)
    assert computed >= expected
