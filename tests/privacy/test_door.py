"""The door: charge, compute, then the noise that was charged for, and nothing else; and the token for steps."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import (
    Event,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Wishart,
    discrete_gaussian,
)
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.mechanisms.discovery import select_categories
from dpwgan.privacy.mechanisms.discrete_gaussian import add_discrete_gaussian_noise
from dpwgan.privacy.mechanisms.exponential import select_by_exponential_mechanism
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.privacy.mechanisms.laplace import add_laplace_noise, find_scale
from dpwgan.privacy.mechanisms.normal_numbers import draw_normal_numbers, draw_words
from dpwgan.privacy.mechanisms.wishart import add_wishart_noise
from dpwgan.privacy.poisson import sample_poisson_rows
from dpwgan.privacy.randomness import make_streams
from dpwgan.privacy.steps import Steps
from tests.ledgers import Watcher, make_release, open_ledger

COUNTS = np.arange(12).reshape(3, 4)
LAPLACE_STDDEV = math.sqrt(2) * float(Fraction(*find_scale(5, 0.3)))
STEP = PoissonGaussian(sampling_probability=0.25, noise_multiplier=2.0)


def open_steps(times: int = 6, **more: Any) -> tuple[Ledger, Steps]:
    ledger = open_ledger([make_release("steps", STEP, times, sensitivity=0.5)])
    return ledger, ledger.open("steps", **more)


def refuse(words: str, act: Callable[..., Any], *arguments: Any, **more: Any) -> None:
    """Sees an act refused with these words."""
    with pytest.raises(PrivacyError, match=words):
        act(*arguments, **more)


# ------------------------------------------------------------------------------------------------------- one release


@pytest.mark.parametrize(
    ("event", "exact", "add", "sizes", "stddev"),
    [
        (Gaussian(noise_multiplier=3.0), COUNTS / 7, add_gaussian_noise, {"sensitivity": 5.0}, 15.0),
        (discrete_gaussian(noise_multiplier=3.0, cells=25), COUNTS, add_discrete_gaussian_noise, {}, 15.0),
        (Laplace(epsilon=0.3), COUNTS, add_laplace_noise, {"sensitivity": 5}, LAPLACE_STDDEV),
        (Wishart(epsilon=0.3), np.eye(3, dtype=np.int64), add_wishart_noise, {"trace_bound": 5}, None),
    ],
    ids=["gaussian", "discrete", "laplace", "wishart"],
)
def test_noise_is_that_of_the_reserved_event_when_released(event, exact, add, sizes, stddev):
    watcher = Watcher()
    ledger = open_ledger([make_release("counts", event, sensitivity=5.0)], source=7, observers=[watcher])
    noisy = ledger.release("counts", lambda: exact)
    values = add(exact, event, **sizes, rng=make_streams(7).noise)
    if stddev is None:
        values, stddev = values
    assert np.array_equal(noisy.values, values)
    assert not np.array_equal(noisy.values, exact)
    assert noisy.stddev == pytest.approx(stddev)
    assert np.array_equal(watcher.exact[0], exact)
    assert np.array_equal(watcher.noisy[0], noisy.values)
    assert watcher.releases == [ledger.find("counts")]


def test_arrays_are_released_as_one_vector_when_they_are_released_together():
    release = make_release("counts", Gaussian(noise_multiplier=3.0), 2)
    ledger = open_ledger([release], source=7)
    parts = ledger.release_all("counts", lambda: [COUNTS, np.ones(5)])
    together = open_ledger([release], source=7).release("counts", lambda: np.concatenate([COUNTS.ravel(), np.ones(5)]))
    assert ledger.charged == {"counts": 1}
    assert np.array_equal(np.concatenate([part.values.ravel() for part in parts]), together.values)
    assert parts[0].values.shape == COUNTS.shape


def test_selection_is_that_of_the_reserved_epsilon_when_selected():
    scores = np.linspace(0.0, 60.0, 30)
    watcher = Watcher()
    release = make_release("selections", ExponentialSelection(epsilon=0.4), 200, sensitivity=3.0)
    ledger = open_ledger([release], source=7, observers=[watcher])
    rng = make_streams(7).noise
    for _ in range(200):
        chosen = ledger.select("selections", lambda: scores)
        assert chosen == select_by_exponential_mechanism(scores, release.event, sensitivity=3.0, rng=rng)
    assert len(set(watcher.chosen)) > 5
    assert ledger.charged == {"selections": 200}


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_cells_are_those_of_the_ledgers_relation_and_budget_when_discovered(relation):
    events = [StableSelection(epsilon=epsilon, delta=1e-4) for epsilon in (0.3, 0.9)]
    lines = [make_release(f"cells {number}", event) for number, event in enumerate(events)]
    ledger = open_ledger(lines, relation=relation, source=7, budget=Budget(epsilon=10.0, delta=1e-3))
    counts = [{str(cell): cell for cell in range(80)} for _ in events]

    def count() -> list[dict[str, int]]:
        assert ledger.charged == {"cells 0": 1, "cells 1": 1}
        return counts

    rng = make_streams(7).noise
    expected = [
        select_categories(each, event, rng=rng, neighboring_relation=relation)
        for each, event in zip(counts, events, strict=True)
    ]
    assert ledger.discover(["cells 0", "cells 1"], count) == expected
    assert expected[0] != expected[1]


def refuse_to_compute() -> Any:
    pytest.fail("rows were read")


@pytest.mark.parametrize("act", ["release", "select"])
def test_nothing_is_computed_when_it_was_not_charged(act):
    event: Event = Gaussian(noise_multiplier=1.0) if act == "release" else ExponentialSelection(epsilon=1.0)
    ledger = open_ledger([make_release("line", event)])
    door = getattr(ledger, act)

    def compute() -> Any:
        assert ledger.charged == {"line": 1}
        return np.ones(2)

    door("line", compute)
    for label, words in (("line", "1 of 1"), ("other", "no reservation")):
        refuse(words, door, label, refuse_to_compute)
    blind = open_ledger([make_release("line", event)], source=None)
    refuse("without a source", getattr(blind, act), "line", refuse_to_compute)
    assert blind.charged == {"line": 0}


def test_charges_are_those_of_their_own_line_when_there_are_several():
    noise, selection = Gaussian(noise_multiplier=1.0), ExponentialSelection(epsilon=1.0)
    events = {"first": noise, "counts": noise, "steps": STEP, "selections": selection, "last": noise}
    ledger = open_ledger([make_release(label, event, 9) for label, event in events.items()])
    ledger.release("counts", lambda: COUNTS)
    for _ in range(2):
        ledger.select("selections", lambda: np.ones(2))
    ledger.open("steps").charge(3)
    assert ledger.charged == {"first": 0, "counts": 1, "steps": 3, "selections": 2, "last": 0}


def test_a_charge_stands_when_computing_fails():
    ledger = open_ledger([make_release("line", Gaussian(noise_multiplier=1.0))])
    with pytest.raises(ZeroDivisionError):
        ledger.release("line", lambda: np.ones(1 // 0))
    assert ledger.charged == {"line": 1}


def test_acts_of_one_kind_are_refused_when_another_kind_was_charged():
    events = [Gaussian(noise_multiplier=2.0), ExponentialSelection(epsilon=1.0), STEP]
    for event in (*events, StableSelection(epsilon=1.0, delta=1e-9)):
        ledger = open_ledger([make_release("line", event, 4)])
        steps = ledger.open("line")
        steps.charge(1)
        if not isinstance(event, Gaussian):
            refuse("no noise on numbers", ledger.release, "line", lambda: np.ones(2))
        if not isinstance(event, ExponentialSelection):
            refuse("no selection", ledger.select, "line", lambda: np.ones(2))
        if not isinstance(event, StableSelection):
            refuse("no discovery", ledger.discover, ["line"], lambda: [{"a": 3}])
        if event is not STEP:
            refuse("no batches", steps.draw_batches, 5)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_release_is_refused_when_its_sensitivity_is_no_size(sensitivity):
    refuse("sensitivity", make_release, "line", Gaussian(noise_multiplier=1.0), sensitivity=sensitivity)


def test_counts_are_refused_when_their_sensitivity_is_another_than_their_events():
    counts = discrete_gaussian(noise_multiplier=1.0, cells=4)
    refuse("the root of that", make_release, "line", counts, sensitivity=1.0)
    ledger = open_ledger([make_release("line", Laplace(epsilon=1.0), sensitivity=1.5)])
    refuse("whole numbers", ledger.release, "line", lambda: COUNTS)


def test_stddev_is_refused_when_the_event_has_none():
    for event in (ExponentialSelection(epsilon=1.0), Wishart(epsilon=1.0)):
        with pytest.raises(PrivacyError, match="no stddev"):
            _ = make_release("line", event).stddev
    assert make_release("line", STEP, sensitivity=0.5).stddev == 1.0


# -------------------------------------------------------------------------------------------------------------- steps


def test_batches_and_noise_are_those_of_what_was_reserved_when_steps_are_taken():
    _, steps = open_steps()
    streams = make_streams(1)
    steps.charge(6)
    expected = [sample_poisson_rows(500, sampling_probability=0.25, rng=streams.batches) for _ in range(3)]
    for batch, rows in zip(steps.draw_batches(500, steps=3), expected, strict=True):
        assert np.array_equal(batch, rows)
    assert steps.stddev == 1.0
    assert np.array_equal(steps.draw_words(10, steps=3), draw_words(10, rng=streams.noise, sets=3))
    for step_noise in ("plain", "fast"):
        steps.draw_batches(500)
        drawn = steps.draw_normal_numbers(11, step_noise=step_noise)  # type: ignore[arg-type]
        wanted = draw_normal_numbers(11, stddev=1.0, rng=streams.noise, step_noise=step_noise)  # type: ignore[arg-type]
        assert np.array_equal(drawn, wanted)
    assert steps.secrets.random() == streams.noise.random()


def test_steps_are_refused_when_they_were_not_charged():
    ledger, steps = open_steps(5)
    refuse("0 of 0", steps.draw_batches, 9)
    steps.charge(2)
    steps.draw_batches(9, steps=2)
    steps.draw_words(3, steps=2)
    refuse("2 of 2 charged", steps.draw_batches, 9)
    steps.charge(3)
    refuse("2 of 5 charged", steps.draw_batches, 9, steps=4)
    refuse("5 of 5 reserved", steps.charge, 1)
    refuse("whole number", steps.draw_batches, 9, steps=0)
    assert ledger.charged == {"steps": 5}


def test_steps_that_an_earlier_life_charged_are_not_taken_again_when_a_run_goes_on():
    journal = Journal({"life": 1, "key": None, "spent": [], "charged": {"steps": 4}})
    steps = open_ledger([make_release("steps", STEP, 6)], journal=journal).open("steps")
    assert steps.first == 4
    refuse("4 of 4 charged", steps.draw_batches, 9)
    steps.charge(2)
    steps.draw_batches(9, steps=2)
    refuse("6 of 6 reserved", steps.charge, 1)


def test_batches_and_noise_take_turns_when_steps_are_taken():
    _, steps = open_steps()
    steps.charge(6)
    refuse("without a batch", steps.draw_normal_numbers, 3)
    steps.draw_batches(9, steps=2)
    refuse("before the noise", steps.draw_batches, 9)
    refuse("without a batch", steps.draw_words, 3, steps=3)
    steps.draw_normal_numbers(3)
    refuse("before the noise", steps.draw_batches, 9)
    steps.draw_normal_numbers(3)
    steps.draw_batches(9)


def test_a_worker_draws_batches_and_no_noise_when_its_ledger_is_charged_with_the_chiefs_counts():
    ledger, steps = open_steps(with_noise=False)
    refuse("0 of 0", steps.draw_batches, 9)
    ledger.charge("steps", 3)
    for _ in range(3):
        steps.draw_batches(9)
    refuse("3 of 3 charged", steps.draw_batches, 9)
    for draw in (steps.draw_words, steps.draw_normal_numbers):
        refuse("by the chief alone", draw, 3)


def test_steps_are_told_when_a_row_is_watched():
    watcher, blind = Watcher(row=4), Watcher()
    ledger = open_ledger([make_release("steps", STEP, 3)], observers=[blind, watcher])
    steps = ledger.open("steps")
    assert steps.watched_row == 4
    steps.tell((2,), np.ones(2), np.zeros(2), np.ones(2))
    assert len(watcher.steps) == 1
    assert blind.steps == []
    assert open_ledger([make_release("steps", STEP, 3)], observers=[blind]).open("steps").watched_row is None


def test_streams_are_lent_only_for_acts_that_protect_nothing() -> None:
    ledger = open_ledger([make_release("counts", Gaussian(noise_multiplier=9.0), 1)])
    refuse("drawn by the ledger", ledger.lend_streams, "counts")
