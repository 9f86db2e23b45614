"""Numbers of more levels than single precision tells apart, from the table to the output: heaps stay what they are."""

import numpy as np
import pandas as pd
import pytest

from dpwgan import Synthesizer

SPECS = {
    "income": {"type": "integer", "min": -4600, "max": 1341000, "missing": ["N"]},
    "sex": {"type": "enum", "values": ["a", "b"]},
    "born": {"type": "float", "min": 0, "max": 3000000, "decimals": 2},
}


# dp-wgan gives rows out as query-gan does, and ron-dp-gan as ron-gauss.
@pytest.mark.parametrize(
    ("method", "settings"), [("independent", {}), ("query-gan", {"fit_steps": 20}), ("ron-gauss", {})]
)
def test_heaps_come_out_as_exactly_what_they_are_when_the_range_is_wide(method, settings):
    rng, records = np.random.default_rng(1), 4_000
    income = rng.integers(-4_600, 60_000, records)
    income[:800], income[800:1_600] = 0, 30_000
    frame = pd.DataFrame(
        {
            "income": rng.permutation(income).astype(str),
            "sex": rng.choice(["a", "b"], records),
            "born": np.where(rng.random(records) < 0.5, "29999.01", "0.00"),
        }
    )
    frame.loc[:200, "income"] = "N"
    synthesizer = Synthesizer(SPECS, 50.0, method=method, settings=settings, seed=3, no_guarantee=False)
    drawn = synthesizer.fit(frame).sample(4_000)
    found = drawn["income"].astype(str).str.removesuffix(".0").value_counts(normalize=True)
    for heap in ("0", "30000"):
        assert found[heap] == pytest.approx(0.19, abs=0.05)
    assert max(found.get(beside, 0.0) for beside in ("-1", "1", "29999", "30001")) < 0.01
    assert set(drawn["born"].round(2)) >= {29999.01, 0.0}
    assert np.mean(drawn["born"].isin([29999.01, 0.0])) > 0.9
