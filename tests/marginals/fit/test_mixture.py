"""The mixture of codes: its probabilities, its steps, and that a fit reaches what it can reach."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.answers.measurements import MeasuredMarginals, answer_pairs
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.fit import mixture as mixture_module
from dpwgan.marginals.fit.code_information import CodeInformation
from dpwgan.marginals.fit.mixture import fit
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.loss import Codes, Probabilities, Sums
from tests.counts import count_marginal
from tests.marginals.groups import find_slope, make_groups, make_mixture, see

SIZES = (3, 1, 4, 2)
LAYOUT = GroupLayout(SIZES)


def soften(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Softmaxes in float64, attribute by attribute."""
    parts = []
    for attribute in range(len(SIZES)):
        powers = np.exp(logits[:, LAYOUT.get_slice(attribute)].astype(np.float64))
        parts.append(powers / powers.sum(axis=1, keepdims=True))
    return np.hstack(parts)


@pytest.mark.parametrize("spread", [0.0, 2.0, 1e4])
def test_probabilities_add_to_one_in_each_attribute_when_logits_are_small_or_huge(spread):
    probabilities = make_mixture(50, layout=LAYOUT, seed=1, spread=spread).probabilities()
    assert probabilities.dtype == np.float32
    assert probabilities.min() >= 0
    for attribute in range(len(SIZES)):
        sums = probabilities[:, LAYOUT.get_slice(attribute)].astype(np.float64).sum(axis=1)
        assert sums == pytest.approx(np.ones(50), abs=1e-6)


def test_probabilities_are_softmaxes_when_computed_in_float64():
    mixture = make_mixture(50, layout=LAYOUT, seed=2)
    assert mixture.probabilities() == pytest.approx(soften(mixture.logits), abs=1e-6)


def test_step_goes_along_the_slope_of_the_softmax_when_compared_with_finite_differences():
    """Adam's first step only shows signs; a second loss, linear in the logits, shows the slope it was given."""
    mixture = make_mixture(4, layout=LAYOUT, seed=3, spread=1.0)
    logits = mixture.logits.astype(np.float64)
    upstream = np.random.default_rng(4).standard_normal(logits.shape).astype(np.float32)

    expected = find_slope(lambda at: float((soften(at) * upstream).sum()), logits)  # type: ignore[arg-type]
    mixture.probabilities()
    before = mixture.logits.copy()
    mixture.step(upstream, learning_rate=0.01)
    moved = (mixture.logits - before).astype(np.float64)
    clear = np.abs(expected) > 1e-4
    assert clear.sum() >= 0.8 * (logits.size - 4)
    assert moved[clear] == pytest.approx(-0.01 * np.sign(expected[clear]), rel=1e-2)
    # The slope itself: Adam's first mean, without the factors that are the same for all.
    slope = mixture._mean.T
    assert slope == pytest.approx(expected, abs=1e-5)


def test_steps_are_those_of_adam_when_computed_in_float64():
    mixture = make_mixture(5, layout=LAYOUT, seed=5)
    rng = np.random.default_rng(6)
    logits = mixture.logits.astype(np.float64)
    mean, square = np.zeros_like(logits), np.zeros_like(logits)
    for number in range(1, 8):
        upstream = rng.standard_normal(logits.shape).astype(np.float32)
        mixture.probabilities()
        mixture.step(upstream, learning_rate=0.1)
        probabilities = soften(logits)  # type: ignore[arg-type]
        slope = np.empty_like(logits)
        for attribute in range(len(SIZES)):
            piece = LAYOUT.get_slice(attribute)
            inner = (probabilities[:, piece] * upstream[:, piece]).sum(axis=1, keepdims=True)
            slope[:, piece] = 5 * probabilities[:, piece] * (upstream[:, piece] - inner)
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        logits -= 0.1 * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.99**number)) + 1e-8)
        # An attribute of one group has no slope but rounding, which changes nothing that is drawn.
        several = np.delete(np.arange(LAYOUT.width), LAYOUT.starts[1])
        assert mixture.logits[:, several] == pytest.approx(logits[:, several], abs=2e-3)


@pytest.mark.parametrize("cells", [1, 20, 35])
def test_steps_are_the_same_when_they_are_taken_in_several_blocks(monkeypatch, cells):
    whole = make_mixture(5, layout=LAYOUT, seed=11)
    monkeypatch.setattr(mixture_module, "_BLOCK_CELLS", cells)
    cut = make_mixture(5, layout=LAYOUT, seed=11)
    rng = np.random.default_rng(12)
    for _ in range(4):
        upstream = rng.standard_normal((5, LAYOUT.width)).astype(np.float32)
        for mixture in (whole, cut):
            mixture.probabilities()
            mixture.step(upstream, learning_rate=0.1)
        assert np.array_equal(whole.logits, cut.logits)
    assert len(whole._blocks) == 1 < len(cut._blocks)


def test_fit_goes_on_as_if_it_had_not_stopped_when_it_is_packed_between():
    groups = make_groups(200, sizes=SIZES, seed=13)
    losses = [measure_exactly(groups), CodeInformation(weight=0.01)]
    rates = {"steps": 12, "learning_rate": 0.1, "last_rate": 0.01}
    through, stopped, resumed = (make_mixture(20, layout=LAYOUT, seed=seed) for seed in (14, 14, 15))
    fit(through, losses, **rates)  # type: ignore[arg-type]
    fit(stopped, losses, **rates, last=5)  # type: ignore[arg-type]
    resumed.unpack({name: array.copy() for name, array in stopped.pack().items()})
    fit(resumed, losses, **rates, first=5)  # type: ignore[arg-type]
    assert np.array_equal(through.logits, resumed.logits)


def measure_exactly(groups: npt.NDArray[np.int32]) -> MeasuredMarginals:
    measured = MeasuredMarginals(Views(LAYOUT))
    for pair in itertools.combinations(range(len(SIZES)), 2):
        measured.add(pair, count_marginal(groups, pair, LAYOUT) / len(groups), stddev=1.0)
    return measured


def test_fit_reaches_every_pair_when_there_is_no_noise():
    groups = make_groups(500, sizes=SIZES, seed=7)
    measured, mixture = measure_exactly(groups), make_mixture(100, layout=LAYOUT, seed=8)
    ticks: list[int] = []
    fit(mixture, [measured], steps=1_500, learning_rate=0.1, last_rate=0.001, tick=lambda: ticks.append(1))
    answers = answer_pairs(mixture.probabilities())
    for pair in measured:
        left, right = (LAYOUT.get_slice(attribute) for attribute in pair)
        assert np.abs(answers[left, right] - count_marginal(groups, pair, LAYOUT) / 500).max() < 1e-3
    assert len(ticks) == 1_500


def test_fit_adds_losses_and_lowers_its_rate_when_there_are_several():
    class Recorder:
        """A generator that keeps what it is told."""

        def __init__(self) -> None:
            self.told: list[tuple[float, float]] = []
            self.logits = np.zeros((2, 3))

        def cut(self) -> "list[Recorder]":
            return [self]

        def count_steps(self, steps: int) -> None:
            """Not of interest here."""

        def see(self) -> Codes:
            return see(np.full((2, 3), 0.5, np.float32))

        def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
            self.told.append((float(gradient[0, 0]), learning_rate))

    class Constant:
        def __init__(self, slope: float) -> None:
            self._slope = slope

        def count_sums(self) -> int:
            return 1

        def add_up(self, codes: Codes, *, into: Sums) -> None:
            into[0] = self._slope

        def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
            into += sums[0]

    recorder = Recorder()
    fit(recorder, [Constant(1.0), Constant(0.25)], steps=3, learning_rate=0.1, last_rate=0.001)
    assert [slope for slope, _ in recorder.told] == [1.25] * 3
    assert [rate for _, rate in recorder.told] == pytest.approx([0.1, 0.01, 0.001])
    fit(recorder, [], steps=1, learning_rate=0.1, last_rate=0.001)
    assert recorder.told[-1] == (0.0, 0.1)


def test_next_step_is_a_first_one_when_adam_has_forgotten():
    upstream = np.random.default_rng(9).standard_normal((5, LAYOUT.width)).astype(np.float32)
    used, fresh = make_mixture(5, layout=LAYOUT, seed=10), make_mixture(5, layout=LAYOUT, seed=10)
    for _ in range(3):
        used.probabilities()
        used.step(-upstream, learning_rate=0.1)
    used.logits[:] = fresh.logits
    used.forget()
    for mixture in (used, fresh):
        mixture.probabilities()
        mixture.step(upstream, learning_rate=0.1)
    assert np.array_equal(used.logits, fresh.logits)
