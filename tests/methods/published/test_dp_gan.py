"""DP-GAN and RON-DP-GAN: what they are charged, what is refused, what is published, and how they start."""

import functools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.private_step import FusedStep
from dpwgan.errors import UsageError
from dpwgan.methods.published.dp_gan import make_discriminator
from dpwgan.methods.published.generators import SmoothGenerator, TableRefiner
from dpwgan.methods.published.published_gan import GENERATOR_CLIP, provable_epsilon
from dpwgan.methods.published.published_steps import PublishedSteps
from dpwgan.methods.published.samplers import RefinedTable, draw_groups
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Gaussian, Unprotected
from dpwgan.table.encoded import EncodedTable, TableShape
from tests.critic.tables import flat, make_steps
from tests.methods.images import make_images
from tests.methods.privacy_totals import total_rho
from tests.methods.runs import fit, make_table, reserve
from tests.methods.runs import make_plan as plan_run

ZERO_OUT = NeighboringRelation.ZERO_OUT
BUDGET = Budget(epsilon=2.0, delta=1e-5)
FAST: dict[str, Any] = {"steps": 4, "expected_batch_size": 40, "hidden_generator": (8,)}
KINDS: dict[str, tuple[EncodedTable, TableShape, dict[str, Any]]] = {
    "table": (make_table(200), make_table(200).shape, {**FAST, "hidden_critic": (6,)}),
    "images": (*make_images(80, side=8), FAST),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
PLAIN: dict[str, Any] = {"private_part": "generator", "steps": 2, "hidden_critic": (6,), "hidden_generator": (8,)}
METHODS = ["dp-gan", "ron-dp-gan"]


def make_plan(name: str, shape: TableShape, **more: Any) -> Any:
    return plan_run(name, shape, epsilon=BUDGET.epsilon, **more)


@every_kind
def test_step_moves_by_the_clip_norm_at_most_when_a_record_is_taken_out_wherever_it_is_in_the_batch(kind):
    encoded, shape, settings = KINDS[kind]
    made = make_plan("dp-gan", shape, l2_clip_norm=0.01, **settings).design
    steps, rng = make_steps(made.steps), np.random.default_rng(0)
    critic, update = make_discriminator(made.steps, made.space, rng=rng, secrets=steps.secrets)
    points: Any = made.space.to_points(encoded) if made.space else encoded
    parts: dict[str, Any] = {"critic": critic, "generator": None, "latents": None, "update": update}
    step = FusedStep(points, plan=made.steps, steps=steps, **parts)

    def total(rows: Any) -> Any:
        return flat(step.clipped_sums(tf.constant(rows))[0])

    batch = np.arange(3, 80, 2)
    there = total(batch)
    for place in (0, len(batch) // 2, len(batch) - 1):
        moved = np.linalg.norm(there - total(np.delete(batch, place)))
        assert 0 < moved <= made.steps.l2_clip_norm * (1 + 1e-4)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_prior_gets_its_share_of_rho_when_one_is_asked_for(share):
    plan = make_plan("ron-dp-gan", make_table(3_000).shape, prior_share=share)
    release = [release.charge for release in plan.design.prior.releases]
    rho = total_rho(release, relation=ZERO_OUT)
    steps = plan.design.steps
    # By the central limit: T steps at rate q are about one Gaussian of noise multiplier s / (q sqrt T).
    of_steps = steps.sampling_probability**2 * steps.steps / (2 * steps.noise_multiplier**2)
    assert rho / (rho + of_steps) == pytest.approx(share, rel=1e-6)
    first, second = (event for event, _ in release)
    assert first.stddev / math.sqrt(first.cells) < second.noise_multiplier


@every_kind
@pytest.mark.parametrize("name", METHODS)
def test_published_plan_says_what_was_published_and_what_can_be_proved_when_the_generator_has_the_noise(name, kind):
    event = make_plan(name, KINDS[kind][1], **PLAIN).releases[-1].event
    assert isinstance(event, Unprotected)
    assert event.published.epsilon == BUDGET.epsilon
    assert event.published.provable_epsilon > 100 * BUDGET.epsilon


@pytest.mark.parametrize(("noise", "steps", "microbatches"), [(1.1, 50, 50), (40.0, 3, 2), (300.0, 10, 5)])
def test_provable_epsilon_is_an_upper_bound_when_compared_with_the_exact_curve(noise, steps, microbatches):
    delta = 1e-5
    found = provable_epsilon(noise, steps=steps, microbatches=microbatches, delta=delta)
    # The worst neighbours, step by step: every microbatch gradient turns round.
    moved = 2 * microbatches * GENERATOR_CLIP
    rho = sum((moved / (noise * GENERATOR_CLIP)) ** 2 / 2 for _ in range(steps))
    orders = 1 + np.logspace(-6, 3, 20_000)
    brute = float(np.min(orders * rho + math.log(1 / delta) / (orders - 1)))
    assert found == pytest.approx(brute, rel=1e-4)
    # The accountant of the tool, which has no order below 1.1, gives more where rho is enormous.
    accountant = MOMENTS.get_epsilon(
        [(Gaussian(noise_multiplier=noise / (2 * microbatches)), steps)], delta=delta, neighboring_relation=ZERO_OUT
    )
    if rho > 1e3:
        assert found < accountant < 1.2 * found


def test_sum_of_the_generators_microbatches_moves_by_twice_its_bound_when_the_discriminator_turns_round():
    """What makes the published epsilon wrong: one record may turn the discriminator, and with it all gradients."""

    generator, discriminator = tf.Variable(tf.ones(3)), tf.Variable([100.0])
    networks: Any = SimpleNamespace(
        generator_weights=(generator,),
        critic_weights=(discriminator,),
        draw=lambda batch: tf.ones([batch, 1]),
        draw_labels=lambda batch: tf.zeros([batch, 0]),
        generate=lambda inputs, labels: inputs * generator,
        score=lambda content, labels: discriminator * tf.reduce_sum(content - 1.0, axis=1),
    )
    plan = make_plan("dp-gan", make_table(10).shape, **PLAIN).design
    assert (plan.microbatches, plan.batch) == (5, 10)
    steps = PublishedSteps(networks, plan, noise_rng=np.random.default_rng(0))
    here = steps.clipped_sum().numpy()
    discriminator.assign([-100.0])
    there = steps.clipped_sum().numpy()
    assert np.linalg.norm(here - there) == pytest.approx(2 * 5 * 1.5, rel=1e-5)


def test_microbatches_are_fifty_when_a_batch_has_a_hundred_rows():
    plans = (make_plan("dp-gan", make_table(records).shape, **PLAIN) for records in (300, 100, 7, 1))
    assert [(plan.design.batch, plan.design.microbatches) for plan in plans] == [(100, 50), (100, 50), (7, 3), (1, 1)]


@functools.cache
def fit_from_prior(kind: str) -> Any:
    """A RON-DP-GAN as it ends."""
    encoded, shape, settings = KINDS[kind]
    plan = make_plan("ron-dp-gan", shape, **settings)
    return fit("ron-dp-gan", encoded, plan, ledger=reserve(plan)).fitted


@pytest.mark.slow
def test_ron_dp_gan_starts_as_its_prior_when_nothing_has_been_learnt():
    fitted, refined = fit_from_prior("images"), fit_from_prior("table")
    weights = [fitted.weights[0], *(np.zeros_like(weight) for weight in fitted.weights[1:])]
    start = replace(fitted, weights=tuple(weights))
    rows = next(start.sample(4_000, rng=np.random.default_rng(0)))
    alone = next(fitted.prior.sample(4_000, rng=np.random.default_rng(1)))
    np.testing.assert_allclose(rows.numbers.mean(axis=0), alone.numbers.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(rows.numbers.std(axis=0), alone.numbers.std(axis=0), atol=0.03)

    still = RefinedTable(prior=refined.prior, weights=tuple(np.zeros_like(weight) for weight in refined.weights))
    groups = draw_groups(refined.prior, 50, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(still.refine(groups), groups)


@pytest.mark.slow
def test_samplers_agree_with_the_networks_when_weights_and_draws_are_the_same():
    fitted, refined = fit_from_prior("images"), fit_from_prior("table")
    prior = fitted.prior
    generator = SmoothGenerator(
        fitted.space, latent=prior.latent, hidden=(8,), prior=prior, rng=np.random.default_rng(0)
    )
    for mine, theirs in zip(generator.weights, fitted.weights, strict=True):
        mine.assign(theirs)

    latents = np.random.default_rng(1).standard_normal((6, generator.latent)).astype(np.float32)
    # The same label and latents as those of the network.
    rng: Any = SimpleNamespace(random=np.zeros, standard_normal=lambda size, dtype: latents)
    drawn = next(fitted.sample(6, rng=rng))
    # The first label, for certain: all others' noise is far smaller.
    uniforms = np.full((6, 3), 1e-6, np.float32)
    uniforms[:, 0] = 1.0 - 1e-6
    points = generator.rows(tf.constant(latents), tf.constant(uniforms)).numpy()
    codes, numbers = generator.cells(tf.constant(latents), tf.constant(uniforms))
    np.testing.assert_array_equal(codes, drawn.codes)
    np.testing.assert_array_equal(numbers, points[:, : fitted.space.features])
    assert np.all(drawn.codes == 0)
    np.testing.assert_allclose(points[:, : fitted.space.features], fitted.space.to_points(drawn).numbers, atol=1e-4)

    network = TableRefiner(refined.prior, rows=30, hidden=(8,), rng=np.random.default_rng(0))
    for mine, theirs in zip(network.weights, refined.weights, strict=True):
        mine.assign(theirs)
    rows = network.rows(tf.range(30), tf.zeros((30, 1))).numpy()
    groups = refined.refine(network._groups.numpy())
    codes, numbers = network.cells(tf.range(30), tf.zeros((30, 1)))
    np.testing.assert_array_equal(codes, groups)
    assert numbers.shape == (30, 0)
    for column, span in enumerate(network.spans):
        np.testing.assert_array_equal(rows[:, span.start : span.start + span.width].argmax(axis=1), groups[:, column])


@pytest.mark.parametrize("name", METHODS)
def test_plan_is_refused_when_it_asks_for_what_the_table_has_not(name):
    for kind, setting, words in (
        ("table", {"projection_dimension": 3}, "projection-dimension is for images"),
        ("images", {"projection_dimension": 65}, "at most 64"),
        ("images", {"hidden_critic": (6,)}, "discriminator of images has no setting"),
        ("images", {"weight_clip": 1.0}, "discriminator of images has no setting"),
        ("images", {"gradient_memory": 0.5}, "discriminator of images has no setting"),
    ):
        with pytest.raises(UsageError, match=words):
            make_plan(name, KINDS[kind][1], **setting)
