"""The loop: charge first, fixed steps, learning rates, and what progress is told."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.app.checkpoint import open_checkpoint
from dpwgan.critic.loop import train
from dpwgan.critic.plan import CRITIC_LABEL, TrainingDesign
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.ledger import LOST, Ledger
from tests.critic.tables import make_encoded, make_ledger, make_plan
from tests.ledgers import make_source
from tests.plans import make_terms


def run(
    plan: TrainingDesign, events: list[str], monkeypatch: pytest.MonkeyPatch, *, ledger: Any = None
) -> list[tuple[int, int, float]]:
    ledger = ledger if ledger is not None else make_ledger(plan)
    told: list[tuple[int, int, float]] = []

    def note(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = do(*args, **kwargs)
            events.append(name)
            return result

        return wrapped

    steps = ledger.open(CRITIC_LABEL)
    monkeypatch.setattr(steps, "charge", note("charge", steps.charge))
    monkeypatch.setattr(steps, "draw_batches", note("sample", steps.draw_batches))
    train(
        plan,
        steps=steps,
        critic_step=note("critic", lambda rows, **_: steps.draw_normal_numbers(1)),
        generator_step=note("generator", lambda **_: None),
        ledger=ledger,
        progress=lambda *numbers: told.append(numbers),
    )
    return told


def test_every_step_is_charged_before_its_batch_is_drawn_when_training(monkeypatch):
    plan = make_plan(make_encoded(100), steps=3, generator_steps=1)
    events: list[str] = []
    run(plan, events, monkeypatch)
    assert events == ["charge", "sample", "critic", "generator"] * 3


def test_training_takes_exactly_the_planned_steps_when_batches_are_empty(monkeypatch):
    plan = make_plan(make_encoded(100), steps=40, expected_batch_size=1)
    events: list[str] = []
    run(plan, events, monkeypatch)
    assert events.count("critic") == 40


def test_ledger_refuses_when_a_step_more_than_planned_is_taken(monkeypatch):
    plan = make_plan(make_encoded(100), steps=3)
    ledger = make_ledger(plan)
    events: list[str] = []
    run(plan, events, monkeypatch, ledger=ledger)
    events.clear()
    with pytest.raises(PrivacyError):
        run(plan, events, monkeypatch, ledger=ledger)
    assert "sample" not in events
    assert "critic" not in events


def test_generator_steps_once_when_several_critic_steps_are_asked_for(monkeypatch):
    plan = make_plan(make_encoded(100), steps=10, critic_steps_per_generator_step=5, generator_steps=2)
    events: list[str] = []
    run(plan, events, monkeypatch)
    assert events.count("generator") == 4


def test_progress_is_told_of_a_spent_epsilon_within_the_budget_when_training(monkeypatch):
    plan = make_plan(make_encoded(100), steps=20)
    told = run(plan, [], monkeypatch)
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
        train(
            plan,
            steps=steps,
            critic_step=step,  # type: ignore[arg-type]
            generator_step=lambda **_: None,  # type: ignore[arg-type]
            ledger=ledger,
            progress=lambda *_: None,
        )
    assert len(taken) == 1


class CountedSteps:
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
        ledger = Ledger(
            make_terms().budget,
            accountant=MOMENTS,
            neighboring_relation=NeighboringRelation.ZERO_OUT,
            journal=journal,
            source=make_source(1),
        )
        for release in plan.releases:
            ledger.reserve(release)
        steps = ledger.open(CRITIC_LABEL)
        critic, generator = CountedSteps(), CountedSteps()

        def step(rows: Any, **more: Any) -> None:
            if len(seen) == kill:
                raise KeyboardInterrupt
            seen.append(1)
            steps.draw_normal_numbers(1)
            critic()

        step.variables = critic.variables  # type: ignore[attr-defined]
        try:
            train(
                plan,
                steps=steps,
                critic_step=step,  # type: ignore[arg-type]
                generator_step=generator,
                ledger=ledger,
                progress=lambda *_: None,
            )
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
