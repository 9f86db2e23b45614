"""Samplers of images of drawn labels: whatever the network is, labels follow the shares, and files are as they were."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.errors import InputError
from dpwgan.methods.published.conv_sampler import CONV_FILE
from dpwgan.methods.published.labelled_sampler import LABELLED_FILE
from dpwgan.table.encoded import EncodedTable
from tests.methods.published import test_conv_generator as test_conv
from tests.methods.published import test_labelled_images
from tests.methods.published.test_conv_generator import SHARES

FALSE_ALARM = 1e-6


class Kind(NamedTuple):
    """A sampler, its files, the part of it that the JSON file holds, and such a file that lacks something."""

    make_sampler: Callable[..., Any]
    arrays: str
    document: str
    part: str
    cut: dict[str, Any]


KINDS = [
    Kind(test_conv.make_sampler, CONV_FILE, "convolutions.json", "grid", {"shape": [8]}),
    Kind(test_labelled_images.make_sampler, LABELLED_FILE, "labelled.json", "frame", {"dimension": 8}),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["convolutions", "labelled"])


def gather(sampler: Any, records: int, *, chunk: int) -> EncodedTable:
    parts = list(sampler.sample(records, rng=np.random.default_rng(5), chunk=chunk))
    return EncodedTable(
        codes=np.concatenate([part.codes for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
        spans=parts[0].spans,
    )


@pytest.mark.statistical
@every_kind
def test_labels_fit_the_shares_when_counted_by_chi_square(kind: Kind) -> None:
    drawn = gather(kind.make_sampler(), 5_001, chunk=1_000)
    assert drawn.records == 5_001
    assert drawn.numbers.shape == (5_001, 72)
    counts = np.bincount(drawn.codes[:, 0], minlength=3)
    assert stats.chisquare(counts, 5_001 * SHARES).pvalue > FALSE_ALARM
    # The twin: equal shares do not pass.
    assert stats.chisquare(counts).pvalue < FALSE_ALARM


@every_kind
def test_saved_generator_draws_the_same_rows_when_it_is_read_back(tmp_path: Path, kind: Kind) -> None:
    sampler = kind.make_sampler((9, 8, 3))
    sampler.save(tmp_path)
    again = load_synthesizer(tmp_path)
    assert type(again) is type(sampler)
    assert getattr(again, kind.part) == getattr(sampler, kind.part)
    assert again.certificate is None
    first, second = gather(sampler, 10, chunk=4), gather(again, 10, chunk=4)
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.numbers, second.numbers)


@every_kind
@pytest.mark.parametrize("damage", ["document", "weights", "shares", "cut"])
def test_saved_generator_is_refused_when_it_is_damaged(tmp_path: Path, kind: Kind, damage: str) -> None:
    sampler = kind.make_sampler()
    sampler.save(tmp_path)
    arrays = tmp_path / kind.arrays
    if damage == "document":
        (tmp_path / kind.document).write_text(json.dumps(kind.cut))
    elif damage == "cut":
        arrays.write_bytes(arrays.read_bytes()[:100])
    elif damage == "weights":
        np.savez(arrays, *sampler.weights[:3], shares=SHARES)
    else:
        np.savez(arrays, *sampler.weights, shares=2 * SHARES)
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)
