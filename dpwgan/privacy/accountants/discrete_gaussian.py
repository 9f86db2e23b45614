"""Accounting for discrete Gaussian noise on counts, by a continuous Gaussian release that stands in for it.

One record moves K counts by 1 each, all up under zero-out if signs are turned (2 K under replace-one), and every count
carries noise of its own, z with probability proportional to g(z) = e^(-z^2/(2 s^2)).

Moments. Canonne, Kamath, Steinke 2020, Theorem 14: the release is (K/(2 s^2))-zCDP, a D_a of at most a K/(2 s^2), as
with continuous noise of the same s.

Other accountants. Theorem. Whatever the acts in between, n such releases of one s with n K = k moved counts in all may
be replaced by one continuous Gaussian release, of a number that moves by k, with noise of variance k s^2 - w, 0 < w <
k s^2, if then (e, d) is read as (e + 2 c, e^c d), where

    c = r(w) + sum over i < k of r(s^2 i/(i + 1)),    r(h) = 4 sum over odd m of artanh(e^(-2 pi^2 h m)).

Proof. (1) *One number.* Let P be the law of the moved counts less their values, and Q the law one further up. P/Q at x
is e^((k - 2 S)/(2 s^2)), S = sum x_i: given S both laws are the same, so S alone tells all. Fewer moved counts are a
function of more; and a fixed pair that dominates each release dominates it whatever came before, so that n releases are
dominated by the product of their pairs (the module of `Accountant` moves them to the front): one release of k counts.
(2) *Sums.* With G_v(x) = e^(-x^2/(2 v)): sum over a of G_u(a) G_v(x - a) = G_(u+v)(x) T(x u/(u + v)), T(t) = sum over
whole a of G_h(a - t), h = u v/(u + v). By Poisson summation and Jacobi's triple product T(t) is a constant times the
product over n of 1 + 2 q^(2n-1) cos(2 pi t) + q^(4n-2), q = e^(-2 pi^2 h); each factor is largest at t = 0 and least at
t = 1/2, and ln(T(0)/T(1/2)) = r(h). So adding the (i + 1)th count to i of them makes a multiple of G_((i+1) s^2), up to
a function whose largest value is at most e^r(s^2 i/(i+1)) times its least.
(3) *The stand-in.* Take a continuous y from N(0, k s^2 - w) and round it at random: to x with probability G_w(x - y)
over the sum of these. As in (2) that gives a multiple of G_(k s^2)(x), up to a function of which the same is true with
r(w). So the quotient of S's probabilities and these lies between e^-c and e^c, as both add up to 1. Moving y by k moves
x by k: under Q the same holds.
(4) So P <= e^c P' and Q >= e^-c Q' for laws P', Q' that are a function of the Gaussian release, and P <= e^e' Q + d
follows from P' <= e^(e' - 2 c) Q' + e^-c d, with everything else in between the same. QED.

w is 1, or half of k s^2 if that is less: c is then 2.2e-8 for noise of any use, and the stand-in's stddev lower by one
part in 2 k s^2. With s = 0.5 and 20 counts, c is 2.

Units of R rows, each in K counts, move counts by any whole numbers, not by 1 each: (1) does not hold, and each count is
taken by itself. Theorem. n such releases may be replaced by a continuous Gaussian release with noise of variance s^2 -
w on each count, 0 < w < s^2, moved by R sqrt(n K) in L2, sqrt(2) times that if a unit is replaced, with c = 2 n R K
r(w). Proof. As in (3): y from N(0, s^2 - w), rounded at random, gives a multiple of G_(s^2), up to a function whose
largest value is at most e^r(w) times its least, and moving y by a whole number moves the rounded one by it. At most 2 R
K counts of each release have two laws, and each adds r(w) to c; the others drop out. R rows, in K counts each, move
them by R times what one does at most, sqrt(K) or sqrt(2 K). (4) follows. QED. w is 2, or half of s^2 if that is less.
"""

import math
from functools import lru_cache

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.privacy.events import DiscreteGaussian, Gaussian

_TERMS = 40
_LEAST_SPREAD = 0.02
"""Below this h that many terms of r would not be enough, and r is given as infinite."""

_APART = 100
"""Counts from the hundredth on are taken to add as much to c as that one."""


@lru_cache(maxsize=4096)
def stand_in(event: DiscreteGaussian, count: int) -> tuple[Gaussian, float]:
    """A Gaussian release that stands in for `count` of an event, and the theorem's c, which may be infinite."""
    if event.rows > 1:
        rounding = min(2.0, event.stddev**2 / 2)
        multiplier = math.sqrt(event.stddev**2 - rounding) / (event.sensitivity * math.sqrt(count))
        cost = 2 * count * event.rows * event.cells * float(_log_spread(np.array([rounding]))[0])
        return Gaussian(noise_multiplier=multiplier, replace_one_factor=math.sqrt(2)), cost
    zeroed, cost = _gaussian_noise(event.stddev, moved=event.cells * count)
    replaced, replaced_cost = _gaussian_noise(event.stddev, moved=2 * event.cells * count)
    return Gaussian(noise_multiplier=zeroed, replace_one_factor=zeroed / replaced), max(cost, replaced_cost)


def _gaussian_noise(stddev: float, *, moved: int) -> tuple[float, float]:
    """The stand-in's noise over its move, and c."""
    variance = moved * stddev**2
    rounding = min(1.0, variance / 2)
    i = np.arange(1, min(moved, _APART + 1))
    each = _log_spread(np.append(rounding, stddev**2 * i / (i + 1)))
    cost = float(np.sum(each)) + (max(0, moved - 1 - _APART) * float(each[-1]) if moved > 1 else 0.0)
    return math.sqrt(variance - rounding) / moved, cost


def _log_spread(h: Floats) -> Floats:
    """Computes the theorem's r(h)."""
    odd = np.arange(1, 2 * _TERMS, 2)
    with np.errstate(under="ignore"):
        terms = np.arctanh(np.exp(-2 * math.pi**2 * np.outer(np.maximum(h, _LEAST_SPREAD), odd)))
    return np.where(h < _LEAST_SPREAD, math.inf, 4 * terms.sum(axis=1))
