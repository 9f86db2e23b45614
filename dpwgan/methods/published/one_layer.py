"""The one-layer network f_w(x) = sigmoid(w.x + b) on one-hot rows: trained, evaluated and certified privately.

A row has one category in each of d attributes; x is its one-hot code of width W followed by a 1 for the bias, so that
|x|^2 = d + 1 for every row, and at most that for a row of probabilities. Weights are vectors of length W + 1, the bias
last. With n real rows (n is public) and synthetic rows of public weights q_i that add up to 1, the logistic loss is

    l(w) = 1/2 (1/n) sum over real rows of ln(1 + e^(-w.x)) + 1/2 sum over synthetic rows of q_i ln(1 + e^(w.x)),

which is ln 2 for w = 0, and J(w) = l(w) + (c/2)|w|^2 with c the regularization. Zeroing out a record makes its term
disappear; the synthetic rows are public.

Theorem 1 (training). Let |grad J(v)| <= t. Then v moves by at most S = L/(n c) + 2 t/c when a record is zeroed out,
and by at most sqrt(2 d/(d + 1)) S when it is replaced, with L = sigmoid(sqrt(d + 1) B) sqrt(d + 1)/2 and B =
min(sqrt(2 d)/(4 c), sqrt(2 ln 2/c)). Proof. J is c-strongly convex, and so it is with the record's term g taken off or
exchanged; the minimisers are at most |grad g|/c apart, taken at either of them (Chaudhuri, Monteleoni, Sarwate 2011,
Lemma 7; Corollary 8 is the sensitivity of output perturbation). grad g = -(1/2n) s x with s = sigmoid(-w.x). No
minimiser is longer than B: J(w) <= J(0) <= ln 2, and |w| <= |grad J(0)|/c by strong convexity, where grad J(0) is a
quarter of the difference of two mean rows, one of them times (n - 1)/n after a zeroing; a row has length sqrt(d + 1)
and a 1 for the bias, so |y - u x|^2 <= (d + 1) + u^2 (d + 1) - 2 u, at most 2 d for 0 <= u <= 1. So s <=
sigmoid(sqrt(d + 1) B), and |grad g| <= L/n. If x is replaced by x', grad g is (s x - s' x')/(2n); |s x - s' x'|^2 is
convex in (s, s'), so it is largest at a corner of their square: s^2 (d + 1), or s^2 (2 (d + 1) - 2 x.x') <= 2 d s^2,
since both rows share the bias. As 2 d is no less than d + 1, the minimisers are then at most sqrt(2 d/(d + 1)) L/(n c)
apart. Strong convexity again puts v within t/c of the minimiser, in either table (as in Wu et al. 2017). QED. Gaussian
noise of stddev (noise multiplier) S on v is then a Gaussian mechanism; the paper's own Algorithm 4 draws noise that
its lemma does not cover and needs an exact minimiser.

Theorem 2 (the solver ends). Let p be what conjugate gradients, started at 0, reach after one or more steps for H p =
-g, with g and H the gradient and Hessian of J at w, and e = sqrt(d + 1)|p|. Then the step (ln(1 + e)/e) p lowers J by
at least p.Hp/(2 + 2e/3), and |g| <= t after at most N = ceil((M/c)(1 + E/3) ln(2 M ln 2/t^2)) steps from 0, M = c + (d
+ 1)/4, E = sqrt(d + 1)(sqrt(d + 1)/2 + sqrt(2 c ln 2))/c. Proof. g.p = -p.Hp on every Krylov subspace. The logistic
function has |f'''| <= f'', so along p the second derivative grows by at most e^(e s) (Bach 2010, Proposition 1), and
J(w + s p) - J(w) <= p.Hp (-s + (e^(e s) - 1 - e s)/e^2). s = ln(1 + e)/e minimises that, to -p.Hp ((1 + e) ln(1 + e) -
e)/e^2, and (1 + e) ln(1 + e) - e >= e^2/(2 + 2e/3). J never rises above ln 2, so |w| <= sqrt(2 ln 2/c), and the
gradient is no longer than sqrt(d + 1)/2 + c|w| (a difference of two vectors without negative entries, each at most
sqrt(d + 1)/2 long); |p| <= |g|/c, so e <= E. The first step of conjugate gradients alone gives p.Hp >= |g|^2/M >=
(2c/M)(J - min J). So J - min J falls by the factor 1 - c/(M (1 + E/3)) or more, from ln 2 at most to t^2/(2M), where
|g| <= t. QED. N depends on public numbers alone: no table makes the solver fail. About ten are taken, more for a tiny
c: some seventy at 2e-6.

Theorem 3 (certificate). Let D be the Euclidean distance between the real and the synthetic rows' one-way fractions,
all of them joined to one vector of width W. Then l(w) >= ln 2 - (R/4) D for every one-layer network whose weights,
without the bias, are at most R long. Proof. l is convex, l(0) = ln 2, and grad l(0) is a quarter of the synthetic less
the real fractions, with 0 for the bias; a convex function lies above its tangent, and Cauchy-Schwarz. QED. D moves by
at most sqrt(d)/n when a record is zeroed out and sqrt(2 d)/n when it is replaced (triangle inequality). So one
Gaussian release of D, and Theorem 1 of `dpwgan.privacy.certificate`, bound all networks of all radii at once. The
tangent at released weights would bound them too, but loses (c/2) R^2, about the squared length of their noise times
(d + 1)/8, and the noise of a released loss.

Theorem 4 (the mean score of a mixture). Let z = w.x + b, with the attributes of x independent, |z| <= Z, and let f(t)
be the product of their characteristic functions at t, times e^(i t b). With A = Z + a and h = 2 pi/A, the mean of
sigmoid(z) is 1/2 + h (E[z]/(2 pi) + sum over k of Im f(k h)/sinh(pi k h)), the sum up to k h >= a/pi, but for at most
2 e^-a (a >= 4). Proof. (1/4) sech^2(z/2), the slope of sigmoid, has Fourier transform pi t/sinh(pi t). By Poisson's
formula the whole sum, integrated from 0, is sigmoid(z) - 1/2 plus, over all m >= 1, sigmoid(A m + z) - sigmoid(A m -
z), which is at most e^(Z - A m): together no more than e^-a/(1 - e^-A). What is cut off is at most the integral of
1/sinh(pi t) beyond a/pi, at most (2/pi) e^-a/(1 - e^-2a). QED.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse, special

from dpwgan.array_types import AnyFloats, Floats
from dpwgan.errors import PrivacyError
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.loss import Codes, Probabilities, Sums
from dpwgan.methods.published.one_hot_rows import CURVATURE, GROUP_COUNTS, SCORES, SLOPES, OneHotRows
from dpwgan.privacy.certificate import bound_worst_error, gaussian_slack
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Noisy, Release
from dpwgan.table.rows import Rows

WEIGHTS_LABEL, ANSWER_LABEL, CERTIFICATE_LABEL = "one-layer weights", "one-layer answer", "one-layer certificate"

ANSWER_NOISE_RATIO = 4.0
"""Noise multiplier of an answer over that of the weights: one number bears more noise than W, and so costs 1/16."""

CERTIFICATE_NOISE_RATIO = 2.0
"""Noise multiplier of the certificate over that of the weights: released once, not once a round."""

_SLACK_SHARE = 1e-4
"""What an inexact minimum may add to the sensitivity, relative to it."""

_LOG_ACCURACY = 12.5
"""The a of Theorem 4: mean scores are within 2 e^-12.5, less than 1e-5, of the exact ones."""

_MOST_CELLS = 2**16
"""Complex numbers that a mean score holds at a time in each of its arrays: 1 MiB, measured to be the fastest."""

_UNIT_ROUNDOFF = 2.0**-53

_ROUNDING = 1e-9
"""What sensitivities are raised by: more than the rounding of the sums that they bound."""


def train_one_layer(real: Rows[OneHotRows], synthetic: AnyFloats, *, regularization: float, ledger: Ledger) -> Floats:
    """Releases the weights of the one-layer network that best tells real rows from synthetic ones.

    Privacy: output perturbation, with the sensitivity of the module's Theorem 1 under zero-out and its factor under
      replace-one in the event. `synthetic` must have been released or be post-processing. The objective is that of all
      rows, wherever they lie, minimised by this process, which alone adds the noise.
    Shapes: `synthetic` (m, W), probabilities with each attribute's adding up to 1, whose rows are taken as they are and
      all count alike. The released weights (W + 1,).
    Units: `regularization` is the strength c of the penalty (c/2)|w|^2.
    Raises: PrivacyError if less was reserved than what a record moves here.
    Source: Chaudhuri, Monteleoni, Sarwate 2011, JMLR 12, Lemma 7 and Corollary 8, with Gaussian noise; approximate
      minimisers as in Wu et al. 2017, arXiv:1606.04722, and Iyengar et al. 2019 (IEEE S&P).
    """
    fake = _design(synthetic, sizes=real.own.sizes)
    public: dict[str, Any] = {
        "records": real.records,
        "synthetic_rows": fake.shape[0],
        "attributes": len(real.own.sizes),
        "regularization": regularization,
    }
    sensitivity = weights_sensitivity(**public)
    if ledger.unit.rows * sensitivity > ledger.find(WEIGHTS_LABEL).sensitivity:
        raise PrivacyError("The one-layer network can move further than was reserved for it.")
    tolerance = _gradient_tolerance(**public)
    minimise = partial(_minimise, real, fake, regularization=regularization, tolerance=tolerance)
    return ledger.release(WEIGHTS_LABEL, minimise).values


def weights_sensitivity(*, records: int, synthetic_rows: int, attributes: int, regularization: float) -> float:
    """Computes how far zeroing out a record can move the weights that the solver finds: L/(n c) + 2 t/c.

    Source: the module's Theorem 1. All arguments are public.
    """
    tolerance = _gradient_tolerance(
        records=records, synthetic_rows=synthetic_rows, attributes=attributes, regularization=regularization
    )
    longest = min(math.sqrt(2 * attributes) / (4 * regularization), math.sqrt(2 * math.log(2) / regularization))
    length = math.sqrt(attributes + 1)
    lipschitz = float(special.expit(length * longest)) * length / 2
    return (lipschitz / records + 2 * tolerance) / regularization * (1 + _ROUNDING)


@dataclass(frozen=True, kw_only=True, eq=False)
class OneLayerTerm:
    """What a released network says of the real rows, as a term of a generator's loss.

    Shapes: `weights` (W + 1,), the bias last; `sizes` one number of groups for each attribute.
    Units: `target` is the released mean of f_w over the real rows, `stddev` that of its noise.
    """

    weights: Floats
    sizes: tuple[int, ...]
    target: float
    stddev: float

    def count_sums(self) -> int:
        """The expected score."""
        return 1

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """As in `ReleasedLoss`."""
        score, _ = _score_and_gradient(codes.rows.T, weights=self.weights, sizes=self.sizes, slopes=False)
        into[0] = codes.share * codes.rows.shape[1] * score

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """Adds the derivatives of ((expected score - target)/stddev)^2 / 2 to others, as `ReleasedLoss` has it."""
        _, by_probability = _score_and_gradient(codes.rows.T, weights=self.weights, sizes=self.sizes)
        factor = (float(sums[0]) - self.target) / self.stddev / self.stddev
        into += (codes.share * codes.rows.shape[1] * factor) * by_probability.T


def measure_one_layer(real: Rows[OneHotRows], weights: Floats, *, ledger: Ledger) -> OneLayerTerm:
    """Releases the mean of f_w over the real rows.

    Privacy: with released weights, f_w lies between two public numbers, those of the least and the largest weight of
      every attribute. Released is the sum of f_w less their middle, over half their distance: zeroing out a record
      moves that by at most 1, the reserved sensitivity, whatever the weights; replacing it by at most twice as much.
    Shapes: `weights` (W + 1,).
    Source: Dwork and Roth 2014, Appendix A.
    """
    sizes = real.own.sizes
    low, high = special.expit(_sum_range(weights, sizes=sizes))
    middle, half = (low + high) / 2, (high - low) / 2
    # Equal weights leave a range of 0, where the mean is public; noise of some size is drawn all the same.
    most = max(half, 1e-12) * (1 + _ROUNDING)

    noisy = ledger.release(ANSWER_LABEL, lambda: real.sum(SCORES, argument=float(middle), array=weights) / most)
    unit = most / real.records
    return OneLayerTerm(weights=weights, sizes=sizes, target=noisy.value * unit + middle, stddev=noisy.stddev * unit)


def bound_gain(distance: Noisy, *, attributes: int, radius: float, failure_probability: float) -> float:
    """Bounds how well any one-layer network with |w| <= radius tells the output's rows from the real ones.

    Except with probability `failure_probability`, no such network has a logistic loss below ln 2 - the bound; and that
    holds for all radii at once. The bias does not count towards |w|.
    Privacy: post-processing of the distance that `measure_distance` releases.
    Units: nats; guessing has loss ln 2, so the bound is never more than that.
    Source: the module's Theorem 3.
    """
    farthest = bound_worst_error(
        distance.value,
        slack=gaussian_slack(stddev=distance.stddev, failure_probability=failure_probability),
        largest_possible=math.sqrt(2 * attributes),
    )
    return min(radius / 4 * farthest, math.log(2))


def measure_distance(real: Rows[OneHotRows], synthetic: AnyFloats, *, ledger: Ledger) -> Noisy:
    """Releases the distance between the one-way fractions of the real rows and of an output that is final.

    Privacy: one number, which zeroing out a record moves by at most sqrt(d)/n, and replacing it by sqrt(2) times that.
    Shapes: as in `train_one_layer`. Probabilities certify the rows drawn from them in the mean over all draws.
    Source: the module's Theorem 3.
    """
    fake = _design(synthetic, sizes=real.own.sizes)
    generated = fake.T @ np.full(fake.shape[0], 1 / fake.shape[0])

    def measure() -> Floats:
        return np.array([np.linalg.norm(real.sum(GROUP_COUNTS) / real.records - generated[:-1])])

    return ledger.release(CERTIFICATE_LABEL, measure)


def plan_one_layer(
    rounds: int, *, records: int, synthetic_rows: int, attributes: int, regularization: float, scale: float
) -> list[Release]:
    """The releases of a run of so many rounds, for the ledger to reserve.

    A round trains one network and asks it one question; the certificate is released once. All noise multipliers grow
    with `scale`, which is that of the weights. `synthetic_rows`: how many there are at most.
    """
    sensitivity = weights_sensitivity(
        records=records, synthetic_rows=synthetic_rows, attributes=attributes, regularization=regularization
    )
    # The module's Theorem 1: how much further replacing a record can move the weights than zeroing it out.
    weights = Gaussian(noise_multiplier=scale, replace_one_factor=math.sqrt(2 * attributes / (attributes + 1)))
    answer = Gaussian(noise_multiplier=ANSWER_NOISE_RATIO * scale)
    certificate = Gaussian(noise_multiplier=CERTIFICATE_NOISE_RATIO * scale, replace_one_factor=math.sqrt(2))
    of_weights: dict[str, Any] = {"released": "a one-layer network's weights", "attributes": attributes}
    of_answer = {"released": "the network's mean over the rows"}
    of_certificate = {"released": "the distance of all one-way fractions"}
    farthest = math.sqrt(attributes) / records * (1 + _ROUNDING)
    release = partial(Release, mechanism="Gaussian noise")
    return [
        release(label=WEIGHTS_LABEL, event=weights, times=rounds, sensitivity=sensitivity, details=of_weights),
        release(label=ANSWER_LABEL, event=answer, times=rounds, sensitivity=1.0, details=of_answer),
        release(label=CERTIFICATE_LABEL, event=certificate, times=1, sensitivity=farthest, details=of_certificate),
    ]


def iteration_bound(*, attributes: int, regularization: float, tolerance: float) -> int:
    """Computes N, the number of steps after which no table leaves the solver short of its tolerance.

    Source: the module's Theorem 2.
    """
    smoothness = regularization + (attributes + 1) / 4
    longest = math.sqrt(attributes + 1) * (math.sqrt(attributes + 1) / 2 + math.sqrt(2 * regularization * math.log(2)))
    factor = smoothness / regularization * (1 + longest / regularization / 3)
    return max(1, math.ceil(factor * math.log(2 * smoothness * math.log(2) / tolerance**2)))


def _gradient_tolerance(*, records: int, synthetic_rows: int, attributes: int, regularization: float) -> float:
    """The public t that the true gradient is certain to reach; half of it is left to the rounding of float64."""
    lipschitz = math.sqrt(attributes + 1) / 2
    # A sum of k terms is off by at most k roundings, in blocks as in one, and a score by d + 1 of them times |w||x|;
    # J <= ln 2 bounds |w|.
    roundings = records + synthetic_rows + (attributes + 1) ** 1.5 * math.sqrt(2 * math.log(2) / regularization)
    return float(lipschitz * (_SLACK_SHARE / 2 / records + 8 * roundings * _UNIT_ROUNDOFF))


def _minimise(real: Rows[OneHotRows], fake: sparse.csr_matrix, *, regularization: float, tolerance: float) -> Floats:
    """Finds weights where the gradient of J is at most `tolerance` long, by the module's Theorem 2.

    No W x W matrix is formed: a product with the Hessian costs four sparse products, and one pass over the real rows.
    """
    weights, attributes, records = np.zeros(fake.shape[1]), len(real.own.sizes), real.records
    fake_share = 1 / fake.shape[0]
    for _ in range(iteration_bound(attributes=attributes, regularization=regularization, tolerance=tolerance / 2) + 1):
        fake_scores = special.expit(fake @ weights)
        slopes = real.sum(SLOPES, array=weights)
        gradient = fake.T @ (fake_share * fake_scores / 2) - slopes / (2 * records) + regularization * weights
        length = float(np.linalg.norm(gradient))
        if length <= tolerance / 2:
            return weights
        fake_curvature = fake_share * fake_scores * (1 - fake_scores) / 2

        # Conjugate gradients on H p = -g, from 0; the closer to the minimum, the more exactly.
        goal = max(min(0.1, length) * length, tolerance / 8)
        direction = np.zeros_like(weights)
        residual = -gradient
        conjugate, squared = residual.copy(), length**2
        for _ in range(2 * weights.size):
            bent = real.sum(CURVATURE, array=conjugate)
            product = bent / (2 * records) + fake.T @ (fake_curvature * (fake @ conjugate)) + regularization * conjugate
            size = squared / float(conjugate @ product)
            direction += size * conjugate
            residual -= size * product
            previous, squared = squared, float(residual @ residual)
            if math.sqrt(squared) <= goal:
                break
            conjugate = residual + (squared / previous) * conjugate
        reach = math.sqrt(attributes + 1) * float(np.linalg.norm(direction))
        weights = weights + _damping(reach) * direction
    # Theorem 2 leaves no table that leads here; only a broken machine could.
    raise PrivacyError("The one-layer network's solver passed its proved number of steps: an internal error.")


def _damping(reach: float) -> float:
    """The share of a Newton step to take, ln(1 + e)/e: whole steps may run away from the minimum."""
    return math.log1p(reach) / reach


def _score_and_gradient(
    probabilities: AnyFloats, *, weights: Floats, sizes: tuple[int, ...], slopes: bool = True
) -> tuple[float, Floats]:
    """Computes the mean of f_w over a mixture of equally likely codes, each drawing every attribute by itself.

    Without `slopes` the gradient is not looked at, and is 0.

    The module's Theorem 4 does it without drawing rows, to 1e-5. Taking w.x + b as normal, as MacKay 1992 does, would
    be off by hundredths here, which is far more than the noise of an answer.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    low, high = _sum_range(weights, sizes=sizes)
    step = 2 * math.pi / (max(abs(low), abs(high)) + _LOG_ACCURACY)
    points = step * np.arange(1, math.ceil(_LOG_ACCURACY / math.pi / step) + 1)
    kernel, bias = weights[:-1], weights[-1]
    gradient = np.zeros_like(table)
    add_up = partial(_add_up_points, kernel=kernel, bias=bias, sizes=sizes, points=points, step=step)
    # Some codes at a time, so that their characteristic functions take a bounded amount of memory.
    chunk = max(1, _MOST_CELLS // (len(sizes) * points.size))
    pieces = [slice(start, start + chunk) for start in range(0, table.shape[0], chunk)]
    total = sum((add_up(table[rows], gradient=gradient[rows] if slopes else None) for rows in pieces), 0.0)
    gradient /= table.shape[0]
    return total / table.shape[0], gradient


def _add_up_points(
    codes: Floats,
    *,
    kernel: Floats,
    bias: float,
    sizes: tuple[int, ...],
    points: Floats,
    step: float,
    gradient: Floats | None,
) -> float:
    """Adds up the sum of Theorem 4 for some codes, writes its derivatives to `gradient`, and gives the scores' sum."""
    layout = GroupLayout(sizes)
    slices = [layout.get_slice(attribute) for attribute in range(layout.attributes)]
    waves = [np.exp(1j * np.outer(kernel[part], points)) for part in slices]
    factors = [codes[:, part] @ wave for part, wave in zip(slices, waves, strict=True)]
    # The product of all factors but one, without dividing by it: it may be 0. The point's weight goes with the bias.
    after = [np.ones_like(factors[0])]
    for factor in reversed(factors[1:]):
        after.append(after[-1] * factor)
    before = np.exp(1j * bias * points) * step / np.sinh(math.pi * points)
    for part, wave, factor in zip(slices, waves, factors, strict=True):
        others = before * after.pop()
        if gradient is not None:
            gradient[:, part] = (others @ wave.T).imag + step / (2 * math.pi) * kernel[part]
        before = before * factor
    means = codes @ kernel + bias
    return float(np.sum(0.5 + step / (2 * math.pi) * means + before.imag.sum(axis=1)))


def _sum_range(weights: Floats, *, sizes: tuple[int, ...]) -> tuple[float, float]:
    """The least and the largest w.x + b that any row could have."""
    starts = GroupLayout(sizes).starts
    low = weights[-1] + np.minimum.reduceat(weights[:-1], starts).sum()
    high = weights[-1] + np.maximum.reduceat(weights[:-1], starts).sum()
    return float(low), float(high)


def _design(synthetic: AnyFloats, *, sizes: tuple[int, ...]) -> sparse.csr_matrix:
    """Writes probabilities of synthetic rows as a sparse table, with a column of ones at its end."""
    dense = np.array(synthetic, dtype=np.float64)
    sums = np.add.reduceat(dense, GroupLayout(sizes).starts, axis=1)
    # Sums that are off by a float32's rounding would pass the length that the proofs rely on.
    dense /= np.repeat(sums, sizes, axis=1)
    return sparse.csr_matrix(np.hstack([dense, np.ones((len(dense), 1))]))
