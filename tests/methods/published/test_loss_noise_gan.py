"""The method `loss-noise-gan`: the published noise, a ledger without a guarantee, and legal rows."""

import math
from typing import Any

import pytest

from dpwgan.errors import UsageError
from dpwgan.methods.published.loss_noise_gan import published_noise
from dpwgan.privacy.events import Unprotected
from dpwgan.table.encoded import TableShape
from tests.methods.images import make_images
from tests.methods.runs import make_plan as plan_run
from tests.methods.runs import make_table

FAST = {"steps": 3, "expected_batch_size": 8, "latent": 4}
METHODS = ("loss-noise-gan", "dp-critic")


def make_plan(name: str, shape: TableShape, **settings: Any) -> Any:
    return plan_run(name, shape, rule="auto", **{**FAST, **settings})


def test_noise_is_the_papers_when_epsilon_is_one_of_its_table():
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


def test_plan_names_the_published_epsilon_and_none_that_can_be_proved_when_asked():
    plan = make_plan("loss-noise-gan", make_table(300).shape, epsilon=2.5)
    event, count = plan.releases[0].charge
    assert isinstance(event, Unprotected)
    assert "the gradient of a loss plus noise is the gradient of the loss" in event.reason
    assert (event.published.epsilon, event.published.delta) == (2.5, 1e-5)
    assert event.published.provable_epsilon is None
    assert count == plan.design.game.steps == 3
    assert plan.design.noise_multiplier == pytest.approx(2 * 8 / 300 * math.sqrt(3 * math.log(1e5)) / 2.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "two"}, "has a label for images only"),
        ({"steps": 3, "critic_steps_per_generator_step": 4}, "would stand still"),
    ],
)
@pytest.mark.parametrize("name", METHODS)
def test_settings_are_refused_when_they_cannot_be_acted_on(name, settings, message):
    with pytest.raises(UsageError, match=message):
        make_plan(name, make_table(60).shape, **settings)


@pytest.mark.parametrize("name", METHODS)
def test_label_is_the_images_own_when_it_is_named(name):
    _, shape = make_images(60, side=8)
    more = {"critic_steps_per_generator_step": 1}
    assert make_plan(name, shape, label="y", **more).settings == make_plan(name, shape, **more).settings
    with pytest.raises(UsageError, match="the label of these images is y"):
        make_plan(name, shape, label="p0", **more)
    with pytest.raises(UsageError, match="has convolutions for images"):
        make_plan(name, shape, hidden_critic=(8,), **more)


@pytest.mark.parametrize("name", METHODS)
def test_steps_fit_into_minutes_when_they_are_chosen(name):
    for shape in (make_table(300).shape, make_images(60, side=28)[1], make_images(60, side=8)[1]):
        plan = plan_run(name, shape, rule="auto")
        assert plan.cost.seconds < 300
        assert plan.design.game.steps >= 200
        assert plan.design.game.steps % plan.design.game.settings.critic_steps_per_generator_step == 0
        assert plan.cost.memory_bytes < 2**31
