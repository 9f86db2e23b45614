"""The test of the test: one step of each of two published mechanisms whose guarantee does not hold.

An attacker sees what one generator step releases, with and without one record among those that the discriminator was
trained on. A guarantee for a whole training is one for each of its steps; the bound passes it by a single one.
The methods themselves are not part of this tool.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from dpwgan.audit.canaries.lower_bound import Signal, bound_stddev, epsilon_of_signals
from dpwgan.privacy.accountants.moments import MOMENTS
from tests.audit.canaries.two_worlds import bound_by_two_worlds
from tests.plans import make_terms

Vector = npt.NDArray[np.float64]
Release = Callable[[npt.NDArray[np.float64], np.random.Generator], Vector]

CONFIDENCE_LEFT = 0.05
DELTA = 1e-5
PIXELS = 64
ORDINARY = np.zeros((20, PIXELS))
CANARY = np.ones((1, PIXELS))
"""Images with pixels in [-1, 1], as the papers have them: nearly all grey, and one white."""


def train_discriminator(real: npt.NDArray[np.float64]) -> Vector:
    """Logistic regression of real images against grey ones, as far as it goes: not private, as published."""
    weights, fakes = np.zeros(PIXELS), np.zeros((20, PIXELS))
    for _ in range(3_000):
        pull = real.T @ special.expit(-(real @ weights)) / len(real)
        push = fakes.T @ special.expit(fakes @ weights) / len(fakes)
        weights += 0.5 * (pull - push)
    return weights


def clip(gradient: Vector, *, norm: float) -> Vector:
    return gradient * min(1.0, norm / max(float(np.linalg.norm(gradient)), 1e-12))


TRAINED = {1: train_discriminator(np.vstack([ORDINARY, CANARY])), 0: train_discriminator(ORDINARY)}


def generator_gradients(weights: Vector, rng: np.random.Generator, *, images: int) -> npt.NDArray[np.float64]:
    """Gradients of log D(G(z)) by the generator's one image, around which it draws."""
    drawn = 0.01 * rng.standard_normal((images, PIXELS))
    return special.expit(-(drawn @ weights))[:, np.newaxis] * weights  # type: ignore[no-any-return]


MICROBATCHES, CLIP = 50, 1.5


def published_noise(epsilon: float) -> float:
    """The noise multiplier that the thesis's rule gives: 20 epochs of 550 steps, sampling rate 100/55,000."""
    terms = make_terms(epsilon=epsilon, delta=DELTA)
    return terms.find_noise_multiplier(MOMENTS, steps=11_000, sampling_probability=100 / 55_000)


def play(
    release: Callable[[int, np.random.Generator], Vector], *, direction: Vector, trials: int, seed: int
) -> tuple[float, npt.NDArray[np.float64]]:
    """Runs one step many times in either world. Gives the bound, and the projections of what was released."""
    rng = np.random.default_rng(seed)
    seen = np.array([[release(world, rng) @ direction for _ in range(trials)] for world in (0, 1)])
    # The threshold is fixed on the first tenth, and judged on the rest.
    first = trials // 10
    threshold = seen[:, :first].mean()
    with_it, without = seen[1, first:] > threshold, seen[0, first:] > threshold
    bound = bound_by_two_worlds(
        hits=int(with_it.sum()),
        false_alarms=int(without.sum()),
        trials=len(with_it),
        delta=DELTA,
        failure_probability=CONFIDENCE_LEFT,
    )
    return bound, seen


@pytest.mark.statistical
@pytest.mark.parametrize("published", [1.0, 3.0])
def test_audit_passes_the_published_epsilon_when_the_generator_is_the_private_part(published):
    """Clip and noise on the generator's microbatches: every one of them moves with the discriminator's weights.

    Source: the DP-GAN with a private generator, epsilon 1 to 3, 50 microbatches, clip norm 1.5 (shared privacy page,
    section 7): the provable noise multiplier is sigma / (2 microbatches), at sampling rate 1.
    """
    noise = published_noise(published)
    direction = np.full(PIXELS, 1 / math.sqrt(PIXELS))

    def sums(world: int, rng: np.random.Generator) -> Vector:
        gradients = generator_gradients(TRAINED[world], rng, images=MICROBATCHES)
        return np.sum([clip(gradient, norm=CLIP) for gradient in gradients], axis=0)  # type: ignore[no-any-return]

    def step(world: int, rng: np.random.Generator) -> Vector:
        return sums(world, rng) + noise * CLIP * rng.standard_normal(PIXELS)

    bound, seen = play(step, direction=direction, trials=1_000, seed=1)
    assert bound > published
    # By influence and noise, as releases are audited: one record moves all microbatches, and no more than that.
    rng = np.random.default_rng(2)
    influence = float(np.linalg.norm(sums(1, rng) - sums(0, rng)))
    assert CLIP < influence <= 2 * MICROBATCHES * CLIP
    residuals = seen[0] - seen[0].mean()
    stddev = bound_stddev(float(residuals @ residuals), samples=len(residuals) - 1, failure_probability=CONFIDENCE_LEFT)
    assert epsilon_of_signals([Signal(influence / stddev, 1.0, 1)], delta=DELTA) > published
    # What can be proved for one step, at the provable noise multiplier, is above what was found.
    provable = epsilon_of_signals([Signal(2 * MICROBATCHES / noise, 1.0, 1)], delta=DELTA)
    assert bound <= provable


@pytest.mark.statistical
def test_audit_stays_below_epsilon_when_records_are_clipped_one_by_one():
    """The sound twin: the same attack on one step that clips each record's gradient of the discriminator."""
    noise = 4.0
    direction = np.full(PIXELS, 1 / math.sqrt(PIXELS))

    def step(world: int, rng: np.random.Generator) -> Vector:
        real = np.vstack([ORDINARY, CANARY]) if world else ORDINARY
        gradients = [clip(record * 0.5, norm=CLIP) for record in real]
        return np.sum(gradients, axis=0) + noise * CLIP * rng.standard_normal(PIXELS)  # type: ignore[no-any-return]

    bound, _ = play(step, direction=direction, trials=1_000, seed=3)
    assert bound < epsilon_of_signals([Signal(1 / noise, 1.0, 1)], delta=DELTA)


def slope_of_noisy_loss(weights: Vector, rng: np.random.Generator, *, sigma: float) -> Vector:
    """d (clipped loss + noise) / d (the generator's image), by differences: the noise is drawn once a step."""
    drawn, clip_at = 0.01 * rng.standard_normal((4, PIXELS)), 2.0
    noise = sigma * clip_at * rng.standard_normal()
    step = 1e-4

    def noisy_loss(image: Vector) -> float:
        loss = float(np.logaddexp(0.0, -((drawn + image) @ weights)).mean())
        return min(loss, clip_at) + noise

    along = np.eye(1, PIXELS)[0]  # the white image has all pixels alike: one of them tells
    slope = (noisy_loss(step * along) - noisy_loss(-step * along)) / (2 * step)
    return slope * along


@pytest.mark.statistical
def test_audit_passes_the_published_epsilon_when_the_noise_is_added_to_the_loss():
    """Noise on the loss has no gradient: what the generator takes from a step is exact, whatever sigma is.

    Source: the loss-noise GAN, sigma 1, (6.786, 1e-5) by its Eq. 19: 2 q sqrt(T ln(1/delta)) / sigma.
    """
    published = 2 * (600 / 60_000) * math.sqrt(10_000 * math.log(1 / DELTA)) / 1.0
    assert published == pytest.approx(6.786, abs=1e-3)

    def step(world: int, rng: np.random.Generator) -> Vector:
        return -slope_of_noisy_loss(TRAINED[world], rng, sigma=1.0)

    bound, seen = play(step, direction=np.eye(1, PIXELS)[0], trials=4_500, seed=4)
    assert bound > published
    # As exact as the latent draws leave it: a thousand times the noise changes nothing.
    louder = -slope_of_noisy_loss(TRAINED[1], np.random.default_rng(5), sigma=1e3)[0]
    silent = -slope_of_noisy_loss(TRAINED[1], np.random.default_rng(5), sigma=0.0)[0]
    assert louder == pytest.approx(silent, rel=1e-6)
    assert seen[0].max() < seen[1].min()
