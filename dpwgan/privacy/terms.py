"""The terms of a plan: budget, choice of accountant, and the noise that these require."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.calibrate import find_least_noise, find_most_steps
from dpwgan.privacy.events import Charge, PoissonGaussian, check_whole
from dpwgan.privacy.release import Release
from dpwgan.privacy.unit import ONE_ROW, Unit

RULES = ("auto", "paper", "moments", "amortized", "pld")
"""`auto`: of all accountants, the one that needs least noise. `paper`: a fixed threshold. The rest: that one."""

ACCOUNTANTS: dict[str, Accountant] = {accountant.name: accountant for accountant in (MOMENTS, AMORTIZED, PLD)}
"""Every accountant by its name."""

PAPER_THRESHOLD = 0.7
"""The 2018 UCLANESL entry used the amortized accountant up to this epsilon, the moments accountant above it."""

NOISE_MULTIPLIERS = (0.01, 1e7)
"""Below, noise is a hundredth of one record's part in the sum; above, nothing can be learnt from any table there is."""

NOISE_SCALES = (1e-6, 1e12)
"""Where the noise scale of a family of charges is looked for: its own unit is to be near what is needed."""


class Alternative(NamedTuple):
    """Another accountant: the noise that it would need, and its epsilon for the noise that is used.

    The noise is in the choice's `noise_unit`. Either is infinite if that accountant cannot meet the budget, or proves
    nothing at that noise.
    """

    accountant: Accountant
    noise: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class AccountantChoice:
    """The accountant and the noise of a run, and why.

    `chosen_charges`: what the noise was calibrated for, at that noise, beside the other charges of the `terms`.
    `reason`: one sentence for the log. `alternatives`: the other accountants.
    Units: `noise` is in `noise_unit`: "noise_multiplier", of `steps` critic steps, or "noise_scale", the argument at
      which a family of charges fits the budget.
    """

    accountant: Accountant
    terms: "Terms"
    noise: float
    reason: str
    noise_unit: str = "noise_scale"
    chosen_charges: tuple[Charge, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    steps: int = 0

    def describe(self) -> dict[str, Any]:
        """The choice, its rule and reason, and the alternatives, as JSON-able pairs; None for what is infinite."""

        def say(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            "name": self.accountant.name,
            "version": self.accountant.version,
            "rule": self.terms.accountant_rule,
            "reason": self.reason,
            "alternatives": [
                {"name": other.accountant.name, self.noise_unit: say(other.noise), "epsilon": say(other.epsilon)}
                for other in self.alternatives
            ],
        }


class _Need(NamedTuple):
    """The noise that an accountant needs; infinite, with the reason, if the budget cannot be met by it."""

    noise: float
    refusal: PrivacyError | None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a plan has to keep to: the budget, the neighbouring relation, and the rule that chooses an accountant.

    `other_charges`: what else the budget pays for, as in the ledger. All else is planned for single rows, and accounted
    for as its equivalent for a `unit`.
    Privacy: looks at public numbers only, and the budget is met by the chosen accountant alone. Taking the better of
      two proved bounds is itself proved, since the choice does not depend on the rows.
    Raises: UsageError for an unknown rule.
    """

    budget: Budget
    neighboring_relation: NeighboringRelation
    accountant_rule: str = "auto"
    other_charges: tuple[Charge, ...] = ()
    unit: Unit = ONE_ROW

    def __post_init__(self) -> None:
        if self.accountant_rule not in RULES:
            raise UsageError(f"The accountant must be one of {', '.join(RULES)}; it is {self.accountant_rule!r}.")

    def get_epsilon(self, accountant: Accountant, charges: Iterable[Charge] = ()) -> float:
        """The epsilon of charges and `other_charges`, by an accountant. Raises: PrivacyError if it has no bound."""
        return accountant.get_epsilon(
            (*self.other_charges, *((self.unit.scale(event), count) for event, count in charges)),
            delta=self.budget.delta,
            neighboring_relation=self.neighboring_relation,
        )

    # ------------------------------------------------------------------------------------------------ by one accountant

    def find_noise_scale(
        self,
        accountant: Accountant,
        charges: Callable[[float], Iterable[Charge]],
        *,
        near: float = 1.0,
        within: tuple[float, float] = NOISE_SCALES,
        needs: str = "the planned releases would need a noise scale",
    ) -> float:
        """Finds the least noise scale with which a family of charges fits the budget, as `find_least_noise` does.

        `charges` gives the family at a scale, noisier as the scale grows.
        Raises: PrivacyError if the other charges leave nothing, or more noise than any `within` would be needed.
        """
        self._refuse_if_already_over(accountant)
        least, most = within
        scale = find_least_noise(
            lambda scale: self._ask(accountant, lambda: charges(scale)),
            target=self.budget.epsilon,
            near=near,
            least=least,
            most=most,
        )
        if scale is None:
            raise PrivacyError(
                f"The budget of epsilon {self.budget.epsilon:g} at delta {self.budget.delta:g} cannot be met with the "
                f"{accountant.name} accountant: {needs} above {most:g}."
            )
        return scale

    def find_noise_multiplier(
        self, accountant: Accountant, *, sampling_probability: float, steps: int, near: float = 1.0
    ) -> float:
        """Finds the least noise multiplier with which so many critic steps fit the budget, as `find_noise_scale`.

        Units: noise stddev over the L2 clip norm; no unit.
        """
        check_whole("steps", steps)
        return self.find_noise_scale(
            accountant,
            lambda noise: _take_steps(sampling_probability, noise, steps),
            near=near,
            within=NOISE_MULTIPLIERS,
            needs=f"{steps} steps at sampling probability {sampling_probability:.3g} would need a noise multiplier",
        )

    def find_steps(
        self,
        accountant: Accountant,
        *,
        noise_multiplier: float,
        sampling_probability: float,
        at_most: int,
        near: int = 1,
    ) -> int:
        """Finds the largest number of critic steps that fits the budget at a given noise, as `find_most_steps` does.

        Privacy: the answer was itself put to the accountant together with the other charges.
        Raises: PrivacyError if the other charges alone pass the budget.
        """
        self._refuse_if_already_over(accountant)

        def fits(steps: int) -> bool:
            charges = _take_steps(sampling_probability, noise_multiplier, steps)
            return self._ask(accountant, lambda: charges) <= self.budget.epsilon

        return find_most_steps(fits, at_most=at_most, near=near)

    def _ask(self, accountant: Accountant, charges: Callable[[], Iterable[Charge]]) -> float:
        try:
            return self.get_epsilon(accountant, charges())
        except PrivacyError:
            # The accountant has no bound for this, so this does not fit the budget.
            return math.inf

    def _refuse_if_already_over(self, accountant: Accountant) -> None:
        epsilon = self.get_epsilon(accountant) if self.other_charges else 0.0
        if not epsilon < self.budget.epsilon:
            raise PrivacyError(
                f"The charges besides training cost epsilon {epsilon:.4g} and leave nothing of the budget of epsilon "
                f"{self.budget.epsilon:g} at delta {self.budget.delta:g} for training."
            )

    # -------------------------------------------------------------------------------------------------- by the best one

    def calibrate(self, releases: Callable[[float], Iterable[Release]]) -> AccountantChoice:
        """Chooses the accountant, and the least noise scale at which releases fit the budget.

        `releases` makes them at a scale, noisier as it grows: say, with noise multipliers that are multiples of it and
        selections' epsilons in inverse proportion. The plan holds those that it makes at the chosen one.
        Raises: PrivacyError if the budget cannot be met.
        """

        def charges(scale: float) -> tuple[Charge, ...]:
            return tuple(release.charge for release in releases(scale))

        needs = _find_needs(lambda accountant, near: self.find_noise_scale(accountant, charges, near=near))
        chosen, noise = self._find_least(needs)
        reason = self._reason_by_noise(chosen, needs, unit="noise scales")
        return self._conclude(chosen, noise, charges(noise), needs, reason=reason)

    def calibrate_steps(self, *, sampling_probability: float, steps: int) -> AccountantChoice:
        """Chooses the accountant for so many critic steps, and the least noise with which it meets the budget.

        Raises: PrivacyError if the budget cannot be met.
        """
        needs = _find_needs(
            lambda accountant, near: self.find_noise_multiplier(
                accountant, sampling_probability=sampling_probability, steps=steps, near=near
            )
        )
        chosen, noise = self._find_least(needs)
        reason = self._reason_by_noise(chosen, needs, unit="noise multipliers")
        charges = _take_steps(sampling_probability, noise, steps)
        return self._conclude(chosen, noise, charges, needs, reason=reason, steps=steps, noise_unit="noise_multiplier")

    def fit_steps(
        self, *, noise_multiplier: float, sampling_probability: float, at_most_steps: int
    ) -> AccountantChoice:
        """Chooses the accountant for a given noise, and the largest number of steps with which it meets the budget.

        `auto` takes the one that allows most steps, and at a tie the one that reports least.
        Raises: PrivacyError if not one step fits the budget.
        """
        rule, budget = self.accountant_rule, self.budget
        steps: dict[Accountant, int] = {}
        for accountant in ACCOUNTANTS.values() if rule in ("auto", PLD.name) else (MOMENTS, AMORTIZED):
            steps[accountant] = self.find_steps(
                accountant,
                noise_multiplier=noise_multiplier,
                sampling_probability=sampling_probability,
                at_most=at_most_steps,
                near=steps.get(MOMENTS, 1),
            )
        charges = {a: _take_steps(sampling_probability, noise_multiplier, count) for a, count in steps.items()}
        chosen = self._go_by_rule(lambda: min(steps, key=lambda a: (-steps[a], self.get_epsilon(a, charges[a]))))
        if steps[chosen] < 1:
            raise PrivacyError(
                f"Not one step at noise multiplier {noise_multiplier:g} and sampling probability "
                f"{sampling_probability:.3g} fits the budget of epsilon {budget.epsilon:g} at delta {budget.delta:g} "
                f"by the {chosen.name} accountant."
            )
        needs = _find_needs(
            lambda accountant, near: self.find_noise_multiplier(
                accountant, sampling_probability=sampling_probability, steps=steps[chosen], near=noise_multiplier
            ),
            but=chosen,
        )
        allowed = " and ".join(f"{count} by {accountant.name}" for accountant, count in steps.items())
        why = self._say_why(chosen, auto=f"{chosen.name} allows most steps")
        reason = (
            f"{why}: at noise multiplier {noise_multiplier:g} the budget of epsilon {budget.epsilon:g} allows "
            f"{allowed} (of at most {at_most_steps})."
        )
        return self._conclude(
            chosen,
            noise_multiplier,
            charges[chosen],
            needs,
            reason=reason,
            steps=steps[chosen],
            noise_unit="noise_multiplier",
        )

    def choose_nothing(self) -> AccountantChoice:
        """Names an accountant for a ledger that will hold unprotected acts: nothing is calibrated."""
        return AccountantChoice(
            accountant=self._go_by_rule(lambda: MOMENTS),
            terms=self,
            noise=0.0,
            reason="nothing was calibrated: the method has no guarantee",
        )

    def _go_by_rule(self, best: Callable[[], Accountant]) -> Accountant:
        if self.accountant_rule == "auto":
            return best()
        if self.accountant_rule == "paper":
            return AMORTIZED if self.budget.epsilon <= PAPER_THRESHOLD else MOMENTS
        return ACCOUNTANTS[self.accountant_rule]

    def _find_least(self, needs: Mapping[Accountant, _Need]) -> tuple[Accountant, float]:
        """Finds the accountant that the rule takes, and its noise. Raises: what that accountant refused with."""
        chosen = self._go_by_rule(lambda: min(needs, key=lambda accountant: needs[accountant].noise))
        noise, refusal = needs[chosen]
        if refusal is not None:
            raise refusal
        return chosen, noise

    def _conclude(
        self,
        chosen: Accountant,
        noise: float,
        charges: tuple[Charge, ...],
        needs: Mapping[Accountant, _Need],
        **more: Any,
    ) -> AccountantChoice:
        others = (accountant for accountant in ACCOUNTANTS.values() if accountant is not chosen)
        return AccountantChoice(
            accountant=chosen,
            terms=self,
            noise=noise,
            chosen_charges=charges,
            alternatives=tuple(
                Alternative(accountant, needs[accountant].noise, self._ask(accountant, lambda: charges))
                for accountant in others
            ),
            **more,
        )

    def _say_why(self, chosen: Accountant, *, auto: str) -> str:
        if self.accountant_rule == "auto":
            return auto
        if self.accountant_rule != "paper":
            return f"{chosen.name} was asked for"
        side = "at most" if chosen is AMORTIZED else "above"
        return f"epsilon {self.budget.epsilon:g} is {side} {PAPER_THRESHOLD}, where the 2018 entry used {chosen.name}"

    def _reason_by_noise(self, chosen: Accountant, needs: Mapping[Accountant, _Need], *, unit: str) -> str:
        why = self._say_why(chosen, auto=f"{chosen.name} needs least noise")
        words = ", ".join(
            f"{accountant.name} needs {need.noise:.4g}" if need.refusal is None else f"{accountant.name} cannot meet it"
            for accountant, need in needs.items()
        )
        return f"{why}: for epsilon {self.budget.epsilon:g} at delta {self.budget.delta:.4g}, in {unit}, {words}."


def _take_steps(sampling_probability: float, noise_multiplier: float, steps: int) -> tuple[Charge, ...]:
    return ((PoissonGaussian(sampling_probability=sampling_probability, noise_multiplier=noise_multiplier), steps),)


def _find_needs(
    find: Callable[[Accountant, float], float], *, but: Accountant | None = None
) -> dict[Accountant, _Need]:
    """Finds the noise that each accountant needs.

    The search starts near what the moments accountant needs, if it can meet the budget: pld needs a little less, and
    its epsilon there is needed anyway if moments is chosen.
    """
    needs: dict[Accountant, _Need] = {}
    for accountant in ACCOUNTANTS.values():
        if accountant is but:
            continue
        known = needs.get(MOMENTS)
        near = 1.0 if known is None or known.refusal is not None else known.noise
        try:
            needs[accountant] = _Need(find(accountant, near), None)
        except PrivacyError as error:
            needs[accountant] = _Need(math.inf, error)
    return needs
