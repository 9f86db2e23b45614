"""How much noise, or how many steps: searched by bisection, checked from the private side, never assumed."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Charge, poisson_gaussian

LEAST_NOISE_MULTIPLIER = 0.01
"""Below this nothing is gained: the noise is already a hundredth of one record's part in the sum."""

MOST_NOISE_MULTIPLIER = 1e7
"""Above this nothing can be learnt from any table that fits a machine."""

LEAST_NOISE_SCALE = 1e-6
"""A family of charges is not looked at below this scale."""

MOST_NOISE_SCALE = 1e12
"""A family of charges that needs more than this cannot be met: its own unit is to be near what is needed."""

_FIRST_STEP = 1.05
"""By what factor the search moves away from where it began, at least; squared with every further step."""

_MOST_ROUNDS = 200
"""Halvings every fourth round end any search long before; an accountant that is broken must not hang the run."""

MOST_STEPS = 100_000_000
"""The most steps that `steps_for` looks for: years of training."""


def noise_multiplier_for(
    *,
    accountant: Accountant,
    budget: Budget,
    sampling_probability: float,
    steps: int,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
    near: float = 1.0,
) -> float:
    """Finds the least noise multiplier, to four significant digits, with which `steps` critic steps fit the budget.

    Privacy: the answer was itself put to the accountant together with `other_charges`, and the epsilon that came
      back is at most the budget's. Rounding and an early end of the search only ever add noise. The search begins at
      `near`, which decides how soon it ends.
    Units: noise stddev over the L2 clip norm; no unit.
    Raises: PrivacyError if the other charges leave nothing, or more than `MOST_NOISE_MULTIPLIER` would be needed.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise PrivacyError(f"steps must be a whole number of at least 1; it is {steps!r}.")

    def charges(noise_multiplier: float) -> Sequence[Charge]:
        event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise_multiplier)
        return ((event, steps),)

    return _least_noise(
        charges,
        accountant=accountant,
        budget=budget,
        neighboring_relation=neighboring_relation,
        other_charges=other_charges,
        near=near,
        least=LEAST_NOISE_MULTIPLIER,
        most=MOST_NOISE_MULTIPLIER,
        needs=f"{steps} steps at sampling probability {sampling_probability:.3g} would need a noise multiplier",
    )


def noise_scale_for(
    *,
    accountant: Accountant,
    budget: Budget,
    charges: Callable[[float], Sequence[Charge]],
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
    near: float = 1.0,
) -> float:
    """Finds the least noise scale, to four significant digits, with which a whole family of charges fits the budget.

    `charges` gives the family at a scale; it must get noisier as the scale grows. The search begins at `near`.
    Privacy: the answer was itself put to the accountant together with `other_charges`, and the epsilon that came
      back is at most the budget's, whether the family grows noisier or not.
    Raises: PrivacyError if the other charges leave nothing, or more than `MOST_NOISE_SCALE` would be needed.
    """
    return _least_noise(
        charges,
        accountant=accountant,
        budget=budget,
        neighboring_relation=neighboring_relation,
        other_charges=other_charges,
        near=near,
        least=LEAST_NOISE_SCALE,
        most=MOST_NOISE_SCALE,
        needs="the planned releases would need a noise scale",
    )


def _least_noise(
    charges: Callable[[float], Sequence[Charge]],
    *,
    accountant: Accountant,
    budget: Budget,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
    near: float,
    least: float,
    most: float,
    needs: str,
) -> float:
    """Searches for the least number between two bounds whose charges fit; see `noise_multiplier_for`."""

    def ask(noise: float) -> float:
        try:
            return accountant.get_epsilon(
                (*other_charges, *charges(noise)), delta=budget.delta, neighboring_relation=neighboring_relation
            )
        except PrivacyError:
            # The accountant gives no number for this noise, so this noise does not fit the budget.
            return math.inf

    _refuse_if_already_over(accountant, budget, neighboring_relation, other_charges)
    target = budget.epsilon
    lower, lower_epsilon, upper, upper_epsilon = _bracket(ask, target=target, near=near, least=least, most=most)
    if upper_epsilon > target:
        raise PrivacyError(
            f"The budget of epsilon {budget.epsilon:g} at delta {budget.delta:g} cannot be met with the "
            f"{accountant.name} accountant: {needs} above {most:g}."
        )
    # Only numbers of four significant digits are looked at; the search is over when both ends are neighbours there.
    # The next guess is on the line through the two best points so far; every fourth round halves instead, so that a
    # curve that no line fits cannot hold the search up.
    best, second = (lower, lower_epsilon), (upper, upper_epsilon)
    round_number = 0
    while _next_up(lower) < upper:
        round_number += 1
        if round_number > _MOST_ROUNDS:
            raise PrivacyError(f"The search for the noise with the {accountant.name} accountant did not end.")
        middle = math.sqrt(lower * upper) if round_number % 4 == 0 else _on_the_line(best, second, target=target)
        middle = _round_up(min(max(middle, lower), upper))
        middle = min(max(middle, _next_up(lower)), _next_down(upper))
        epsilon = ask(middle)
        best, second = (middle, epsilon), best
        if epsilon <= target:
            upper, upper_epsilon = middle, epsilon
        else:
            lower, lower_epsilon = middle, epsilon
    return upper


def steps_for(
    *,
    noise_multiplier: float,
    accountant: Accountant,
    budget: Budget,
    sampling_probability: float,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
    at_most: int = MOST_STEPS,
    near: int = 1,
) -> int:
    """Finds the largest number of critic steps, up to `at_most`, that fits the budget at a given noise; may be 0.

    The search begins at `near`, which decides how soon it ends.
    Privacy: the answer was itself put to the accountant together with `other_charges`.
    Raises: PrivacyError if the other charges alone pass the budget.
    """
    event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise_multiplier)

    def fits(steps: int) -> bool:
        charges = (*other_charges, (event, steps))
        try:
            epsilon = accountant.get_epsilon(charges, delta=budget.delta, neighboring_relation=neighboring_relation)
        except PrivacyError:
            # The accountant gives no number for this many steps, so they do not fit the budget.
            return False
        return epsilon <= budget.epsilon

    _refuse_if_already_over(accountant, budget, neighboring_relation, other_charges)
    if at_most < 1 or not fits(1):
        return 0
    if fits(at_most):
        return at_most
    lower, upper = 1, at_most
    guess, growth = max(2, near), 1.1 if near > 1 else 2.0
    while guess < upper:
        if not fits(guess):
            upper = guess
        else:
            lower, guess, growth = guess, math.ceil(growth * guess), growth * growth
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if fits(middle):
            lower = middle
        else:
            upper = middle
    return lower


def _refuse_if_already_over(
    accountant: Accountant,
    budget: Budget,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
) -> None:
    if not other_charges:
        return
    epsilon = accountant.get_epsilon(other_charges, delta=budget.delta, neighboring_relation=neighboring_relation)
    if not epsilon < budget.epsilon:
        raise PrivacyError(
            f"The charges besides training cost epsilon {epsilon:.4g} and leave nothing of the budget of epsilon "
            f"{budget.epsilon:g} at delta {budget.delta:g} for training."
        )


def _bracket(
    ask: Callable[[float], float], *, target: float, near: float, least: float, most: float
) -> tuple[float, float, float, float]:
    """Finds a noise that is too small and one that is enough, each with its epsilon.

    The steps assume that epsilon falls about as 1/noise, and grow where it does not; they only decide how soon the
    search ends. If even `least` is enough, both ends are that one; if `most` is not, both are that.
    """
    noise = _round_up(min(max(near, least), most))
    epsilon = ask(noise)
    step = _FIRST_STEP
    if epsilon <= target:
        while True:
            upper, upper_epsilon = noise, epsilon
            if upper <= least:
                return upper, upper_epsilon, upper, upper_epsilon
            factor = 4.0 if epsilon <= 0 else min(4.0, max(step, 1.05 * math.sqrt(target / epsilon)))
            noise = _round_up(max(least, upper / factor))
            step *= step
            epsilon = ask(noise)
            if epsilon > target:
                return noise, epsilon, upper, upper_epsilon
    while True:
        lower, lower_epsilon = noise, epsilon
        if lower >= most:
            return lower, lower_epsilon, lower, lower_epsilon
        factor = 16.0 if math.isinf(epsilon) else min(16.0, max(step, 1.05 * epsilon / target))
        noise = _round_up(min(most, lower * factor))
        step *= step
        epsilon = ask(noise)
        if epsilon <= target:
            return lower, lower_epsilon, noise, epsilon


def _on_the_line(best: tuple[float, float], second: tuple[float, float], *, target: float) -> float:
    """Guesses where epsilon meets `target` by the straight line, in logarithms, through two points."""
    (x, epsilon), (other_x, other_epsilon) = best, second
    middle = math.sqrt(x * other_x)
    if not all(math.isfinite(e) and e > 0 for e in (epsilon, other_epsilon)) or epsilon == other_epsilon:
        return middle
    slope = math.log(other_epsilon / epsilon) / math.log(other_x / x)
    exponent = math.log(target / epsilon) / slope
    return x * math.exp(min(20.0, max(-20.0, exponent)))


def _round_up(noise_multiplier: float) -> float:
    """Rounds up to four significant digits."""
    # repr is the shortest decimal that reads back as the same float: a number of four digits stays what it is.
    exact = Decimal(repr(noise_multiplier))
    exponent = exact.adjusted() - 3
    return float(Decimal(math.ceil(exact.scaleb(-exponent))).scaleb(exponent))


def _next_up(noise_multiplier: float) -> float:
    """Gives the next larger number of four significant digits."""
    return _round_up(math.nextafter(noise_multiplier, math.inf))


def _next_down(noise_multiplier: float) -> float:
    """Gives the next smaller number of four significant digits, for one that has four."""
    exact = Decimal(repr(noise_multiplier))
    exponent = exact.adjusted() - 3
    if exact == Decimal(1000).scaleb(exponent):
        exponent -= 1
    return float(Decimal(math.ceil(exact.scaleb(-exponent)) - 1).scaleb(exponent))
