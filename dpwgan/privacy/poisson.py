"""Poisson sampling of the records that a critic step reads, as the accountants assume it."""

import math

import numpy as np

from dpwgan.array_types import Integers


def sample_poisson_rows(records: int, *, sampling_probability: float, rng: np.random.Generator) -> Integers:
    """Draws a batch in which each record takes part independently with the given probability.

    The gaps between members of such a batch are independent geometric numbers, so the cost is that of the batch,
    not of the table. Candidates are drawn until they pass the last record: nothing is cut off.

    Privacy: this is the sampler behind the amplification that the accountants charge. The size of the result is
      private: it is never logged and nothing is divided by it.
    Shapes: ascending row numbers, (b,); b may be 0.
    Source: Devroye 1986, Non-Uniform Random Variate Generation, chapter XII.1 (Bernoulli trials by geometric gaps).
    """
    if sampling_probability >= 1.0:
        return np.arange(records, dtype=np.int64)
    parts: list[Integers] = []
    last = -1
    while last < records:
        expected = (records - last) * sampling_probability
        gaps = rng.geometric(sampling_probability, size=int(expected + 8 * math.sqrt(expected)) + 8)
        # A gap past the end is all one needs to know of it: cut before adding up, so that the sum cannot overflow.
        rows = last + np.cumsum(np.minimum(gaps, records + 1))
        parts.append(rows)
        last = int(rows[-1])
    rows = np.concatenate(parts)
    return rows[: np.searchsorted(rows, records)]
