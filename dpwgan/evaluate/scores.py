"""All scores of one evaluation, and the JSON document that holds them.

Privacy: NOT private. The scores are statistics of the real rows, and no epsilon covers them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpwgan.evaluate.tables import NOTICE


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured, ready to be written."""

    tables: Mapping[str, Any]
    claim: Mapping[str, Any] | None
    seed: int
    scores: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    triples: tuple[Mapping[str, Any], ...]
    legality: Mapping[str, Any]
    seconds: float
    rows_per_second: float

    def to_document(self) -> dict[str, Any]:
        """Gives what --json writes and the report shows: plain dictionaries, lists, numbers and strings."""
        return {
            "notice": NOTICE,
            "tables": dict(self.tables),
            "claim": None if self.claim is None else dict(self.claim),
            "seed": self.seed,
            "scores": dict(self.scores),
            "columns": [dict(column) for column in self.columns],
            "triples": [dict(triple) for triple in self.triples],
            "legality": dict(self.legality),
            "seconds": self.seconds,
            "rows_per_second": self.rows_per_second,
        }
