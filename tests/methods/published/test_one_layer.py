import functools
import itertools
import math
import secrets

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpwgan.errors import PrivacyError
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.groups import GroupLayout
from dpwgan.methods.published import one_layer
from dpwgan.methods.published.one_hot_rows import ONE_HOT, OneHotRows
from dpwgan.methods.published.one_layer import (
    OneLayerTerm,
    bound_gain,
    iteration_bound,
    plan_one_layer,
    weights_sensitivity,
)
from dpwgan.privacy.release import Noisy
from dpwgan.table.rows import Rows, serve
from dpwgan.table.workers import Team
from tests.ledgers import open_ledger
from tests.marginals.groups import add_up_gradients, find_slope
from tests.teams import run_team

FALSE_ALARM = 1e-6
SIZES = (3, 2, 4)
NO_NOISE = 1e-12
EVERY_ROW = np.array(list(itertools.product(*(range(size) for size in SIZES))), dtype=np.int32)


def _rows(rng, n, sizes=SIZES, power=1.0):
    columns = [rng.choice(size, size=n, p=rng.dirichlet(np.full(size, power))) for size in sizes]
    return np.stack(columns, axis=1).astype(np.int32)


def _dense(groups, sizes=SIZES):
    """One-hot rows with a 1 for the bias, the obvious way."""
    return np.hstack([*(np.eye(size)[groups[:, a]] for a, size in enumerate(sizes)), np.ones((len(groups), 1))])


def _soften(fake, sizes=SIZES):
    """Synthetic rows as probabilities, from groups where they are groups."""
    return _dense(fake, sizes)[:, :-1] if np.issubdtype(fake.dtype, np.integer) else fake


def _loss(weights, real, fake, *, records=None):
    records = len(real) if records is None else records
    return np.logaddexp(0, -real @ weights).sum() / (2 * records) + np.logaddexp(0, fake @ weights).mean() / 2


def _minimum(real, fake, *, regularization, records=None):
    """The minimiser by an optimiser and a gradient of its own."""
    records = len(real) if records is None else records

    def value(weights):
        return _loss(weights, real, fake, records=records) + regularization / 2 * weights @ weights

    def slope(weights):
        pulled = -real.T @ special.expit(-real @ weights) / (2 * records)
        return pulled + fake.T @ special.expit(fake @ weights) / (2 * len(fake)) + regularization * weights

    return optimize.minimize(value, np.zeros(real.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-10}).x


def _plan(rounds=1, *, records, synthetic_rows=1, sizes=SIZES, regularization=0.1, scale=1.0):
    more = {"regularization": regularization, "scale": scale}
    return plan_one_layer(rounds, records=records, synthetic_rows=synthetic_rows, attributes=len(sizes), **more)


def _hold(real, *, sizes=SIZES, records=None):
    """Rows of groups, which may be given as rows already, as a network takes them."""
    if isinstance(real, Rows):
        return real
    return Rows(OneHotRows(real, sizes), records=len(real) if records is None else records)


def _train(real, fake, *, sizes=SIZES, regularization=0.1, noise_multiplier=NO_NOISE, seed=1, records=None):
    rows, public = _hold(real, sizes=sizes, records=records), {"sizes": sizes, "regularization": regularization}
    plan = _plan(records=rows.records, synthetic_rows=len(fake), scale=noise_multiplier, **public)
    ledger = open_ledger(plan, source=seed)
    return one_layer.train_one_layer(rows, _soften(fake, sizes), regularization=regularization, ledger=ledger)


def _measure(real, weights, *, records, noise_multiplier=NO_NOISE, seed=1):
    ledger = open_ledger(_plan(records=records, scale=noise_multiplier / one_layer.ANSWER_NOISE_RATIO), source=seed)
    return one_layer.measure_one_layer(_hold(real, records=records), weights, ledger=ledger)


def _certify(real, fake, *, records, noise_multiplier=NO_NOISE, seed=1):
    scale = noise_multiplier / one_layer.CERTIFICATE_NOISE_RATIO
    ledger = open_ledger(_plan(records=records, scale=scale), source=seed)
    return one_layer.measure_distance(_hold(real, records=records), _soften(fake), ledger=ledger)


# Training


@pytest.mark.parametrize("regularization", [1e-3, 0.1, 10.0])
def test_weights_equal_another_optimisers_when_there_is_no_noise(regularization):
    rng = np.random.default_rng(2)
    real, fake = _rows(rng, 300), _rows(rng, 200)
    expected = _minimum(_dense(real), _dense(fake), regularization=regularization)
    weights = _train(real, fake, regularization=regularization)
    np.testing.assert_allclose(weights, expected, atol=1e-6 / min(regularization, 1))


def test_a_null_record_adds_nothing_when_it_is_left_out():
    rng = np.random.default_rng(5)
    real, fake = _rows(rng, 80), _rows(rng, 60)
    expected = _minimum(_dense(real), _dense(fake), regularization=0.1, records=81)
    np.testing.assert_allclose(_train(real, fake, records=81), expected, atol=1e-6)


def _hard_tables():
    """Tables whose minimisers move far: records that a network trained on them gets wrong, among them."""
    rng = np.random.default_rng(6)
    for n, power in ((1, 1.0), (5, 1.0), (40, 0.3), (40, 0.05)):
        yield _rows(rng, n, power=power), _rows(rng, 50, power=power)
    first, second, third = [0, 0, 0], [1, 1, 1], [2, 0, 2]
    common = np.array([third] * 60, dtype=np.int32)
    yield np.vstack([common, [first]]), np.array([first, second], dtype=np.int32)


@functools.cache
def _moves(regularization):
    """How far the weights of the hard tables move, as shares of the sensitivity: zeroed out, and replaced."""
    zeroed, replaced = 0.0, 0.0
    for real, fake in _hard_tables():
        n = len(real)
        stated = weights_sensitivity(
            records=n, synthetic_rows=len(fake), attributes=len(SIZES), regularization=regularization
        )
        weights = _train(real, fake, regularization=regularization)
        for i in {0, n - 1}:
            others = np.delete(real, i, axis=0)
            if n > 1:
                without = _train(others, fake, regularization=regularization, records=n)
                zeroed = max(zeroed, np.linalg.norm(without - weights) / stated)
            for other in EVERY_ROW:
                neighbour = _train(np.vstack([others, other]), fake, regularization=regularization)
                replaced = max(replaced, np.linalg.norm(neighbour - weights) / stated)
    return zeroed, replaced


def test_weights_stay_within_their_sensitivity_when_a_record_is_zeroed_out_or_replaced():
    for regularization in (0.003, 0.1, 1.0, 30.0):
        zeroed, replaced = _moves(regularization)
        assert zeroed <= 1
        assert replaced <= _plan(records=1)[0].event.replace_one_factor


def test_the_check_of_the_sensitivity_fails_when_it_is_understated():
    zeroed, replaced = _moves(30.0)
    assert zeroed > 0.9
    # An undoubled sensitivity would have missed the replaced record.
    assert replaced > max(1.0, 0.9 * _plan(records=1)[0].event.replace_one_factor)


# The solver


def _extreme_tables():
    rng = np.random.default_rng(9)
    zeros, ones = np.zeros((40, 3), np.int32), np.ones((40, 3), np.int32)
    yield SIZES, zeros, ones
    yield SIZES, zeros[:1], ones[:1]
    yield (1, 1), np.zeros((5, 2), np.int32), np.zeros((9, 2), np.int32)
    wide = (50,) * 100
    yield wide, _rows(rng, 300, wide), _rows(rng, 300, wide, power=0.1)


@pytest.mark.parametrize("regularization", [1e-5, 1e-2, 1.0, 1e4])
def test_solver_ends_within_its_proved_steps_when_tables_are_extreme(regularization, monkeypatch):
    for sizes, real, fake in _extreme_tables():
        steps = []
        monkeypatch.setattr(one_layer, "iteration_bound", lambda found=steps, **given: found.append(given) or 1000)
        weights = _train(real, fake, sizes=sizes, regularization=regularization)
        monkeypatch.undo()
        (given,) = steps
        dense_real, dense_fake = _dense(real, sizes), _dense(fake, sizes)
        slope = dense_fake.T @ special.expit(dense_fake @ weights) / (2 * len(fake))
        slope -= dense_real.T @ special.expit(-dense_real @ weights) / (2 * len(real))
        # Twice: the solver goes for half of what the sensitivity pays for.
        assert np.linalg.norm(slope + regularization * weights) <= 2 * given["tolerance"]
        assert iteration_bound(**given) > 10


def test_solver_refuses_when_its_steps_are_used_up(monkeypatch):
    monkeypatch.setattr(one_layer, "iteration_bound", lambda **_: 1)
    with pytest.raises(PrivacyError, match="internal error"):
        _train(np.zeros((40, 3), np.int32), np.ones((40, 3), np.int32), regularization=1e-3)


def test_solver_reaches_the_minimum_when_whole_newton_steps_run_away(monkeypatch):
    sizes = (3,) * 6
    real = [[1, 1, 0, 0, 0, 0], [2, 1, 1, 0, 0, 0], [2, 1, 2, 1, 0, 0]]
    real += [[1, 1, 1, 1, 0, 0], [2, 1, 2, 0, 0, 0], [1, 1, 1, 0, 0, 0]]
    fake = [[1, 1, 1, 0, 0, 0], [1, 1, 2, 0, 0, 0], [0, 1, 1, 0, 0, 0]]
    real, fake = np.array(real), np.repeat(np.array(fake), [175, 2_324, 1], axis=0)
    settings = {"sizes": sizes, "regularization": 1e-5}
    monkeypatch.setattr(one_layer, "iteration_bound", lambda **_: 300)
    weights = _train(real, fake, **settings)
    expected = _minimum(_dense(real, sizes), _dense(fake, sizes), regularization=1e-5)
    np.testing.assert_allclose(weights, expected, atol=0.01 * np.linalg.norm(expected))
    monkeypatch.setattr(one_layer, "_damping", lambda reach: 1.0)
    with np.errstate(all="ignore"), pytest.raises(PrivacyError, match="internal error"):
        _train(real, fake, **settings)


# The answer


def _weights(seed, length=2.0):
    weights = np.random.default_rng(seed).normal(size=sum(SIZES) + 1)
    return length * weights / np.linalg.norm(weights)


def test_target_is_the_mean_score_when_there_is_no_noise():
    real, weights = _rows(np.random.default_rng(11), 400), _weights(12)
    term = _measure(real, weights, records=400)
    assert term.target == pytest.approx(special.expit(_dense(real) @ weights).mean(), abs=1e-9)


@pytest.mark.parametrize("length", [0.1, 2.0, 50.0])
def test_answers_stay_within_their_sensitivity_when_any_record_changes(length):
    weights = _weights(13, length)
    scores = special.expit(_dense(EVERY_ROW) @ weights)
    middle, half = (scores.max() + scores.min()) / 2, np.ptp(scores) / 2
    term = _measure(EVERY_ROW[:5], weights, records=10, noise_multiplier=2.0)
    event = _plan(records=10)[1].event
    # A record adds (score - middle)/10, a null record nothing.
    assert np.max(np.abs(scores - middle)) / 10 <= term.stddev / 2.0
    assert np.ptp(scores) / 10 <= event.replace_one_factor * term.stddev / 2.0
    assert term.stddev / 2.0 == pytest.approx(half / 10, rel=1e-6)
    assert half <= 0.5


def test_answers_of_neighbours_differ_by_a_scores_distance_from_the_middle_when_a_record_is_null():
    weights, real = _weights(14), EVERY_ROW[:9]
    whole, without = (_measure(rows, weights, records=9) for rows in (real, real[1:]))
    scores = special.expit(_dense(EVERY_ROW) @ weights)
    score = special.expit(_dense(real[:1]) @ weights)[0]
    middle = (scores.max() + scores.min()) / 2
    assert whole.target - without.target == pytest.approx((score - middle) / 9, abs=1e-9)


# The expected score


def _codes(rng, k):
    return np.hstack([rng.dirichlet(np.ones(size), size=k) for size in SIZES])


def expected_score(codes, weights):
    return one_layer._score_and_gradient(codes, weights=weights, sizes=SIZES)[0]


def _exact_scores(codes, weights):
    """The mean score of every code, by adding up all rows."""
    dense = _dense(EVERY_ROW)
    chance = np.exp(np.log(codes) @ dense[:, :-1].T)
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    return chance @ special.expit(dense @ weights)


@pytest.mark.parametrize("length", [1e-3, 0.5, 5.0, 100.0])
def test_expected_score_is_exact_to_its_accuracy_when_every_row_is_added_up(length):
    codes = _codes(np.random.default_rng(15), 30)
    for seed in range(10):
        weights = _weights(seed, length)
        exact = _exact_scores(codes, weights)
        for code, score in zip(codes, exact, strict=True):
            assert abs(expected_score(code[None], weights) - score) <= 1e-5
        assert abs(expected_score(codes, weights) - exact.mean()) <= 1e-5


def test_expected_score_is_the_same_when_codes_are_taken_a_few_at_a_time(monkeypatch):
    codes = _codes(np.random.default_rng(27), 30)
    term = OneLayerTerm(weights=_weights(28), sizes=SIZES, target=0.2, stddev=0.1)
    score, gradient = expected_score(codes, term.weights), add_up_gradients([term], codes)
    monkeypatch.setattr(one_layer, "_MOST_CELLS", 100)
    assert expected_score(codes, term.weights) == pytest.approx(score, rel=1e-12)
    np.testing.assert_allclose(add_up_gradients([term], codes), gradient, rtol=1e-9, atol=1e-12)


def test_gradient_equals_finite_differences_when_probabilities_move():
    rng = np.random.default_rng(19)
    codes = _codes(rng, 4)
    term = OneLayerTerm(weights=_weights(20, 4.0), sizes=SIZES, target=0.3, stddev=0.05)
    slope = find_slope(lambda at: 0.5 * ((expected_score(at, term.weights) - 0.3) / 0.05) ** 2, codes, step=1e-6)
    assert add_up_gradients([term], codes) == pytest.approx(slope, rel=1e-5, abs=1e-6)


# The certificate


def _difference(real, fake):
    """Of all one-way fractions; 0 for the bias."""
    return _dense(real).mean(axis=0) - _dense(fake).mean(axis=0)


def _breaches(failure_probability, *, with_slack):
    """How many of 1,000 certificates a network breaks."""
    rows = np.random.default_rng(23)
    real, fake = _rows(rows, 60), _rows(rows, 50, power=0.2)
    radius, along = 1e-4, _difference(real, fake)
    # Where the radius is small the best network is close to the one along the difference.
    best = math.log(2) - _loss(radius * along / np.linalg.norm(along), _dense(real), _dense(fake))
    breaches = 0
    for _ in range(1_000):
        distance = _certify(real, fake, records=60, noise_multiplier=3.0, seed=secrets.randbits(64))
        gain = bound_gain(distance, attributes=3, radius=radius, failure_probability=failure_probability)
        breaches += best > (gain if with_slack else radius / 4 * max(distance.value, 0.0))
    return breaches


@pytest.mark.statistical
@pytest.mark.parametrize("failure_probability", [0.05, 0.3])
def test_certificate_holds_as_often_as_stated_when_released(failure_probability):
    breaches = _breaches(failure_probability, with_slack=True)
    assert breaches <= stats.binom.isf(FALSE_ALARM, 1_000, failure_probability)
    # The bound is tight here: far fewer breaches would tell of a slack that is too large.
    assert breaches >= stats.binom.ppf(FALSE_ALARM, 1_000, 0.9 * failure_probability)


@pytest.mark.statistical
def test_the_check_of_the_certificate_fails_when_there_is_no_slack():
    assert _breaches(0.05, with_slack=False) > stats.binom.isf(FALSE_ALARM, 1_000, 0.05)


def test_distances_stay_within_their_sensitivity_when_any_record_changes():
    rng = np.random.default_rng(24)
    release = _plan(records=6)[2]
    assert release.sensitivity == pytest.approx(math.sqrt(3) / 6)
    zeroed, replaced = 0.0, 0.0
    for _ in range(5):
        real, fake = _rows(rng, 6), _rows(rng, 1)
        released = _certify(real, fake, records=6)
        assert released.stddev == pytest.approx(NO_NOISE * math.sqrt(3) / 6)
        assert release.event.replace_one_factor == math.sqrt(2)
        whole = released.value
        assert whole == pytest.approx(np.linalg.norm(_difference(real, fake)), abs=1e-9)
        without = _certify(real[1:], fake, records=6).value
        zeroed = max(zeroed, abs(whole - without))
        for other in EVERY_ROW:
            neighbour = np.vstack([real[1:], other])
            distance = _certify(neighbour, fake, records=6).value
            replaced = max(replaced, abs(whole - distance))
    assert 0.5 * math.sqrt(3) / 6 < zeroed <= math.sqrt(3) / 6
    assert 0.5 * math.sqrt(6) / 6 < replaced <= math.sqrt(6) / 6


@pytest.mark.parametrize(
    ("noisy", "radius", "expected"),
    [(1e6, 1e-2, 1e-2 / 4 * math.sqrt(6)), (1e6, 100.0, math.log(2)), (-9.0, 1.0, 0.0)],
)
def test_the_bound_is_within_what_a_loss_can_be_when_noise_is_wide(noisy, radius, expected):
    distance = Noisy(values=np.array(noisy), stddev=1.0)
    assert bound_gain(distance, attributes=3, radius=radius, failure_probability=0.1) == pytest.approx(expected)


# Rows of several workers


def _release_all(real, fake):
    """Everything that a round and a certificate release: weights, the mean score, the distance."""
    real = _hold(real)
    settings = {"records": real.records, "noise_multiplier": 3.0}
    weights = _train(real, fake, **settings)
    return np.array([*weights, _measure(real, weights, **settings).target, _certify(real, fake, **settings).value])


def _release_together(real, fake, *, size, rows_twice=False):
    """What the chief of so many workers releases, with noise, and how often each task was asked for."""

    def job(team: Team):
        first, last = team.get_rows(len(real))
        own = real[0 if rows_twice else first : last]
        groups, ledger, records = GroupedRows(own, GroupLayout(SIZES)), open_ledger([]), (1 + rows_twice) * len(real)
        if not team.leads:
            return serve(groups, team=team, ledger=ledger)
        rows = Rows(groups, records=records, team=team, ledger=ledger).derive(ONE_HOT)
        released = _release_all(rows, fake)
        team.dismiss()
        return released

    released, *others = run_team(size, job)
    assert others == [None] * (size - 1)
    return released


@pytest.mark.parametrize("size", [2, 3])
def test_releases_are_those_of_one_worker_when_several_have_the_rows(size):
    real, fake = _rows(np.random.default_rng(29), 61), _codes(np.random.default_rng(30), 5)
    # The noise is the chief's, drawn once: another draw, or more of it, would show.
    alone = _release_all(real, fake)
    np.testing.assert_allclose(_release_together(real, fake, size=size), alone, rtol=1e-9, atol=1e-12)


def test_the_check_of_several_workers_fails_when_rows_are_counted_twice():
    real, fake = _rows(np.random.default_rng(29), 61), _codes(np.random.default_rng(30), 5)
    alone = _release_all(real, fake)
    assert np.max(np.abs(_release_together(real, fake, size=2, rows_twice=True) - alone)) > 1e-4


# Plan and refusals


def test_answers_and_the_certificate_have_more_noise_than_weights_when_planned():
    plan = _plan(3, records=20, scale=7.0)
    assert [(release.times, release.event.noise_multiplier) for release in plan] == [(3, 7.0), (3, 28.0), (1, 14.0)]


def test_training_refuses_when_less_was_reserved_than_a_record_moves():
    real = _rows(np.random.default_rng(25), 20)
    ledger = open_ledger(_plan(records=20, synthetic_rows=20, regularization=0.2))
    with pytest.raises(PrivacyError, match="further than was reserved"):
        one_layer.train_one_layer(_hold(real), _soften(real), regularization=0.1, ledger=ledger)
    assert sum(ledger.charged.values()) == 0
