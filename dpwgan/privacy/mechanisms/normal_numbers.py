"""The noise of a private training step: many normal numbers from a cryptographic stream, fast or plain."""

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpwgan.array_types import Floats32

StepNoise = Literal["fast", "plain"]
Words = npt.NDArray[np.uint32]

# Words that are worked on at a time: they stay in the cache of one core, and calls of numpy weigh little.
_BLOCK = 1 << 16
_ZEROS = bytes(4 * _BLOCK)
# What OpenSSL may need behind its output, and what TensorFlow asks of an address, in bytes.
_CIPHER_BLOCK, _ALIGNMENT = 16, 64
# A word is one of 2^32 equally likely ones. Half a word more keeps the logarithm away from 0.
_WORD = np.float32(2.0**-32)
_TURN = np.float32(math.pi * 2.0**-31)

END = 1 << 23
"""A uniform number this many 2^32ths from 0 or 1 is one of 256 and gets 64 bits more: else the largest normal numbers,
and those next to 0, would come in few sizes."""
CODE_SHIFT = 7
"""The 24 bits in which a word holds its logarithm are those of a float without its sign and its last 7."""


def draw_normal_numbers(size: int, *, stddev: float, rng: np.random.Generator, step_noise: StepNoise) -> Floats32:
    """Draws independent normal numbers around 0.

    `plain` is numpy's own method, a number at a time with rejection. `fast` takes the words of `draw_words`, two for
    each two numbers, and turns whole blocks of them at once: no number waits for another.
    Privacy: both read nothing but `rng`, which must not be known to whoever sees the release, and take what is fresh of
      it each time. Numbers are IEEE floating point, as the claim says.
    Shapes: (size,).
    Source: Box and Muller 1958, Annals of Mathematical Statistics 29; for plain, Marsaglia and Tsang 2000 (ziggurat).
    """
    if step_noise == "plain":
        return rng.standard_normal(size, dtype=np.float32) * np.float32(stddev)
    return make_normal_numbers(draw_words((size + 1) // 2, rng=rng)[0], stddev=stddev)[:size]


def draw_words(pairs: int, *, rng: np.random.Generator, sets: int = 1) -> Words:
    """Draws what pairs of normal numbers are made of: a word for the radius of each and one for its angle.

    In each set a word w of the second row stands for w / 2^32 of a turn. One of the first, less `END` and modulo 2^32,
    stands for u = (w + 1/2) / 2^32, uniform between 0 and 1. But one below 2 `END`, whose u is next to 0 or 1, is
    -ln u itself, as a float of 24 bits (`CODE_SHIFT`), where u has 64 bits more.
    Privacy: AES-128 in counter mode under a key of its own, the next 128 bits of `rng`; the counter starts at 2 and is
      never set back, and the key is used for these words alone. With u of 96 bits a radius sqrt(-2 ln u) ends at 11.5,
      which one pair in 2^96 would exceed: in all steps of a run together far less than any delta.
    Shapes: (sets, 2, pairs). The memory begins where TensorFlow can take it as it is.
    Source: NIST SP 800-38D, section 7.1 (counter mode as GCM has it: what zeros are enciphered to; its authentication
      tag is never asked for. OpenSSL has it in wider instructions than counter mode alone: half the time).
    """
    stream = Cipher(algorithms.AES128(rng.bytes(16)), modes.GCM(bytes(12))).encryptor()
    words = _take_words(stream, 2 * pairs * sets).reshape(sets, 2, pairs)
    _refine_ends(words, stream)
    return words


def make_normal_numbers(words: Words, *, stddev: float) -> Floats32:
    """Turns words into normal numbers: all cosines, then all sines. Shapes: (2, half) to (2 half,)."""
    half = words.shape[1]
    made = np.empty(2 * half, np.float32)
    for start in range(0, half, _BLOCK // 2):
        radii, angles = words[:, start : start + _BLOCK // 2]
        stop = start + len(radii)
        radius, angle = made[start:stop], made[half + start : half + stop]
        radius[...] = radii - np.uint32(END)
        radius += np.float32(0.5)
        radius *= _WORD
        np.log(radius, out=radius)
        ends = _find_ends(radii)
        radius[ends] = -(radii[ends] << np.uint32(CODE_SHIFT)).view(np.float32)
        radius *= np.float32(-2.0 * stddev**2)
        np.sqrt(radius, out=radius)
        # As signed numbers words go half a turn each way: closer to 0 floating point is finer.
        angle[...] = angles.view(np.int32)
        angle *= _TURN
        cosine = np.cos(angle)
        np.sin(angle, out=angle)
        angle *= radius
        radius *= cosine
    return made


def _take_words(stream: Any, count: int) -> Words:
    """Takes the next words of a cipher's stream. Shapes: (count,)."""
    room = np.empty(4 * count + _ALIGNMENT + _CIPHER_BLOCK, np.uint8)
    room = room[-room.ctypes.data % _ALIGNMENT :]
    for start in range(0, 4 * count, len(_ZEROS)):
        zeros = _ZEROS[: 4 * count - start]
        stream.update_into(zeros, room[start : start + len(zeros) + _CIPHER_BLOCK])
    return room[: 4 * count].view(np.uint32)


def _find_ends(words: Words) -> npt.NDArray[np.intp]:
    """Finds words whose uniform numbers are next to 0 or 1: less END, which wraps around, they are the smallest."""
    return np.flatnonzero(words < np.uint32(2 * END))


def _refine_ends(words: Words, stream: Any) -> None:
    """Puts logarithms of uniform numbers of 96 bits in place of radii's words near an end, by their code.

    Shapes: (sets, 2, pairs).
    """
    pairs, words = words.shape[2], words.reshape(-1)
    found = [np.zeros(0, np.intp)]
    for radii in range(0, len(words), max(1, 2 * pairs)):
        for first in range(radii, radii + pairs, _BLOCK):
            found.append(first + _find_ends(words[first : min(first + _BLOCK, radii + pairs)]))
    ends = np.concatenate(found)
    fractions = (_take_words(stream, 2 * len(ends)).view(np.uint64) + 0.5) * 2.0**-64
    above = words[ends] - np.uint32(END)
    low = above < END
    # From the end that is near, so that no bit is lost.
    left = np.where(low, above + fractions, ~above + (1.0 - fractions)) * 2.0**-32
    logarithms = np.empty(len(ends), np.float32)
    logarithms[low] = -np.log(left[low])
    logarithms[~low] = -np.log1p(-left[~low])
    # To the nearest code. From 0 to 67.3, the logarithm of 2^97, all floats have theirs.
    words[ends] = (logarithms.view(np.uint32) + np.uint32(1 << (CODE_SHIFT - 1))) >> np.uint32(CODE_SHIFT)
