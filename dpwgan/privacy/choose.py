"""Which accountant to use for this budget, and the sentence that says why."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.calibrate import noise_multiplier_for, noise_scale_for, steps_for
from dpwgan.privacy.events import Charge, poisson_gaussian

RULES = ("auto", "paper", "moments", "amortized", "pld")
"""`auto`: of all accountants, the one that needs least noise. `paper`: a fixed threshold. The rest: that one."""

ACCOUNTANTS: dict[str, Accountant] = {accountant.name: accountant for accountant in (MOMENTS, AMORTIZED, PLD)}
"""Every accountant by its name."""

PAPER_THRESHOLD = 0.7
"""The 2018 UCLANESL entry used the amortized accountant up to this epsilon, the moments accountant above it."""


class Alternative(NamedTuple):
    """What another accountant would have said: the noise it asks for, and its epsilon at the noise that is used.

    The noise is in the unit of the choice, its `noise_unit`. Either may be infinite: that accountant cannot meet the
    budget, or proves nothing at that noise.
    """

    accountant: Accountant
    noise: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class AccountantChoice:
    """The accountant and the noise of a run, and why.

    `chosen_charges` is what the noise was calibrated for, at that noise; `other_charges` came off the budget first.
    `reason` is one sentence for the log. `alternatives` holds what the other accountants would have said.
    Units: `noise` is one number, in the unit that `noise_unit` names: "noise_multiplier" or "noise_scale".
    """

    accountant: Accountant
    rule: str
    budget: Budget
    neighboring_relation: NeighboringRelation
    noise: float
    noise_unit: ClassVar[str]
    chosen_charges: tuple[Charge, ...]
    other_charges: tuple[Charge, ...]
    reason: str
    alternatives: tuple[Alternative, ...]

    def charges(self) -> tuple[Charge, ...]:
        """Gives everything that the budget has to pay for: the other charges and those that were calibrated."""
        return (*self.other_charges, *self.chosen_charges)

    def epsilon(self) -> float:
        """Gives the epsilon that the chosen accountant reports for all charges; at most the budget's."""
        return self.accountant.get_epsilon(
            self.charges(), delta=self.budget.delta, neighboring_relation=self.neighboring_relation
        )


@dataclass(frozen=True, kw_only=True)
class CriticChoice(AccountantChoice):
    """The choice for a number of critic steps, all of one noise multiplier."""

    noise_unit: ClassVar[str] = "noise_multiplier"
    sampling_probability: float
    steps: int

    @property
    def noise_multiplier(self) -> float:
        """Noise stddev of each step over its L2 sensitivity."""
        return self.noise


@dataclass(frozen=True, kw_only=True)
class FamilyChoice(AccountantChoice):
    """The choice for a family of charges that one noise scale makes noisier or less noisy, all together."""

    noise_unit: ClassVar[str] = "noise_scale"

    @property
    def noise_scale(self) -> float:
        """The argument at which the family of charges fits the budget."""
        return self.noise


@dataclass(frozen=True, kw_only=True)
class NoChoice(AccountantChoice):
    """Stands where a method has no guarantee: nothing was calibrated, and no accountant could give a number."""

    noise_unit: ClassVar[str] = "noise_scale"


def choose_nothing(
    rule: str, *, budget: Budget, neighboring_relation: NeighboringRelation, other_charges: Sequence[Charge] = ()
) -> NoChoice:
    """Names an accountant for a ledger that will hold unprotected acts. Raises: UsageError for an unknown rule."""
    _refuse_unknown_rule(rule)
    chosen = _by_paper(budget) if rule == "paper" else get_accountant(MOMENTS.name if rule == "auto" else rule)
    return NoChoice(
        accountant=chosen,
        rule=rule,
        budget=budget,
        neighboring_relation=neighboring_relation,
        noise=0.0,
        chosen_charges=(),
        other_charges=tuple(other_charges),
        reason="nothing was calibrated: the method has no guarantee",
        alternatives=(),
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
) -> CriticChoice:
    """Chooses the accountant for `steps` critic steps, and the least noise with which it meets the budget.

    Privacy: looks at public numbers only, and the budget is met by the chosen accountant alone. Taking the better of
      two proved bounds is itself proved, since the choice does not depend on the rows.
    Raises: UsageError for an unknown rule, PrivacyError if the budget cannot be met.
    """
    _refuse_unknown_rule(rule)
    setting = _Setting(budget=budget, relation=neighboring_relation, others=tuple(other_charges))
    needs: dict[Accountant, _Need] = {}
    for accountant in ACCOUNTANTS.values():
        needs[accountant] = _needed_by_critic(
            accountant, setting, sampling_probability=sampling_probability, steps=steps, near=_look_near(needs)
        )
    chosen, noise = _least(rule, budget, needs)
    event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise)
    return CriticChoice(
        **_conclude(rule, chosen, noise, ((event, steps),), setting, needs),
        sampling_probability=sampling_probability,
        steps=steps,
        reason=_reason_by_noise(rule, chosen, budget, needs, unit="noise multipliers"),
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
) -> CriticChoice:
    """Chooses the accountant for a given noise, and the largest number of steps with which it meets the budget.

    `auto` takes the one that allows most steps, and at a tie the one that reports least.
    The choice's `steps` is at most `at_most_steps`.
    Raises: UsageError for an unknown rule, PrivacyError if not one step fits the budget.
    """
    _refuse_unknown_rule(rule)
    setting = _Setting(budget=budget, relation=neighboring_relation, others=tuple(other_charges))
    event = poisson_gaussian(sampling_probability=sampling_probability, noise_multiplier=noise_multiplier)
    steps: dict[Accountant, int] = {}
    for accountant in ACCOUNTANTS.values() if rule in ("auto", PLD.name) else (MOMENTS, AMORTIZED):
        steps[accountant] = steps_for(
            noise_multiplier=noise_multiplier,
            accountant=accountant,
            budget=budget,
            sampling_probability=sampling_probability,
            neighboring_relation=neighboring_relation,
            other_charges=setting.others,
            at_most=at_most_steps,
            near=steps.get(MOMENTS, 1),
        )
    if rule == "auto":
        chosen: Accountant = min(steps, key=lambda a: (-steps[a], setting.ask(a, ((event, steps[a]),))))
    else:
        chosen = _by_paper(budget) if rule == "paper" else get_accountant(rule)
    if steps[chosen] < 1:
        raise PrivacyError(
            f"Not one step at noise multiplier {noise_multiplier:g} and sampling probability "
            f"{sampling_probability:.3g} fits the budget of epsilon {budget.epsilon:g} at delta {budget.delta:g} "
            f"by the {chosen.name} accountant."
        )
    needs = {
        accountant: _needed_by_critic(
            accountant, setting, sampling_probability=sampling_probability, steps=steps[chosen], near=noise_multiplier
        )
        for accountant in ACCOUNTANTS.values()
        if accountant is not chosen
    }
    allowed = " and ".join(f"{count} by {accountant.name}" for accountant, count in steps.items())
    why = _why(rule, chosen, budget, auto=f"{chosen.name} allows most steps")
    return CriticChoice(
        **_conclude(rule, chosen, noise_multiplier, ((event, steps[chosen]),), setting, needs),
        sampling_probability=sampling_probability,
        steps=steps[chosen],
        reason=(
            f"{why}: at noise multiplier {noise_multiplier:g} the budget of epsilon {budget.epsilon:g} allows "
            f"{allowed} (of at most {at_most_steps})."
        ),
    )


def choose_accountant_for_family(
    rule: str,
    *,
    budget: Budget,
    charges: Callable[[float], Sequence[Charge]],
    neighboring_relation: NeighboringRelation,
    other_charges: Sequence[Charge] = (),
) -> FamilyChoice:
    """Chooses the accountant for a family of charges, and the least noise scale with which it meets the budget.

    `charges` gives the family at a scale, noisier as the scale grows: say, Gaussians with a noise multiplier that is a
    multiple of the scale, and selections with an epsilon that is inversely proportional to it.
    Privacy: as `choose_accountant`.
    Raises: UsageError for an unknown rule, PrivacyError if the budget cannot be met.
    """
    _refuse_unknown_rule(rule)
    setting = _Setting(budget=budget, relation=neighboring_relation, others=tuple(other_charges))
    needs: dict[Accountant, _Need] = {}
    for accountant in ACCOUNTANTS.values():
        try:
            scale = noise_scale_for(
                accountant=accountant,
                budget=budget,
                charges=charges,
                neighboring_relation=neighboring_relation,
                other_charges=setting.others,
                near=_look_near(needs),
            )
            needs[accountant] = _Need(scale, None)
        except PrivacyError as error:
            needs[accountant] = _Need(math.inf, error)
    chosen, noise = _least(rule, budget, needs)
    return FamilyChoice(
        **_conclude(rule, chosen, noise, tuple(charges(noise)), setting, needs),
        reason=_reason_by_noise(rule, chosen, budget, needs, unit="noise scales"),
    )


class _Need(NamedTuple):
    """The noise that an accountant needs; infinite, with the reason, if the budget cannot be met by it."""

    noise: float
    refusal: PrivacyError | None


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """What every accountant is asked under."""

    budget: Budget
    relation: NeighboringRelation
    others: tuple[Charge, ...]

    def ask(self, accountant: Accountant, charges: Sequence[Charge]) -> float:
        """Gives an accountant's epsilon for some charges and all others."""
        return accountant.get_epsilon(
            (*self.others, *charges), delta=self.budget.delta, neighboring_relation=self.relation
        )


def _look_near(needs: Mapping[Accountant, _Need]) -> float:
    """Says where to look for the noise that the next accountant needs: what the moments accountant needs, if any.

    The noise of pld is a little below that, and its epsilon there is asked for anyway if moments is chosen.
    """
    known = needs.get(MOMENTS)
    return 1.0 if known is None or known.refusal is not None else known.noise


def _needed_by_critic(
    accountant: Accountant, setting: _Setting, *, sampling_probability: float, steps: int, near: float
) -> _Need:
    try:
        noise = noise_multiplier_for(
            accountant=accountant,
            budget=setting.budget,
            sampling_probability=sampling_probability,
            steps=steps,
            neighboring_relation=setting.relation,
            other_charges=setting.others,
            near=near,
        )
    except PrivacyError as error:
        return _Need(math.inf, error)
    return _Need(noise, None)


def _least(rule: str, budget: Budget, needs: Mapping[Accountant, _Need]) -> tuple[Accountant, float]:
    """Finds the accountant that the rule takes, and its noise. Raises: what that accountant refused with."""
    if rule == "auto":
        chosen: Accountant = min(needs, key=lambda accountant: needs[accountant].noise)
    else:
        chosen = _by_paper(budget) if rule == "paper" else get_accountant(rule)
    noise, refusal = needs[chosen]
    if refusal is not None:
        raise refusal
    return chosen, noise


def _conclude(
    rule: str,
    chosen: Accountant,
    noise: float,
    charges: tuple[Charge, ...],
    setting: _Setting,
    needs: Mapping[Accountant, _Need],
) -> dict[str, Any]:
    """Gives the fields that every choice ends with: what was chosen, and what the others would have said."""

    def epsilon(accountant: Accountant) -> float:
        try:
            return setting.ask(accountant, charges)
        except PrivacyError:
            return math.inf

    return {
        "accountant": chosen,
        "rule": rule,
        "budget": setting.budget,
        "neighboring_relation": setting.relation,
        "noise": noise,
        "chosen_charges": charges,
        "other_charges": setting.others,
        "alternatives": tuple(
            Alternative(accountant=accountant, noise=needs[accountant].noise, epsilon=epsilon(accountant))
            for accountant in ACCOUNTANTS.values()
            if accountant is not chosen
        ),
    }


def _refuse_unknown_rule(rule: str) -> None:
    if rule not in RULES:
        raise UsageError(f"The accountant must be one of {', '.join(RULES)}; it is {rule!r}.")


def _by_paper(budget: Budget) -> Accountant:
    return AMORTIZED if budget.epsilon <= PAPER_THRESHOLD else MOMENTS


def _why(rule: str, chosen: Accountant, budget: Budget, *, auto: str) -> str:
    if rule == "auto":
        return auto
    if rule != "paper":
        return f"{chosen.name} was asked for"
    side = "at most" if chosen is AMORTIZED else "above"
    return f"epsilon {budget.epsilon:g} is {side} {PAPER_THRESHOLD}, where the 2018 entry used {chosen.name}"


def _reason_by_noise(
    rule: str, chosen: Accountant, budget: Budget, needs: Mapping[Accountant, _Need], *, unit: str
) -> str:
    why = _why(rule, chosen, budget, auto=f"{chosen.name} needs least noise")
    words = ", ".join(
        f"{accountant.name} needs {need.noise:.4g}" if need.refusal is None else f"{accountant.name} cannot meet it"
        for accountant, need in needs.items()
    )
    return f"{why}: for epsilon {budget.epsilon:g} at delta {budget.delta:.4g}, in {unit}, {words}."
