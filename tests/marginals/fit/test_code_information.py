"""What codes know of columns: its value by a plain sum in float64, its slope by differences, what it leaves alone."""

import numpy as np
import pytest

from dpwgan.marginals.fit import code_information
from dpwgan.marginals.fit.code_information import CodeInformation
from dpwgan.marginals.fit.mixture import fit
from dpwgan.marginals.groups import GroupLayout
from tests.marginals.groups import add_up_gradients, add_up_information, find_slope, make_mixture

SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)


def find_gradient(probabilities: np.ndarray, *, weight: float) -> np.ndarray:
    return add_up_gradients([CodeInformation(weight=weight)], probabilities.astype(np.float32))


def find_value(probabilities: np.ndarray, *, weight: float = 1.0) -> float:
    """The loss by its gradient: as a sum of p log p over p less the mean's, it is their product."""
    return float(np.vdot(probabilities, find_gradient(probabilities, weight=weight)))


@pytest.mark.parametrize("spread", [0.1, 2.0, 50.0])
def test_information_is_that_of_a_plain_sum_when_computed_in_float64(spread):
    probabilities = make_mixture(30, layout=LAYOUT, spread=spread).probabilities()
    expected = 2.5 * add_up_information(probabilities, LAYOUT)
    assert find_value(probabilities, weight=2.5) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_information_is_nothing_when_codes_are_alike_and_the_entropy_when_each_says_one_thing():
    alike = np.repeat(make_mixture(1, layout=LAYOUT).probabilities(), 6, axis=0)
    assert find_value(alike) == pytest.approx(0.0, abs=1e-6)
    certain = np.eye(4, dtype=np.float32)
    assert find_value(certain) == pytest.approx(np.log(4.0), rel=1e-6)


def test_gradient_is_that_of_finite_differences_when_probabilities_move_within_an_attribute():
    probabilities = make_mixture(5, layout=LAYOUT).probabilities().astype(np.float64)
    gradient = find_gradient(probabilities, weight=3.0)
    slope = find_slope(lambda at: 3.0 * add_up_information(at, LAYOUT), probabilities, step=1e-6)
    for attribute in range(len(SIZES)):
        piece = LAYOUT.get_slice(attribute)
        assert gradient[:, piece] - gradient[:, piece][:, :1] == pytest.approx(
            slope[:, piece] - slope[:, piece][:, :1], abs=1e-4
        )


def test_gradient_is_the_same_when_it_is_taken_in_several_blocks(monkeypatch):
    probabilities = make_mixture(5, layout=LAYOUT).probabilities()
    expected = find_gradient(probabilities, weight=3.0)
    for cells in (1, 15, 1_000):
        monkeypatch.setattr(code_information, "_BLOCK_CELLS", cells)
        assert np.array_equal(find_gradient(probabilities, weight=3.0), expected)


def test_single_columns_stay_as_measured_when_only_information_pulls():
    """The pull is towards what the mixture says on the whole, which an entropy of codes would change."""
    mixture = make_mixture(200, layout=LAYOUT)
    before = mixture.probabilities().mean(axis=0)
    first = add_up_information(mixture.probabilities(), LAYOUT)
    fit(mixture, [CodeInformation(weight=1.0)], steps=60, learning_rate=0.05, last_rate=0.01)
    after = mixture.probabilities()
    assert add_up_information(after, LAYOUT) < 0.5 * first
    assert np.abs(after.mean(axis=0) - before).max() < 0.1


def test_information_is_at_least_the_total_correlation_when_rows_are_drawn_from_the_mixture():
    """The bound that its docstring names, over all cells of the joint law."""
    probabilities = make_mixture(12, layout=LAYOUT, spread=3.0).probabilities().astype(np.float64)
    joint = np.zeros(SIZES)
    for code in probabilities:
        parts = [code[LAYOUT.get_slice(attribute)] for attribute in range(len(SIZES))]
        joint += np.einsum("a,b,c,d->abcd", *parts) / len(probabilities)
    others = [tuple(other for other in range(4) if other != attribute) for attribute in range(4)]
    entropies = sum(-float(np.sum(m * np.log(m))) for m in (joint.sum(axis=axes) for axes in others))
    correlation = entropies + float(np.sum(joint * np.log(joint)))
    assert correlation <= find_value(probabilities) + 1e-6
