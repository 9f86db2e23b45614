"""Several workers that share one table: one leads, the others count or sum over their own rows when they are asked to.

The chief, of rank 0, draws all noise, makes all choices and fits the generator, as if it were alone. What it needs of
rows it asks of everybody: a task by its name, with what it takes to do it; each worker answers with a sum over its
own rows, and all answers are added up. So each random number of a release is drawn once, by one worker.

Privacy: the sums that travel are exact, and every worker sees them. Workers trust each other and the network between
them, as the parts of one curator do; docs/scale.md says what that asks of an operator.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.errors import DpwganError, UsageError

Task = Callable[[str, Any, Floats], Floats | None]
"""What a worker does when asked: a task's name, an argument of JSON and an array in, a sum over its own rows out."""

_DISMISSED = ""


class Workers(Protocol):
    """Processes that can add up arrays over all of them."""

    @property
    def rank(self) -> int:
        """Which of them this process is; the chief is 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def broken(self) -> bool:
        """Whether a worker was lost, or an addition did not come to its end: then nothing more can be added."""

    def add(self, values: Floats) -> Floats:
        """Adds up an array over all workers, which call this together. Shapes: (k,), the same k everywhere.

        Raises: ResourceError if a worker is lost.
        """


class Team:
    """The workers of one run, and which of how many this is: the chief asks and dismisses, the others serve."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self.rank, self.size = workers, workers.rank, workers.size
        self._get_charged: Callable[[], Mapping[str, int]] = dict
        self._dismissed = False

    @property
    def leads(self) -> bool:
        """Whether this is the chief."""
        return self.rank == 0

    def get_rows(self, records: int) -> tuple[int, int]:
        """The first and the last but one of this worker's rows: an equal part of all, in a row.

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
        """Goes on if all workers are ready: none has an exit code but 0.

        Raises: LostPeerError, on all, with the exit code of the first that failed.
        """
        codes = np.zeros(self.size)
        codes[self.rank] = exit_code
        codes = self._workers.add(codes)
        for rank in np.flatnonzero(codes):
            self._dismissed = True  # all of them leave here
            raise LostPeerError(f"worker {rank} failed; its own log says why", exit_code=int(codes[rank]))

    def share(self, document: Any) -> Any:
        """Tells all workers what the chief hands in, a document of JSON; what the others hand in is not looked at."""
        if self.leads:
            self._say(document, np.zeros(0))
            return document
        return self._hear()[0]

    # --------------------------------------------------------------------------------------------------------- chief

    def follow(self, get_charged: Callable[[], Mapping[str, int]]) -> None:
        """From now on each question carries what the chief's ledger was charged with, label by label."""
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
        """Has all others do a task that gives nothing back. For the chief."""
        self._ask(task, argument, np.zeros(0))

    def dismiss(self, exit_code: int = 0) -> None:
        """Tells the others that the run is over, and how it ended; does nothing where they cannot be told any more."""
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
        """Does what the chief asks for until it dismisses this worker.

        `do` gives None where nothing is asked back.
        `charged`: what both ledgers hold already, label by label, where the run goes on after it was killed.
        Privacy: what the chief has charged since the last question is charged here first, against what this worker
          reserved by its own plan.
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
    """Another worker failed, with an exit code that is everybody's."""

    def __init__(self, sentence: str, *, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code  # type: ignore[misc]
