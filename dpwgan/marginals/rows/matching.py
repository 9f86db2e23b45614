"""Which rows go with cells that units share: by how likely the code of each has them.

Given its code a row's columns are independent. So a row that is chosen by how likely its code has some cells goes with
these as rows of the mixture do, whatever cells it was drawn with.
Privacy: post-processing of the model.
Source: Bayes' rule for a mixture of products.
"""

from collections.abc import Sequence

import numpy as np

from dpwgan.array_types import Floats, Floats32, Integers, Integers32
from dpwgan.marginals.draws import draw_by_odds
from dpwgan.marginals.loss import Probabilities

# How often rows are weighed anew for the places that are left, and the tries of each time.
_ROUNDS, _TRIES = 2, 8
# Cells of codes do not get less: a fit hardly tells what is rare from what is not there.
_LEAST = 1e-6
# The logarithm of nothing, as several of it add up.
_NONE = -1e30
# Weights of codes that are held at a time, and are added up together.
_AT_ONCE, _BLOCK = 1 << 22, 64


class CodeFit:
    """Drawn rows, and how likely the code of each has the groups that another row has in some columns.

    Shapes: `codes` (n,); of each column the group of each row, (n,), and the codes' probabilities, (codes, groups).
    """

    def __init__(self, codes: Integers, columns: Sequence[tuple[Integers32, Probabilities]]) -> None:
        # Padded to whole blocks, with codes that have no cell.
        count = len(columns[0][1])
        self._count = -(-count // _BLOCK) * _BLOCK
        self._codes, self._columns = codes, list[tuple[Integers32, Floats32]]()
        for groups, table in columns:
            log = np.pad(np.log(np.maximum(table.T, _LEAST)), ((0, 0), (0, self._count - count)), constant_values=_NONE)
            self._columns.append((groups, log))

    def weigh(self, heads: Integers, rows: Integers) -> Floats:
        """The log-likelihood of the heads' groups, for the codes of rows. Shapes: (m,) each."""
        codes, total = self._codes[rows], np.zeros(len(rows))
        for groups, log in self._columns:
            total += log[groups[heads], codes]
        return total

    def match(
        self, rows: Integers, heads: Integers, of_units: Integers, seats: Integers, *, rng: np.random.Generator
    ) -> Integers:
        """The place whose row each place of units takes: of the same seat, and one that goes with its unit's head.

        Each is drawn by its weight among those that are left. A head stays, and so does a row that is there twice.
        Shapes: (n,), the row in each place, its unit from 0 up and seat, and `heads` (units,), rows, to (n,).
        """
        stays = np.bincount(rows)[rows] > 1
        stays |= rows == heads[of_units]
        taken, left = np.arange(len(rows)), np.flatnonzero(~stays)
        seats = np.unique(seats, return_inverse=True)[1]
        keys, others = seats * self._count + self._codes[rows], left
        for _ in range(_ROUNDS):
            wanted = self._draw_keys(heads, of_units[left], seats[left], keys[others], rng=rng)
            open_to = np.arange(len(left))
            for drawn in wanted:
                own, found = _pair(drawn[open_to], keys[others], rng=rng)
                taken[left[open_to[own]]] = others[found]
                open_to, others = np.delete(open_to, own), np.delete(others, found)
            left = left[open_to]
        taken[left[np.argsort(seats[left], kind="stable")]] = others[np.argsort(seats[others], kind="stable")]
        return taken

    def _draw_keys(
        self, heads: Integers, of_units: Integers, seats: Integers, keys: Integers, *, rng: np.random.Generator
    ) -> list[Integers]:
        """Draws a few keys, each a seat and a code, for each place, by the weight of rows that have them.

        Shapes: (m,) units, in order, and seats, and keys of rows, to (m,) each.
        """
        drawn = [seats * self._count for _ in range(_TRIES)]
        counts = np.bincount(keys, minlength=(seats.max(initial=0) + 1) * self._count).astype(np.float32)
        counts = counts.reshape(-1, 1, self._count // _BLOCK, _BLOCK)
        step = max(1, _AT_ONCE // self._count)
        ends = np.searchsorted(of_units, np.unique(of_units)[step::step])
        for places in filter(len, np.split(np.arange(len(of_units)), ends)):
            units, of_places = np.unique(of_units[places], return_inverse=True)
            likelihoods = self._weigh_codes(heads[units])
            for seat in np.unique(seats[places]):
                at = np.flatnonzero(seats[places] == seat)
                its, own = np.unique(of_places[at], return_inverse=True)
                weights = likelihoods[its] * counts[seat]
                # First a block of codes is drawn, then one of it: adding up all weights in turn would take longer.
                of_blocks, each = weights.sum(axis=2, dtype=np.float64), np.arange(len(own))
                for draws in drawn:
                    blocks = draw_by_odds(of_blocks, own, rng=rng)
                    draws[places[at]] += blocks * _BLOCK + draw_by_odds(weights[own, blocks], each, rng=rng)
        return drawn

    def _weigh_codes(self, heads: Integers) -> Floats32:
        """The likelihood of heads' groups for each code, over the largest. Shapes: (m,), to (m, blocks, of a block)."""
        weights = np.zeros((len(heads), self._count), np.float32)
        for groups, log in self._columns:
            weights += log[groups[heads]]
        weights -= weights.max(axis=1, keepdims=True)
        return np.exp(weights, out=weights).reshape(len(heads), -1, _BLOCK)


def _pair(wanted: Integers, there: Integers, *, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Pairs those who want a key with those that have it, at random, as many as there are. Shapes: (m,), (k,)."""
    first, second = (np.lexsort([rng.random(len(keys)), keys]) for keys in (wanted, there))
    mine, theirs = (keys * (len(wanted) + len(there)) + _count_equal(keys) for keys in (wanted[first], there[second]))
    _, own, found = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return first[own], second[found]


def _count_equal(values: Integers) -> Integers:
    """How many equal values come before each, of sorted ones. Shapes: (n,)."""
    firsts: Integers = np.arange(len(values)) - np.searchsorted(values, values)
    return firsts
