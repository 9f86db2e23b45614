"""A public table that a fit begins with: cited, never charged for, and part of what a run is resumed under."""

import hashlib
import os
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from dpwgan.app import public_table
from dpwgan.app.api import Synthesizer
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import DataError, InputError, ResourceError, UsageError
from dpwgan.marginals.one_way.one_ways import ONE_WAYS_LABEL
from dpwgan.marginals.selection.queries import ANSWER_LABEL
from dpwgan.privacy.ledger import Ledger
from tests.lives import ASKED, QUERIES, RECORDS, SPECS, live, make_frame


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
    assert f"and a table of {len(make_frame().iloc[::2])} rows" in claim.document["summary"][-1]
    assert list(find_faults(claim)) == []
    assert "table" not in alone.document["public"]


def test_public_rows_say_how_many_their_unit_has_as_private_ones_do(tmp_path):
    specs = {
        "unit": {"column": "house", "max_rows": 3},
        "house": {"type": "integer", "uuid": True},
        "x": {"type": "enum", "count": 2, "of": "unit"},
    }
    frame = pd.DataFrame({"house": np.repeat(np.arange(60), np.arange(60) % 5 + 1)})
    frame["x"] = frame.house % 5 // 2 % 2
    frame.to_csv(tmp_path / "public.csv", index=False)
    synthesizer = Synthesizer(specs, 1.0, method="query-gan", public=tmp_path / "public.csv").fit(frame)
    assert synthesizer.claim().document["public"]["table"]["records"] == 180
    assert synthesizer.sample().columns.tolist() == ["house", "x"]


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


def test_what_is_released_is_counted_in_private_rows_alone(public):
    def list_exact(**options):
        exact, release = [], Ledger.release

        def note(self, label, compute):
            def count():
                exact.append((label, compute()))
                return exact[-1][1]

            return release(self, label, count)

        with patch.object(Ledger, "release", note):
            Synthesizer(SPECS, ASKED, seed=1, **options, **QUERIES).fit(make_frame())
        return exact

    alone, exact = list_exact(), list_exact(public=public)
    assert [label for label, _ in exact] == [label for label, _ in alone]
    first = {label: counts.tolist() for label, counts in reversed(alone)}[ONE_WAYS_LABEL]
    assert {label: counts.tolist() for label, counts in reversed(exact)}[ONE_WAYS_LABEL] == first
    answers = [counts for label, counts in exact if label == ANSWER_LABEL]
    assert answers
    # Public rows, were they counted as well, would add to these.
    assert {counts.sum() for counts in answers} == {RECORDS}


def test_pipe_or_folder_is_no_public_table(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InputError, match="is not a file"):
            Synthesizer(SPECS, ASKED, public=path, **QUERIES)


def test_public_table_of_which_rules_drop_all_rows_is_refused_before_anything_is_charged(public):
    rules = [{"columns": ["a"], "forbidden": [[cell] for cell in SPECS["a"]["values"]], "violations": "drop"}]
    with pytest.raises(DataError, match="of the public table: The rules between columns drop all of its rows"):
        Synthesizer({**SPECS, "rules": rules}, ASKED, public=public, **QUERIES)


def test_public_table_that_is_too_large_is_refused_before_it_is_encoded(public, monkeypatch):
    monkeypatch.setattr(public_table, "_BYTES_A_CELL", 1 << 40)
    with pytest.raises(ResourceError, match="of memory"):
        Synthesizer(SPECS, ASKED, public=public, **QUERIES)
