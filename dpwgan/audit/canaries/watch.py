"""What an attacker sees who is shown every release: noisy counts and noisy sums of gradients, one after another.

The auditor also sees each before its noise, so that it can say how far one canary moves it and what the noise is.
Nothing here changes a release, but for a replay, which gives the releases of an earlier run once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from dpwgan.app.planning import RunPlan
from dpwgan.errors import DpwganError
from dpwgan.marginals import one_ways, queries
from dpwgan.marginals import pairs as moments
from dpwgan.methods import query_gan
from dpwgan.methods.published import dp_critic, one_layer
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.table.encoded import EncodedTable

if TYPE_CHECKING:
    from dpwgan.critic.plan import TrainingPlan

Numbers = npt.NDArray[np.float64]

NOISY_MODULES = (one_ways, moments, queries, one_layer, query_gan, dp_critic)
"""The modules that add Gaussian noise to what they counted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """One release of numbers. Units: `exact` and `released` are in sensitivities of the release.

    `line`: the line of the ledger that was charged last before it.
    """

    line: str
    sensitivity: float
    exact: Numbers
    released: Numbers

    @property
    def noise(self) -> Numbers:
        """What was added."""
        return self.released - self.exact


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One critic step, summed up weight tensor by weight tensor. Units: clip norms.

    `noise`: sums of squares of what was added to the sums. `change`: the same of how it differs from the noise of the
    step before; None for every first step of two. `influence`: how long a vector the canary would have added.
    """

    noise: Numbers
    change: Numbers | None
    influence: Numbers


@dataclass(eq=False)
class Record:
    """Everything that one run released, in order. `sizes`: how many numbers each weight tensor of the critic holds."""

    releases: list[Release] = field(default_factory=list)
    selections: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class ReplayEnded(Exception):
    """Everything that was to be replayed has been."""


class WatchedLedger:
    """A ledger that remembers what it was charged with last. All else is the ledger's own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.last = ""

    def charge(self, label: str, count: int = 1) -> None:
        """Charges, as `Ledger.charge`."""
        self._ledger.charge(label, count)
        self.last = label

    # The ledger's own would charge past this one.
    release: Any = Ledger.release

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def fit_watched(encoded: EncodedTable, run_plan: RunPlan, *, ledger: WatchedLedger, streams: Streams) -> Any:
    """Fits as a run does, but tells nobody how far it is.

    Privacy: reads rows, and charges `ledger` alone.
    Raises: as the method's fit.
    """
    return run_plan.method.fit(
        encoded,
        run_plan.plan,
        streams=streams,
        ledger=ledger,
        progress=lambda done, of, epsilon: None,
        device=run_plan.config.device,
        threads=run_plan.config.threads,
    )


@contextmanager
def watched(ledger: WatchedLedger, *, canary: int | None = None, seed: int | None = None) -> Iterator[Record]:
    """Records every release of the fit inside the block.

    `canary`: the row whose influence on each critic step is measured; None watches no critic. `seed`: of what the
    canary's influence on a step with a gradient penalty is drawn with.
    """
    record = Record()
    select: Any = vars(queries)["select_by_exponential_mechanism"]

    def note_selection(*scores: Any, **more: Any) -> Any:
        index, event = select(*scores, **more)
        record.selections.append(index)
        return index, event

    def note(add: Callable[..., Any]) -> Callable[..., Any]:
        def adding(values: npt.ArrayLike, *, sensitivity: float, **more: Any) -> Any:
            released, event = add(values, sensitivity=sensitivity, **more)
            exact, seen = np.asarray(values, np.float64), np.asarray(released, np.float64)
            record.releases.append(
                Release(
                    line=ledger.last,
                    sensitivity=sensitivity,
                    exact=exact.ravel() / sensitivity,
                    released=seen.ravel() / sensitivity,
                )
            )
            return released, event

        return adding

    with ExitStack() as stack:
        for module in NOISY_MODULES:
            stack.enter_context(mock.patch.object(module, "add_gaussian_noise", note(module.add_gaussian_noise)))
        stack.enter_context(mock.patch.object(queries, "select_by_exponential_mechanism", note_selection))
        if canary is not None:
            from dpwgan.critic import private_step
            from dpwgan.methods.published import gradient_penalty_step

            watched_step = make_watched_step(private_step.FusedStep, canary=canary, record=record)
            stack.enter_context(mock.patch.object(private_step, "FusedStep", watched_step))
            with_penalty = make_watched_penalty_step(
                gradient_penalty_step.PrivatePenaltyStep, canary=canary, record=record, seed=seed
            )
            stack.enter_context(mock.patch.object(gradient_penalty_step, "PrivatePenaltyStep", with_penalty))
        yield record


@contextmanager
def replayed(record: Record) -> Iterator[list[Numbers]]:
    """Makes the fit inside the block release what another one did, and notes what it would have added noise to.

    Two worlds with one history: whatever differs before the noise is the influence of the rows that differ. Ends the
    fit with `ReplayEnded` where the record ends or a critic begins; that is caught here.
    Raises: DpwganError, an internal error, if the fit asks for other releases than were recorded.
    """
    exact: list[Numbers] = []
    selections = iter(record.selections)

    def select(*_: Any, epsilon: float, replace_one_factor: float = 2.0, **__: Any) -> Any:
        return next(selections), None

    def add(values: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float, **_: Any) -> Any:
        array = np.asarray(values, np.float64)
        known = record.releases[len(exact)]
        # The sensitivity may be a function of what was released before, to the last bit but one.
        if known.exact.size != array.size or abs(known.sensitivity / sensitivity - 1) > 1e-9:
            raise DpwganError("Internal error: a replayed run took another way.")
        exact.append(array.ravel() / sensitivity)
        released = (known.released * known.sensitivity).reshape(array.shape)
        if len(exact) == len(record.releases):
            raise ReplayEnded
        from dpwgan.privacy.events import gaussian

        return released, gaussian(noise_multiplier=noise_multiplier)

    with ExitStack() as stack:
        for module in NOISY_MODULES:
            stack.enter_context(mock.patch.object(module, "add_gaussian_noise", add))
        stack.enter_context(mock.patch.object(queries, "select_by_exponential_mechanism", select))
        try:
            yield exact
        except ReplayEnded:
            return
    if len(exact) != len(record.releases):
        raise DpwganError("Internal error: a replayed run released less.")


def make_watched_step(step_class: Any, *, canary: int, record: Record) -> Any:
    """Makes a critic step that does what `step_class` does and notes its noise and the canary's influence."""
    import tensorflow as tf

    class _Tap:
        """Keeps the noisy sums on their way to the update."""

        def __init__(self, update: Any, sizes: Sequence[int]) -> None:
            self._update = update
            self.seen = tf.Variable(tf.zeros(sum(sizes)))

        def apply(self, noisy_sums: Sequence[Any], generated_sums: Sequence[Any], **more: Any) -> None:
            self.seen.assign(tf.concat([tf.reshape(part, [-1]) for part in noisy_sums], axis=0))
            self._update.apply(noisy_sums, generated_sums, **more)

    class Watched(step_class):  # type: ignore[misc]
        """The same step, watched."""

        def __init__(self, *args: Any, plan: TrainingPlan, **parts: Any) -> None:
            super().__init__(*args, plan=plan, **parts)
            self._tap = _Tap(self._update, self._sizes)
            self._update: Any = self._tap
            self._before: Numbers | None = None
            record.sizes.extend(self._sizes)

        def trace(self, rows: Any, drawn: Any, learning_rate: Any) -> None:
            others = tf.boolean_mask(rows, rows != canary)
            sums = [self._without_noise(batch) for batch in (rows, others, tf.concat([others, [canary]], axis=0))]
            super().trace(rows, drawn, learning_rate)
            tf.numpy_function(self._note, [self._tap.seen, *sums], [])

        def _note(self, noisy: Any, exact: Any, without: Any, there: Any) -> None:
            noise = self._subtract(noisy, exact)
            change = None if self._before is None else self._square(noise - self._before)
            self._before = noise if change is None else None
            influence = np.sqrt(self._square(self._subtract(there, without)))
            record.steps.append(Step(noise=self._square(noise), change=change, influence=influence))

        def _subtract(self, whole: Any, part: Any) -> Numbers:
            difference: Numbers = (whole.astype(np.float64) - part) / self._plan.l2_clip_norm
            return difference

        def _square(self, numbers: Numbers) -> Numbers:
            return _add_squares(numbers, self._sizes)

        def _without_noise(self, rows: Any) -> Any:
            sums, _ = self.clipped_sums(rows)
            return tf.concat([tf.reshape(part, [-1]) for part in sums], axis=0)

    return Watched


def make_watched_penalty_step(step_class: Any, *, canary: int, record: Record, seed: int | None) -> Any:
    """Does as `make_watched_step` for a step with a gradient penalty, to whose sum each record adds what is its own.

    The canary's influence is its part of the sum with latents of its own, as in the batch.
    """
    latents = np.random.default_rng(seed)

    class Watched(step_class):  # type: ignore[misc]
        """The same step, watched."""

        def __init__(self, players: Any, *, plan: TrainingPlan, **parts: Any) -> None:
            super().__init__(players, plan=plan, **parts)
            self._before: Numbers | None = None
            self._exact: Any = None
            self._descend_on = vars(self)["_descend"]
            self._descend: Any = self._note
            record.sizes.extend(self._sizes)

        def __call__(self, rows: npt.NDArray[np.int64], **more: Any) -> None:
            alone = super().clipped_sum(np.array([canary]), noise_rng=latents)
            self._influence = np.sqrt(_add_squares(_flatten(alone) / self._plan.l2_clip_norm, self._sizes))
            super().__call__(rows, **more)

        def clipped_sum(self, rows: npt.NDArray[np.int64], **more: Any) -> Any:
            self._exact = super().clipped_sum(rows, **more)
            return self._exact

        def _note(self, gradients: Sequence[Any], **more: Any) -> None:
            noisy = _flatten(gradients) * self._plan.expected_batch_size
            noise = (noisy - _flatten(self._exact)) / self._plan.l2_clip_norm
            change = None if self._before is None else _add_squares(noise - self._before, self._sizes)
            self._before = noise if change is None else None
            record.steps.append(Step(noise=_add_squares(noise, self._sizes), change=change, influence=self._influence))
            self._descend_on(gradients, **more)

    return Watched


def _flatten(tensors: Sequence[Any]) -> Numbers:
    return np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in tensors])


def _add_squares(numbers: Numbers, sizes: Sequence[int]) -> Numbers:
    """Sums squares weight tensor by weight tensor."""
    squares: Numbers = np.add.reduceat(np.square(numbers), np.cumsum([0, *sizes])[:-1])
    return squares


def group_by_line(releases: Sequence[Release]) -> Mapping[str, list[int]]:
    """Gives the positions of each line's releases, in order."""
    lines: dict[str, list[int]] = {}
    for position, release in enumerate(releases):
        lines.setdefault(release.line, []).append(position)
    return lines
