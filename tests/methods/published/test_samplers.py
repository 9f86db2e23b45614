"""Samplers of images of drawn labels: whatever the network is, labels follow the shares, and files are as they were."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.errors import InputError
from dpwgan.images.basis import CosineSpace
from dpwgan.methods.published.samplers import SmoothSampler
from tests.critic.test_sampler import sample
from tests.images.test_grid import make_grid
from tests.methods.published import test_convolutions as test_conv
from tests.methods.published import test_generators
from tests.methods.published.test_convolutions import SHARES

FALSE_ALARM = 1e-6


def make_smooth() -> SmoothSampler:
    rng, most = np.random.default_rng(2), 6
    space = CosineSpace(grid=make_grid((8, 9, 1)), most=most)
    sizes = [(7, 5), (5,), (5, space.dimension), (space.dimension,)]
    drawn = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    logits = np.log(SHARES).astype(np.float32)
    return SmoothSampler(grid=space.grid, shares=SHARES, weights=(logits, *drawn), dimension=most)


KINDS = [test_conv.make_sampler, test_generators.make_sampler, make_smooth]
every_kind = pytest.mark.parametrize("make_sampler", KINDS, ids=["convolutions", "labelled", "smooth"])


@pytest.mark.statistical
@every_kind
def test_labels_fit_the_shares_when_counted_by_chi_square(make_sampler):
    drawn = sample(make_sampler(), 5_001, seed=5)
    assert drawn.records == 5_001
    assert drawn.numbers.shape == (5_001, 72)
    counts = np.bincount(drawn.codes[:, 0], minlength=3)
    assert stats.chisquare(counts, 5_001 * SHARES).pvalue > FALSE_ALARM
    # The twin: equal shares do not pass.
    assert stats.chisquare(counts).pvalue < FALSE_ALARM


@every_kind
@pytest.mark.parametrize("damage", ["document", "version", "weights", "shares"])
def test_saved_generator_is_refused_when_it_is_damaged(tmp_path, make_sampler, damage):
    sampler = make_sampler()
    sampler.save(tmp_path)
    arrays, document = (tmp_path / f"{sampler.file}.{ending}" for ending in ("npz", "json"))
    if damage == "document":
        document.write_text(json.dumps({**json.loads(document.read_text()), "grid": {"shape": [8]}}))
    elif damage == "version":
        document.write_text(json.dumps(asdict(sampler.grid)))
    elif damage == "weights":
        np.savez(arrays, *sampler.weights[:3], shares=SHARES)
    else:
        np.savez(arrays, *sampler.weights, shares=2 * SHARES)
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)
