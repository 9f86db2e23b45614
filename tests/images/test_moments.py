"""The mean releases for images: worst neighbours that are searched for, exact sums, and noise."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import DpwganError
from dpwgan.gaussians.class_moments import RADIUS
from dpwgan.gaussians.projected_gaussian import draw_projection
from dpwgan.images.basis import make_cosine_basis
from dpwgan.images.moments import (
    MEANS_REPLACE_ONE_FACTOR,
    ImageProjection,
    centre_sensitivity,
    means_sensitivity,
    read_points,
    root_sensitivity,
    sum_centre,
    sum_means,
    sum_points,
    weigh_sizes,
)
from dpwgan.privacy.events import Gaussian, Laplace
from dpwgan.table.encoded import EncodedTable
from tests.images.test_grid import make_grid
from tests.ledgers import make_release, make_source
from tests.methods.images import encode_images
from tests.worst_neighbours import find_farthest

FALSE_ALARM = 1e-6
DIMENSIONS = (1, 2, 3, 5, 8, 16)


def make_projection(p: int, *, shape: tuple[int, int, int] = (4, 3, 1), random: bool = False) -> ImageProjection:
    pixels = math.prod(shape)
    if random:
        basis, bands = draw_projection(pixels, p, rng=np.random.default_rng(5)).T, np.zeros(p, np.int64)
    else:
        basis, bands = make_cosine_basis(shape, dimension=p)
    return ImageProjection(grid=make_grid(shape), basis=basis, bands=bands, random=random)


def search(p: int, *, noise: type, case: str, weight: float, rng: np.random.Generator) -> float:
    """Looks for the records that move a release most.

    With a `weight` of class sizes it is the first release, whose points all go to one place; without, the second.
    """

    def measure(mine: np.ndarray, other: np.ndarray) -> float:
        if case == "zero-out":
            difference = np.append(mine, weight)
        elif case == "replace-one":
            difference = mine - other
        elif weight:
            difference = np.append(mine - other, [weight, -weight])
        else:
            difference = np.concatenate((mine, -other))
        return float(np.abs(difference).sum() if noise is Laplace else np.linalg.norm(difference))

    return find_farthest(measure, p, rng=rng)


@pytest.mark.parametrize("noise", [Laplace, Gaussian])
@pytest.mark.parametrize("case", ["zero-out", "replace-one", "other class"])
@pytest.mark.parametrize("first", [True, False])
def test_means_move_by_no_more_than_stated_when_neighbours_are_the_worst(noise, case, first):
    rng = np.random.default_rng(1)
    for p in DIMENSIONS:
        root = math.sqrt(p)
        # In whole numbers of the grid it is the same, rounded down.
        assert root * RADIUS - 1 < root_sensitivity(p) <= root * RADIUS
        weight = (root if noise is Laplace else 1.0) if first else 0.0
        event = Laplace(epsilon=1.0) if noise is Laplace else Gaussian(noise_multiplier=1.0)
        assert weigh_sizes(p, event) / RADIUS == pytest.approx(root if noise is Laplace else 1.0, abs=1e-4)
        unit = weight + root if noise is Laplace else math.hypot(1.0, weight)
        found = search(p, noise=noise, case=case, weight=weight, rng=rng)
        assert found <= unit * (1.0 if case == "zero-out" else MEANS_REPLACE_ONE_FACTOR) * (1 + 1e-9)
        if case == "zero-out":
            assert found > 0.999 * unit
            # The twins: without the class's size, or with the L2 norm of a point in L1, it is passed.
            assert not first or found > root * 1.01 or noise is Gaussian
            assert p == 1 or noise is Gaussian or found > (weight + 1) * 1.05


def test_sums_of_neighbours_differ_by_no_more_than_stated_when_a_picture_is_black_or_white():
    """The whole way from pixels to sums, on pictures at the ends of their range, which are the longest."""
    projection = make_projection(12)  # every direction that there is
    rng = np.random.default_rng(2)
    pictures = np.concatenate([rng.integers(0, 2, (60, 4, 3)) * 255, np.zeros((1, 4, 3)), np.full((1, 4, 3), 255)])
    encoded = encode_images(pictures.astype(np.uint8), np.arange(62) % 3)
    for centre, radius in ((0.0, projection.radius), (0.3 * rng.standard_normal(12), 0.6)):

        def add_up(table: EncodedTable, centre: Any = centre, radius: float = radius) -> np.ndarray:
            return sum_points(table, projection, centre=centre, radius=radius)

        before, l1, l2 = add_up(encoded), root_sensitivity(12), RADIUS
        lengths = []
        for row in range(62):
            moved = add_up(encoded.take(np.arange(62) != row)) - before
            assert np.count_nonzero(np.abs(moved).sum(axis=1)) == 1  # of one class only
            assert np.abs(moved).sum() <= l1
            lengths.append(float(np.linalg.norm(moved)))
            assert lengths[-1] <= l2
            for other in (0, 60, 61):
                codes, numbers = encoded.codes.copy(), encoded.numbers.copy()
                codes[row], numbers[row] = (codes[row] + 1) % 3, numbers[other]
                moved = add_up(EncodedTable(codes=codes, numbers=numbers, spans=encoded.spans)) - before
                assert np.abs(moved).sum() <= MEANS_REPLACE_ONE_FACTOR * l1
                assert np.linalg.norm(moved) <= MEANS_REPLACE_ONE_FACTOR * l2
        # A picture of black and white is as long as any can be: nothing was given away, and nothing shortened.
        assert min(lengths) > 0.999 * l2


def test_sums_equal_plain_loops_when_nothing_is_added():
    rng = np.random.default_rng(3)
    images, labels = rng.integers(0, 256, (50, 4, 3), dtype=np.uint8), rng.integers(0, 3, 50)
    encoded = encode_images(images, labels)
    for random in (False, True):
        projection = make_projection(6, random=random)
        centre = 0.1 * rng.standard_normal(6)
        found = sum_points(encoded, projection, centre=centre, radius=0.9)
        expected = np.zeros((3, 6))
        for image, k in zip(images, labels, strict=True):
            point = (projection.basis @ (image.ravel() / 255 - 0.5) - centre) / 0.9
            expected[k] += point / max(1.0, float(np.linalg.norm(point)))
        np.testing.assert_allclose(found / RADIUS, expected, atol=50 * 2 / RADIUS)


def test_point_of_a_row_is_the_same_to_the_last_bit_when_other_rows_differ():
    rng = np.random.default_rng(4)
    projection = make_projection(40, shape=(8, 8, 1), random=True)
    numbers = (rng.integers(0, 256, (500, 64)) / 255).astype(np.float32)
    whole = projection.project(numbers)
    for rows in (np.arange(500)[::-1], rng.permutation(500)[:7], np.array([13])):
        np.testing.assert_array_equal(projection.project(numbers[rows]), whole[rows])
    bad = np.full((1, 64), np.nan, np.float32)
    assert np.isfinite(projection.project(bad)).all()


@pytest.mark.parametrize("noise", [Laplace(epsilon=0.5), Gaussian(noise_multiplier=3.0)])
def test_noise_has_the_stated_law_when_means_are_released(noise):
    """Chi-square of the squares, two-sided; the twin whose noise is 10% low fails."""
    projection = make_projection(12)
    encoded = encode_images(np.zeros((30, 4, 3), np.uint8), np.arange(30) % 3)
    source, laplace = make_source(6), isinstance(noise, Laplace)

    def draw(exact: np.ndarray, sensitivity: float, times: int) -> tuple[np.ndarray, float]:
        release = make_release("points", noise, sensitivity=sensitivity)
        values, stddevs = zip(
            *(read_points(source.add_noise(release, exact), noise) for _ in range(times)), strict=True
        )
        return np.array(values), stddevs[0]

    about: dict[str, Any] = {"centre": np.full(12, 0.1), "radius": 2.0}
    exact = sum_means(encoded, projection, **about, noise=noise)
    means, stddev = draw(exact, means_sensitivity(noise, dimension=12), 400)
    assert stddev == pytest.approx(math.sqrt(2 * 12) / 0.5 if laplace else 3.0, rel=1e-3)
    refuse_other_law((means - sum_points(encoded, projection, **about) / RADIUS) / stddev, noise=noise)
    if laplace:
        # Whole numbers on whole numbers: the release lies on the grid, exactly.
        np.testing.assert_array_equal(means[0] * RADIUS, np.rint(means[0] * RADIUS))
    exact = sum_centre(encoded, projection, noise=noise)
    first, stddev = draw(exact, centre_sensitivity(noise, dimension=12), 1_000)
    total = sum_points(encoded, projection, centre=0.0, radius=projection.radius).sum(axis=0) / RADIUS
    assert stddev == pytest.approx(2 * math.sqrt(2 * 12) / 0.5 if laplace else 3.0 * math.sqrt(2), rel=1e-3)
    refuse_other_law((first[:, 3:] - total) / stddev, noise=noise)
    sizes = (first[:, :3] - 10 * (math.sqrt(12) if laplace else 1.0)) / stddev
    assert abs(float(np.square(sizes).mean()) - 1.0) < 0.3


def refuse_other_law(draws: np.ndarray, *, noise: Laplace | Gaussian) -> None:
    """Sum of squares, two-sided; the twin whose noise is 10% low fails."""
    total, freedom = float(np.square(draws).sum()), draws.size
    # The square of a standard Laplace number has variance 5, that of a Gaussian one 2.
    reach = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(freedom * (5.0 if isinstance(noise, Laplace) else 2.0))
    assert abs(total - freedom) < reach
    assert abs(0.81 * total - freedom) > reach


def test_projection_is_refused_when_it_does_not_fit_its_pixels():
    basis, bands = make_cosine_basis((2, 2, 1), dimension=2)
    grid = make_grid((2, 2, 1))
    for wrong in ({"grid": replace(grid, levels=2**40)}, {"bands": bands[:1]}, {"basis": basis * 9}):
        with pytest.raises(DpwganError, match="does not fit"):
            ImageProjection(**{"grid": grid, "basis": basis, "bands": bands, **wrong})
    with pytest.raises(DpwganError, match="does not fit"):
        ImageProjection(grid=make_grid((3, 1, 1)), basis=basis, bands=bands)
