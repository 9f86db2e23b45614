"""The encoded rows of a run, wherever they lie: a method asks for sums over all of them, by the name of a task.

Arrays may be mapped from files, and are then read in blocks (`dpwgan.table.storage`). If workers share the rows, the
chief asks for a task by its name, each does it on its own rows, and the answers are added up.
Privacy: sums are exact, and the chief adds the noise; a task is asked for after it was charged.
"""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.errors import DpwganError
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.units.units import Units
from dpwgan.table.workers import Team

Own = TypeVar("Own")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Sum(Generic[Own]):
    """A named sum over rows: a function of a process's own rows, a JSON argument and an array.

    Privacy: `compute` gives an exact sum over rows.
    """

    name: str
    compute: Callable[[Own, Any, Floats], Floats]

    def __post_init__(self) -> None:
        """Registers it under its name, for other workers."""
        _SUMS[self.name] = self


@dataclass(frozen=True, eq=False)
class Derivation(Generic[Own, Made]):
    """A named row-wise conversion: a function of own rows, a JSON argument and what is `Beside` them."""

    name: str
    make: Callable[[Own, Any, "Beside"], Made]

    def __post_init__(self) -> None:
        """Registers it under its name, for other workers."""
        _DERIVATIONS[self.name] = self


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a process has beside its own rows: its ledger, and the units of rows if whole units are sampled."""

    ledger: Ledger | None = None
    units: Units | None = None


_SUMS: dict[str, Sum[Any]] = {}
_DERIVATIONS: dict[str, Derivation[Any, Any]] = {}
_NOTHING = np.zeros(0)


class Rows(Generic[Own]):
    """All rows, of which `own` are here: all, in memory or on disk, or if a team shares them, the chief's.

    `records`: the public number of all rows; null records may have been left out.
    """

    def __init__(
        self,
        own: Own,
        *,
        records: int,
        ledger: Ledger | None = None,
        team: Team | None = None,
        units: Units | None = None,
    ) -> None:
        """`units`: of the rows, for whoever samples whole units."""
        self.own, self.records, self.units = own, records, units
        self._ledger, self._team = ledger, team
        # The number of these rows on all workers, and the free ones.
        self._place, self._places = 0, itertools.count(1)

    @property
    def shared(self) -> bool:
        """Whether other workers have rows too, which they `serve`."""
        return self._team is not None

    def sum(self, task: Sum[Own], *, argument: Any = None, array: Floats = _NOTHING) -> Floats:
        """Adds up a task over all rows. Shapes: what the task gives. Raises: ResourceError if a worker is lost."""
        if self._team is None:
            return task.compute(self.own, argument, array)
        return self._team.add_up(
            task.name,
            lambda: task.compute(self.own, argument, array),
            argument={"rows": self._place, "argument": argument},
            array=array,
        )

    def derive(self, derivation: Derivation[Own, Made], argument: Any = None) -> "Rows[Made]":
        """Converts all rows where they lie; workers keep the result under the next number.

        Raises: ResourceError if a worker is lost.
        """
        place = next(self._places)
        if self._team is not None:
            self._team.tell(derivation.name, argument={"rows": self._place, "argument": argument, "place": place})
        made: Rows[Any] = copy.copy(self)
        made.own = derivation.make(self.own, argument, Beside(ledger=self._ledger, units=self.units))
        made._place = place
        return made


def serve(own: Any, *, team: Team, ledger: Ledger, units: Units | None = None) -> None:
    """Does the chief's tasks on a worker's own rows, until it dismisses this worker.

    Privacy: what the chief charges is charged here as well, before rows are read, against this worker's own plan.
    Raises: as `Team.serve`; DpwganError, an internal error, for an unknown task.
    """
    held, beside = {0: own}, Beside(ledger=ledger, units=units)

    def do(task: str, argument: Any, array: Floats) -> Floats | None:
        rows = held[argument["rows"]]
        if task in _DERIVATIONS:
            held[argument["place"]] = _DERIVATIONS[task].make(rows, argument["argument"], beside)
            return None
        if task not in _SUMS:
            raise DpwganError(f"Internal error: the chief asked for {task!r}, which is no task.")
        return _SUMS[task].compute(rows, argument["argument"], array)

    team.serve(do, charge=ledger.charge, charged=ledger.charged)
