"""The switches do what they say, inside their block alone: a figure by a switch that does nothing would say nothing."""

import numpy as np
import tensorflow as tf

from benchmarks import critic, limits
from dpwgan.critic import critic as networks
from dpwgan.critic import loop
from dpwgan.critic.rows import densify
from dpwgan.marginals.anchor import AnchorSettings, FittedAnchor, fit_anchor, plan_anchor
from dpwgan.privacy.events import ExponentialSelection
from dpwgan.privacy.randomness import make_streams
from tests.counts import count_marginal
from tests.critic.tables import make_encoded
from tests.ledgers import make_release, open_ledger
from tests.methods.runs import make_table, reserve
from tests.plans import make_terms
from tests.rows import hold


def fit(**settings: int) -> FittedAnchor:
    encoded = make_table(300)
    plan = plan_anchor(
        encoded.shape,
        make_terms(epsilon=0.5),
        kind="queries",
        settings=AnchorSettings(rounds=2, codes=30, **{"fit_steps": 5, **settings}),
    )
    return fit_anchor(
        hold(encoded), plan.design, rng=make_streams(3).model, ledger=reserve(plan), progress=lambda *_: None
    )


def find_errors(fitted: FittedAnchor) -> list[float]:
    """How far each answer of two columns or more is from the count, in records, at most."""
    groups = fitted.table.rows.own.groups
    records = len(groups)
    return [
        float(
            np.abs(
                fitted.table.measured.get_shares(marginal) * records
                - count_marginal(groups, marginal, fitted.table.layout)
            ).max()
        )
        for marginal in fitted.table.measured
        if len(marginal) > 1
    ]


def test_answers_are_exact_when_noise_is_off_and_not_when_it_is_on_again():
    with limits.without_noise():
        exact = find_errors(fit())
    assert exact
    assert max(exact) < 0.01
    assert min(find_errors(fit())) > 0.1


def test_the_best_is_selected_when_there_is_no_selection_error():
    with limits.without_selection_error():
        ledger = open_ledger([make_release("line", ExponentialSelection(epsilon=1e-9))])
        assert ledger.select("line", lambda: [1.0, 5.0, 2.0]) == 1


def test_last_fit_has_more_codes_or_steps_when_it_is_given_them():
    plain = len(fit().generator.probabilities())
    with limits.with_more_codes():
        assert len(fit().generator.probabilities()) == limits.MORE * plain
    steps = AnchorSettings().fit_steps
    with limits.with_more_steps():
        assert AnchorSettings().fit_steps == limits.MORE * steps
    assert AnchorSettings().fit_steps == steps


def test_projected_critic_treats_rows_by_index_as_dense_ones_when_clipping():
    encoded = make_encoded(40)
    projected = critic.ProjectedCritic(
        encoded.spans, dimension=6, hidden=(5, 4), weight_clip=1.0, rng=np.random.default_rng(1)
    )
    assert [tuple(weight.shape) for weight in projected.weights] == [(6, 5), (5,), (5, 4), (4,), (4, 1)]
    dense = densify(encoded, np.arange(40))
    rows = tf.constant(encoded.codes), tf.constant(encoded.numbers)
    seen = tf.zeros((40, 0), tf.int32), dense @ projected._basis
    plain = networks.Critic(projected.spans, hidden=(5, 4), weight_clip=1.0, rng=np.random.default_rng(1))
    expected = plain.clipped_sum_of_rows(*seen, l2_clip_norm=0.2)
    for sums in projected.clipped_sums(rows, rows, l2_clip_norm=0.2):
        for one, other in zip(sums, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    basis = projected._basis.numpy().astype(np.float64)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-5)
    assert float(tf.reduce_sum(tf.abs(projected.score(dense)))) > 0


def test_experiments_end_when_their_block_does():
    plain, train = networks.Critic, loop.train
    with critic.experiment(projection=3, warm_start=0.5):
        assert networks.Critic is not plain
        assert loop.train is not train
    assert (networks.Critic, loop.train) == (plain, train)
