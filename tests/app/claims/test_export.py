"""`claim export`: what it writes is read by the registry's schema, by in-toto's library and by mlcroissant."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from dpwgan.__main__ import main
from dpwgan.privacy.certificate import Certificate
from tests.claims import make_claim
from tests.programs import TABLES

# What the registry asks of the fields that are written; its own schema, where that is there, is asked as well.
REGISTRY = json.loads((Path(__file__).parent / "registry.schema.json").read_text())
REGISTRYS_OWN = TABLES / "deployments-registry" / "schema.yaml"
TABLE = 'age,job,wage,"a b/c"\n30,nurse,1.5,007\n,"clerk, old",2,010\n'
ABOUT = ("--curator", "ACME", "--use", "tests", "--region", "NL", "--date", "2026-01-31")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.csv").write_text(TABLE)
    write_claim(tmp_path / "out.csv")
    return tmp_path


def write_claim(table: Path, **more: Any) -> None:
    claim = make_claim(**more).for_output_with(sha256=hashlib.sha256(table.read_bytes()).hexdigest())
    Path(f"{table}.privacy.json").write_text(claim.to_json())


def export(*words: str) -> Any:
    assert main(["claim", "export", "out.csv.privacy.json", *words, "--output", "made.json"]) == 0
    return json.loads(Path("made.json").read_text())


def test_record_fits_the_registrys_schema_when_it_is_read_as_yaml(folder):
    yaml = pytest.importorskip("yaml")
    certificate = Certificate(kind="k", statement="alpha holds", alpha=0.5, failure_probability=0.05)
    write_claim(folder / "out.csv", certificate=certificate, domains={"waived": ["SEA"]})
    export("--registry", *ABOUT)
    record = yaml.safe_load(Path("made.json").read_text())
    own = [yaml.safe_load(REGISTRYS_OWN.read_text())] if REGISTRYS_OWN.is_file() else []
    for schema in (REGISTRY, *own):
        jsonschema.validate(record, schema, format_checker=jsonschema.FormatChecker())
    deployment = record["deployment"]
    assert record["url_slug"] == "out-csv-acme-2026"
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["dp_variant"]["unprotected_quantities"].endswith(
        "; the lists or ranges of SEA, read from the rows."
    )
    assert deployment["privacy_loss"]["privacy_parameters"]["epsilon"] == 0.99
    assert float(deployment["privacy_loss"]["privacy_parameters"]["delta"]) == 1e-6
    assert deployment["implementation"]["mechanisms"].endswith("accuracy: alpha holds")


def test_record_names_how_many_rows_were_read_when_units_kept_fewer(folder):
    write_claim(folder / "out.csv", of_units={"units": 700, "rows_read": 1234})
    deployment = export("--registry", *ABOUT[:-1], "20260131")["deployment"]
    assert deployment["basic"]["publication_date"] == "2026-01-31"
    assert "one row replaced" not in deployment["privacy_loss"]["privacy_parameters_details"]
    unprotected = deployment["dp_variant"]["unprotected_quantities"]
    assert unprotected.startswith("That the table has 1000 rows kept of 1234 read, of 700 units; ")


def test_statement_asks_for_the_table_when_the_claims_name_does_not_tell_it(folder, capsys):
    Path("out.csv.privacy.json").rename("claim.json")
    assert main(["claim", "export", "claim.json", "--in-toto", "--output", "made.json"]) == 2
    assert "--in-toto needs --table TABLE" in capsys.readouterr().err
    assert not Path("made.json").exists()
    assert main(["claim", "export", "claim.json", "--in-toto", "--table", "out.csv", "--output", "made.json"]) == 0
    assert [own["name"] for own in json.loads(Path("made.json").read_text())["subject"]] == ["out.csv", "claim.json"]


def test_statement_names_table_and_claim_by_their_digests_when_in_toto_reads_it(folder):
    made = export("--in-toto")
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    for subject in made["subject"]:
        assert subject["digest"]["sha256"] == hashlib.sha256((folder / subject["name"]).read_bytes()).hexdigest()
    assert made["predicate"] == json.loads((folder / "out.csv.privacy.json").read_text())
    pytest.importorskip("in_toto_attestation")
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Form

    statement = Statement.copy_from_pb(json_format.Parse(Path("made.json").read_text(), Form()))
    statement.validate()
    assert [subject.name for subject in statement.pb.subject] == ["out.csv", "out.csv.privacy.json"]


def test_metadata_gives_the_columns_their_types_when_croissant_is_asked_for(folder):
    made = export("--croissant", *ABOUT, "--license", "https://creativecommons.org/publicdomain/zero/1.0/")
    fields = made["recordSet"][0]["field"]
    assert {field["name"]: field["dataType"] for field in fields} == {
        "age": "sc:Float",  # there are blanks in it
        "job": "sc:Text",
        "wage": "sc:Float",
        "a b/c": "sc:Text",
    }
    mlcroissant = pytest.importorskip("mlcroissant")
    data = mlcroissant.Dataset(folder / "made.json")
    first, _ = data.records("rows")
    assert (first["rows/age"], first["rows/job"]) == (30.0, b"nurse")


def test_metadata_is_made_of_parquet_by_its_types(folder):
    pl.DataFrame({"n": [1, None], "x": [1.5, 2.0], "d": ["a", "b"]}).write_parquet(folder / "out.parquet")
    write_claim(folder / "out.parquet")
    words = ("claim", "export", "out.parquet.privacy.json", "--croissant", "--output", "made.json")
    assert main(list(words)) == 0
    made = json.loads((folder / "made.json").read_text())
    kinds = [field["dataType"] for field in made["recordSet"][0]["field"]]
    assert kinds == ["sc:Integer", "sc:Float", "sc:Text"]
    assert made["distribution"][0]["encodingFormat"] == "application/x-parquet"


@pytest.mark.parametrize(
    ("words", "seeded", "code", "said"),
    [
        (("--registry",), False, 2, "--registry needs --curator, --use, --region, --date"),
        (("--registry", *ABOUT[:-1], "31.1.2026"), False, 2, "--date must be a day"),
        ((), False, 2, "One of the arguments"),
        (("--croissant", "--table", "other.csv"), False, 65, "is not the one that the claim names"),
        (("--croissant", "--table", "none.csv"), False, 66, "does not exist"),
        (("--in-toto", "--output", "out.csv"), False, 2, "--output would write over a file that is read"),
        (("--registry", *ABOUT), True, 65, "promises nothing"),
    ],
)
def test_export_is_refused_when_something_is_missing(folder, capfd, words, seeded, code, said):
    (folder / "other.csv").write_text("a\n1\n")
    write_claim(folder / "out.csv", seeded=seeded)
    assert main(["claim", "export", "out.csv.privacy.json", *words]) == code
    assert said in capfd.readouterr().err
    assert (folder / "out.csv").read_text() == TABLE
