"""The claim: everything that a reader needs is in it, and nothing that was not proved."""

import json
import math

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.app.api import Synthesizer
from dpwgan.app.claim import (
    COUNTS_USE,
    NOT_PRIVATE,
    ROWS_USE,
    SAMPLING_USE,
    SCHEMA_FILE,
    Claim,
    read_claim,
)
from dpwgan.app.claims.text import describe_accountant, describe_ledger, round_up, summarise
from dpwgan.app.config import RECORDS
from dpwgan.errors import DpwganError, InputError
from dpwgan.privacy.attacker import Attacker
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.events import ExponentialSelection, discrete_gaussian
from tests.claims import CRITIC_STEPS, change_part, make_claim, make_line
from tests.programs import ROOT

COUNTS = [
    make_line(
        "query selections",
        "exponential mechanism on the expected gains of answers",
        ExponentialSelection(epsilon=0.01234561),
        count=3,
        score_sensitivity=1.0,
    ),
    make_line(
        "query answers",
        "discrete Gaussian noise on the counts of the selected marginal",
        discrete_gaussian(noise_multiplier=100.0, cells=1),
        count=3,
    ),
]
CERTIFICATE = Certificate(
    kind="two-way marginals",
    statement="no cell of a two-way marginal is further than alpha from its share of the rows",
    alpha=0.00432109,
    failure_probability=0.05,
    details={"cells": 120},
)


def test_claim_schema_is_itself_valid_when_read_from_the_specs_folder():
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA_FILE.read_text()))


def test_claim_states_all_of_the_promise_when_it_is_made():
    document = make_claim().document
    guarantee = document["guarantee"]
    assert guarantee["definition"] == "(epsilon, delta)-differential privacy"
    assert (guarantee["epsilon"], guarantee["delta"]) == (0.99, 1e-6)
    assert guarantee["unit"] == "one row of the input table"
    assert guarantee["trust_model"].startswith("central curator")
    assert guarantee["releases"] == 1
    assert guarantee["neighbouring_relation"]["name"] == "zero_out"
    assert document["budget"]["epsilon_asked"] == 1.0
    assert document["public"]["records"] == 1000
    assert document["public"]["specs_sha256"] == "ab" * 32
    assert document["randomness"]["seeded"] is False
    assert document["accountant"]["alternatives"][0]["name"] == "amortized"
    assert any("exit code" in item and "running time" in item for item in document["not_covered"])
    assert any("other releases" in item for item in document["not_covered"])
    assert any("saved model" in item for item in document["covered"])


@pytest.mark.parametrize(
    ("relation", "epsilon", "delta"),
    [
        (NeighboringRelation.ZERO_OUT, 2 * 0.99, (1 + math.exp(0.99)) * 1e-6),
        (NeighboringRelation.REPLACE_ONE, 0.99, 1e-6),
    ],
)
def test_claim_says_what_follows_for_replace_one_when_there_is_a_guarantee(relation, epsilon, delta):
    replace = make_claim(relation=relation).document["guarantee"]["for_replace_one"]
    assert (replace["epsilon"], replace["delta"]) == pytest.approx((epsilon, delta))


def test_claim_says_that_nothing_follows_for_replace_one_when_its_delta_would_reach_one():
    claim = make_claim(epsilon=20.0, asked=Budget(epsilon=20.0, delta=1e-6))
    replace = claim.document["guarantee"]["for_replace_one"]
    assert replace["epsilon"] is None
    assert replace["delta"] is None
    assert "nothing follows" in claim.to_text()


def test_claim_is_stamped_when_a_seed_was_given():
    claim = make_claim(seeded=True)
    assert claim.document["guarantee"] is None
    assert claim.document["why_no_guarantee"].startswith(NOT_PRIVATE)
    assert claim.document["statement"].startswith(NOT_PRIVATE)
    assert not claim.private
    assert NOT_PRIVATE in claim.to_text()
    assert claim.document["covered"] == []


def test_claim_names_waived_columns_as_not_covered_when_there_are_some():
    claim = make_claim(domains={"waived": ["CITY", "SEA"], "private": ["OCC"], "codebook": ["SEX"]})
    assert claim.document["columns"]["domains_waived"] == ["CITY", "SEA"]
    assert any("CITY, SEA" in item for item in claim.document["not_covered"])
    assert claim.document["statement"].endswith(
        "This does not cover the lists or ranges of CITY, SEA, read from the rows."
    )
    text = claim.to_text()
    assert "WAIVED, not covered: CITY, SEA" in text
    assert "paid for: OCC" in text


def test_claim_writes_null_when_an_accountant_gives_no_number():
    claim = make_claim(alternatives=[{"name": "pld", "noise_multiplier": math.inf, "epsilon": math.nan}])
    assert claim.document["accountant"]["alternatives"] == [{"name": "pld", "noise_multiplier": None, "epsilon": None}]
    last = describe_accountant(claim.document["accountant"], verbose=True)[-1]
    assert last == "  pld cannot meet it with any noise multiplier, and gives epsilon none for the noise used"


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0000001, 1e-6), (0.5, 1.1e-6)])
def test_claim_is_refused_when_more_was_spent_than_asked(epsilon, delta):
    with pytest.raises(DpwganError, match="than was asked for") as caught:
        make_claim(epsilon=epsilon, delta=delta)
    assert caught.value.exit_code == 70


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("guarantee", ...),
        ("summary", ...),
        ("guarantee.attacker.proof", ...),
        ("guarantee.attacker.sure_at_most", 1.5),
        ("budget.delta_asked", ...),
        ("guarantee.neighbouring_relation", ...),
        ("accountant.name", ...),
        ("ledger", []),
        ("output.rows", 0),
        ("public.specs_sha256", "x"),
        ("guarantee.delta", 1.5),
        ("guarantee.definition", "epsilon only"),
        ("guarantee", None),
        ("why_no_guarantee", "because"),
        ("randomness.seeded", True),
        ("guarantee.epsilon", "0.1"),
        ("surprise", 3),
        ("certificate", {"alpha": 0.1}),
        ("certificate", {**CERTIFICATE.describe(), "alpha": -1.0}),
        ("certificate", {**CERTIFICATE.describe(), "failure_probability": 0.9}),
    ],
)
def test_claim_is_refused_when_a_part_is_missing_or_wrong(path, value):
    with pytest.raises(DpwganError):
        Claim(document=change_part(make_claim().document, path, value))


def test_claim_reads_back_when_it_was_written(tmp_path):
    claim = make_claim()
    path = tmp_path / "claim.json"
    path.write_text(claim.to_json(), encoding="utf-8")
    assert read_claim(path) == claim


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"claim_version": 1}'])
def test_claim_is_refused_when_the_file_is_damaged(tmp_path, text):
    (tmp_path / "claim.json").write_text(text)
    with pytest.raises(InputError, match="damaged"):
        read_claim(tmp_path / "claim.json")


def test_claim_keeps_its_promise_and_says_what_the_records_were_used_for_when_the_output_changes():
    claim = make_claim(certificate=CERTIFICATE)
    uses = list(claim.document["public"]["uses_of_records"])
    assert ROWS_USE in uses
    fewer = claim.for_output(rows=7, chosen_by="asked for", from_saved_model=True)
    assert fewer.rows == 7
    assert fewer.document["output"]["from_saved_model"] is True
    assert fewer.document["public"]["uses_of_records"] == [use for use in uses if use != ROWS_USE]
    for part in ("guarantee", "certificate"):
        assert fewer.document[part] == claim.document[part]
    back = fewer.for_output(rows=1000, chosen_by=RECORDS, from_saved_model=True)
    assert back.document["public"]["uses_of_records"] == claim.document["public"]["uses_of_records"] == uses
    assert claim.rows == 1000
    assert claim.for_output_with(sha256="cd" * 32).document["output"]["sha256"] == "cd" * 32


def test_claim_is_refused_when_an_alternative_names_its_noise_twice():
    with pytest.raises(DpwganError, match="alternatives"):
        make_claim(alternatives=[{"name": "pld", "noise_scale": 2.0, "noise_multiplier": 2.0, "epsilon": 1.0}])


def test_proved_bounds_are_never_written_smaller_when_they_come_from_elsewhere():
    alternative = {"name": "pld", "noise_multiplier": 2.0, "epsilon": 0.98765432}
    scaled = {"name": "pld", "noise_scale": 2.0, "epsilon": 0.98765432}
    lines = describe_accountant(make_claim(alternatives=[alternative, scaled]).document["accountant"], verbose=True)
    assert lines[2:] == [
        "  pld needs noise multiplier 2, and gives epsilon 0.987655 for the noise used",
        "  pld needs noise scale 2, and gives epsilon 0.987655 for the noise used",
    ]
    event = {"label": "cells of town", "mechanism": "stable selection", "epsilon": 0.01234561, "delta": 1.2345601e-9}
    assert describe_ledger([event]) == ["  cells of town: stable selection; epsilon 0.0123457, delta 1.23457e-09"]


def test_ledger_reads_as_words_when_its_lines_are_mixed():
    assert describe_ledger([CRITIC_STEPS, *COUNTS]) == [
        "  critic steps: Poisson-sampled Gaussian; sampling probability 0.05, noise multiplier 2, reserved 100, "
        "charged 100, expected batch size 50",
        "  query selections: exponential mechanism on the expected gains of answers; epsilon of each 0.0123457, "
        "sensitivities that a replaced row can move it by 2, reserved 3, charged 3, score sensitivity 1",
        "  query answers: discrete Gaussian noise on the counts of the selected marginal; stddev 100, "
        "counts that a row adds 1 to 1, reserved 3, charged 3",
    ]


@pytest.mark.parametrize(
    ("ledger", "uses"),
    [([CRITIC_STEPS], {SAMPLING_USE}), (COUNTS, {COUNTS_USE}), ([CRITIC_STEPS, *COUNTS], {SAMPLING_USE, COUNTS_USE})],
)
def test_claim_says_what_the_records_were_used_for_when_the_ledger_holds_counts(ledger, uses):
    claim = make_claim(ledger=ledger)
    again = claim.for_output(rows=7, chosen_by="asked for", from_saved_model=True)
    for document in (claim.document, again.document):
        assert set(document["public"]["uses_of_records"]) & {SAMPLING_USE, COUNTS_USE} == uses


def test_claim_states_the_certificate_apart_from_the_promise_when_there_is_one():
    claim = make_claim(certificate=CERTIFICATE)
    assert claim.document["certificate"]["alpha"] == 0.004322
    assert claim.document["guarantee"] == make_claim().document["guarantee"]
    assert (
        "accuracy: with confidence 95%, for alpha = 0.004322: no cell of a two-way marginal is further than alpha from "
        "its share of the rows (two-way marginals; cells 120)\n"
    ) in claim.to_text()
    assert "is no part of the privacy promise" in claim.to_text()
    assert "accuracy" not in make_claim().to_text()


def test_claim_never_overstates_its_confidence_when_the_failure_probability_is_tiny():
    certificate = Certificate(kind="k", statement="s", alpha=0.5, failure_probability=1e-12)
    text = make_claim(certificate=certificate).to_text()
    assert "with confidence 99.9999%, for alpha = 0.5: s (k)\n" in text


def test_claim_without_the_key_is_still_read_when_it_was_saved_before_certificates(tmp_path):
    path = tmp_path / "claim.json"
    path.write_text(json.dumps(change_part(make_claim().document, "certificate", ...)), encoding="utf-8")
    assert read_claim(path).to_text() == make_claim().to_text()


def test_claim_page_explains_every_line_when_compared_with_the_text():
    page = (ROOT / "docs" / "claim.md").read_text(encoding="utf-8")
    title, *lines = make_claim(ledger=[CRITIC_STEPS, *COUNTS], certificate=CERTIFICATE).to_text().splitlines()
    assert title.startswith("Privacy claim of dpwgan")
    for line in lines:
        assert f"> {line.split()[0]}" in page, line


def test_claim_page_shows_the_ledger_of_the_bundled_example_when_that_is_planned():
    example = ROOT / "examples" / "rand-hie"
    records = len((example / "data.csv").read_text().splitlines()) - 1
    items = Synthesizer(example / "data-specs.json", 1.0).plan(records=records).open_ledger().itemise()
    planned = describe_ledger([{**item, "charged": item["reserved"]} for item in items])
    page = (ROOT / "docs" / "claim.md").read_text(encoding="utf-8")
    shown = page.split("> ledger:\n", 1)[1].split("\n\n", 1)[0].replace("\n> ", " ").removeprefix("> ")
    assert shown.split() == " ".join(planned).split()


def test_claim_text_holds_every_number_of_the_promise_when_it_is_written():
    text = make_claim().to_text()
    for fragment in (
        "epsilon 0.99 spent of 1 asked",
        "delta 1e-06",
        "default: 1/n^2",
        "zero_out",
        "for replace-one: epsilon 1.98",
        "accountant: moments, rule auto\n",
        "critic steps: Poisson-sampled Gaussian; sampling probability 0.05, noise multiplier 2, reserved 100, "
        "charged 100, expected batch size 50",
        "1000 rows",
        "seeded: no",
        "floating point",
        "ab" * 32,
        "Srivastava and Alzantot 2019",
        "hidden_critic 256 x 256",
        "not covered: ",
    ):
        assert fragment in text, fragment


@settings(max_examples=200)
@given(value=st.floats(1e-300, 1e300), digits=st.integers(1, 9))
def test_bound_is_never_written_smaller_than_it_is_when_rounded(value, digits):
    written = float(round_up(value, digits=digits))
    # 17 digits would be exact; reading the decimal back may be off by half a unit in the last place of a float.
    assert written >= value * (1 - 2**-52)
    assert written <= value * (1 + 10.0 ** (1 - digits)) * (1 + 2**-52)


@pytest.mark.parametrize(
    ("events", "drawn"),
    [
        (["laplace", "exponential_selection", "discrete_gaussian"], ""),
        (["gaussian", "wishart"], "; noise on numbers that are no counts is drawn in floating point"),
        (
            ["poisson_gaussian", "gaussian"],
            "; noise on gradients and numbers that are no counts is drawn in floating point",
        ),
    ],
)
def test_summary_says_which_noise_is_drawn_in_floating_point(events, drawn):
    document = {**make_claim().document, "ledger": [{"event": event} for event in events]}
    assert summarise(document)[4].endswith(f"Assumed: the noise stays secret{drawn}.")


@pytest.mark.parametrize(("value", "written"), [(1e-8, "1e-08"), (1e-300, "1e-300"), (0.1, "0.1"), (1 / 3, "0.3334")])
def test_bound_is_written_as_it_was_asked_for_when_its_digits_say_all_of_it(value, written):
    assert round_up(value, digits=4) == written


def test_summary_says_who_is_protected_how_strongly_and_what_is_not_when_there_is_a_guarantee():
    document = make_claim(attacker=Attacker(right=0.5305, sure=0.7511, power=0.0701, proof="p")).document
    told, unit, strength, left_out, basis = document["summary"]
    assert told == (
        "Nobody who sees this table can tell with more than 75.2% certainty, but for a chance of 1e-06, whether any "
        "one row was in the real one, if it was an even chance to them before; a guess is then right at most "
        "53.1% of the time."
    )
    certain = summarise({**document, "guarantee": {**document["guarantee"], "delta": 0}})[0]
    assert certain == told.replace(", but for a chance of 1e-06,", "")
    for sure, begins in ((0.99999, "tell with more than 99.9991% certainty, but"), (1 - 1e-9, "guess whether any one")):
        weak = make_claim(attacker=Attacker(right=0.929, sure=sure, power=0.9, proof="p")).document
        assert weak["summary"][0].startswith(f"Nobody who sees this table can {begins}")
    assert weak["summary"][0].endswith("to them before, and be right more than 92.9% of the time.")
    none = make_claim(attacker=Attacker(right=1 - 1e-9, sure=1.0, power=1.0, proof="p")).document
    assert none["summary"][0] == (
        "Whoever sees this table may tell with certainty whether any one row was in the real one: so large an epsilon "
        "hides nothing."
    )
    assert unit.startswith("Protected is one row of the input table, from everybody")
    assert strength == (
        "How strongly: epsilon 0.99, delta 1e-06, neighbours zero_out, accountant moments; an attack with 5% false "
        "alarms finds at most 7.01% of those that were there."
    )
    assert left_out.startswith("Not covered: a person with more than one row; ")
    assert basis.startswith("Proved, not measured, from 1 kind of noisy looks at the rows")
    assert basis.endswith("the noise stays secret; noise on gradients is drawn in floating point.")
    assert "Taken as public: 1 row, specs" in make_claim(records=1).document["summary"][4]
    replaced = make_claim(relation=NeighboringRelation.REPLACE_ONE, ledger=COUNTS, domains={"waived": ["SEA"]}).document
    assert "was in the real one, or another row in its place" in replaced["summary"][0]
    assert "Not covered: the lists or ranges of SEA, read from the rows; a person" in replaced["summary"][3]
    assert replaced["summary"][4].endswith("the noise stays secret.")
    assert make_claim(seeded=True).document["summary"] == [make_claim(seeded=True).document["statement"]]


def test_attacker_is_bounded_by_epsilon_and_delta_alone_when_no_ledger_judges_him():
    attacker = make_claim().document["guarantee"]["attacker"]
    assert attacker["right_at_most"] == pytest.approx((math.exp(0.99) + 1e-6) / (1 + math.exp(0.99)))
    assert attacker["sure_at_most"] == 1  # delta lets him be sure now and then, and nothing more is known here
    assert attacker["proof"] == "epsilon and delta alone"


@pytest.mark.parametrize(("epsilon", "warned"), [(10.0, False), (10.5, True)])
def test_claim_warns_when_epsilon_is_weak(epsilon, warned):
    claim = make_claim(epsilon=epsilon, asked=Budget(epsilon=epsilon, delta=1e-6))
    assert claim.document["warnings"] == (
        ["epsilon 10.5 is weak: by itself it lets somebody who took a row's presence for even be 99.9973% sure of it "
         "afterwards"] if warned else []
    )  # fmt: skip
    assert ("WARNING: epsilon 10.5 is weak" in claim.document["summary"][2]) == warned
