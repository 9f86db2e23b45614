"""The generator's step beside an anchor: each of its two forces alone, and that the average is what comes out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.generator_steps import AnchoredStep
from dpwgan.critic.generators import CodeSource, CodeTable
from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.fit.mixture import Mixture
from dpwgan.marginals.groups import GroupLayout, lay_out_groups
from dpwgan.table.encoded import TableShape
from tests.critic.tables import make_encoded, make_plan
from tests.marginals.groups import add_up_gradients, make_probabilities

SIZES = (3, 1, 4)
SPANS = lay_out_groups(["a", "b", "c"], SIZES)
LOGITS = np.log(make_probabilities(6, sizes=SIZES, seed=1) + 1e-3).astype(np.float32)


def make_generator() -> Mixture:
    return Mixture(SIZES, LOGITS)


def make_loss() -> MeasuredMarginals:
    measured = MeasuredMarginals(Views(GroupLayout(SIZES)))
    target = make_probabilities(1, sizes=SIZES, seed=5)[0]
    measured.add((0,), target[:3], stddev=0.01)
    measured.add((2,), target[4:], stddev=0.01)
    measured.add((0, 2), np.outer(target[:3], target[4:]), stddev=0.02)
    return measured


def make_step(
    generator: Mixture, *, losses: list[Any], weight: float, taught: bool = True, **settings: Any
) -> tuple[AnchoredStep, Critic]:
    plan = make_plan(make_encoded(50), **{"generator_average": 0.0, **settings})
    critic = Critic(SPANS, hidden=(5,), weight_clip=1.0, rng=np.random.default_rng(3))
    if taught:
        rng = np.random.default_rng(4)
        for variable in critic.weights:
            variable.assign_add(rng.standard_normal(variable.shape).astype(np.float32))
    step = AnchoredStep(
        critic=critic,
        generator=generator,
        drawn=CodeTable(SPANS, LOGITS),
        latents=CodeSource(codes=len(LOGITS), width=sum(SIZES), rng=np.random.default_rng(5)),
        plan=replace(plan, shape=TableShape(records=50, spans=SPANS)),
        losses=losses,
        weight=weight,
    )
    return step, critic


def test_step_is_that_of_the_fit_when_the_critic_weighs_nothing():
    beside, alone, loss = make_generator(), make_generator(), make_loss()
    step, _ = make_step(beside, losses=[loss], weight=0.0)
    for _ in range(3):
        step(learning_rate=0.05)
        alone.step(add_up_gradients([loss], alone.probabilities()), learning_rate=0.05)
    np.testing.assert_allclose(beside.probabilities(), alone.probabilities(), atol=1e-5)
    assert np.abs(beside.probabilities() - make_generator().probabilities()).max() > 0.01


def score(critic: Critic, probabilities: np.ndarray) -> float:
    """The exact mean over all rows of all codes of what the critic says, the first critic taken off."""
    total = 0.0
    for a in range(3):
        for c in range(4):
            row = np.zeros((1, 8), np.float32)
            row[0, [a, 3, 4 + c]] = 1.0
            said = float(critic.score(tf.constant(row))[0] - critic.score(tf.constant(row), critic.initial)[0])
            total += said * float((probabilities[:, a].astype(np.float64) * probabilities[:, 4 + c]).mean())
    return total


@pytest.mark.parametrize(("weight", "rises"), [(1.0, True), (0.0, False)])
def test_critic_says_more_when_it_weighs_something(weight, rises):
    generator = make_generator()
    step, critic = make_step(generator, losses=[], weight=weight)
    before = score(critic, generator.probabilities())
    for _ in range(30):
        step(learning_rate=0.05)
    assert (score(critic, generator.probabilities()) > before + 0.05) is rises


@pytest.mark.parametrize(("pull", "moves"), [(0.3, False), (0.0, True)])
def test_first_critic_moves_nothing_when_it_is_taken_off(pull, moves):
    generator = make_generator()
    step, _ = make_step(generator, losses=[], weight=1.0, taught=False, weight_pull=pull)
    step(learning_rate=0.05)
    assert bool(np.any(generator.probabilities() != make_generator().probabilities())) is moves


def test_probabilities_are_those_of_the_averaged_weights_when_asked_for():
    generator, keep = make_generator(), 0.75
    step, _ = make_step(generator, losses=[make_loss()], weight=1e-3, generator_average=keep)
    average = LOGITS.astype(np.float64)
    for _ in range(5):
        step(learning_rate=0.1)
        average = keep * average + (1 - keep) * generator.logits
    last = generator.probabilities()
    probabilities = step.averaged_probabilities()
    assert np.abs(last - probabilities).max() > 0.01
    start = 0
    for size in SIZES:
        part = np.exp(average[:, start : start + size])
        np.testing.assert_allclose(probabilities[:, start : start + size], part / part.sum(1, keepdims=True), atol=1e-5)
        np.testing.assert_allclose(probabilities[:, start : start + size].sum(axis=1), 1.0, atol=1e-6)
        start += size


def test_a_step_goes_on_from_what_another_one_packed():
    generators = [make_generator(), make_generator()]
    first, second = (make_step(each, losses=[make_loss()], weight=0.0, generator_average=0.5)[0] for each in generators)
    for _ in range(3):
        first(learning_rate=0.1)
    second.unpack({name: array.copy() for name, array in first.pack().items()})
    for step in (first, second):
        step(learning_rate=0.1)
    np.testing.assert_array_equal(first.averaged_probabilities(), second.averaged_probabilities())
    np.testing.assert_array_equal(*(each.probabilities() for each in generators))
    assert np.abs(generators[0].probabilities() - make_generator().probabilities()).max() > 0.01
