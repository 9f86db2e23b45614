"""The DP-WGAN beside an anchor as whole runs: legal cells, one accountant for both phases, charges before reads."""

import functools
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from dpwgan.critic.plan import CRITIC_LABEL, TrainingDesign
from dpwgan.errors import UsageError
from dpwgan.marginals.answers import measurements
from dpwgan.marginals.one_way import one_ways
from dpwgan.methods.dp_wgan import AnchoredDesign
from dpwgan.methods.registry import make_settings
from dpwgan.plan import Plan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.table.encoded import EncodedTable
from tests.ledgers import Watcher, watch_reads
from tests.marginals.groups import add_up_information, loss_of
from tests.methods.privacy_totals import epsilon_with_critic, total_rho
from tests.methods.runs import NARROW, fit, make_table, reserve
from tests.methods.runs import make_plan as plan_run

DELTA = 1e-5
RELATIONS = list(NeighboringRelation)
FAST: dict[str, Any] = {"codes": 30, "fit_steps": 8, "steps": 4, "hidden_critic": (8,), "expected_batch_size": 20}


def make_plan(encoded: EncodedTable, **more: Any) -> Plan[AnchoredDesign]:
    return plan_run("dp-wgan", encoded.shape, **{**FAST, "rounds": 1, **more})


@functools.cache
def make_shipped_plan(**more: Any) -> Plan[AnchoredDesign]:
    """The plan of the method as it is without any setting."""
    return plan_run("dp-wgan", make_table(300).shape, **more)


def get_charges(plan: Plan[AnchoredDesign]) -> list[Charge]:
    return [release.charge for release in plan.releases]


@pytest.mark.parametrize(
    ("relation", "rule"),
    # By auto the other accountants are asked too, which takes a second each.
    [*itertools.product(RELATIONS, ["moments", "amortized", "paper"]), (NeighboringRelation.ZERO_OUT, "auto")],
)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_budget_is_met_by_one_accountant_when_planned_by_any_rule(relation, rule, epsilon):
    """The anchor and the critic are two phases of one run: neither may be calibrated by an accountant of its own."""
    plan = make_shipped_plan(epsilon=epsilon, relation=relation, rule=rule)
    guarantee = reserve(plan).guarantee()
    assert guarantee.accountant == plan.choice.accountant.name
    if rule != "auto":
        assert guarantee.accountant == {"paper": "amortized" if epsilon < 0.7 else "moments"}.get(rule, rule)
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon
    # What was calibrated is what is charged.
    assert list(plan.choice.chosen_charges) == get_charges(plan)
    # Of rho the critic has its share and the anchor the rest, at the noise that was found for both.
    scale = plan.choice.noise
    share = plan.design.settings.critic_share
    whole = 1 / (2 * scale**2)
    measured = total_rho(get_charges(plan)[:-1], relation=NeighboringRelation.ZERO_OUT)
    assert measured == pytest.approx((1 - share) * whole, rel=1e-9)
    step = plan.releases[-1].event
    as_one = plan.design.critic.steps * step.sampling_probability**2 / (2 * step.noise_multiplier**2)
    assert as_one == pytest.approx(share * whole, rel=1e-9)


@pytest.mark.parametrize("records", [1, 3, 5_000])
@pytest.mark.parametrize("columns", [NARROW[:1], NARROW[:2]])
def test_total_is_that_of_other_formulas_when_columns_and_rows_are_few_or_the_sample_is_small(columns, records):
    # One record is a sample of everything; of 5,000, twenty are.
    plan = make_plan(make_table(records, columns=columns))
    claimed = reserve(plan).guarantee().epsilon
    assert 0.99 < claimed <= 1.0
    assert claimed == pytest.approx(
        epsilon_with_critic(get_charges(plan), delta=DELTA, relation=NeighboringRelation.ZERO_OUT), rel=1e-4
    )


@pytest.mark.slow
def test_every_read_comes_after_its_charge_when_a_critic_follows(monkeypatch):
    encoded = make_table(40, columns=NARROW[:4])
    plan = make_plan(encoded)
    watcher, seen = Watcher(), Counter[str]()
    ledger = reserve(plan, observers=[watcher])
    sample = NoiseSource.draw_batch

    def sample_charged(*args: Any) -> Any:
        seen[CRITIC_LABEL] += 1
        assert seen[CRITIC_LABEL] <= ledger.charged[CRITIC_LABEL]
        return sample(*args)

    monkeypatch.setattr(NoiseSource, "draw_batch", sample_charged)
    # No step is paid for before all of the anchor was read: each read finds but its own release charged.
    watch_reads(monkeypatch, ledger, watcher, [(one_ways, "count_one_ways"), (measurements, "count_pairs")])
    fit("dp-wgan", encoded, plan, ledger=ledger)
    assert seen + Counter(watcher.order) == {release.label: release.times for release in plan.releases}


def fit_and_watch(
    encoded: EncodedTable, *, monkeypatch: pytest.MonkeyPatch, critic_weight: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Gives the probabilities and the anchor's loss before and after the critic's phase."""
    from dpwgan.critic import generator_steps

    made: list[Any] = []

    class Watched(generator_steps.AnchoredStep):
        def __init__(self, **parts: Any) -> None:
            super().__init__(**parts)
            made.append((parts["generator"].probabilities(), parts["losses"]))

    monkeypatch.setattr(generator_steps, "AnchoredStep", Watched)
    plan = make_plan(encoded, critic_weight=critic_weight, epsilon=100.0, fit_steps=150, codes=60, steps=40)
    fitted = fit("dp-wgan", encoded, plan, ledger=reserve(plan)).fitted
    (before, losses) = made[0]
    after = fitted.probabilities
    starts = np.concatenate(([0], np.cumsum(fitted.coarsening.sizes)))[:-1]
    np.testing.assert_allclose(np.add.reduceat(after, starts, axis=1), 1.0, atol=1e-5)
    measured, information = losses
    first, last = (
        loss_of(measured, part) + information._weight * add_up_information(part, measured.views.own)
        for part in (before, after)
    )
    return before, after, first, last


@pytest.mark.slow
def test_anchor_is_kept_when_the_critic_weighs_nothing_and_left_when_it_weighs_much(monkeypatch):
    encoded = make_table(400, columns=NARROW[:3])
    before, kept, first, last = fit_and_watch(encoded, monkeypatch=monkeypatch, critic_weight=0.0)
    assert last <= 1.05 * first
    monkeypatch.undo()
    same, moved, again, worse = fit_and_watch(encoded, monkeypatch=monkeypatch, critic_weight=1_000.0)
    # Both start at the same place, and go apart.
    np.testing.assert_array_equal(before, same)
    assert first == again
    assert worse > 2 * last
    assert (
        np.abs(moved.mean(axis=0) - before.mean(axis=0)).sum()
        > 4 * np.abs(kept.mean(axis=0) - before.mean(axis=0)).sum()
    )


@pytest.mark.parametrize(
    ("setting", "value"), [("latent", 8), ("hidden_generator", (8,)), ("engine", "fused"), ("noise_multiplier", 2.0)]
)
def test_setting_of_the_lone_critic_is_refused_by_name_when_there_is_an_anchor(setting, value):
    with pytest.raises(UsageError, match=f"{setting.replace('_', '-')}: it needs the anchor none"):
        make_settings("dp-wgan", **{setting: value})
    assert getattr(make_settings("dp-wgan", anchor="none", **{setting: value}).critic, setting) == value


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("rounds", 3),
        ("ways", 2),
        ("most_cells", 100),
        ("codes", 30),
        ("fit_steps", 8),
        ("fit_learning_rate", 0.1),
        ("information_weight", 0.1),
    ],
)
def test_setting_of_the_fit_is_refused_by_name_when_there_is_no_anchor(setting, value):
    with pytest.raises(UsageError, match=f"without an anchor.*{setting.replace('_', '-')}"):
        make_settings("dp-wgan", anchor="none", **{setting: value})
    assert getattr(make_settings("dp-wgan", **{setting: value}).fit, setting) == value


def test_steps_are_refused_when_too_few_for_one_generator_step():
    with pytest.raises(UsageError, match="generator would stand still"):
        make_plan(make_table(40), steps=3, critic_steps_per_generator_step=4)


def test_settings_are_the_papers_when_there_is_no_anchor():
    plan = plan_run("dp-wgan", make_table(40).shape, anchor="none", steps=5)
    assert isinstance(plan.design, TrainingDesign)
    assert [release.label for release in plan.releases] == [CRITIC_LABEL]
    assert plan.design.settings.hidden_critic == (256, 256)
    assert make_settings("dp-wgan").critic.hidden_critic == (64,)
