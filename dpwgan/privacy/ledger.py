"""The ledger: every act is reserved before the run, charged before it happens, and printed with its numbers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import (
    Charge,
    Event,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    Pure,
    StableSelection,
    Unprotected,
    Wishart,
)
from dpwgan.privacy.guarantee import PrivacyGuarantee
from dpwgan.privacy.journal import Arrays, Journal

LOST = "lost to an interruption"
"""The detail of a line that counts acts which were charged, may have read rows, and gave nothing."""

GIVEN_UP = "given up when the run was planned anew"
"""The mechanism of a line of a plan that was left when a release was lost that the run cannot do without."""

_RELATION_WORDS = {
    NeighboringRelation.ZERO_OUT: "two tables are neighbours if they have the same number of rows and one row of one "
    "of them is replaced by a null row that adds nothing to any sum",
    NeighboringRelation.REPLACE_ONE: "two tables are neighbours if they have the same number of rows and differ in "
    "one row, which may be any legal row",
}


@dataclass
class _Line:
    """One kind of act: what it is, how often it may happen, and how often it has.

    `earlier` of the charged ones were charged before the process began.
    """

    label: str
    event: Event
    mechanism: str
    details: dict[str, Any]
    reserved: int
    charged: int = 0
    earlier: int = 0


class Ledger:
    """Keeps one release within its budget.

    Privacy: `reserve` refuses what would take the total of all reservations past the budget; `charge` refuses an act
      that was not reserved. Acts are reserved with public numbers and charged before they read a row, so whatever
      happens in between, an error or an interrupt included, the release stays within the reserved total.
      One that is opened with `no_guarantee` takes unprotected acts as well, whose epsilon is infinite, and states no
      guarantee whatever it holds.
      With a `journal` that outlives the process, a run that goes on after it was killed starts with everything charged
      that may have happened: what was lost is not done again.
      Not safe for use by several threads at once; and a process that was forked has a copy, which pays for nothing.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        accountant: Accountant,
        neighboring_relation: NeighboringRelation,
        no_guarantee: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self._process = os.getpid()
        self.budget = budget
        self.journal = Journal() if journal is None else journal
        self.no_guarantee = no_guarantee
        self.accountant = accountant
        self.neighboring_relation = neighboring_relation
        self._lines: dict[str, _Line] = {}
        self._reserved_epsilon = 0.0
        self._shown_epsilon = 0.0

    def reserve(self, label: str, event: Event, count: int, *, mechanism: str, **details: Any) -> None:
        """Sets aside the cost of `count` acts before any of them happens.

        `mechanism` names what will be done; `details` are public facts to be printed beside it.
        Raises: PrivacyError if the label is taken, the count is not a whole number of at least 1, the total of
          everything reserved would pass the budget, or earlier lives of the run charged more. The ledger is then as it
          was.
        """
        if label in self._lines:
            raise PrivacyError(f"The ledger already holds a reservation named {label!r}.")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise PrivacyError(f"A reservation needs a whole number of acts of at least 1; it is {count!r}.")
        charges = [*self._reserved(), (event, count)]
        epsilon = self.accountant.get_epsilon(
            charges, delta=self.budget.delta, neighboring_relation=self.neighboring_relation
        )
        if isinstance(event, Unprotected):
            if not self.no_guarantee:
                raise PrivacyError(f"{mechanism} has no guarantee, and the ledger was opened to state one.")
        elif not self.no_guarantee and not epsilon <= self.budget.epsilon:
            raise PrivacyError(
                f"Reserving {count} x {mechanism} would bring the total to epsilon {epsilon:.6g} at delta "
                f"{self.budget.delta:g} by the {self.accountant.name} accountant; the budget is "
                f"{self.budget.epsilon:g}."
            )
        earlier = self.journal.count_charged(label, event=event)
        if earlier > count:
            raise PrivacyError(f"{label}: {earlier} acts were charged before, and only {count} are reserved.")
        self._lines[label] = _Line(
            label, event, mechanism, dict(details), reserved=count, charged=earlier, earlier=earlier
        )
        self._reserved_epsilon = epsilon

    def charge(self, label: str, count: int = 1) -> None:
        """Notes that `count` acts are about to happen. To be called before the first of them reads a row.

        Raises: PrivacyError if nothing of that name was reserved, or not that much of it is left. The ledger is then
          as it was, and the act must not happen.
        """
        line = self._find(label)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise PrivacyError(f"A charge needs a whole number of acts of at least 1; it is {count!r}.")
        if line.charged + count > line.reserved:
            raise PrivacyError(
                f"{label}: {line.charged} of {line.reserved} reserved acts are charged; {count} more would pass "
                "the reservation."
            )
        if os.getpid() != self._process:
            raise PrivacyError("This process was forked from the one that opened the ledger, and releases nothing.")
        line.charged += count
        self.journal.charge(label, count, event=line.event)

    def count_earlier(self, label: str) -> int:
        """Gives how many acts of a reservation earlier lives of the run charged, and may have done.

        Raises: PrivacyError if there is no reservation of that name.
        """
        return self._find(label).earlier

    def release(self, name: str, act: Callable[[], Arrays], *, dispensable: bool = False) -> Arrays:
        """Does an act and keeps what it gives; where an earlier life of the run did it, gives what was kept.

        Privacy: `act` charges this ledger before it reads rows, and what it gives is made of releases. It is not done
          again if it was begun before and nothing was kept: it may have read rows then.
        `dispensable`: the caller has asked the journal whether the act is lost, and goes on without it if it is.
        Raises: PrivacyError if the act was begun before and what it gave is lost; whatever `act` raises.
        """
        kept = self.journal.recall(name)
        if kept is not None:
            return kept
        if self.journal.has_lost(name):
            raise PrivacyError(f"{name}: the run was stopped while this was being released, and it is not done twice.")
        self.journal.begin(name, dispensable=dispensable)
        given = act()
        self.journal.keep(name, given)
        self.journal.end()
        return given

    @property
    def charged(self) -> dict[str, int]:
        """How many acts of each reservation are charged, by label."""
        return {line.label: line.charged for line in self._lines.values()}

    def epsilon_spent(self) -> float:
        """Gives an upper bound on the epsilon of the acts charged so far, at the budget's delta, for the progress bar.

        It never falls, never passes what was reserved, and equals it once everything is charged.
        """
        if all(line.charged == line.reserved for line in self._lines.values()):
            self._shown_epsilon = self._reserved_epsilon
            return self._shown_epsilon
        charged = [(line.event, line.charged) for line in self._lines.values() if line.charged]
        if charged:
            epsilon = self.accountant.progress_accountant.get_epsilon(
                charged, delta=self.budget.delta, neighboring_relation=self.neighboring_relation
            )
            self._shown_epsilon = max(self._shown_epsilon, min(epsilon, self._reserved_epsilon))
        return self._shown_epsilon

    def epsilon_reserved(self) -> float:
        """Gives the epsilon of everything reserved so far, at the budget's delta; at most the budget's."""
        return self._reserved_epsilon

    def guarantee(self) -> PrivacyGuarantee:
        """States what is proved about the release: the epsilon of everything that was reserved.

        Privacy: the total of the reservations, and not of the charges, is stated, because it holds whatever made a
          run end early. After a complete run both are the same. Where the noise of all releases has no delta,
          epsilon holds at delta 0, and that is what is stated.
        Raises: PrivacyError if nothing was reserved, or the ledger was opened to state no guarantee.
        """
        if self.no_guarantee:
            raise PrivacyError("The ledger was opened to state no guarantee.")
        if not self._lines:
            raise PrivacyError("Nothing was reserved in the ledger, so there is no guarantee to state.")
        return PrivacyGuarantee(
            epsilon=self._reserved_epsilon,
            delta=0.0 if all(isinstance(line.event, Pure) for line in self._lines.values()) else self.budget.delta,
            neighboring_relation=self.neighboring_relation,
            accountant=self.accountant.name,
            accountant_version=self.accountant.version,
            assumptions=self._assumptions(),
        )

    def itemise(self) -> list[dict[str, Any]]:
        """Lists every reservation as JSON-able pairs."""
        return [
            {
                "label": line.label,
                "mechanism": line.mechanism,
                **line.event.describe(),
                "reserved": line.reserved,
                "charged": line.charged,
                "accountant": self.accountant.name,
                "accountant_version": self.accountant.version,
                **({"details": details} if (details := self._describe(line)) else {}),
            }
            for line in self._lines.values()
        ]

    def _describe(self, line: _Line) -> dict[str, Any]:
        lost = self.journal.count_lost(line.label)
        return {**line.details, **({LOST: lost} if lost else {})}

    def _find(self, label: str) -> _Line:
        line = self._lines.get(label)
        if line is None:
            raise PrivacyError(f"The ledger holds no reservation named {label!r}.")
        return line

    def _reserved(self) -> list[Charge]:
        return [(line.event, line.reserved) for line in self._lines.values()]

    def _assumptions(self) -> tuple[str, ...]:
        events = [line.event for line in self._lines.values()]
        assumptions = [
            _RELATION_WORDS[self.neighboring_relation],
            "one person has one row; who has k rows is protected by group privacy for k only",
            "the number of rows, the specs, the settings and the code are public",
        ]
        if any(line.mechanism == GIVEN_UP for line in self._lines.values()):
            assumptions.append(
                "the run was killed and what was left of the budget planned anew; what killed it, and when, did not "
                "depend on the rows"
            )
        if any(isinstance(event, PoissonGaussian) for event in events):
            assumptions.append(
                "every critic step draws each row independently with the stated probability (Poisson sampling), and "
                "the number of steps was fixed before training"
            )
        if any(isinstance(event, (PoissonGaussian, Gaussian)) for event in events):
            assumptions.append(
                "what is released with Gaussian noise (sums of clipped gradients, counts, and the like) moves by no "
                "more than its sensitivity when one row is zeroed out, in L2 jointly over all its entries, and by no "
                "more than the stated multiple of it, or twice as much, when one is replaced; the noise is independent "
                "and unknown to whoever sees the release, and drawn in IEEE floating point"
            )
        if any(isinstance(event, Laplace) for event in events):
            assumptions.append(
                "what is released with Laplace noise is sums of whole numbers that move by no more than their "
                "sensitivity when one row is zeroed out, in L1 jointly over all of them, and by no more than the "
                "stated multiple of it when one is replaced; the noise is whole numbers as well, drawn exactly, "
                "independent and unknown to whoever sees the release; epsilons are added"
            )
        if any(isinstance(event, Wishart) for event in events):
            assumptions.append(
                "what is released with Wishart noise is sums of products z z^T of whole numbers, of trace no more than "
                "stated, one for each row; the noise is the difference of two Wishart matrices, independent and "
                "unknown to whoever sees the release, drawn in IEEE floating point and rounded to whole numbers; "
                "epsilons are added"
            )
        if any(isinstance(event, ExponentialSelection) for event in events):
            assumptions.append(
                "selections draw by the exponential mechanism from a public list, and no row moves a score by more "
                "than its stated sensitivity"
            )
        if any(isinstance(event, StableSelection) for event in events):
            assumptions.append("mechanisms known by (epsilon, delta) alone are added by basic composition")
        return tuple(assumptions)
