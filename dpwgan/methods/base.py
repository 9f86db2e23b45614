"""What every method offers: a plan from public facts, a fit that the ledger watches, and samples that need no rows."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpwgan.plan import Plan, Terms
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.workers import Task, Team

Progress = Callable[[int, int, float], None]
"""Told of steps done, steps in all and epsilon spent: public numbers."""


class FittedSynthesizer(Protocol):
    """A fitted model: holds no rows."""

    @property
    def certificate(self) -> Certificate | None:
        """What is certified about the accuracy of a model just fitted; the claim keeps it for a saved one."""

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = ...) -> Iterator[EncodedTable]:
        """Draws rows. Privacy: post-processing, free however often."""

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""


class Method(Protocol):
    """One published method: a choice of generator, discriminators and budget split."""

    name: str
    title: str
    paper: str

    def make_settings(self, **asked: Any) -> Any:
        """Checks settings by name. Raises: UsageError."""

    def plan(self, shape: TableShape, terms: Terms, *, settings: Any) -> Plan[Any]:
        """Fixes everything that decides privacy and cost. Privacy: sees the public shape only."""

    def fit(
        self,
        encoded: EncodedTable,
        plan: Plan[Any],
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> FittedSynthesizer:
        """Trains. Privacy: every read of rows was reserved in the ledger and is charged before it happens."""


@runtime_checkable
class SharedMethod(Protocol):
    """What a method offers besides where several workers may have the rows between them."""

    def check_shared(self, plan: Plan[Any]) -> None:
        """Raises: UsageError if what is planned needs all rows in one place."""

    def make_tasks(
        self, encoded: EncodedTable, plan: Plan[Any], *, streams: Streams, ledger: Ledger
    ) -> Mapping[str, Task]:
        """Gives what another worker than the chief does with its own rows when asked.

        Privacy: exact sums, for the chief to put noise on; each is charged before it happens.
        """

    def fit(
        self,
        encoded: EncodedTable,
        plan: Plan[Any],
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
        team: Team | None = None,
    ) -> FittedSynthesizer:
        """Trains as `Method.fit`; with a team, on the rows of all workers, of which `encoded` are the chief's."""
