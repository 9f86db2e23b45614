"""Tables with canaries: rows that the auditor puts in, and takes out again.

Under the tool's default relation a canary that is out is a null record, which no table of a custodian holds: a run is
handed the rows that are not null, and the number of rows that it was planned for stays what it is, which is public.
"""

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.table.encoded import EncodedTable

Present = npt.NDArray[np.bool_]


def add_canaries(encoded: EncodedTable, *, canaries: int, rng: np.random.Generator) -> EncodedTable:
    """Appends rows of which every cell is any legal one, with the same probability: unlike rows of a real table.

    Privacy: made of public facts and `rng`.
    """
    drawn = EncodedTable(
        codes=np.zeros((canaries, encoded.codes.shape[1]), np.int32),
        numbers=np.zeros((canaries, encoded.numbers.shape[1]), np.float32),
        spans=encoded.spans,
    )
    for attribute in lay_out_attributes(encoded.spans):
        attribute.put_cells(rng.integers(0, attribute.cells, canaries), into=drawn)
    return EncodedTable(
        codes=np.concatenate([encoded.codes, drawn.codes]),
        numbers=np.concatenate([encoded.numbers, drawn.numbers]),
        spans=encoded.spans,
    )
