"""Rows from a fitted mixture: numpy alone, so that sampling from a saved model needs no TensorFlow."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpwgan.array_types import AnyArray, AnyIntegers, Arrays, Flags, Floats32, Integers
from dpwgan.errors import InputError
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.draws import SystematicDraws
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.named_arrays import find_arrays, name_array
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.rows.balance import balance, count_sweeps
from dpwgan.marginals.rows.matching import CodeFit
from dpwgan.marginals.rows.moves import Answers, count_moves, move_rows
from dpwgan.marginals.selection.comparisons import Comparisons
from dpwgan.marginals.selection.day_lifts import DayLifts
from dpwgan.marginals.selection.details import Details
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.saved import reading_saved
from dpwgan.table.storage import cut_sizes

MIXTURE_FILE = "mixture.npz"
_GROUPS_FILE = "groups.json"
_EMPTY, _BARRED, _ANSWER = "empty", "barred", "answer"
# Rows are drawn in chunks of so many.
_CHUNK = 1 << 16
# The most groups of rows that are moved together: a stopped run waits for them.
_MOST_TOGETHER = 1 << 24


class Draft(NamedTuple):
    """Rows drawn as groups, not yet as cells. Shapes: `codes` (n,), the code of each; `groups` (n, attributes)."""

    codes: Integers
    groups: AnyIntegers

    def split(self, sizes: Sequence[int]) -> "Iterator[Draft]":
        """Parts of these sizes, in order: views, not copies."""
        ends = np.cumsum(sizes)[:-1]
        return map(Draft, np.split(self.codes, ends), np.split(self.groups, ends))


@dataclass(frozen=True, kw_only=True, eq=False)
class MixtureSampler:
    """The fitted codes and the way back from groups to cells. It holds no rows, and released numbers alone.

    Shapes: `probabilities` (codes, width of the groups). `empty`: pairs of groups that rows should not have, though
    codes may; `barred`: those that codes do not have, and moved rows must not. `sweeps`: how often rows are balanced;
    `moves`: else how often they are moved to `answers` that codes miss. `details` say which codes of their groups rows
    have, `day_lifts` which days, `comparisons` how their numbers compare.
    """

    probabilities: Floats32
    coarsening: Coarsening
    certificate: Certificate | None = None
    empty: Zeros = field(default_factory=dict)
    barred: Zeros = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    details: Details = field(default_factory=Details)
    day_lifts: DayLifts = field(default_factory=DayLifts)
    comparisons: Comparisons = field(default_factory=Comparisons)
    sweeps: int = 0
    moves: int = 0

    def prepare(self, rows: int) -> "MixtureSampler":
        """The same for a table of so many rows: balanced or moved, where that takes little of the time."""
        sizes = self.coarsening.sizes
        # With one code columns are independent, and each is balanced by itself.
        few = count_sweeps(rows, attributes=len(sizes), width=sum(sizes)) if len(self.probabilities) > 1 else 0
        return replace(self, sweeps=few, moves=0 if few else count_moves(rows, answers=len(self.answers)))

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows in chunks, by systematic sampling of codes and of each code's groups.

        Each row has the mixture's distribution, or nearly if rows are balanced; the counts of a chunk are closer to it
        than those of independent rows, since codes and their groups come up as often as expected but for rounding.
        Privacy: post-processing of releases; free, however often.
        Source: Madow and Madow 1944 (systematic sampling).
        """
        for draft in self.list_drafts(records, rng=rng):
            yield self.draw_cells(draft.groups, rng=rng)

    def count_together(self, rows: int) -> int:
        """How many rows a draft should have: all, or equal parts."""
        return -(-rows // -(-rows * len(self.coarsening.sizes) // _MOST_TOGETHER))

    def list_drafts(self, records: int, *, rng: np.random.Generator) -> Iterator[Draft]:
        """Drafts that add up to `records` rows. Privacy: post-processing."""
        return (self.draft(size, rng=rng) for size in cut_sizes(records, most=_CHUNK))

    def draft(self, records: int, *, rng: np.random.Generator) -> Draft:
        """Draws groups for all rows of a table or a large part, balanced or moved. Privacy: post-processing."""
        codes, sizes = self.choose_codes(records, rng=rng), self.coarsening.sizes
        groups = self.draw_groups(codes, rng=rng)
        # A condition that few rows meet, or units, may need more rows than the table has.
        sweeps = min(self.sweeps, count_sweeps(len(codes), attributes=len(sizes), width=sum(sizes)))
        moves = min(self.moves, count_moves(len(codes), answers=len(self.answers)))
        if sweeps:
            model = self.probabilities
            balance(groups, codes, probabilities=model, sizes=sizes, sweeps=sweeps, rng=rng, empty=self.empty)
        elif moves:
            move_rows(groups, self.answers, sweeps=moves, rng=rng, barred=self.barred)
        return Draft(codes, groups)

    def draw_cells(self, groups: AnyIntegers, *, rng: np.random.Generator) -> EncodedTable:
        """Draws a cell for each group. Shapes: (n, attributes). Privacy: post-processing."""
        encoded = self.coarsening.to_encoded(groups, rng=rng)
        self.details.redraw(encoded, self.coarsening, rng=rng)
        self.day_lifts.redraw(encoded, self.coarsening, rng=rng)
        self.comparisons.redraw(encoded, self.coarsening, rng=rng, kept=self.day_lifts.dates)
        return encoded

    def choose_codes(self, records: int, *, rng: np.random.Generator) -> Integers:
        """The code of each row, in random order. Shapes: (records,)."""
        codes = len(self.probabilities)
        # Codes in random order: with fewer rows than codes, each is as likely.
        points = (np.arange(records) + rng.random()) * (codes / records)
        chosen: Integers = rng.permutation(codes)[np.minimum(points.astype(np.int64), codes - 1)]
        rng.shuffle(chosen)
        return chosen

    def draw_groups(self, codes: Integers, *, rng: np.random.Generator) -> AnyIntegers:
        """Draws the groups of each row from its code. Shapes: (n,) to (n, attributes)."""
        # A few rows have fewer codes than there are.
        used, places = np.unique(codes, return_inverse=True)
        draws, probabilities = SystematicDraws(places, count=len(used)), self.probabilities[used]
        layout = GroupLayout(self.coarsening.sizes)
        groups: AnyIntegers
        groups = np.empty((len(codes), layout.attributes), np.min_scalar_type(max(layout.sizes) - 1), order="F")
        for attribute in range(layout.attributes):
            table = probabilities[:, layout.get_slice(attribute)].astype(np.float64)
            groups[:, attribute] = draws.draw(table, rng=rng)
        return groups

    def fit_codes(self, codes: Integers, encoded: EncodedTable, columns: Sequence[str]) -> CodeFit:
        """How drawn rows go with other cells of some columns. Shapes: (n,) codes."""
        layout, told = GroupLayout(self.coarsening.sizes), []
        for place, (own, part) in enumerate(zip(self.coarsening.attributes, self.coarsening.parts, strict=True)):
            if own.column in columns:
                told.append((part.find_groups(own.find_cells(encoded)), self.probabilities[:, layout.get_slice(place)]))
        return CodeFit(codes, told)

    def save(self, directory: Path) -> None:
        """Writes the codes and the groups into an existing folder."""
        pairs = {
            name_array(kind, *pair): cells
            for kind, of_pairs in ((_EMPTY, self.empty), (_BARRED, self.barred), (_ANSWER, self.answers))
            for pair, cells in of_pairs.items()
        }
        within = {**self.details.pack(), **self.day_lifts.pack(), **self.comparisons.pack()}
        np.savez(directory / MIXTURE_FILE, probabilities=self.probabilities, **pairs, **within)
        (directory / _GROUPS_FILE).write_text(json.dumps(self.coarsening.to_document()))

    @classmethod
    def load(cls, directory: Path) -> "MixtureSampler":
        """Reads a saved mixture. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            with np.load(directory / MIXTURE_FILE, allow_pickle=False) as archive:
                probabilities = archive["probabilities"].astype(np.float32)
                empty: dict[Marginal, Flags] = _read_pairs(archive, _EMPTY)
                barred: dict[Marginal, Flags] = _read_pairs(archive, _BARRED)
                answers: dict[Marginal, Probabilities] = _read_pairs(archive, _ANSWER)
                details, day_lifts = Details.unpack(archive), DayLifts.unpack(archive)
                comparisons = Comparisons.unpack(archive)
            coarsening = Coarsening.from_document(json.loads((directory / _GROUPS_FILE).read_text()))
        starts = GroupLayout(coarsening.sizes).starts
        if probabilities.ndim != 2 or not len(probabilities) or probabilities.shape[1] != coarsening.width:
            raise InputError("the saved generator is damaged: its codes do not fit its columns")
        sums = np.add.reduceat(probabilities, starts, axis=1)
        if not (np.all(probabilities >= 0) and np.allclose(sums, 1.0, atol=1e-3)):
            raise InputError("the saved generator is damaged: its probabilities are negative or do not add to 1")
        sizes = dict(enumerate(coarsening.sizes))
        if any(
            flags.dtype != np.bool_ or flags.shape != (sizes.get(left), sizes.get(right))
            for (left, right), flags in (*empty.items(), *barred.items())
        ):
            raise InputError("the saved generator is damaged: its empty pairs do not fit its columns")
        if any(
            shares.dtype != np.float32
            or shares.shape != (sizes.get(left), sizes.get(right))
            or not (np.all(shares >= 0) and np.isclose(shares.sum(dtype=np.float64), 1.0, atol=1e-3))
            for (left, right), shares in answers.items()
        ):
            raise InputError("the saved generator is damaged: its answers do not fit its columns, or do not add to 1")
        fit_groups = {
            "codes within groups": details.is_sound(coarsening),
            "kinds of days": day_lifts.is_sound(coarsening),
            "comparisons of numbers": comparisons.is_sound(coarsening),
        }
        for name, is_sound in fit_groups.items():
            if not is_sound:
                raise InputError(f"the saved generator is damaged: its {name} do not fit its columns")
        return cls(
            probabilities=probabilities,
            coarsening=coarsening,
            empty=empty,
            barred=barred,
            answers=answers,
            details=details,
            day_lifts=day_lifts,
            comparisons=comparisons,
        )


def _read_pairs(archive: Arrays, kind: str) -> dict[Marginal, AnyArray]:
    """The file's arrays of one kind, by the pair that each is about."""
    return {(left, right): cells for _, (left, right), cells in find_arrays(archive, kind)}
