"""The noise of a private training step: many normal numbers from a cryptographic stream, fast or plain."""

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

StepNoise = Literal["fast", "plain"]
Floats = npt.NDArray[np.float32]
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
"""A word this near to an end is one of 256 and gets 64 bits more: else the largest numbers, and those next to 0, would
come in few sizes."""
CODE_SHIFT = 7
"""The 24 bits in which such a word holds its logarithm are those of a float without its sign and its last 7."""


def draw_normal_numbers(size: int, *, stddev: float, rng: np.random.Generator, step_noise: StepNoise) -> Floats:
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
    return make_normal_numbers(draw_words(size, rng=rng), stddev=stddev)[:size]


def draw_words(size: int, *, rng: np.random.Generator) -> Words:
    """Draws what `size` normal numbers are made of: a word for the radius of each pair and one for its angle.

    A word w of the second row stands for w / 2^32 of a turn. One of the first stands for u = (w + 1/2) / 2^32, uniform
    between 0 and 1, unless it is within `END` of 0 or 2^32: then w + END is -ln u itself, as a float of 24 bits
    (`CODE_SHIFT`), where u has 64 bits more.
    Privacy: AES-128 in counter mode under a key of its own, the next 128 bits of `rng`; the counter starts at 0 and is
      never set back, and the key is used for these words alone. With u of 96 bits a radius sqrt(-2 ln u) ends at 11.5,
      which one pair in 2^96 would exceed: in all steps of a run together far less than any delta.
    Shapes: (2, half of size, rounded up). The memory begins where TensorFlow can take it as it is.
    Source: NIST SP 800-38A, section 6.5 (counter mode).
    """
    half = (size + 1) // 2
    stream = Cipher(algorithms.AES128(rng.bytes(16)), modes.CTR(bytes(16))).encryptor()
    words = _take_words(stream, 2 * half).reshape(2, half)
    for start in range(0, half, _BLOCK):
        _refine_ends(words[0, start : start + _BLOCK], stream)
    return words


def make_normal_numbers(words: Words, *, stddev: float) -> Floats:
    """Turns words into normal numbers: all cosines, then all sines. Shapes: (2, half) to (2 half,)."""
    half = words.shape[1]
    made = np.empty(2 * half, np.float32)
    for start in range(0, half, _BLOCK // 2):
        radii, angles = words[:, start : start + _BLOCK // 2]
        stop = start + len(radii)
        radius, angle = made[start:stop], made[half + start : half + stop]
        radius[...] = radii
        radius += np.float32(0.5)
        radius *= _WORD
        np.log(radius, out=radius)
        ends = _find_ends(radii)
        radius[ends] = -((radii[ends] + np.uint32(END)) << np.uint32(CODE_SHIFT)).view(np.float32)
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
    """Finds words near an end. Adding wraps around, so that both ends lie side by side."""
    return np.flatnonzero(words + np.uint32(END) < np.uint32(2 * END))


def _refine_ends(words: Words, stream: Any) -> None:
    """Puts logarithms of uniform numbers of 96 bits in place of words near an end, by their code. Shapes: (n,)."""
    ends = _find_ends(words)
    fractions = (_take_words(stream, 2 * len(ends)).view(np.uint64) + 0.5) * 2.0**-64
    found = words[ends]
    low = found < END
    # From the end that is near, so that no bit is lost.
    left = np.where(low, found + fractions, ~found + (1.0 - fractions)) * 2.0**-32
    logarithms = np.empty(len(ends), np.float32)
    logarithms[low] = -np.log(left[low])
    logarithms[~low] = -np.log1p(-left[~low])
    # To the nearest code. From 0 to 67.3, the logarithm of 2^97, all floats have theirs.
    codes = (logarithms.view(np.uint32) + np.uint32(1 << (CODE_SHIFT - 1))) >> np.uint32(CODE_SHIFT)
    words[ends] = codes - np.uint32(END)
