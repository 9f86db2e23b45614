"""The moments accountant: Renyi divergences of the mechanisms, added up order by order, then turned into epsilon."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from scipy import special

from dpwgan.array_types import Floats
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant, ComposedCharge, ComposedEvent, loss_range
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, ExponentialSelection, Gaussian, PoissonGaussian

# Tenths of an order below 11, then whole orders, then powers of two: the best order lies near
# 1 + 2 ln(1/delta)/epsilon, so the largest ones serve an epsilon of a few thousandths.
_ORDER_TENTHS = (*range(11, 110), *range(110, 640, 10), *(640 * 2**power for power in range(9)))
ORDERS: tuple[float, ...] = tuple(tenths / 10 for tenths in _ORDER_TENTHS)
"""The Renyi orders 1.1, 1.2, ... 10.9, 11, 12, ... 63, 64, 128, ... 16384."""

_SERIES_END = math.exp(-30)
"""The series for a fractional order ends at the first term below this."""

_FIRST_TERMS = 32
"""How many terms of it are computed at first; four times as many whenever that was not enough."""


class MomentsAccountant(Accountant):
    """Accounts by Renyi differential privacy, the exact form of the 2016 moments accountant.

    Source: Abadi et al. 2016, arXiv:1607.00133; Mironov 2017, arXiv:1702.07476; Mironov, Talwar, Zhang 2019,
      arXiv:1908.10530; Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Proposition 12.
    """

    name = "moments"

    @property
    def version(self) -> str:
        """scipy computes the binomials and the normal tails."""
        return f"Renyi divergences, {len(ORDERS)} orders 1.1 to 16384, scipy {scipy.__version__}"

    def _as_gaussian(self, event: DiscreteGaussian, count: int) -> tuple[Gaussian, float]:
        return _as_gaussian(event, count), 0.0

    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        by_zeroing = _total_divergences(charges, NeighboringRelation.ZERO_OUT)
        if neighboring_relation is NeighboringRelation.ZERO_OUT:
            return epsilon_from_divergences(by_zeroing, delta=delta)
        by_replacing = _total_divergences(charges, NeighboringRelation.REPLACE_ONE)
        return min(epsilon_from_divergences(by_replacing, delta=delta), _group_epsilon(by_zeroing, delta=delta))


def replace_one_by_group(charges: Sequence[ComposedCharge], *, delta: float) -> float:
    """Bounds epsilon for one replaced record from the zero-out divergences alone, by group privacy for two."""
    return _group_epsilon(_total_divergences(charges, NeighboringRelation.ZERO_OUT), delta=delta)


def epsilon_from_divergences(divergences: Floats, *, delta: float) -> float:
    """Turns Renyi divergences, one for each of `ORDERS`, into the smallest epsilon that they prove at `delta`.

    Privacy: for every order a: epsilon = D_a + ln(1 - 1/a) - ln(delta a)/(a - 1). And if the divergence, which is at
      least the Kullback-Leibler divergence, is so small that sqrt(1 - e^-D) <= delta, then the total variation is at
      most delta and epsilon is 0 (Bretagnolle-Huber).
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Proposition 12.
    """
    if np.any(-np.expm1(-divergences) * (1 + 1e-9) <= delta**2):
        return 0.0
    a = np.array(ORDERS)
    epsilons = divergences + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    return max(0.0, float(np.min(epsilons)))


def delta_from_divergences(divergences: Floats, *, epsilon: float) -> float:
    """Turns Renyi divergences, one for each of `ORDERS`, into the smallest delta that they prove at `epsilon`.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Proposition 12.
    """
    a = np.array(ORDERS)
    exponents = (a - 1) * (divergences - epsilon + np.log1p(-1 / a)) - np.log(a)
    by_order = float(np.exp(min(0.0, float(np.min(exponents)))))
    by_total_variation = float(np.sqrt(-np.expm1(-np.min(divergences))))
    return min(1.0, by_order, by_total_variation)


def _group_epsilon(divergences: Floats, *, delta: float) -> float:
    """Bounds epsilon for one replaced record by group privacy for two: (2 e, (1 + e^e) d) from (e, d).

    Every e with (1 + e^e) d(e) <= delta is valid, so the bisection may end anywhere as long as its upper end passes.
    """

    def holds(epsilon: float) -> bool:
        zeroing_delta = delta_from_divergences(divergences, epsilon=epsilon)
        return epsilon < 700 and (1 + math.exp(epsilon)) * zeroing_delta * (1 + 1e-9) <= delta

    lower, upper = 0.0, 1e-3
    while not holds(upper):
        lower, upper = upper, 2 * upper
        if upper > 700:
            return math.inf
    while upper - lower > 1e-9 * upper:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if holds(middle) else (middle, upper)
    return 2 * upper


def _total_divergences(charges: Sequence[ComposedCharge], neighboring_relation: NeighboringRelation) -> Floats:
    """Adds the divergences of all charges at each of `ORDERS` (Mironov 2017, Proposition 1: adaptive composition)."""
    each = (count * find_divergences(event, neighboring_relation) for event, count in charges)
    return sum(each, start=np.zeros(len(ORDERS)))


def _as_gaussian(event: DiscreteGaussian, count: int) -> Gaussian:
    # The same divergences, by Theorem 14 of Canonne, Kamath, Steinke.
    multiplier = event.stddev / (event.rows * math.sqrt(event.cells * count))
    return Gaussian(noise_multiplier=multiplier, replace_one_factor=math.sqrt(2))


@lru_cache(maxsize=256)
def find_divergences(event: ComposedEvent | DiscreteGaussian, neighboring_relation: NeighboringRelation) -> Floats:
    """Bounds the Renyi divergences of one event at each of `ORDERS`, in both directions.

    Privacy: a Gaussian moved by s sensitivities has D_a = a s^2 / (2 sigma^2) exactly. For the Poisson-sampled one,
      zero-out is the mixture that dp_accounting computes, whose larger direction it is (Mironov, Talwar, Zhang 2019,
      Theorem 5). For replace-one, no doubled sensitivity: the tables P and Q are compared through the table R
      without the record, by the weak triangle inequality with both exponents 2,
      D_a(P||Q) <= (a - 1/2)/(a - 1) D_2a(P||R) + D_(2a-1)(R||Q). For a selection, `bounded_range_divergences`.
    Source: Mironov 2017, arXiv:1702.07476, Propositions 7 and 11.
    """
    orders = np.asarray(ORDERS)
    if isinstance(event, DiscreteGaussian):
        event = _as_gaussian(event, 1)
    if isinstance(event, ExponentialSelection):
        result = bounded_range_divergences(loss_range(event, neighboring_relation), orders=ORDERS)
    elif isinstance(event, Gaussian) or event.sampling_probability == 1:
        result = orders * (event.get_factor(neighboring_relation) / event.noise_multiplier) ** 2 / 2
    elif neighboring_relation is NeighboringRelation.REPLACE_ONE:
        # The largest order needs twice itself, which lies outside the documented orders and is left out.
        doubled = tuple(2 * tenths / 10 for tenths in _ORDER_TENTHS[:-1])
        one_less = tuple((2 * tenths - 10) / 10 for tenths in _ORDER_TENTHS[:-1])
        there = sampled_gaussian_divergences(event, orders=doubled)
        back = sampled_gaussian_divergences(event, orders=one_less)
        result = np.append((orders[:-1] - 0.5) / (orders[:-1] - 1) * there + back, math.inf)
    else:
        result = sampled_gaussian_divergences(event, orders=ORDERS)
    result.setflags(write=False)
    return result


def bounded_range_divergences(length: float, *, orders: Sequence[float]) -> Floats:
    """Computes the largest Renyi divergences of two laws whose privacy loss lies in an interval of a given length.

    Privacy: let the interval be [t - r, t], 0 <= t <= r. D_a is a convex function's mean over e^-loss, which has mean
      1 under P, so it is largest when the loss takes the two ends only, with P-mass p = (e^r - e^t)/(e^r - 1) at t.
      With v = e^t, (a - 1) D_a = (a - 1) ln v + ln(p + (1 - p) b) - the latter being ln of a decreasing linear
      function of v, b = e^-((a - 1) r) - is concave in v and largest at v = (a - 1)(e^r - b)/(a (1 - b)), which gives
      the formula. Renyi divergences of adaptive acts add up with each act's largest one. Never above a r^2/8, nor
      above r.
    Source: Dong, Durfee, Rogers 2020, arXiv:1909.13830 (the two ends); Cesar and Rogers 2021,
      arXiv:2004.07223 (a r^2/8).
    """
    a = np.asarray(orders, dtype=np.float64)
    if length > 700:
        return np.full(a.size, length)
    log_b = -(a - 1) * length
    log_numerator = np.log(-np.expm1(log_b - length)) + length
    log_denominator = np.log(-np.expm1(log_b))
    log_growth = math.log(math.expm1(length))
    exact = np.log1p(-1 / a) + log_numerator - log_denominator + (log_numerator - log_growth - np.log(a)) / (a - 1)
    # Each logarithm is off by some units in its own last place, or in that of the 1 near which it is taken.
    logarithms = 1 + np.abs(log_numerator) + np.abs(log_denominator) + abs(log_growth) + np.log(a)
    error = 32 * float(np.finfo(np.float64).eps) * logarithms * (1 + 1 / (a - 1))
    return np.minimum(np.minimum(exact + error, a * length**2 / 8), length)


def sampled_gaussian_divergences(event: PoissonGaussian, *, orders: Sequence[float]) -> Floats:
    """Computes the Renyi divergences of one Poisson-sampled Gaussian under zero-out, rounded upwards.

    Privacy: the two laws are N(0, s^2) and (1 - q) N(0, s^2) + q N(1, s^2), those of the table without the record and
      with it; dp_accounting calls this relation ADD_OR_REMOVE_ONE. D_a = ln A_a / (a - 1), A_a the mean of (dP/dQ)^a.
      A whole order is a finite sum of positive terms, a fractional one two infinite series; the terms are those of
      dp_accounting, which adds them up one by one. ln A_a is off by some units in the last place of its largest
      term's logarithm, and a series is cut off at e^-30; both are added on.
    Raises: PrivacyError if a divergence comes out as no number.
    Source: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, sections 3.2 and 3.3.
    """
    a = np.asarray(orders, dtype=np.float64)
    whole = a == np.round(a)
    q, s = event.sampling_probability, event.noise_multiplier
    divergences = np.empty(a.size)
    divergences[whole] = [_whole_order(int(order), q=q, s=s) for order in a[whole]]
    if not np.all(whole):
        divergences[~whole] = _fractional_orders(a[~whole], q=q, s=s)
    if np.any(np.isnan(divergences)):
        raise PrivacyError("The moments accountant found no number for these settings.")
    largest_logarithm = 3 * a * np.log(a + 1) + a * abs(math.log(q)) + a**2 / (2 * s**2) + 1
    unit = float(np.finfo(np.float64).eps)
    error = (4 * unit * largest_logarithm + np.where(whole, 0.0, 4 * _SERIES_END)) / (a - 1)
    result: Floats = np.maximum(divergences, 0.0) + error
    return result


def _whole_order(order: int, *, q: float, s: float) -> float:
    """Computes ln(sum over k of C(a, k) q^k (1 - q)^(a - k) e^((k^2 - k)/(2 s^2))) / (a - 1), for q below 1."""
    log_binomials, k, exponents = _binomial_terms(order)
    terms = log_binomials + k * math.log(q) + (order - k) * math.log1p(-q) + exponents / s**2
    return log_sum_exp(terms) / (order - 1)


def log_sum_exp(terms: Floats) -> float:
    """Computes ln sum e^term. That of scipy does the same to within rounding, in several times the time."""
    largest = float(np.max(terms))
    return largest + math.log(float(np.sum(np.exp(terms - largest))))


@lru_cache(maxsize=512)
def _binomial_terms(order: int) -> tuple[Floats, Floats, Floats]:
    """ln C(a, k), k and (k^2 - k)/2 for k = 0 ... a."""
    k = np.arange(order + 1, dtype=np.float64)
    log_binomials = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    return log_binomials, k, k * (k - 1) / 2


def _fractional_orders(orders: Floats, *, q: float, s: float) -> Floats:
    """Computes ln A_a / (a - 1) for orders a that are not whole, for q below 1.

    A_a is an integral cut at z, where the two parts of the mixture are alike; on each side a binomial series in the
    smaller part converges. Terms are added until both series' are below `_SERIES_END`.
    """
    z = s**2 * math.log(1 / q - 1) + 0.5
    log_q, log_rest = math.log(q), math.log1p(-q)
    result = np.empty(orders.size)
    open_ones, terms = np.arange(orders.size), _FIRST_TERMS
    while open_ones.size:
        a = orders[open_ones, None]
        i = np.arange(terms, dtype=np.float64)
        j = a - i
        coefficients = special.binom(a, i)
        logs = np.log(np.abs(coefficients))
        below = logs + i * log_q + j * log_rest + (i**2 - i) / (2 * s**2) + special.log_ndtr((z - i) / s)
        above = logs + j * log_q + i * log_rest + (j**2 - j) / (2 * s**2) + special.log_ndtr((j - z) / s)
        small = np.maximum(below, above) < math.log(_SERIES_END)
        done = small.any(axis=1)
        # Of either series, the terms up to the first small one.
        last = np.where(done, small.argmax(axis=1), -1)
        signs = np.where(i <= last[:, None], np.sign(coefficients), 0.0)
        largest = np.maximum(below, above).max(axis=1, keepdims=True)
        sums = (signs * (np.exp(below - largest) + np.exp(above - largest))).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (np.log(sums) + largest[:, 0]) / (a[:, 0] - 1)
        result[open_ones[done]] = found[done]
        open_ones, terms = open_ones[~done], 4 * terms
    return result


MOMENTS = MomentsAccountant()
