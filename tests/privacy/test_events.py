import json
import math
from dataclasses import replace

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import (
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Wishart,
    discrete_gaussian,
    read_event,
)

EVENTS = [
    Gaussian(noise_multiplier=3.7, replace_one_factor=1.5),
    PoissonGaussian(sampling_probability=0.1, noise_multiplier=1.1),
    discrete_gaussian(noise_multiplier=1.37, cells=7),
    ExponentialSelection(epsilon=0.3),
    StableSelection(epsilon=0.1, delta=1e-9),
    Laplace(epsilon=0.7),
    Wishart(epsilon=0.4, replace_one_factor=2.0),
]
SIZE, COUNT = ("finite and above 0", (0.0, -1.0, math.nan, math.inf)), ("a whole number", (0, -1, 2.5, True))
BAD = {
    "noise_multiplier": SIZE,
    "epsilon": SIZE,
    "sampling_probability": ("above 0 and not above 1", (0.0, -0.1, 1.01, math.nan)),
    "delta": ("strictly between 0 and 1", (0.0, 1.0, math.nan)),
    # A replaced record counts no less than one that is zeroed out, and no more than twice as much.
    "replace_one_factor": ("between 1 and 2", (0.5, 2.1, math.nan)),
    "cells": COUNT,
    "rows": COUNT,
}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_event_is_refused_when_a_number_is_out_of_range(event):
    for name in vars(event).keys() & BAD:
        words, numbers = BAD[name]
        for number in numbers:
            with pytest.raises(PrivacyError, match=f"{name} must .*{words}"):
                replace(event, **{name: number})


def test_event_comes_back_when_it_is_read_from_its_description():
    described = [json.dumps(event.describe()) for event in EVENTS]
    assert len(set(described)) == len(EVENTS)
    assert [read_event(json.loads(text)) for text in described] == EVENTS


@pytest.mark.parametrize("description", [{}, {"event": "magic"}, {"event": "gaussian", "noise_multiplier": 1.0}])
def test_event_is_refused_when_the_description_is_of_none(description):
    with pytest.raises(PrivacyError, match="not the description of an event"):
        read_event(description)
