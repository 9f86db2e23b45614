"""Streams: OS entropy unless seeded, and never one stream's numbers in another."""

import copy
import itertools
import pickle
import secrets

import numpy as np
import pytest
import randomgen

from dpwgan.errors import UsageError
from dpwgan.privacy.randomness import Streams, branch, make_streams
from tests.forks import do_in_child


def first_numbers(streams: Streams) -> list[float]:
    return [float(rng.random()) for rng in (streams.noise, streams.batches, streams.model)]


def test_streams_repeat_when_seeded_alike():
    assert first_numbers(make_streams(7)) == first_numbers(make_streams(7))
    assert make_streams(7).seeded


def test_streams_are_others_when_a_seeded_run_has_another_life_or_worker():
    lives = itertools.product(range(3), repeat=2)
    numbers = [number for life, worker in lives for number in first_numbers(make_streams(7, life=life, worker=worker))]
    assert len(set(numbers)) == len(numbers) == 27


def test_branch_has_all_128_bits_of_its_key_when_made():
    class Bits:
        """A stream whose next 128 bits are known."""

        def integers(self, high: int, *, size: int, dtype: object) -> list[int]:
            assert (high, size) == (1 << 64, 2)
            return [5, 7]

    known = np.random.Generator(randomgen.AESCounter(key=7 << 64 | 5))
    assert branch(Bits()).random() == known.random()  # type: ignore[arg-type]


def test_streams_differ_when_not_seeded_whatever_numpys_global_seed():
    streams = []
    for _ in range(2):
        np.random.seed(0)
        streams.append(make_streams())
    assert not streams[0].seeded
    assert set(first_numbers(streams[0])).isdisjoint(first_numbers(streams[1]))


def test_streams_have_keys_of_their_own_when_not_seeded(monkeypatch):
    asked: list[int] = []
    randbits = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", lambda bits: asked.append(bits) or randbits(bits))
    assert len(set(first_numbers(make_streams()))) == 3
    assert asked == [128, 128, 128]


def test_streams_of_one_run_are_unrelated_when_drawn_at_length():
    streams = make_streams(7)
    noise, batches, model = (rng.standard_normal(20_000) for rng in (streams.noise, streams.batches, streams.model))
    for one, other in ((noise, batches), (noise, model), (batches, model)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("drawn_before", [0, 3])
def test_child_draws_other_noise_when_the_process_forks_after_streams_are_made(drawn_before):
    streams, seeded = make_streams(), make_streams(7)
    plain = np.random.Generator(randomgen.AESCounter(key=1))
    for _ in range(drawn_before):
        first_numbers(streams), first_numbers(seeded), plain.integers(9, dtype=np.uint32)

    def draw(generator: np.random.Generator) -> list[int]:
        return [int(word) for word in generator.integers(1 << 64, size=4, dtype=np.uint64)]

    def draw_all() -> list[list[int]]:
        return [draw(generator) for generator in (streams.noise, streams.batches, seeded.noise, plain)]

    one, other, own = do_in_child(draw_all), do_in_child(draw_all), draw_all()
    for noise in range(2):
        assert len({word for drawn in (one, other, own) for word in drawn[noise]}) == 12
    # A seed is there to repeat a run; and the twin, a generator that nobody looks after, draws the same in all.
    assert one[2:] == other[2:] == own[2:]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("seed", [None, 7])
def test_noise_is_refused_to_whoever_wants_a_copy_of_its_generator(seed, copied):
    streams = make_streams(seed)
    for generator in (streams.noise, streams.batches):
        with pytest.raises(UsageError, match="cannot be copied"):
            copied(generator)
    pickle.dumps(streams.model)
