"""What epsilon and delta mean for an attacker: how often he can be right about one unit, at most.

The attacker knows two neighbouring tables, the method and every setting, sees the release, and says which table it was
made from. If (epsilon, delta) holds, his power at a share a of false alarms is at most

    1 - f(a),  f(a) = max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))

(Wasserman and Zhou 2010, Theorem 2.4; Dong, Roth, Su 2019, arXiv:1905.02383, Proposition 2.4). If both tables are as
likely, he is right with probability 1 - min over a of (a + f(a))/2, which is at a = f(a): (e^epsilon + delta)/(1 +
e^epsilon) (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Theorem 4 and its remark on total variation). A ledger proves
one epsilon for every delta, and all of them hold together: the least of their bounds is one. With the pld accountant
that is the trade-off curve itself, but for its grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpwgan.errors import PrivacyError

FALSE_ALARMS = 0.05
_LOWEST, _HIGHEST, _LOOKS = -16.0, 9.0, 10
"""Where ln(delta/(1 - delta)) is looked at, and how often: delta from 1e-7 to 0.9999."""

_UPWARDS = 1 + 1e-12
"""What rounding may have taken off, and thousands of times more."""


def bound_guess(epsilon: float, delta: float) -> float:
    """How often at most a guess between two equally likely tables is right, if (epsilon, delta) holds."""
    if math.isinf(epsilon):
        return 1.0
    unlikely = math.exp(-epsilon)
    return min(1.0, (1 + delta * unlikely) / (1 + unlikely) * _UPWARDS)


def bound_power(epsilon: float, delta: float, *, false_alarms: float = FALSE_ALARMS) -> float:
    """Bounds how often an attacker finds what is there, at a given share of false alarms."""
    growth = math.exp(min(epsilon, 700.0))
    return min(1.0, (growth * false_alarms + delta) * _UPWARDS, (1 - (1 - delta - false_alarms) / growth) * _UPWARDS)


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """The most that an attacker can reach who holds two tables equally likely; `proof` says what the bounds rest on.

    `right`: how often a guess is right. `sure`: how sure he is afterwards, but for a chance of delta over the release.
    `power`: how often he finds what is there, with 5% of false alarms.
    """

    right: float
    sure: float
    power: float
    proof: str


def judge_attacker(
    ask: Callable[[float], float] | None = None, *, epsilon: float, delta: float, accountant: str = ""
) -> Attacker:
    """Bounds an attacker by what is proved: `epsilon` at `delta`, and what `ask` gives at any other delta.

    Privacy: each bound holds by itself, wherever the search for the least one ends. Looks at charges alone.
    Raises: whatever `ask` raises but PrivacyError, which stands for no answer.
    """
    pairs = [(epsilon, delta)]

    def find(at: float) -> tuple[float, float]:
        try:
            found = ask(at) if ask is not None else math.inf
        except PrivacyError:  # an accountant that finds no number: nothing is proved there
            found = math.inf
        if math.isfinite(found):
            pairs.append((found, at))
        return found, at

    if delta > 0 and ask is not None:
        _search(lambda logit: bound_guess(*find(1 / (1 + math.exp(-logit)))))
        _search(lambda logit: bound_power(*find(1 / (1 + math.exp(-logit)))))
    return Attacker(
        right=min(bound_guess(*pair) for pair in pairs),
        sure=_bound_certainty(find, delta) if delta > 0 else bound_guess(epsilon, 0.0),
        power=min(bound_power(*pair) for pair in pairs),
        proof="epsilon and delta alone"
        if len(pairs) == 1
        else f"epsilon at every delta, by the {accountant} accountant",
    )


def _bound_certainty(find: Callable[[float], tuple[float, float]], delta: float) -> float:
    """How sure at most, but for a chance of `delta` whichever table it was; 1 where nothing is proved.

    Let the loss be ln P/Q, and (e, d) hold both ways. P(loss > x) <= d/(1 - e^(e - x)) for x > e, since d >= the P-mean
    of 1 - e^(e - loss) above x. At x = e - ln(1 - 2 d/delta) that is delta/2. P(-loss > x) <= e^-x Q(-loss > x) is no
    more, and both together are at most delta; and the same with P and Q exchanged. Even odds have become e^x then.
    """
    for share in (1 / 32, 1 / 8, 1 / 4, 0.4):
        epsilon, _ = find(share * delta)
        if math.isfinite(epsilon):
            return bound_guess(epsilon - math.log1p(-2 * share), 0.0)
    return 1.0


def _search(bound: Callable[[float], float]) -> None:
    """Looks for the least of a bound, which falls with delta and then rises, by golden section."""
    golden, low, high = (math.sqrt(5) - 1) / 2, _LOWEST, _HIGHEST
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = bound(left), bound(right)
    for _ in range(_LOOKS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = bound(right)
