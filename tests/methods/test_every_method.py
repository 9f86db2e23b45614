"""What every method of the registry owes: legal rows, all it charges and no more, a budget, and a model."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.errors import InputError, PrivacyError, UsageError
from dpwgan.methods.registry import METHODS, make_settings
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Gaussian, PoissonGaussian, Unprotected
from dpwgan.settings import declared
from dpwgan.table.encoded import EncodedTable, TableShape
from tests.ledgers import Watcher, open_for_plan
from tests.methods.images import make_images
from tests.methods.privacy_totals import (
    epsilon_from_rho,
    epsilon_with_critic,
    tighter_epsilon_from_rho,
    total_rho,
)
from tests.methods.runs import (
    NARROW,
    OF_IMAGES,
    VARIANTS,
    fit,
    make_plan,
    make_table,
    make_variant,
    refuse_illegal,
    reserve,
)
from tests.privacy.charges import get_epsilon


def is_short(variant: str) -> bool:
    """Whether a run takes next to no time: there are no networks, or the least that the method can do."""
    return variant == "dp-wgan, queries" or VARIANTS[variant][0] in ("independent", "query-gan", "ron-gauss")


TABLES: dict[str, tuple[EncodedTable, TableShape]] = {
    name: (table, table.shape)
    for name, table in {
        "every kind": make_table(60),
        "one column": make_table(50, columns=NARROW[:1]),
        "one number": make_table(2, columns=[NARROW[4]]),
        "one row": make_table(1, columns=[NARROW[2], NARROW[0]]),
        "three rows": make_table(3, columns=[NARROW[3], NARROW[4]]),
    }.items()
}
TABLES["images"] = make_images(60, side=8)
CASES = [
    (variant, table)
    for variant, (method, _) in VARIANTS.items()
    for table in TABLES
    if table == "every kind"
    or (method in OF_IMAGES if table == "images" else is_short(variant) and (table == "one row" or method != "dp-wgan"))
]
FORMAL = [name for name in VARIANTS if not name.endswith("published") and name != "loss-noise-gan"]
# With charges of every kind at epsilons of every size; what an epsilon does to charges, no method changes.
SHIPPED = [("dp-wgan, queries", "every kind", epsilon) for epsilon in (0.05, 30.0)]
SHIPPED += [
    (variant, table, 1.0)
    for variant in FORMAL
    if variant != "ron-gauss, laplace"
    for table in ("every kind", "images")
    if table == "every kind" or VARIANTS[variant][0] in OF_IMAGES
]
DELTA = 1e-5
# Their perceptron's numbers are cut to their range, and missing ones to nothing, when rows are decoded.
PERCEPTRONS = {name for name in VARIANTS if name.split(",")[0] in ("dp-gan", "dp-critic", "loss-noise-gan")}
PERCEPTRONS |= {"dp-wgan, none"}


def refuse_damaged(folder: Path, *, has_prior: bool) -> None:
    """Fails if a saved model is read of which a file is missing, empty, cut short or something else.

    Without its own file a model with a prior is that prior, which is a whole model.
    """
    for file in list(folder.iterdir()):
        content = file.read_bytes()
        for damaged in (b"", content[: len(content) // 2], b"{", b"[]", b"PK nothing", *([] if has_prior else [None])):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            with pytest.raises(InputError, match=r"damaged|missing|no model"):
                load_synthesizer(folder)
        file.write_bytes(content)


def test_every_method_of_the_registry_is_run():
    assert {method for method, _ in VARIANTS.values()} == set(METHODS)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "table"), CASES)
def test_rows_are_legal_and_what_was_planned_is_charged_when_a_method_runs(variant, table, tmp_path):
    encoded, shape = TABLES[table]
    plan, watcher = make_variant(variant, shape), Watcher()
    done = fit(VARIANTS[variant][0], encoded, plan, ledger=reserve(plan, observers=[watcher]))
    assert done.sampled.records == 200
    if variant in PERCEPTRONS and table != "images":
        assert np.all(np.isfinite(done.sampled.numbers))
        assert all(
            done.sampled.codes[:, span.source].max() < span.categories for span in shape.spans if span.head != "linear"
        )
    else:
        refuse_illegal(done.sampled)
    # What goes through the door is what was planned, and all of it was charged.
    lines = done.ledger.itemise()
    assert [line["label"] for line in lines] == [release.label for release in plan.releases]
    assert all(line["charged"] == line["reserved"] >= 1 for line in lines)
    planned = {release.label: release for release in plan.releases}
    assert all(release in plan.releases for release in watcher.releases)
    assert all(times == planned[label].times for label, times in Counter(watcher.order).items())
    steps = {label for label, release in planned.items() if isinstance(release.event, (PoissonGaussian, Unprotected))}
    assert set(watcher.order) | steps == set(planned)
    counts = [count for count, _, _ in done.progress]
    assert counts == sorted(counts)
    assert done.progress[-1][0] == done.progress[-1][1]
    if variant in FORMAL:
        stated = done.ledger.guarantee().epsilon
        assert done.ledger.epsilon_spent() == done.ledger.epsilon_reserved() == stated <= 1.0
        assert max(spent for _, _, spent in done.progress) <= stated
    else:
        with pytest.raises(PrivacyError):
            done.ledger.guarantee()
    assert (done.fitted.certificate is not None) is any("certificate" in label for label in planned)
    # A model that is saved and loaded draws the same rows, and others when the seed is another.
    done.fitted.save(tmp_path)
    first, again, other = (
        np.concatenate(
            [np.hstack([part.codes, part.numbers]) for part in model.sample(70, rng=np.random.default_rng(s))]
        )
        for model, s in ((done.fitted, 2), (load_synthesizer(tmp_path), 2), (done.fitted, 3))
    )
    np.testing.assert_allclose(first, again, atol=1e-6)
    if table == "every kind":
        assert np.any(first != other)
    if table in ("every kind", "images"):
        refuse_damaged(tmp_path, has_prior=variant.startswith("ron-dp-gan"))


@pytest.mark.parametrize("variant", [name for name in FORMAL if is_short(name)])
def test_fit_stops_before_a_release_when_it_was_spent(variant):
    encoded, shape = TABLES["images" if VARIANTS[variant][0] == "ron-gauss" else "every kind"]
    plan = make_variant(variant, shape)
    for spent in range(len(plan.releases)):
        watcher = Watcher()
        ledger = reserve(plan, observers=[watcher])
        ledger.charge(plan.releases[spent].label)
        with pytest.raises(PrivacyError, match="of"):
            fit(VARIANTS[variant][0], encoded, plan, ledger=ledger)
        release = plan.releases[spent]
        assert Counter(watcher.order)[release.label] < release.times


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_guarantee_is_opened_when_a_method_has_none(variant):
    plan = make_variant(variant, TABLES["every kind"][1])
    if variant in FORMAL:
        assert open_for_plan(plan, no_guarantee=False).guarantee().epsilon <= 1.0
    else:
        with pytest.raises(PrivacyError, match="has no guarantee"):
            open_for_plan(plan, no_guarantee=False)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("method", METHODS)
def test_claim_is_no_more_than_was_asked_for_when_a_method_is_planned(method, relation, epsilon):
    shape = replace(TABLES["every kind"][1], records=3_000)
    for variant in (name for name in FORMAL if VARIANTS[name][0] == method):
        for rule in ("moments", *(["amortized"] if epsilon == 1.0 else [])):
            plan = make_variant(variant, shape, epsilon=epsilon, relation=relation, rule=rule)
            guarantee = reserve(plan).guarantee()
            assert 0.9 * epsilon < guarantee.epsilon <= epsilon
            assert guarantee.neighboring_relation is relation
            if variant == "ron-gauss, laplace" or epsilon != 1.0:
                continue  # pure: what is paid beside it is in its own tests
            others = [(Gaussian(noise_multiplier=30.0 / epsilon), 1)]
            beside = make_variant(variant, shape, epsilon=epsilon, relation=relation, rule=rule, others=others)
            charges = [*others, *(release.charge for release in beside.releases)]
            total = beside.choice.accountant.get_epsilon(charges, delta=1e-5, neighboring_relation=relation)
            assert 0.9 * epsilon < total <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "table", "epsilon"), SHIPPED)
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_total_is_that_of_other_formulas_when_accounted_by_moments(variant, table, relation, epsilon):
    """Releases and steps as they are without any setting but the variant's own, by Renyi divergences added up anew."""
    method, own = VARIANTS[variant]
    own = {key: value for key, value in own.items() if key in ("anchor", "oracle", "noise", "formal")}
    # Of Laplace noise, which it may have too, nothing is said here.
    own |= {"noise": "gaussian"} if method == "independent" else {}
    for others in ([], [(Gaussian(noise_multiplier=30.0 / epsilon), 1)]):
        terms = {"epsilon": epsilon, "relation": relation, "others": others}
        plan = make_plan(method, replace(TABLES[table][1], records=300), **terms, **own)
        charges = [*others, *(release.charge for release in plan.releases)]
        total = epsilon_with_critic(charges, delta=DELTA, relation=relation)
        assert 0.99 * epsilon < total <= epsilon * (1 + 1e-4)
        if others:
            continue
        claimed, steps = reserve(plan).guarantee().epsilon, isinstance(charges[-1][0], PoissonGaussian)
        assert claimed == pytest.approx(total, rel=1e-4 if steps else 1e-6)
        if steps:
            # Not so where the critic's steps are left out of the total.
            assert (
                len(charges) == 1 or epsilon_with_critic(charges[:-1], delta=DELTA, relation=relation) < 0.999 * claimed
            )
        else:
            # zCDP alone, by two conversions: the claim is no more, and not much less, than the better one.
            rho = total_rho(charges, relation=relation)
            assert claimed <= epsilon_from_rho(rho, delta=DELTA)
            by_rho = tighter_epsilon_from_rho(rho, delta=DELTA)
            assert 0.85 * by_rho <= claimed <= by_rho * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("variant", FORMAL)
@settings(max_examples=5)
@given(
    records=st.integers(100, 10**6),
    epsilon=st.floats(0.05, 20.0),
    relation=st.sampled_from(NeighboringRelation),
    spent=st.lists(st.floats(20.0, 100.0), max_size=2),
)
def test_releases_are_those_that_the_noise_was_calibrated_for(variant, records, epsilon, relation, spent):
    shape = replace(TABLES["every kind"][1], records=records)
    others = [] if variant == "ron-gauss, laplace" else [(Gaussian(noise_multiplier=z / epsilon), 1) for z in spent]
    plan = make_variant(variant, shape, epsilon=epsilon, relation=relation, others=others)
    assert plan.choice.chosen_charges == tuple(release.charge for release in plan.releases)
    assert plan.choice.terms.other_charges == tuple(others)
    assert get_epsilon(plan.choice) <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_plan_says_what_it_costs_when_asked(variant):
    method, _ = VARIANTS[variant]
    for table in ("every kind", *(["images"] if method in OF_IMAGES else [])):
        shape = TABLES[table][1]
        plan, more = (make_variant(variant, replace(shape, records=records)) for records in (300, 300_000))
        assert 0 < plan.cost.row_bytes <= plan.cost.memory_bytes <= more.cost.memory_bytes
        assert 0 < plan.cost.seconds <= more.cost.seconds < 3_000
        assert more.cost.row_bytes == 1_000 * plan.cost.row_bytes
        assert json.dumps(plan.settings)


@pytest.mark.parametrize("method", METHODS)
def test_setting_is_refused_by_name_when_it_is_another_methods(method):
    own = set(declared(METHODS[method].settings))
    strange = {key for entry in METHODS.values() for key in declared(entry.settings)} - own
    assert strange
    for setting in strange:
        with pytest.raises(UsageError, match=f"{method} has no setting {setting.replace('_', '-')}"):
            make_settings(method, **{setting: 3})


@pytest.mark.parametrize(
    ("method", "asked", "words"),
    [
        ("query-gan", {"oracle": "one-layer", "ways": 3}, "ways"),
        ("query-gan", {"oracle": "one-layer", "fit_steps": 3}, "fit-steps"),
        ("query-gan", {"oracle": "one-layer", "most_cells": 3}, "most-cells"),
        ("dp-gan", {"prior_share": 0.5}, "prior-share"),
        ("dp-gan", {"private_part": "generator", "l2_clip_norm": 1.0}, "clip-norm: as published"),
        ("dp-gan", {"private_part": "generator", "projection_dimension": 3}, "projection-dimension"),
        ("ron-dp-gan", {"latent": 3}, "latent"),
        ("dp-critic", {"l2_clip_norm": 2.0}, "clip-norm with --formal only"),
    ],
)
def test_setting_is_refused_by_name_when_it_does_not_go_with_the_others(method, asked, words):
    with pytest.raises(UsageError, match=words):
        make_settings(method, **asked)
