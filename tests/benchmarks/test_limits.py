"""The switches do what they say, inside their block alone: a figure by a switch that does nothing would say nothing."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import critic, limits
from dpwgan.critic import critic as networks
from dpwgan.critic import loop
from dpwgan.critic.reference_step import densify
from dpwgan.marginals.anchor import AnchorSettings, FittedAnchor, fit_anchor, plan_anchor
from dpwgan.privacy.events import exponential_selection
from dpwgan.privacy.randomness import make_streams
from tests.counts import count_marginal
from tests.critic.tables import make_encoded
from tests.ledgers import make_release, open_ledger
from tests.methods.runs import make_table, reserve
from tests.plans import make_terms


def fit(**settings: int) -> FittedAnchor:
    encoded = make_table(300)
    plan = plan_anchor(
        encoded.shape,
        make_terms(epsilon=0.5),
        kind="queries",
        settings=AnchorSettings(rounds=2, codes=30, **{"fit_steps": 5, **settings}),
    )
    return fit_anchor(
        encoded,
        plan.design,
        streams=make_streams(3),
        ledger=reserve(plan),
        progress=lambda *_: None,
        make_generator=None,
    )


def find_errors(fitted: FittedAnchor) -> list[float]:
    """How far each answer of two columns or more is from the count, in records, at most."""
    records = len(fitted.groups)
    return [
        float(
            np.abs(
                fitted.measured.get_shares(marginal) * records - count_marginal(fitted.groups, marginal, fitted.layout)
            ).max()
        )
        for marginal in fitted.measured
        if len(marginal) > 1
    ]


def test_answers_are_exact_when_noise_is_off_and_not_when_it_is_on_again() -> None:
    with limits.without_noise():
        exact = find_errors(fit())
    assert exact
    assert max(exact) < 0.01
    assert min(find_errors(fit())) > 0.1


def test_the_best_is_selected_when_there_is_no_selection_error() -> None:
    with limits.without_selection_error():
        ledger = open_ledger([make_release("line", exponential_selection(epsilon=1e-9))])
        assert ledger.select("line", lambda: [1.0, 5.0, 2.0]) == 1


def test_last_fit_has_more_codes_or_steps_when_it_is_given_them() -> None:
    plain = len(fit().generator.probabilities())
    with limits.with_more_codes():
        assert len(fit().generator.probabilities()) == limits.MORE * plain
    steps = AnchorSettings().fit_steps
    with limits.with_more_steps():
        assert AnchorSettings().fit_steps == limits.MORE * steps
    assert AnchorSettings().fit_steps == steps


@pytest.mark.parametrize(
    ("text", "settings", "experiments"),
    [
        ("default", {}, {}),
        ("critic-share=0.3:batch-size=4096", {"critic_share": 0.3, "expected_batch_size": 4096}, {}),
        ("critic-share=0.1:projection=64", {"critic_share": 0.1}, {"projection": 64}),
        ("warm-start=0.5", {}, {"warm_start": 0.5}),
        ("noise=0", {}, {"noise": 0.0}),
    ],
)
def test_variant_is_read_when_its_settings_are_those_of_a_run_or_an_experiment(
    text: str, settings: dict[str, float], experiments: dict[str, float]
) -> None:
    assert critic.read_variant(text) == (settings, experiments)


def test_variant_is_refused_when_there_is_no_such_setting() -> None:
    with pytest.raises(ValueError, match="no setting colour"):
        critic.read_variant("colour=3")


def test_projected_critic_treats_rows_by_index_as_dense_ones_when_clipping() -> None:
    encoded = make_encoded(40)
    projected = critic.ProjectedCritic(
        encoded.spans, dimension=6, hidden=(5, 4), weight_clip=1.0, rng=np.random.default_rng(1)
    )
    assert [tuple(weight.shape) for weight in projected.weights] == [(6, 5), (5,), (5, 4), (4,), (4, 1)]
    dense = densify(encoded, np.arange(40))
    rows = tf.constant(encoded.codes), tf.constant(encoded.numbers)
    expected = projected.clipped_sum(dense @ projected._basis, l2_clip_norm=0.2)
    for sums in projected.clipped_sums(rows, rows, l2_clip_norm=0.2):
        for one, other in zip(sums, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    basis = projected._basis.numpy().astype(np.float64)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-5)
    assert float(tf.reduce_sum(tf.abs(projected.score(dense)))) > 0


def test_experiments_end_when_their_block_does() -> None:
    plain, train = networks.Critic, loop.train
    with critic.experiment(projection=3, warm_start=0.5):
        assert networks.Critic is not plain
        assert loop.train is not train
    assert (networks.Critic, loop.train) == (plain, train)


@pytest.mark.parametrize(("warm_start", "taken"), [(0.0, 10), (0.5, 5), (1.0, 0)])
def test_generator_waits_when_the_critic_is_warm_started(warm_start: float, taken: int) -> None:
    steps: list[float] = []

    def train(plan: Any, *, generator_step: Any, **_: Any) -> None:
        for _ in range(plan.steps):
            generator_step(learning_rate=1.0)

    plan = SimpleNamespace(steps=10, settings=SimpleNamespace(critic_steps_per_generator_step=1, generator_steps=1))
    with mock.patch.object(loop, "train", train), critic.experiment(warm_start=warm_start):
        loop.train(plan, generator_step=lambda *, learning_rate: steps.append(learning_rate))
    assert len(steps) == taken
