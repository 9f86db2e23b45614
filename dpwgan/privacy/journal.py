"""The journal that lets a killed run resume: here it keeps nothing; `dpwgan.app.checkpoint` has one on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpwgan.array_types import Arrays
from dpwgan.privacy.events import Event, read_event


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Acts of an earlier plan of the same run: charged, and no longer of use."""

    label: str
    event: Event
    count: int


class Account(Protocol):
    """One run's entry in a book, a budget that releases of the same table share: `dpwgan.app.book`."""

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Counts acts that are about to happen. Raises: PrivacyError if they were not reserved there."""

    def close(self, *, goes_on: bool) -> None:
        """Returns what a failed run has not charged, unless it may go on."""


class Journal:
    """The journal of a run without a checkpoint, which keeps nothing; the base of the others.

    An act is a part of a run that charges the ledger and then reads rows; its result, made of releases alone, is kept
    under its name, which is unique. A charge outside of any act is an act by its label. Acts may be nested: a charge
    belongs to the one that was begun last.
    Privacy: what is kept must be made of releases, public facts and the model's own randomness. A worker that is not
      the chief is told what the chief's journal holds, so that its ledger starts where the chief's does; it keeps
      nothing, and the chief's has a charge before the chief asks anybody for rows.
    `account`, if there is one, is asked before each charge; only the chief's journal has it.
    """

    keeps = False
    account: Account | None = None

    def __init__(self, told: Mapping[str, Any] | None = None) -> None:
        """Begins with no earlier lives, or with those of another journal's `describe`."""
        self._told: Mapping[str, Any] = told or {"life": 0, "key": None, "spent": [], "charged": {}}

    @property
    def life(self) -> int:
        """Number of lives of the run before this one."""
        return int(self._told["life"])

    @property
    def lives(self) -> tuple[str, ...]:
        """The random names of all lives of a run that may be resumed, this one last; here none."""
        return ()

    @property
    def key(self) -> int | None:
        """128 bits that are shared by all lives of the run, and unique to it; None for a run of one life."""
        key: int | None = self._told["key"]
        return key

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What earlier plans of this run charged."""
        return tuple(
            Spent(label=line["label"], event=read_event(line["event"]), count=line["count"])
            for line in self._told["spent"]
        )

    @property
    def charged(self) -> Mapping[str, int]:
        """The number of acts that earlier lives charged, by label, under any plan."""
        charged: Mapping[str, int] = self._told["charged"]
        return charged

    def describe(self) -> dict[str, Any]:
        """What other workers need to know of all lives, as JSON-able pairs."""
        return {"life": self.life, "key": self.key, "spent": self._told["spent"], "charged": dict(self.charged)}

    def close(self) -> None:
        """Closes it; may be called again."""
        if self.account is not None:
            self.account.close(goes_on=self.keeps)

    def begin(self, name: str, *, dispensable: bool) -> None:
        """Begins an act, which later charges belong to. The run can do without a `dispensable` one."""

    def end(self) -> None:
        """Ends the act begun last."""

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Records a charge durably: when this returns it would survive the process."""

    def count_charged(self, label: str, *, event: Event) -> int:
        """Counts the acts of a reservation that earlier lives of the run have charged.

        Raises: UsageError if they charged another event under that label.
        """
        return self.charged.get(label, 0)

    def count_lost(self, label: str) -> int:
        """Counts those whose results are lost."""
        return 0

    def has_lost(self, name: str) -> bool:
        """Whether an earlier life began this act, and its result is lost."""
        return False

    def keep(self, name: str, arrays: Arrays) -> None:
        """Keeps an act's result, or a state made of releases, in place of an earlier one under that name."""

    def recall(self, name: str) -> Arrays | None:
        """What was kept under a name, or None."""
        return None

    def choose_block(self, steps: int, *, together: int) -> int:
        """Chooses the number of steps between which weights are kept; they are charged together, before the first.

        `together`: how many steps are taken at a time.
        """
        return together
