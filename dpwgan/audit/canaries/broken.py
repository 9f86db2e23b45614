"""Deliberately broken twins of the private mechanisms, which the audit has to catch. Nothing but its tests and its
benchmark may import this: a table made with one of them has no privacy to speak of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from dpwgan.audit.canaries.watch import NOISY_MODULES
from dpwgan.table.encoded import EncodedTable

TWINS = {
    "noise halved": "half the noise, on counts and on sums of gradients",
    "same noise twice": "every second release gets the noise of the one before it, where they have the same size",
    "no clipping": "gradients are added up as long as they are",
    "clipping per tensor": "each weight tensor's gradient is clipped to the clip norm by itself",
}

OF_THE_CRITIC = ("no clipping", "clipping per tensor")
"""Twins of methods that have a critic; the others concern all that add noise."""

_NO_CLIP = 1e9


class _Weaker:
    """A generator of normal numbers a share as large."""

    def __init__(self, rng: np.random.Generator, share: float) -> None:
        self._rng, self._share = rng, share

    def standard_normal(self, size: Any, **more: Any) -> Any:
        return self._share * self._rng.standard_normal(size, **more)

    def random(self, size: Any, **more: Any) -> Any:
        return self._rng.random(size, **more)

    def normal(self, loc: float, scale: float, size: Any) -> Any:
        return self._rng.normal(loc, self._share * scale, size=size)


class _Twice:
    """A generator that gives the same normal numbers twice, for each size."""

    def __init__(self, rng: np.random.Generator, kept: dict[Any, Any]) -> None:
        self._rng, self._kept = rng, kept

    def normal(self, loc: float, scale: float, size: Any) -> Any:
        key = int(np.prod(size))
        drawn = self._kept.pop(key).reshape(size) if key in self._kept else None
        if drawn is None:
            drawn = self._kept[key] = self._rng.standard_normal(size)
        return loc + scale * drawn


@contextmanager
def broken(twin: str) -> Iterator[None]:
    """Runs the block with one of the `TWINS` in place of the tool's mechanisms.

    Privacy: none. Raises: KeyError for a twin that there is not.
    """
    if twin not in TWINS:
        raise KeyError(twin)
    kept: dict[Any, Any] = {}

    def spoil(rng: np.random.Generator) -> Any:
        if twin == "noise halved":
            return _Weaker(rng, 0.5)
        return _Twice(rng, kept) if twin == "same noise twice" else rng

    def spoilt(add: Callable[..., Any]) -> Callable[..., Any]:
        return lambda values, *, rng, **more: add(values, rng=spoil(rng), **more)

    with ExitStack() as stack:
        for module in NOISY_MODULES:
            stack.enter_context(mock.patch.object(module, "add_gaussian_noise", spoilt(module.add_gaussian_noise)))
        from dpwgan.critic import private_step
        from dpwgan.methods.published import gradient_penalty_step

        stack.enter_context(mock.patch.object(private_step, "FusedStep", _make_step(twin)))
        if twin == "noise halved":
            weaker = _make_weaker_penalty_step()
            stack.enter_context(mock.patch.object(gradient_penalty_step, "PrivatePenaltyStep", weaker))
        if twin in OF_THE_CRITIC:
            stack.enter_context(mock.patch.object(gradient_penalty_step, "clip_and_sum", _make_clip(twin)))
        yield


def _make_step(twin: str) -> Any:
    import tensorflow as tf

    from dpwgan.critic.private_step import FusedStep

    class Broken(FusedStep):
        """The critic's step, broken."""

        _kept: Any = None

        def draw_noise(self, noise_rng: Any, *, steps: int) -> Any:
            if twin != "same noise twice":
                return super().draw_noise(noise_rng, steps=steps)
            drawn = []
            for _ in range(steps):
                again = self._kept
                self._kept = super().draw_noise(noise_rng, steps=1) if again is None else None
                drawn.append(self._kept if again is None else again)
            return tf.concat(drawn, axis=0)

        def make_noise(self, drawn: Any) -> list[Any]:
            noise = super().make_noise(drawn)
            return [0.5 * part for part in noise] if twin == "noise halved" else noise

        def clipped_sums(self, rows: Any, generated: Any = None) -> tuple[list[Any], list[Any]]:
            real, fake = super().clipped_sums(rows, generated)
            if twin in OF_THE_CRITIC:
                real = self._sum_of_longest(rows) if twin == "no clipping" else self._sum_tensor_by_tensor(rows)
            return real, fake

        def _sum_of_longest(self, rows: Any) -> list[Any]:
            return self._critic.clipped_sum_of_rows(*self._read(rows), l2_clip_norm=_NO_CLIP)

        def _sum_tensor_by_tensor(self, rows: Any) -> list[Any]:
            def add(sums: list[Any], row: Any) -> list[Any]:
                clipped = [
                    tf.clip_by_norm(tf.reshape(part, [-1]), self._plan.clip_target)
                    for part in self._sum_of_longest(row[tf.newaxis])
                ]
                return [total + part for total, part in zip(sums, clipped, strict=True)]

            zeros = [tf.zeros(size) for size in self._sizes]
            sums = tf.foldl(add, rows, initializer=zeros)
            return [tf.reshape(total, weight.shape) for total, weight in zip(sums, self._critic.weights, strict=True)]

    return Broken


class Bootstrap:
    """A method that hands its rows out again: the twin for attackers who see the output alone. Privacy: none."""

    name = "bootstrap"

    def fit(self, encoded: EncodedTable, plan: Any, **more: Any) -> _Rows:
        """Keeps the rows."""
        from dpwgan.critic import loop

        sample: Any = vars(loop)["sample_poisson_rows"]
        everyone = sample(encoded.records, sampling_probability=1.0, rng=np.random.default_rng())
        return _Rows(encoded.take(np.isin(np.arange(encoded.records), everyone)))


class _Rows:
    def __init__(self, encoded: EncodedTable) -> None:
        self._encoded = encoded

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows of the table."""
        yield self._encoded.take(rng.integers(0, self._encoded.records, records))


def _make_weaker_penalty_step() -> Any:
    from dpwgan.methods.published.gradient_penalty_step import PrivatePenaltyStep

    class Broken(PrivatePenaltyStep):
        """The step with a gradient penalty, at half its noise; latents are halved as well, which protect nobody."""

        def __call__(self, rows: Any, *, noise_rng: Any, learning_rate: float) -> None:
            weaker: Any = _Weaker(noise_rng, 0.5)
            super().__call__(rows, noise_rng=weaker, learning_rate=learning_rate)

    return Broken


def _make_clip(twin: str) -> Callable[..., Any]:
    from dpwgan.methods.published.gradient_penalty_step import clip_and_sum

    def add_up(gradients: list[Any], *, there: Any, l2_clip_norm: float) -> list[Any]:
        if twin == "no clipping":
            return clip_and_sum(gradients, there=there, l2_clip_norm=_NO_CLIP)
        return [clip_and_sum([part], there=there, l2_clip_norm=l2_clip_norm)[0] for part in gradients]

    return add_up
