"""Counts of one marginal, for what is compared with them."""

from dpwgan.array_types import AnyIntegers, Floats
from dpwgan.marginals.answers.measurements import count_marginals
from dpwgan.marginals.groups import GroupLayout, Marginal


def count_marginal(groups: AnyIntegers, marginal: Marginal, layout: GroupLayout) -> Floats:
    counts = count_marginals(groups, [[(attribute, 1) for attribute in marginal]], layout)
    return counts.reshape([layout.sizes[attribute] for attribute in marginal])
