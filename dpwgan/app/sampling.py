"""Rows of a fitted model that keep every rule between columns, as many as asked for.

A row that breaks a rule is first drawn anew inside its groups of cells, where the model has such, and else as a whole.
Privacy: post-processing of the model, and so is how often that takes.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import SpecsError, UsageError
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.table.conditions import ConditionError
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.rules import RuleBook, read_condition
from dpwgan.table.schema import Rule, Schema

# How often cells are drawn anew inside their groups before the row is drawn anew.
_ROUNDS = 24
_MOST_DRAWN = 1 << 16
# A model of which hardly a row passes is given up.
_LEAST_DRAWN, _LEAST_SHARE = 100_000, 1e-4


@runtime_checkable
class DrawsInsideGroups(Protocol):
    """A model whose rows fall into groups of cells."""

    def draw_again(self, encoded: EncodedTable, *, rng: np.random.Generator) -> EncodedTable:
        """Other rows of the same groups."""


class RowSource:
    """A model's rows as cells, each of which keeps the rules of the specs and, if there is one, a condition.

    Raises: UsageError if the condition cannot be acted on.
    """

    def __init__(self, fitted: FittedSynthesizer, encoder: TableEncoder, *, where: str | None = None) -> None:
        self._fitted, self._encoder = fitted, encoder
        self._rules = encoder.rules if where is None else _add_condition(encoder, where)
        self._where = where

    def draw(self, rows: int, *, first_record: int, rng: np.random.Generator) -> pl.DataFrame:
        """Draws so many rows, those from `first_record` on, and checks each cell and rule again.

        Raises: SpecsError if the model hardly ever keeps the rules, UsageError if that is for the condition.
        """
        if not self._rules:
            chunks = self._fitted.sample(rows, rng=rng)
            return pl.concat(self._encoder.decode_chunks(chunks, rng, first_record=first_record))
        encoded, known = self._draw_kept(rows, rng=rng)
        frame = self._encoder.decode(encoded, rng, first_record=first_record, known=known)
        self._encoder.validate(frame)
        return frame

    def _draw_kept(self, rows: int, *, rng: np.random.Generator) -> tuple[EncodedTable, pl.DataFrame]:
        """So many rows that keep all rules, and the cells of theirs that rules have seen."""
        parts: list[tuple[EncodedTable, pl.DataFrame]] = []
        kept = passed = drawn = 0
        broken = np.zeros(len(self._rules.rules), np.int64)
        size = rows
        while kept < rows:
            for encoded in self._fitted.sample(size, rng=rng):
                drawn += encoded.records
                encoded, known, found = self._keep(encoded, rng=rng)
                broken += found
                passed += encoded.records
                # Any of those that pass, not the first: rows that were drawn again come last.
                chosen = rng.permutation(encoded.records)[: rows - kept]
                parts.append((encoded.take(chosen), known[chosen]))
                kept += len(chosen)
            if kept < rows and drawn >= _LEAST_DRAWN and passed < _LEAST_SHARE * drawn:
                self._refuse(int(broken.argmax()), passed=passed, drawn=drawn)
            size = min(_MOST_DRAWN, 16 + round(1.1 * (rows - kept) * drawn / max(passed, 1)))
        return _join([encoded for encoded, _ in parts]), pl.concat([known for _, known in parts])

    def _keep(
        self, encoded: EncodedTable, *, rng: np.random.Generator
    ) -> tuple[EncodedTable, pl.DataFrame, npt.NDArray[np.int64]]:
        """The rows that keep all rules, some drawn again; and how many broke each at first."""
        known, broken = self._judge(encoded, rng=rng)
        counts = np.array([np.count_nonzero(flags) for flags in broken])
        fails = np.logical_or.reduce(broken)
        parts = [(encoded.take(~fails), known.filter(pl.Series(~fails)))]
        rest = encoded.take(fails)
        model = self._fitted
        for _ in range(_ROUNDS):
            if not rest.records or not isinstance(model, DrawsInsideGroups):
                break
            again = model.draw_again(rest, rng=rng)
            known, broken = self._judge(again, rng=rng)
            fails = np.logical_or.reduce(broken)
            parts.append((again.take(~fails), known.filter(pl.Series(~fails))))
            rest = rest.take(fails)
        return _join([part for part, _ in parts]), pl.concat([cells for _, cells in parts]), counts

    def _judge(
        self, encoded: EncodedTable, *, rng: np.random.Generator
    ) -> tuple[pl.DataFrame, list[npt.NDArray[np.bool_]]]:
        """The cells that rules look at, and which rows break each rule."""
        cells = pl.DataFrame(self._encoder.decode_columns(encoded, rng, names=self._rules.columns))
        return cells, self._rules.find_broken(self._rules.read(cells))

    def _refuse(self, place: int, *, passed: int, drawn: int) -> None:
        rule = self._rules.rules[place]
        is_condition = self._where is not None and place == len(self._rules.rules) - 1
        kind = UsageError if is_condition else SpecsError
        raise kind(f"{passed} of {drawn:,} rows that the model drew keep all rules; most broken is {rule.name}.")


def check_condition(where: str, schema: Schema) -> tuple[str, ...]:
    """The columns that a condition on rows of the output reads. Raises: UsageError if it cannot be acted on."""
    try:
        return read_condition(where, schema).columns
    except ConditionError as error:
        raise UsageError(f"the condition {where!r} (--where) {error}") from None


def _add_condition(encoder: TableEncoder, where: str) -> RuleBook:
    """The rules of the specs, and that a condition is true: unknown will not do. Raises: UsageError."""
    columns = check_condition(where, encoder.schema)
    return encoder.add_rule(Rule(name=f"the condition {where!r}", columns=columns, sql=f"COALESCE(({where}), FALSE)"))


def _join(parts: list[EncodedTable]) -> EncodedTable:
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        codes=np.concatenate([part.codes for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
    )
