import itertools
import math
from importlib.metadata import version

import dp_accounting
import numpy as np
import pytest

from dpwgan.privacy.accountants.amortized import gaussian_delta, gaussian_epsilon
from dpwgan.privacy.accountants.moments import (
    ORDERS,
    delta_from_divergences,
    epsilon_from_divergences,
    find_divergences,
    replace_one_by_group,
    sampled_gaussian_divergences,
)
from dpwgan.privacy.events import Gaussian
from tests.privacy.brute_force import Line
from tests.privacy.charges import MOMENTS, REPLACE_ONE, ask, take_steps
from tests.privacy.reference_events import to_dp_event

# From 0.5 on dp-accounting adds up the absolute values of the series of a fractional order: a bound, and no reference.
HAS_FRACTIONS = version("dp-accounting").startswith("0.4.")
CHECKED_ORDERS = (1.1, 1.5, 2.0, 3.7, 8.0, 10.9, 16.0)


def test_orders_are_the_documented_ones_when_read():
    assert len(ORDERS) == 161
    assert ORDERS[:2] == (1.1, 1.2)
    assert ORDERS[98:101] == (10.9, 11.0, 12.0)
    assert ORDERS[-10:] == (63.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)


@pytest.mark.parametrize("q", [1e-3, 0.02, 0.3])
@pytest.mark.parametrize("noise", [0.7, 1.5, 8.0])
def test_sampled_divergences_are_those_of_an_integral_when_zeroing_out(q, noise):
    line = Line(stddev=noise, reach=20 + 14 * noise)
    without = line.log_mixture((1.0, 0.0))
    having = line.log_mixture((1 - q, 0.0), (q, 1.0))
    computed = sampled_gaussian_divergences(take_steps(q, noise)[0], orders=CHECKED_ORDERS)
    for order, divergence in zip(CHECKED_ORDERS, computed, strict=True):
        there = line.renyi(having, without, order=order)
        back = line.renyi(without, having, order=order)
        assert divergence == pytest.approx(there, rel=1e-6, abs=1e-10)
        assert divergence >= back * (1 - 1e-9) - 1e-12


# Next to nothing is lost at high orders where all records are in nearly all batches, and noise is large.
@pytest.mark.parametrize("q", [1e-3, 0.02, 0.3, 0.9999])
@pytest.mark.parametrize("noise", [0.7, 1.5, 8.0])
def test_replace_one_divergences_are_above_an_integral_when_records_are_opposite(q, noise):
    line = Line(stddev=noise, reach=25 + 14 * noise)
    table = line.log_mixture((1 - q, 0.0), (q, 1.0))
    bounds = dict(zip(ORDERS, find_divergences(take_steps(q, noise)[0], REPLACE_ONE), strict=True))
    for mean in (-1.0, -0.5, 0.0, 0.5):
        other = line.log_mixture((1 - q, 0.0), (q, mean))
        for order in CHECKED_ORDERS:
            assert line.renyi(table, other, order=order) <= bounds[order] * (1 + 1e-9)
            assert line.renyi(other, table, order=order) <= bounds[order] * (1 + 1e-9)


@pytest.mark.parametrize("factor", [2.0, math.sqrt(2.0)])
def test_gaussian_divergences_are_exact_when_a_record_is_replaced(factor):
    line = Line(stddev=1.5, reach=60.0)
    event = Gaussian(noise_multiplier=1.5, replace_one_factor=factor)
    bounds = dict(zip(ORDERS, find_divergences(event, REPLACE_ONE), strict=True))
    for order in CHECKED_ORDERS:
        exact = line.renyi(line.log_mixture((1.0, 0.0)), line.log_mixture((1.0, factor)), order=order)
        assert bounds[order] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("q", [1e-4, 0.026, 0.3, 0.95])
@pytest.mark.parametrize("noise", [0.4, 2.0, 100.0])
def test_divergences_are_those_of_dp_accounting_when_compared_order_by_order(q, noise):
    event, _ = take_steps(q, noise)
    orders = [order for order in ORDERS if HAS_FRACTIONS or order.is_integer()]
    reference = dp_accounting.rdp.RdpAccountant(orders=orders).compose(to_dp_event(event)).rdp
    computed = sampled_gaussian_divergences(event, orders=orders)
    np.testing.assert_allclose(computed, reference, rtol=1e-9, atol=1e-11)
    for steps, delta in itertools.product((1, 100, 5_000), (1e-10, 1e-5)) if HAS_FRACTIONS else ():
        expected, _ = dp_accounting.rdp.compute_epsilon(ORDERS, steps * reference, delta)
        epsilon = ask(MOMENTS, [(event, steps)], delta=delta)
        assert epsilon >= expected * (1 - 1e-12)
        assert expected == 0 or epsilon == pytest.approx(expected, rel=1e-5)


def test_conversion_to_delta_is_the_inverse_when_put_together():
    divergences = np.asarray(ORDERS) / (2 * 3.0**2)
    for delta in (1e-12, 1e-6, 1e-3):
        epsilon = epsilon_from_divergences(divergences, delta=delta)
        assert delta_from_divergences(divergences, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("noise", [0.5, 3.0, 300.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_conversion_to_delta_is_above_a_gaussians_own_when_epsilon_is_next_to_nothing(noise, epsilon):
    divergences = np.asarray(ORDERS) / (2 * noise**2)
    exact = gaussian_delta(np.array([epsilon]), noise_multiplier=noise)[0]
    assert delta_from_divergences(divergences, epsilon=epsilon) >= exact


def test_conversion_gives_zero_when_total_variation_is_below_delta():
    assert epsilon_from_divergences(np.full(len(ORDERS), 1e-14), delta=1e-6) == 0.0
    assert epsilon_from_divergences(np.full(len(ORDERS), 1e-11), delta=1e-6) > 0.0


@pytest.mark.parametrize("noise", [0.5, 3.0, 40.0])
def test_replace_one_is_above_the_exact_gaussian_when_nothing_is_sampled(noise):
    delta = 1e-8
    exact = float(gaussian_epsilon(np.array([delta]), noise_multiplier=noise / 2)[0])
    charges = [(Gaussian(noise_multiplier=noise), 1)]
    assert exact <= ask(MOMENTS, charges, delta=delta, relation=REPLACE_ONE) <= 1.3 * exact
    assert exact <= replace_one_by_group(charges, delta=delta)


def test_replace_one_takes_the_better_bound_when_both_are_proved():
    charges = [take_steps(0.02, 1.5, 300)]
    group = replace_one_by_group(charges, delta=1e-7)
    assert ask(MOMENTS, charges, delta=1e-7, relation=REPLACE_ONE) <= group * (1 + 1e-11)
    # Twice the epsilon of a smaller delta.
    assert group > 2 * ask(MOMENTS, charges, delta=1e-7)


def test_replace_one_by_group_is_two_steps_of_zeroing_out_and_no_less():
    event, steps = take_steps(0.02, 1.5, 300)
    half = replace_one_by_group([(event, steps)], delta=1e-7) / 2
    divergences = steps * sampled_gaussian_divergences(event, orders=ORDERS)
    delta = delta_from_divergences(divergences, epsilon=half)
    assert (1 + math.exp(half)) * delta == pytest.approx(1e-7, rel=1e-6)
