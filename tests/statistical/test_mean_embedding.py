"""Black-box audit of mean embeddings: thousands of releases with and without one image, and what they tell apart.

As in test_count_audit.py: the attacker knows both tables and sees the release before any post-processing.
"""

import math

import numpy as np
import pytest

from dpwgan.methods.published import embeddings
from dpwgan.methods.published.embeddings import (
    REPLACE_ONE_FACTOR,
    ImageFeatures,
    choose_coefficients,
    measure_embedding,
    sum_products,
)
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import gaussian
from tests.statistical.test_count_audit import TRIALS, claim, compare, lower_bound_on_epsilon, make_weaker_noise

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE
FEATURES = ImageFeatures(shape=(4, 4, 1), coefficients=choose_coefficients((4, 4, 1), most=3))
NOISE = {ZERO_OUT: 1.5, REPLACE_ONE: 1.5 * math.sqrt(2)}


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (1 / 3, True)])
def test_audit_stays_below_the_claim_when_an_image_comes_and_goes(
    relation: NeighboringRelation, share: float, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    images = np.round(rng.random((9, 16)))
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    # The canary alone is white, and in a class of its own; the record in its place is black, and in another.
    ordinary, canary = (np.zeros((1, 16)), 0), (np.ones((1, 16)), 2)
    worlds = [(np.concatenate([images, image]), np.append(labels, label)) for image, label in (ordinary, canary)]
    if relation is ZERO_OUT:
        worlds[0] = images, labels
    without, there = (sum_products(FEATURES, *world, classes=3) for world in worlds)
    stddev = share * NOISE[relation]
    seen = []
    monkeypatch.setattr(embeddings, "combine", lambda noisy, **_: seen.append(noisy))
    make_weaker_noise(embeddings, monkeypatch, share=share)
    said = []
    distance = float(np.linalg.norm(there - without)) / stddev
    threshold = (2.0 if share == 1 else 3.0) * distance - distance**2 / 2
    for world, clean in zip(worlds, (without, there), strict=True):
        monkeypatch.setattr(embeddings, "sum_products", lambda *_, clean=clean, **__: clean)
        seen.clear()
        for _ in range(TRIALS):
            measure_embedding(FEATURES, *world, classes=3, noise_multiplier=NOISE[relation], rng=rng)
        ratios = [compare(noisy, without=without, there=there, stddev=stddev) for noisy in seen]
        said.append(np.array(ratios) > threshold)
    bound = lower_bound_on_epsilon(*said)
    event = gaussian(noise_multiplier=NOISE[relation], replace_one_factor=REPLACE_ONE_FACTOR)
    assert (bound > claim([(event, 1)], relation)) == broken
    assert bound > 0.3
