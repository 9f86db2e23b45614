"""The unit of privacy: how far all rows of one person can move a release, from how far one row can.

A unit is all rows of one person (household, patient, card), at most `rows` of them. Tables are neighbours if they
differ in the rows of one unit alone, which are null in one of them, or any others in the same places. Methods plan for
a single row; this module scales their events to a unit, for calibration and again in the ledger. The noise itself stays
what they planned, and is accounted for as less.

Theorem. Let zeroing out one row move a release by D at most, whatever the other rows are, in any norm. Then zeroing out
a unit moves it by `rows` D at most; likewise for replacing. Proof. Zero out, or replace, its rows one at a time: `rows`
steps of D, and the triangle inequality. QED. The bound is tight: all rows of a unit may be in the same cells.

- Gaussian noise, in L2: `rows` times the sensitivity, hence the noise multiplier over `rows`.
- Discrete Gaussian noise: `rows` times a row's sqrt(cells); the event knows rows and cells.
- Selections: `rows` times as much on every score, hence `rows` times the epsilon.
- Laplace noise, in L1: the same. Wishart noise: each row takes away a matrix of rank 1 and the stated trace, in
  whichever class, and so costs the stated epsilon; pure epsilons of the steps add up to `rows` times that.
- Sums over a Poisson sample: if whole units are `sampled`, and the parts of a unit's rows clipped as one, the event is
  that of a row. Else rows are sampled independently, at the cost that `PoissonGaussian.split` states.
- Stable selection of cells: it is planned by its cost, and noisier for a unit (`StableSelection.of_row`). If a unit's
  rows share a column's cell, units are counted, not rows: a unit adds 1 to one count, as a row does.
- The histogram of units by their numbers of rows is not a sum over rows: see `dpwgan.privacy.unit_counts`.
"""

from dataclasses import dataclass, replace

from dpwgan.errors import PrivacyError, quote
from dpwgan.privacy.events import (
    DiscreteGaussian,
    Event,
    ExponentialSelection,
    Gaussian,
    PoissonGaussian,
    Pure,
    StableSelection,
    Unprotected,
    check_whole,
)
from dpwgan.privacy.release import Release


@dataclass(frozen=True, kw_only=True)
class Unit:
    """At most `rows` rows of one person. `sampled`: whether steps sample whole units, or rows.

    `named`: the column that says whose a row is; without one somebody promises that nobody has more rows.
    Raises: PrivacyError if `rows` is not a whole number of at least 1.
    """

    rows: int = 1
    named: str | None = None
    sampled: bool = False

    def __post_init__(self) -> None:
        check_whole("The number of rows of a unit", self.rows)

    @property
    def is_row(self) -> bool:
        """Whether the unit is a single row."""
        return self.rows == 1 and self.named is None

    @property
    def meaning(self) -> str:
        """The definition of a unit, in words."""
        if self.named is None:
            return f"any {self.rows} rows" if self.rows > 1 else "one row"
        most = "one of which is" if self.rows == 1 else f"at most {self.rows} of which are"
        return f"all rows with the same cell in {quote(self.named)}, {most} kept"

    def scale(self, event: Event) -> Event:
        """The event for a unit, of one planned for a row; the noise stays the same.

        Privacy: the module's theorem. Raises: PrivacyError for a kind of event with no proof.
        """
        if self.rows == 1 or isinstance(event, Unprotected):
            return event
        if isinstance(event, PoissonGaussian):
            return event if self.sampled else replace(event, rows=self.rows)
        if isinstance(event, Gaussian):
            return replace(event, noise_multiplier=event.noise_multiplier / self.rows)
        if isinstance(event, DiscreteGaussian | StableSelection):
            return replace(event, rows=self.rows)
        if isinstance(event, ExponentialSelection | Pure):
            return replace(event, epsilon=self.rows * event.epsilon)
        raise PrivacyError(f"Nothing is proved of units under the event {type(event).__name__}.")

    def scale_release(self, release: Release) -> Release:
        """The release with its event scaled as by `scale`, and the sensitivity of a unit: the noise stays the same.

        A Poisson sample's sensitivity stays that of a row, or of a unit sampled whole: the event has the rest.
        """
        event = self.scale(release.event)
        if event is release.event or isinstance(event, PoissonGaussian | StableSelection):
            return replace(release, event=event)
        scaled = event.sensitivity if isinstance(event, DiscreteGaussian) else self.rows * release.sensitivity
        return replace(release, event=event, sensitivity=scaled)


ONE_ROW = Unit()
"""A single row."""
