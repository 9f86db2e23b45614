"""The unit of privacy: how far all rows of one person can move a release, from how far one row can.

A unit is all rows of one person (household, patient, card), at most `rows` of them. Tables are neighbours if they have
the same rows in the same places but for those of one unit, which are null in one of them, or any others. Methods plan
for a single row; what they plan becomes that of a unit here, in the terms that noise is calibrated for, and again in
the ledger that it is drawn by. The noise itself stays what they planned: it is accounted for as less.

Theorem. Let zeroing out one row move a release by D at most, whatever the other rows are, in any norm. Then zeroing out
a unit moves it by `rows` D at most, and so on with replacing. Proof. Take its rows out, or replace them, one after the
other: `rows` steps of D, and the triangle inequality. QED. It is reached: all rows of a unit may be in the same cells.

- Gaussian noise, in L2: `rows` times the sensitivity, hence a noise multiplier that is so many times smaller.
- Discrete Gaussian noise: `rows` times a row's sqrt(cells); the event knows rows and cells.
- Selections: `rows` times as much on every score, hence `rows` times the epsilon.
- Laplace noise, in L1: the same. Wishart noise: each row takes away a matrix of rank 1 and the stated trace, in
  whichever class, and so costs the stated epsilon; pure epsilons of the steps add up to `rows` times that.
- Sums over a Poisson sample: if whole units are `sampled`, and the parts of a unit's rows clipped as one, the event is
  that of a row. Else rows are sampled apart, and `PoissonGaussian.split` has what that costs.
- Stable selection of cells: it is planned by what it costs, and noisier for a unit (`StableSelection.of_row`). Of a
  column in which a unit's rows are alike units are counted, not rows: a unit adds 1 to one count, as a row does.
- The histogram of units by their numbers of rows is no sum over rows: `dpwgan.privacy.unit_counts`.
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
    """At most so many `rows` of one person; where steps take samples, whether whole units are `sampled`, or rows.

    `named` by a column, whose cell says whose a row is; without one somebody promises that nobody has more rows.
    Raises: PrivacyError if `rows` is not a whole number of at least 1.
    """

    rows: int = 1
    named: str | None = None
    sampled: bool = False

    def __post_init__(self) -> None:
        check_whole("The number of rows of a unit", self.rows)

    @property
    def is_row(self) -> bool:
        """Whether each row stands for itself."""
        return self.rows == 1 and self.named is None

    @property
    def meaning(self) -> str:
        """What a unit is, in words."""
        if self.named is None:
            return f"any {self.rows} rows" if self.rows > 1 else "one row"
        most = "one of which is" if self.rows == 1 else f"at most {self.rows} of which are"
        return f"all rows with the same cell in {quote(self.named)}, {most} kept"

    def scale(self, event: Event) -> Event:
        """What an event says of a unit that was planned for a row; noise on numbers stays the same.

        Privacy: the module's theorem. Raises: PrivacyError for a kind of event of which nothing is proved.
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
        """What is released, as `scale` says its event: with the sensitivity of a unit, so that noise stays what it is.

        A Poisson sample's sensitivity is that of a row, or of a unit sampled whole: the event has what follows.
        """
        event = self.scale(release.event)
        if event is release.event or isinstance(event, PoissonGaussian | StableSelection):
            return replace(release, event=event)
        scaled = event.sensitivity if isinstance(event, DiscreteGaussian) else self.rows * release.sensitivity
        return replace(release, event=event, sensitivity=scaled)


ONE_ROW = Unit()
"""Each row by itself."""
