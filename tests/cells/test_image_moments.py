"""The mean release for images: worst neighbours that are searched for, exact sums, noise, and the public bases."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpwgan.accounting.events import Gaussian, Laplace, gaussian, laplace
from dpwgan.cells.class_moments import RADIUS, split_classes
from dpwgan.cells.image_moments import (
    COUNT_WEIGHT,
    MEANS_REPLACE_ONE_FACTOR,
    ImageProjection,
    make_cosine_basis,
    means_sensitivity,
    measure_means,
    sum_points,
)
from dpwgan.encoded import EncodedTable
from dpwgan.errors import DpwganError
from dpwgan.generators.projection import draw_projection
from tests.methods.images import encode_images

FALSE_ALARM = 1e-6
DIMENSIONS = (1, 2, 3, 5, 8, 16)


def make_projection(p: int = 5, *, shape: tuple[int, int, int] = (4, 3, 1), random: bool = False) -> ImageProjection:
    pixels = math.prod(shape)
    if random:
        basis, bands = draw_projection(pixels, p, rng=np.random.default_rng(5)).T, np.zeros(p, np.int64)
    else:
        basis, bands = make_cosine_basis(shape, dimension=p)
    return ImageProjection(sources=np.arange(pixels), levels=255, basis=basis, bands=bands, random=random)


def search(p: int, *, noise: type, case: str, rng: np.random.Generator) -> float:
    """Looks for the record, or the pair of records, that moves (w, z) of two classes most."""

    def to_ball(numbers: np.ndarray) -> np.ndarray:
        return numbers / max(1.0, float(np.linalg.norm(numbers)))

    def moved(numbers: np.ndarray) -> float:
        mine, other = (np.append(to_ball(half), COUNT_WEIGHT) for half in (numbers[:p], numbers[p:]))
        if case == "zero-out":
            difference = mine
        elif case == "replace-one":
            difference = mine - other
        else:
            difference = np.concatenate((mine, other))
        return float(np.abs(difference).sum() if noise is Laplace else np.linalg.norm(difference))

    starts = [rng.standard_normal(2 * p) for _ in range(20)]
    starts += [np.ones(2 * p), np.repeat([1.0, -1.0], p)]
    found = [moved(start) for start in starts]
    for start in sorted(starts, key=moved)[-3:]:
        result = optimize.minimize(
            lambda numbers: -moved(numbers), start, method="Powell", options={"maxiter": 20, "maxfev": 2_000}
        )
        found.append(-float(result.fun))
    return max(found)


@pytest.mark.parametrize("noise", [Laplace, Gaussian])
@pytest.mark.parametrize("case", ["zero-out", "replace-one", "other class"])
def test_means_move_by_no_more_than_stated_when_neighbours_are_the_worst(noise: type, case: str) -> None:
    rng = np.random.default_rng(1)
    for p in DIMENSIONS:
        unit = math.sqrt(p) + COUNT_WEIGHT if noise is Laplace else math.hypot(1.0, COUNT_WEIGHT)
        if noise is Laplace:
            # In whole numbers of the grid it is the same, rounded down.
            assert unit * RADIUS - 1 < means_sensitivity(p) <= unit * RADIUS
        found = search(p, noise=noise, case=case, rng=rng)
        assert found <= unit * (1.0 if case == "zero-out" else MEANS_REPLACE_ONE_FACTOR) * (1 + 1e-9)
        if case == "zero-out":
            assert found > 0.999 * unit
        # The twins: L1 without the class's size, or with the L2 norm of a point, is passed.
        if noise is Laplace and case == "zero-out":
            assert found > math.sqrt(p) * 1.01
            assert p == 1 or found > (1 + COUNT_WEIGHT) * 1.1


def test_sums_of_neighbours_differ_by_no_more_than_stated_when_a_picture_is_black_or_white() -> None:
    """The whole way from pixels to sums, on pictures at the ends of their range, which are the longest."""
    projection = make_projection(12)  # every direction that there is
    rng = np.random.default_rng(2)
    pictures = np.concatenate([rng.integers(0, 2, (60, 4, 3)) * 255, np.zeros((1, 4, 3)), np.full((1, 4, 3), 255)])
    encoded, label = encode_images(pictures.astype(np.uint8), np.arange(62) % 3)
    before = sum_points(split_classes(encoded, label), projection)
    l1, l2 = means_sensitivity(12), RADIUS * math.hypot(1.0, COUNT_WEIGHT)
    lengths = []
    for row in range(62):
        moved = sum_points(split_classes(encoded.take(np.arange(62) != row), label), projection) - before
        assert np.count_nonzero(np.abs(moved).sum(axis=1)) == 1  # of one class only
        assert np.abs(moved).sum() <= l1
        lengths.append(float(np.linalg.norm(moved)))
        assert lengths[-1] <= l2
        for other in (0, 60, 61):
            codes, numbers = encoded.codes.copy(), encoded.numbers.copy()
            codes[row], numbers[row] = (codes[row] + 1) % 3, numbers[other]
            changed = EncodedTable(codes=codes, numbers=numbers, spans=encoded.spans)
            moved = sum_points(split_classes(changed, label), projection) - before
            assert np.abs(moved).sum() <= MEANS_REPLACE_ONE_FACTOR * l1
            assert np.linalg.norm(moved) <= MEANS_REPLACE_ONE_FACTOR * l2
    # A picture of black and white is as long as any can be: nothing was given away, and nothing shortened.
    assert min(lengths) > 0.999 * l2


def test_sums_equal_plain_loops_when_nothing_is_added() -> None:
    rng = np.random.default_rng(3)
    images, labels = rng.integers(0, 256, (50, 4, 3), dtype=np.uint8), rng.integers(0, 3, 50)
    encoded, label = encode_images(images, labels)
    for random in (False, True):
        projection = make_projection(6, random=random)
        found = sum_points(split_classes(encoded, label), projection)
        expected = np.zeros((3, 6))
        for image, k in zip(images, labels, strict=True):
            point = projection.basis @ (image.ravel() / 255 - 0.5) / projection.radius
            expected[k] += point / max(1.0, float(np.linalg.norm(point)))
        np.testing.assert_allclose(found[:, :-1] / RADIUS, expected, atol=50 * 2 / RADIUS)
        np.testing.assert_array_equal(found[:, -1] * 4, np.bincount(labels, minlength=3) * RADIUS)


def test_point_of_a_row_is_the_same_to_the_last_bit_when_other_rows_differ() -> None:
    rng = np.random.default_rng(4)
    projection = make_projection(40, shape=(8, 8, 1), random=True)
    numbers = (rng.integers(0, 256, (500, 64)) / 255).astype(np.float32)
    whole = projection.project(numbers)
    for rows in (np.arange(500)[::-1], rng.permutation(500)[:7], np.array([13])):
        np.testing.assert_array_equal(projection.project(numbers[rows]), whole[rows])
    bad = np.full((1, 64), np.nan, np.float32)
    assert np.isfinite(projection.project(bad)).all()


@pytest.mark.parametrize("noise", [laplace(epsilon=0.5), gaussian(noise_multiplier=3.0)])
def test_noise_has_the_stated_law_when_means_are_released(noise: Laplace | Gaussian) -> None:
    """Chi-square of the squares, two-sided; the twin whose noise is 10% low fails."""
    projection = make_projection(12)
    encoded, label = encode_images(np.zeros((30, 4, 3), np.uint8), np.arange(30) % 3)
    tables = split_classes(encoded, label)
    exact = sum_points(tables, projection)[:, :-1] / RADIUS
    rng = np.random.default_rng(6)
    released = [measure_means(tables, projection, noise=noise, rng=rng) for _ in range(400)]
    draws = np.array([each.sums - exact for each in released]) / released[0].stddev
    sizes = (np.array([each.totals for each in released]) - 10) * COUNT_WEIGHT / released[0].stddev
    stated = (math.sqrt(2) * means_sensitivity(12) / RADIUS / 0.5) if isinstance(noise, Laplace) else 3.0 * 1.0308
    assert released[0].stddev == pytest.approx(stated, rel=1e-3)
    total, freedom = float(np.square(draws).sum()), draws.size
    # The square of a standard Laplace number has variance 5, that of a Gaussian one 2.
    spread = math.sqrt(freedom * (5.0 if isinstance(noise, Laplace) else 2.0))
    reach = stats.norm.isf(FALSE_ALARM / 2) * spread
    assert abs(total - freedom) < reach
    assert abs(0.81 * total - freedom) > reach
    assert abs(float(np.square(sizes).mean()) - 1.0) < 0.4
    if isinstance(noise, Laplace):
        # Whole numbers on whole numbers: the release lies on the grid, exactly.
        grid = released[0].sums * RADIUS
        np.testing.assert_array_equal(grid, np.rint(grid))


def test_cosine_basis_is_orthonormal_and_its_first_picture_is_constant_when_made() -> None:
    for shape in ((4, 3, 1), (5, 5, 3), (1, 6, 1), (7, 2, 3)):
        pixels = math.prod(shape)
        basis, bands = make_cosine_basis(shape, dimension=pixels)
        np.testing.assert_allclose(basis @ basis.T, np.eye(pixels), atol=1e-12)
        assert np.all(np.diff(bands) >= 0)
        first = basis[0].reshape(shape)[..., 0]
        np.testing.assert_allclose(first, first[0, 0])
        np.testing.assert_array_equal(make_cosine_basis(shape, dimension=2)[0], basis[:2])


def test_cosine_basis_is_that_of_another_library_when_all_frequencies_are_asked_for() -> None:
    from scipy.fft import dctn

    basis, _ = make_cosine_basis((4, 6, 1), dimension=24)
    picture = np.random.default_rng(7).random((4, 6))
    mine = np.sort(np.abs(basis @ picture.ravel()))
    np.testing.assert_allclose(mine, np.sort(np.abs(dctn(picture, norm="ortho").ravel())), atol=1e-12)


def test_projection_is_refused_when_it_does_not_fit_its_pixels() -> None:
    basis, bands = make_cosine_basis((2, 2, 1), dimension=2)
    for wrong in ({"sources": np.arange(3)}, {"bands": bands[:1]}, {"basis": basis * 9}, {"levels": 2**40}):
        parts = {"sources": np.arange(4), "levels": 255, "basis": basis, "bands": bands, **wrong}
        with pytest.raises(DpwganError, match="does not fit"):
            ImageProjection(**parts)
