import dataclasses
import math

import pytest

from dpwgan.audit.ex_post import CAVEATS, NO_GUARANTEE, PrivacyEstimate
from dpwgan.errors import PrivacyError
from dpwgan.privacy.guarantee import PrivacyGuarantee
from tests.claims import make_claim, make_guarantee

ESTIMATE = PrivacyEstimate(mu=1.5, gamma=1e-5, measured={})


@pytest.mark.parametrize("show", [str, repr, format, lambda e: f"{e}", lambda e: f"{e!r}"])
def test_estimate_says_that_it_is_no_guarantee_when_printed_in_any_way(show):
    text = show(ESTIMATE)
    assert text.startswith(NO_GUARANTEE)
    assert all(caveat in text for caveat in CAVEATS)


@pytest.mark.parametrize("form", [".3f", "g", "10"])
def test_estimate_is_refused_when_printed_as_a_bare_number(form):
    with pytest.raises(PrivacyError):
        format(ESTIMATE, form)


@pytest.mark.parametrize("convert", [float, int, complex, round])
def test_estimate_is_refused_when_taken_for_a_number(convert):
    with pytest.raises(TypeError):
        convert(ESTIMATE)


def test_estimate_shares_no_base_and_no_field_with_a_guarantee_when_types_are_compared():
    assert PrivacyEstimate.__mro__[1:] == PrivacyGuarantee.__mro__[1:] == (object,)
    names = [{field.name for field in dataclasses.fields(kind)} for kind in (PrivacyEstimate, PrivacyGuarantee)]
    assert not names[0] & names[1]
    assert not hasattr(ESTIMATE, "epsilon")
    assert not hasattr(ESTIMATE, "delta")


def test_claim_is_not_built_when_an_estimate_is_given_for_its_guarantee():
    with pytest.raises(AttributeError):
        make_claim(guarantee=ESTIMATE)
    assert make_claim(guarantee=make_guarantee()).private  # nothing else was wrong


def test_estimate_has_a_null_guarantee_and_its_caveats_when_described():
    document = ESTIMATE.describe()
    assert document["guarantee"] is None
    assert document["why_no_guarantee"] == NO_GUARANTEE
    assert document["caveats"] == CAVEATS
    assert not {"epsilon", "delta"} & set(document)


@pytest.mark.parametrize("mu", [math.nan, math.inf])
def test_estimate_is_refused_when_it_is_no_finite_number(mu):
    with pytest.raises(PrivacyError):
        PrivacyEstimate(mu=mu, gamma=1e-5, measured={})
