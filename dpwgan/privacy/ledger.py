"""The ledger, and the one door between rows and what is released: charge, compute, add the noise that was charged."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import AnyArray, Arrays
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.attacker import Attacker, judge_attacker
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import (
    Charge,
    DiscreteGaussian,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    Pure,
    StableSelection,
    Unprotected,
    Wishart,
    check_whole,
)
from dpwgan.privacy.guarantee import PrivacyGuarantee
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.mechanisms.discovery import calibrate_selection
from dpwgan.privacy.noise_source import NoiseSource, PlainStreams
from dpwgan.privacy.release import Noisy, Release
from dpwgan.privacy.steps import Steps, StepsObserver
from dpwgan.privacy.unit import ONE_ROW, Unit
from dpwgan.privacy.unit_counts import LINKS_LABEL, SIZES_LABEL

Chosen = TypeVar("Chosen")

LOST = "lost to an interruption"
"""The detail of a line that counts acts which were charged, may have read rows, and gave nothing."""

NOT_ASKED = "not asked"
"""The detail of a line that counts acts which were paid for, and for which what was released before left nothing."""

GIVEN_UP = "given up when the run was planned anew"
"""The mechanism of a line of a plan that was left when a release was lost that the run cannot do without."""

_RELATION_WORDS = {
    NeighboringRelation.ZERO_OUT: "two tables are neighbours if they have the same number of rows and one row of one "
    "of them is replaced by a null row that adds nothing to any sum",
    NeighboringRelation.REPLACE_ONE: "two tables are neighbours if they have the same number of rows and differ in "
    "one row, which may be any legal row",
}

_PLANNED_ANEW = (
    "the run was killed and what was left of the budget planned anew; what killed it, and when, did not depend on the "
    "rows"
)

_SIZES_OF_UNITS = (
    f"of {SIZES_LABEL!r} a unit is in one cell: taken out it leaves it, and with other rows it is in another"
)

_LINKS_OF_UNITS = (
    f"of {LINKS_LABEL!r} a row may move what others of its unit add, and all rows of a unit together add one less than "
    "they are to the counts of each column"
)

_ASSUMED_OF_EVENTS: Sequence[tuple[type[Any] | tuple[type[Any], ...], str]] = (
    (
        PoissonGaussian,
        "every critic step draws each row independently with the stated probability (Poisson sampling), and the number "
        "of steps was fixed before training",
    ),
    (
        (PoissonGaussian, Gaussian),
        "what is released with Gaussian noise (sums of clipped gradients, and the like) moves by no more than its "
        "sensitivity when one row is zeroed out, in L2 jointly over all its entries, and by no more than the stated "
        "multiple of it, or twice as much, when one is replaced; the noise is independent and unknown to whoever sees "
        "the release, and drawn in IEEE floating point",
    ),
    (
        DiscreteGaussian,
        "what is released with discrete Gaussian noise is counts of rows, of which zeroing out one row takes 1 from no "
        "more than the stated number of cells, and replacing one also adds 1 to no more than as many; the noise is "
        "whole numbers as well, drawn exactly, independent and unknown to whoever sees the release",
    ),
    (
        Laplace,
        "what is released with Laplace noise is sums of whole numbers that move by no more than their sensitivity when "
        "one row is zeroed out, in L1 jointly over all of them, and by no more than the stated multiple of it when one "
        "is replaced; the noise is whole numbers as well, drawn exactly, independent and unknown to whoever sees the "
        "release; epsilons are added",
    ),
    (
        Wishart,
        "what is released with Wishart noise is sums of products z z^T of whole numbers, of trace no more than stated, "
        "one for each row; the noise is the difference of two Wishart matrices, independent and unknown to whoever "
        "sees the release, drawn in IEEE floating point and rounded to whole numbers; epsilons are added",
    ),
    (
        ExponentialSelection,
        "selections draw by the exponential mechanism from a public list, and no row moves a score by more than its "
        "stated sensitivity",
    ),
    (StableSelection, "mechanisms known by (epsilon, delta) alone are added by basic composition"),
)
"""The assumptions on a release, by the kind of its event."""


class Observer(StepsObserver, Protocol):
    """Observes every release before its noise is added, as an audit does. What it sees is private."""

    def on_release(self, release: Release, *, exact: Sequence[AnyArray], noisy: Sequence[Noisy]) -> None:
        """Sees arrays that were released together, without noise and with it."""

    def on_selection(self, release: Release, *, exact: Any, chosen: Any) -> None:
        """Sees what was selected, an index or a column's cells, and the exact scores or counts."""


@dataclass
class _Line:
    """A reservation, and its charges; `earlier` of them were made by earlier lives of the run."""

    release: Release
    charged: int
    earlier: int


class Ledger:
    """Keeps one run within its budget: nothing leaves the rows but through it, with the noise that it was charged for.

    Privacy: `reserve` refuses what would take the total of all reservations past the budget. `release`, `select`,
      `discover` and a step's token charge what was reserved, then have the exact values computed, and draw noise from
      the reserved event and sensitivity: no caller says how much. Acts are reserved with public numbers and charged
      before they read a row, so whatever happens in between, an error or an interrupt included, what is released stays
      within the reserved total.
      One that is opened with `no_guarantee` takes unprotected acts as well, whose epsilon is infinite, and states no
      guarantee whatever it holds.
      What is reserved is planned for single rows, and accounted for as its equivalent for a `unit`.
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
        unit: Unit = ONE_ROW,
        no_guarantee: bool = False,
        journal: Journal | None = None,
        source: NoiseSource | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Opens it. `source` of noise: without one nothing can be released, as in a check of a plan.

        `observers` see all that is released, exact and noisy: for audits.
        """
        self._process = os.getpid()
        self.budget = budget
        self.journal = Journal() if journal is None else journal
        self.no_guarantee = no_guarantee
        self.accountant = accountant
        self.neighboring_relation, self.unit = neighboring_relation, unit
        self._given_source, self._observers = source, observers
        self._lines: dict[str, _Line] = {}
        self._reserved_epsilon = 0.0
        self._shown_epsilon = 0.0

    def reserve(self, release: Release, *, as_charged: bool = False) -> None:
        """Reserves the cost of a release, all its times together, before any of them happens.

        It is planned for single rows, and scaled to the unit, unless it is `as_charged` already.
        Raises: PrivacyError if the label is taken, the times are not a whole number of at least 1, the total of
          everything reserved would pass the budget, epsilon is too small for a list of cells, or earlier lives of the
          run charged more. The ledger is then as it was.
        """
        release = release if as_charged else self.unit.scale_release(release)
        label, event, times = release.label, release.event, release.times
        if label in self._lines:
            raise PrivacyError(f"The ledger already holds a reservation named {label!r}.")
        check_whole("The number of reserved acts", times)
        epsilon = self.accountant.get_epsilon(
            [*self._reserved(), release.charge], delta=self.budget.delta, neighboring_relation=self.neighboring_relation
        )
        if isinstance(event, Unprotected):
            if not self.no_guarantee:
                raise PrivacyError(f"{release.mechanism} has no guarantee, and the ledger was opened to state one.")
        elif not self.no_guarantee and not epsilon <= self.budget.epsilon:
            raise PrivacyError(
                f"Reserving {times} x {release.mechanism} would bring the total to epsilon {epsilon:.6g} at delta "
                f"{self.budget.delta:g} by the {self.accountant.name} accountant; the budget is "
                f"{self.budget.epsilon:g}."
            )
        if isinstance(event, StableSelection):
            # What cannot be drawn is refused before it is charged.
            calibrate_selection(event.of_row, neighboring_relation=self.neighboring_relation)
        earlier = self.journal.count_charged(label, event=event)
        if earlier > times:
            raise PrivacyError(f"{label}: {earlier} acts were charged before, and only {times} are reserved.")
        self._lines[label] = _Line(release, charged=earlier, earlier=earlier)
        self._reserved_epsilon = epsilon

    @property
    def releases(self) -> tuple[Release, ...]:
        """All reservations, in order."""
        return tuple(line.release for line in self._lines.values())

    def find(self, label: str) -> Release:
        """The reservation under a label. Raises: PrivacyError if there is none."""
        return self._find(label).release

    def release(self, label: str, compute: Callable[[], AnyArray]) -> Noisy:
        """Releases an array: charges, computes it, and adds the noise that was charged for.

        Privacy: `compute` is called once, after the charge; the caller vouches that zeroing out a record moves what it
          gives by no more than the reserved sensitivity, over all numbers jointly.
        Raises: PrivacyError if it was not reserved or none is left, or what was reserved takes no such values; whatever
          `compute` raises, the charge stands then.
        """
        return self.release_all(label, lambda: [compute()])[0]

    def release_all(self, label: str, compute: Callable[[], Sequence[AnyArray]]) -> list[Noisy]:
        """Releases several arrays as one: one charge, and the sensitivity is that of all of them jointly.

        Privacy, Raises: as `release`.
        """
        line, source = self._find(label), self._get_source()
        self.charge(label)
        exact = [np.asarray(values) for values in compute()]
        noisy = [source.add_noise(line.release, values) for values in exact]
        for observer in self._observers:
            observer.on_release(line.release, exact=exact, noisy=noisy)
        return noisy

    def select(self, label: str, compute_scores: Callable[[], npt.ArrayLike]) -> int:
        """Selects a candidate by the exponential mechanism: charges, computes the scores, draws; gives its index.

        Privacy: as `release`; the candidates are public or released, and the same in number whatever the rows.
        Raises: as `release`.
        """
        line, source = self._find(label), self._get_source()
        self.charge(label)
        scores = compute_scores()
        return self._show(line, scores, source.select(line.release, scores))

    def discover(
        self, labels: Sequence[str], count: Callable[[], Sequence[Mapping[str, int]]]
    ) -> list[tuple[str, ...]]:
        """The frequent cells of some columns, by stable selection: charges all, counts in one pass, selects.

        Privacy: as `release`; one record adds 1 to one count of each column, which is charged by itself.
        Raises: as `release`.
        """
        lines, source = [self._find(label) for label in labels], self._get_source()
        for label in labels:
            self.charge(label)
        return [
            self._show(
                line, counts, source.discover(line.release, counts, neighboring_relation=self.neighboring_relation)
            )
            for line, counts in zip(lines, count(), strict=True)
        ]

    def open(self, label: str, *, with_noise: bool = True, of_units: bool = False) -> Steps:
        """The token that charges and takes steps; nothing is charged yet.

        `with_noise`: not on a worker that is not the chief. `of_units`: whole units are sampled, and the parts of a
        unit's rows clipped as one.
        Raises: PrivacyError if there is no reservation of that name, the ledger has no source of noise, or was opened
          for samples of the other kind.
        """
        if of_units != self.unit.sampled:
            raise PrivacyError(f"{label}: what was paid for is samples of {'units' if self.unit.sampled else 'rows'}.")
        line = self._find(label)
        return Steps(
            line.release,
            source=self._get_source(),
            charge=lambda steps: self.charge(label, steps),
            count_charged=lambda: line.charged,
            first=line.earlier,
            with_noise=with_noise,
            observers=self._observers,
        )

    def lend_streams(self, label: str) -> PlainStreams:
        """What a method without a guarantee draws noise and batches from, for acts that protect nothing.

        Raises: PrivacyError if what was reserved under that name is protected, and so is drawn by the ledger alone.
        """
        if not isinstance(self._find(label).release.event, Unprotected):
            raise PrivacyError(f"{label}: what is protected has its noise and batches drawn by the ledger.")
        return self._get_source().streams

    def charge(self, label: str, count: int = 1) -> None:
        """Charges `count` acts, before the first of them reads a row.

        Raises: PrivacyError if nothing of that name was reserved, or not that much of it is left. The ledger is then
          as it was, and the act must not happen.
        """
        line = self._find(label)
        check_whole("The number of charged acts", count)
        reserved = line.release.times
        if line.charged + count > reserved:
            raise PrivacyError(
                f"{label}: {line.charged} of {reserved} reserved acts are charged; {count} more would pass the "
                "reservation."
            )
        if os.getpid() != self._process:
            raise PrivacyError("This process was forked from the one that opened the ledger, and releases nothing.")
        if self.journal.account is not None:
            self.journal.account.charge(label, count, event=line.release.event)
        line.charged += count
        self.journal.charge(label, count, event=line.release.event)

    def keep(self, name: str, act: Callable[[], Arrays], *, dispensable: bool = False) -> Arrays:
        """Does an act and keeps its result; if an earlier life of the run did it, gives what was kept.

        Privacy: `act` reads rows through this ledger alone, so that its result is made of releases. It is not done
          again if it was begun before and nothing was kept: it may have read rows then.
        `dispensable`: the caller has asked the journal whether the act is lost, and goes on without it if it is.
        Raises: PrivacyError if the act was begun before and its result is lost; whatever `act` raises.
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
        """The number of charged acts, by label."""
        return {label: line.charged for label, line in self._lines.items()}

    def epsilon_spent(self) -> float:
        """An upper bound on the epsilon of the acts charged so far, at the budget's delta, for the progress bar.

        It never falls, never passes what was reserved, and equals it once everything is charged.
        """
        if all(line.charged == line.release.times for line in self._lines.values()):
            self._shown_epsilon = self._reserved_epsilon
            return self._shown_epsilon
        charged = [(line.release.event, line.charged) for line in self._lines.values() if line.charged]
        if charged:
            epsilon = self.accountant.progress_accountant.get_epsilon(
                charged, delta=self.budget.delta, neighboring_relation=self.neighboring_relation
            )
            self._shown_epsilon = max(self._shown_epsilon, min(epsilon, self._reserved_epsilon))
        return self._shown_epsilon

    def epsilon_reserved(self) -> float:
        """The epsilon of everything reserved so far, at the budget's delta; at most the budget's."""
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
            delta=0.0
            if all(isinstance(line.release.event, Pure) for line in self._lines.values())
            else self.budget.delta,
            neighboring_relation=self.neighboring_relation,
            accountant=self.accountant.name,
            accountant_version=self.accountant.version,
            assumptions=self._assumptions(),
            unit=self.unit,
        )

    def judge_attacker(self) -> Attacker:
        """The bounds that the guarantee puts on an attacker's guesses. Raises: as `guarantee`."""
        guarantee = self.guarantee()

        def ask(delta: float) -> float:
            relation = self.neighboring_relation
            return self.accountant.get_epsilon(self._reserved(), delta=delta, neighboring_relation=relation)

        return judge_attacker(ask, epsilon=guarantee.epsilon, delta=guarantee.delta, accountant=self.accountant.name)

    def itemise(self, *, is_over: bool = False) -> list[dict[str, Any]]:
        """Every reservation as JSON-able pairs; of a run that `is_over` with how many acts of each were not asked."""
        return [
            {
                "label": label,
                "mechanism": line.release.mechanism,
                **line.release.event.describe(),
                "reserved": line.release.times,
                "charged": line.charged,
                "accountant": self.accountant.name,
                "accountant_version": self.accountant.version,
                **({"details": details} if (details := self._describe(line, is_over=is_over)) else {}),
            }
            for label, line in self._lines.items()
        ]

    def _describe(self, line: _Line, *, is_over: bool) -> dict[str, Any]:
        counted = {
            LOST: self.journal.count_lost(line.release.label),
            NOT_ASKED: is_over * (line.release.times - line.charged),
        }
        return {**line.release.details, **{name: count for name, count in counted.items() if count}}

    def _find(self, label: str) -> _Line:
        line = self._lines.get(label)
        if line is None:
            raise PrivacyError(f"The ledger holds no reservation named {label!r}.")
        return line

    def _get_source(self) -> NoiseSource:
        if self._given_source is None:
            raise PrivacyError("The ledger was opened without a source of noise: nothing can be released.")
        return self._given_source

    def _show(self, line: _Line, exact: Any, chosen: Chosen) -> Chosen:
        for observer in self._observers:
            observer.on_selection(line.release, exact=exact, chosen=chosen)
        return chosen

    def _reserved(self) -> list[Charge]:
        return [line.release.charge for line in self._lines.values()]

    def _say_who(self) -> tuple[str, ...]:
        if self.unit.is_row:
            who = "one person has one row; who has k rows is protected by group privacy for k only"
            return _RELATION_WORDS[self.neighboring_relation], who
        replacing = self.neighboring_relation is NeighboringRelation.REPLACE_ONE
        others = "any legal rows, or null rows" if replacing else "null rows that add nothing to any sum"
        of_unit = f"whose rows are {self.unit.meaning}; " if self.unit.named else ""
        return (
            "two tables are neighbours if they have the same rows in the same places but for those of one unit, which "
            f"are {others} in one of them",
            f"a person is one unit, {of_unit}a unit has {self.unit.rows} rows at most, each of which moves what is "
            "released as said of a row, but for critic steps that draw whole units, which add what a row may: noise "
            "multipliers and epsilons in the ledger are those of all rows of a unit together",
            *([_SIZES_OF_UNITS] if SIZES_LABEL in self._lines else []),
            *([_LINKS_OF_UNITS] if LINKS_LABEL in self._lines else []),
            *(() if self.unit.named else ("that nobody has more rows was promised with --rows-per-unit, not checked",)),
        )

    def _assumptions(self) -> tuple[str, ...]:
        given_up = any(release.mechanism == GIVEN_UP for release in self.releases)
        return (
            *self._say_who(),
            "the number of rows, the specs, the settings and the code are public",
            *([_PLANNED_ANEW] if given_up else []),
            *(
                words.replace("draws each row", "draws each unit") if self.unit.sampled else words
                for kinds, words in _ASSUMED_OF_EVENTS
                if any(isinstance(release.event, kinds) for release in self.releases)
            ),
        )
