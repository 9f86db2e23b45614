"""Streams: OS entropy unless seeded, and never one stream's numbers in another."""

import secrets

import numpy as np
import pytest

from dpwgan.privacy.randomness import Streams, make_streams


def first_numbers(streams: Streams) -> list[float]:
    return [float(rng.random()) for rng in (streams.noise, streams.batches, streams.model)]


def test_streams_repeat_when_seeded_alike() -> None:
    assert first_numbers(make_streams(7)) == first_numbers(make_streams(7))
    assert make_streams(7).seeded


def test_streams_differ_when_not_seeded() -> None:
    one, other = make_streams(), make_streams()
    assert not one.seeded
    assert set(first_numbers(one)).isdisjoint(first_numbers(other))


def test_streams_have_keys_of_their_own_when_not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def watch(bits: int) -> int:
        asked.append(bits)
        return randbits(bits)

    randbits = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", watch)
    assert len(set(first_numbers(make_streams()))) == 3
    assert asked == [128, 128, 128]


def test_streams_of_one_run_are_unrelated_when_drawn_at_length() -> None:
    streams = make_streams(7)
    noise, batches, model = (rng.standard_normal(20_000) for rng in (streams.noise, streams.batches, streams.model))
    for one, other in ((noise, batches), (noise, model), (batches, model)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(20_000)


def test_noise_does_not_follow_numpys_global_seed_when_that_is_set() -> None:
    np.random.seed(0)
    one = first_numbers(make_streams())
    np.random.seed(0)
    assert set(one).isdisjoint(first_numbers(make_streams()))
