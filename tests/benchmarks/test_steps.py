"""The steps that are timed do what their names say: the twin differs from the private step by clip and noise alone."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import steps
from dpwgan.training.private_step import FusedStep
from dpwgan.training.reference_step import densify


@pytest.mark.parametrize("dense", [False, True])
def test_plain_step_moves_the_critic_as_the_private_one_does_when_nothing_is_clipped_and_no_noise_comes(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = steps.make_steps(120, 32)
    table = steps.make_table(120, np.random.default_rng(0))
    parts = steps._Parts(table, plan)
    rows = np.arange(30)
    sums: list[list[tf.Tensor]] = []
    step = steps.PlainStep(parts, dense=dense)
    monkeypatch.setattr(step._update, "apply", lambda real, fake, **_: sums.append([*real, *fake]))
    step._trace(tf.constant(rows))
    real = parts.critic.clipped_sum(densify(table, rows), l2_clip_norm=1e6)
    for one, other in zip(sums[0], real, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert len(sums[0]) == 2 * len(real)


def test_every_kind_of_step_is_timed_when_gradients_row_by_row_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_MOST_VECTORIZED", 10)
    case = steps.measure(40, 8, rounds=2, seconds=0.001)
    assert set(case["cpu_ms"]) == {"private", "twin", "dense", "ghost"}
    assert all(len(times) == 2 and min(times) > 0 for times in case["cpu_ms"].values())
    assert steps.describe(case).count("(") == 4
    assert steps.describe(case).endswith("| too large |")


def test_private_step_is_the_product_s_when_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr(FusedStep, "__call__", lambda self, rows, **_: called.append(len(rows)))
    _, made = steps.make_steps(40, 8)
    made["private"](np.arange(5))
    assert called == [5]
