"""Several workers that share one table: the chief leads, the others sum over their own rows when asked.

The chief, of rank 0, draws all noise, makes all choices and fits the generator, as if it were alone. To read rows it
sends a task's name and arguments; each worker computes a sum over its own rows, and all are added up. So each random
number of a release is drawn once, by one worker.

Privacy: these sums are exact, and every worker sees them. Workers trust each other and the network between them, as
parts of one curator; docs/scale.md says what that asks of an operator.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.errors import DpwganError, UsageError

Task = Callable[[str, Any, Floats], Floats | None]
"""What a worker does when asked: from a task's name, a JSON argument and an array to a sum over its own rows."""

_DISMISSED = ""


class Workers(Protocol):
    """Processes that can add up arrays over all of them."""

    @property
    def rank(self) -> int:
        """The number of this process; the chief's is 0."""

    @property
    def size(self) -> int:
        """The number of workers."""

    @property
    def broken(self) -> bool:
        """Whether a worker was lost, or an addition broke off: then nothing more can be added."""

    def add(self, values: Floats) -> Floats:
        """Sums an array over all workers, which call this together. Shapes: (k,), the same k everywhere.

        Raises: ResourceError if a worker is lost.
        """


class Team:
    """The workers of one run, from the side of this one: the chief asks and dismisses, the others serve."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self.rank, self.size = workers, workers.rank, workers.size
        self._get_charged: Callable[[], Mapping[str, int]] = dict
        self._dismissed = False

    @property
    def leads(self) -> bool:
        """Whether this is the chief."""
        return self.rank == 0

    def get_rows(self, records: int) -> tuple[int, int]:
        """The begin and end of this worker's rows: an equal, contiguous part.

        Privacy: every row belongs to exactly one worker, so that it moves one worker's sum only.
        """
        return records * self.rank // self.size, records * (self.rank + 1) // self.size

    def agree(self, facts: Mapping[str, bytes]) -> None:
        """Makes sure that all workers hold the same facts, by exchanging digests of them.

        Raises: UsageError, the same one on all, that names the facts on which they differ.
        """
        digests = np.zeros((self.size, len(facts)))
        # 48 bits: a float64 holds them exactly.
        digests[self.rank] = [int.from_bytes(hashlib.sha256(fact).digest()[:6], "big") for fact in facts.values()]
        digests = self._workers.add(digests.ravel()).reshape(digests.shape)
        differing = [name for name, column in zip(facts, digests.T, strict=True) if np.any(column != column[0])]
        if differing:
            self._dismissed = True  # all of them leave here
            raise UsageError(f"the workers do not agree on {' and '.join(differing)}: give all of them the same")

    def check_ready(self, exit_code: int = 0) -> None:
        """Waits for all workers to be ready, that is, with exit code 0.

        Raises: LostPeerError, on all, with the exit code of the first that failed.
        """
        codes = np.zeros(self.size)
        codes[self.rank] = exit_code
        codes = self._workers.add(codes)
        for rank in np.flatnonzero(codes):
            self._dismissed = True  # all of them leave here
            raise LostPeerError(f"worker {rank} failed; its own log says why", exit_code=int(codes[rank]))

    def share(self, document: Any) -> Any:
        """Sends the chief's JSON document to all workers; what the others pass is ignored."""
        if self.leads:
            self._say(document, np.zeros(0))
            return document
        return self._hear()[0]

    # --------------------------------------------------------------------------------------------------------- chief

    def follow(self, get_charged: Callable[[], Mapping[str, int]]) -> None:
        """Has each task carry the charges of the chief's ledger, by label, from now on."""
        self._get_charged = get_charged

    def add_up(
        self, task: str, own: Callable[[], Floats], *, argument: Any = None, array: Floats | None = None
    ) -> Floats:
        """The sum over all workers; `own` computes this one's part, while the others do theirs. For the chief.

        Shapes: that of what `own` gives. Raises: ResourceError if a worker is lost.
        """
        values = np.zeros(0) if array is None else np.asarray(array, np.float64).ravel()
        self._ask(task, argument, values)
        result = own()
        return self._workers.add(np.asarray(result, np.float64).ravel()).reshape(result.shape)

    def tell(self, task: str, *, argument: Any = None) -> None:
        """Has all others do a task without a result. For the chief."""
        self._ask(task, argument, np.zeros(0))

    def dismiss(self, exit_code: int = 0) -> None:
        """Tells the others that the run is over, and how it ended, if they can still be reached."""
        if not (self._dismissed or self._workers.broken):
            self._dismissed = True
            self._say({"task": _DISMISSED, "exit_code": exit_code}, np.zeros(0))

    def _ask(self, task: str, argument: Any, values: Floats) -> None:
        self._say({"task": task, "argument": argument, "charged": dict(self._get_charged())}, values)

    def _say(self, document: Any, values: Floats) -> None:
        text = np.frombuffer(json.dumps(document).encode(), np.uint8).astype(np.float64)
        self._workers.add(np.array([text.size, values.size], np.float64))
        self._workers.add(np.concatenate((text, values)))

    # --------------------------------------------------------------------------------------------------- all the others

    def serve(self, do: Task, *, charge: Callable[[str, int], None], charged: Mapping[str, int]) -> None:
        """Does the chief's tasks until it dismisses this worker.

        `do` gives None for tasks without a result.
        `charged`: what both ledgers hold already, by label, if the run was killed and goes on.
        Privacy: what the chief has charged since the last task is charged here first, against what this worker reserved
          by its own plan.
        Raises: PrivacyError from `charge`; DpwganError with the chief's exit code if the chief failed; ResourceError if
          a worker is lost.
        """
        done = dict(charged)
        while True:
            command, values = self._hear()
            if command["task"] == _DISMISSED:
                if command["exit_code"]:
                    raise LostPeerError("worker 0 failed; its own log says why", exit_code=command["exit_code"])
                return
            for label, count in command["charged"].items():
                if count > done.get(label, 0):
                    charge(label, count - done.get(label, 0))
                    done[label] = count
            answer = do(command["task"], command["argument"], values)
            if answer is not None:
                self._workers.add(np.asarray(answer, np.float64).ravel())

    def _hear(self) -> tuple[Any, Floats]:
        sizes = self._workers.add(np.zeros(2)).astype(int)
        said = self._workers.add(np.zeros(sizes.sum()))
        return json.loads(said[: sizes[0]].astype(np.uint8).tobytes()), said[sizes[0] :]


class LostPeerError(DpwganError):
    """Another worker failed, with the exit code for all."""

    def __init__(self, sentence: str, *, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code  # type: ignore[misc]
