"""All that comes of a run is made of what its ledger released: of another table it is the same under the same releases.

Both tables have as many rows in the same places and of the same units, which is public, and nothing else in common.
"""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpwgan.app import fitting, together
from dpwgan.app.api import Synthesizer
from dpwgan.app.logs import LOGGER
from dpwgan.critic.private_step import FusedStep
from dpwgan.methods.published.gradient_penalty import PrivatePenaltyStep
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.table.units import links

PERSONS = np.random.default_rng(0).permutation(np.repeat(np.arange(60), np.tile([1, 2, 3, 5], 15)))
DROPS: dict[str, Any] = {
    "unit": {"column": "person", "max_rows": 3, "linked": ["day", "status", "part"], "kind": "kind"},
    "person": {"type": "integer", "uuid": True, "min": 0},
    "sex": {"type": "enum", "values": ["f", "m"], "of": "unit"},
    "kind": {"type": "enum", "values": ["x", "y"]},
    "status": {"type": "enum", "count": 40},
    "part": {"type": "integer", "min": 0, "max": 2_999},
    "total": {"type": "integer", "min": 0, "max": 5_999, "missing": ["none"]},
    "day": {"type": "date", "min": "2020-01-01", "max": "2022-12-31"},
    **{f"answer {number}": {"type": "enum", "count": 4, "optional": True} for number in range(4)},
    "rules": [{"sql": "part > 20", "violations": "drop"}],
}
FINDS: dict[str, Any] = {key: keys for key, keys in DROPS.items() if key != "rules"}
FINDS["status"] = {"type": "enum", "values_from": "data", "domain_privacy": "private", "optional": True}
FEW = {"rounds": 16, "fit_steps": 5, "codes": 100}
STEPS = {"steps": 4, "hidden_critic": [8], "step_noise": "plain"}


class Again(NoiseSource):
    """Gives what was released before, if anything was, and keeps what there was before the noise."""

    known: list[Any]
    exact: list[Any]

    def _take(self, exact: Any, draw: Callable[[], Any]) -> Any:
        self.exact.append(exact)
        if len(self.exact) > len(self.known):
            self.known.append(draw())
        return self.known[len(self.exact) - 1]

    def add_noise(self, release, exact):
        return self._take(np.array(exact), lambda: NoiseSource.add_noise(self, release, exact))

    def select(self, release, scores):
        return self._take(np.array(scores), lambda: NoiseSource.select(self, release, scores))

    def discover(self, release, counts, **more):
        return self._take(dict(counts), lambda: NoiseSource.discover(self, release, counts, **more))

    def draw_normal_numbers(self, release, size, **more):
        # Whose batch it is for does not matter: sums are hidden.
        return np.random.default_rng(size).standard_normal(size, np.float32) * np.float32(release.stddev)


def make_frame(seed: int) -> pd.DataFrame:
    """Another table for each seed, of which rules drop more rows the larger it is."""
    rng, rows = np.random.default_rng(seed), len(PERSONS)
    part = rng.integers(0, 3_000, rows) * (rng.random(rows) > 0.3 * seed)
    is_whole, is_there = rng.random(rows) < 0.9 / (1 + seed), rng.random(rows) < 0.3 + 0.5 * seed
    total = np.where(is_whole, part + 7, rng.integers(0, 6_000, rows))
    answers = {f"answer {number}": np.where(is_there, rng.integers(0, 4, rows).astype(str), "") for number in range(4)}
    return pd.DataFrame(
        {
            "person": PERSONS,
            "sex": np.where((PERSONS + seed) % 2, "f", "m"),
            "kind": rng.choice(["x", "y"], rows),
            "status": (rng.zipf(1.3 + seed, rows) % 40).astype(str),
            "part": part,
            "total": np.where(rng.random(rows) < 0.1 * seed, "none", total.astype(str)),
            "day": (np.datetime64("2020-01-01") + rng.integers(0, 100 + 800 * seed, rows)).astype(str),
            **answers,
        }
    )


def hide_rows(clipped_sums: Callable[..., Any]) -> Callable[..., Any]:
    """Sums as if no row were in a batch, in the place of those that noise is added to."""

    def hide(step, rows, *generated):
        sums = clipped_sums(step, rows, *generated)
        if isinstance(sums, tuple):
            return [0.0 * total for total in sums[0]], sums[1]
        return [0.0 * total for total in sums]

    return hide


@pytest.mark.parametrize("specs", [DROPS, FINDS], ids=["rules drop rows", "lists are found"])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("query-gan", FEW),
        ("independent", {}),
        ("ron-gauss", {"label": "kind", "noise": "gaussian"}),
        ("dp-wgan", {"anchor": "none", **STEPS, "hidden_generator": [8]}),
        ("dp-wgan", {**FEW, **STEPS}),
        pytest.param("query-gan", {"oracle": "one-layer", "rounds": 2, "codes": 40}, marks=pytest.mark.slow),
        pytest.param("dp-gan", {**STEPS, "hidden_generator": [8]}, marks=pytest.mark.slow),
        pytest.param("ron-dp-gan", {**STEPS, "hidden_generator": [8]}, marks=pytest.mark.slow),
        pytest.param("dp-critic", {"formal": True, "steps": 4, "hidden_critic": [8]}, marks=pytest.mark.slow),
    ],
)
def test_another_table_gives_the_same_when_the_same_is_released(method, settings, specs, monkeypatch, caplog):
    monkeypatch.setattr(fitting, "NoiseSource", Again)
    # Units are made of fewer rows, which change places less often: for speed.
    monkeypatch.setattr(together, "choose_step", lambda columns: 400)
    monkeypatch.setattr(links, "TURNS", 8)
    monkeypatch.setattr(FusedStep, "clipped_sums", hide_rows(FusedStep.clipped_sums))
    monkeypatch.setattr(PrivatePenaltyStep, "clipped_sum", hide_rows(PrivatePenaltyStep.clipped_sum))
    caplog.set_level(logging.DEBUG, LOGGER.name)
    known: list[Any] = []
    exact, made, said = [], [], []
    for seed in range(2):
        caplog.clear()
        monkeypatch.setattr(Again, "known", known, raising=False)
        monkeypatch.setattr(Again, "exact", [], raising=False)
        synthesizer = Synthesizer(specs, 30.0, method=method, seed=5, settings=settings).fit(make_frame(seed))
        exact.append(Again.exact)
        made.append(((synthesizer.claim(), synthesizer.schema), synthesizer.sample(40)))
        said.append(caplog.messages)
    assert len(exact[0]) == len(exact[1]) == len(known)
    differ = [
        not np.array_equal(*pair) if isinstance(pair[0], np.ndarray) else pair[0] != pair[1]
        for pair in zip(*exact, strict=True)
    ]
    # How many units have so many rows is the same, unless rules drop some.
    assert sum(differ) >= len(known) - 2
    assert made[0][0] == made[1][0]
    pd.testing.assert_frame_equal(made[0][1], made[1][1])
    assert said[0] == said[1]
