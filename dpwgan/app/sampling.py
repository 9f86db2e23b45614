"""Rows of a fitted model that keep every rule between columns, as many as asked for.

Where a model's rows are of codes, and fall into groups of cells, as little is drawn anew as will do, so that rules move
no share of what was fitted. The columns of a broken rule are drawn anew inside their groups. Then rows that break it
exchange one of its columns where that leaves fewer rules broken: no column's shares move, and by the finest column,
whose ties to others are known least, little of what hangs together does. Then the columns are drawn of the row's code,
and as a whole only a row of which all that comes to nothing. A condition on the output (`--where`) is another matter:
rows that do not meet it are left out.
Privacy: post-processing of the model, and so is how often that takes.
Source: Moser and Tardos 2010 (resampling what is broken); Guo, Jerrum, Liu 2019, arXiv:1611.01647, of its law;
  Dalenius and Reiss 1982 (tables that keep their margins while rows exchange cells).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import SpecsError, UsageError, quote
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.table.conditions import ConditionError
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.rules import RuleBook, read_condition
from dpwgan.table.schema import Rule, Schema
from dpwgan.table.storage import cut_sizes

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

# How often, at most, cells are drawn anew inside their groups, exchanged, and drawn of their codes, before the row is
# drawn anew: that moves the shares of whatever hardly keeps the rules, so that few rows should be. A stage ends where
# so many of its rounds mended nothing.
_ROUNDS = {"inside groups": 8, "exchanged": 32, "of codes": 32}
_MOST_IDLE = 3
_MOST_DRAWN = 1 << 16
# A model of which hardly a row passes is given up.
_LEAST_DRAWN, _LEAST_SHARE = 100_000, 1e-4


@runtime_checkable
class DrawsOfCodes(Protocol):
    """A model whose rows are of codes, and fall into groups of cells."""

    def prepare(self, rows: int) -> FittedSynthesizer:
        """The same for a table of so many rows."""

    def choose_codes(self, records: int, *, rng: np.random.Generator) -> Codes:
        """The codes of so many rows."""

    def draw_balanced(self, codes: Codes, *, rng: np.random.Generator) -> EncodedTable:
        """A row of each code, pairs of groups as often as the model says."""

    def draw_of(self, codes: Codes, *, rng: np.random.Generator) -> EncodedTable:
        """A row of each code."""

    def draw_again(self, encoded: EncodedTable, *, rng: np.random.Generator) -> EncodedTable:
        """Other rows of the same groups."""


class RowSource:
    """A model's rows as cells, each of which keeps the rules of the specs and, if there is one, a condition.

    Raises: UsageError if the condition cannot be acted on.
    """

    def __init__(
        self, fitted: FittedSynthesizer, encoder: TableEncoder, *, rows: int, where: str | None = None
    ) -> None:
        self._fitted = fitted.prepare(rows) if isinstance(fitted, DrawsOfCodes) else fitted
        self._encoder = encoder
        self._rules = encoder.rules if where is None else _add_condition(encoder, where)
        # The condition comes after the rules.
        self._mended = slice(len(encoder.rules.rules))
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
            for encoded, known, failed, found in self._draw_mended(size, rng=rng):
                drawn += encoded.records
                broken += found
                passing = np.flatnonzero(~failed)
                passed += len(passing)
                chosen = passing[: rows - kept]
                parts.append((encoded.take(chosen), known[chosen]))
                kept += len(chosen)
            if kept < rows and drawn >= _LEAST_DRAWN and passed < _LEAST_SHARE * drawn:
                self._refuse(int(broken.argmax()), passed=passed, drawn=drawn)
            size = min(_MOST_DRAWN, 16 + round(1.1 * (rows - kept) * drawn / max(passed, 1)))
        return _join([encoded for encoded, _ in parts]), pl.concat([known for _, known in parts])

    def _draw_mended(
        self, records: int, *, rng: np.random.Generator
    ) -> Iterator[tuple[EncodedTable, pl.DataFrame, Flags, Codes]]:
        """Rows, the cells of theirs that rules look at, which of them break one still, and how many broke each."""
        model = self._fitted
        if not isinstance(model, DrawsOfCodes):
            for encoded in model.sample(records, rng=rng):
                known, broken = self._judge(encoded, rng=rng)
                yield encoded, known, broken.any(axis=0), broken.sum(axis=1)
            return
        for size in cut_sizes(records, most=_MOST_DRAWN):
            codes = model.choose_codes(size, rng=rng)
            encoded = model.draw_balanced(codes, rng=rng)
            known, broken = self._judge(encoded, rng=rng)
            counts = broken.sum(axis=1)
            known = self._mend(model, encoded, codes, known, broken, rng=rng)
            yield encoded, known, broken.any(axis=0), counts

    def _mend(
        self,
        model: DrawsOfCodes,
        encoded: EncodedTable,
        codes: Codes,
        known: pl.DataFrame,
        broken: Flags,
        *,
        rng: np.random.Generator,
    ) -> pl.DataFrame:
        """Mends rows of these codes in place, and flags them anew; gives the cells that rules look at.

        Shapes: (n,) rows, codes and known cells, `broken` (rules, n).
        """
        whole = [rule.columns for rule in self._encoder.rules.rules]
        finest: list[tuple[str, ...]] = [(max(names, key=lambda name: known[name].n_unique()),) for names in whole]
        for stage, rounds in _ROUNDS.items():
            left: list[int] = []
            for _ in range(rounds):
                left.append(int(broken[self._mended].sum()))
                if left[-1] == 0 or (len(left) > _MOST_IDLE and left[-1] >= left[-1 - _MOST_IDLE]):
                    break
                rest = np.flatnonzero(broken[self._mended].any(axis=0))
                rows, flags, columns = encoded.take(rest), broken[self._mended, rest], whole
                if stage == "exchanged":
                    flags, partners = _pair(flags, rng=rng)
                    others, columns = rows.take(partners), finest
                elif stage == "inside groups":
                    others = model.draw_again(rows, rng=rng)
                else:
                    others = model.draw_of(codes[rest], rng=rng)
                for names, own in zip(columns, flags, strict=True):
                    self._encoder.exchange(rows, others, names, own)
                seen, found = self._judge(rows, rng=rng)
                if stage == "exchanged":
                    gain = broken[self._mended, rest].sum(axis=0) - found[self._mended].sum(axis=0)
                    taken = np.flatnonzero(gain + gain[partners] > 0)
                    rest, rows, seen, found = rest[taken], rows.take(taken), seen[taken], found[:, taken]
                encoded.codes[rest], encoded.numbers[rest] = rows.codes, rows.numbers
                broken[:, rest], known = found, _put(known, seen, rest)
        return known

    def _judge(self, encoded: EncodedTable, *, rng: np.random.Generator) -> tuple[pl.DataFrame, Flags]:
        """The cells that rules look at, and which rows break each rule. Shapes: (rules, n)."""
        cells = pl.DataFrame(self._encoder.decode_columns(encoded, rng, names=self._rules.columns))
        return cells, np.stack(self._rules.find_broken(self._rules.read(cells)))

    def _refuse(self, place: int, *, passed: int, drawn: int) -> None:
        rule = self._rules.rules[place]
        is_condition = self._where is not None and place == len(self._rules.rules) - 1
        kind = UsageError if is_condition else SpecsError
        raise kind(f"{passed} of {drawn:,} rows that the model drew keep all rules; most broken is {rule.name}.")


def check_condition(where: str, schema: Schema) -> tuple[str, ...]:
    """The columns that a condition on rows of the output reads. Raises: UsageError if it cannot be acted on."""
    try:
        columns = read_condition(where, schema).columns
    except ConditionError as error:
        raise UsageError(f"the condition {where!r} (--where) {error}") from None
    others = [] if schema.unit is None or not schema.unit.has_sizes else {*columns} - {*schema.unit.shared}
    if others:
        raise UsageError(
            f"the condition {where!r} (--where) reads {quote(min(others))}, in which rows of a unit may differ, and "
            "units are written whole"
        )
    return columns


def _add_condition(encoder: TableEncoder, where: str) -> RuleBook:
    """The rules of the specs, and that a condition is true: unknown will not do. Raises: UsageError."""
    columns = check_condition(where, encoder.schema)
    return encoder.add_rule(Rule(name=f"the condition {where!r}", columns=columns, sql=f"COALESCE(({where}), FALSE)"))


def _pair(broken: Flags, *, rng: np.random.Generator) -> tuple[Flags, Codes]:
    """Rows in pairs for one rule each: which rule of each row, and its partner; of a row left over, the row itself.

    Shapes: (rules, n), each row breaking one at least, to the like with one rule a row, and (n,).
    """
    rules = np.argmax(broken * rng.random(broken.shape), axis=0)
    order, partners = np.lexsort([rng.random(len(rules)), rules]), np.arange(len(rules))
    left, right = order[: len(order) // 2 * 2 : 2], order[1::2]
    partners[left], partners[right] = right, left
    rules[right] = rules[left]
    return rules == np.arange(len(broken))[:, np.newaxis], partners


def _put(frame: pl.DataFrame, others: pl.DataFrame, rows: Codes) -> pl.DataFrame:
    """The frame with other rows in some places."""
    places = np.arange(frame.height)
    places[rows] = frame.height + np.arange(len(rows))
    return pl.concat([frame, others])[places]


def _join(parts: list[EncodedTable]) -> EncodedTable:
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        codes=np.concatenate([part.codes for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
    )
