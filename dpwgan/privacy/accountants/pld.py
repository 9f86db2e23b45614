"""The pld accountant: the distribution of the privacy loss itself, on a grid that errs upwards, composed by FFT.

How a bound comes about, and why it is one:

1. *Pair.* One Poisson-sampled Gaussian step under zero-out is dominated, in each direction, by the pair of
   one-dimensional laws N(0, s^2) and (1 - q) N(0, s^2) + q N(1, s^2) (Zhu, Dong, Wang 2022, Theorem 11 and section 4;
   Koskela, Jalko, Honkela 2020). Domination passes to adaptive compositions. Both directions are computed.
2. *Grid.* The loss l = ln(dP/dQ) of each cell (L_(k-1), L_k] is spread over the two ends so that the P-mass and the
   Q-mass of the cell are kept ("connect the dots"). delta(epsilon) is the P-mean of a convex function of e^-l, so
   spreading raises it at every epsilon (Doroshenko et al. 2022). Rounding is covered by moving a little more mass to
   the upper end. Losses below the grid are moved up to its first point; losses above it count as infinite.
3. *Composition.* Losses add, so the law of the total is a convolution power. It is computed after tilting by e^(t l),
   with t such that the total's mean lies where epsilon is sought: the error of the FFT is then small relative to
   delta itself, however small delta is. That error is bounded and added, and so is the mass outside the window.
4. *Refinement.* The cell is halved until epsilon moves by less than 0.2%, or the work bound is reached and no epsilon
   is given. Every grid gives a valid bound. A bound above the moments accountant's shows a grid that is too
   coarse, and is refused.

Replace-one: the curve delta(epsilon) of zero-out, and group privacy for two: (2 e, (1 + e^e) delta(e)). Where nothing
is sampled, what one replaced record does to each act is known by itself, and takes the place of zero-out.

A Gaussian on all records alone needs no grid: its curve is known (Balle and Wang 2018, Theorem 8).

Selections. The loss of an exponential mechanism lies in some [t - r, t], 0 <= t <= r, and delta(x), the mean of a
convex function of e^-loss, is largest if the loss takes both ends only: (e^r - e^t)(1 - e^(x - t))/(e^r - 1). The
largest over t, at t = (r + x)/2, is H(x) = (1 - e^((x - r)/2))^2/(1 - e^-r) for |x| <= r. Being a supremum of curves
of pairs, it is the curve of a pair, and that pair dominates (Zhu, Dong, Wang 2022, Proposition 8 and Theorem 10),
whatever t an adaptive analyst brings about. Its loss has P-density e^((x - r)/2)/(2 (1 - e^-r)) on [-r, r], and the
same one with P and Q exchanged. It goes on the grid like any other. Since the pair serves all t at once, its loss has
up to 4/3 of the variance that any one t can have, so for many selections the moments accountant may be the smaller;
both are proved, and with selections the smaller one is given.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from scipy import fft, linalg, special

from dpwgan.array_types import Floats
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant, ComposedCharge, loss_range
from dpwgan.privacy.accountants.amortized import gaussian_epsilon
from dpwgan.privacy.accountants.moments import MOMENTS, log_sum_exp, replace_one_by_group
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, DiscreteGaussian, ExponentialSelection, Gaussian, PoissonGaussian

UNIT = float(np.finfo(np.float64).eps)

MOST_POINTS = 2**21
"""The most points of a grid or of a transform: about a second and 200 MB."""

SETTLED = 2e-3
"""Epsilon has settled when halving the cell moves it by less than this, relatively."""

_NEAR = 1e-2
"""A tilt placed within this of epsilon, relatively, is not placed anew."""

_LOSS_ROUNDING = 1e-13
"""What one act's loss may be off by rounding of a cell's border; it is added to epsilon for every act."""

_LARGEST_LOSS = 600.0
"""A step that can lose more than this is left to the other accountants: e^loss would leave the range of floats."""


class PldAccountant(Accountant):
    """Accounts by privacy loss distributions, the tightest of the three.

    Source: Meiser and Mohammadi 2018; Koskela, Jalko, Honkela 2020, arXiv:1906.03049; Doroshenko et al. 2022,
      arXiv:2207.04380; Zhu, Dong, Wang 2022, arXiv:2106.08567.
    """

    name = "pld"

    @property
    def version(self) -> str:
        """scipy computes the normal tails and the transforms; see the module on selections."""
        return (
            f"privacy loss distributions, connect-the-dots grid refined to {SETTLED:g}, with selections the smaller of "
            f"that and moments, scipy {scipy.__version__}"
        )

    @property
    def progress_accountant(self) -> Accountant:
        """The moments accountant: never refuses a number half-way, and is never below this one."""
        return MOMENTS

    def get_epsilon(
        self, charges: Sequence[Charge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        """Bounds the epsilon of all charges together at `delta`; see `Accountant.get_epsilon`.

        Privacy: what stands in for counts with discrete noise costs more than they do where a stddev is about one
          count. The moments accountant has them as they are, and the smaller of the two is given.
        """
        epsilon = super().get_epsilon(charges, delta=delta, neighboring_relation=neighboring_relation)
        if not any(isinstance(event, DiscreteGaussian) for event, _ in charges):
            return epsilon
        return min(epsilon, MOMENTS.get_epsilon(charges, delta=delta, neighboring_relation=neighboring_relation))

    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        return _settled_epsilon(tuple(charges), delta, neighboring_relation)


@lru_cache(maxsize=1024)
def _settled_epsilon(
    charges: tuple[ComposedCharge, ...], delta: float, neighboring_relation: NeighboringRelation
) -> float:
    """Refines the grid until epsilon settles, then compares it with the moments accountant's.

    Raises: PrivacyError if it does not settle within the work bound, or comes out above the moments accountant's
      without a selection to explain it.
    """
    relation = neighboring_relation
    if relation is NeighboringRelation.REPLACE_ONE and not any(isinstance(e, PoissonGaussian) for e, _ in charges):
        charges = tuple((_replaced(event), count) for event, count in charges)
        relation = NeighboringRelation.ZERO_OUT
    only = charges[0][0]
    if relation is NeighboringRelation.ZERO_OUT and isinstance(only, Gaussian) and charges == ((only, 1),):
        return float(gaussian_epsilon(np.array([delta]), noise_multiplier=only.noise_multiplier)[0])
    # Both by the same road: for replace-one, group privacy from each curve.
    if relation is NeighboringRelation.REPLACE_ONE:
        by_moments = replace_one_by_group(charges, delta=delta)
        # Group privacy asks the curve for a delta as small as this; what the grid cuts off must be smaller still.
        least_delta = delta / (1 + math.exp(min(by_moments / 2, 500.0)))
    else:
        by_moments = MOMENTS.get_epsilon(charges, delta=delta, neighboring_relation=relation)
        least_delta = delta
    problem = _Problem(
        acts=tuple(_read(event, count) for event, count in charges),
        delta=delta,
        neighboring_relation=relation,
        tail=max(1e-6 * least_delta / sum(count for _, count in charges), 1e-290),
    )
    epsilon = _settle(problem, removing=True)
    # The directions are near each other: what has settled in one mostly bounds the other one, on one grid, as well.
    other = epsilon_on_grid(problem, removing=False, cell=problem.choose_cell() / 4, near=epsilon)
    if other is None or other > epsilon:
        epsilon = max(epsilon, _settle(problem, removing=False))
    if any(isinstance(event, ExponentialSelection) for event, _ in charges):
        return min(epsilon, by_moments)
    if epsilon > by_moments + 4 * _LOSS_ROUNDING * sum(count for _, count in charges):
        raise PrivacyError(
            f"The pld accountant gave epsilon {epsilon:.6g}, above the {by_moments:.6g} of the moments accountant: its "
            "grid is too coarse for these settings, so no guarantee is issued with it."
        )
    return epsilon


def _replaced(event: PoissonGaussian | Gaussian | ExponentialSelection) -> Gaussian | ExponentialSelection:
    """The event whose zero-out is this unsampled event's replace-one."""
    if isinstance(event, ExponentialSelection):
        return ExponentialSelection(epsilon=loss_range(event, NeighboringRelation.REPLACE_ONE), replace_one_factor=1)
    if isinstance(event, Gaussian):
        return Gaussian(noise_multiplier=event.noise_multiplier / event.replace_one_factor, replace_one_factor=1)
    raise PrivacyError("A sampled event has no zero-out of the same law as its replace-one.")


def _read(event: PoissonGaussian | Gaussian | ExponentialSelection, count: int) -> "_Step | _Selection":
    """Reads an event under zero-out. Unsampled Gaussians compose to one with stddev over sqrt(count), exactly."""
    if isinstance(event, ExponentialSelection):
        return _Selection(length=event.epsilon, count=count)
    if isinstance(event, PoissonGaussian) and event.sampling_probability < 1:
        return _Step(sampling_probability=event.sampling_probability, stddev=event.noise_multiplier, count=count)
    return _Step(sampling_probability=1.0, stddev=event.noise_multiplier / math.sqrt(count), count=1)


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One kind of act in one dimension: a mixture of N(0, s^2) and N(1, s^2) against N(0, s^2), `count` times."""

    sampling_probability: float
    stddev: float
    count: int

    def typical_loss(self) -> float:
        """The scale of one act's loss, q sqrt(e^(1/s^2) - 1) where that is small; only sets the first grid."""
        growth = math.expm1(min(1 / self.stddev**2, 700.0))
        return min(0.25, self.sampling_probability * math.sqrt(growth))

    def loss(self, x: float) -> float:
        """Computes ln(1 - q + q e^((2x - 1)/(2 s^2))), the loss where the record's table is P."""
        q = self.sampling_probability
        exponent = (2 * x - 1) / (2 * self.stddev**2)
        if q == 1:
            return exponent
        if exponent > 0:
            return exponent + math.log(q + (1 - q) * math.exp(-exponent))
        return math.log1p(q * math.expm1(exponent))

    def where(self, losses: Floats) -> Floats:
        """Inverts `loss`; -inf where a loss is at or below its infimum ln(1 - q)."""
        q = self.sampling_probability
        if q == 1:
            exponents = losses
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                low = np.log1p(np.maximum(np.expm1(np.minimum(losses, 30.0)) / q, -1.0))
                high = losses - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(losses, 30.0)))
            exponents = np.where(losses > 30.0, high, low)
        return exponents * self.stddev**2 + 0.5

    def discretise(self, *, removing: bool, cell: float, tail: float) -> "_Losses | None":
        """Puts one step's losses on the grid, upwards: step 2 of the module. None if it needs too many points.

        Privacy: `removing` makes P the law with the record and Q the one without; otherwise the reverse, whose loss is
          the negative. At most `tail` of P's mass at each end is moved up: to the first point, or to infinity.
        """
        q, s = self.sampling_probability, self.stddev
        reach = -float(special.ndtri(tail)) * s
        low, high = self.loss(-reach), self.loss(1 + reach)
        if (high - low) / cell > MOST_POINTS or high > _LARGEST_LOSS:
            return None
        points = np.arange(math.floor(low / cell), math.ceil(high / cell) + 1, dtype=np.float64)
        borders = self.where(points * cell)
        zero, zero_error = _between(borders[:-1] / s, borders[1:] / s)
        one, one_error = _between((borders[:-1] - 1) / s, (borders[1:] - 1) / s)
        mixture, mixture_error = (1 - q) * zero + q * one, (1 - q) * zero_error + q * one_error
        below = (1 - q) * special.ndtr(borders[0] / s) + q * special.ndtr((borders[0] - 1) / s)
        above = (1 - q) * special.ndtr(-borders[-1] / s) + q * special.ndtr((1 - borders[-1]) / s)
        if removing:
            p, p_error, r, r_error = mixture, mixture_error, zero, zero_error
            infinite = above
            lower_ends = points[:-1] * cell
            first = int(points[0])
        else:
            # The same cells in the reverse order, with negative losses. Where the mixture is large, this loss is small.
            p, p_error, r, r_error = zero[::-1], zero_error[::-1], mixture[::-1], mixture_error[::-1]
            below, infinite = float(special.ndtr(-borders[-1] / s)), float(special.ndtr(borders[0] / s))
            lower_ends = -points[:0:-1] * cell
            first = -int(points[-1])
        masses = _spread(lower_ends, p, p_error=p_error, r=r, r_error=r_error, cell=cell)
        masses[0] += float(below) * (1 + 8 * UNIT)
        return _Losses(first=first, masses=masses, infinite=float(infinite) * (1 + 8 * UNIT))


@dataclass(frozen=True, kw_only=True)
class _Selection:
    """One kind of selection, `count` times: the module's pair for a loss within an interval of that length."""

    length: float
    count: int

    def typical_loss(self) -> float:
        """The scale of one act's loss; only sets the first grid."""
        return min(0.25, self.length / 2)

    def discretise(self, *, removing: bool, cell: float, tail: float) -> "_Losses | None":
        """The same of a selection, with masses of the module's density: alike in both directions, with no tail."""
        length = self.length
        if 2 * length / cell > MOST_POINTS or length > _LARGEST_LOSS:
            return None
        points = np.arange(math.floor(-length / cell), math.ceil(length / cell) + 1, dtype=np.float64)
        borders = np.clip(points * cell, -length, length)
        growth = np.expm1(np.diff(borders) / 2) / -math.expm1(-length)
        p, r = np.exp((borders[:-1] - length) / 2) * growth, np.exp(-(borders[1:] + length) / 2) * growth
        # A border is off by some units in its own last place, which an outermost cell may be narrow enough to feel.
        error = 16 * UNIT * (1 + length * (1 + 1 / cell))
        masses = _spread(points[:-1] * cell, p, p_error=error * p, r=r, r_error=error * r, cell=cell)
        return _Losses(first=int(points[0]), masses=masses, infinite=0.0)


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The problem: the epsilon of `acts` at `delta`. `tail`: the mass that one act's grid may cut off."""

    acts: tuple[_Step | _Selection, ...]
    delta: float
    neighboring_relation: NeighboringRelation
    tail: float

    def choose_cell(self) -> float:
        """The cell of the first grid: a quarter of the scale of one act's loss."""
        # Spreading adds at most a quarter of a squared cell to each act's variance: measured against all acts together.
        acts = sum(act.count for act in self.acts)
        return math.sqrt(sum(act.count * act.typical_loss() ** 2 for act in self.acts) / acts) / 4


def _settle(problem: _Problem, *, removing: bool) -> float:
    """Halves the cell until epsilon in one direction settles.

    Raises: PrivacyError if that does not happen within the work bound.
    """
    cell, previous = problem.choose_cell(), math.inf
    while True:
        epsilon = epsilon_on_grid(problem, removing=removing, cell=cell, near=previous)
        if epsilon is None or math.isinf(epsilon):
            raise PrivacyError(
                f"The pld accountant did not settle on an epsilon within {MOST_POINTS} grid points for these settings."
            )
        if epsilon == 0 or abs(previous - epsilon) <= SETTLED * epsilon:
            return min(previous, epsilon)
        previous, cell = epsilon, cell / 2


def _between(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Computes Phi(high) - Phi(low), and how much rounding may have taken from or added to it."""
    upper_half = low > 0
    far = np.where(upper_half, special.ndtr(-low), special.ndtr(high))
    near = np.where(upper_half, special.ndtr(-high), special.ndtr(low))
    return far - near, 8 * UNIT * far


@dataclass(frozen=True, kw_only=True)
class _Losses:
    """A law of losses on a grid: `masses[i]` at `(first + i) * cell`, and the rest of it at infinity."""

    first: int
    masses: Floats
    infinite: float


def _spread(lower_ends: Floats, p: Floats, *, p_error: Floats, r: Floats, r_error: Floats, cell: float) -> Floats:
    """Spreads each cell's P-mass over its two ends so that its Q-mass `r` is kept, erring to the upper end."""
    p = p + p_error
    # y at the upper end, p - y at the lower one: y e^-upper + (p - y) e^-lower = r.
    ratio = np.exp(lower_ends)
    at_upper = (p - r * ratio + p_error + (r_error + 4 * UNIT * r) * ratio) / -math.expm1(-cell)
    at_upper = np.minimum(np.maximum(at_upper, 0.0), p)
    masses = np.zeros(p.size + 1)
    masses[1:] += at_upper
    masses[:-1] += p - at_upper
    return masses


def epsilon_on_grid(problem: _Problem, *, removing: bool, cell: float, near: float = math.inf) -> float | None:
    """Bounds epsilon in one direction on one grid: steps 2 and 3 of the module. None if it needs too many points.

    A finite `near` says where epsilon is looked for first; it only decides how soon it is found.
    """
    delta = problem.delta
    acts = sum(act.count for act in problem.acts)
    laws = []
    for act in problem.acts:
        law = act.discretise(removing=removing, cell=cell, tail=problem.tail)
        if law is None:
            return None
        laws.append((law, act.count))
    infinite = sum(count * law.infinite for law, count in laws)
    cumulants = _Cumulants(laws, cell)
    replacing = problem.neighboring_relation is NeighboringRelation.REPLACE_ONE

    def allowed(epsilons: Floats) -> Floats:
        """The delta that is allowed at each epsilon of the zero-out curve."""
        return delta / (1 + np.exp(np.minimum(epsilons, 700.0))) if replacing else np.full_like(epsilons, delta)

    # The tilt is placed by what is known of the answer or by the Chernoff bound; then by the answer if elsewhere.
    guess = near / 2 if replacing else near
    if math.isinf(near):
        guess = cumulants.chernoff_epsilon(delta)
        if replacing:
            for _ in range(3):
                guess = cumulants.chernoff_epsilon(float(allowed(np.array([guess]))[0]))
    epsilon = math.inf
    for _ in range(2):
        found = _epsilon_by_tilting(laws, cumulants, cell=cell, infinite=infinite, near=guess, allowed=allowed)
        if found is None:
            return None
        epsilon = min(epsilon, found)
        if not 0 < epsilon < math.inf or abs(epsilon - guess) <= _NEAR * epsilon:
            break
        guess = epsilon
    epsilon += acts * _LOSS_ROUNDING
    return 2 * epsilon if replacing else epsilon


class _Cumulants:
    """The logarithm of the mean of e^(t loss) of the composed law, and its slope."""

    def __init__(self, laws: Sequence[tuple[_Losses, int]], cell: float) -> None:
        self._laws = [
            (np.log(np.maximum(law.masses, 1e-320)), (law.first + np.arange(law.masses.size)) * cell, count)
            for law, count in laws
        ]

    def of_each(self, tilt: float) -> list[float]:
        """ln mean e^(t loss) of one act of each law."""
        return [log_sum_exp(log_masses + tilt * losses) for log_masses, losses, _ in self._laws]

    def total(self, tilt: float) -> float:
        """ln mean e^(t loss) of everything."""
        return sum(count * value for (_, _, count), value in zip(self._laws, self.of_each(tilt), strict=True))

    def slope(self, tilt: float) -> float:
        """The mean of the composed loss under the law tilted by e^(t loss)."""
        result = 0.0
        for log_masses, losses, count in self._laws:
            terms = log_masses + tilt * losses
            terms -= terms.max()
            weights = np.exp(terms, out=terms)
            result += count * float(weights @ losses) / float(weights.sum())
        return result

    def variance(self, tilt: float) -> float:
        """The variance of the composed loss under the law tilted by e^(t loss)."""
        result = 0.0
        for (log_masses, losses, count), value in zip(self._laws, self.of_each(tilt), strict=True):
            weights = np.exp(log_masses + tilt * losses - value)
            mean = float(np.sum(weights * losses))
            result += count * float(np.sum(weights * (losses - mean) ** 2))
        return result

    def chernoff_epsilon(self, delta: float) -> float:
        """The epsilon at which the Chernoff bound on the loss's tail is `delta`; only a place to look at."""
        # (ln mean e^(t loss) - ln delta)/t falls as long as t times the slope is below that numerator.
        lower, upper = 1e-3, 1e6
        while upper > 1.05 * lower:
            tilt = math.sqrt(lower * upper)
            falls = tilt * self.slope(tilt) < self.total(tilt) - math.log(delta)
            lower, upper = (tilt, upper) if falls else (lower, tilt)
        return max(0.0, (self.total(upper) - math.log(delta)) / upper)

    def tilt_to(self, mean: float) -> float:
        """Finds the tilt at which the composed loss has about that mean. Any tilt gives a valid bound."""
        lower, upper = 1e-6, 1.0
        while self.slope(upper) < mean and upper < 1e7:
            lower, upper = upper, 2 * upper
        while upper > 1.01 * lower:
            middle = math.sqrt(lower * upper)
            lower, upper = (middle, upper) if self.slope(middle) < mean else (lower, middle)
        return upper


def _epsilon_by_tilting(
    laws: Sequence[tuple[_Losses, int]],
    cumulants: _Cumulants,
    *,
    cell: float,
    infinite: float,
    near: float,
    allowed: Callable[[Floats], Floats],
) -> float | None:
    """Finds the least grid epsilon of at least 0 whose delta, bounded from above, is allowed: step 3 of the module.

    Infinite if there is none in the window, None if the window needs too many points.
    """
    tilt = cumulants.tilt_to(near)
    each, mean, deviation = cumulants.of_each(tilt), cumulants.slope(tilt), math.sqrt(cumulants.variance(tilt))
    total = sum(count * value for (_, count), value in zip(laws, each, strict=True))
    half = 12 * deviation + 4 * cell
    size = fft.next_fast_len(2 * math.ceil(half / cell) + 1, real=True)
    if size > MOST_POINTS or not math.isfinite(half):
        return None
    start = math.floor(mean / cell) - size // 2
    losses = (start + np.arange(size)) * cell
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for (law, count), value in zip(laws, each, strict=True):
        at = law.first + np.arange(law.masses.size)
        with np.errstate(divide="ignore"):
            tilted = np.exp(np.log(law.masses) + tilt * at * cell - value)
        # Everything outside the window wraps around into it, which only adds to what is there.
        transform *= fft.rfft(np.bincount(at % size, weights=tilted, minlength=size)) ** count
    composed = np.roll(fft.irfft(transform, size), -(start % size))
    # What the window's upper end leaves out, by Chernoff at some tilts: where epsilon is near 0 the tilt says nothing.
    tilts = [tilt * factor for factor in (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)]
    if cell < deviation < 1 / tilt:
        tilts += [2.0**power / deviation for power in range(-4, 3)]
    beyond = min(cumulants.total(other) - other * losses[-1] for other in tilts)
    # delta(e) = sum over l > e of (1 - e^(e - l)) e^(total - tilt l) composed(l), scaled by e^(tilt e - total).
    weights = np.maximum(composed, 0.0)
    scale = total - tilt * losses
    acts = sum(count for _, count in laws)
    relative_error = 8 * UNIT * math.log2(size) * (1 + acts)
    noise = relative_error * float(np.linalg.norm(composed)) / math.sqrt(-math.expm1(-2 * tilt * cell))
    upper, shifted = _suffix_sums(weights, tilt * cell), _suffix_sums(weights, (1 + tilt) * cell)
    missing = math.exp(min(0.0, beyond)) + infinite
    # Far below the window's middle the factor overflows; such a point counts as not good, a lost bound as well.
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.exp(scale)
        slack = factor * ((16 + 2 * size) * UNIT * upper + noise) + missing
        # The sums start at the loss e itself, whose own term is 0.
        deltas = factor * np.maximum(upper - shifted, 0.0) + slack
    enough = allowed(losses)
    good = (losses >= 0) & (deltas <= enough)
    if not np.any(good):
        return math.inf
    j = int(np.argmax(good))
    if j == 0 or losses[j] == 0 or not math.isfinite(slack[j - 1]) or not factor[j] * shifted[j] > 0:
        return float(losses[j])
    # Between two points of the grid delta(e) = factor (upper - e^(e - loss_j) shifted), with the sums of j; the slack
    # of the point below and the allowance of the point above are the worse ones.
    share = (upper[j] - (enough[j] - slack[j - 1]) / factor[j]) / shifted[j]
    if not share > 0:
        return float(losses[j])
    inside = losses[j] + math.log(share) + 1e-12 * (1 + losses[j])
    return float(min(losses[j], max(inside, losses[j - 1], 0.0)))


def _suffix_sums(weights: Floats, decay: float) -> Floats:
    """Computes sum over j >= i of weights[j] e^(-decay (j - i)) for every i, without leaving the range of floats.

    Each step back rounds twice, by at most UNIT of the sum there, and all terms are at least 0: the result is off by at
    most 2 UNIT times the number of weights, relatively.
    """
    # The sums solve s[i] - e^-decay s[i + 1] = weights[i], from the last one back. The recursive filter of scipy.signal
    # would do the same; its import alone takes longer than a plan.
    bands = np.vstack([np.full(weights.size, -math.exp(-decay)), np.ones(weights.size)])
    result: Floats = linalg.solve_banded((0, 1), bands, weights, overwrite_ab=True, check_finite=False)
    return result


PLD = PldAccountant()
