"""Marginals of groups: counted in the rows, answered by a mixture of codes, and compared where they were measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dpwgan.cells.groups import GroupLayout, Marginal
from dpwgan.discriminators.base import Probabilities
from dpwgan.storage import cut, let_go

Counts = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int32]

PAIRS_TASK = "pairs"
MARGINALS_TASK = "marginals"
"""What workers are asked for: `count_pairs` and `count_marginals` of their own rows."""


def count_pairs(groups: Groups, layout: GroupLayout) -> Counts:
    """Counts the records in every cell of every two-way marginal, exactly. What it gives is not released.

    Privacy: a record adds 1 to one cell of each marginal, under zero-out; replaced, it moves to another cell of each.
    Shapes: `groups` (n, attributes); the result (width, width), whose diagonal blocks hold the one-way counts.
    """
    total = np.zeros((layout.width, layout.width))
    for chunk in cut(len(groups)):
        rows = groups[chunk].astype(np.int64) + np.array(layout.starts)
        pointers = np.arange(len(rows) + 1) * layout.attributes
        ones = np.ones(rows.size, np.float32)
        one_hot = sparse.csr_matrix((ones, rows.ravel(), pointers), shape=(len(rows), layout.width))
        total += np.asarray((one_hot.T @ one_hot).todense())
        let_go(groups)
    return total


def count_marginals(groups: Groups, marginals: Sequence[Marginal], layout: GroupLayout) -> dict[Marginal, Counts]:
    """Counts the records in every cell of some marginals, exactly, in one pass. What it gives is not released.

    Privacy: as `count_pairs`. Shapes: each result has one axis an attribute.
    """
    counts = {marginal: np.zeros(layout.count_cells(marginal), np.int64) for marginal in marginals}
    attributes = sorted({attribute for marginal in marginals for attribute in marginal})
    for chunk in cut(len(groups)):
        # One copy of what is needed, so that each attribute's groups lie side by side.
        columns = {attribute: groups[chunk, attribute].astype(np.int64) for attribute in attributes}
        let_go(groups)
        for marginal, so_far in counts.items():
            cells = columns[marginal[0]]
            for attribute in marginal[1:]:
                cells = cells * layout.sizes[attribute] + columns[attribute]
            so_far += np.bincount(cells, minlength=len(so_far))
    return {
        marginal: so_far.astype(np.float64).reshape([layout.sizes[attribute] for attribute in marginal])
        for marginal, so_far in counts.items()
    }


def join_marginals(counts: Mapping[Marginal, Counts]) -> Counts:
    """Gives the counts of some marginals in one vector, in their order."""
    return np.concatenate([cells.ravel() for cells in counts.values()])


def answer_pairs(probabilities: Probabilities) -> Probabilities:
    """Gives the share of rows in every cell of every two-way marginal. Shapes: (codes, width) to (width, width).

    Diagonal blocks are not marginals: within an attribute a code's cells exclude each other.
    """
    answers: Probabilities = (probabilities.T @ probabilities) / np.float32(len(probabilities))
    return answers


def answer_marginal(probabilities: Probabilities, marginal: Marginal, layout: GroupLayout) -> Probabilities:
    """Gives the share of rows in every cell of a marginal. Shapes: the result has one axis an attribute."""
    rows = probabilities.T
    factors = [rows[layout.get_slice(attribute)] for attribute in marginal]
    if len(factors) == 1:
        mean: Probabilities = factors[0].mean(axis=1)
        return mean
    answers: Probabilities = (_multiply(factors[:-1]) @ factors[-1].T) / np.float32(len(probabilities))
    return answers.reshape([len(factor) for factor in factors])


def _multiply(factors: Sequence[Probabilities]) -> Probabilities:
    """Gives each code's probabilities of all combinations. Shapes: (a, codes), (b, codes) ... to (a b ..., codes)."""
    product = factors[0]
    for factor in factors[1:]:
        product = (product[:, np.newaxis] * factor[np.newaxis]).reshape(-1, product.shape[1])
    return product


class MeasuredMarginals:
    """All marginals measured so far, as a loss: squared errors over the variance of each answer's noise.

    Privacy: holds released numbers alone. A marginal measured twice keeps the mean weighted by precision.
    """

    def __init__(self, layout: GroupLayout) -> None:
        self._layout = layout
        self._shares: dict[Marginal, npt.NDArray[np.float32]] = {}
        self._weights: dict[Marginal, npt.NDArray[np.float32]] = {}

    def __iter__(self) -> Iterator[Marginal]:
        return iter(self._shares)

    def __len__(self) -> int:
        return len(self._shares)

    def add(self, marginal: Marginal, shares: npt.ArrayLike, *, stddev: npt.ArrayLike) -> None:
        """Adds an answer. Units: `shares` and the `stddev` of their noise are fractions of the records."""
        answer = np.asarray(shares, np.float64)
        weight = np.broadcast_to(1.0 / np.square(np.asarray(stddev, np.float64)), answer.shape)
        if marginal in self._shares:
            before, precision = self._shares[marginal].astype(np.float64), self._weights[marginal].astype(np.float64)
            answer = (before * precision + answer * weight) / (precision + weight)
            weight = precision + weight
        self._shares[marginal] = answer.astype(np.float32)
        self._weights[marginal] = weight.astype(np.float32)

    def pack(self, marginals: Iterable[Marginal]) -> dict[str, npt.NDArray[np.generic]]:
        """Gives what is known of some marginals as arrays by name, for a checkpoint. Privacy: releases alone."""
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        for number, marginal in enumerate(marginals):
            arrays[f"marginal {number}"] = np.array(marginal, np.int64)
            arrays[f"shares {number}"] = self._shares[marginal]
            arrays[f"weights {number}"] = self._weights[marginal]
        return arrays

    def unpack(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> list[Marginal]:
        """Takes over what `pack` gave, in place of what is known of these marginals, and says which they are."""
        marginals: list[Marginal] = []
        for number in range(len(arrays) // 3):
            marginal: Marginal = tuple(arrays[f"marginal {number}"].tolist())
            self._shares[marginal] = arrays[f"shares {number}"].astype(np.float32)
            self._weights[marginal] = arrays[f"weights {number}"].astype(np.float32)
            marginals.append(marginal)
        return marginals

    def get_shares(self, marginal: Marginal) -> npt.NDArray[np.float32]:
        """Gives the answer so far: the mean of all, weighted by precision."""
        return self._shares[marginal]

    def loss_and_gradient(self, probabilities: Probabilities) -> tuple[float, Probabilities]:
        """Gives half the sum of squared errors over noise variances, and its gradient.

        Privacy: post-processing. Shapes: (codes, width) to a number and the same.
        """
        # One row a group: what one attribute has is one block of memory, which is what makes the products below fast.
        rows = np.ascontiguousarray(probabilities.T)
        codes = np.float32(rows.shape[1])
        # One-ways together: their means are one product, and each code gets the same gradient.
        means = rows @ np.full(rows.shape[1], 1.0 / codes, rows.dtype)
        shared = np.zeros(self._layout.width, rows.dtype)
        gradient = np.zeros_like(rows)
        loss = 0.0
        for marginal, target in self._shares.items():
            slices = [self._layout.get_slice(attribute) for attribute in marginal]
            factors = [rows[piece] for piece in slices]
            if len(factors) == 1:
                error = means[slices[0]] - target
                weighted = self._weights[marginal] * error
                shared[slices[0]] = weighted / codes
            else:
                left = _multiply(factors[:-1])
                error = (left @ factors[-1].T) / codes - target.reshape(len(left), -1)
                weighted = self._weights[marginal].reshape(error.shape) * error
                scaled = weighted / codes
                gradient[slices[-1]] += scaled.T @ left
                _give_back(factors[:-1], scaled @ factors[-1], slices=slices[:-1], into=gradient)
            loss += 0.5 * float(np.vdot(weighted, error))
        gradient += shared[:, np.newaxis]
        return loss, gradient.T


def _give_back(
    factors: Sequence[Probabilities], upstream: Probabilities, *, slices: Sequence[slice], into: Probabilities
) -> None:
    """Adds the gradient of a product of factors to each of them. Shapes: `upstream` (a b ..., codes)."""
    if len(factors) == 1:
        into[slices[0]] += upstream
        return
    last = factors[-1]
    folded = upstream.reshape(-1, len(last), upstream.shape[1])
    into[slices[-1]] += np.einsum("abk,ak->bk", folded, _multiply(factors[:-1]))
    _give_back(factors[:-1], np.einsum("abk,bk->ak", folded, last), slices=slices[:-1], into=into)
