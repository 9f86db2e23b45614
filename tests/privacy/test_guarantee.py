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


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({"neighboring_relation": NeighboringRelation.REPLACE_ONE}, (1.0, 1e-9)),
        ({"epsilon": 1e-6, "delta": 0.0}, (pytest.approx(2e-6), 0.0)),
        ({"epsilon": 800.0, "delta": 0.0}, (pytest.approx(1_600.0), 0.0)),
        ({"epsilon": 1_000.0}, (pytest.approx(2_000.0), 1.0)),
    ],
    ids=["calibrated for it", "no delta", "no delta, large epsilon", "delta above 1"],
)
def test_guarantee_for_replace_one_is_that_of_group_privacy_when_it_is_at_its_ends(change, replaced):
    assert PrivacyGuarantee(**{**FIELDS, **change}).replace_one() == replaced


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", math.inf),
        ("epsilon", -1.0),
        ("delta", -1e-9),
        ("delta", 1.0),
        ("accountant", ""),
        ("assumptions", ()),
    ],
)
def test_guarantee_is_refused_when_a_part_is_missing_or_out_of_range(name, value):
    with pytest.raises(PrivacyError):
        PrivacyGuarantee(**{**FIELDS, name: value})
