"""Tables of one column: nothing hangs together, and the one-way counts have the whole budget."""

import pytest

from dpwgan.marginals.anchor import ONE_WAYS_LABEL, AnchorSettings, fit_anchor, plan_anchor
from dpwgan.privacy.randomness import make_streams
from tests.methods.runs import NARROW, make_table, refuse_illegal, reserve, run
from tests.plans import make_terms


@pytest.mark.parametrize("column", [NARROW[index].name for index in range(len(NARROW))])
@pytest.mark.parametrize("settings", [{}, {"oracle": "one-layer"}])
def test_query_gan_makes_legal_cells_when_there_is_one_column(column: str, settings: dict) -> None:
    chosen = [candidate for candidate in NARROW if candidate.name == column]
    for records in (1, 200):
        done = run("query-gan", make_table(records, columns=chosen), **settings)
        refuse_illegal(done.sampled)
        assert all(line["charged"] == line["reserved"] for line in done.ledger.itemise())


@pytest.mark.parametrize("kind", ["queries", "moments"])
def test_anchor_is_the_one_way_counts_when_there_is_one_column(kind: str) -> None:
    encoded = make_table(200, columns=NARROW[:1])
    plan = plan_anchor(
        encoded.shape,
        make_terms(),
        kind=kind,  # type: ignore[arg-type]
        settings=AnchorSettings(),
    )
    assert [release.label for release in plan.releases] == [ONE_WAYS_LABEL]
    fitted = fit_anchor(encoded, plan.design, streams=make_streams(1), ledger=reserve(plan), progress=lambda *_: None)
    assert len(fitted.generator.probabilities()) == 1
