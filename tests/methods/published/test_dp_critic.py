"""The method `dp-critic`: as published without a guarantee, and formal with one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.methods.published import dp_critic
from dpwgan.methods.published.dp_critic import FormalDesign, release_classes, sum_classes
from dpwgan.plan import Plan
from dpwgan.privacy.events import Gaussian, Unprotected
from dpwgan.table.encoded import EncodedTable, TableShape
from tests.ledgers import open_for_plan, open_ledger
from tests.methods.images import make_images
from tests.methods.published.test_loss_noise_gan import make_plan
from tests.methods.runs import fit, make_table
from tests.methods.runs import make_plan as plan_run


def plan_formally(shape: TableShape, **more: Any) -> Plan[FormalDesign]:
    return plan_run("dp-critic", shape, formal=True, **more)


def test_plan_says_to_estimate_the_loss_when_there_is_no_guarantee():
    plan = make_plan("dp-critic", make_table(300).shape, critic_steps_per_generator_step=1)
    event = plan.releases[0].event
    assert isinstance(event, Unprotected)
    assert "python -m dpwgan.audit ex-post" in event.reason
    assert event.published is None


def test_shares_are_a_distribution_when_the_noise_is_large():
    encoded, shape = make_images(60, side=8)
    plan = plan_formally(shape, epsilon=0.05)
    for seed in range(5):
        ledger = open_for_plan(plan, source=seed)
        shares, centre = release_classes(encoded, plan.design.frame, records=60, ledger=ledger).values()
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1.0)
        assert np.isfinite(centre).all()


def test_released_classes_are_their_shares_and_the_mean_picture_when_the_noise_is_small():
    encoded, shape = make_images(60, side=8)
    plan = plan_formally(shape, epsilon=10.0)
    tiny = replace(plan.design, classes=Gaussian(noise_multiplier=1e-6, replace_one_factor=1.8))
    ledger = open_ledger(tiny.releases)
    shares, centre = release_classes(encoded, plan.design.frame, records=60, ledger=ledger).values()
    np.testing.assert_allclose(shares, np.bincount(encoded.codes[:, 0], minlength=3) / 60, atol=1e-4)
    known = plan.design.frame.to_points(encoded.numbers[:, list(plan.design.frame.grid.sources)]).mean(axis=0)
    np.testing.assert_allclose(centre, known, atol=1e-4)


def test_mean_picture_is_divided_by_the_public_n_when_rows_were_dropped(monkeypatch):
    """The twin that divides by the rows that are left would tell how many were dropped."""

    class Released(Exception):
        """Raised in place of the release."""

    def release(*rows: Any, records: int, ledger: Any) -> Any:
        raise Released(records)

    monkeypatch.setattr(dp_critic, "release_classes", release)
    encoded, shape = make_images(60, side=8)
    plan = plan_formally(shape)
    with pytest.raises(Released, match="60"):
        fit("dp-critic", encoded.take(np.arange(60) % 5 > 0), plan, ledger=open_for_plan(plan))


@pytest.mark.parametrize("brightness", [1.0, 5.0])
def test_a_record_moves_the_sum_of_classes_within_its_sensitivity_when_it_is_taken_out_or_replaced(brightness):
    """The worst records: white and black, of unlike labels; and pixels that no specs allow, which are shortened."""
    encoded, _ = make_images(3, side=8)
    plan = plan_formally(make_images(60, side=8)[1])
    white = EncodedTable(
        codes=np.array([[0], [1], [0]], np.int32),
        numbers=np.stack([np.full(64, value, np.float32) for value in (brightness, -brightness, 0.0)]),
        spans=encoded.spans,
    )

    def add_up(*rows: int) -> Any:
        return sum_classes(white.take(np.isin(np.arange(3), rows)), plan.design.frame)  # type: ignore[arg-type]

    nothing = np.zeros_like(add_up(0))
    longest = max(float(np.linalg.norm(add_up(row) - nothing)) for row in range(3))
    assert 0.999 < longest <= 1.0
    apart = float(np.linalg.norm(add_up(0) - add_up(1)))
    assert 0.999 * plan.design.classes.replace_one_factor < apart <= plan.design.classes.replace_one_factor
    # The twin: sizes and points that are each 1 long.
    sizes, point = np.split(add_up(0), [plan.design.frame.grid.classes])
    assert np.hypot(np.linalg.norm(sizes) / 0.5, np.linalg.norm(point) / 0.75**0.5) > 1.4
