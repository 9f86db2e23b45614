"""The penalised critic: its loss against a loop, its sensitivity, and what moves it after the noise."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.plan import TrainingDesign
from dpwgan.methods.published.gradient_penalty import (
    PENALTY,
    AdamDescent,
    Match,
    PlainPenaltyStep,
    PrivatePenaltyStep,
    RememberedDescent,
    ScoreClimb,
    clip_and_sum,
    penalties,
    score_losses,
)
from dpwgan.methods.published.networks import Networks
from tests.critic.games import make_networks
from tests.critic.tables import flat, length, make_encoded, make_steps
from tests.critic.tables import make_plan as plan_steps

PLAIN = ("images", "table")
PRIVATE = ("points", "table")


def make_plan(*, l2_clip_norm: float = 1.0) -> TrainingDesign:
    return plan_steps(make_encoded(40), steps=3, expected_batch_size=10, l2_clip_norm=l2_clip_norm)


def draw_match(networks: Networks, rows: Any) -> Match:
    content, labels = networks.read(tf.constant(rows))
    batch = len(rows)
    return Match(content, labels, networks.generate(networks.draw(batch), labels), networks.draw_mixing(batch))


def make_step(networks: Networks, *, plan: TrainingDesign, kind: Any = PrivatePenaltyStep, **more: Any) -> Any:
    return kind(networks, plan=plan, steps=make_steps(plan), descent=AdamDescent(networks.critic_weights), **more)


def take(match: Match, row: int) -> Match:
    return Match(*(part[row : row + 1] for part in match))


@pytest.mark.parametrize("kind", ["images", "points", "table"])
def test_penalty_is_that_of_the_slope_by_differences_when_measured(kind):
    networks = make_networks(kind)
    match = draw_match(networks, [1, 2])
    mixing = match.mixing.numpy().reshape(-1, *[1] * (len(match.content.shape) - 1))
    between = mixing * match.content.numpy() + (1 - mixing) * match.generated.numpy()
    slopes = np.zeros(between.shape)
    for place in np.ndindex(between.shape[1:]):
        up, down = between.copy(), between.copy()
        up[(slice(None), *place)] += 1e-2
        down[(slice(None), *place)] -= 1e-2
        difference = networks.score(tf.constant(up), match.labels) - networks.score(tf.constant(down), match.labels)
        slopes[(slice(None), *place)] = difference.numpy() / 2e-2
    norms = np.sqrt((slopes**2).reshape(2, -1).sum(axis=1))
    for target in (1.0, 0.0):
        known = PENALTY * (norms - target) ** 2
        np.testing.assert_allclose(penalties(networks, match, target_slope=target).numpy(), known, rtol=0.05)


@pytest.mark.parametrize("kind", PRIVATE)
def test_a_record_moves_the_clipped_sum_by_the_clip_norm_at_most_when_it_is_zeroed_out(kind):
    l2_clip_norm = 0.3
    networks, plan = make_networks(kind), make_plan(l2_clip_norm=l2_clip_norm)
    step = make_step(networks, plan=plan)
    for weight in networks.critic_weights:  # steep enough for the penalty to matter
        weight.assign(2.5 * weight)
    match = draw_match(networks, np.arange(12))
    assert penalties(networks, match).numpy().max() > 1
    gradients = step.differentiate(match)
    for row in range(3):  # each is the record's own, by another road
        with tf.GradientTape() as tape:
            alone = take(match, row)
            loss = tf.reduce_sum(penalties(networks, alone) - networks.score(alone.content, alone.labels))
        for one, other in zip(tape.gradient(loss, networks.critic_weights), gradients, strict=True):
            np.testing.assert_allclose(other[row].numpy(), one.numpy(), rtol=1e-3, atol=1e-4 * length([one]))

    def add_up(rows: Any) -> list[Any]:
        there = tf.constant(np.isin(np.arange(12), rows))
        return clip_and_sum(gradients, there=there, l2_clip_norm=plan.clip_target)

    whole, moves = add_up(np.arange(12)), []
    for out in range(12):
        without = add_up(np.delete(np.arange(12), out))
        moves.append(length([one - other for one, other in zip(whole, without, strict=True)]))
    assert max(moves) <= l2_clip_norm
    assert max(moves) > 0.9 * l2_clip_norm

    # The twin clips the score's gradient and lets the penalty's go past the clip.
    late = []
    for row in range(12):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(networks.score(match.content[row : row + 1], match.labels[row : row + 1]))
        clipped = [gradient[tf.newaxis] for gradient in tape.gradient(loss, networks.critic_weights)]
        clipped = clip_and_sum(clipped, there=tf.constant([True]), l2_clip_norm=plan.clip_target)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(penalties(networks, take(match, row)))
        extra = tape.gradient(loss, networks.critic_weights, unconnected_gradients="zero")
        late.append(length([one + other for one, other in zip(clipped, extra, strict=True)]))
    assert max(late) > 2 * l2_clip_norm


def test_sum_has_as_many_records_as_the_batch_when_pieces_do_not_divide_it():
    networks = make_networks("table", records=1_200)
    step = make_step(networks, plan=make_plan(l2_clip_norm=1e-3))
    # With a tiny clip every record's part has the clip's length: as many records, as long a sum at most.
    assert length(step.clipped_sum(np.arange(0))) == 0
    one = length(step.clipped_sum(np.arange(1)))
    many = length(step.clipped_sum(np.arange(1_100)))
    assert one == pytest.approx(1e-3, rel=1e-3)
    assert one < many <= 1_100 * 1e-3


def test_a_record_counts_as_zero_when_its_gradient_is_not_finite():
    gradients = [tf.constant([[3.0, 4.0], [np.inf, 1.0], [np.nan, 0.0], [30.0, 40.0], [1.0, 1.0]])]
    there = tf.constant([True, True, True, True, False])
    (total,) = clip_and_sum(gradients, there=there, l2_clip_norm=10.0)
    np.testing.assert_allclose(total.numpy(), [9.0, 12.0], rtol=1e-5)


class Kept(PrivatePenaltyStep):
    """Keeps noisy gradients instead of going along them."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self.seen: list[Any] = []
        self._descend = lambda noisy, *, share: self.seen.extend(noisy)


def test_noise_of_a_step_is_what_was_drawn_for_it_when_the_batch_is_empty():
    plan = make_plan(l2_clip_norm=2.0)
    step = make_step(make_networks("table"), plan=plan, kind=Kept)
    step(np.arange(0), learning_rate=1.0)
    noise = flat(step.seen) * plan.expected_batch_size
    np.testing.assert_allclose(noise, make_steps(plan).draw_normal_numbers(noise.size), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_critic_tells_rows_apart_and_the_generator_climbs_when_both_step(kind):
    networks = make_networks(kind)
    critic_step = PlainPenaltyStep(networks, batch_size=16, learning_rate=3e-3)
    match = draw_match(networks, np.arange(30))
    before = float(tf.reduce_mean(score_losses(networks, match)))
    for _ in range(20):
        critic_step(np.arange(16))
    assert float(tf.reduce_mean(score_losses(networks, match))) < before
    inputs, labels = networks.draw(30), networks.draw_labels(30)
    low = float(tf.reduce_mean(networks.score(networks.generate(inputs, labels), labels)))
    generator_step = ScoreClimb(networks, batch_size=16, learning_rate=3e-3)
    for _ in range(30):
        generator_step()
    assert float(tf.reduce_mean(networks.score(networks.generate(inputs, labels), labels))) > low


def test_generated_half_is_a_mean_without_noise_when_a_step_is_taken():
    class Noted(AdamDescent):
        def descend(self, noisy: Any, generated: Any, *, share: Any) -> None:
            self.generated = generated

    networks = make_networks("points")
    descent = Noted(networks.critic_weights)
    step = PrivatePenaltyStep(networks, plan=make_plan(), steps=make_steps(make_plan()), descent=descent)
    step._move([tf.zeros_like(weight) for weight in networks.critic_weights], share=tf.constant(1.0))
    batch = 4_000
    labels = networks.draw_labels(batch)
    content = networks.generate(networks.draw(batch), labels).numpy()
    products = 0.35 * content.T @ content / batch
    stddevs = 0.35 * np.std(content[:, :, None] * content[:, None, :], axis=0)
    apart = np.abs(descent.generated[1].numpy() - products) / stddevs
    assert apart.max() < 6 * (1 / 256 + 1 / batch) ** 0.5


SHARE = tf.constant(0.5)


def make_descent() -> tuple[list[tf.Variable], RememberedDescent]:
    weights = [tf.Variable([1.0, -2.0]), tf.Variable([[3.0], [0.5]])]
    return weights, RememberedDescent(weights, memory=0.9, pull=0.25, l2_clip_norm=2.0)


def test_step_is_the_mean_of_all_noisy_halves_and_the_last_generated_one_when_memory_is_long():
    # Four weights and a clip norm of 2: a clipped record that is spread evenly is 1 in each.
    weights, descent = make_descent()
    rng = np.random.default_rng(1)
    known, mean, scale = np.array([1.0, -2.0, 3.0, 0.5]), np.zeros(4), 0.0
    for _ in range(5):
        noisy, generated = rng.standard_normal((2, 4)).astype(np.float32)
        descent.descend(
            [tf.constant(noisy[:2]), tf.constant(noisy[2:, None])],
            [tf.constant(generated[:2]), tf.constant(generated[2:, None])],
            share=SHARE,
        )
        mean, scale = 0.9 * mean + 0.1 * noisy, 0.9 * scale + 0.1
        known = 0.75 * known - 0.5 * (mean / scale + generated)
    np.testing.assert_allclose(flat(weights), known, rtol=1e-4)


def test_descent_goes_on_as_it_would_have_when_its_variables_are_brought_back():
    def take(weights: list[tf.Variable], descent: RememberedDescent, number: float) -> None:
        parts = [tf.fill(weight.shape, number) for weight in weights]
        descent.descend(parts, [0.1 * part for part in parts], share=SHARE)

    (weights, first), (others, second) = make_descent(), make_descent()
    for number in (1.0, -3.0):
        take(weights, first, number)
    for old, new in zip([*weights, *first.variables], [*others, *second.variables], strict=True):
        new.assign(old)
    for pair in ((weights, first), (others, second)):
        take(*pair, 2.0)
    for old, new in zip(weights, others, strict=True):
        assert new.numpy() == pytest.approx(old.numpy())
