"""A public table as a prior: its mathematics by brute force, and what it does with tables that mislead."""

import numpy as np
import pytest

from dpwgan.marginals.answers.public_prior import PublicPrior, choose_kept
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.groups import GroupLayout
from tests.marginals.groups import add_up_gradients, find_slope, loss_of

SIZES = (3, 4)
STDDEV = 0.01


def draw(rows: int, *, seed: int, law: np.ndarray) -> np.ndarray:
    cells = np.random.default_rng(seed).choice(law.size, size=rows, p=law.ravel())
    return np.stack(np.unravel_index(cells, law.shape), axis=1)


def make_law(*, reversed_: bool = False) -> np.ndarray:
    law = np.array([[8.0, 1.0, 1.0, 2.0], [1.0, 6.0, 1.0, 2.0], [1.0, 1.0, 4.0, 2.0]])
    law /= law.sum()
    turned = np.maximum(2.0 * np.outer(law.sum(axis=1), law.sum(axis=0)) - law, 1e-6)
    return turned / turned.sum() if reversed_ else law


def make_prior(groups: np.ndarray, law: np.ndarray) -> PublicPrior:
    return PublicPrior(groups, Views(GroupLayout(SIZES)), one_ways=[law.sum(axis=1), law.sum(axis=0)], stddev=STDDEV)


def answer(prior: PublicPrior, law: np.ndarray, *, seed: int) -> PublicPrior:
    prior.note((0, 1), law + STDDEV * np.random.default_rng(seed).standard_normal(law.shape))
    return prior


def test_shares_drawn_towards_public_ones_are_no_worse_on_average_wherever_those_lie():
    rng = np.random.default_rng(1)
    truth, stddevs = np.array([0.1, 0.2, 0.05, 0.3, 0.25, 0.1]), np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02])

    def risk(draws: np.ndarray) -> float:
        return float((np.square(draws - truth) / np.square(stddevs)).sum(axis=1).mean())

    noisy = truth + stddevs * rng.standard_normal((4000, len(truth)))
    for distance, most in ((0.0, 0.5), (0.02, 0.9), (0.1, 1.0), (10.0, 1.0)):
        towards = truth + distance * np.array([1.0, -1.0, 0.5, 0.0, 0.7, -0.2])
        kept = np.array([choose_kept(shares, towards, stddevs) for shares in noisy])[:, np.newaxis]
        ours = risk(kept * noisy + (1.0 - kept) * towards)
        assert ours <= most * risk(noisy) * 1.001, distance
        # Whoever draws them half way whatever they are is worse where the public table is far off.
        assert distance < 0.1 or risk((noisy + towards) / 2) > 2.0 * risk(noisy)


def test_rows_are_weighted_to_the_released_one_ways_and_counted_so():
    law, other = make_law(), np.full((3, 4), 1 / 12)
    groups = draw(500, seed=2, law=other)
    prior = make_prior(groups, law)
    by_hand = np.zeros((3, 4))
    np.add.at(by_hand, tuple(groups.T), prior._weights)
    np.testing.assert_allclose(prior.pairs[:3, 3:], by_hand, atol=1e-12)
    np.testing.assert_allclose(by_hand.sum(axis=1), law.sum(axis=1), atol=1e-6)
    np.testing.assert_allclose(by_hand.sum(axis=0), law.sum(axis=0), atol=1e-6)


def test_table_of_the_same_law_is_believed_and_one_that_misleads_is_not():
    law = make_law()
    alike = answer(make_prior(draw(5000, seed=3, law=law), law), law, seed=4)
    assert alike.agreement > 0.9
    assert alike.draw_codes(50, rng=np.random.default_rng(5)) is not None
    independent = np.outer(law.sum(axis=1), law.sum(axis=0))
    for wrong in (independent, make_law(reversed_=True)):
        prior = answer(make_prior(draw(5000, seed=3, law=wrong), law), law, seed=4)
        assert prior.agreement == 0.0
        assert prior.draw_codes(50, rng=np.random.default_rng(5)) is None
        gradient = add_up_gradients([prior], np.full((5, 7), 0.25, np.float32))
        assert not gradient.any()


def test_nothing_is_believed_before_an_answer_and_larger_marginals_say_nothing():
    law = make_law()
    prior = make_prior(draw(5000, seed=3, law=law), law)
    assert prior.agreement == 0.0
    prior.note((0, 1, 2), np.zeros((3, 4, 2)))
    assert prior.agreement == 0.0


@pytest.mark.parametrize("rows", [200, 20_000])
def test_larger_table_weighs_more_when_it_is_believed(rows):
    law = make_law()
    prior = answer(make_prior(draw(rows, seed=3, law=law), law), law, seed=4)
    probabilities = np.full((5, 7), 1 / 3, np.float32)
    probabilities[:, 3:] = 1 / 4
    (loss,) = prior._list_losses()
    slope = find_slope(lambda at: loss_of(loss, at), probabilities.astype(np.float64))
    assert add_up_gradients([prior], probabilities) == pytest.approx(slope, rel=1e-4, abs=1e-5 * np.abs(slope).max())
    assert (loss_of(loss, probabilities) > 50.0) == (rows == 20_000)
