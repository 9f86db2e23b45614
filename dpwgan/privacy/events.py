"""Events: mechanisms by the few numbers that their accounting needs, as frozen, JSON-able values.

A noise multiplier is always noise stddev over the L2 sensitivity under the zero-out relation; a replaced record moves
a release by a multiple of that sensitivity, which the event carries where it is not 2. A record is a row, or all rows
of a unit (`dpwgan.privacy.unit`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import NeighboringRelation


def refuse_unless_positive(name: str, value: float) -> None:
    """Passes a size. Raises: PrivacyError, by that name, unless it is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise PrivacyError(f"{name} must be finite and above 0; it is {value!r}.")


def check_whole(name: str, value: int) -> int:
    """Passes a number of things. Raises: PrivacyError, by that name, unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PrivacyError(f"{name} must be a whole number of at least 1; it is {value!r}.")
    return value


class _Numbers:
    """An event that is defined by its name and its numbers."""

    def __post_init__(self) -> None:
        for name, given in list(vars(self).items()):
            value = float(given)  # numpy's numbers are described and compared otherwise
            object.__setattr__(self, name, value)
            if name in ("epsilon", "noise_multiplier"):
                refuse_unless_positive(name, value)
            elif name == "sampling_probability" and not 0 < value <= 1:
                raise PrivacyError(f"{name} must lie above 0 and not above 1; it is {value!r}.")
            elif name == "delta" and not 0 < value < 1:
                raise PrivacyError(f"{name} must lie strictly between 0 and 1; it is {value!r}.")
            elif name == "replace_one_factor" and not 1 <= value <= 2:
                raise PrivacyError(f"{name} must lie between 1 and 2; it is {value!r}.")
            elif name == "rows":
                object.__setattr__(self, name, check_whole(name, given))

    def describe(self) -> dict[str, str | float]:
        """Says all of it as JSON-able pairs; a single row of a unit goes without saying."""
        name = next(name for name, kind in _KINDS.items() if kind is type(self))
        return {"event": name, **{key: value for key, value in vars(self).items() if (key, value) != ("rows", 1)}}


class _Moved(_Numbers):
    """An event that a replaced record moves at most `replace_one_factor` times as far as a zeroed one."""

    replace_one_factor: float = 2.0

    def get_factor(self, neighboring_relation: NeighboringRelation) -> float:
        """By how many zero-out sensitivities a record moves it under a relation."""
        return self.replace_one_factor if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1.0


@dataclass(frozen=True, kw_only=True)
class PoissonGaussian(_Moved):
    """A sum over a Poisson sample, released with Gaussian noise.

    Privacy: each record is in the sample independently with `sampling_probability`; one record moves the sum by at
      most one sensitivity, and the noise has stddev `noise_multiplier` sensitivities. Two records at the same place
      differ by at most twice the sensitivity. Where a unit has several `rows`, this holds of each of them, which are
      sampled apart: `split` says what that costs.
    Source: Abadi et al. 2016, arXiv:1607.00133; Mironov, Talwar, Zhang 2019, arXiv:1908.10530.
    """

    sampling_probability: float
    noise_multiplier: float
    rows: int = 1

    def split(self) -> "tuple[PoissonGaussian, int]":
        """An event of one row, and how many of these, composed, bound what this one reveals of K rows.

        Proof. Noise of stddev s is a sum of K independent ones of stddev s / sqrt(K). So the release is a function of K
          releases, each of one row's part, if it is sampled, with noise of its own: post-processing of these.
        """
        if self.rows == 1:
            return self, 1
        return replace(self, rows=1, noise_multiplier=self.noise_multiplier / math.sqrt(self.rows)), self.rows


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Moved):
    """A function of all records, released with Gaussian noise.

    Privacy: zeroing out a record moves the function by at most one L2 sensitivity, and the noise has stddev
      `noise_multiplier` sensitivities. Replacing a record moves it by at most `replace_one_factor` sensitivities:
      2 in general, sqrt(2) for one-hot counts (one cell down, another one up).
    Source: Dwork and Roth 2014, Appendix A; Balle and Wang 2018, arXiv:1805.06530.
    """

    noise_multiplier: float
    replace_one_factor: float = 2.0


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(_Numbers):
    """Counts of all records, released with discrete Gaussian noise: whole numbers on whole numbers.

    Privacy: zeroing out a record takes 1 from at most `cells` of the counts and leaves the others; replacing one takes
      1 from at most `cells` of them and adds 1 to at most as many. Where a unit has several `rows`, each of them does
      so. The noise z of each count is drawn independently, with probability proportional to e^(-z^2 / (2 stddev^2)).
      `accountants.discrete_gaussian` has the proofs.
    Units: `stddev` in counts; a number that `round_up_stddev` gave, so that it is drawn as it is.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010.
    """

    stddev: float
    cells: int
    rows: int = 1

    def __post_init__(self) -> None:
        if self.stddev != round_up_stddev(self.stddev):
            raise PrivacyError("The stddev of discrete Gaussian noise must lie on its grid.")
        check_whole("cells", self.cells)
        check_whole("rows", self.rows)

    @property
    def sensitivity(self) -> float:
        """What zeroing out a unit moves the counts by in L2: all of its rows may be in the same cells."""
        return self.rows * math.sqrt(self.cells)


@dataclass(frozen=True, kw_only=True)
class StableSelection(_Numbers):
    """A mechanism known only by its (epsilon, delta), such as the discovery of a column's categories.

    Privacy: (`epsilon`, `delta`) hold under the neighbouring relation of the run, for a unit of so many `rows`.
      Composed with everything else by basic composition: both numbers are added.
    Source: Korolova et al. 2009; Dwork and Roth 2014, Theorem 3.16.
    """

    epsilon: float
    delta: float
    rows: int = 1

    @property
    def of_row(self) -> "StableSelection":
        """What has to hold for a row: (d, h) of each of K rows make (K d, K e^((K - 1) d) h) for the unit.

        Source: group privacy; Dwork and Roth 2014, Theorem 2.2; Vadhan 2017, Lemma 2.2.
        """
        epsilon = self.epsilon / self.rows
        return StableSelection(epsilon=epsilon, delta=self.delta / (self.rows * math.exp((self.rows - 1) * epsilon)))


@dataclass(frozen=True, kw_only=True)
class ExponentialSelection(_Moved):
    """The exponential mechanism: one of a public list, drawn with probability proportional to e^(epsilon u / (2 D)).

    Privacy: D bounds how much zeroing out a record moves any score u, so that the privacy loss of a draw lies in an
      interval of length `epsilon` (bounded range), which contains 0: epsilon-DP, and (epsilon^2 / 8)-zCDP. Replacing a
      record moves a score by at most `replace_one_factor` times D, and all of this holds with epsilon times as large.
    Source: McSherry and Talwar 2007; Durfee and Rogers 2019, arXiv:1905.04273 (bounded range); Cesar and Rogers 2021,
      arXiv:2004.07223 (zCDP).
    """

    epsilon: float
    replace_one_factor: float = 2.0


@dataclass(frozen=True, kw_only=True)
class Pure(_Moved):
    """A function of all records, released with noise that has no delta.

    Privacy: the release is `epsilon`-DP under zero-out, and has at most `replace_one_factor` times that epsilon where a
      record is replaced. Composed with everything else by basic composition: epsilons are added.
    Source: Dwork and Roth 2014, Theorem 3.14.
    """

    epsilon: float
    replace_one_factor: float = 2.0

    def get_epsilon(self, neighboring_relation: NeighboringRelation) -> float:
        """The epsilon of one release under a relation."""
        return self.epsilon * self.get_factor(neighboring_relation)


@dataclass(frozen=True, kw_only=True)
class Laplace(Pure):
    """A function of all records, released with Laplace noise on every number.

    Privacy: zeroing out a record moves the function by at most `epsilon` noise scales in L1, over all entries jointly.
    Source: Dwork, McSherry, Nissim, Smith 2006; Dwork and Roth 2014, Theorem 3.6.
    """


@dataclass(frozen=True, kw_only=True)
class Wishart(Pure):
    """Symmetric matrices, released with a difference of Wishart matrices as noise.

    Privacy: zeroing out a record moves one matrix by a semidefinite one of rank 1, of trace at most `epsilon` scales.
    Source: `dpwgan.privacy.mechanisms.wishart`.
    """


@dataclass(frozen=True, kw_only=True)
class PublishedClaim:
    """What a paper says that a method spends, beside what can be proved of the same settings.

    `provable_epsilon` is None where no epsilon can be proved at all. Both are at the same `delta`; None stands for 0.
    Raises: PrivacyError for a number out of range.
    """

    epsilon: float
    delta: float | None
    provable_epsilon: float | None
    source: str

    def __post_init__(self) -> None:
        refuse_unless_positive("a published epsilon", self.epsilon)
        if self.provable_epsilon is not None:
            refuse_unless_positive("a provable epsilon", self.provable_epsilon)
        if self.delta is not None and not 0 < self.delta < 1:
            raise PrivacyError(f"a published delta must lie strictly between 0 and 1; it is {self.delta!r}.")

    def describe(self) -> dict[str, str | float | None]:
        """Says both as JSON-able pairs."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Unprotected:
    """Reads rows in a way of which nothing useful can be proved.

    `reason` says why, in one sentence without a full stop; `published` what the paper states all the same.
    Privacy: no accountant gives it a finite epsilon; a ledger takes it only if it was opened to state no guarantee.
    """

    reason: str
    published: PublishedClaim | None = None

    def describe(self) -> dict[str, str | float]:
        """Says it as JSON-able pairs, without what was published."""
        return {"event": "unprotected", "reason": self.reason}


Event = (
    PoissonGaussian
    | Gaussian
    | DiscreteGaussian
    | ExponentialSelection
    | StableSelection
    | Laplace
    | Wishart
    | Unprotected
)
"""Everything that the accountants can account for."""

Charge = tuple[Event, int]
"""An event and how many times it happens."""


def discrete_gaussian(*, noise_multiplier: float, cells: int) -> DiscreteGaussian:
    """Describes one set of counts, of which a record moves `cells` by 1, with whole-number noise.

    Units: `noise_multiplier` is noise stddev over the L2 sensitivity sqrt(cells); the stddev is rounded up.
    """
    return DiscreteGaussian(stddev=round_up_stddev(noise_multiplier * math.sqrt(cells)), cells=cells)


def round_up_stddev(stddev: float) -> float:
    """Rounds up to 32 significant bits, and to 2^-20 at least: a fraction of whole numbers that draws can be made of.

    Raises: PrivacyError unless it is finite and above 0.
    """
    refuse_unless_positive("stddev", stddev)
    part, power = math.frexp(max(stddev, 2.0**-20))
    return math.ldexp(math.ceil(math.ldexp(part, 32)), power - 32)


def read_event(description: Mapping[str, str | float]) -> Event:
    """Makes an event of what its `describe` gave.

    Raises: PrivacyError for the description of none, or of numbers that are no event's.
    """
    numbers = dict(description)
    kind = _KINDS.get(str(numbers.pop("event", "")))
    known = set() if kind is None else {*kind.__dataclass_fields__}
    if kind is None or not known - {"rows"} <= {*numbers} <= known:
        raise PrivacyError("This is not the description of an event.")
    event: Event = kind(**numbers)
    return event


_KINDS: Mapping[str, type[Any]] = {
    "poisson_gaussian": PoissonGaussian,
    "gaussian": Gaussian,
    "discrete_gaussian": DiscreteGaussian,
    "exponential_selection": ExponentialSelection,
    "stable_selection": StableSelection,
    "laplace": Laplace,
    "wishart": Wishart,
}
