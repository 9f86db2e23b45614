"""The privacy estimation framework: how much an artificial table would change if a real row had not been there.

Triastcyn and Faltings 2019, "Generating Artificial Data for Private Deep Learning" (papers: dp-critic-ex-post), section
4.2. To spare training anew without a row, its absence is imitated: the artificial rows nearest to it are taken
out. The divergence (Kullback-Leibler) of the artificial rows from those left, an expected privacy loss, is estimated
for many real rows, and Chebyshev's inequality bounds what it comes to but for a probability gamma.

Privacy: NOT private, and no guarantee: see `CAVEATS`. What comes out is a type of its own, so that it cannot pass for
  `dpwgan.privacy.guarantee.PrivacyGuarantee`, with which it shares no base and no field.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpwgan.array_types import Floats, Integers
from dpwgan.errors import PrivacyError, UsageError

GAMMA = 1e-5
"""Source: Triastcyn and Faltings 2019, section 5.4."""

MOST_REMOVED = 0.1
"""Share of the artificial rows that may be taken out for one real row: beyond it nothing local is left to measure."""

NO_GUARANTEE = "ESTIMATE, NOT A GUARANTEE"

CAVEATS = (
    "It bounds an expected loss, where differential privacy bounds the largest.",
    "It is about this one table, not about the method that made it or about neighbouring tables.",
    "No model was trained anew: the absence of a row is imitated by taking out artificial rows near it.",
    "A table that copies its rows may get the same figure as one that does not: only artificial rows are compared.",
    "The mean and spread in Chebyshev's inequality are taken as known, though they were measured on a sample of rows.",
)


def find_nearest_vectors(
    targets: Floats, among: Floats, *, neighbours: int, same: bool = False
) -> tuple[Floats, Integers]:
    """Finds the vectors nearest to each target, the nearest first.

    With `same`, targets and `among` are one sample, and no vector is its own neighbour.
    Shapes: (t, d) and (m, d) give (t, neighbours) distances and places.
    Raises: UsageError if there are fewer vectors than neighbours.
    """
    from sklearn.neighbors import NearestNeighbors

    if not 1 <= neighbours <= len(among) - same:
        raise UsageError(f"{neighbours} nearest rows cannot be found among {len(among) - same}")
    index = NearestNeighbors(n_neighbors=neighbours).fit(among)
    # Without targets every vector is left out of its own list, which a search for them would not do for twins.
    places: Integers = index.kneighbors(None if same else targets, return_distance=False)
    # A fast search computes |a|^2 - 2 ab + |b|^2, which has no digits left for vectors close together.
    distances = np.empty(places.shape)
    for column in range(neighbours):
        distances[:, column] = np.linalg.norm(targets - among[places[:, column]], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(places, order, axis=1)


def estimate_divergence(sample: Floats, other: Floats, *, neighbours: int = 1) -> float:
    """Estimates the Kullback-Leibler divergence of the density of `sample` from that of `other`.

    With d dimensions, n and m rows, and the distances rho to the k-th neighbour in the own sample and nu in the other
    one: d/n sum log(nu/rho) + log(m/(n-1)). Converges almost surely; may come out below 0.
    Shapes: (n, d) and (m, d).
    Units: nats.
    Raises: UsageError if rows coincide, so that there is no density, or there are too few.
    Source: Perez-Cruz 2008, "Kullback-Leibler divergence estimation of continuous distributions", equation 14.
    """
    rows, dimensions = sample.shape
    own = find_nearest_vectors(sample, sample, neighbours=neighbours, same=True)[0][:, -1]
    across = find_nearest_vectors(sample, other, neighbours=neighbours)[0][:, -1]
    _refuse_twins(own, across)
    return float(dimensions * np.mean(np.log(across / own)) + math.log(len(other) / (rows - 1)))


def choose_removed(divergence: float, *, real_rows: int, artificial_rows: int) -> int:
    """Chooses how many artificial rows stand for a real one: m/n e^KL, at least 1, at most a tenth of all.

    The paper computes the divergence of real from artificial rows and assumes "that all the difference comes from one
    point", without a formula. Read here as: at that point the log of the ratio of the densities is all of the
    divergence, so e^KL times as many artificial rows lie around it as the m/n that each real row has on average.
    Source: Triastcyn and Faltings 2019, section 4.2; the formula is this tool's reading.
    """
    most = max(1, int(MOST_REMOVED * artificial_rows))
    share = artificial_rows / real_rows * math.exp(min(max(divergence, 0.0), 30.0))
    return min(most, max(1, math.ceil(share - 1e-9)))


def measure_losses(artificial: Floats, real: Floats, *, removed: int, neighbours: int = 1) -> Floats:
    """Estimates, for each real row, the divergence of the artificial rows from those left without its nearest ones.

    The estimator is that of `estimate_divergence` with both samples drawn from the same rows: a row that stays is not
    counted as its own neighbour in either. Only rows that have a removed one among their neighbours change.
    Shapes: (m, d) artificial and (s, d) real rows give (s,) losses.
    Units: nats.
    Raises: UsageError if rows coincide, or too few would be left.
    Source: Triastcyn and Faltings 2019, section 4.2 (artificial rows D~ and D~ without the k nearest to row i).
    """
    rows, dimensions = artificial.shape
    if rows < removed + neighbours + 1:
        raise UsageError("too few synthetic rows to take out the nearest ones and find neighbours among the rest")
    # The k-th neighbour left is among the first k + removed, whichever rows are taken out.
    distances, places = find_nearest_vectors(artificial, artificial, neighbours=neighbours + removed, same=True)
    _refuse_twins(distances[:, neighbours - 1])
    gone = find_nearest_vectors(real, artificial, neighbours=removed)[1]
    # Which rows count a given row among their first k neighbours, and where the list of each one starts.
    counted = places[:, :neighbours].ravel()
    order = np.argsort(counted, kind="stable")
    counters = (np.arange(rows * neighbours) // neighbours)[order]
    starts = np.searchsorted(counted[order], np.arange(rows + 1))
    left_out = np.zeros(rows, dtype=bool)
    # The mean of log(rows to be a neighbour after / before): a removed row is in the first sample alone.
    left = rows - removed
    fixed = (removed * math.log(left) + left * math.log(left - 1)) / rows - math.log(rows - 1)
    losses = np.empty(len(real))
    for number, nearest in enumerate(gone):
        left_out[nearest] = True
        moved = np.unique(np.concatenate([counters[starts[row] : starts[row + 1]] for row in nearest]))
        stays = ~left_out[places[moved]]
        new = np.argmax(np.cumsum(stays, axis=1) == neighbours, axis=1)
        ratios = np.log(distances[moved, new] / distances[moved, neighbours - 1])
        losses[number] = dimensions * float(ratios.sum()) / rows + fixed
        left_out[nearest] = False
    return losses


def bound_losses(losses: Floats, *, gamma: float) -> float:
    """A bound mu that a loss passes with probability at most gamma: mean + (upper semideviation) / sqrt(gamma).

    From Pr(x >= E[x] + t) <= E[max(x - E[x], 0)^2] / t^2, with mean and semivariance taken from the sample.
    Units: as the losses. Shapes: (s,), s at least 1.
    Source: Berck and Hihn 1982, as Triastcyn and Faltings 2019, equation 5.
    """
    mean = float(losses.mean())
    return mean + math.sqrt(float(np.square(np.maximum(losses - mean, 0.0)).mean()) / gamma)


def bound_next_loss(losses: Floats, *, gamma: float) -> float | None:
    """A bound that one more row's loss passes with probability at most gamma; None if the sample carries none.

    With Q^2 = (s+1)/s times the sample variance: Pr(|x - mean| >= k Q) <= floor((s+1)/s ((s-1)/k^2 + 1)) / (s+1), which
    never falls below 1/(s+1): s rows carry no smaller gamma.
    Shapes: (s,), s at least 2.
    Source: Saw, Yang, Mo 1984, "Chebyshev inequality with estimated mean and variance".
    """
    many = len(losses)
    allowed = math.floor(gamma * (many + 1) + 1e-9)
    if allowed < 1:
        return None
    # The floor stays at `allowed` as long as what it is taken of is below allowed + 1.
    factor = math.sqrt((many - 1) / ((allowed + 1) * many / (many + 1) - 1)) * (1 + 1e-12)
    spread = math.sqrt((many + 1) / many * float(losses.var(ddof=1)))
    return float(losses.mean()) + factor * spread


@dataclass(frozen=True, kw_only=True)
class PrivacyEstimate:
    """An empirical bound `mu` on an expected privacy loss, which the loss of a row passes with probability `gamma`.

    `quantity` says of what, `method` how it was measured, `caveats` why it promises nothing. However it is printed, the
    words "not a guarantee" and the caveats come with it; there is no number to be had by formatting it.

    Privacy: computed from private rows; NOT private. Bounds an expected loss of one table, where epsilon bounds the
      largest loss of every table: the two cannot be compared.
    Units: `mu` in nats; `gamma` is a probability.
    Raises: PrivacyError if `mu` is not finite.
    Source: Triastcyn and Faltings 2019, "Generating Artificial Data for Private Deep Learning", section 4.2.
    """

    mu: float
    gamma: float
    quantity: str = (
        "expected privacy loss of a real row, in nats, as the change of the artificial rows when its nearest are gone"
    )
    method: str = "k-nearest-neighbour divergence and Chebyshev's inequality with the upper semivariance"
    caveats: tuple[str, ...] = CAVEATS
    measured: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not math.isfinite(self.mu):
            raise PrivacyError("An estimate must be a finite number.")

    def __str__(self) -> str:
        return (
            f"{NO_GUARANTEE}: (mu, gamma) = ({self.mu:.4g}, {self.gamma:.4g}): {self.quantity}, by {self.method}. "
            + " ".join(self.caveats)
        )

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        if form:
            raise PrivacyError("An estimate is printed with its caveats or not at all.")
        return str(self)

    def describe(self) -> dict[str, Any]:
        """The estimate as a JSON document, in which the guarantee is null and the reason is said."""
        return {"kind": "estimate", "guarantee": None, "why_no_guarantee": NO_GUARANTEE, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class EstimateSettings:
    """How the estimate is made: `removed` of None lets `choose_removed` choose; `samples` real rows at most.

    Raises: UsageError if a number is out of range.
    """

    gamma: float = GAMMA
    removed: int | None = None
    neighbours: int = 1
    samples: int = 1000

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma < 1.0:
            raise UsageError("gamma must be above 0 and below 1")
        if self.removed is not None and self.removed < 1:
            raise UsageError("the number of rows taken out must be at least 1")
        if self.neighbours < 1:
            raise UsageError("the number of neighbours must be at least 1")
        if self.samples < 2:
            raise UsageError("at least 2 real rows must be looked at")


def estimate_privacy(
    real: Floats, artificial: Floats, *, settings: EstimateSettings, rng: np.random.Generator
) -> PrivacyEstimate:
    """Runs the whole framework on rows that are vectors already.

    Shapes: (n, d) real and (m, d) artificial rows.
    Raises: UsageError if rows coincide or are too few.
    Source: Triastcyn and Faltings 2019, section 4.2.
    """
    divergence = estimate_divergence(real, artificial, neighbours=settings.neighbours)
    removed = settings.removed
    if removed is None:
        removed = choose_removed(divergence, real_rows=len(real), artificial_rows=len(artificial))
    chosen = rng.choice(len(real), size=min(settings.samples, len(real)), replace=False)
    losses = measure_losses(artificial, real[chosen], removed=removed, neighbours=settings.neighbours)
    carried = max(settings.gamma, 1.0 / (len(losses) + 1))
    return PrivacyEstimate(
        mu=bound_losses(losses, gamma=settings.gamma),
        gamma=settings.gamma,
        measured={
            "mean_loss": float(losses.mean()),
            "largest_loss": float(losses.max()),
            "rows_removed_for_each": removed,
            "rows_removed_chosen_by": "asked for" if settings.removed is not None else "the divergence",
            "neighbours": settings.neighbours,
            "real_rows_looked_at": len(losses),
            "real_rows": len(real),
            "artificial_rows": len(artificial),
            "dimensions": int(artificial.shape[1]),
            "divergence_of_real_from_artificial": divergence,
            "mu_for_one_more_row": bound_next_loss(losses, gamma=carried),
            "gamma_for_one_more_row": carried,
        },
    )


def _refuse_twins(*distances: Floats) -> None:
    if any((column <= 0.0).any() for column in distances):
        raise UsageError("rows coincide, so they have no density: smooth them first")
