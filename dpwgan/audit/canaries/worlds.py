"""Tables with canaries, and worlds in which some of them are null: there, but adding nothing to any sum.

A canary is a row that the auditor puts into the table. Under the tool's default relation it is compared with a null
record, which no table of a custodian holds; here every function that reads rows is handed the rows that are not null.
The number of rows stays what it is: it is public.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from dpwgan.critic import loop
from dpwgan.marginals import one_ways, queries
from dpwgan.marginals import pairs as moments
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.methods import query_gan, ron_gauss
from dpwgan.methods.published import dp_critic
from dpwgan.table.encoded import EncodedTable

Present = npt.NDArray[np.bool_]

_READERS_OF_GROUPS: tuple[tuple[Any, str], ...] = (
    (moments, "count_pairs"),
    (queries, "count_pairs"),
    (queries, "count_marginals"),
    (query_gan, "count_pairs"),
    (query_gan, "train_one_layer"),
    (query_gan, "measure_one_layer"),
    (query_gan, "measure_one_layer_certificate"),
)
"""Everything that is handed the rows as groups of cells, as its first argument. That the list is whole is tested."""


_READERS_OF_TABLES: tuple[tuple[Any, str], ...] = (
    (one_ways, "count_one_ways"),
    (ron_gauss, "split_classes"),
    (ron_gauss, "sum_centre"),
    (ron_gauss, "sum_means"),
    (ron_gauss, "sum_image_products"),
    (dp_critic, "sum_classes"),
)
"""Everything that is handed the rows as an encoded table, as its first argument. A null record is in no class."""


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


@contextmanager
def nulled(present: Present) -> Iterator[None]:
    """Makes the rows of a table that are not `present` null records, for all fits inside the block.

    Privacy: this is the neighbour of the zero-out relation itself, not an approximation: each statistic is computed
      without the null rows, everything public, n included, stays.
    Shapes: `present` (n,), one flag for each row of the table that is fitted to.
    """

    def of_groups(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda groups, *rest, **more: read(groups[present], *rest, **more)

    def of_table(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda encoded, *rest, **more: read(encoded.take(present), *rest, **more)

    sample: Any = vars(loop)["sample_poisson_rows"]

    def sample_present(records: int, **more: Any) -> npt.NDArray[np.int64]:
        rows: npt.NDArray[np.int64] = sample(records, **more)
        kept: npt.NDArray[np.int64] = rows[present[rows]]
        return kept

    with ExitStack() as stack:
        for module, name in _READERS_OF_GROUPS:
            stack.enter_context(mock.patch.object(module, name, of_groups(getattr(module, name))))
        for module, name in _READERS_OF_TABLES:
            stack.enter_context(mock.patch.object(module, name, of_table(getattr(module, name))))
        stack.enter_context(mock.patch.object(loop, "sample_poisson_rows", sample_present))
        yield
