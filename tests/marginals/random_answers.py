"""Random answers to marginals, and what loops say of their loss."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.groups import Marginal
from dpwgan.marginals.loss import add_gradients, add_up, count_sums
from tests.marginals.groups import Floats, answer_by_loop, see

Said = Mapping[Marginal, tuple[Floats, Floats]]
"""Of each marginal of views the shares that were answered, and the stddev of each."""


def measure(marginals: Sequence[Marginal], *, views: Views, seed: int) -> tuple[MeasuredMarginals, Said]:
    """Random answers with a stddev of their own for every cell."""
    rng = np.random.default_rng(seed)
    measured, said = MeasuredMarginals(views), {}
    for marginal in marginals:
        shape = [views.sizes[view] for view in marginal]
        # Numbers that float32 holds exactly, since the loss keeps them so.
        shares = rng.normal(0.2, 0.3, shape).astype(np.float32).astype(np.float64)
        stddevs = 2.0 ** rng.integers(-3, 2, shape)
        measured.add(marginal, shares, stddev=stddevs)
        said[marginal] = (shares, stddevs)
    return measured, said


def add_to_others(measured: MeasuredMarginals, probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What a loss adds to numbers that stand where its gradient goes. Shapes: (codes, width) to the same."""
    codes = see(probabilities)
    sums = np.empty(count_sums([measured], width=len(codes.rows)), np.float32)
    add_up([measured], codes, into=sums)
    others = np.random.default_rng(10).standard_normal(codes.rows.shape).astype(np.float32)
    into = others.copy()
    add_gradients([measured], codes, sums, into=into)
    return (into - others).T


def join_by_loop(cells: Floats, marginal: Marginal, views: Views) -> Floats:
    """The cells of a marginal of attributes, added up one by one into the blocks of its views."""
    joined = np.zeros([views.sizes[view] for view in marginal])
    for place, value in np.ndenumerate(cells):
        joined[tuple(group // views.width_of[view] for group, view in zip(place, marginal, strict=True))] += value
    return joined


def loss_by_loop(probabilities: Floats, said: Said, views: Views) -> float:
    """Half the sum of squared errors, each over the variance of its answer."""
    loss = 0.0
    for marginal, (shares, stddevs) in said.items():
        answers = answer_by_loop(probabilities, views.find_attributes(marginal), views.own)
        loss += 0.5 * float((((join_by_loop(answers, marginal, views) - shares) / stddevs) ** 2).sum())
    return loss
