"""Counts of one marginal, for what is compared with them."""

from dpwgan.marginals.answers.measurements import Counts, Groups, count_marginals
from dpwgan.marginals.groups import GroupLayout, Marginal


def count_marginal(groups: Groups, marginal: Marginal, layout: GroupLayout) -> Counts:
    counts = count_marginals(groups, [[(attribute, 1) for attribute in marginal]], layout)
    return counts.reshape([layout.sizes[attribute] for attribute in marginal])
