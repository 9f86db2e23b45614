"""The baseline: every column by itself, from one release."""

import math

import numpy as np
import pytest

from dpwgan.errors import UsageError
from dpwgan.marginals.anchor import ONE_WAYS_LABEL
from dpwgan.marginals.mixture_sampler import MixtureSampler
from dpwgan.methods.registry import get_method
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian
from tests.methods.privacy_totals import gaussian_delta
from tests.methods.runs import NARROW, make_plan, make_table, refuse_illegal, run


@pytest.mark.parametrize("columns", [NARROW, NARROW[:1], [NARROW[2]], [NARROW[4]], NARROW[:2]])
@pytest.mark.parametrize("records", [1, 2, 300])
def test_sampled_cells_are_legal_when_columns_and_rows_are_few_or_many(columns: list, records: int) -> None:
    done = run("independent", make_table(records, columns=columns))
    refuse_illegal(done.sampled)
    assert [line["label"] for line in done.ledger.itemise()] == [ONE_WAYS_LABEL]
    assert done.ledger.itemise()[0]["charged"] == 1


def test_columns_are_independent_when_the_table_holds_two_that_are_the_same() -> None:
    encoded = make_table(3_000, columns=[NARROW[0], NARROW[3]])
    encoded.codes[:, 0] %= 5
    encoded.codes[:, 1] = encoded.codes[:, 0]
    done = run("independent", encoded, epsilon=100.0, records=3_000)
    assert isinstance(done.fitted, MixtureSampler)
    assert len(done.fitted.probabilities) == 1
    shares = np.bincount(done.sampled.codes[:, 0], minlength=5) / 3_000
    assert shares == pytest.approx(np.bincount(encoded.codes[:, 0], minlength=5) / 3_000, abs=0.01)
    # Equal columns agree in every row; independent ones in the sum of squares of the shares, give or take 0.01.
    agree = float(np.mean(done.sampled.codes[:, 0] == done.sampled.codes[:, 1]))
    assert agree == pytest.approx(float((shares**2).sum()), abs=0.05)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_noise_is_that_of_one_gaussian_when_the_whole_budget_is_its_own(epsilon: float) -> None:
    plan = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld")
    (event, count) = plan.releases[0].charge
    assert count == 1
    assert isinstance(event, DiscreteGaussian)
    rho = event.cells / (2 * event.stddev**2)
    assert gaussian_delta(epsilon, rho=rho) <= 1e-5
    # Where noise is about one count, what stands in for it costs a little.
    assert gaussian_delta(epsilon, rho=rho * (1.01 if epsilon < 30 else 1.12)) > 1e-5
    # Replacing a record moves one count down and another one up in each histogram.
    other = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld", relation=REPLACE_ONE)
    replaced = other.releases[0].event
    assert isinstance(replaced, DiscreteGaussian)
    assert replaced.stddev == pytest.approx(math.sqrt(2) * event.stddev, rel=0.01 if epsilon < 30 else 0.05)


REPLACE_ONE = NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize("setting", ["rounds", "codes", "oracle", "fit_steps"])
def test_setting_is_refused_by_name_when_there_is_any(setting: str) -> None:
    with pytest.raises(UsageError, match=f"independent has no setting {setting.replace('_', '-')}"):
        get_method("independent").make_settings(**{setting: 3})
