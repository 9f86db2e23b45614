"""Generators: heads, hard draws, and the mixture on TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.generators import (
    CodeSource,
    CodeTable,
    _apply_head,
    draw_cells,
    draw_rows,
    split_spans,
)
from dpwgan.critic.rows import densify
from dpwgan.marginals.fit.mixture import Mixture
from dpwgan.marginals.groups import GroupLayout, lay_out_groups
from dpwgan.table.encoded import EncodedTable
from tests.critic.tables import make_encoded

SPANS = make_encoded(1).spans
WIDTH = sum(span.width for span in SPANS)


def draw(logits: tf.Tensor, *, seed: int = 0) -> tf.Tensor:
    uniforms = np.random.default_rng(seed).random(logits.shape, dtype=np.float32)
    return draw_rows(logits, tf.constant(uniforms), SPANS)


def soften(logits: tf.Tensor) -> tf.Tensor:
    pieces = zip(split_spans(logits, SPANS), SPANS, strict=True)
    return tf.concat([_apply_head(logit, span) for logit, span in pieces], axis=1)


def test_drawn_rows_look_like_encoded_ones_when_logits_are_any():
    rows = draw(tf.constant(np.random.default_rng(1).normal(0, 2, (500, WIDTH)).astype(np.float32))).numpy()
    for index, span in enumerate(SPANS):
        piece = rows[:, span.start : span.start + span.width]
        if span.head == "softmax":
            assert np.allclose(np.sort(piece, axis=1)[:, -1], 1.0)
            assert np.allclose(piece.sum(axis=1), 1.0)
        elif span.head == "sigmoid":
            assert np.all(np.isclose(piece, 0.0) | np.isclose(piece, 1.0))
        elif SPANS[index - 1].role == "available":
            flag = rows[:, span.start - 1]
            assert np.all(piece[flag < 0.5] == 0.0)
            assert np.any(piece[flag > 0.5] != 0.0)


def test_drawn_categories_follow_the_softmax_when_rows_are_many():
    logits = np.zeros((20_000, WIDTH), np.float32)
    logits[:, 0] = np.log(4.0)  # the first span has five categories: one half, and four eighths
    shares = draw(tf.constant(logits)).numpy()[:, :5].mean(axis=0)
    np.testing.assert_allclose(shares, [0.5, 0.125, 0.125, 0.125, 0.125], atol=0.02)


def test_gradient_passes_through_the_draw_as_through_the_probabilities_when_rows_are_hard():
    logits = tf.constant(np.random.default_rng(2).normal(0, 1, (30, WIDTH)).astype(np.float32))
    direction = tf.constant(np.random.default_rng(3).normal(0, 1, (30, WIDTH)).astype(np.float32))
    available = [index for index, span in enumerate(SPANS) if span.role == "available"]
    gated = [position for index in available for position in (SPANS[index].start, SPANS[index + 1].start)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        hard = tf.reduce_sum(direction * draw(logits))
        soft = tf.reduce_sum(direction * soften(logits))
    through = tape.gradient(hard, logits).numpy()
    straight = tape.gradient(soft, logits).numpy()
    # A number that was drawn as not available is 0 and passes nothing on; the rest is the same.
    free = [position for position in range(WIDTH) if position < min(gated)]
    np.testing.assert_allclose(through[:, free], straight[:, free], rtol=1e-5, atol=1e-6)
    assert np.all(np.isfinite(through))


def test_draw_stays_finite_when_uniforms_are_at_their_ends():
    logits = tf.zeros((2, WIDTH))
    uniforms = tf.stack([tf.zeros(WIDTH), tf.fill([WIDTH], np.float32(1 - 2**-24))])
    assert np.all(np.isfinite(draw_rows(logits, uniforms, SPANS)))


def test_cells_are_the_rows_as_encoded_when_they_are_drawn_of_the_same_numbers():
    logits = tf.constant(np.random.default_rng(4).normal(0, 2, (200, WIDTH)).astype(np.float32))
    uniforms = tf.constant(np.random.default_rng(5).random((200, WIDTH), dtype=np.float32))
    codes, numbers = draw_cells(logits, uniforms, SPANS)
    encoded = EncodedTable(codes=codes.numpy(), numbers=numbers.numpy(), spans=SPANS)
    rows = draw_rows(logits, uniforms, SPANS)
    np.testing.assert_allclose(densify(encoded, np.arange(200)), rows, atol=1e-6)


def test_cells_have_no_columns_when_spans_are_of_one_kind():
    one_hot = [span for span in SPANS if span.head == "softmax"][:1]
    codes, numbers = draw_cells(tf.zeros((3, one_hot[0].width)), tf.fill((3, one_hot[0].width), 0.5), one_hot)
    assert codes.shape == (3, 1)
    assert numbers.shape == (3, 0)


SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)
GROUP_SPANS = lay_out_groups(["a", "b", "c", "d"], SIZES)


def test_rows_are_one_hot_and_follow_their_codes_when_drawn():
    logits = np.random.default_rng(1).standard_normal((3, LAYOUT.width), dtype=np.float32)
    mixture, table = Mixture(SIZES, logits), CodeTable(GROUP_SPANS, np.zeros_like(logits))
    table.put(logits)
    source = CodeSource(codes=3, width=LAYOUT.width, rng=np.random.default_rng(5))
    indices, uniforms = source.draw(30_000)
    assert (int(tf.reduce_min(indices)), int(tf.reduce_max(indices))) == (0, 2)
    rows = table.rows(indices, uniforms).numpy()
    probabilities = mixture.probabilities()
    for attribute in range(len(SIZES)):
        piece = rows[:, LAYOUT.get_slice(attribute)]
        assert piece.sum(axis=1) == pytest.approx(np.ones(30_000), abs=1e-5)
        assert piece.max(axis=1) == pytest.approx(np.ones(30_000), abs=1e-5)
    for code in range(3):
        chosen = rows[indices.numpy() == code]
        # A share of 10,000 rows or so has a stddev of 0.005 at most: five of them.
        assert chosen.mean(axis=0) == pytest.approx(probabilities[code], abs=0.025)
