"""The private counts that outputs whose rows are grouped into units need: how many rows units have, and their order.

Privacy: the ledger holds both releases as they are planned here, and not once more for K rows.

- Rows of units: a unit is in one cell, by how many of its rows are kept, and of which kind. Taken out it takes 1 from
  that cell; with other rows it adds 1 to another as well. So the counts move by 1 in L1, or by 2, and not K times as
  much. The noise has no delta, so that every method can go with it.
- Links of rows: of each linked column each row adds 1 to one count at most, and which one hangs on rows of its own unit
  alone. So what is said of counts of rows holds: the K rows of a unit move them by K times the root of how many columns
  there are, at most.
"""

import math

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Laplace, round_up_stddev
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms

SIZES_LABEL, LINKS_LABEL = "rows of units", "links of rows"

# Of epsilon. All else has that much more noise.
SIZES_SHARE = 0.04
# Of all that noise of Gaussians has to spend.
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
    """The release of how often rows follow which in their unit, by so many linked columns, for a tenth of the budget.

    Its size is chosen as if by zero-concentrated privacy: epsilon is rho + 2 sqrt(rho log(1/delta)), and noise of
    stddev s costs D^2 / (2 s^2) where a unit moves the counts by D.
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
