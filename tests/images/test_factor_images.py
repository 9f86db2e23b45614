"""Images from factors: what is drawn, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import DpwganError
from dpwgan.images.factor_images import FactorImages
from dpwgan.table.encoded import lay_out_spans
from tests.table.images import make_schema

SPANS = lay_out_spans(make_schema(2, 2, 1))
LABEL = next(span for span in SPANS if span.head != "linear")


def make_generator(**changes: Any) -> FactorImages:
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "shares": np.array([0.2, 0.0, 0.8]),
        "centers": np.array([[0.1, 0.0], [9.0, 9.0], [-0.2, 0.1]]),
        "factors": 0.02 * rng.standard_normal((3, 2, 2)),
        "waves": np.linalg.qr(rng.standard_normal((4, 2)))[0].T,
    }
    return FactorImages(spans=SPANS, label=LABEL, pixels=np.array([2, 0, 3, 1]), **{**arrays, **changes})


def test_means_and_covariances_are_those_of_the_factors_when_nothing_is_cut() -> None:
    generator = make_generator()
    drawn = next(generator.sample(40_000, rng=np.random.default_rng(2)))
    labels = drawn.codes[:, 0]
    assert np.mean(labels == 0) == pytest.approx(0.2, abs=0.02)
    assert not np.any(labels == 1)
    for label in (0, 2):
        pixels = drawn.numbers[labels == label][:, generator.pixels]
        np.testing.assert_allclose(pixels.mean(axis=0), 0.5 + generator.centers[label] @ generator.waves, atol=2e-3)
        whole = generator.factors[label] @ generator.waves
        np.testing.assert_allclose(np.cov(pixels.T), whole.T @ whole, atol=1e-4)


def test_pixels_are_cut_to_their_range_when_factors_are_large() -> None:
    drawn = next(make_generator(factors=np.full((3, 2, 2), 50.0)).sample(500, rng=np.random.default_rng(2)))
    assert drawn.numbers.min() == 0.0
    assert drawn.numbers.max() == 1.0


def test_rows_come_in_chunks_when_asked_for() -> None:
    sizes = [part.records for part in make_generator().sample(25, rng=np.random.default_rng(1), chunk=10)]
    assert sizes == [10, 10, 5]


@pytest.mark.parametrize(
    "changes",
    [
        {"shares": np.array([0.5, 0.6, 0.2])},
        {"shares": np.array([1.5, -0.5, 0.0])},
        {"centers": np.zeros((2, 2))},
        {"factors": np.full((3, 2, 2), np.nan)},
        {"waves": np.zeros((2, 5))},
    ],
)
def test_generator_is_refused_when_its_arrays_do_not_fit(changes: dict[str, Any]) -> None:
    with pytest.raises(DpwganError, match="do not fit"):
        make_generator(**changes)


def test_generator_is_refused_when_pixels_are_not_the_numbers_of_a_row() -> None:
    with pytest.raises(DpwganError, match="do not fit"):
        replace(make_generator(), pixels=np.array([0, 0, 1, 2]))
