"""Canaries, and the run that an audit watches."""

from typing import Any

import numpy as np
import pytest

from dpwgan.app.fitting import fit_rows
from dpwgan.audit.canaries.watch import Record
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.encoded import EncodedTable
from tests.audit.canaries.runs import make_plan, make_table
from tests.ledgers import make_source


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-wgan, none", "query-gan"])
def test_fit_is_the_same_when_it_is_watched(name):
    encoded = make_table()
    run_plan = make_plan(name, encoded)
    parts: list[EncodedTable] = []
    for observers in ([Record(canary=encoded.records - 1)], []):
        streams = make_streams(3)
        ledger = run_plan.open_ledger(source=make_source(streams), observers=observers)
        fitted: Any = fit_rows(encoded, run_plan, ledger=ledger, model=streams.model, units=None)
        parts += fitted.sample(50, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(parts[0].codes, parts[1].codes)
    np.testing.assert_array_equal(parts[0].numbers, parts[1].numbers)


def test_canaries_are_any_legal_cells_when_they_are_drawn():
    encoded = make_table(records=10, canaries=5_000)
    drawn = encoded.take(np.arange(encoded.records) >= 10)
    for attribute in lay_out_attributes(encoded.spans):
        cells = attribute.find_cells(drawn)
        assert cells.min() >= 0
        assert cells.max() < attribute.cells
        if attribute.cells <= 10:
            counts = np.bincount(cells, minlength=attribute.cells)
            assert np.all(np.abs(counts - 5_000 / attribute.cells) < 5 * np.sqrt(5_000 / attribute.cells))
    assert encoded.records == 5_010
