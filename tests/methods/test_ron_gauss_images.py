"""RON-Gauss on images from plan to rows: what is charged, what is refused, and what comes out."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import UsageError
from dpwgan.gaussians.projected_gaussian import project_on_semidefinite
from dpwgan.images.grid import find_images
from dpwgan.images.moments import shrink_centre, shrink_covariance, shrink_means
from dpwgan.methods import ron_gauss_images
from dpwgan.methods.ron_gauss_images import CENTRE_LABEL, IMAGE_COVARIANCE_LABEL, MEANS_LABEL
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Gaussian
from tests.images.test_grid import make_shape
from tests.ledgers import Watcher, watch_reads
from tests.methods.images import make_images
from tests.methods.runs import Run, fit, make_plan, refuse_illegal, reserve

LABELS = [CENTRE_LABEL, MEANS_LABEL, IMAGE_COVARIANCE_LABEL]
READS = ["sum_centre", "sum_means", "sum_image_products"]

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE


def run(records: int, *, seed: int = 1, drawn: int = 200, **settings: Any) -> Run:
    encoded, shape = make_images(records)
    plan = make_plan("ron-gauss", shape, **settings)
    return fit("ron-gauss", encoded, plan, ledger=reserve(plan), records=drawn, seed=seed)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("records", [1, 2, 300])
@pytest.mark.parametrize("projection", ["cosine", "random", None])
def test_sampled_images_are_legal_when_rows_are_few_or_many(noise, records, projection):
    done = run(records, noise=noise, projection=projection)
    refuse_illegal(done.sampled)
    assert done.ledger.charged == dict.fromkeys(LABELS, 1)
    assert [numbers[:2] for numbers in done.progress] == [(1, 3), (2, 3), (3, 3)]
    assert done.progress[-1][2] == pytest.approx(done.ledger.epsilon_reserved())


def test_rows_are_read_behind_the_door_alone_when_images_are_measured(monkeypatch):
    encoded, shape = make_images(50)
    plan, watcher = make_plan("ron-gauss", shape), Watcher()
    ledger = reserve(plan, observers=[watcher])
    reads = watch_reads(monkeypatch, ledger, watcher, [(ron_gauss_images, name) for name in READS])
    fit("ron-gauss", encoded, plan, ledger=ledger)
    assert reads == watcher.order == LABELS


@pytest.mark.parametrize("settings", [{}, {"noise": "gaussian"}, {"projection": "random", "projection_dimension": 36}])
def test_classes_look_like_themselves_when_the_budget_is_large(settings):
    """Class k of the tables of the tests is bright in row k, counted round."""
    sampled = run(3_000, epsilon=30.0, drawn=3_000, **settings).sampled
    pixels, labels = sampled.numbers.reshape(-1, 6, 6), sampled.codes[:, 0]
    for k in range(3):
        rows = pixels[labels == k].mean(axis=(0, 2))
        others = np.delete(rows, k)
        assert rows[k] > others.max() + 0.5
        assert abs(others.mean() - 30 / 255) < 0.06


def test_table_has_one_way_counts_as_ever_when_it_is_not_images_and_a_label_alone():
    shape = make_images(300)[1]
    assert find_images(replace(shape, image=None)) is None
    with_other = make_shape(6, 6, 1, other={"type": "enum", "count": 2})
    assert find_images(with_other) is None
    assert make_plan("ron-gauss", with_other).releases[0].label == "one-way counts"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"projection_dimension": 37}, "from 1 to 36 for images of 36 pixels"),
        ({"label": "nowhere"}, "there is none named nowhere"),
        ({"label": "p0"}, "not of numbers"),
    ],
)
def test_setting_is_refused_by_name_when_images_cannot_have_it(settings, words):
    with pytest.raises(UsageError, match=words):
        make_plan("ron-gauss", make_images(100)[1], **settings)


def test_dimensions_grow_with_rows_and_budget_and_classes_part_when_there_is_enough_of_both():
    shape = make_images(300)[1]
    wide = replace(shape, records=10**6)
    sizes = [
        (plan.design.means_dimension, plan.design.covariance_dimension)
        for plan in (make_plan("ron-gauss", each, epsilon=e) for each in (shape, wide) for e in (0.1, 10.0))
    ]
    assert sizes[0] <= sizes[1]
    assert sizes[0] <= sizes[2] <= sizes[3] == (36, 36)
    assert not make_plan("ron-gauss", shape).design.by_class
    assert make_plan("ron-gauss", replace(shape, records=10**9), epsilon=10.0).design.by_class


def test_means_are_released_ones_when_noise_is_little_and_of_all_when_it_is_all():
    rng = np.random.default_rng(1)
    truth, records, bands = rng.standard_normal((3, 8)) / 5, np.array([50.0, 30.0, 20.0]), np.arange(8) // 3
    sums = truth * records[:, np.newaxis]
    np.testing.assert_allclose(shrink_means(sums, records, bands, stddev=1e-9, total=100.0), truth, atol=1e-6)
    assert np.abs(shrink_means(sums, records, bands, stddev=1e3, total=100.0)).max() < 1e-6
    # In between it is nearer to the truth than what was released.
    errors = []
    for _ in range(200):
        released = sums + 5 * rng.standard_normal((3, 8))
        shrunk = shrink_means(released, records, bands, stddev=5.0, total=100.0)
        errors.append([np.square(each - truth).sum() for each in (shrunk, released / records[:, np.newaxis])])
    assert np.mean(errors, axis=0)[0] < 0.8 * np.mean(errors, axis=0)[1]
    assert np.isfinite(shrink_means(sums, np.array([100.0, 0.0, 0.0]), bands, stddev=1e3, total=100.0)).all()


def test_covariance_is_nearer_to_the_truth_when_noise_is_taken_off():
    rng = np.random.default_rng(2)
    truth = np.diag(np.concatenate(([300.0, 100.0], np.full(28, 3.0))))
    bands = np.arange(30) // 5
    exact = Gaussian(noise_multiplier=1e-9)
    np.testing.assert_allclose(shrink_covariance(truth, bands, noise=exact), truth, atol=1e-3)
    noise = rng.standard_normal((30, 30)) * 5
    noise = np.triu(noise) + np.triu(noise, 1).T
    found = shrink_covariance(truth + noise, bands, noise=Gaussian(noise_multiplier=5.0 * math.sqrt(2)))
    assert np.linalg.eigvalsh(found).min() > -1e-9
    plain = project_on_semidefinite(truth + noise)
    assert np.linalg.norm(found - truth) < 0.8 * np.linalg.norm(plain @ plain.T - truth)


def test_centre_is_the_released_one_when_noise_is_little_and_grey_when_it_is_all():
    truth, bands = np.random.default_rng(4).standard_normal(9) / 3, np.arange(9) // 3
    np.testing.assert_allclose(shrink_centre(truth, bands, variance=1e-18), truth, atol=1e-9)
    assert not shrink_centre(truth, bands, variance=400.0).any()
