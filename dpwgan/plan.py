"""The plan of a run, made before a row is read: what it will release, and what it will cost; and what its fit gets.

Privacy: a plan is made of public facts alone. The noise of a plan is calibrated for the very releases that it holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import AccountantChoice
from dpwgan.stages import Progress
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.rows import Rows


class Part(Protocol):
    """A method's design, or a part of one: it knows what it releases and costs, and how it was set."""

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""

    @property
    def cost(self) -> "Cost":
        """What it takes."""

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""


Design = TypeVar("Design", bound=Part, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The expected cost of a run on two cores. Units: bytes at the peak, and seconds.

    `row_bytes`: what the rows take, which is on disk instead where they are. `working_bytes`: all else.
    """

    row_bytes: int = 0
    working_bytes: int = 0
    seconds: float = 0.0

    @property
    def memory_bytes(self) -> int:
        """All memory, where the rows are in memory."""
        return self.row_bytes + self.working_bytes

    def __add__(self, other: "Cost") -> "Cost":
        """Both in turn, where the first keeps its memory."""
        return Cost(
            row_bytes=self.row_bytes + other.row_bytes,
            working_bytes=self.working_bytes + other.working_bytes,
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[Design]):
    """What a run of a method will do and cost.

    `design` is what the method's own fit has to know: layouts, networks, numbers of rounds. `choice` says by which
    accountant its noise was calibrated.
    """

    shape: TableShape
    choice: AccountantChoice
    design: Design

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return self.design.releases

    @property
    def cost(self) -> Cost:
        """What it takes."""
        return self.design.cost

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for and what was chosen, as JSON-able pairs."""
        return self.design.summary()


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """All that a fit gets: the rows, the ledger that every read of them goes by, and what is public.

    Privacy: noise and batches come from the ledger, which draws them by what was charged. `model` draws weights, latent
      vectors and first codes: post-processing, no secrecy needed. `public` rows are protected by nothing.
    """

    ledger: Ledger
    rows: Rows[EncodedTable]
    model: np.random.Generator
    progress: Progress
    device: str = "auto"
    threads: int | None = None
    public: EncodedTable | None = None
