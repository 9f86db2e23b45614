"""Rows of a fitted model that keep every rule between columns, as many as asked for.

Rows of a mixture are repaired with as few changes as possible, so that rules do not move what was fitted. First the
columns of a broken rule are redrawn inside their groups. Then rows that break it swap one of its columns if that leaves
fewer rules broken: no column's shares move, and swapping the finest column, whose dependence on others is known least,
costs little. Then equations are solved for a number; then the columns of rules are redrawn from the row's code; and
only if all of that fails a row is redrawn as a whole. For a condition on the output (`--where`) rows are left out
instead.
Privacy: post-processing of the model, and so is how often that takes.
Source: Moser and Tardos 2010 (resampling what is broken); Guo, Jerrum, Liu 2019, arXiv:1611.01647, of its law;
  Dalenius and Reiss 1982 (tables that keep their margins while rows exchange cells).
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dpwgan.app.logs import LOGGER
from dpwgan.array_types import Flags, Floats, Integers
from dpwgan.errors import SpecsError, UsageError, quote
from dpwgan.marginals.rows.matching import CodeFit
from dpwgan.marginals.rows.mixture_sampler import Draft, MixtureSampler
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.privacy.randomness import branch
from dpwgan.table.conditions import ConditionError
from dpwgan.table.encoded import EncodedTable, join
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.rules import can_be_true, read_condition
from dpwgan.table.schema import NumericColumn, Rule, Schema
from dpwgan.table.threads import map_in_order

# The most rounds of each stage before a row is redrawn as a whole, which moves shares, and so should be rare. A stage
# ends after so many rounds that repaired next to nothing.
_ROUNDS = {"inside groups": 8, "exchanged": 32, "solved": 2, "of codes": 32}
_IDLE_ROUNDS, _LEAST_MENDED = 3, 0.02
# Judging a few rows takes as long as judging thousands: the most tries for one row, and for all at once.
_MOST_TRIED, _TRIED_AT_ONCE = 8, 1 << 12
_MOST_DRAWN = 1 << 16
# If this share of rows keep a rule only by other cells than the model gave them, it is said, unless few are asked for.
_MANY_MOVED, _LEAST_TOLD = 0.03, 100
# A model is given up if after so many rows at most this share passes.
_LEAST_DRAWN, _LEAST_SHARE = 100_000, 1e-4


@dataclass(kw_only=True, eq=False)
class _Drawn:
    """Drawn rows, their codes, the cells that rules read, and which rules they break.

    Shapes: (n,) codes, 0 where the model has none; (n, rules' columns) cells; `broken` (rules, n).
    """

    encoded: EncodedTable
    codes: Integers
    known: pl.DataFrame
    broken: Flags

    def take(self, rows: Integers) -> "_Drawn":
        """A copy of some rows."""
        known, broken = self.known[rows], self.broken[:, rows]
        return _Drawn(encoded=self.encoded.take(rows), codes=self.codes[rows], known=known, broken=broken)

    def put(self, rows: Integers, others: "_Drawn") -> None:
        """Replaces some rows by others of the same codes."""
        self.encoded.codes[rows], self.encoded.numbers[rows] = others.encoded.codes, others.encoded.numbers
        self.broken[:, rows] = others.broken
        places = np.arange(len(self.codes))
        places[rows] = len(self.codes) + np.arange(len(rows))
        self.known = pl.concat([self.known, others.known])[places]


class RowSource:
    """A model's rows as cells, each of which keeps the rules of the specs and, if there is one, a condition.

    Raises: UsageError if the condition cannot be acted on.
    """

    def __init__(
        self, fitted: FittedSynthesizer, encoder: TableEncoder, *, rows: int, where: str | None = None
    ) -> None:
        self._fitted = fitted
        self._mixture = fitted.prepare(rows) if isinstance(fitted, MixtureSampler) else None
        self._encoder = encoder
        self._rules = encoder.rules
        self._mended = slice(len(self._rules.rules))
        if where is not None:  # it comes after the rules, and is to be true, not unknown
            columns, sql = check_condition(where, encoder.schema), f"COALESCE(({where}), FALSE)"
            self._rules = encoder.add_rule(Rule(name=f"the condition {where!r}", columns=columns, sql=sql))
        self.leaves_out = where is not None  # a row drawn may then cost many
        self._told: set[str] = set()

    @property
    def has_codes(self) -> bool:
        """Whether columns depend on each other through the code of a row."""
        return self._mixture is not None and len(self._mixture.probabilities) > 1

    def list_drafts(
        self, sizes: Sequence[int], *, rng: np.random.Generator, threads: int | None
    ) -> Iterator[Draft | None]:
        """The draft of each part, cut out of larger ones; None for a model that draws each row independently."""
        model = self._mixture
        if model is None or not model.moves:
            yield from itertools.repeat(None, len(sizes))
            return
        ends = np.cumsum(sizes)
        places = (ends - 1) // model.count_together(int(ends[-1]))
        parts = itertools.groupby(range(len(sizes)), key=places.__getitem__)
        blocks, own = [[sizes[part] for part in block] for _, block in parts], branch(rng)
        tasks = ((sum(block), branch(own)) for block in blocks)
        drafts = map_in_order(lambda task: model.draft(task[0], rng=task[1]), tasks, threads=threads)
        for draft, block in zip(drafts, blocks, strict=True):
            yield from draft.split(block)

    def draw(
        self, rows: int, *, first_record: int, rng: np.random.Generator, draft: Draft | None = None
    ) -> pl.DataFrame:
        """Draws so many rows, those from `first_record` on, and checks each cell and rule again.

        Raises: SpecsError if the model hardly ever keeps the rules, UsageError if that is for the condition.
        """
        return self._decode(self._draw_kept(rows, draft, rng=rng), first_record=first_record, rng=rng)

    def draw_to_match(
        self, rows: int, columns: Sequence[str], *, rng: np.random.Generator, draft: Draft | None = None
    ) -> tuple[pl.DataFrame, CodeFit | None]:
        """As `draw`, and how rows go with other cells of some columns, for a model of several codes."""
        model = self._mixture
        if model is None or not self.has_codes or not columns:
            return self.draw(rows, first_record=0, rng=rng, draft=draft), None
        drawn = self._draw_kept(rows, draft, rng=rng)
        return self._decode(drawn, first_record=0, rng=rng), model.fit_codes(drawn.codes, drawn.encoded, columns)

    def _decode(self, drawn: _Drawn, *, first_record: int, rng: np.random.Generator) -> pl.DataFrame:
        frame = self._encoder.decode(drawn.encoded, rng, first_record=first_record, known=drawn.known)
        self._encoder.validate(frame)
        return frame

    def _draw_kept(self, rows: int, draft: Draft | None, *, rng: np.random.Generator) -> _Drawn:
        """Rows that keep all rules."""
        if not self._rules:
            encoded, codes = zip(*self._sample(rows, draft, rng=rng), strict=True)
            none = np.zeros((0, rows), np.bool_)
            return _Drawn(encoded=join(encoded), codes=np.concatenate(codes), known=pl.DataFrame(), broken=none)
        parts: list[_Drawn] = []
        kept = passed = drawn = 0
        broken = np.zeros(len(self._rules.rules), np.int64)
        size = rows
        while kept < rows:
            for mended, counts in self._draw_mended(size, draft, rng=rng):
                drawn += mended.encoded.records
                broken += counts
                passing = np.flatnonzero(~mended.broken.any(axis=0))
                passed += len(passing)
                parts.append(mended.take(passing[: rows - kept]))
                kept += parts[-1].encoded.records
            draft = None
            if kept < rows and drawn >= _LEAST_DRAWN and passed < _LEAST_SHARE * drawn:
                self._refuse(int(broken.argmax()), passed=passed, drawn=drawn)
            size = min(_MOST_DRAWN, 16 + round(1.1 * (rows - kept) * drawn / max(passed, 1)))
        if rows >= _LEAST_TOLD:
            self._tell(broken / drawn)
        return _Drawn(
            encoded=join([part.encoded for part in parts]),
            codes=np.concatenate([part.codes for part in parts]),
            known=pl.concat([part.known for part in parts]),
            broken=np.concatenate([part.broken for part in parts], axis=1),
        )

    def _draw_mended(
        self, records: int, draft: Draft | None, *, rng: np.random.Generator
    ) -> Iterator[tuple[_Drawn, Integers]]:
        """Repaired rows, and how many kept each rule only by moving shares, or not at all."""
        model = self._mixture
        for encoded, codes in self._sample(records, draft, rng=rng):
            drawn = self._judge(encoded, codes, rng=rng)
            counts = drawn.broken.sum(axis=1) if model is None else self._mend(model, drawn, rng=rng)
            yield drawn, counts

    def _sample(
        self, records: int, draft: Draft | None, *, rng: np.random.Generator
    ) -> Iterator[tuple[EncodedTable, Integers]]:
        """Rows of the model, or of the draft if there is one, and their codes."""
        model = self._mixture
        if model is None:
            yield from ((part, np.zeros(part.records, np.int64)) for part in self._fitted.sample(records, rng=rng))
            return
        for own in model.list_drafts(records, rng=rng) if draft is None else [draft]:
            yield model.draw_cells(own.groups, rng=rng), own.codes

    def _mend(self, model: MixtureSampler, drawn: _Drawn, *, rng: np.random.Generator) -> Integers:
        """Repairs rows in place, and gives how many broke each rule after all stages that move no share."""
        rules, known = self._encoder.rules.rules, drawn.known
        finest = [max(rule.columns, key=lambda name: known[name].n_unique()) for rule in rules]
        counts: Integers = drawn.broken.sum(axis=1)
        for stage, rounds in _ROUNDS.items():
            if stage != "of codes":
                counts = drawn.broken.sum(axis=1)
            left: list[int] = []
            for _ in range(rounds):
                left.append(int(drawn.broken[self._mended].sum()))
                idle = len(left) > _IDLE_ROUNDS and left[-1] > (1 - _LEAST_MENDED) * left[-1 - _IDLE_ROUNDS]
                if left[-1] == 0 or idle:
                    break
                rest = np.flatnonzero(drawn.broken[self._mended].any(axis=0))
                if stage == "exchanged":
                    drawn.put(*self._exchange(drawn, rest, finest, rng=rng))
                elif stage == "solved":
                    self._solve(drawn, rng=rng)
                else:
                    drawn.put(rest, self._redraw(model, drawn, rest, within_groups=stage == "inside groups", rng=rng))
        return counts

    def _redraw(
        self, model: MixtureSampler, drawn: _Drawn, rest: Integers, *, within_groups: bool, rng: np.random.Generator
    ) -> _Drawn:
        """Redraws the columns of broken rules: of a few tries the first that keeps all rules, or else the first."""
        tried = _count_tries(len(rest))
        rows = drawn.take(np.repeat(rest, tried))
        groups = model.coarsening.to_groups(rows.encoded) if within_groups else model.draw_groups(rows.codes, rng=rng)
        others = model.draw_cells(groups, rng=rng)
        for rule, own in zip(self._encoder.rules.rules, rows.broken, strict=False):
            self._encoder.exchange(rows.encoded, others, rule.columns, own)
        rows = self._judge(rows.encoded, rows.codes, rng=rng)
        keeps = ~rows.broken[self._mended].any(axis=0)
        return rows.take(keeps.reshape(-1, tried).argmax(axis=1) + tried * np.arange(len(rest)))

    def _exchange(
        self, drawn: _Drawn, rest: Integers, finest: list[str], *, rng: np.random.Generator
    ) -> tuple[Integers, _Drawn]:
        """Rows that swapped the finest column of a rule in pairs, where that leaves fewer rules broken.

        Of a few random pairings a row takes the first that helps and in which it and its partner are both free.
        """
        count, tried = len(rest), _count_tries(len(rest))
        before, rows = drawn.take(np.tile(rest, tried)), drawn.take(np.tile(rest, tried)).encoded
        pairs = [_pair(drawn.broken[self._mended, rest], rng=rng) for _ in range(tried)]
        partners = np.concatenate([found + place * count for place, (_, found) in enumerate(pairs)])
        others = before.encoded.take(partners)
        for place, name in enumerate(finest):
            self._encoder.exchange(rows, others, [name], np.concatenate([flags[place] for flags, _ in pairs]))
        after = self._judge(rows, before.codes, rng=rng)
        gain = before.broken[self._mended].sum(axis=0) - after.broken[self._mended].sum(axis=0)
        better, waits = (gain + gain[partners] > 0).reshape(tried, count), np.ones(count, np.bool_)
        for place, (_, found) in enumerate(pairs):
            better[place] &= waits & waits[found]
            waits &= ~better[place]
        taken = np.flatnonzero(better)
        return rest[taken % count], after.take(taken)

    def _solve(self, drawn: _Drawn, *, rng: np.random.Generator) -> None:
        """Solves each broken equation for one number, in place, if that leaves fewer rules broken.

        The largest number that works, and equations of small numbers first: parts stay, and totals are made of them.
        """
        size: dict[str, float] = {}
        numbers: dict[int, list[str]] = {}
        for place, rule in enumerate(self._encoder.rules.rules):
            if self._rules.has_equations(place):
                columns = (self._encoder.schema.by_name[name] for name in rule.columns)
                numbers[place] = [column.name for column in columns if type(column) is NumericColumn]
                for name, values in self._encoder.read_values(drawn.known, numbers[place]).to_dict().items():
                    known = np.abs(values.drop_nulls().to_numpy())
                    size[name] = float(np.median(known)) if len(known) else 0.0
        for place, own in sorted(numbers.items(), key=lambda item: max(map(size.__getitem__, item[1]), default=0.0)):
            for name, sign in itertools.product(sorted(own, key=size.__getitem__, reverse=True), (-1.0, 1.0)):
                rows = np.flatnonzero(drawn.broken[place])
                if not len(rows):
                    break
                before = drawn.take(rows)
                for gaps in self._rules.find_gaps(place, before.known):
                    moved = before.encoded.take(np.arange(len(rows)))
                    self._encoder.move(moved, before.known.get_column(name), by=sign * gaps)
                    after = self._judge(moved, before.codes, rng=rng)
                    fewer = before.broken[self._mended].sum(axis=0) > after.broken[self._mended].sum(axis=0)
                    drawn.put(rows[fewer], after.take(np.flatnonzero(fewer)))

    def _judge(self, encoded: EncodedTable, codes: Integers, *, rng: np.random.Generator) -> _Drawn:
        cells = pl.DataFrame(self._encoder.decode_columns(encoded, rng, names=self._rules.columns))
        broken = np.stack(self._rules.find_broken(cells))
        return _Drawn(encoded=encoded, codes=codes, known=cells, broken=broken)

    def _tell(self, shares: Floats) -> None:
        """Warns once of each rule of the specs that moved many rows. Shapes: (rules,) or more."""
        moved = zip((rule.name for rule in self._encoder.rules.rules), shares, strict=False)
        told = {name: share for name, share in moved if share >= _MANY_MOVED and name not in self._told}
        if not told:
            return
        self._told.update(told)
        least, most = (f"{100 * end(told.values()):.0f}" for end in (min, max))
        LOGGER.warning(
            "%s%% of the rows drawn kept %s only by other cells than the model gave them: how often %s columns' cells "
            "come up has moved; look at them",
            least if least == most else f"{least} to {most}",
            # Of several the numbers say which.
            *(min(told), "its") if len(told) == 1 else (", ".join(name.split(" (")[0] for name in told), "their"),
        )

    def _refuse(self, place: int, *, passed: int, drawn: int) -> None:
        rule = self._rules.rules[place]
        found = f"{passed} of {drawn:,} rows that the model drew keep all rules; most broken is {rule.name}"
        if place >= self._mended.stop:
            raise UsageError(f"{found}.")
        raise SpecsError(f"{found}; 'derived', 'since' or 'above' ties columns in every row (docs/specs.md, Rules).")


def check_condition(where: str, schema: Schema) -> tuple[str, ...]:
    """The columns that a condition on rows of the output reads. Raises: UsageError if it cannot be acted on."""
    try:
        condition = read_condition(where, schema)
    except ConditionError as error:
        raise UsageError(f"the condition {where!r} (--where) {error}") from None
    columns = condition.columns
    if not can_be_true(condition, schema):
        raise UsageError(f"the condition {where!r} (--where) is true of no cell that {quote(columns[0])} may have")
    others = [] if schema.unit is None or not schema.unit.has_sizes else {*columns} - {*schema.unit.shared}
    if others:
        raise UsageError(
            f"the condition {where!r} (--where) reads {quote(min(others))}, in which rows of a unit may differ, and "
            "units are written whole"
        )
    return columns


def _count_tries(rows: int) -> int:
    return min(_MOST_TRIED, max(1, _TRIED_AT_ONCE // rows))


def _pair(broken: Flags, *, rng: np.random.Generator) -> tuple[Flags, Integers]:
    """Pairs rows by a rule that both break: the rule of each row, and its partner; for a row left over, itself.

    Shapes: (rules, n), each row breaking one at least, to the like with one rule a row, and (n,).
    """
    rules = np.argmax(broken * rng.random(broken.shape), axis=0)
    order, partners = np.lexsort([rng.random(len(rules)), rules]), np.arange(len(rules))
    left, right = order[: len(order) // 2 * 2 : 2], order[1::2]
    partners[left], partners[right] = right, left
    rules[right] = rules[left]
    return rules == np.arange(len(broken))[:, np.newaxis], partners
