"""Fresh row names. Those of the input are dropped unread: no row of the output belongs to a row of the input."""

import os

import numpy as np
import polars as pl

from dpwgan.table.schema import IdentifierColumn


def make_identifiers(column: IdentifierColumn, *, first_record: int, records: int) -> pl.Series:
    """Writes names for records `first_record`, `first_record` + 1, ... of the output.

    Privacy: a function of the position in the output, or of the operating system's randomness; of no data.
    Source: RFC 9562, section 5.4 (UUID version 4).
    """
    if column.start is not None:
        start = column.start + first_record
        counted: pl.Series = pl.Series(np.arange(start, start + records, dtype=np.int64)).cast(pl.String)
        return counted
    raw = np.frombuffer(os.urandom(16 * records), dtype=np.uint8).reshape(records, 16).copy()
    raw[:, 6] = (raw[:, 6] & 0x0F) | 0x40
    raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
    digits = raw.tobytes().hex()
    return pl.Series(
        [
            f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-{digits[at + 12 : at + 16]}"
            f"-{digits[at + 16 : at + 20]}-{digits[at + 20 : at + 32]}"
            for at in range(0, 32 * records, 32)
        ],
        dtype=pl.String,
    )
