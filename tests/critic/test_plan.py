"""The plan: what is public decides it, and its parts agree."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.critic.plan import TrainingDesign, choose_batch, choose_generated_batch, plan_training
from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import PrivacyError
from dpwgan.plan import Plan
from dpwgan.table.encoded import TableShape
from tests.critic.tables import make_encoded, make_plan
from tests.plans import make_terms
from tests.privacy.charges import get_epsilon


def plan(*, records: int = 39_073, epsilon: float = 1.0, **asked: Any) -> Plan[TrainingDesign]:
    shape = TableShape(records=records, spans=make_encoded(1).spans)
    terms = make_terms(epsilon=epsilon, delta=1.0 / records**2, rule="auto")
    return plan_training(shape, terms, settings=DpWganSettings(**asked))


def test_event_holds_the_numbers_that_sampler_and_noise_use_when_planned():
    made = plan(steps=100, expected_batch_size=1_024).design
    (release,) = made.releases
    assert release.event.sampling_probability == made.sampling_probability == 1_024 / 39_073
    assert release.event.noise_multiplier == made.noise_multiplier
    assert made.expected_batch_size == pytest.approx(1_024)
    assert (release.label, release.times, release.sensitivity) == ("critic steps", 100, made.l2_clip_norm)
    # Room for what float32 sums of 1,024 rows may be off by: a ten-thousandth, and 5e-8 a row.
    assert made.clip_target == pytest.approx(made.l2_clip_norm * (1 - 1e-4 - 1_024 * 5e-8), rel=1e-9)


def test_steps_are_cut_to_the_budget_when_the_noise_is_fixed():
    free = plan(noise_multiplier=3.0, epochs=10.0, expected_batch_size=64, epsilon=8.0)
    cut = plan(noise_multiplier=1.0, epochs=10.0, expected_batch_size=64, epsilon=0.5)
    assert free.design.steps == 6_106  # ten epochs of 39,073 rows in batches of 64, rounded up
    assert cut.design.steps < 6_106
    assert get_epsilon(cut.choice) <= 0.5


def test_plan_is_refused_when_not_one_generator_step_could_be_paid_for():
    with pytest.raises(PrivacyError):
        plan(
            noise_multiplier=0.3, epochs=10.0, expected_batch_size=64, epsilon=0.05, critic_steps_per_generator_step=10
        )


@settings(max_examples=50)
@given(records=st.integers(1, 10**9))
def test_batch_is_between_one_and_the_table_when_chosen(records):
    assert 1 <= choose_batch(records) <= min(records, 8_192)


@pytest.mark.parametrize(("width", "batch"), [(1, 1_024), (278, 1_024), (4_096, 512), (13_145, 256), (10**6, 256)])
def test_generated_batch_shrinks_when_the_table_is_wide(width, batch):
    assert choose_generated_batch(width) == batch


def test_batch_is_the_whole_table_when_more_rows_are_asked_for():
    made = plan(records=10, expected_batch_size=64, steps=3).design
    assert made.sampling_probability == 1.0
    assert made.expected_batch_size == 10.0


def test_memory_and_time_grow_when_the_table_or_the_layers_grow():
    small = make_plan(make_encoded(500))
    assert replace(small, shape=replace(small.shape, records=5_000)).cost.memory_bytes > small.cost.memory_bytes
    assert make_plan(make_encoded(500), hidden_critic=(4_096,)).cost.memory_bytes > small.cost.memory_bytes
    assert replace(small, steps=1_000).cost.seconds > small.cost.seconds
