"""Which accountant to use for this budget, and the sentence that says why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dpwgan.accounting.accountant import Accountant
from dpwgan.accounting.amortized import AMORTIZED
from dpwgan.accounting.budget import Budget, NeighboringRelation
from dpwgan.accounting.calibrate import noise_multiplier_for, steps_for
from dpwgan.accounting.events import Charge, poisson_gaussian
from dpwgan.accounting.moments import MOMENTS
from dpwgan.accounting.pld import PLD
from dpwgan.errors import PrivacyError, UsageError

RULES = ("auto", "paper", "moments", "amortized", "pld")
"""`auto`: of moments and amortized, the one that needs less noise. `paper`: a fixed threshold. The rest: that one."""

ACCOUNTANTS: dict[str, Accountant] = {accountant.name: accountant for accountant in (MOMENTS, AMORTIZED, PLD)}
"""Every accountant by its name."""

PAPER_THRESHOLD = 0.7
"""The 2018 UCLANESL entry used the amortized accountant up to this epsilon, the moments accountant above it."""

_AUTO = (MOMENTS, AMORTIZED)


class Alternative(NamedTuple):
    """What another accountant would have said: the noise it asks for, and its epsilon at the noise that is used.

    Either may be infinite: that accountant cannot meet the budget, or proves nothing at that noise.
    """

    accountant: Accountant
    noise_multiplier: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class AccountantChoice:
    """The accountant, the noise and the number of steps of a run, and why.

    `reason` is one sentence for the log. `alternatives` holds what the other accountants would have said.
    """

    accountant: Accountant
    rule: str
    budget: Budget
    neighboring_relation: NeighboringRelation
    sampling_probability: float
    steps: int
    noise_multiplier: float
    other_charges: tuple[Charge, ...]
    reason: str
    alternatives: tuple[Alternative, ...]

    def charges(self) -> tuple[Charge, ...]:
        """Gives everything that the budget has to pay for: the other charges and the critic's steps."""
        event = poisson_gaussian(sampling_probability=self.sampling_probability, noise_multiplier=self.noise_multiplier)
        return (*self.other_charges, (event, self.steps))

    def epsilon(self) -> float:
        """Gives the epsilon that the chosen accountant reports for all charges; at most the budget's."""
        return self.accountant.get_epsilon(
            self.charges(), delta=self.budget.delta, neighboring_relation=self.neighboring_relation
        )


def get_accountant(name: str) -> Accountant:
    """Finds an accountant by its name. Raises: UsageError for a name that is none."""
    if name not in ACCOUNTANTS:
        raise UsageError(f"The accountant must be one of {', '.join(ACCOUNTANTS)}; it is {name!r}.")
    return ACCOUNTANTS[name]


def choose_accountant(
    rule: str,
    *,
    budget: Budget,
    sampling_probability: float,
    steps: int,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
) -> AccountantChoice:
    """Chooses the accountant for `steps` critic steps, and the least noise with which it meets the budget.

    Privacy: looks at public numbers only, and the budget is met by the chosen accountant alone. Taking the better of
      two proved bounds is itself proved, since the choice does not depend on the rows.
    Raises: UsageError for an unknown rule, PrivacyError if the budget cannot be met.
    """
    _refuse_unknown_rule(rule)
    others = tuple(other_charges)
    noise: dict[str, float] = {}
    refusals: dict[str, PrivacyError] = {}
    for accountant in ACCOUNTANTS.values():
        try:
            noise[accountant.name] = noise_multiplier_for(
                accountant=accountant,
                budget=budget,
                sampling_probability=sampling_probability,
                steps=steps,
                neighboring_relation=neighboring_relation,
                other_charges=others,
            )
        except PrivacyError as error:
            noise[accountant.name] = math.inf
            refusals[accountant.name] = error
    chosen = _choose(rule, budget, noise)
    if math.isinf(noise[chosen.name]):
        raise refusals[chosen.name]
    event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise[chosen.name])
    charges = (*others, (event, steps))
    alternatives = tuple(
        _ask(accountant, charges, noise[accountant.name], budget, neighboring_relation)
        for accountant in ACCOUNTANTS.values()
        if accountant is not chosen
    )
    return AccountantChoice(
        accountant=chosen,
        rule=rule,
        budget=budget,
        neighboring_relation=neighboring_relation,
        sampling_probability=sampling_probability,
        steps=steps,
        noise_multiplier=noise[chosen.name],
        other_charges=others,
        reason=_reason_by_noise(rule, chosen, budget, noise),
        alternatives=alternatives,
    )


def choose_accountant_for_noise(
    rule: str,
    *,
    budget: Budget,
    noise_multiplier: float,
    sampling_probability: float,
    at_most_steps: int,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
) -> AccountantChoice:
    """Chooses the accountant for a given noise, and the largest number of steps with which it meets the budget.

    `auto` takes, of moments and amortized, the one that allows more steps, and at a tie the one that reports less.
    The choice's `steps` is at most `at_most_steps`.
    Raises: UsageError for an unknown rule, PrivacyError if not one step fits the budget.
    """
    _refuse_unknown_rule(rule)
    others = tuple(other_charges)
    # Counting steps asks an accountant some thirty times, so pld is counted only where it decides.
    asked = (*_AUTO, PLD) if rule == "pld" else _AUTO
    steps: dict[str, int] = {}
    for accountant in asked:
        steps[accountant.name] = steps_for(
            noise_multiplier=noise_multiplier,
            accountant=accountant,
            budget=budget,
            sampling_probability=sampling_probability,
            neighboring_relation=neighboring_relation,
            other_charges=others,
            at_most=at_most_steps,
        )
    event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise_multiplier)

    def reported(accountant: Accountant) -> float:
        charges = (*others, (event, steps[accountant.name]))
        return accountant.get_epsilon(charges, delta=budget.delta, neighboring_relation=neighboring_relation)

    if rule == "auto":
        chosen: Accountant = min(_AUTO, key=lambda accountant: (-steps[accountant.name], reported(accountant)))
    else:
        chosen = _by_paper(budget) if rule == "paper" else get_accountant(rule)
    if steps[chosen.name] < 1:
        raise PrivacyError(
            f"Not one step at noise multiplier {noise_multiplier:g} and sampling probability "
            f"{sampling_probability:.3g} fits the budget of epsilon {budget.epsilon:g} at delta {budget.delta:g} "
            f"by the {chosen.name} accountant."
        )
    charges = (*others, (event, steps[chosen.name]))
    alternatives = tuple(
        _ask(
            accountant,
            charges,
            _needed_noise(
                accountant,
                budget=budget,
                sampling_probability=sampling_probability,
                steps=steps[chosen.name],
                neighboring_relation=neighboring_relation,
                other_charges=others,
            ),
            budget,
            neighboring_relation,
        )
        for accountant in ACCOUNTANTS.values()
        if accountant is not chosen
    )
    allowed = " and ".join(f"{steps[accountant.name]} by {accountant.name}" for accountant in asked)
    why = {
        "auto": f"of moments and amortized, {chosen.name} allows at least as many steps",
        "paper": _paper_words(budget, chosen),
    }.get(rule, f"{chosen.name} was asked for")
    return AccountantChoice(
        accountant=chosen,
        rule=rule,
        budget=budget,
        neighboring_relation=neighboring_relation,
        sampling_probability=sampling_probability,
        steps=steps[chosen.name],
        noise_multiplier=noise_multiplier,
        other_charges=others,
        reason=(
            f"{why}: at noise multiplier {noise_multiplier:g} the budget of epsilon {budget.epsilon:g} allows "
            f"{allowed} (of at most {at_most_steps})."
        ),
        alternatives=alternatives,
    )


def _refuse_unknown_rule(rule: str) -> None:
    if rule not in RULES:
        raise UsageError(f"The accountant must be one of {', '.join(RULES)}; it is {rule!r}.")


def _by_paper(budget: Budget) -> Accountant:
    return AMORTIZED if budget.epsilon <= PAPER_THRESHOLD else MOMENTS


def _choose(rule: str, budget: Budget, noise: dict[str, float]) -> Accountant:
    if rule == "auto":
        return min(_AUTO, key=lambda accountant: noise[accountant.name])
    return _by_paper(budget) if rule == "paper" else get_accountant(rule)


def _paper_words(budget: Budget, chosen: Accountant) -> str:
    side = "at most" if chosen is AMORTIZED else "above"
    return f"epsilon {budget.epsilon:g} is {side} {PAPER_THRESHOLD}, where the 2018 entry used {chosen.name}"


def _reason_by_noise(rule: str, chosen: Accountant, budget: Budget, noise: dict[str, float]) -> str:
    why = {
        "auto": f"of moments and amortized, {chosen.name} needs less noise",
        "paper": _paper_words(budget, chosen),
    }.get(rule, f"{chosen.name} was asked for")
    needs = ", ".join(
        f"{name} needs {value:.4g}" if math.isfinite(value) else f"{name} cannot meet it"
        for name, value in noise.items()
    )
    return f"{why}: for epsilon {budget.epsilon:g} at delta {budget.delta:.4g}, in noise multipliers, {needs}."


def _needed_noise(
    accountant: Accountant,
    *,
    budget: Budget,
    sampling_probability: float,
    steps: int,
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge],
) -> float:
    try:
        return noise_multiplier_for(
            accountant=accountant,
            budget=budget,
            sampling_probability=sampling_probability,
            steps=steps,
            neighboring_relation=neighboring_relation,
            other_charges=other_charges,
        )
    except PrivacyError:
        return math.inf


def _ask(
    accountant: Accountant,
    charges: Sequence[Charge],
    noise_multiplier: float,
    budget: Budget,
    neighboring_relation: NeighboringRelation,
) -> Alternative:
    try:
        epsilon = accountant.get_epsilon(charges, delta=budget.delta, neighboring_relation=neighboring_relation)
    except PrivacyError:
        epsilon = math.inf
    return Alternative(accountant=accountant, noise_multiplier=noise_multiplier, epsilon=epsilon)
