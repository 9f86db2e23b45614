import dataclasses
import math

import pytest

from dpwgan.audit.ex_post import NO_GUARANTEE, PrivacyEstimate
from dpwgan.errors import PrivacyError
from dpwgan.privacy.guarantee import PrivacyGuarantee
from tests.claims import make_claim, make_guarantee

FIELDS = {"mu": 1.5, "gamma": 1e-5, "quantity": "a loss", "method": "counting", "caveats": ("One table only.",)}


@pytest.mark.parametrize("show", [str, repr, format, lambda e: f"{e}", lambda e: f"{e!r}"])
def test_estimate_says_that_it_is_no_guarantee_when_printed_in_any_way(show):
    text = show(PrivacyEstimate(**FIELDS))
    assert text.startswith(NO_GUARANTEE)
    assert "One table only." in text


@pytest.mark.parametrize("show", [lambda e: f"{e:.3f}", lambda e: f"{e:g}", lambda e: format(e, "10")])
def test_estimate_is_refused_when_printed_as_a_bare_number(show):
    with pytest.raises(PrivacyError):
        show(PrivacyEstimate(**FIELDS))


@pytest.mark.parametrize("convert", [float, int, complex, round])
def test_estimate_is_refused_when_taken_for_a_number(convert):
    with pytest.raises(TypeError):
        convert(PrivacyEstimate(**FIELDS))


def test_estimate_shares_no_base_and_no_field_with_a_guarantee_when_types_are_compared():
    assert PrivacyEstimate.__mro__[1:] == PrivacyGuarantee.__mro__[1:] == (object,)
    names = [{field.name for field in dataclasses.fields(kind)} for kind in (PrivacyEstimate, PrivacyGuarantee)]
    assert not names[0] & names[1]
    assert not hasattr(PrivacyEstimate(**FIELDS), "epsilon")
    assert not hasattr(PrivacyEstimate(**FIELDS), "delta")


def test_claim_is_not_built_when_an_estimate_is_given_for_its_guarantee():
    with pytest.raises(AttributeError):
        make_claim(guarantee=PrivacyEstimate(**FIELDS))


def test_claim_is_built_when_a_guarantee_is_given_for_its_guarantee():
    """The twin of the test above: the estimate is the only thing that was wrong there."""
    assert make_claim(guarantee=make_guarantee()).private


def test_estimate_has_a_null_guarantee_and_its_caveats_when_described():
    document = PrivacyEstimate(**FIELDS).describe()
    assert document["guarantee"] is None
    assert document["why_no_guarantee"] == NO_GUARANTEE
    assert document["caveats"] == ("One table only.",)
    assert not {"epsilon", "delta"} & set(document)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("mu", math.nan), ("mu", math.inf), ("gamma", 0.0), ("gamma", 1.0)),
        *(("quantity", ""), ("method", ""), ("caveats", ()), ("caveats", ("",))),
    ],
)
def test_estimate_is_refused_when_a_part_is_missing_or_out_of_range(name, value):
    with pytest.raises(PrivacyError):
        PrivacyEstimate(**{**FIELDS, name: value})
