"""The mixture on TensorFlow: the same distributions as in numpy, and a perceptron that learns beside or without it."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from dpwgan.critic.tensor_mixture import CodeSource, TensorMixture
from dpwgan.marginals.groups import GroupLayout, lay_out_groups
from dpwgan.marginals.measurements import MeasuredMarginals, count_marginals
from dpwgan.marginals.mixture import Mixture, fit
from tests.marginals.groups import make_groups

SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)
SPANS = lay_out_groups(["a", "b", "c", "d"], SIZES)
KINDS = {"codes": (True, ()), "mlp": (False, (16,)), "codes+mlp": (True, (16,))}


def make_logits(codes: int, *, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((codes, LAYOUT.width), dtype=np.float32)


def make_mixture(kind: str, *, codes: int = 60) -> TensorMixture:
    table, hidden = KINDS[kind]
    logits = make_logits(codes, seed=1)
    return TensorMixture(SPANS, logits, table=table, hidden=hidden, latent=8, rng=np.random.default_rng(2))


def test_groups_have_slices_side_by_side_when_laid_out():
    assert [(span.column, span.start, span.width, span.categories) for span in SPANS] == [
        ("a", 0, 3, 3),
        ("b", 3, 1, 1),
        ("c", 4, 4, 4),
        ("d", 8, 2, 2),
    ]
    assert {span.head for span in SPANS} == {"softmax"}


def test_probabilities_are_those_of_the_numpy_mixture_when_the_table_is_the_same():
    logits = make_logits(60, seed=1)
    mixture = TensorMixture(SPANS, logits, rng=np.random.default_rng(0))
    assert mixture.codes == 60
    assert mixture.probabilities() == pytest.approx(Mixture(SIZES, logits).probabilities(), abs=1e-6)
    assert mixture.soft().numpy() == pytest.approx(mixture.probabilities(), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_add_to_one_when_the_generator_is_of_any_kind(kind):
    probabilities = make_mixture(kind).probabilities()
    assert probabilities.shape == (60, LAYOUT.width)
    for attribute in range(len(SIZES)):
        assert probabilities[:, LAYOUT.get_slice(attribute)].sum(axis=1) == pytest.approx(np.ones(60), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_fit_lowers_the_loss_when_the_generator_is_of_any_kind(kind):
    groups = make_groups(500, sizes=SIZES, seed=3)
    measured = MeasuredMarginals(LAYOUT)
    for pair in itertools.combinations(range(len(SIZES)), 2):
        measured.add(pair, count_marginals(groups, [pair], LAYOUT)[pair] / 500, stddev=0.01)
    mixture = make_mixture(kind)
    before, _ = measured.loss_and_gradient(mixture.probabilities())
    fit(mixture, [measured], steps=200, learning_rate=0.05, last_rate=0.005)
    after, _ = measured.loss_and_gradient(mixture.probabilities())
    assert after < before / 20


def test_step_moves_table_and_perceptron_when_both_are_added():
    mixture = make_mixture("codes+mlp")
    before = [weight.numpy().copy() for weight in mixture.weights]
    assert len(before) == 1 + 4
    mixture.probabilities()
    mixture.step(np.random.default_rng(4).standard_normal((60, LAYOUT.width)).astype(np.float32), learning_rate=0.01)
    assert all(np.any(weight.numpy() != old) for weight, old in zip(mixture.weights, before, strict=True))


def test_perceptron_starts_at_the_mean_of_the_logits_when_it_is_alone():
    logits = make_logits(60, seed=1)
    expected = Mixture(SIZES, logits.mean(axis=0, keepdims=True)).probabilities()
    assert make_mixture("mlp").probabilities() == pytest.approx(np.repeat(expected, 60, axis=0), abs=0.1)


def test_rows_are_one_hot_and_follow_their_codes_when_drawn():
    mixture = make_mixture("codes", codes=3)
    source = CodeSource(codes=3, width=LAYOUT.width, rng=np.random.default_rng(5))
    indices, uniforms = source.draw(30_000)
    assert (int(tf.reduce_min(indices)), int(tf.reduce_max(indices))) == (0, 2)
    rows = mixture.rows(indices, uniforms).numpy()
    probabilities = mixture.probabilities()
    for attribute in range(len(SIZES)):
        piece = rows[:, LAYOUT.get_slice(attribute)]
        assert piece.sum(axis=1) == pytest.approx(np.ones(30_000), abs=1e-5)
        assert piece.max(axis=1) == pytest.approx(np.ones(30_000), abs=1e-5)
    for code in range(3):
        chosen = rows[indices.numpy() == code]
        # A share of 10,000 rows or so has a stddev of 0.005 at most: five of them.
        assert chosen.mean(axis=0) == pytest.approx(probabilities[code], abs=0.025)
