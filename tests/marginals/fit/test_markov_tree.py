"""First codes from a tree of pairs."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.fit.absence import Absence
from dpwgan.marginals.fit.markov_tree import Forest, draw_first_codes
from dpwgan.marginals.fit.mixture import Mixture
from dpwgan.marginals.groups import Edge, GroupLayout
from tests.counts import count_marginal
from tests.marginals.groups import make_groups

Floats = npt.NDArray[np.float64]


def test_forest_says_who_is_joined_when_edges_are_added():
    forest = Forest(5)
    assert not forest.is_joined((0, 1))
    for edge in ((0, 1), (2, 3), (1, 3)):
        forest.join(edge)
    assert all(forest.is_joined(edge) for edge in itertools.combinations(range(4), 2))
    assert not any(forest.is_joined((attribute, 4)) for attribute in range(4))


def make_tree() -> tuple[GroupLayout, list[Edge], list[Floats], dict[Edge, Floats]]:
    """The exact pairs along a tree of a table: one-ways, and conditional tables both ways."""
    layout = GroupLayout((3, 4, 2, 5))
    groups = make_groups(2_000, sizes=layout.sizes, seed=4)
    tree = [(0, 1), (1, 2), (1, 3)]
    shares = [count_marginal(groups, (attribute,), layout) / 2_000 for attribute in range(4)]
    pairs = {edge: count_marginal(groups, edge, layout) / 2_000 for edge in tree}
    pairs |= {(right, left): joint.T for (left, right), joint in pairs.items()}
    return layout, tree, shares, pairs


def test_codes_hold_the_trees_pairs_when_drawn_from_it():
    layout, tree, shares, pairs = make_tree()
    codes = 4_000

    def get_conditional(given: int, attribute: int) -> Floats:
        return pairs[given, attribute] / pairs[given, attribute].sum(axis=1, keepdims=True)

    logits = draw_first_codes(
        layout, tree, one_ways=shares, get_conditional=get_conditional, codes=codes, rng=np.random.default_rng(5)
    )
    assert logits.shape == (codes, layout.width)
    assert logits.dtype == np.float32
    probabilities = Mixture(layout.sizes, logits).probabilities()
    records = np.stack([probabilities[:, layout.get_slice(a)].argmax(axis=1) for a in range(4)], axis=1)
    # Sharp only inside the tree: attribute 1 has three neighbours, the others are leaves.
    inside = probabilities[:, layout.get_slice(1)].max(axis=1)
    assert inside.min() > 0.85
    # The counts of an inner attribute are those of its parts, give or take one a group of each parent's.
    assert np.abs(np.bincount(records[:, 1], minlength=4) / codes - shares[1]).max() <= 4 / codes
    for leaf in (0, 2, 3):
        # A leaf has the distribution that belongs to its code's record.
        expected = get_conditional(1, leaf)[records[:, 1]]
        assert probabilities[:, layout.get_slice(leaf)] == pytest.approx(expected, abs=0.05)


def test_every_attribute_gets_codes_when_the_tree_leaves_some_out():
    layout = GroupLayout((3, 2, 4))
    shares = [np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4]), np.full(4, 0.25)]

    def refuse(given: int, attribute: int) -> Floats:
        raise AssertionError(f"no pair of {given} and {attribute} was measured")

    logits = draw_first_codes(
        layout, [], one_ways=shares, get_conditional=refuse, codes=50, rng=np.random.default_rng(7)
    )
    probabilities = Mixture(layout.sizes, logits).probabilities()
    expected = np.concatenate(shares)
    assert probabilities == pytest.approx(np.tile(expected, (50, 1)), abs=0.05)


def test_codes_have_all_of_a_set_missing_or_none_of_it():
    """Two attributes, in no pair with each other, whose last group is what is missing."""
    layout = GroupLayout((3, 2, 4))
    shares = [np.array([0.3, 0.3, 0.4]), np.array([0.6, 0.4]), np.full(4, 0.25)]
    missing = {place: np.arange(size) == size - 1 for place, size in enumerate(layout.sizes[:2])}

    def draw(absence: Absence | None) -> npt.NDArray[np.float32]:
        logits = draw_first_codes(
            layout,
            [(0, 2)],
            one_ways=shares,
            get_conditional=lambda given, attribute: np.tile(shares[attribute], (layout.sizes[given], 1)),
            codes=1_000,
            rng=np.random.default_rng(1),
            absence=absence,
        )
        probabilities = Mixture(layout.sizes, logits).probabilities()
        return np.stack([probabilities[:, layout.get_slice(place).stop - 1] for place in (0, 1)])

    first, second = draw(Absence(((0, 1),), 1, missing))
    assert np.all((first > 0.999) | (first < 0.001))
    assert second == pytest.approx(first, abs=1e-3)
    assert first.mean() == pytest.approx(0.4, abs=0.01)
    assert 0.1 < draw(None).min() < draw(None).max() < 0.9
