"""The loop: charge first, fixed steps, learning rates, and the same steps where they are taken in one call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from dpwgan.app.checkpoint import open_checkpoint
from dpwgan.critic import optimizers, private_step
from dpwgan.critic.generator_steps import GeneratorStep
from dpwgan.critic.loop import CompiledLoop, train
from dpwgan.critic.plan import CRITIC_LABEL, TrainingDesign
from dpwgan.critic.private_step import FusedStep
from dpwgan.critic.weights import Kept
from dpwgan.errors import PrivacyError
from dpwgan.privacy.ledger import LOST, Ledger
from dpwgan.privacy.steps import Steps
from tests.critic.tables import flat, make_encoded, make_ledger, make_parts, make_plan, make_steps


def train_by(
    ledger: Ledger,
    plan: TrainingDesign,
    steps: Steps,
    critic_step: Any,
    generator_step: Any = lambda **_: None,
    progress: Any = lambda *_: None,
) -> None:
    """Trains, by stand-ins for steps as well as by steps."""
    both: dict[str, Any] = {"critic_step": critic_step, "generator_step": generator_step}
    train(plan, steps=steps, **both, ledger=ledger, progress=progress, records=plan.shape.records)


def watch(steps: Steps, acts: list[str]) -> None:
    """Notes every charge and every batch."""
    charge, draw_batches = steps.charge, steps.draw_batches

    def watch_charge(count: int) -> None:
        charge(count)
        acts.extend(["charge"] * count)

    def watch_batches(records: int, *, steps: int) -> Any:
        acts.extend(["sample"] * steps)
        return draw_batches(records, steps=steps)

    steps.charge, steps.draw_batches = watch_charge, watch_batches  # type: ignore[method-assign, assignment]


def train_on(plan: TrainingDesign, ledger: Ledger | None = None) -> tuple[list[str], list[tuple[int, int, float]]]:
    """Trains stand-ins, and gives what happened in which order, and what progress was told."""
    ledger = ledger or make_ledger(plan)
    acts: list[str] = []
    told: list[tuple[int, int, float]] = []
    steps = ledger.open(CRITIC_LABEL)
    watch(steps, acts)

    def step(rows: Any, **_: Any) -> None:
        steps.draw_normal_numbers(1)
        acts.append("critic")

    train_by(ledger, plan, steps, step, lambda **_: acts.append("generator"), lambda *numbers: told.append(numbers))
    return acts, told


def test_every_step_is_charged_before_its_batch_is_drawn_when_training():
    acts, _ = train_on(make_plan(make_encoded(100), steps=3, generator_steps=1))
    assert acts == ["charge", "sample", "critic", "generator"] * 3


def test_training_takes_exactly_the_planned_steps_when_batches_are_empty():
    acts, _ = train_on(make_plan(make_encoded(100), steps=40, expected_batch_size=1))
    assert acts.count("critic") == 40


def test_ledger_refuses_when_a_step_more_than_planned_is_taken(monkeypatch):
    plan = make_plan(make_encoded(100), steps=3)
    ledger = make_ledger(plan)
    train_on(plan, ledger)
    monkeypatch.setattr(Steps, "draw_batches", lambda *_, **__: pytest.fail("a batch was drawn"))
    with pytest.raises(PrivacyError):
        train_on(plan, ledger)


def test_generator_steps_once_when_several_critic_steps_are_asked_for():
    plan = make_plan(make_encoded(100), steps=10, critic_steps_per_generator_step=5, generator_steps=2)
    assert train_on(plan)[0].count("generator") == 4


def test_progress_is_told_of_a_spent_epsilon_within_the_budget_when_training():
    _, told = train_on(make_plan(make_encoded(100), steps=20))
    spent = [epsilon for _, _, epsilon in told]
    assert told[-1][:2] == (20, 20)
    assert spent == sorted(spent)
    assert 0.9 < spent[-1] <= 1.0
    assert np.isfinite(spent).all()


@pytest.mark.parametrize("spend_less", [False, True])
def test_steps_are_refused_when_noise_is_not_drawn_for_each_batch(spend_less):
    plan = make_plan(make_encoded(100), steps=3)
    ledger = make_ledger(plan)
    steps = ledger.open(CRITIC_LABEL)
    taken: list[int] = []

    def step(rows: Any, **_: Any) -> None:
        taken.append(1)
        for _ in range(0 if spend_less else 2):
            steps.draw_normal_numbers(1)

    with pytest.raises(PrivacyError):
        train_by(ledger, plan, steps, step)
    assert len(taken) == 1


class CountedSteps(Kept):
    """Stands for a critic's step and a generator's: one weight, which counts them."""

    def __init__(self) -> None:
        self.variables = [tf.Variable(0.0)]

    def __call__(self, *rows: Any, **more: Any) -> None:
        self.variables[0].assign_add(1.0)


@pytest.mark.parametrize(("planned", "block", "killed_at"), [(100, 2, 0), (100, 2, 3), (120, 3, 7), (120, 3, 119)])
def test_training_goes_on_after_the_last_step_charged_when_it_was_killed(tmp_path, planned, block, killed_at):
    plan = make_plan(make_encoded(100), steps=planned, critic_steps_per_generator_step=1, generator_steps=1)
    seen: list[int] = []

    def play(*, resume: bool, kill: int | None) -> tuple[CountedSteps, CountedSteps, Ledger]:
        journal = open_checkpoint(tmp_path, facts={}, resume=resume)
        ledger = make_ledger(plan, journal=journal)
        steps = ledger.open(CRITIC_LABEL)

        class CriticStep(CountedSteps):
            def __call__(self, *rows: Any, **more: Any) -> None:
                if len(seen) == kill:
                    raise KeyboardInterrupt
                seen.append(1)
                steps.draw_normal_numbers(1)
                super().__call__()

        try:
            critic, generator = CriticStep(), CountedSteps()
            train_by(ledger, plan, steps, critic, generator)
        finally:
            journal.close()
        return critic, generator, ledger

    with pytest.raises(KeyboardInterrupt):
        play(resume=False, kill=killed_at)
    critic, generator, ledger = play(resume=True, kill=None)
    line = ledger.itemise()[0]
    assert line["charged"] == line["reserved"] == plan.steps
    assert line["details"][LOST] == block
    assert float(critic.variables[0]) == float(generator.variables[0]) == plan.steps - block
    assert len(seen) <= plan.steps


BATCHES = [np.array([0, 3, 4, 50]), np.zeros(0, np.int64), np.arange(0, 100, 7), np.array([99]), np.arange(40)]


class Game:
    """A critic's step and a generator's, drawn alike each time."""

    def __init__(self, plan: TrainingDesign, *, steps: Steps | None = None) -> None:
        encoded = make_encoded(100)
        parts = make_parts(encoded, plan)
        self.plan, self.generator_step = plan, GeneratorStep(**parts)
        self.critic_step = FusedStep(encoded, **parts, steps=steps or make_steps(plan))
        self.weights = [*parts["critic"].weights, *parts["generator"].weights, *self.generator_step.averaged_weights]
        self.loop = CompiledLoop(plan, critic_step=self.critic_step, generator_step=self.generator_step)

    def take_singly(self, batches: list[npt.NDArray[np.int64]], drawn: tf.Tensor, *, first: int) -> None:
        """Takes steps as Algorithm 2 has them, one call each."""
        settings = self.plan.settings
        for number, rows in enumerate(batches):
            share = self.plan.learning_share(first + number)
            rate = tf.constant(share * settings.critic_learning_rate, tf.float32)
            self.critic_step._step(tf.constant(rows), drawn[number], rate)
            if (first + number + 1) % settings.critic_steps_per_generator_step == 0:
                for _ in range(settings.generator_steps):
                    self.generator_step(learning_rate=share * settings.generator_learning_rate)

    def take_together(self, batches: list[npt.NDArray[np.int64]], drawn: tf.Tensor, *, first: int) -> None:
        """Takes them in one call."""
        self.critic_step.draw_noise = lambda count: drawn[:count]  # type: ignore[method-assign]
        self.loop(batches, first=first)


@pytest.mark.parametrize(
    ("compiled", "every", "times"),
    [(False, 1, 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(False, 9, 1), (True, 5, 2)])],
)
def test_loop_ends_on_the_weights_of_single_calls_when_batches_and_noise_are_the_same(
    monkeypatch, compiled, every, times
):
    monkeypatch.setattr(optimizers, "_COMPILED_FROM", 0 if compiled else 10**18)
    plan = make_plan(make_encoded(100), steps=40, critic_steps_per_generator_step=every, generator_steps=times)
    apart, together = Game(plan), Game(plan)

    def differ(*, first: int, spoil: Callable[[tf.Tensor], tf.Tensor] = lambda drawn: drawn) -> float:
        drawn = apart.critic_step.draw_noise(len(BATCHES))
        apart.take_singly(BATCHES, drawn, first=first)
        together.take_together(BATCHES, spoil(drawn), first=first)
        return float(np.max(np.abs(flat(apart.weights) - flat(together.weights))))

    assert differ(first=3) <= 1e-6
    # The twin goes on with noise that it uses twice.
    assert differ(first=8, spoil=lambda drawn: tf.repeat(drawn[:1], len(BATCHES), axis=0)) > 1e-4


def run(plan: TrainingDesign, monkeypatch: pytest.MonkeyPatch, *, most: int) -> tuple[Game, list[str]]:
    """Trains, and notes what happened in which order."""
    monkeypatch.setattr(private_step, "_MOST_AT_ONCE", most)
    ledger, acts = make_ledger(plan), []
    steps = ledger.open(CRITIC_LABEL)
    game = Game(plan, steps=steps)
    watch(steps, acts)
    draw = game.critic_step.draw_noise

    def watch_draw(count: int) -> Any:
        acts.append(f"noise for {count}")
        return draw(count)

    game.critic_step.draw_noise = watch_draw  # type: ignore[method-assign]
    train_by(ledger, plan, steps, game.critic_step, game.generator_step, lambda done, *_: acts.append(f"told {done}"))
    return game, acts


@pytest.mark.slow
def test_steps_are_charged_before_any_batch_of_theirs_is_drawn_when_they_are_taken_together(monkeypatch):
    plan = make_plan(make_encoded(100), steps=151)
    _, acts = run(plan, monkeypatch, most=3)
    three = [*["charge"] * 3, *["sample"] * 3, "noise for 3"]
    assert acts[:16] == [*three, "told 3", *three, "told 6"]
    assert acts[-4:] == ["charge", "sample", "noise for 1", "told 151"]
    assert (acts.count("charge"), acts.count("sample")) == (151, 151)


def test_training_ends_on_the_same_weights_when_steps_are_taken_together(monkeypatch):
    plan = make_plan(make_encoded(100), steps=160, step_noise="plain", critic_steps_per_generator_step=3)
    (one, acts), (many, together) = (run(plan, monkeypatch, most=most) for most in (1, 20))
    assert (acts.count("noise for 1"), together.count("noise for 3")) == (160, 53)
    np.testing.assert_allclose(flat(one.weights), flat(many.weights), atol=1e-5)


def test_noise_of_several_steps_stays_within_some_megabytes_when_the_critic_is_large():
    small, large = (Game(make_plan(make_encoded(100), hidden_critic=(size, size))) for size in (8, 1_500))
    assert small.critic_step.most_at_once == private_step._MOST_AT_ONCE
    assert large.critic_step.most_at_once == 1
