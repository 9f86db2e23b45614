"""The shipped specs of the 1940 census table, the script that builds them, and the 2018 challenge's own dialects."""

import importlib.util
import json
import shutil
import sys
from types import ModuleType

import pytest

from dpwgan.errors import SpecsError
from dpwgan.table.codebook import read_codebook
from dpwgan.table.encoded import TableShape, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema
from dpwgan.table.specs import Problems, parse_specs, read_specs, survey_specs
from tests.programs import ROOT, TABLES, call

SHIPPED = ROOT / "specs" / "nist2018-match3.json"
SCRIPT = ROOT / "scripts" / "build_nist2018_match3.py"
PACK = TABLES / "nist-1940-census"
needs_pack = pytest.mark.skipif(not PACK.is_dir(), reason="the competitor pack is not here")


@pytest.fixture(scope="module")
def schema() -> Schema:
    return read_specs(SHIPPED)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_nist2018", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- as shipped -------------------------------------------------------------------------------------------------------


def test_shipped_specs_treat_all_98_columns_from_public_facts(schema):
    kinds = [type(column) for column in schema.columns]
    assert len(kinds) == 98
    assert (kinds.count(CategoricalColumn), kinds.count(NumericColumn), kinds.count(DerivedColumn)) == (63, 20, 15)
    assert all(column.domain == "specs" for column in schema.columns if isinstance(column, CategoricalColumn))
    assert all(keys["description"] for keys in json.loads(SHIPPED.read_text()).values())


def test_shipped_specs_encode_as_wide_as_documented(schema):
    width = TableShape(records=0, spans=lay_out_spans(schema)).width
    assert width == 13_145
    assert "13,145" in (ROOT / "docs" / "speed.md").read_text()


@pytest.mark.parametrize(
    ("name", "treatment"),
    [
        ("SEX", CategoricalColumn(name="SEX", tokens=("1", "2"), integer=True)),
        ("AGE", NumericColumn(name="AGE", minimum=0, maximum=135, integer=True)),
        ("RENT", NumericColumn(name="RENT", minimum=1, maximum=9997, integer=True, missing=("0", "9998", "9999"))),
        ("BPL", DerivedColumn(name="BPL", source="BPLD", floordiv=100)),
        ("EDUC", DerivedColumn(name="EDUC", source="EDUCD", floordiv=10)),
    ],
)
def test_shipped_specs_treat_a_column_as_the_paper_does_when(schema, name, treatment):
    assert schema.by_name[name] == treatment


@pytest.mark.parametrize("name", ["SEA", "METAREAD", "COUNTY", "CITY", "MIGSEA5", "OCC"])
def test_shipped_specs_keep_open_no_domain_when_the_paper_looked_elsewhere(schema, name):
    column = schema.by_name[name]
    assert isinstance(column, CategoricalColumn)
    assert len(column.tokens) > 200


# --- against the competitor pack --------------------------------------------------------------------------------------


@needs_pack
def test_shipped_specs_are_what_the_script_builds(script, tmp_path):
    run = call(sys.executable, SCRIPT, PACK, tmp_path / "out.json", check=True)
    assert (tmp_path / "out.json").read_text() == SHIPPED.read_text()
    assert run.stdout == script.describe(read_specs(SHIPPED)) + "\n"


@needs_pack
def test_shipped_specs_accept_every_code_of_the_codebook_in_any_state(schema):
    codebook = read_codebook(PACK / "codebook.cbk")
    for column in schema.columns:
        codes = [str(int(code)) for code in codebook.labels.get(column.name, ())]
        if isinstance(column, CategoricalColumn):
            assert set(codes) <= set(column.tokens), column.name
        elif isinstance(column, NumericColumn):
            assert all(code in column.missing or column.minimum <= int(code) <= column.maximum for code in codes)
        elif isinstance(column, DerivedColumn):
            source = schema.by_name[column.source]
            assert isinstance(source, CategoricalColumn)
            assert set(codes) <= {column.derive(token, available=True) for token in source.tokens}, column.name


@needs_pack
@pytest.mark.parametrize(
    ("name", "largest", "words"),
    [
        ("RACE", 7, "RACE is not RACED divided by 100"),
        ("SEI", 97, "SEI: the challenge's largest code 97 would be refused"),
    ],
)
def test_script_refuses_a_largest_code_that_the_codebook_contradicts(script, name, largest, words):
    challenge = json.loads((PACK / "colorado-specs.json").read_text())
    challenge[name]["maxval"] = largest
    with pytest.raises(ValueError, match=words):
        script.build_specs(codebook=read_codebook(PACK / "codebook.cbk"), challenge=challenge)


@needs_pack
def test_script_fails_when_the_pack_lacks_a_file(tmp_path):
    shutil.copy(PACK / "colorado-specs.json", tmp_path)
    assert call(sys.executable, SCRIPT, tmp_path, tmp_path / "out").returncode != 0
    assert not (tmp_path / "out").exists()


@needs_pack
def test_challenge_specs_are_refused_for_each_wide_column_when_no_list_is_given():
    problems = Problems()
    survey_specs(json.loads((PACK / "colorado-specs.json").read_text()), problems, sha256="")
    assert {"VALUEH", "INCWAGE", "BPLD"} < problems.columns
    assert all("which need a list" in str(error) for error in problems.found)
    with pytest.raises(SpecsError, match=f"and {len(problems.found) - 1} more problems"):
        problems.raise_if_any()


@needs_pack
def test_challenge_specs_are_read_when_codebook_and_treatment_are_added():
    challenge = json.loads((PACK / "colorado-specs.json").read_text())
    codebook = read_codebook(PACK / "codebook.cbk")
    for name, keys in challenge.items():
        if codebook.labels.get(name):
            keys["domain_from"] = "codebook"
        elif keys["maxval"] >= 9999:
            keys["treat_as"] = "number-or-missing"
    schema = parse_specs(challenge, sha256="", codebook=codebook)
    metro, value = schema.by_name["METRO"], schema.by_name["VALUEH"]
    assert isinstance(metro, CategoricalColumn)
    assert metro.tokens == ("0", "1", "2", "3")
    assert metro.domain == "codebook"
    assert isinstance(value, NumericColumn)
    assert (value.maximum, value.missing) == (9_999_998, ("9999999",))
