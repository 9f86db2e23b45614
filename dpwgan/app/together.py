"""Rows of a fitted model put together into units, of forms that were released, each unit under one fresh name.

Rows are drawn each by itself, as always, and a unit of five has five of them: so units are made by grouping rows. Each
row says how many rows its unit has. Rows are sorted by that and by the columns that units share, and cut into units of
drawn forms: so many rows of each kind, the smallest first. One row of each, its head, gives its shared cells to all.
Rows of a mixture are then exchanged between units, to go with the heads' cells by their codes. Rows of other methods
are left where they are, next to rows nearly alike: columns of few values come first in the order, so that what differs
is a column of many values, and little. Where rows of a kind are too few or too many for the units next to them, some
come twice or not at all. So how large units are hangs on these columns; of which kinds their rows are does not.
Privacy: post-processing of releases.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl

from dpwgan.app.sampling import RowSource
from dpwgan.array_types import Flags, Floats, Integers, Integers32
from dpwgan.errors import SpecsError
from dpwgan.marginals.rows.matching import CodeFit
from dpwgan.marginals.rows.mixture_sampler import Draft
from dpwgan.privacy.randomness import branch
from dpwgan.table.calendar import LaterColumn
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import UnitColumn
from dpwgan.table.source import choose_step
from dpwgan.table.storage import cut_sizes
from dpwgan.table.threads import map_in_order
from dpwgan.table.units.distinct import find_alike, tell_apart
from dpwgan.table.units.forms import count_kinds, fit_shares, list_forms, read_kinds
from dpwgan.table.units.links import PairCells, Weigh, choose_repeats, link_rows, list_order, list_rows, put_in_order
from dpwgan.table.units.replacements import replace_broken
from dpwgan.table.units.unit_rules import PlacedRows

Form = tuple[int, ...]

# The most turns of making units of other rows, and the most without a single unit that keeps all rules.
_MOST_TURNS, _MOST_IN_VAIN = 100, 5
# The least rows to choose from; with a condition also how many are drawn for each one that is wanted.
_FEW_FOR_EACH, _FEW = 20, 1024
# A form is given up after so many units or rows if hardly one in so many keeps all rules.
_IN_VAIN, _ROWS_IN_VAIN, _RARE = 1_000, 20_000, 100
# The least rows to choose from, as far as a chunk has room: of few, units of rare cells find none that fit.
_ENOUGH = 1 << 15
# Rows next to each other among which units take theirs.
_NEAR = 4096
# Tries of another form for one that was made in vain.
_TRIES = 20
# Rows swap within their own key if keys are fewer than one in so many rows.
_FEW_KEYS = 64
# Rows drawn to count kinds and sizes of units.
_TO_COUNT = 1 << 14


def draw_chunks(
    source: RowSource, encoder: TableEncoder, rows: int, *, rng: np.random.Generator, threads: int | None
) -> Iterator[pl.DataFrame]:
    """Draws rows in chunks, of whole units if units are written; the result does not depend on `threads`."""
    step, unit = choose_step(len(encoder.header)), encoder.schema.unit
    works: list[Callable[..., pl.DataFrame]]
    if unit is not None and unit.has_sizes:
        units = UnitSource(source, encoder, unit)
        forms = list_forms(encoder.schema)
        drawn = draw_forms(forms, units.fit_shares(forms, rng=rng), rows, rng=rng)
        parts = [*cut_units(drawn, step=step)]
        sizes = [units.count_first(forms) for forms, _, _ in parts]
        works = [partial(units.draw, *part) for part in parts]
    else:
        sizes = [*cut_sizes(rows, most=step)]
        works = [partial(source.draw, size, first_record=place * step) for place, size in enumerate(sizes)]
    drafts = source.list_drafts(sizes, rng=rng, threads=threads)
    tasks = ((work, draft, branch(rng)) for work, draft in zip(works, drafts, strict=True))
    return map_in_order(lambda task: task[0](draft=task[1], rng=task[2]), tasks, threads=threads)


class UnitSource:
    """A model's rows in units: `shared` columns have one cell in all rows of each, and all rules are kept.

    No two rows of a unit are alike in all its unique columns.
    """

    def __init__(self, source: RowSource, encoder: TableEncoder, unit: UnitColumn) -> None:
        self._source, self._encoder = source, encoder
        self._shared, self._unique, self._unit = [*unit.shared], [*unit.unique], unit
        self._order, self._least_of_kinds = list_order(encoder.schema), list_forms(encoder.schema).min(axis=0)
        # Rows are placed by their own cells: those that units share are put in afterwards.
        self._rules, self._placing = encoder.make_unit_rules(), encoder.make_unit_rules(free_of=unit.shared)
        read = {source for name in encoder.rules.columns for source in encoder.list_sources(name)}
        self._tied = read.intersection(unit.shared)
        # If so, rows swap whatever their keys are.
        self._links_keys = not {*unit.linked}.isdisjoint(unit.unique)
        self._most = choose_step(len(encoder.header))
        # Where nothing breaks a unit, rows that go with it are found among as many as are wanted, unless these are few,
        # and each is taken.
        is_chosen = self._tied or self._rules or self._unique or (self._shared and not source.has_codes)
        self._enough = _ENOUGH if is_chosen else _FEW

    def fit_shares(self, forms: Integers, *, rng: np.random.Generator) -> Sequence[float]:
        """The shares of units of each form: as released, and with several kinds of rows fitted to the rows drawn.

        Shapes: (forms, kinds) to (forms,).
        """
        # If rules drop rows, sizes in rows count those dropped, and forms do not.
        if forms.shape[1] == 1 or self._encoder.schema.drops_rows:
            return self._unit.sizes
        rows = self._source.draw(_FEW if self._source.leaves_out else _TO_COUNT, first_record=0, rng=rng)
        sizes = rows.get_column(self._unit.size_column.name).to_physical().to_numpy()
        kinds = read_kinds(rows, self._encoder.schema)
        fitted = fit_shares(
            forms,
            np.array(self._unit.sizes),
            sizes=np.bincount(sizes, minlength=self._unit.max_rows).astype(np.float64),
            kinds=np.bincount(kinds, minlength=forms.shape[1]).astype(np.float64),
        )
        return [*map(float, fitted)]

    def count_first(self, units: Integers) -> int:
        """The number of rows to draw first for units of these forms: for few units several times as many."""
        rows = int(units.sum())
        return rows * self._count_times(rows)

    def _count_times(self, rows: int) -> int:
        few = max(_FEW, _FEW_FOR_EACH * rows) if self._source.leaves_out else self._enough
        return max(1, min(-(-min(few, self._enough) // rows), self._most // rows))

    def draw(
        self, units: Integers, first_unit: int, first_record: int, *, draft: Draft | None, rng: np.random.Generator
    ) -> pl.DataFrame:
        """Draws units of these forms, named from `first_unit` on, in any order, and their rows from `first_record` on.

        The first rows that they are put together of are those of the draft, if there is one, `count_first` of them.
        Shapes: (units, kinds).

        Raises: SpecsError if hardly a unit keeps the rules; as `RowSource.draw`.
        """
        parts: list[pl.DataFrame] = []
        made: list[Integers] = []
        left, times_made, times_fine = units, Counter[Form](), Counter[Form]()
        for turn in range(_MOST_TURNS):
            if turn == _MOST_IN_VAIN and not times_fine:
                break
            # With rules between rows, other units as well: some take rows that the units left cannot have.
            others = units if self._rules and made else units[:0]
            forms, of = np.unique(np.concatenate([left, others]), axis=0, return_inverse=True)
            own, of_others = np.split(of.ravel(), [len(left)])
            rows_of, wanted = forms.sum(axis=1), np.bincount(own, minlength=len(forms))
            tried = np.append(np.tile(np.sort(own), self._count_times(int(left.sum()))), of_others)
            tried = rng.permutation(tried)
            # By size, as are rows, which know the size of their unit.
            tried = tried[np.argsort(rows_of[tried], kind="stable")]
            sizes = rows_of[tried]
            known = [self._unit.size_column.name, *self._shared] if self._shared else []
            rows, fit = self._source.draw_to_match(int(sizes.sum()), known, draft=draft, rng=rng)
            draft = None
            frame, fine = self._put_together(rows, fit, forms[tried], is_first=turn == 0, rng=rng)
            chosen = _choose(tried, fine, wanted=wanted, rng=rng)
            parts.append(frame[list_rows(sizes, chosen)])
            made.append(sizes[chosen])
            if turn or not self._links_keys:
                times_made.update(map(tuple, forms[tried].tolist()))
            times_fine.update(map(tuple, forms[tried[fine]].tolist()))
            left = np.repeat(forms, wanted - np.bincount(tried[chosen], minlength=len(wanted)), axis=0)
            vain = {
                form
                for form, times in times_made.items()
                if times >= max(min(_IN_VAIN, _ROWS_IN_VAIN // sum(form)), _RARE * times_fine[form])
            }
            left = _give_up(
                left, vain, [form for form in times_fine if form not in vain], least=self._least_of_kinds, rng=rng
            )
            if not len(left):
                drawn = np.concatenate(made)
                order = rng.permutation(len(drawn))
                together = pl.concat(parts)[list_rows(drawn, order)]
                named = self._encoder.name_units(
                    together, drawn[order], first_unit=first_unit, first_record=first_record
                )
                self._encoder.validate(named)
                return named
        raise SpecsError(
            'Hardly a unit that is put together keeps all rules, and has no rows alike in its "unique" columns: mark '
            'fewer columns as "of": "unit", or leave a rule out.'
        )

    def _put_together(
        self, rows: pl.DataFrame, fit: CodeFit | None, units: Integers, *, is_first: bool, rng: np.random.Generator
    ) -> tuple[pl.DataFrame, Flags]:
        """The rows put into units of these forms, in turn, and which of these keep all rules.

        With a `fit` each unit has the shared cells of one row, its head, and rows that go with these.
        """
        sizes = units.sum(axis=1)
        starts, of_units = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
        linked = self._unit.linked if self._unit.links else ()
        size = self._unit.size_column.name
        values = self._encoder.read_values(rows, [size, *self._shared, *self._order, *linked])
        shared = sorted(self._shared, key=lambda name: values.get_column(name).n_unique())
        by = [size, *shared]
        order = values.select(pl.arg_sort_by(by, nulls_last=True, maintain_order=True)).to_series().to_numpy()
        kinds = read_kinds(rows, self._encoder.schema)
        order = order[_hand_out(kinds[order], units, rng=rng)]

        def sort(order: Integers) -> Integers:
            by = [values.get_column(name)[order] for name in self._order]
            return order[put_in_order(of_units, kinds[order], by)]

        if self._unique:
            order = order[tell_apart(self._find_keys(rows)[order], of_units, kinds[order], rng=rng)]
        order = sort(order)
        of_heads = starts + rng.integers(0, sizes)
        heads = order[of_heads]
        if fit is not None and not self._placing:
            seats, keys = self._find_seats(values[order], kinds[order].astype(np.int64))
            if keys is None:
                order = sort(order[fit.match(order, heads, of_units, seats, rng=rng)])
        if self._placing:
            near = rng.permutation(len(starts))
            if shared:
                by_shared = pl.arg_sort_by(shared, nulls_last=True, maintain_order=True)
                near = near[values[order[starts[near]]].select(by_shared).to_series().to_numpy()]
            seats, _ = self._find_seats(values[order], kinds[order].astype(np.int64))
            placed = self._see(rows[order], values[order], kinds[order])
            order = sort(order[placed.place(of_units, seats, near, weigh=_weigh(fit, heads, order), rng=rng)])
        if linked:
            seen = self._see(rows[order], values[order], kinds[order]) if self._placing else None
            weigh = _weigh(fit, heads, order)
            order = order[self._link(values[order], of_units, kinds[order], seen, weigh, rng=rng)]
            if self._links_keys and not is_first:
                # Units that repeat a key after all, as most large ones do: rows near by are those of near keys.
                keys = self._find_keys(rows)[order]
                near = np.argsort(keys, kind="stable")
                taken = tell_apart(keys[near], of_units[near], kinds[order[near]], settles=False, rng=rng)
                order[near] = order[near[taken]]
            order = sort(order) if self._links_keys or self._placing else order
        frame, broken = rows[order], np.zeros(len(order), np.bool_)
        if linked:
            frame = self._repeat(frame, values[order], of_units, kinds[order], rng=rng)
        if self._shared:
            if fit is None:
                heads = order[of_heads]
            cells = rows.select(self._shared)[np.repeat(heads, sizes)]
            frame, broken = self._encoder.put_cells(frame, cells, rng=rng)
            frame, broken = replace_broken(
                frame,
                broken,
                of_units,
                kinds[order],
                self._list_orders(values, shared, order, np.repeat(heads, sizes)),
                lambda others, places: self._encoder.put_cells(rows[order[others]], cells[places], rng=rng),
                rng=rng,
            )
        if self._order and (linked or self._placing or self._shared):
            moved = self._encoder.read_values(frame, self._order).get_columns()
            frame = frame[put_in_order(of_units, kinds[order], moved)]
        if self._unique:
            broken |= find_alike(self._find_keys(frame), of_units)
        if self._rules:
            broken |= self._rules.find_broken(self._rules.read_values(frame), of_units)
        return frame, ~np.logical_or.reduceat(broken, starts)

    def _list_orders(
        self, values: pl.DataFrame, shared: Sequence[str], order: Integers, heads: Integers
    ) -> Iterator[tuple[Integers, Integers]]:
        """Orders in which other rows are looked for, for those that break a rule with the cells of their unit's head.

        As they lie, in units that share much with the next; then by what units share and rules read, as rows that had
        the head's cells kept the rules with them. Shapes: (n,) each.
        """
        places = np.arange(len(order))
        yield places, places
        if tied := [name for name in shared if name in self._tied]:
            by = pl.struct([*tied, *(name for name in shared if name not in self._tied)])
            ranks = values.select(by.rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
            yield ranks[order], ranks[heads]

    def _find_seats(self, values: pl.DataFrame, alike: Integers) -> tuple[Integers, Integers | None]:
        """Which rows are exchangeable: those alike, if need be with the same key; else also keys that must rise.

        Shapes: (n,) each.
        """
        if not self._unique or self._links_keys:
            return alike, None
        none = np.zeros_like(alike)
        by_key = put_in_order(none, none.astype(np.int32), [values.get_column(name) for name in self._unique])
        keys = np.empty_like(by_key)
        keys[by_key] = values[by_key].select(pl.struct(self._unique).rle_id()).to_series().to_numpy()
        # Rows of other kinds must differ as well: only those with the same key are sure to.
        if self._unit.kind_of_row not in (None, *self._unique) or len(np.unique(keys)) * _FEW_KEYS <= len(keys):
            return alike * (keys.max() + 1) + keys, None
        return alike, keys

    def _find_keys(self, frame: pl.DataFrame) -> Integers:
        """The key of each row: a number for each different row of its unique columns. Shapes: (n,)."""
        keys: Integers = frame.select(pl.struct(self._unique).rank("dense")).to_series().to_numpy()
        return keys

    def _see(self, rows: pl.DataFrame, values: pl.DataFrame, kinds: Integers32) -> PlacedRows:
        """Rows and their values, as rules between rows of a unit see them."""
        by = [values.get_column(name) for name in self._order]
        in_order = put_in_order(np.zeros(len(kinds), np.int64), kinds, by)
        keys = self._find_keys(rows) if self._unique else None
        return PlacedRows(self._placing, self._placing.read_values(rows), in_order, keys)

    def _link(
        self,
        values: pl.DataFrame,
        of_units: Integers,
        kinds: Integers32,
        seen: PlacedRows | None,
        weigh: Weigh | None,
        *,
        rng: np.random.Generator,
    ) -> Integers:
        """The row that each place takes, so that linked columns depend on each other. Rows are sorted by unit."""
        # Rows stay with units as large as theirs.
        alike = kinds * (np.int64(self._unit.max_rows) + 1) + np.bincount(of_units)[of_units]
        alike, keys = self._find_seats(values, alike)
        columns = [
            (cells, cells.find_groups(values.get_column(name), kinds), shares)
            for name, cells, shares in self._list_links()
        ]
        count, near = None if seen is None else seen.count_broken, bool(self._shared)
        return link_rows(columns, of_units, alike, keys, near=near, count_broken=count, weigh=weigh, rng=rng)

    def _repeat(
        self,
        frame: pl.DataFrame,
        values: pl.DataFrame,
        of_units: Integers,
        kinds: Integers32,
        *,
        rng: np.random.Generator,
    ) -> pl.DataFrame:
        """The rows, some of which take another's moment of their unit if they keep all rules with it."""
        for name, cells, shares in self._list_links():
            # A column relative to another moment moves with that.
            is_told = isinstance(self._encoder.schema.by_name[name], LaterColumn)
            if cells.of_moments and not is_told and name not in self._unique:
                column = values.get_column(name)
                groups = cells.find_groups(column, kinds)
                taken = choose_repeats(column, groups, of_units, shares, cells=cells, rng=rng)
                others = np.flatnonzero(taken != np.arange(len(taken)))
                changed, broken = self._encoder.put_cells(frame[others], frame.select(name)[taken[others]], rng=rng)
                rows = np.arange(len(taken))
                rows[others[~broken]] = len(taken) + np.flatnonzero(~broken)
                frame = pl.concat([frame, changed])[rows]
        return frame

    def _list_links(self) -> Iterator[tuple[str, PairCells, Floats]]:
        """Each linked column with the cells of its pairs and their shares."""
        kinds = count_kinds(self._encoder.schema)
        for name, (bounds, told, shares) in zip(self._unit.linked, self._unit.links, strict=True):
            yield name, PairCells(bounds=bounds, told=told, kinds=kinds), np.array(shares)


def _weigh(fit: CodeFit | None, heads: Integers, rows: Integers) -> Weigh | None:
    """How well rows, of which each place has one, go with the heads of units. Shapes: (units,), (n,)."""
    return None if fit is None else lambda units, places: fit.weigh(heads[units], rows[places])


def _hand_out(kinds: Integers32, units: Integers, *, rng: np.random.Generator) -> Integers:
    """The row, of the right kind, for each place in units. Shapes: (n,), (units, kinds), to (n,).

    Rows of a kind are taken in order, evenly over those near by; each once if there are as many as places.
    """
    if units.shape[1] == 1:
        return np.arange(len(kinds))
    ends = np.cumsum(units.sum(axis=1))
    cuts = [0, *np.searchsorted(ends, np.arange(_NEAR, len(kinds), _NEAR)).tolist(), len(units)]
    taken, places = [], []
    for first, last in itertools.pairwise(cuts):
        start, stop = (int(ends[unit - 1]) if unit else 0 for unit in (first, last))
        for kind in np.flatnonzero(units[first:last].any(axis=0)):
            own = start + np.flatnonzero(kinds[start:stop] == kind)
            if not len(own):
                everywhere = np.flatnonzero(kinds == kind)
                near = np.searchsorted(everywhere, start)
                own = everywhere[max(near - 1, 0) : near + 1] if len(everywhere) else np.arange(start, stop)
            whose = np.repeat(np.arange(first, last), units[first:last, kind])
            # Where they are short, those of one unit are different ones still.
            heads, in_turn = np.searchsorted(whose, whose), np.arange(len(whose))
            evenly = ((heads + rng.random()) * (len(own) / len(whose))).astype(np.int64)
            taken.append(own[(evenly + in_turn - heads) % len(own)])
            places.append(whose)
    rows, of_units = np.concatenate(taken), np.concatenate(places)
    handed: Integers = rows[np.argsort(of_units, kind="stable")]
    return handed


def draw_forms(forms: Integers, shares: Sequence[float], rows: int, *, rng: np.random.Generator) -> Integers:
    """Units of so many rows in all, with systematic sampling of forms by their shares. Shapes: (units, kinds).

    The last unit is cut to fit.
    """
    sizes, limits = forms.sum(axis=1), np.cumsum(shares)
    units = math.ceil(rows / float(sizes @ shares)) + int(sizes.max())
    steps = (np.arange(units) + rng.random()) / units
    drawn = forms[rng.permutation(np.searchsorted(limits[:-1], steps * limits[-1]))]
    ends = np.cumsum(drawn.sum(axis=1))
    last = int(np.searchsorted(ends, rows))
    drawn[last] = _cut(drawn[last], int(drawn[last].sum() - (ends[last] - rows)), least=forms.min(axis=0))
    return drawn[: last + 1]


def cut_units(units: Integers, *, step: int) -> Iterator[tuple[Integers, int, int]]:
    """Parts of about `step` rows, each with the numbers of its first unit and first row."""
    ends = np.cumsum(units.sum(axis=1))
    firsts = sorted({0, *np.searchsorted(ends, np.arange(step, int(ends[-1]), step)).tolist()})
    for first, last in zip(firsts, [*firsts[1:], len(units)], strict=True):
        yield units[first:last], first, int(ends[first - 1]) if first else 0


def _choose(forms: Integers, fine: Flags, *, wanted: Integers, rng: np.random.Generator) -> Integers:
    """As many fine units of each form as are wanted, or all there are. Shapes: (units,), `wanted` (forms,).

    Systematic sampling of the sorted units: each is as likely as another.
    """
    chosen = []
    for form in np.flatnonzero(wanted):
        own = np.flatnonzero(fine & (forms == form))
        count = min(int(wanted[form]), len(own))
        chosen.append(own[((np.arange(count) + rng.random()) * (len(own) / max(count, 1))).astype(np.int64)])
    return np.concatenate(chosen)


def _give_up(
    units: Integers, vain: Container[Form], fine: Sequence[Form], *, least: Integers, rng: np.random.Generator
) -> Integers:
    """Replaces forms that were made in vain by `fine` ones, for as many rows in all.

    One of as many rows if there is any, else one of more and cut, else several of fewer.
    Shapes: (units, kinds) to the like.
    """
    kept, of_rows = list[Form](), dict[int, list[Form]]()
    for form in fine:
        of_rows.setdefault(sum(form), []).append(form)
    for form in map(tuple, units.tolist()):
        rows_left = sum(form) if fine and form in vain else 0
        if not rows_left:
            kept.append(form)
        while rows_left:
            like = of_rows[min((rows for rows in of_rows if rows >= rows_left), default=max(of_rows))]
            for turn in range(1 + _TRIES):  # what is left of a form may itself have been made in vain
                own = np.array(like[rng.integers(len(like))])
                taken = tuple(_cut(own, rows_left, least=least, rng=rng if turn else None).tolist())
                if taken not in vain:
                    break
            kept.append(taken)
            rows_left -= sum(taken)
    return np.array(kept, np.int64).reshape(-1, units.shape[1])


def _cut(form: Integers, rows: int, *, least: Integers, rng: np.random.Generator | None = None) -> Integers:
    """A form cut to at most so many rows, from the kinds that exceed their least numbers most.

    With `rng` from random kinds that exceed these.
    """
    form = form.copy()
    for _ in range(int(form.sum()) - rows):
        beyond = form - least
        if rng is None or not beyond.any():
            form[beyond.argmax()] -= 1
        else:
            form[rng.choice(np.repeat(np.arange(len(form)), beyond))] -= 1
    return form
