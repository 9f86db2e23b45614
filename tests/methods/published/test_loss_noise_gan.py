"""The method `loss-noise-gan`: the published noise, a ledger without a guarantee, and legal rows."""

import math
from typing import Any

import pytest

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.methods.published.loss_noise_gan import published_noise
from dpwgan.plan import Plan
from dpwgan.privacy.events import Unprotected
from dpwgan.table.encoded import EncodedTable, TableShape
from tests.critic.games import make_images
from tests.ledgers import open_for_plan
from tests.methods.runs import Run, fit, make_table, refuse_illegal
from tests.plans import make_terms, plan_method

FAST = {"steps": 3, "expected_batch_size": 8, "latent": 4}
METHODS = ("loss-noise-gan", "dp-critic")


def make_plan(name: str, shape: TableShape, *, epsilon: float = 1.0, **settings: Any) -> Plan[Any]:
    return plan_method(name, shape, make_terms(epsilon=epsilon, rule="auto"), **{**FAST, **settings})


def run(name: str, encoded: EncodedTable, shape: TableShape, **settings: Any) -> Run:
    plan = make_plan(name, shape, **settings)
    return fit(name, encoded, plan, ledger=open_for_plan(plan, no_guarantee=True), records=90)


def test_noise_is_the_papers_when_epsilon_is_one_of_its_table() -> None:
    # Source: Han and Xue 2021, Table 1: q = 600/60,000 (SVHN 700/73,257), T = 10,000, delta = 1e-5.
    for rows, batch, epsilon, sigma in (
        (60_000, 600, 6.786, 1.0),
        (60_000, 600, 4.524, 1.5),
        (60_000, 600, 1.357, 5.0),
        (73_257, 700, 6.484, 1.0),
        (73_257, 700, 2.161, 3.0),
    ):
        found = published_noise(epsilon=epsilon, delta=1e-5, sampling_probability=batch / rows, steps=10_000)
        assert found == pytest.approx(sigma, rel=1e-3)


def test_plan_names_the_published_epsilon_and_none_that_can_be_proved_when_asked() -> None:
    plan = make_plan("loss-noise-gan", make_table(300).shape, epsilon=2.5)
    event, count = plan.releases[0].charge
    assert isinstance(event, Unprotected)
    assert "the gradient of a loss plus noise is the gradient of the loss" in event.reason
    assert event.published is not None
    assert (event.published.epsilon, event.published.delta) == (2.5, 1e-5)
    assert event.published.provable_epsilon is None
    assert count == plan.design.game.steps == 3
    assert plan.design.noise_multiplier == pytest.approx(2 * 8 / 300 * math.sqrt(3 * math.log(1e5)) / 2.5)


@pytest.mark.parametrize("name", METHODS)
def test_run_charges_every_read_and_draws_legal_rows_when_there_is_no_guarantee(name: str) -> None:
    encoded, shape = make_images(60)
    done = run(name, encoded, shape, critic_steps_per_generator_step=1)
    lines = done.ledger.itemise()
    assert [(line["charged"], line["reserved"]) for line in lines] == [(3, 3), (1, 1)]
    assert done.progress[-1] == (3, 3, math.inf)
    refuse_illegal(done.sampled)
    assert done.sampled.records == 90


@pytest.mark.parametrize("name", METHODS)
def test_ledger_refuses_the_run_when_it_was_opened_to_state_a_guarantee(name: str) -> None:
    with pytest.raises(PrivacyError, match="has no guarantee"):
        open_for_plan(make_plan(name, make_table(60).shape, critic_steps_per_generator_step=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 3}, "has no setting rounds"),
        ({"label": "two"}, "has a label for images only"),
        ({"steps": 3, "critic_steps_per_generator_step": 4}, "would stand still"),
    ],
)
@pytest.mark.parametrize("name", METHODS)
def test_settings_are_refused_when_they_cannot_be_acted_on(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(name, make_table(60).shape, **settings)


@pytest.mark.parametrize("name", METHODS)
def test_label_is_the_images_own_when_it_is_named(name: str) -> None:
    _, shape = make_images(60)
    more = {"critic_steps_per_generator_step": 1}
    assert make_plan(name, shape, label="y", **more).settings == make_plan(name, shape, **more).settings
    with pytest.raises(UsageError, match="the label of these images is y"):
        make_plan(name, shape, label="p0", **more)
    with pytest.raises(UsageError, match="has convolutions for images"):
        make_plan(name, shape, hidden_critic=(8,), **more)


@pytest.mark.parametrize("name", METHODS)
def test_steps_fit_into_minutes_when_they_are_chosen(name: str) -> None:
    for shape in (make_table(300).shape, make_images(60, side=28)[1], make_images(60)[1]):
        plan = plan_method(name, shape, make_terms(rule="auto"))
        assert plan.cost.seconds < 300
        assert plan.design.game.steps >= 200
        assert plan.design.game.steps % plan.design.game.settings.critic_steps_per_generator_step == 0
        assert plan.cost.memory_bytes < 2**31
