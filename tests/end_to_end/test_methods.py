"""Methods on the road from a table to a claim: legal rows, and a certificate where due."""

import csv
from pathlib import Path

import pytest

from dpwgan.app.claim import read_claim
from tests.end_to_end.bad_inputs import run_inside, write_good
from tests.end_to_end.test_runs import check_rows

pytestmark = pytest.mark.slow

CRITIC = ("--steps", "3", "--batch-size", "8", "--hidden-critic", "8")
FIT = ("--fit-steps", "20", "--codes", "16")
METHODS: dict[str, tuple[str, ...]] = {
    "dp-wgan": ("--rounds", "2", *CRITIC, *FIT),
    "query-gan": ("--method", "query-gan", "--rounds", "2", *FIT),
    "dp-gan": ("--method", "dp-gan", *CRITIC, "--hidden-generator", "8", "--latent", "4"),
    "ron-gauss-classes": ("--method", "ron-gauss", "--label", "member"),
}


def read_table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


# What every variant owes is in tests/methods/test_every_method.py; these go the whole road, from file to file.
@pytest.mark.parametrize("name", METHODS)
def test_method_writes_legal_rows_and_a_valid_claim_when_all_is_well(name, tmp_path):
    write_good(tmp_path)
    arguments = ("data.csv", "out.csv", "specs.json", "2.0", "--accountant", "moments", "--save-model", "model")
    assert run_inside(tmp_path, *arguments, *METHODS[name]) == 0
    check_rows(read_table(tmp_path / "out.csv"), count=60)
    claim = read_claim(tmp_path / "out.csv.privacy.json")
    document = claim.document
    certified = document["method"]["name"] == "query-gan"
    assert (document["certificate"] is not None) == certified == ("accuracy: with confidence 95%" in claim.to_text())

    (tmp_path / "data.csv").unlink()
    assert run_inside(tmp_path, "--from-model", "model", "more.csv", "--rows", "90") == 0
    check_rows(read_table(tmp_path / "more.csv"), count=90)
    again = read_claim(tmp_path / "more.csv.privacy.json").document
    for key in ("guarantee", "budget", "ledger", "accountant", "method", "certificate"):
        assert again[key] == document[key]
