"""Three streams of randomness that never mix: privacy noise, batch membership, and the model.

Only the model may ever be replayed without harm. With `seed` all three are replayed, and the claim says NOT PRIVATE.
"""

import os
import secrets
import weakref
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import randomgen

from dpwgan.errors import UsageError

NOISE_SOURCE = (
    "AES-128 counter generator (randomgen.AESCounter; OpenSSL's under keys it draws, for noise of critic steps), "
    "keyed with 128 bits of operating-system entropy"
)


class SecretGenerator(np.random.Generator):
    """A generator of noise or batches, which stays in one process, and of which there is one.

    Privacy: noise that is drawn twice, on two tables or at two states of a model, drops out of their difference. So the
      generator is not copied or pickled, and where the process forks, the child's gets a new key from the operating
      system before anything else is done there. A seeded one is for tests, is no secret, and keeps its key.
    """

    def __init__(self, *, key: int, seeded: bool) -> None:
        super().__init__(randomgen.AESCounter(key=key))
        if not seeded:
            _SECRETS.add(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses to be pickled or copied. Raises: UsageError."""
        raise UsageError("streams of noise cannot be copied or pickled: noise that is used twice protects nothing")


_SECRETS: "weakref.WeakSet[SecretGenerator]" = weakref.WeakSet()


def _change_keys() -> None:
    for stream in list(_SECRETS):
        stream.bit_generator.state = randomgen.AESCounter(key=secrets.randbits(128)).state


os.register_at_fork(after_in_child=_change_keys)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The random streams of one run.

    Privacy: `noise` and `batches` must be unknown to whoever sees the release. With `seeded` they are not.
    `model` draws weights, latent vectors and the sampled cells: post-processing, no secrecy needed.
    """

    noise: np.random.Generator
    batches: np.random.Generator
    model: np.random.Generator
    seeded: bool


def make_streams(seed: int | None = None, *, life: int = 0, worker: int = 0) -> Streams:
    """Makes the streams of a run, each under a key of its own.

    Privacy: without `seed` every key is 128 fresh bits from the operating system, and nothing keeps them.
      With `seed` the noise can be replayed by anyone who knows the seed: for tests only. A run that goes on after it
      was killed has a `life` of another number, and other noise for the same seed, as has each `worker` of a run.
    Source: Salmon et al. 2011 (counter-based generators; AES rounds are the cryptographic member of the family).
    """
    if seed is None:
        keys = [secrets.randbits(128) for _ in range(3)]
    else:
        place = (life, worker) if worker else (life,) if life else ()
        words = np.random.SeedSequence(seed, spawn_key=place).generate_state(6, dtype=np.uint64)
        keys = [int(words[2 * i]) << 64 | int(words[2 * i + 1]) for i in range(3)]
    seeded = seed is not None
    noise, batches = (SecretGenerator(key=key, seeded=seeded) for key in keys[:2])
    model = np.random.Generator(randomgen.AESCounter(key=keys[2]))
    return Streams(noise=noise, batches=batches, model=model, seeded=seeded)


def make_choice_stream(seed: int | None = None, *, key: int | None = None) -> np.random.Generator:
    """Makes the stream by which the rows of a unit that are kept are chosen, with a `key` that lives of a run share.

    Privacy: what is promised holds for each choice, so that this one need not be secret.
    """
    if seed is not None:
        words = np.random.SeedSequence(seed, spawn_key=(0, 0, 1)).generate_state(2, dtype=np.uint64)
        key = int(words[0]) << 64 | int(words[1])
    return np.random.Generator(randomgen.AESCounter(key=secrets.randbits(128) if key is None else key))


def branch(rng: np.random.Generator) -> np.random.Generator:
    """Makes a stream of its own, keyed by the next 128 bits of another one: for work that is done side by side."""
    low, high = (int(word) for word in rng.integers(1 << 64, size=2, dtype=np.uint64))
    return np.random.Generator(randomgen.AESCounter(key=high << 64 | low))
