"""The saved form of a generator of images in few coordinates, which models on people's disks have."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.images.cosine_space import CosineSpace
from dpwgan.methods.published.smooth_sampler import SmoothSampler
from tests.methods.published.test_conv_generator import make_grid


def test_saved_generator_draws_the_same_rows_when_it_is_read_back_from_the_form_it_always_had(tmp_path: Path) -> None:
    grid = make_grid((8, 9, 1))
    space = CosineSpace(grid=grid, most=6)
    rng = np.random.default_rng(2)
    sizes = [(3,), (7, 5), (5,), (5, space.dimension), (space.dimension,)]
    weights = tuple(rng.standard_normal(size).astype(np.float32) for size in sizes)
    sampler = SmoothSampler(weights=weights, space=space)
    sampler.save(tmp_path)
    spans, label = json.loads(json.dumps([asdict(span) for span in grid.spans])), asdict(grid.label)
    known = {"image": [8, 9, 1], "spans": spans, "label": label, "sources": list(grid.sources), "most": 6}
    assert json.loads((tmp_path / "smooth.json").read_text()) == {"space": known, "prior": False}
    again = load_synthesizer(tmp_path)
    assert isinstance(again, SmoothSampler)
    assert again.space == space
    first, second = (next(one.sample(20, rng=np.random.default_rng(5))) for one in (sampler, again))
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.numbers, second.numbers)
