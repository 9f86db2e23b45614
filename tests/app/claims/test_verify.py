"""`claim verify`: true claims hold, and one that was changed in any place that matters does not."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpwgan.__main__ import main
from dpwgan.app.api import Synthesizer
from dpwgan.app.claim import Claim
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import DpwganError
from dpwgan.marginals import anchor
from dpwgan.marginals.selection.comparisons import Comparisons
from dpwgan.privacy.accountants.accountant import BASIC, Accountant
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import (
    ExponentialSelection,
    Laplace,
    PoissonGaussian,
    StableSelection,
    discrete_gaussian,
)
from dpwgan.privacy.ledger import NOT_ASKED
from dpwgan.privacy.release import Release
from dpwgan.privacy.unit import ONE_ROW, Unit
from tests.claims import change_part, make_claim
from tests.ledgers import make_release, open_ledger

TABLE = b"a\n" + 1000 * b"1\n"
STEPS = make_release(
    "critic steps", PoissonGaussian(sampling_probability=0.05, noise_multiplier=9.0), 100, expected_batch_size=50
)
COUNTS = make_release("counts", discrete_gaussian(noise_multiplier=40.0, cells=4), sensitivity=2.0)
CHOICES = make_release("choices", ExponentialSelection(epsilon=0.01), 5)
CELLS = make_release("cells of SEA", StableSelection(epsilon=0.05, delta=1e-7))
NOISE = make_release("sums", Laplace(epsilon=0.2), 2)


def claim_of(
    *releases: Release,
    accountant: Accountant = MOMENTS,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    unit: Unit = ONE_ROW,
    delta: float = 1e-6,
    **more: Any,
) -> dict[str, Any]:
    """A claim whose every number is that of a ledger."""
    asked = Budget(epsilon=3.0, delta=delta)
    ledger = open_ledger(releases, budget=asked, accountant=accountant, relation=relation, unit=unit)
    for release in releases:
        ledger.charge(release.label, release.times)
    about = {"name": accountant.name, "version": accountant.version, "rule": "auto", "reason": "least noise"}
    claim = make_claim(
        guarantee=ledger.guarantee(),
        attacker=ledger.judge_attacker(),
        asked=asked,
        relation=relation,
        ledger=ledger.itemise(),
        accountant={**about, "alternatives": []},
        **more,
    )
    return json.loads(claim.for_output_with(sha256=hashlib.sha256(TABLE).hexdigest()).to_json())


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return claim_of(COUNTS, CHOICES, STEPS, CELLS, domains={"private": ["SEA"], "waived": ["CITY"]})


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize(
    ("accountant", "releases"), [(MOMENTS, (COUNTS, STEPS, CELLS)), (PLD, (COUNTS, CHOICES)), (BASIC, (NOISE,))]
)
def test_claim_holds_when_nothing_was_changed(accountant, releases, relation):
    document = claim_of(*releases, accountant=accountant, relation=relation)
    assert list(find_faults(Claim(document=document))) == []
    other = Claim(document=document).for_output(rows=7, chosen_by="asked for", from_saved_model=True)
    assert list(find_faults(other.for_output_with(where="a > 1"))) == []


def test_claim_holds_when_releases_left_nothing_to_ask(monkeypatch):
    specs = {name: {"type": "integer", "min": 0, "max": 999} for name in ("low", "high")}
    rows = np.random.default_rng(0).integers(0, 1_000, (200, 2)).astype(str)
    table = pl.DataFrame(rows, schema=["low", "high"]).with_columns(pl.lit("1").alias("flag"))
    monkeypatch.setattr(anchor, "ask_for_comparisons", lambda *given, **more: Comparisons())
    settings = {"rounds": 4, "fit_steps": 200, "codes": 20}
    fit = Synthesizer({**specs, "flag": {"type": "boolean"}}, 20.0, method="query-gan", settings=settings).fit(table)
    lines = {line["label"]: line for line in fit.claim().document["ledger"]}
    assert lines["comparison answers"]["charged"] == 0 < lines["comparison answers"]["details"][NOT_ASKED]
    assert list(find_faults(fit.claim())) == []


CHANGES: list[tuple[str, Any, str]] = [
    ("ledger.0.stddev", 160.0, "epsilon"),
    ("ledger.0.stddev", 40.0, "epsilon"),
    ("ledger.0.stddev", "80", "does not bear it out"),
    ("ledger.0.stddev", 80.00000000001, "does not bear it out"),
    ("ledger.0.cells", 3, "epsilon"),
    ("ledger.0.reserved", 2, "epsilon"),
    ("ledger.0.charged", 2, "would pass the reservation"),
    ("ledger.0.charged", 0, "0 of 1 acts were charged, and"),
    ("ledger.1.charged", 4, "4 of 5 acts were charged, and"),
    ("ledger.1.epsilon", 0.005, "epsilon"),
    ("ledger.1.replace_one_factor", 3.0, "does not bear it out"),
    ("ledger.1.event", "none of them", "does not bear it out"),
    ("ledger.1.label", "counts", "does not bear it out"),
    ("ledger.1.accountant", "pld", "ledger[2].accountant is not"),
    ("ledger.2.noise_multiplier", 18.0, "epsilon"),
    ("ledger.2.noise_multiplier", 0.5, "does not bear it out"),
    ("ledger.2.sampling_probability", 0.01, "a batch of 50"),
    ("ledger.2.reserved", 10, "would pass the reservation"),
    ("ledger.2.details.expected_batch_size", 10, "a batch of 10"),
    ("ledger.3.delta", 1e-9, "epsilon"),
    ("ledger.3", ..., "epsilon"),
    ("guarantee.epsilon", 0.1, "guarantee.epsilon is 0.1"),
    ("guarantee.delta", 1e-12, "guarantee.delta"),
    ("guarantee.for_replace_one.epsilon", 0.1, "for_replace_one.epsilon"),
    ("guarantee.attacker.right_at_most", 0.5, "right_at_most"),
    ("guarantee.attacker.sure_at_most", 0.5, "sure_at_most"),
    ("guarantee.unit", "one person with any number of rows", "guarantee.unit is not"),
    ("guarantee.neighbouring_relation.name", "replace_one", "neighbouring_relation.name is not"),
    ("guarantee.trust_model", "nobody sees the rows", "trust_model is not"),
    ("guarantee", None, "either a guarantee or the reason"),
    ("budget.epsilon_asked", 0.1, "would spend more epsilon"),
    ("budget.epsilon_spent", 0.1, "budget.epsilon_spent is 0.1"),
    ("budget.delta_asked", 1e-3, "delta"),
    ("budget.delta_asked", 2e-6, "which is not the default for 1000 rows"),
    ("budget.neighbouring_relation", "replace_one", "epsilon"),
    ("accountant.name", "pld", "epsilon"),
    ("accountant.assumptions", ["none"], "accountant.assumptions is not"),
    ("public.records", 10, "10 rows"),
    ("columns.domains_waived", [], "not_covered"),
    ("columns.domains_paid_for", ["AGE", "SEA"], "names 'AGE', whose list of cells no line"),
    ("columns.domains_paid_for.0", "AGE", "names 'AGE', whose list of cells no line"),
    ("public.rows_read", 999, "999, and 1000 rows of these were kept"),
    ("public.units", 1001, "1001, and 1000 rows of these were kept"),
    ("output.note", "Each further table costs epsilon anew.", "output.note is not"),
    ("columns.formats", "as in the rows", "columns.formats is not"),
    ("randomness.seeded", True, "seed"),
    ("randomness.floating_point", "none", "floating_point is not"),
    ("summary.0", "Nobody can tell anything.", "summary[1] is not"),
    ("statement", "All is well.", "statement is not"),
    ("warnings", ["none"], "warnings is not"),
    ("not_covered", ["nothing"], "not_covered is not"),
    ("covered.0", "all", "covered[1] is not"),
    ("output.rows", 0, "does not fit its schema"),
    ("surprise", 1, "does not fit its schema"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "words"), CHANGES, ids=[f"{path}={value}" for path, value, _ in CHANGES])
def test_fault_is_told_when_a_part_was_changed(whole, path, value, words):
    try:
        faults = list(find_faults(Claim(document=change_part(whole, path, value))))
    except DpwganError as error:
        faults = [str(error)]
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize("unit", [Unit(rows=3), Unit(rows=2, named="person", sampled=True)])
def test_claim_of_a_unit_holds_and_not_when_the_unit_is_said_to_have_other_rows(unit):
    document = claim_of(COUNTS, STEPS, unit=unit)
    assert not list(find_faults(Claim(document=document)))
    for rows in (1, unit.rows + 1):
        forged = change_part(document, "guarantee.rows_per_unit", rows)
        assert any("not accounted for as all rows of a unit" in fault for fault in find_faults(Claim(document=forged)))


def test_claim_of_a_unit_does_not_hold_when_lists_of_cells_are_paid_for_as_if_it_had_one_row():
    document = claim_of(COUNTS, CELLS, unit=Unit(rows=3, named="person"))
    assert not list(find_faults(Claim(document=document)))
    forged = change_part(document, "ledger.1.rows", ...)
    assert list(find_faults(Claim(document=forged))) == [
        "'cells of SEA': it is not accounted for as all rows of a unit"
    ]


@pytest.fixture
def folder(whole, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.csv").write_bytes(TABLE)
    (tmp_path / "claim.json").write_text(json.dumps(whole))
    return tmp_path


def test_command_says_what_holds_and_its_code_what_does_not_when_asked(whole, folder, capfd):
    assert main(["claim", "verify", "claim.json", "out.csv"]) == 0
    assert capfd.readouterr().out.splitlines() == ["claim.json: the claim holds", *whole["summary"]]
    (folder / "out.csv").write_bytes(TABLE + b"2\n")
    assert main(["claim", "verify", "claim.json", "out.csv"]) == 65
    out, err = capfd.readouterr()
    assert out.startswith("The table 'out.csv' is not the one that the claim names: its SHA-256 is ")
    assert err == "dpwgan: error: The claim has 1 fault.\n"
    assert main(["claim", "verify", "claim.json", "out.csv", "--json", "-"]) == 65
    assert len(json.loads(capfd.readouterr().out)["faults"]) == 1
    assert main(["claim", "verify", "claim.json"]) == 0
    assert main(["claim", "verify", "none.json"]) == 66
    (folder / "claim.json").write_text("[]")
    assert main(["claim", "verify", "claim.json"]) == 65
    assert (
        "'claim.json' is not a JSON object, as a claim is: that of a table lies beside it, TABLE.privacy.json."
        in capfd.readouterr().err
    )


def test_command_says_what_the_numbers_do_and_not_a_claim_of_another_version(whole, folder, capfd):
    told = "How strongly: epsilon 0.0001"
    changed = change_part(change_part(whole, "tool.version", "0.0.9"), "summary.2", told)
    (folder / "claim.json").write_text(json.dumps(changed))
    assert main(["claim", "verify", "claim.json", "out.csv"]) == 0
    out = capfd.readouterr().out
    assert told not in out
    assert whole["summary"][2] in out
    assert "its own sentences, of version 0.0.9, were not compared" in out


def test_fault_is_told_when_the_table_has_other_rows_than_the_claim_says(whole, folder, capfd):
    (folder / "claim.json").write_text(json.dumps(change_part(whole, "output.rows", 2)))
    assert main(["claim", "verify", "claim.json", "out.csv"]) == 65
    assert capfd.readouterr().out == "output.rows is 2, and the table 'out.csv' has 1000\n"


def test_command_says_that_nothing_is_promised_when_there_is_no_guarantee(folder, capfd):
    (folder / "claim.json").write_text(make_claim(seeded=True).to_json())
    assert main(["claim", "verify", "claim.json", "out.csv"]) == 65
    out = capfd.readouterr().out
    assert out.startswith("It promises nothing: NOT PRIVATE: --seed was given")
    assert "It names no table" in out
