"""What moves weights after the noise: against a library, by hand, and without rows."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.generator_steps import GeneratorRound
from dpwgan.critic.generators import LatentSource
from dpwgan.critic.loop import train
from dpwgan.critic.optimizers import Adam, PlainAscent
from dpwgan.critic.plan import CRITIC_LABEL
from dpwgan.critic.private_step import FusedStep
from dpwgan.methods.published.dp_gan import make_discriminator
from dpwgan.methods.published.generators import SmoothGenerator
from dpwgan.table.encoded import EncodedTable
from tests.critic.tables import flat, make_steps, running_eagerly
from tests.critic.test_loop import watch
from tests.ledgers import open_for_plan
from tests.methods.images import make_images
from tests.methods.published.test_dp_gan import make_plan


@pytest.mark.parametrize("betas", [(0.0, 0.9), (0.5, 0.999)])
def test_adam_moves_weights_as_another_library_does_when_the_gradients_are_the_same(betas):
    rng = np.random.default_rng(1)
    first = [rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal(4).astype(np.float32)]
    mine, known = ([tf.Variable(weight) for weight in first] for _ in range(2))
    adam = Adam(mine, learning_rate=0.01, memories=betas)
    library = tf.keras.optimizers.Adam(0.01, beta_1=betas[0], beta_2=betas[1], epsilon=1e-8)
    for _ in range(20):
        gradients = [tf.constant(rng.standard_normal(weight.shape), tf.float32) for weight in first]
        adam.descend(gradients)
        library.apply_gradients(zip(gradients, known, strict=True))
    for one, other in zip(mine, known, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-5)
        assert np.abs(one.numpy()).max() > 0


RATE = {"learning_rate": 0.01}


class Game:
    """A game on small images, its steps counted and its rows within reach."""

    def __init__(self, *, steps: int = 5, rounds: int = 3) -> None:
        encoded, shape = make_images(80, side=8)
        settings = {"steps": steps, "expected_batch_size": 40, "hidden_generator": (8,), "generator_steps": rounds}
        self.made = make_plan("dp-gan", shape, **settings)
        self.plan, space = self.made.design.steps, self.made.design.space
        assert space is not None
        rng, self.steps = np.random.default_rng(0), make_steps(self.plan)
        self.critic, update = make_discriminator(self.plan, space, rng=rng, secrets=self.steps.secrets)
        assert isinstance(update, PlainAscent)
        self.update, self.points = update, space.to_points(encoded)
        generator = SmoothGenerator(space, latent=4, hidden=(8,), rng=rng)
        latents = LatentSource(latent=4, width=self.plan.shape.width, rng=rng)
        parts: dict[str, Any] = {"critic": self.critic, "generator": generator, "latents": latents, "plan": self.plan}
        self.step = FusedStep(self.points, **parts, steps=self.steps, update=update)
        self.round = GeneratorRound(**parts, update=update)
        self.generator = generator


def test_weights_go_by_the_mean_of_all_noisy_halves_and_the_last_generated_one_when_steps_have_passed():
    game = Game(steps=16)
    plan, rng = game.plan, np.random.default_rng(1)
    expected = [np.zeros(weight.shape) for weight in game.critic.weights]
    halves: list[Any] = []
    for _ in range(3):
        halves.append([rng.standard_normal(weight.shape) for weight in game.critic.weights])
        fakes = [rng.standard_normal(weight.shape) for weight in game.critic.weights]
        game.update.apply(
            [tf.constant(part, tf.float32) for part in halves[-1]],
            [tf.constant(part, tf.float32) for part in fakes],
            learning_rate=tf.constant(0.5),
        )
        for place, weight in enumerate(expected):
            mean = np.mean([half[place] for half in halves], axis=0) / plan.expected_batch_size
            gradient = (mean - fakes[place] / plan.generated_batch_size) / plan.l2_clip_norm
            rate = plan.settings.critic_learning_rate * min(1.0, len(halves) / 2)  # two of sixteen steps are unsure
            weight += rate * gradient - plan.settings.weight_pull * weight
    for found, weight in zip(game.critic.weights, expected, strict=True):
        np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_rounds_charge_nothing_and_read_no_rows_when_there_are_several_for_each_step():
    """The order of a whole game: one charge and one batch a step, however many rounds follow it."""
    game = Game(steps=4, rounds=6)
    acts: list[str] = []
    ledger = open_for_plan(game.made)
    game.step._steps = steps = ledger.open(CRITIC_LABEL)
    watch(steps, acts)
    read = game.step._read

    def watch_read(rows: Any) -> Any:
        acts.append("read")
        return read(rows)

    def watched_round(*, learning_rate: float) -> None:
        acts.append("round")
        before = [np.array(kept) for kept in game.update._memory]
        game.round(learning_rate=learning_rate)
        for kept, was in zip(game.update._memory, before, strict=True):
            np.testing.assert_array_equal(kept, was)  # what is known of rows is what steps have paid for

    watched_round.variables = game.round.variables  # type: ignore[attr-defined]
    game.step._read = watch_read  # type: ignore[method-assign]
    parts: dict[str, Any] = {"critic_step": game.step, "generator_step": watched_round}
    with running_eagerly():
        train(game.plan, steps=steps, **parts, ledger=ledger, progress=lambda *_: None, records=game.plan.shape.records)
    assert acts == ["charge", "sample", "read", *["round"] * 6] * 4
    assert all(line["charged"] == line["reserved"] for line in ledger.itemise())


@pytest.mark.slow
def test_weights_are_the_same_when_rows_change_after_the_last_step_and_a_twin_that_reads_them_is_noticed():
    def play(*, change: bool, cheat: bool) -> Any:
        game = Game()
        game.step(np.arange(30), **RATE)
        if change:
            numbers = np.zeros_like(game.points.numbers)
            table = EncodedTable(codes=game.points.codes, numbers=numbers, spans=game.points.spans)
        else:
            table = game.points
        for _ in range(3):
            if cheat:  # a real half without noise or charge
                sums = game.critic.clipped_sum_of_rows(
                    tf.constant(table.codes),
                    tf.constant(table.numbers),
                    tf.zeros_like(table.numbers),
                    l2_clip_norm=game.plan.clip_target,
                )
                game.update._memory[0].assign(sums[0] / table.records)
            game.round(**RATE)
        return flat([*game.critic.weights, *game.generator.weights])

    np.testing.assert_array_equal(play(change=False, cheat=False), play(change=True, cheat=False))
    assert np.any(play(change=False, cheat=True) != play(change=True, cheat=True))


def test_game_goes_on_where_it_stopped_when_its_variables_are_brought_back():
    first, second = Game(), Game()
    first.step(np.arange(30), **RATE)
    first.round(**RATE)
    second.step.unpack(first.step.pack())
    second.round.unpack(first.round.pack())
    for game in (first, second):
        game.update.apply(
            [tf.ones_like(weight) for weight in game.critic.weights],
            [tf.zeros_like(weight) for weight in game.critic.weights],
            learning_rate=tf.constant(0.5),
        )
    np.testing.assert_array_equal(flat(first.critic.weights), flat(second.critic.weights))
