"""The noise of a private training step: many normal numbers from a cryptographic stream, fast or plain."""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

StepNoise = Literal["fast", "plain"]
Floats = npt.NDArray[np.float32]

# Numbers that are made at a time: with their words they stay in the cache of one core, and calls of numpy weigh little.
_BLOCK = 1 << 16
# A word is one of 2^32 equally likely ones. Half a word more keeps the logarithm away from 0.
_WORD = np.float32(2.0**-32)
_TURN = np.float32(math.pi * 2.0**-31)
# A word this near to an end is one of 256 and gets 64 bits more: else the largest numbers, and those next to 0, would
# come in few sizes.
_END = np.uint32(1 << 23)


def draw_normal_numbers(size: int, *, stddev: float, rng: np.random.Generator, step_noise: StepNoise) -> Floats:
    """Draws independent normal numbers around 0.

    `plain` is numpy's own method, a number at a time with rejection. `fast` takes the words of the same stream, two for
    each two numbers, and turns whole blocks of them at once: no number waits for another.
    Privacy: both read nothing but `rng`, which must not be known to whoever sees the release, and take fresh words each
      time. A radius of `fast` ends at 11.5 stddevs, which one pair in 2^96 would exceed: in all steps of a run together
      far less than any delta. Numbers are IEEE floating point, as the claim says.
    Shapes: (size,).
    Source: Box and Muller 1958, Annals of Mathematical Statistics 29; for plain, Marsaglia and Tsang 2000 (ziggurat).
    """
    if step_noise == "plain":
        return rng.standard_normal(size, dtype=np.float32) * np.float32(stddev)
    drawn = np.empty(size + size % 2, np.float32)
    for start in range(0, len(drawn), _BLOCK):
        block = drawn[start : start + _BLOCK]
        half = len(block) // 2
        words = np.asarray(rng.bit_generator.random_raw(half), np.uint64).view(np.uint32)
        radius, angle = block[:half], block[half:]
        radius[...] = words[:half]
        radius += np.float32(0.5)
        radius *= _WORD
        np.log(radius, out=radius)
        _refine_ends(radius, words[:half], rng=rng)
        radius *= np.float32(-2.0 * stddev**2)
        np.sqrt(radius, out=radius)
        # As signed numbers words go half a turn each way: closer to 0 floating point is finer.
        angle[...] = words[half:].view(np.int32)
        angle *= _TURN
        cosine = np.cos(angle)
        np.sin(angle, out=angle)
        angle *= radius
        radius *= cosine
    return drawn[:size]


def _refine_ends(logarithms: Floats, words: npt.NDArray[np.uint32], *, rng: np.random.Generator) -> None:
    """Puts logarithms of uniform numbers of 96 bits in place of those of words near an end. Shapes: (n,), (n,)."""
    # Adding wraps around, so that both ends lie side by side.
    ends = np.flatnonzero(words + _END < 2 * _END)
    fractions = (np.asarray(rng.bit_generator.random_raw(len(ends)), np.uint64) + 0.5) * 2.0**-64
    found = words[ends]
    low = found < _END
    # From the end that is near, so that no bit is lost.
    left = np.where(low, found + fractions, ~found + (1.0 - fractions)) * 2.0**-32
    logarithms[ends[low]] = np.log(left[low])
    logarithms[ends[~low]] = np.log1p(-left[~low])
