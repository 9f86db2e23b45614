"""What a worker does with its own rows when the chief asks: counts of all kinds. Nothing of it is released here."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError
from dpwgan.marginals.anchor import GROUPS_TASK
from dpwgan.marginals.coarsening import Coarsening
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.measurements import MARGINALS_TASK, PAIRS_TASK, count_marginals, count_pairs, join_marginals
from dpwgan.marginals.one_ways import ONE_WAYS_TASK, OneWayPlan, count_all_one_ways
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.workers import Numbers, Task


class RowServer:
    """A worker's share of the rows, and the counts of them that an anchor asks for.

    Privacy: counts are exact, and for the chief to put noise on; the caller charges before each task.
    """

    def __init__(self, encoded: EncodedTable, plan: OneWayPlan) -> None:
        self._encoded, self._plan = encoded, plan
        self._groups: npt.NDArray[np.int32] | None = None
        self._layout: GroupLayout | None = None

    @property
    def tasks(self) -> Mapping[str, Task]:
        """What can be asked for, by name."""
        return {
            ONE_WAYS_TASK: lambda argument, array: count_all_one_ways(self._encoded, self._plan),
            GROUPS_TASK: self._form_groups,
            PAIRS_TASK: lambda argument, array: count_pairs(*self.get_groups()),
            MARGINALS_TASK: self._count_marginals,
        }

    def get_groups(self) -> tuple[npt.NDArray[np.int32], GroupLayout]:
        """Gives the rows as groups, and their layout. Raises: DpwganError, an internal error, if there are none yet."""
        if self._groups is None or self._layout is None:
            raise DpwganError("Internal error: the chief asked for counts of groups before there were any.")
        return self._groups, self._layout

    def _form_groups(self, argument: Any, array: Numbers) -> None:
        coarsening = Coarsening.from_document(argument)
        self._groups, self._layout = coarsening.to_groups(self._encoded), GroupLayout(coarsening.sizes)

    def _count_marginals(self, argument: Any, array: Numbers) -> Numbers:
        groups, layout = self.get_groups()
        return join_marginals(count_marginals(groups, [tuple(marginal) for marginal in argument], layout))
