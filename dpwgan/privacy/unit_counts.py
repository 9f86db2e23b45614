"""The private counts for outputs whose rows are grouped into units: rows of units, and links between these.

Privacy: both releases are planned here for units, so the ledger does not scale them again.

- Rows of units: a unit is in one cell, by how many of its rows are kept, and of which kind. Zeroed out it takes 1 from
  that cell; replaced it also adds 1 to another. So the counts move by 1 in L1, or by 2, and not K times as much. The
  noise has no delta, so that it goes with every method.
- Links of rows: each row adds 1 to at most one count of each linked column, and which one depends on rows of its own
  unit alone. So the K rows of a unit move the counts by K times the root of the number of columns at most, in L2.
"""

import math

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Laplace, round_up_stddev
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms

SIZES_LABEL, LINKS_LABEL = "rows of units", "links of rows"

# Share of epsilon.
SIZES_SHARE = 0.04
# Share of what Gaussian noise may spend.
_LINKS_SHARE = 0.1


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


def plan_links(terms: Terms, *, columns: int) -> Release:
    """The release of counts of links between rows, of so many linked columns, for a tenth of the budget.

    Its noise is chosen by zero-concentrated privacy: epsilon is rho + 2 sqrt(rho log(1/delta)), and noise of stddev s
    costs rho = D^2 / (2 s^2) if a unit moves the counts by D.
    Source: Bun and Steinke 2016, arXiv:1605.02065, Proposition 1.3 and Lemma 2.3.
    """
    logarithm, rows = math.log(1.0 / terms.budget.delta), terms.unit.rows
    rho = _LINKS_SHARE * (math.sqrt(logarithm + terms.budget.epsilon) - math.sqrt(logarithm)) ** 2
    moved = rows * math.sqrt(columns)
    if terms.neighboring_relation is NeighboringRelation.REPLACE_ONE:
        moved *= math.sqrt(2.0)
    event = DiscreteGaussian(stddev=round_up_stddev(moved / math.sqrt(2.0 * rho)), cells=columns, rows=rows)
    return Release(
        label=LINKS_LABEL,
        event=event,
        times=1,
        mechanism="discrete Gaussian noise on counts of rows by their group and that of one before them in their unit",
        sensitivity=event.sensitivity,
    )
