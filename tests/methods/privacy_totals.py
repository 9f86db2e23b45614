"""What a list of charges adds up to, by formulas of its own: none of the project's accountants' code is used."""

import math
from collections.abc import Sequence

import dp_accounting
import numpy as np
from scipy import optimize, stats

from dpwgan.privacy.accountants.moments import ORDERS
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, DiscreteGaussian, ExponentialSelection, Gaussian, PoissonGaussian
from tests.privacy.reference_events import to_dp_event


def split(charges: Sequence[Charge], *, relation: NeighboringRelation) -> tuple[float, list[tuple[float, int]]]:
    """Gives the rho of all Gaussians, and each selection's range of losses with its count."""
    rho, ranges = 0.0, []
    for event, count in charges:
        if isinstance(event, DiscreteGaussian):
            moved = event.cells * (2 if relation is NeighboringRelation.REPLACE_ONE else 1)
            rho += count * moved / (2 * event.stddev**2)
            continue
        factor = event.replace_one_factor if relation is NeighboringRelation.REPLACE_ONE else 1.0  # type: ignore[union-attr]
        if isinstance(event, Gaussian):
            rho += count * factor**2 / (2 * event.noise_multiplier**2)
        else:
            assert isinstance(event, ExponentialSelection)
            ranges.append((factor * event.epsilon, count))
    return rho, ranges


def total_rho(charges: Sequence[Charge], *, relation: NeighboringRelation) -> float:
    """Adds 1/(2 sigma^2) and epsilon^2/8 (Bun and Steinke 2016; Cesar and Rogers 2021)."""
    rho, ranges = split(charges, relation=relation)
    return rho + sum(count * length**2 / 8 for length, count in ranges)


def epsilon_from_rho(rho: float, *, delta: float) -> float:
    """Gives rho + 2 sqrt(rho ln(1/delta)). Source: Bun and Steinke 2016, arXiv:1605.02065, Proposition 1.3."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def tighter_epsilon_from_rho(rho: float, *, delta: float) -> float:
    """Gives the least over all real orders. Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13."""

    def epsilon(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        return rho * a + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)

    found = optimize.minimize_scalar(epsilon, bounds=(-6.0, 12.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


def _two_point_divergence(order: float, *, length: float) -> float:
    """The largest Renyi divergence of laws whose loss is t or t - r: the best t is searched for."""

    def divergence(t: float) -> float:
        low = math.exp(t - length)
        weight = -math.expm1(t - length) / (low * math.expm1(length))
        rest = math.log1p(-weight) + order * (t - length) if weight < 1 else -math.inf
        return float(np.logaddexp(math.log(weight) + order * t, rest)) / (order - 1)

    inside = length * np.linspace(1e-6, 1 - 1e-6, 41)
    best = max(inside.tolist(), key=divergence)
    width = length / 40
    found = optimize.minimize_scalar(
        lambda t: -divergence(t),
        bounds=(max(best - width, 1e-6 * length), min(best + width, length * (1 - 1e-6))),
        method="bounded",
        options={"xatol": 1e-7 * length},
    )
    return min(-float(found.fun), order * length**2 / 8, length)


def gaussian_delta(epsilon: float, *, rho: float) -> float:
    """The exact delta of Gaussians of a total rho. Source: Balle and Wang 2018, arXiv:1805.06530, Theorem 8."""
    distance = math.sqrt(2 * rho)
    tail = stats.norm.logcdf(-distance / 2 - epsilon / distance)
    return float(stats.norm.cdf(distance / 2 - epsilon / distance) - math.exp(epsilon + tail))


def _sampled_divergences(event: PoissonGaussian, *, orders: Sequence[float]) -> list[float]:
    """Asks dp_accounting's own accountant. Source: Mironov, Talwar, Zhang 2019, arXiv:1908.10530."""
    accountant = dp_accounting.rdp.RdpAccountant(
        orders=list(orders), neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(to_dp_event(event))
    return [float(value) for value in accountant.rdp]


def _critic_divergences(event: PoissonGaussian, *, replacing: bool) -> list[float]:
    """Gives one step's divergence at each documented order.

    Source: for one replaced record, through the table without it: Mironov 2017, arXiv:1702.07476, Proposition 11.
    """
    if event.sampling_probability == 1:
        return [order * (2 if replacing else 1) ** 2 / (2 * event.noise_multiplier**2) for order in ORDERS]
    if not replacing:
        return _sampled_divergences(event, orders=ORDERS)
    there = _sampled_divergences(event, orders=[2 * order for order in ORDERS[:-1]])
    back = _sampled_divergences(event, orders=[2 * order - 1 for order in ORDERS[:-1]])
    parts = zip(ORDERS[:-1], there, back, strict=True)
    return [(order - 0.5) / (order - 1) * out + home for order, out, home in parts] + [math.inf]


def epsilon_with_critic(charges: Sequence[Charge], *, delta: float, relation: NeighboringRelation) -> float:
    """Adds the divergences of releases and of critic steps at the documented orders, and takes the best order.

    Source: Mironov 2017, arXiv:1702.07476, Propositions 1 and 7; Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    replacing = relation is NeighboringRelation.REPLACE_ONE
    curve = {order: 0.0 for order in ORDERS}
    whole = [(event, count) for event, count in charges if not isinstance(event, PoissonGaussian)]
    rho, ranges = split(whole, relation=relation)
    for event, count in charges:
        if isinstance(event, PoissonGaussian):
            for order, divergence in zip(ORDERS, _critic_divergences(event, replacing=replacing), strict=True):
                curve[order] += count * divergence
    best = math.inf
    for order, critic in curve.items():
        divergence = critic + order * rho
        if divergence < best:
            divergence += sum(count * _two_point_divergence(order, length=length) for length, count in ranges)
            best = min(best, divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return best
