"""The steps that are timed do what their names say: the twin differs from the private step by clip and noise alone."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import steps
from dpwgan.critic.private_step import FusedStep
from tests.critic.tables import needs_reference

pytestmark = needs_reference  # one of the steps that are timed is the reference engine's


@pytest.mark.parametrize("make", [steps.make_twin, steps.make_dense])
def test_plain_step_has_the_sums_of_the_private_one_when_nothing_is_clipped_and_no_noise_comes(make):
    plan, *_ = steps.make_steps(120, 32)
    table = steps.make_table(120, np.random.default_rng(0))
    rows = np.arange(30)
    halves = make(table, plan).halves(tf.constant(rows))
    critic = steps.Parts(table, plan).critic
    for sums, batch in zip(halves, (30, 32), strict=True):
        expected = critic.clipped_sum_of_rows(
            tf.constant(table.codes[:batch]), tf.constant(table.numbers[:batch]), l2_clip_norm=1e6
        )
        for one, other in zip(sums, expected, strict=True):
            np.testing.assert_allclose(tf.convert_to_tensor(one), other, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_private_step_is_the_product_s_when_it_is_timed(monkeypatch):
    drawn: list[int] = []
    draw = FusedStep.draw_noise

    def watch(self: FusedStep, count: int) -> tf.Tensor:
        drawn.append(count)
        return draw(self, count)

    monkeypatch.setattr(FusedStep, "draw_noise", watch)
    _, at_once, made = steps.make_steps(40, 8)
    assert at_once > 1
    made["twin"]([np.arange(5)])
    made["private"]([np.arange(5), np.arange(3)])
    assert drawn == [2]
