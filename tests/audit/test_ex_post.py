import math

import numpy as np
import pytest

from dpwgan.audit.ex_post import (
    EstimateSettings,
    bound_losses,
    bound_next_loss,
    choose_removed,
    estimate_divergence,
    estimate_privacy,
    find_nearest_vectors,
    measure_losses,
)
from dpwgan.errors import UsageError


def gaussian_divergence(mean, stddev, dimensions):
    """KL of N(0, I) from N(mean, stddev^2 I), mean in each coordinate: the closed form."""
    return dimensions * (math.log(stddev) + (1 + mean**2) / (2 * stddev**2) - 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize(("dimensions", "tolerance"), [(1, 0.20), (2, 0.22), (4, 0.30)])
@pytest.mark.parametrize("neighbours", [1, 3])
def test_divergence_meets_the_closed_form_when_densities_are_gaussian(dimensions, tolerance, neighbours):
    """4,000 and 2,000 rows. Over 100 runs the standard deviation was at most 0.038, 0.041 and 0.047 at one, two and
    four dimensions, and the bias at most 0.002, 0.003 and 0.046. Allowed is the bias and 5.2 standard
    deviations, or more: a false alarm in a million runs.

    The broken twin leaves out the numbers of rows, and is off by 0.69.
    """
    rng = np.random.default_rng()
    sample, other = rng.normal(size=(4000, dimensions)), 0.4 + 1.3 * rng.normal(size=(2000, dimensions))
    truth = gaussian_divergence(0.4, 1.3, dimensions)
    estimate = estimate_divergence(sample, other, neighbours=neighbours)
    assert estimate == pytest.approx(truth, abs=tolerance)
    without_sizes = estimate - math.log(2000 / 3999)
    assert abs(without_sizes - truth) > tolerance


@pytest.mark.statistical
def test_divergence_is_none_when_densities_are_the_same():
    """As above: the standard deviation is 0.037, the bias 0.006."""
    rng = np.random.default_rng()
    assert estimate_divergence(rng.normal(size=(3000, 3)), rng.normal(size=(3000, 3))) == pytest.approx(0.0, abs=0.2)


def loop_distances(point, others, neighbours):
    return sorted(math.dist(point, other) for other in others)[neighbours - 1]


@pytest.mark.parametrize("neighbours", [1, 3])
@pytest.mark.parametrize("dimensions", [2, 20])  # a tree, and all pairs
def test_divergence_equals_the_loop_over_pairs_when_rows_are_few(neighbours, dimensions):
    rng = np.random.default_rng(12)
    sample, other = rng.normal(size=(40, dimensions)), rng.normal(size=(25, dimensions))
    total = 0.0
    for place, point in enumerate(sample):
        own = loop_distances(point, np.delete(sample, place, axis=0), neighbours)
        total += math.log(loop_distances(point, other, neighbours) / own)
    expected = dimensions / 40 * total + math.log(25 / 39)
    assert estimate_divergence(sample, other, neighbours=neighbours) == pytest.approx(expected, rel=1e-12)


def test_neighbours_are_exact_when_rows_nearly_coincide_far_from_zero():
    """A search by |a|^2 - 2 ab + |b|^2 has no digits left here; distances are taken anew."""
    rng = np.random.default_rng(13)
    among = 1e4 + rng.normal(size=(50, 30))
    distances, _ = find_nearest_vectors(among + 1e-6, among, neighbours=1)
    assert distances[:, 0] == pytest.approx(np.full(50, 1e-6 * math.sqrt(30)), rel=1e-4)


def loop_losses(artificial, real, *, removed, neighbours):
    """The framework as the paper tells it: take the nearest out, and compare what each row then sees."""
    rows, dimensions = artificial.shape
    losses = []
    for person in real:
        gone = set(np.argsort([math.dist(person, row) for row in artificial])[:removed].tolist())
        total = 0.0
        for place, point in enumerate(artificial):
            before = [artificial[j] for j in range(rows) if j != place]
            after = [artificial[j] for j in range(rows) if j != place and j not in gone]
            ratio = loop_distances(point, after, neighbours) / loop_distances(point, before, neighbours)
            total += dimensions * math.log(ratio) + math.log(len(after) / len(before))
        losses.append(total / rows)
    return losses


@pytest.mark.parametrize(("removed", "neighbours"), [(1, 1), (4, 1), (1, 3), (5, 2)])
def test_losses_equal_the_loop_over_rows_when_the_nearest_are_removed(removed, neighbours):
    rng = np.random.default_rng(14)
    artificial, real = rng.normal(size=(50, 3)), rng.normal(size=(6, 3))
    expected = loop_losses(artificial, real, removed=removed, neighbours=neighbours)
    losses = measure_losses(artificial, real, removed=removed, neighbours=neighbours)
    assert losses == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_loss_bound_is_mean_and_upper_semideviation_when_losses_are_skewed():
    losses = np.array([0.0, 0.0, 0.0, 4.0])
    # Mean 1; above it lies 4 alone: semivariance 9/4, semideviation 1.5.
    assert bound_losses(losses, gamma=0.01) == pytest.approx(1.0 + 1.5 / 0.1)
    assert bound_losses(-losses, gamma=0.01) == pytest.approx(-1.0 + math.sqrt(3 / 4) / 0.1)


@pytest.mark.parametrize("gamma", [0.001, 0.05, 0.3])
def test_loss_bound_holds_when_losses_follow_any_law(gamma):
    """Chebyshev's inequality needs no law: the share of a population above its own bound is at most gamma."""
    rng = np.random.default_rng(16)
    for losses in (rng.exponential(size=5000), rng.pareto(1.5, size=5000), -rng.pareto(2.0, size=5000)):
        assert np.mean(losses >= bound_losses(losses, gamma=gamma)) <= gamma


@pytest.mark.statistical
@pytest.mark.parametrize("gamma", [0.1, 0.3])
def test_next_loss_bound_is_passed_as_rarely_as_it_says_when_samples_are_small(gamma):
    """20,000 samples of 20: more than gamma by 1e-6 of chance is allowed. The broken twin, the spread once, is passed.

    The heavy tail is the law on which the mean and spread of a sample deceive most.
    """
    from scipy import stats

    rng = np.random.default_rng()
    draws = rng.pareto(1.2, size=(20_000, 21))
    passed = sum(row[-1] >= bound_next_loss(row[:-1], gamma=gamma) for row in draws)
    allowed = stats.binom.isf(1e-6, len(draws), gamma)
    assert passed <= allowed
    broken = [row[:-1].mean() + 0.1 * row[:-1].std(ddof=1) for row in draws]
    assert (draws[:, -1] >= broken).sum() > stats.binom.isf(1e-6, len(draws), 0.1)


def test_next_loss_has_no_bound_when_the_sample_is_too_small_for_gamma():
    losses = np.random.default_rng(17).normal(size=99)
    assert bound_next_loss(losses, gamma=0.0099) is None
    assert bound_next_loss(losses, gamma=0.01) is not None


@pytest.mark.parametrize("many", [9, 100])
@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.5])
def test_next_loss_bound_is_the_smallest_factor_that_the_inequality_allows(many, gamma):
    losses = np.random.default_rng(18).normal(size=many)
    bound = bound_next_loss(losses, gamma=gamma)
    spread = math.sqrt((many + 1) / many * losses.var(ddof=1))
    factor = (bound - losses.mean()) / spread

    def chance(k):
        return math.floor((many + 1) / many * ((many - 1) / k**2 + 1)) / (many + 1)

    assert chance(factor) <= gamma + 1e-12
    assert chance(factor * (1 - 1e-6)) > gamma


@pytest.mark.parametrize(
    ("divergence", "rows", "expected"),
    [
        (0.0, (100, 100), 1),
        (-1.0, (100, 100), 1),
        (math.log(3), (1000, 1000), 3),
        (0.0, (100, 500), 5),
        (50.0, (9, 1000), 100),
    ],
)
def test_removed_rows_are_the_share_of_a_row_times_e_to_the_divergence(divergence, rows, expected):
    assert choose_removed(divergence, real_rows=rows[0], artificial_rows=rows[1]) == expected


def test_estimate_repeats_when_the_seed_does():
    rng = np.random.default_rng(19)
    real, artificial = rng.normal(size=(300, 4)), rng.normal(size=(300, 4))
    runs = [
        estimate_privacy(real, artificial, settings=EstimateSettings(samples=50), rng=np.random.default_rng(1))
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    measured = runs[0].measured
    assert measured["real_rows_looked_at"] == 50
    assert measured["gamma_for_one_more_row"] == pytest.approx(1 / 51)
    assert runs[0].mu > measured["mean_loss"]


def test_estimate_does_not_see_that_rows_are_copied():
    """A limit of the framework, shown: a copy of the rows gets no larger mu than fresh rows. The divergence shows it.

    mu is a figure of the artificial rows, whoever they copy.
    """
    rng = np.random.default_rng(20)
    real, fresh = rng.normal(size=(2, 2000, 3))
    copy = real + 1e-6 * rng.normal(size=real.shape)
    settings = EstimateSettings(samples=500, removed=1)
    of_copy, of_fresh = (estimate_privacy(real, rows, settings=settings, rng=rng) for rows in (copy, fresh))
    assert of_copy.mu < 1.5 * of_fresh.mu
    key = "divergence_of_real_from_artificial"
    assert of_copy.measured[key] < -10.0 < of_fresh.measured[key]


def test_rows_are_refused_when_they_coincide():
    twins = np.repeat(np.random.default_rng(21).normal(size=(20, 2)), 2, axis=0)
    for call in (
        lambda: estimate_divergence(twins, twins[:9] + 1.0),
        lambda: estimate_divergence(twins[::2], twins[::2]),
        lambda: measure_losses(twins, twins, removed=1),
    ):
        with pytest.raises(UsageError):
            call()
