import math

import dp_accounting
import numpy as np
import pytest

import dpwgan.privacy.accountants.pld as pld_module
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.amortized import gaussian_epsilon
from dpwgan.privacy.accountants.pld import _Problem, _settled_epsilon, _Step, epsilon_on_grid
from tests.privacy.brute_force import Line
from tests.privacy.charges import MOMENTS, PLD, REPLACE_ONE, ZERO_OUT, ask, take_steps
from tests.privacy.reference_events import to_dp_event


@pytest.mark.parametrize(
    ("q", "noise", "steps", "delta", "interval"),
    [
        (0.01, 4.0, 10_000, 1e-5, 1e-4),
        (0.04, 1.5, 2_250, 1e-5, 1e-3),
        (0.1, 3.0, 512, 1e-6, 1e-3),
        (0.026, 1.03, 1_000, 1e-8, 1e-3),
        (0.026, 20.0, 1_000, 1e-6, 1e-5),
        (0.5, 5.0, 30, 1e-6, 1e-3),
    ],
)
def test_pld_epsilon_is_that_of_dp_accounting_when_its_grid_is_fine(q, noise, steps, delta, interval):
    event, _ = charge = take_steps(q, noise, steps)
    reference = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    expected = reference.compose(to_dp_event(event), steps).get_epsilon(delta)
    assert ask(PLD, [charge], delta=delta) == pytest.approx(expected, rel=4e-3)


def bound_on_grid(step, *, delta, removing, cell, cut_off=1e-6):
    tail = cut_off * delta / step.count
    problem = _Problem(acts=(step,), delta=delta, neighboring_relation=ZERO_OUT, tail=tail)
    epsilon = epsilon_on_grid(problem, removing=removing, cell=cell)
    assert epsilon is not None
    return epsilon


@pytest.mark.parametrize(("noise", "count"), [(0.5, 1), (3.0, 1), (10.0, 100), (200.0, 3_000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-14])
@pytest.mark.parametrize("removing", [True, False])
def test_pld_on_a_grid_is_just_above_the_exact_epsilon_when_gaussians_compose(noise, count, delta, removing):
    # Not merged into one Gaussian beforehand, so that the grid and the convolution have to do the work.
    step = _Step(sampling_probability=1.0, stddev=noise, count=count)
    exact = float(gaussian_epsilon(np.array([delta]), noise_multiplier=noise / math.sqrt(count))[0])
    computed = bound_on_grid(step, delta=delta, removing=removing, cell=step.typical_loss() / 32)
    assert exact * (1 - 1e-9) <= computed <= exact * 1.005


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("removing", [True, False])
def test_what_a_grid_cuts_off_counts_as_lost(count, removing):
    step = _Step(sampling_probability=1.0, stddev=2.0, count=count)
    exact = float(gaussian_epsilon(np.array([0.2]), noise_multiplier=2.0 / math.sqrt(count))[0])
    computed = bound_on_grid(step, delta=0.2, removing=removing, cell=step.typical_loss() / 32, cut_off=0.9)
    assert exact <= computed < math.inf


@pytest.mark.parametrize(("q", "noise"), [(0.01, 0.8), (0.1, 2.0), (0.7, 1.0)])
@pytest.mark.parametrize("removing", [True, False])
def test_pld_of_one_step_keeps_the_integrated_delta_when_either_direction_is_asked(q, noise, removing):
    line = Line(stddev=noise, reach=2 + 12 * noise)
    laws = [line.log_mixture((1 - q, 0.0), (q, 1.0)), line.log_mixture((1.0, 0.0))]
    p, other = laws if removing else laws[::-1]
    # Without the record the loss is at most ln(1/(1 - q)), so epsilon is looked for well below that.
    expected = 0.3 if removing else -0.4 * math.log(1 - q)
    delta = line.hockey_stick(p, other, epsilon=expected)
    assert delta > 1e-9
    step = _Step(sampling_probability=q, stddev=noise, count=1)
    for refinement in (8, 64):
        epsilon = bound_on_grid(step, delta=delta, removing=removing, cell=step.typical_loss() / refinement)
        assert line.hockey_stick(p, other, epsilon=epsilon) <= delta * (1 + 1e-5)
    assert epsilon == pytest.approx(expected, rel=0.02)


def test_pld_of_two_steps_keeps_the_integrated_delta_when_both_are_sampled():
    q, noise, delta = 0.2, 1.5, 1e-4
    x = np.linspace(-14, 16, 3_001)
    normal = np.exp(-(x**2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    shifted = np.exp(-((x - 1) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    mixture = (1 - q) * normal + q * shifted
    epsilon = ask(PLD, [take_steps(q, noise, 2)], delta=delta)

    def exact_delta(at):
        excess = np.outer(mixture, mixture) - math.exp(at) * np.outer(normal, normal)
        return float(np.sum(np.maximum(excess, 0.0)) * (x[1] - x[0]) ** 2)

    assert exact_delta(epsilon) <= delta * (1 + 1e-4)
    assert exact_delta(0.98 * epsilon) > delta


def test_pld_keeps_its_digits_when_delta_is_one_in_a_million_million():
    # In extended precision dp_accounting's own grid of 1e-3 gives 7.1888; in double precision 7.1837, which is too low.
    assert 7.187 < ask(PLD, [take_steps(4096 / 661_968, 0.74, 2_000)], delta=661_968**-2) < 7.200


@pytest.mark.parametrize("noise", [400.0, 15.0, 2.0, 0.6])
def test_pld_is_below_moments_when_the_grid_has_settled(noise):
    charges = [take_steps(0.026, noise, 1_000)]
    by_pld, by_moments = (ask(accountant, charges, delta=1e-9) for accountant in (PLD, MOMENTS))
    assert 0.8 * by_moments < by_pld < by_moments


def test_every_grid_is_an_upper_bound_when_it_is_coarse():
    step = _Step(sampling_probability=0.026, stddev=20.0, count=1_000)
    fine, *coarse = (
        bound_on_grid(step, delta=1e-9, removing=True, cell=step.typical_loss() * coarseness)
        for coarseness in (1 / 32, 1, 2, 5)
    )
    assert min(coarse) >= fine * (1 - 1e-6)


def test_pld_refuses_when_it_comes_out_above_moments(monkeypatch):
    monkeypatch.setattr(pld_module, "_settle", lambda problem, *, removing: 50.0)
    with pytest.raises(PrivacyError, match=r"above the .* of the moments accountant"):
        _settled_epsilon.__wrapped__((take_steps(0.0263, 2.0, 100),), 1e-6, ZERO_OUT)


def test_pld_refuses_when_the_work_would_pass_its_bound(monkeypatch):
    monkeypatch.setattr(pld_module, "MOST_POINTS", 64)
    with pytest.raises(PrivacyError, match="did not settle"):
        ask(PLD, [take_steps(0.0261, 2.0, 100)], delta=1e-6)


def test_pld_replace_one_is_more_than_twice_zero_out_when_steps_are_sampled():
    charges = [take_steps(0.1, 3.0, 8)]
    zeroing, replacing = (ask(PLD, charges, delta=1e-5, relation=relation) for relation in (ZERO_OUT, REPLACE_ONE))
    assert 2 * zeroing < replacing < 4 * zeroing


def test_pld_keeps_the_delta_of_both_directions_when_one_step_is_sampled():
    q, noise, delta = 0.3, 0.8, 1e-3
    epsilon = ask(PLD, [take_steps(q, noise)], delta=delta)
    line = Line(stddev=noise, reach=16.0)
    laws = line.log_mixture((1 - q, 0.0), (q, 1.0)), line.log_mixture((1.0, 0.0))
    for p, other in (laws, laws[::-1]):
        assert line.hockey_stick(p, other, epsilon=epsilon) <= delta * (1 + 1e-6)


@pytest.mark.parametrize(("q", "noise", "steps"), [(0.01, 4.0, 100), (0.1, 20.0, 300)])
def test_pld_replace_one_is_two_steps_of_zeroing_out_and_no_less_when_steps_are_sampled(q, noise, steps):
    charges = [take_steps(q, noise, steps)]
    half = ask(PLD, charges, delta=1e-3, relation=REPLACE_ONE) / 2
    assert half == pytest.approx(ask(PLD, charges, delta=1e-3 / (1 + math.exp(half))), rel=4e-3)
    assert half > 1.01 * ask(PLD, charges, delta=1e-3 / math.exp(half))
