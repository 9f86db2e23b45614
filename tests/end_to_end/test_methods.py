"""Every method on the road from a table to a claim: legal rows, a ledger that adds up, and a certificate where due."""

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

import dpwgan
from dpwgan.app import cli
from dpwgan.app.claim import read_claim
from tests.end_to_end.bad_inputs import inside, run_inside, write_good
from tests.end_to_end.test_runs import check_rows

pytestmark = pytest.mark.slow

CRITIC = ("--steps", "3", "--batch-size", "8", "--hidden-critic", "8")
FIT = ("--fit-steps", "20", "--codes", "16")
METHODS: dict[str, tuple[str, ...]] = {
    "dp-wgan": ("--rounds", "2", *CRITIC, *FIT),
    "dp-wgan-alone": ("--anchor", "none", *CRITIC, "--hidden-generator", "8", "--latent", "4"),
    "query-gan": ("--method", "query-gan", "--rounds", "2", *FIT),
    "query-gan-3-ways": ("--method", "query-gan", "--rounds", "4", "--ways", "3", *FIT),
    "query-gan-one-layer": ("--method", "query-gan", "--oracle", "one-layer", "--rounds", "1", "--codes", "16"),
    "dp-gan": ("--method", "dp-gan", *CRITIC, "--hidden-generator", "8", "--latent", "4"),
    "ron-dp-gan": ("--method", "ron-dp-gan", *CRITIC, "--hidden-generator", "8"),
    "ron-gauss": ("--method", "ron-gauss"),
    "ron-gauss-gaussian": ("--method", "ron-gauss", "--noise", "gaussian", "--projection-dimension", "5"),
    "ron-gauss-classes": ("--method", "ron-gauss", "--label", "member"),
    "independent": ("--method", "independent"),
    "dp-critic-formal": ("--method", "dp-critic", "--formal", "--steps", "2", "--batch-size", "8", "--latent", "4"),
}
ORDERS = [*np.arange(1.1, 11, 0.1), *range(11, 64), *(2**power for power in range(6, 15))]

PURE = ("laplace", "wishart")


def add_up(ledger: list[dict[str, Any]], *, delta: float, selections: bool) -> float:
    """Adds the lines of a claim up once more, by dp_accounting: selections as Gaussians of the same zCDP, or not."""
    accountant = RdpAccountant(orders=ORDERS)
    pure = sum(line["epsilon"] * line["charged"] for line in ledger if line["event"] in PURE)
    if pure:
        assert all(line["event"] in PURE for line in ledger)
        return float(pure)
    for line in ledger:
        if line["event"] == "poisson_gaussian":
            noise = dp_accounting.GaussianDpEvent(line["noise_multiplier"])
            event = dp_accounting.PoissonSampledDpEvent(line["sampling_probability"], noise)
        elif line["event"] == "gaussian":
            event = dp_accounting.GaussianDpEvent(line["noise_multiplier"])
        elif line["event"] == "discrete_gaussian":
            event = dp_accounting.GaussianDpEvent(line["stddev"] / line["cells"] ** 0.5)
        else:
            assert line["event"] == "exponential_selection"
            if not selections:
                continue
            event = dp_accounting.GaussianDpEvent(2 / line["epsilon"])
        accountant.compose(event, line["charged"])
    epsilon: float = accountant.get_epsilon(delta)
    return epsilon


# What every variant owes is in tests/methods/test_every_method.py; these go the whole road, from file to file.
@pytest.mark.parametrize("name", ["dp-wgan", "query-gan", "dp-gan", "ron-gauss-classes"])
def test_method_writes_legal_rows_and_a_valid_claim_when_all_is_well(name, tmp_path):
    write_good(tmp_path)
    arguments = ("data.csv", "out.csv", "specs.json", "2.0", "--accountant", "moments", "--save-model", "model")
    assert run_inside(tmp_path, *arguments, *METHODS[name]) == 0
    check_rows((tmp_path / "out.csv").read_text(), count=60)
    claim = read_claim(tmp_path / "out.csv.privacy.json")
    document = claim.document
    certified = document["method"]["name"] == "query-gan"
    assert (document["certificate"] is not None) == certified == ("accuracy: with confidence 95%" in claim.to_text())

    (tmp_path / "data.csv").unlink()
    assert run_inside(tmp_path, "--from-model", "model", "more.csv", "--rows", "90") == 0
    check_rows((tmp_path / "more.csv").read_text(), count=90)
    again = read_claim(tmp_path / "more.csv.privacy.json").document
    for key in ("guarantee", "budget", "ledger", "accountant", "method", "certificate"):
        assert again[key] == document[key]


@pytest.mark.parametrize("name", METHODS)
def test_ledger_adds_up_to_the_claim_when_another_library_does_the_sum(name, tmp_path):
    write_good(tmp_path)
    with inside(tmp_path):
        config = cli.parse(
            ["data.csv", "out.csv", "specs.json", "2.0", "--accountant", "moments", *METHODS[name]], environment={}
        )
        synthesizer = dpwgan.Synthesizer(config.specs, 2.0, **read_options(config))
    plan = synthesizer.plan(records=60)
    ledger = plan.open_ledger()
    lines = ledger.itemise()
    for line in lines:
        line["charged"] = line["reserved"]
    stated, delta = ledger.guarantee().epsilon, ledger.guarantee().delta
    assert stated <= 2.0
    assert (delta == 0) == all(line["event"] in PURE for line in lines)
    assert add_up(lines, delta=delta, selections=False) * 0.9999 <= stated
    assert stated <= add_up(lines, delta=delta, selections=True) * 1.0001
    # The twin: a line that is left out is noticed, where selections leave no room.
    if all(line["event"] != "exponential_selection" for line in lines) and len(lines) > 1:
        assert add_up(lines[:-1], delta=delta, selections=True) < stated * 0.9999


def read_options(config: Any) -> dict[str, Any]:
    synthesis = config.synthesis
    return {"method": synthesis.method, "accountant": synthesis.accountant, "settings": synthesis.settings}
