"""The private counts of which rows come after which in their unit, for outputs whose rows are grouped into units.

Privacy: of each linked column each row adds 1 to one count at most, and which one hangs on rows of its own unit alone.
So what is said of counts of rows holds: the K rows of a unit move them by K times the root of how many columns there
are, at most. The ledger holds it as it is planned here.
"""

import math

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, round_up_stddev
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms

LINKS_LABEL = "links of rows"

# Of all that noise of Gaussians has to spend.
_SHARE = 0.1


def plan_links(terms: Terms, *, columns: int) -> Release:
    """The release of all counts of so many linked columns, for about a tenth of the budget.

    Its size is chosen as if by zero-concentrated privacy: epsilon is rho + 2 sqrt(rho log(1/delta)), and noise of
    stddev s costs D^2 / (2 s^2) where a unit moves the counts by D.
    Source: Bun and Steinke 2016, arXiv:1605.02635, Proposition 1.3 and Lemma 2.3.
    """
    logarithm, rows = math.log(1.0 / terms.budget.delta), terms.unit.rows
    rho = _SHARE * (math.sqrt(logarithm + terms.budget.epsilon) - math.sqrt(logarithm)) ** 2
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
