"""What every method offers: a plan from public facts, a fit that the ledger watches, and samples that need no rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpwgan.plan import Plan, Run
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape


class FittedSynthesizer(Protocol):
    """A fitted model: holds no rows."""

    @property
    def certificate(self) -> Certificate | None:
        """What is certified about the accuracy of a model just fitted; the claim keeps it for a saved one."""

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows. Privacy: post-processing, free however often."""

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""


class Method(Protocol):
    """One published method: a choice of generator, discriminators and budget split."""

    name: str
    title: str
    paper: str

    def plan(self, shape: TableShape, terms: Terms, *, settings: Any) -> Plan[Any]:
        """Fixes everything that decides privacy and cost. Privacy: sees the public shape only."""

    def fit(self, plan: Plan[Any], run: Run) -> FittedSynthesizer:
        """Trains. Privacy: every read of rows was reserved in the ledger and is charged before it happens."""


class SharedMethod:
    """A method that reads rows by sums alone, of counts or gradients, so that workers may have them between them."""

    def check_shared(self, plan: Plan[Any]) -> None:
        """Raises: UsageError if what is planned needs all rows in one place; sums alone need none."""
