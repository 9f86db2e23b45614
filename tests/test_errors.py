"""Names in messages: on one line, harmless on a terminal, short."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.app.cli import main
from dpwgan.app.logs import LOGGER, print_lines, speak
from dpwgan.errors import printable, quote, show_name
from tests.claims import make_claim
from tests.end_to_end.bad_inputs import inside

FORGED = "a\ndpwgan: error: no budget was spent\x1b[2K\u202e"


@given(st.text())
def test_names_stay_on_their_line_when_they_are_shown(name):
    for shown in (printable(name), show_name(name), quote(name)):
        assert shown.isprintable()
    assert len(quote(name)) <= 80
    assert len(show_name(name)) <= 80


def test_names_are_cut_when_they_are_long():
    assert quote("x" * 5_000) == f"'{'x' * 75}...'"
    assert show_name("x" * 5_000) == f"{'x' * 77}..."
    assert printable("x" * 5_000) == "x" * 5_000


def test_log_and_stdout_have_one_line_an_event_when_a_name_holds_others(capsys):
    with speak():
        LOGGER.log(logging.INFO, "the column %s is wide", FORGED)
    print_lines([FORGED])
    out, err = capsys.readouterr()
    assert (out.count("\n"), err.count("\n")) == (1, 1)
    assert not {"\x1b", "\u202e"} & {*out, *err}


def test_claim_says_a_fact_a_line_when_a_name_holds_others():
    document = json.loads(make_claim().to_json())
    lines = make_claim().to_text().count("\n")
    document["ledger"][0]["label"] = FORGED
    document["columns"]["domains_waived"] = [FORGED, "x" * 5_000]
    text = type(make_claim())(document=document).to_text()
    assert text.count("\n") == lines + (not make_claim().document["columns"]["domains_waived"])
    assert "\x1b" not in text
    assert "x" * 100 not in text


@pytest.mark.slow
def test_run_forges_no_line_when_a_column_has_a_name_of_many(tmp_path, capfd):
    name = FORGED + "x" * 5_000
    specs = {
        name: {"type": "enum", "values_from": "data", "domain_privacy": "waived"},
        "b": {"type": "enum", "count": 2},
    }
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    (tmp_path / "data.csv").write_text(f'"{name}",b\n' + "x,1\n" * 60, encoding="utf-8")
    arguments = ["data.csv", "out.csv", "specs.json", "1", "--method", "independent"]
    with inside(tmp_path):
        assert main(arguments, environment={}) == 0
        assert main([*arguments, "--check"], environment={}) == 0
        (tmp_path / "data.csv").write_text(f'"{name}",b\n' + "x,3\n" * 60, encoding="utf-8")
        assert main(arguments, environment={}) == 65
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert not any(line.startswith("dpwgan: error: no") for line in err.splitlines())
    assert all(line.startswith("dpwgan: ") for line in err.splitlines())
