"""The private histogram of units by their number of rows, for outputs whose rows are grouped into units.

Privacy: a unit is in one cell, by how many of its rows are kept, and of which kind. Taken out it takes 1 from that
cell; with other rows it adds 1 to another as well. So the counts move by 1 in L1, or by 2, and not K times as much: the
ledger holds the release as it is planned here. Its noise has no delta, so that every method can go with it.
"""

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Laplace
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms

SIZES_LABEL = "rows of units"

# Of epsilon. All else has that much more noise.
SIZES_SHARE = 0.04


def plan_sizes(terms: Terms) -> Release:
    """The release of the histogram of units by their rows, for a share of the budget."""
    epsilon = SIZES_SHARE * terms.budget.epsilon
    if terms.neighboring_relation is NeighboringRelation.REPLACE_ONE:
        epsilon /= Laplace.replace_one_factor
    return Release(
        label=SIZES_LABEL,
        event=Laplace(epsilon=epsilon),
        times=1,
        mechanism="histogram of units by how many rows they keep, of each kind if there are any, with Laplace noise",
        sensitivity=1.0,
    )
