"""The switches do what they say, inside their block alone: a figure by a switch that does nothing would say nothing."""

import numpy as np
import pytest

from benchmarks import critic, limits
from dpwgan.accounting.budget import Budget, NeighboringRelation
from dpwgan.discriminators.marginals import count_marginal
from dpwgan.methods import anchor
from dpwgan.methods.anchor import AnchorSettings, FittedAnchor, fit_anchor, plan_anchor
from dpwgan.randomness import make_streams
from tests.methods.runs import make_table, reserve


def fit(**settings: int) -> FittedAnchor:
    encoded = make_table(300)
    plan = plan_anchor(
        encoded.shape,
        Budget(epsilon=0.5, delta=1e-5),
        kind="queries",
        settings=AnchorSettings(rounds=2, codes=30, **{"fit_steps": 5, **settings}),
        accountant_rule="moments",
        neighboring_relation=NeighboringRelation.ZERO_OUT,
    )
    return fit_anchor(
        encoded, plan, streams=make_streams(3), ledger=reserve(plan), progress=lambda *_: None, make_generator=None
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
        index, _ = anchor.QueryDiscriminator._select.__globals__["select_by_exponential_mechanism"](
            np.array([1.0, 5.0, 2.0]), sensitivity=1.0, epsilon=1e-9, rng=None, replace_one_factor=2.0
        )
    assert index == 1


def test_last_fit_has_more_codes_or_steps_when_it_is_given_them() -> None:
    plain = len(fit().generator.probabilities())
    with limits.with_more_codes():
        assert len(fit().generator.probabilities()) == limits.MORE * plain
    steps = AnchorSettings().fit_steps
    with limits.with_more_steps():
        assert AnchorSettings().fit_steps == limits.MORE * steps
    assert AnchorSettings().fit_steps == steps


@pytest.mark.parametrize("text", ["default", "critic-share=0.3:batch-size=4096"])
def test_variant_is_read_when_its_settings_are_those_of_a_run(text: str) -> None:
    settings = {"default": {}, "critic-share=0.3:batch-size=4096": {"critic_share": 0.3, "expected_batch_size": 4096}}
    assert critic.read_variant(text) == settings[text]


def test_variant_is_refused_when_there_is_no_such_setting() -> None:
    with pytest.raises(ValueError, match="no setting colour"):
        critic.read_variant("colour=3")
