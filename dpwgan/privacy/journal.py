"""The journal that lets a killed run resume: here it keeps nothing; `dpwgan.app.checkpoint` has one on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpwgan.array_types import Arrays
from dpwgan.privacy.events import Event, read_event


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Acts of an earlier plan of the same run: charged, and of no use any more."""

    label: str
    event: Event
    count: int


class Account(Protocol):
    """One run's entry in a budget that it shares with other releases of the same table: `dpwgan.app.book`."""

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Counts acts that are about to happen. Raises: PrivacyError if they were not set aside there."""

    def close(self, *, goes_on: bool) -> None:
        """Gives back what a run that failed has not charged, unless it may go on."""


class Journal:
    """Keeps nothing: that of a run without a checkpoint, and the form of all others.

    An act is a stretch of a run that charges the ledger and then reads rows; what it gives, made of releases alone, is
    kept under its name. Each act has a name of its own, but for a charge outside of any, which is an act by its label.
    Acts may lie within others: a charge belongs to the one that was begun last.
    Privacy: what is kept must be made of releases, of public facts and of the model's own randomness. A worker that is
      not the chief is told what the chief's journal holds, so that its ledger starts where the chief's does; nothing is
      kept there, and the chief's has a charge before it asks anybody for rows.
    `account` is asked before each charge, where there is one; only the chief's journal has it.
    """

    keeps = False
    account: Account | None = None

    def __init__(self, told: Mapping[str, Any] | None = None) -> None:
        """Begins with no earlier lives, or with those that another journal's `describe` tells of."""
        self._told: Mapping[str, Any] = told or {"life": 0, "key": None, "spent": [], "charged": {}}

    @property
    def life(self) -> int:
        """How many lives the run had before this one."""
        return int(self._told["life"])

    @property
    def lives(self) -> tuple[str, ...]:
        """The random names of all lives of a run that may be resumed, the one that goes on last; none are told."""
        return ()

    @property
    def key(self) -> int | None:
        """128 bits that all lives of the run have, and no other run; None for a run of one life."""
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
        """How many acts of each reservation earlier lives of the run have charged, by label, under whichever plan."""
        charged: Mapping[str, int] = self._told["charged"]
        return charged

    def describe(self) -> dict[str, Any]:
        """What another worker has to know of all lives, as JSON-able pairs."""
        return {"life": self.life, "key": self.key, "spent": self._told["spent"], "charged": dict(self.charged)}

    def close(self) -> None:
        """Lets go of what it keeps; once is enough."""
        if self.account is not None:
            self.account.close(goes_on=self.keeps)

    def begin(self, name: str, *, dispensable: bool) -> None:
        """Says that the charges from here on are those of this act. If it is `dispensable` the run can do without."""

    def end(self) -> None:
        """Says that the act begun last is over."""

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Notes a charge for good: when this returns it has outlived the process."""

    def count_charged(self, label: str, *, event: Event) -> int:
        """Counts the acts of a reservation that earlier lives of the run have charged.

        Raises: UsageError if they charged another event under that label.
        """
        return self.charged.get(label, 0)

    def count_lost(self, label: str) -> int:
        """Counts those of them that gave nothing that the run still has."""
        return 0

    def has_lost(self, name: str) -> bool:
        """Says whether an earlier life began this act, and nothing of it was kept."""
        return False

    def keep(self, name: str, arrays: Arrays) -> None:
        """Keeps what an act gave, or a state made of releases, in place of what was kept under that name."""

    def recall(self, name: str) -> Arrays | None:
        """Finds what was kept under a name, or None."""
        return None

    def choose_block(self, steps: int, *, together: int) -> int:
        """Chooses after how many of so many steps weights are kept; they are charged at once, before the first.

        `together`: how many are taken at a time.
        """
        return together
