"""Searches for the least noise, or the most steps, within a budget; the accountant checks every answer."""

import math
from collections.abc import Callable
from decimal import Decimal

from dpwgan.errors import PrivacyError

_FIRST_STEP = 1.05
"""By what factor the search moves away from where it began, at least; squared with every further step."""

_MOST_ROUNDS = 200
"""Halvings every fourth round end any search long before; an accountant that is broken must not hang the run."""


def find_least_noise(
    ask: Callable[[float], float], *, target: float, near: float, least: float, most: float
) -> float | None:
    """Finds the least noise, to four significant digits, whose epsilon is at most `target`; None if it is above `most`.

    `near` is where the search begins, which decides how soon it ends.
    Privacy: the answer was itself asked for, and the epsilon that came back is at most `target`, whether epsilon falls
      with noise or not. Rounding and an early end of the search only ever add noise.
    """
    lower, lower_epsilon, upper, upper_epsilon = _bracket(ask, target=target, near=near, least=least, most=most)
    if upper_epsilon > target:
        return None
    # Only numbers of four significant digits are looked at; the search is over when both ends are neighbours there.
    # The next guess is on the line through the two best points so far; every fourth round halves instead, so that a
    # curve that no line fits cannot hold the search up.
    best, second = (lower, lower_epsilon), (upper, upper_epsilon)
    round_number = 0
    while _next_up(lower) < upper:
        round_number += 1
        if round_number > _MOST_ROUNDS:
            raise PrivacyError("The search for the noise did not end.")
        middle = math.sqrt(lower * upper) if round_number % 4 == 0 else _on_the_line(best, second, target=target)
        middle = _round_up(min(max(middle, lower), upper))
        middle = min(max(middle, _next_up(lower)), _next_down(upper))
        epsilon = ask(middle)
        best, second = (middle, epsilon), best
        if epsilon <= target:
            upper = middle
        else:
            lower = middle
    return upper


def find_most_steps(fits: Callable[[int], bool], *, at_most: int, near: int) -> int:
    """Finds the largest number of steps that fits, up to `at_most`; may be 0. The search begins at `near`."""
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
        lower, upper = (middle, upper) if fits(middle) else (lower, middle)
    return lower


def _bracket(
    ask: Callable[[float], float], *, target: float, near: float, least: float, most: float
) -> tuple[float, float, float, float]:
    """Finds a noise that is too small and one that is enough, each with its epsilon.

    The steps assume that epsilon falls about as 1/noise, and grow where it does not; they only decide how soon the
    search ends. If even `least` is enough, both ends are that one; if `most` is not, both are that.
    """
    noise = _round_up(min(max(near, least), most))
    epsilon, step = ask(noise), _FIRST_STEP
    enough = epsilon <= target
    while True:
        last = noise, epsilon
        if noise <= least if enough else noise >= most:
            return (*last, *last)
        if enough:
            factor = 4.0 if epsilon <= 0 else min(4.0, max(step, 1.05 * math.sqrt(target / epsilon)))
            noise = _round_up(max(least, noise / factor))
        else:
            factor = 16.0 if math.isinf(epsilon) else min(16.0, max(step, 1.05 * epsilon / target))
            noise = _round_up(min(most, noise * factor))
        step *= step
        epsilon = ask(noise)
        if (epsilon <= target) is not enough:
            return (noise, epsilon, *last) if enough else (*last, noise, epsilon)


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
    """The next larger number of four significant digits."""
    return _round_up(math.nextafter(noise_multiplier, math.inf))


def _next_down(noise_multiplier: float) -> float:
    """The next smaller number of four significant digits, for one that has four."""
    exact = Decimal(repr(noise_multiplier))
    exponent = exact.adjusted() - 3
    if exact == Decimal(1000).scaleb(exponent):
        exponent -= 1
    return float(Decimal(math.ceil(exact.scaleb(-exponent)) - 1).scaleb(exponent))
