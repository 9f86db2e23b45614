"""Rows from a trained generator: distribution, shapes, and the way to a folder and back."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.critic import sampler
from dpwgan.critic.generators import MlpGenerator
from dpwgan.critic.sampler import MlpSampler, draw_categories
from dpwgan.errors import InputError
from dpwgan.table.encoded import EncodedTable, join
from tests.critic.tables import make_encoded

SPANS = make_encoded(1).spans
FALSE_ALARM = 1e-6


def make_sampler() -> MlpSampler:
    generator = MlpGenerator(SPANS, latent=4, hidden=(6,), rng=np.random.default_rng(0))
    return MlpSampler(weights=tuple(weight.numpy() for weight in generator.weights), spans=SPANS)


def sample(made: Any, records: int, *, seed: int = 1) -> EncodedTable:
    return join(list(made.sample(records, rng=np.random.default_rng(seed))))


@pytest.mark.parametrize("records", [1, 99, 100, 101, 350])
def test_sampler_gives_exactly_the_rows_asked_for_when_chunks_do_not_divide_them(monkeypatch, records):
    monkeypatch.setattr(sampler, "_CHUNK", 100)
    encoded = sample(make_sampler(), records)
    assert encoded.records == records
    for span in SPANS:
        if span.head != "linear":
            column = encoded.codes[:, span.source]
            assert column.min() >= 0
            assert column.max() < span.categories


def test_sampler_gives_the_generators_logits_when_the_latents_are_the_same():
    generator = MlpGenerator(SPANS, latent=4, hidden=(6,), rng=np.random.default_rng(0))
    encoded = sample(make_sampler(), 50)
    latents = np.random.default_rng(1).standard_normal((50, 4), dtype=np.float32)
    logits = generator.logits(tf.constant(latents)).numpy()
    for span in SPANS:
        if span.head == "linear":
            np.testing.assert_allclose(
                encoded.numbers[:, span.source], logits[:, span.start] + 0.5, rtol=1e-4, atol=1e-5
            )


@pytest.mark.statistical
@pytest.mark.parametrize(("head", "logits"), [("softmax", [0.0, 1.0, -2.0, 0.5]), ("sigmoid", [0.7])])
def test_drawn_categories_fit_the_head_when_counted_by_chi_square(head, logits):
    n = 40_000
    codes = draw_categories(np.tile(np.float32(logits), (n, 1)), head=head, rng=np.random.default_rng(2))  # type: ignore[arg-type]
    odds = np.exp(logits) if head == "softmax" else np.array([1.0, np.exp(logits[0])])
    observed = np.bincount(codes, minlength=len(odds))

    def p_value(probabilities: np.ndarray) -> float:
        return float(stats.chisquare(observed, n * probabilities / probabilities.sum()).pvalue)

    assert p_value(odds) > FALSE_ALARM
    # The twin: the likeliest category, as thresholding instead of drawing would favour it, a tenth more often.
    odds[np.argmax(odds)] *= 1.1
    assert p_value(odds) < FALSE_ALARM


def test_the_only_category_is_drawn_when_there_is_one():
    codes = draw_categories(np.zeros((20, 1), np.float32), head="softmax", rng=np.random.default_rng(0))
    assert codes.tolist() == [0] * 20


@pytest.mark.parametrize("damage", ["spans", "weights"])
def test_load_refuses_when_the_saved_model_is_damaged(tmp_path, damage):
    make_sampler().save(tmp_path)
    if damage == "spans":
        (tmp_path / "spans.json").write_text("[]")
    else:
        np.savez(tmp_path / "weights.npz", np.zeros(3))
    with pytest.raises(InputError):
        MlpSampler.load(tmp_path)
