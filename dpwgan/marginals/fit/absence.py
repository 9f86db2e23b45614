"""Columns that are not available in the same rows, as all of a visit that did not take place.

Privacy: made of released answers (`dpwgan.marginals.selection.absence_questions`).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Flags
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.one_way.coarsening import Coarsening

Set = tuple[int, ...]

# What a group is taken to hold at least where a code is given the groups of all records.
_LEAST_SHARE = 1e-9


def flag_missing(coarsening: Coarsening, attribute: int) -> Flags:
    """Which groups of an attribute are of codes that mean not available. Shapes: (groups,)."""
    part, facts = coarsening.parts[attribute], coarsening.attributes[attribute]
    found = np.zeros(part.size, np.bool_)
    found[part.find_groups(np.flatnonzero(facts.is_missing))] = True
    return found


@dataclass(frozen=True, eq=False)
class Absence:
    """Which attributes are missing together. Privacy: released numbers alone.

    `sets`: attributes that are missing in the same rows; `missing`: which groups of each mean not available; `asked`:
    the number of questions spent. Shapes: `missing[a]` (groups of a,).
    """

    sets: tuple[Set, ...] = ()
    asked: int = 0
    missing: Mapping[int, Flags] = field(default_factory=dict)

    def pack(self) -> dict[str, AnyArray]:
        """All of it as arrays by name."""
        return {
            "asked": np.array(self.asked),
            **{f"set {number}": np.array(each) for number, each in enumerate(self.sets)},
        }

    @classmethod
    def unpack(cls, arrays: Arrays, coarsening: Coarsening) -> "Absence":
        """Takes what `pack` gave, for these groups."""
        sets = [tuple(arrays[name].tolist()) for name in arrays if name.startswith("set ")]
        missing = {place: flag_missing(coarsening, place) for each in sets for place in each}
        return cls(tuple(sets), int(arrays["asked"]), missing)

    def find_zeros(self, *, with_first: bool = False) -> Zeros:
        """The pairs of groups that are empty: of any two attributes of a set, or if `with_first`, with its first."""
        return {
            (left, right): self.missing[left][:, np.newaxis] != self.missing[right]
            for attributes in self.sets
            for left, right in itertools.combinations(attributes, 2)
            if left == attributes[0] or not with_first
        }

    def make_pure(self, probabilities: Probabilities, coarsening: Coarsening) -> Probabilities:
        """Codes each of which has all of a set missing, or none; how many have is the mean over its attributes.

        Shapes: (codes, width). Privacy: post-processing.
        """
        if not self.sets:
            return probabilities
        pure, layout, is_missing = probabilities.copy(), GroupLayout(coarsening.sizes), np.zeros(len(probabilities))
        for attributes in self.sets:
            flags = {place: self.missing[place] for place in attributes}
            shares = np.mean([pure[:, layout.get_slice(place)] @ own for place, own in flags.items()], axis=0)
            # Systematic sampling of codes, ordered by the set before and by how much they miss.
            order = np.lexsort((-shares, is_missing))
            ends = np.cumsum(shares[order]) + 0.5
            is_missing[order] = np.floor(ends) > np.floor(np.append(0.5, ends[:-1]))
            for place, own in flags.items():
                cells = pure[:, layout.get_slice(place)]
                kept = own == is_missing[:, np.newaxis]
                of_all = coarsening.parts[place].probabilities + _LEAST_SHARE
                cells[:] = np.where(kept, cells + _LEAST_SHARE * of_all, 0.0)
                cells /= cells.sum(axis=1, keepdims=True)
        return pure
