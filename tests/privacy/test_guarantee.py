import math

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.guarantee import PrivacyGuarantee

FIELDS = {
    "epsilon": 1.0,
    "delta": 1e-9,
    "neighboring_relation": NeighboringRelation.ZERO_OUT,
    "accountant": "moments",
    "accountant_version": "1",
    "assumptions": ("one row a person",),
}


def test_guarantee_gives_two_epsilon_for_replace_one_when_zero_out():
    epsilon, delta = PrivacyGuarantee(**FIELDS).replace_one()
    assert epsilon == pytest.approx(2.0, rel=1e-12)
    assert epsilon >= 2.0
    assert delta == pytest.approx((1 + math.e) * 1e-9)


def test_guarantee_gives_itself_for_replace_one_when_calibrated_for_it():
    guarantee = PrivacyGuarantee(**{**FIELDS, "neighboring_relation": NeighboringRelation.REPLACE_ONE})
    assert guarantee.replace_one() == (1.0, 1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 800.0])
def test_replacement_costs_no_delta_when_there_is_none(epsilon):
    guarantee = PrivacyGuarantee(**{**FIELDS, "epsilon": epsilon, "delta": 0.0})
    assert guarantee.replace_one() == (pytest.approx(2 * epsilon), 0.0)


def test_guarantee_says_nothing_for_replace_one_when_delta_passes_one():
    assert PrivacyGuarantee(**{**FIELDS, "epsilon": 1000.0}).replace_one()[1] == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": math.inf},
        {"epsilon": -1.0},
        {"delta": -1e-9},
        {"delta": 1.0},
        {"accountant": ""},
        {"assumptions": ()},
    ],
)
def test_guarantee_is_refused_when_a_part_is_missing_or_out_of_range(change):
    with pytest.raises(PrivacyError):
        PrivacyGuarantee(**{**FIELDS, **change})
