"""Deliberately broken twins of the private mechanisms, which the audit has to catch: sources of noise, and clips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Floats32
from dpwgan.privacy.mechanisms.normal_numbers import StepNoise, Words
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Noisy, Release
from dpwgan.table.encoded import EncodedTable


class Weaker(NoiseSource):
    """Half the noise, on counts and on sums of gradients."""

    def add_noise(self, release: Release, exact: npt.NDArray[Any]) -> Noisy:
        noisy = super().add_noise(release, exact)
        return Noisy(values=exact + 0.5 * (noisy.values - exact), stddev=noisy.stddev)

    def get_stddev(self, release: Release) -> float:
        return 0.5 * super().get_stddev(release)


class Twice(NoiseSource):
    """Every second release has the noise of the one before it, where they have the same size."""

    def __init__(self, **streams: Any) -> None:
        super().__init__(**streams)
        self._kept: dict[Any, Any] = {}

    def add_noise(self, release: Release, exact: npt.NDArray[Any]) -> Noisy:
        noisy = super().add_noise(release, exact)
        unit = noisy.stddev
        noise = self._keep(exact.size, ((noisy.values - exact) / unit).ravel())
        return Noisy(values=exact + unit * noise.reshape(exact.shape), stddev=unit)

    def draw_words(self, release: Release, pairs: int, *, steps: int) -> Words:
        words = super().draw_words(release, pairs, steps=steps)
        for step in range(steps):
            words[step] = self._keep("words", words[step].copy())
        return words

    def draw_normal_numbers(self, release: Release, size: int, *, step_noise: StepNoise) -> Floats32:
        drawn: Floats32 = self._keep("step", super().draw_normal_numbers(release, size, step_noise=step_noise))
        return drawn

    def _keep(self, key: Any, fresh: Any) -> Any:
        if key in self._kept:
            return self._kept.pop(key)
        self._kept[key] = fresh
        return fresh


SOURCES: dict[str, type[NoiseSource]] = {"noise halved": Weaker, "same noise twice": Twice}
CLIPS = ("no clipping", "clipping per tensor")
"""Gradients are added up as long as they are; each weight tensor's gradient is clipped by itself."""
TWINS = (*SOURCES, *CLIPS)

_NO_CLIP = 1e9


@contextmanager
def broken_clip(twin: str) -> Iterator[None]:
    """Runs the block with one of `CLIPS` in place of the critic's."""
    from dpwgan.critic.private_step import FusedStep
    from dpwgan.methods.published import gradient_penalty

    with (
        mock.patch.object(FusedStep, "clipped_sums", _make_sums(FusedStep.clipped_sums, twin)),
        mock.patch.object(gradient_penalty, "clip_and_sum", _make_clip(gradient_penalty.clip_and_sum, twin)),
    ):
        yield


def _make_sums(clipped_sums: Callable[..., Any], twin: str) -> Callable[..., Any]:
    import tensorflow as tf

    def sum_of_longest(step: Any, rows: Any) -> list[Any]:
        sums: list[Any] = step._critic.clipped_sum_of_rows(*step._read(rows), l2_clip_norm=_NO_CLIP)
        return sums

    def sum_tensor_by_tensor(step: Any, rows: Any) -> list[Any]:
        def add(sums: list[Any], row: Any) -> list[Any]:
            clipped = [
                tf.clip_by_norm(tf.reshape(part, [-1]), step._plan.clip_target)
                for part in sum_of_longest(step, row[tf.newaxis])
            ]
            return [total + part for total, part in zip(sums, clipped, strict=True)]

        sums = tf.foldl(add, rows, initializer=[tf.zeros(size) for size in step._sizes])
        return [tf.reshape(total, weight.shape) for total, weight in zip(sums, step._critic.weights, strict=True)]

    def broken(step: Any, rows: Any, generated: Any = None) -> tuple[list[Any], list[Any]]:
        _, fake = clipped_sums(step, rows, generated)
        return (sum_of_longest if twin == "no clipping" else sum_tensor_by_tensor)(step, rows), fake

    return broken


def _make_clip(clip_and_sum: Callable[..., Any], twin: str) -> Callable[..., Any]:
    def add_up(gradients: list[Any], *, there: Any, l2_clip_norm: float) -> Any:
        if twin == "no clipping":
            return clip_and_sum(gradients, there=there, l2_clip_norm=_NO_CLIP)
        return [clip_and_sum([part], there=there, l2_clip_norm=l2_clip_norm)[0] for part in gradients]

    return add_up


class Bootstrap:
    """A method that hands its rows out again: the twin for attackers who see the output alone. Privacy: none."""

    name = "bootstrap"

    def fit(self, plan: Any, run: Any) -> _Rows:
        """Keeps the rows."""
        return _Rows(run.rows.own)


class _Rows:
    def __init__(self, encoded: EncodedTable) -> None:
        self._encoded = encoded

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows of the table."""
        yield self._encoded.take(rng.integers(0, self._encoded.records, records))
