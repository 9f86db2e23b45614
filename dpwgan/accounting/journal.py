"""What a run keeps so that it can go on after it was killed: here nothing; `dpwgan.checkpoint` keeps it on disk."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dpwgan.accounting.events import Event

Arrays = Mapping[str, npt.NDArray[np.generic]]


class Journal:
    """Keeps nothing: that of a run without a checkpoint, and the form of all others.

    An act is a stretch of a run that charges the ledger and then reads rows; what it gives, made of releases alone, is
    kept under its name. Each act has a name of its own, but for a charge outside of any, which is an act by its label.
    Acts may lie within others: a charge belongs to the one that was begun last.
    Privacy: what is kept must be made of releases, of public facts and of the model's own randomness.
    """

    @property
    def keeps(self) -> bool:
        """Whether anything is kept."""
        return False

    def begin(self, name: str, *, dispensable: bool) -> None:
        """Says that the charges from here on are those of this act. If it is `dispensable` the run can do without."""

    def end(self) -> None:
        """Says that the act begun last is over."""

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Notes a charge for good: when this returns it has outlived the process."""

    def count_charged(self, label: str, *, event: Event) -> int:
        """Gives how many acts of a reservation earlier lives of the run have charged.

        Raises: UsageError if they charged another event under that label.
        """
        return 0

    def count_lost(self, label: str) -> int:
        """Gives how many of these gave nothing that the run still has."""
        return 0

    def has_lost(self, name: str) -> bool:
        """Says whether an earlier life began this act, and nothing of it was kept."""
        return False

    def keep(self, name: str, arrays: Arrays) -> None:
        """Keeps what an act gave, or a state made of releases, in place of what was kept under that name."""

    def recall(self, name: str) -> Arrays | None:
        """Gives what was kept under a name, or None."""
        return None

    def choose_block(self, steps: int) -> int:
        """Chooses after how many of so many steps weights are kept; they are charged together, before the first."""
        return 1
