"""Finds numbers that may be another number of their row, or a sum or product: near them in drafted rows.

There are far more sums than could be looked at, so larger ones extend the nearest smaller ones (a beam search).
Privacy: post-processing of drafted rows, which are made of releases.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.layout import NUMBERS, Attribute
from dpwgan.marginals.selection.comparisons import DIFFERENCE, MOST_PARTS, PRODUCT, SUM, Number, Sides
from dpwgan.table.schema import DAYS, WHOLE

Places = tuple[int, ...]

# Drafted rows that numbers are held against each other in, fewer of them where there is much to be held.
_LEAST_ROWS, _MOST_GAPS = 500, 5 * 10**7
# Width of the beam: so many sums of each size, and products, of every number. Sums of two extend so many single
# numbers, the nearest.
_WIDTH, _SINGLES = 12, 24
# So many sides of each number may be among the nearest at least.
_LEAST_OF_EACH = 4
# A number is not redrawn to match one of so many times its groups: few values may be set by codes.
_MOST_TIMES_AS_MANY = 2
# A part belongs to a sum if the gap with it varies at most so much of what it does with that part of other rows.
# Anything small beside a sum, as months are beside a date, would leave it as near.
_LEFT_BY_PARTS = 0.985
# The mean of a sum is off by at most this part; sizes with more sums than this are not searched by means.
_MOST_OFF, _MOST_SUMS = 0.05, 20_000


@dataclass(frozen=True, kw_only=True)
class Search:
    """The attributes that are `compared`, and the numbers of `drafted` rows. `sizes`: groups of each attribute."""

    facts: Sequence[Attribute]
    sizes: Sequence[int]
    compared: Sequence[int]
    drafted: Mapping[int, Number]

    def find_nearest(self, most: int) -> list[Sides]:
        """The nearest sides, at most `most` of each kind, and a limited number for each attribute.

        Any two days of one quarter are near each other; they must not crowd out sums.
        """
        distances = {sides: found for own in self.compared for sides, found in self._measure_sides(own)}
        for other, own in itertools.combinations(self.compared, 2):
            # Of two the later one is redrawn, if it may be.
            if Sides(own, (other,)) in distances:
                distances.pop(Sides(other, (own,)), None)
        distances |= dict(self._measure_differences([sides for sides in distances if sides.how == SUM]))
        kinds = {place: self.facts[place].kind for place in self.compared}
        many = Counter(kinds.values())
        room = {place: max(_LEAST_OF_EACH, 2 * most // many[kind]) for place, kind in kinds.items()}
        left = dict.fromkeys(many, most)
        found = list[Sides]()
        for sides in sorted(distances, key=distances.__getitem__):
            if left[kinds[sides.own]] and room[sides.own] and sides.is_countable(self.facts):
                left[kinds[sides.own]] -= 1
                room[sides.own] -= 1
                found.append(sides)
        return found

    def list_sums(self, most: int) -> list[Sides]:
        """Sums whose mean is that of a number, the nearest first, and the equivalent differences.

        Where groups are wide, small parts do not show in drafted rows, but means are known well.
        """
        known = {place: self._values[place] for place in self.compared if self.facts[place].kind == NUMBERS}
        means = {place: float(np.nanmean(values)) for place, values in known.items() if not np.isnan(values).all()}
        found = dict[Sides, float]()
        for own in (place for place, mean in means.items() if mean):
            others = [place for place in means if self._may_be_held(own, place)]
            for size in range(2, MOST_PARTS + 1):
                if math.comb(len(others), size) <= _MOST_SUMS:
                    parts = list(itertools.combinations(others, size))
                    sums = np.array([[means[place] for place in each] for each in parts]).reshape(-1, size).sum(axis=1)
                    off = np.abs(sums / means[own] - 1.0)
                    found |= {Sides(own, parts[at]): float(off[at]) for at in np.flatnonzero(off <= _MOST_OFF).tolist()}
        nearest = [sides for sides in sorted(found, key=found.__getitem__) if sides.is_countable(self.facts)][:most]
        return nearest + [sides for sides, _ in self._measure_differences(nearest) if sides.is_countable(self.facts)]

    def list_later(self, nearest: Sequence[Sides]) -> Iterator[Sides]:
        """Pairs of moments, with each number that may say how much later one is; drafted rows cannot show which."""
        for sides in nearest:
            if self.facts[sides.own].is_moment and len(sides.others) == 1:
                for place in self._factors:
                    longer = sides._replace(others=(*sides.others, place))
                    if self._may_be_held(sides.own, place) and longer.is_countable(self.facts):
                        yield longer

    @cached_property
    def _factors(self) -> list[int]:
        """The numbers that may be a factor of a product, or say how much later a moment is."""
        return [place for place in self.drafted if self.facts[place].unit == WHOLE]

    @cached_property
    def _values(self) -> dict[int, Floats]:
        """The numbers of as many rows as time allows. Units: units, not steps. Shapes: (rows,) each."""
        many = len(self.compared)
        gaps = many * many * (min(many, _SINGLES) + len(self._factors))
        rows = max(_LEAST_ROWS, _MOST_GAPS // gaps)
        return {
            place: np.where(known.is_there, known.values / self.facts[place].steps, np.nan)[:rows]
            for place, known in self.drafted.items()
        }

    def _shuffle(self, place: int, beside: Floats, rng: np.random.Generator) -> Floats:
        """An attribute's numbers, permuted among the rows where it and `beside` are available. Shapes: as `_values`."""
        values = self._values[place]
        rows, shuffled = np.flatnonzero(~np.isnan(values + beside)), values.copy()
        shuffled[rows] = values[rng.permutation(rows)]
        return shuffled

    def _may_be_held(self, own: int, other: int) -> bool:
        """Whether a number is at least as fine as another one and may be redrawn to match it."""
        is_fine = self.facts[own].steps % self.facts[other].steps == 0
        return own != other and is_fine and self.sizes[other] <= _MOST_TIMES_AS_MANY * self.sizes[own]

    def _measure_sides(self, own: int) -> Iterator[tuple[Sides, float]]:
        """What a number may be compared with: others of its kind, the nearest sums, and products."""
        facts, values = self.facts, self._values
        others = [place for place in self.compared if self._may_be_held(own, place)]
        alike = [place for place in others if facts[place].kind == facts[own].kind]
        # A day is another day plus numbers of days.
        added = [place for place in others if facts[place].unit == WHOLE] if facts[own].unit == DAYS else alike
        distances = dict(zip(alike, _measure(values[own], map(values.__getitem__, alike)).tolist(), strict=True))
        yield from ((Sides(own, (place,)), distance) for place, distance in distances.items())
        singles = sorted(alike, key=distances.__getitem__)[:_SINGLES]
        nearest: dict[Places, Floats] = {(place,): values[place] for place in singles}
        for _ in range(1, MOST_PARTS):
            nearest, measured = self._extend(own, nearest, added)
            yield from ((Sides(own, places), distance) for places, distance in measured.items())
        if facts[own].kind == NUMBERS:
            yield from self._measure_products(own, alike)

    def _extend(
        self, own: int, sums: Mapping[Places, Floats], added: Sequence[int]
    ) -> tuple[dict[Places, Floats], dict[Places, float]]:
        """The nearest sums with one part more, of those to which all parts belong, and their distances."""
        values, found, rng = self._values, dict[Places, Floats | None](), np.random.default_rng(0)
        for places, known in sums.items():
            more = {tuple(sorted((*places, part))): part for part in added if part not in places}
            more = {larger: part for larger, part in more.items() if larger not in found}
            beside = known + values[own]
            joined = [known + values[part] for part in more.values()]
            others = [known - values[one] + self._shuffle(one, beside, rng) for one in places]
            mixed = [other + values[part] for other in others for part in more.values()]
            mixed += [known + self._shuffle(part, beside, rng) for part in more.values()]
            left = _measure(values[own], [*joined, *mixed], is_centred=True).reshape(len(places) + 2, -1)
            are_parts = left[0] <= _LEFT_BY_PARTS * left[1:].min(axis=0)
            found |= zip(
                more, (each if fits else None for each, fits in zip(joined, are_parts, strict=True)), strict=True
            )
        kept = {places: joined for places, joined in found.items() if joined is not None}
        measured = dict(zip(kept, _measure(values[own], kept.values()).tolist(), strict=True))
        nearest = sorted(measured, key=measured.__getitem__)[:_WIDTH]
        return {places: kept[places] for places in nearest}, {places: measured[places] for places in nearest}

    def _measure_products(self, own: int, others: Sequence[int]) -> Iterator[tuple[Sides, float]]:
        """The nearest products of another number and a whole number."""
        measured = dict[Places, float]()
        for factor in self._factors:
            # Of two whole numbers either may be the factor.
            pairs: dict[Places, int] = {tuple(sorted((factor, other))): other for other in others if other != factor}
            if self._may_be_held(own, factor):
                products = [self._values[factor] * self._values[other] for other in pairs.values()]
                measured |= zip(pairs, _measure(self._values[own], products).tolist(), strict=True)
        nearest = sorted(measured, key=measured.__getitem__)[:_WIDTH]
        yield from ((Sides(own, pair, PRODUCT), measured[pair]) for pair in nearest)

    def _measure_differences(self, sums: Sequence[Sides]) -> Iterator[tuple[Sides, float]]:
        """Each sum as the equivalent difference for one part: that which moves most, if it may be redrawn.

        The rounding of groups matters less to it.
        """
        for total, others in ((sides.own, sides.others) for sides in sums if len(sides.others) > 1):
            measured = dict[Sides, float]()
            for own in others:
                taken = tuple(other for other in others if other != own)
                if all(self._may_be_held(own, other) for other in (total, *taken)):
                    left = self._values[total] - sum(self._values[other] for other in taken)
                    measured[Sides(own, (total, *taken), DIFFERENCE)] = float(_measure(self._values[own], [left])[0])
            yield from sorted(measured.items(), key=lambda item: item[1])[:1]


def _measure(own: Floats, others: Iterable[Floats], *, is_centred: bool = False) -> Floats:
    """The mean absolute gap between a number and each of the others, over the number's mean absolute deviation.

    Infinite where no row has both. `is_centred`: of the gap less its mean.
    Shapes: (n,) each, to (k,).
    """
    gaps = own - np.array([*others]).reshape(-1, len(own))
    is_there = ~np.isnan(gaps)
    known = np.maximum(is_there.sum(axis=1), 1)

    def centre(numbers: Floats) -> Floats:
        means = np.where(is_there, numbers, 0.0).sum(axis=1) / known
        centred: Floats = numbers - means[:, np.newaxis]
        return centred

    off, spread = (
        np.where(is_there, np.abs(numbers), 0.0).sum(axis=1) / known
        for numbers in (centre(gaps) if is_centred else gaps, centre(own))
    )
    return np.where(is_there.any(axis=1), off / np.maximum(spread, 1e-9), np.inf)
