"""A public table that a fit begins with: cited, never charged for, and part of what a run is resumed under."""

import hashlib

import pytest

from dpwgan.app.api import Synthesizer
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import UsageError
from tests.lives import ASKED, QUERIES, SPECS, live, make_frame


@pytest.fixture
def public(tmp_path):
    path = tmp_path / "last-year.csv"
    make_frame().iloc[::2].to_csv(path, index=False)
    return path


@pytest.mark.parametrize("method", ["query-gan", "dp-wgan"])
def test_public_table_is_cited_and_costs_nothing(public, method):
    alone = Synthesizer(SPECS, ASKED, method=method).fit(make_frame()).claim()
    claim = Synthesizer(SPECS, ASKED, method=method, public=public).fit(make_frame()).claim()
    assert claim.document["ledger"] == alone.document["ledger"]
    digest = hashlib.sha256(public.read_bytes()).hexdigest()
    assert claim.document["public"]["table"] == {"sha256": digest, "records": len(make_frame().iloc[::2])}
    assert "which nothing here protects" in claim.to_text()
    assert list(find_faults(claim)) == []
    assert "table" not in alone.document["public"]


def test_run_with_a_public_table_goes_on_under_the_same_one_only(public, tmp_path):
    claim, _, lives = live(tmp_path / "kept", [9, 4], public=public)
    assert lives.count == 3
    assert list(find_faults(claim)) == []
    other = tmp_path / "other.csv"
    make_frame().iloc[::3].to_csv(other, index=False)
    folder = tmp_path / "another"
    live(folder, [], public=public)
    for wrong in (other, None):
        with pytest.raises(UsageError, match="public table"):
            Synthesizer(SPECS, ASKED, checkpoint=folder, resume=True, public=wrong, **QUERIES).fit(make_frame())
