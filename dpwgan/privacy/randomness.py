"""Three streams of randomness that never mix: privacy noise, batch membership, and the model.

Only the model may ever be replayed without harm. With `seed` all three are replayed, and the claim says NOT PRIVATE.
"""

import secrets
from dataclasses import dataclass

import numpy as np
import randomgen

NOISE_SOURCE = (
    "AES-128 counter generator (randomgen.AESCounter; OpenSSL's under keys it draws, for noise of critic steps), "
    "keyed with 128 bits of operating-system entropy"
)


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
    noise, batches, model = (np.random.Generator(randomgen.AESCounter(key=key)) for key in keys)
    return Streams(noise=noise, batches=batches, model=model, seeded=seed is not None)


def branch(rng: np.random.Generator) -> np.random.Generator:
    """Makes a stream of its own, keyed by the next 128 bits of another one: for work that is done side by side."""
    low, high = (int(word) for word in rng.integers(1 << 64, size=2, dtype=np.uint64))
    return np.random.Generator(randomgen.AESCounter(key=high << 64 | low))
