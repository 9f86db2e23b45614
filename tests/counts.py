"""Counts of one marginal, for what is compared with them."""

from dpwgan.marginals.answers.measurements import Counts, Groups, count_marginals
from dpwgan.marginals.groups import GroupLayout, Marginal


def count_marginal(groups: Groups, marginal: Marginal, layout: GroupLayout) -> Counts:
    return count_marginals(groups, [[(attribute, 1) for attribute in marginal]], layout)[0]
