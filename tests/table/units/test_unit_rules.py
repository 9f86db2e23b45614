"""Rules between rows of a unit: which rows break one, and in which places they break none."""

import itertools

import numpy as np
import polars as pl
import pytest

from dpwgan.table.codecs import make_codecs
from dpwgan.table.specs.document import parse_specs
from dpwgan.table.units.unit_rules import PlacedRows, UnitRules

CODECS = make_codecs(
    parse_specs(
        {
            "begun": {"type": "integer", "min": 0, "max": 99},
            "ended": {"type": "integer", "min": 0, "max": 199, "missing": ["open"]},
        },
        sha256="0" * 64,
    ).columns
)


def read(*texts):
    return UnitRules(texts, CODECS)


def test_a_row_breaks_a_rule_beside_the_one_before_it_or_the_first_of_its_unit():
    frame = pl.DataFrame({"begun": ["5", "4", "9", "1", "2", "3"], "ended": ["7", "8", "open", "open", "9", "9"]})
    of_units = np.array([0, 0, 0, 1, 1, 2])
    for text, broken in (
        ("previous.ended <= begun", [0, 1, 0, 0, 0, 0]),
        ("previous.ended <= begun AND previous.ended IS NOT NULL", [1, 1, 0, 1, 1, 1]),
        ("first.begun >= begun", [0, 0, 1, 0, 1, 0]),
        ("previous.begun < begun OR first.ended = 7", [0, 0, 0, 0, 0, 0]),
    ):
        rules = read(text)
        found = rules.find_broken(rules.read_values(frame), of_units)
        assert found.astype(int).tolist() == broken, text
    both = read("previous.ended <= begun", "first.begun >= begun")
    assert both.find_broken(both.read_values(frame), of_units).tolist() == [False, True, True, False, True, False]
    assert both.find_broken(both.read_values(frame[:0]), of_units[:0]).tolist() == []


def make_stays(units: int = 300, seed: int = 0):
    """Stays that fit into units of 2 to 5 rows, in no order, and the units and seats of places."""
    rng = np.random.default_rng(seed)
    of_units = np.repeat(np.arange(units), rng.integers(2, 6, units))
    place = np.arange(len(of_units)) - np.searchsorted(of_units, of_units)
    begun = place * 20 + rng.integers(0, 8, len(of_units))
    order = rng.permutation(len(of_units))
    begun, ended = begun[order], (begun + rng.integers(1, 13, len(of_units)))[order]
    return pl.DataFrame({"begun": begun.astype(str), "ended": ended.astype(str)}), of_units


def test_rows_are_placed_where_they_break_no_rule_and_each_of_them_once():
    frame, of_units = make_stays()
    rules, rng = read("previous.ended <= begun"), np.random.default_rng(1)
    values = rules.read_values(frame)
    seats = np.arange(len(of_units)) % 2
    in_order = values.get_column("begun").arg_sort().to_numpy()
    placed = PlacedRows(rules, values, in_order, None)
    everyone, sizes = np.arange(of_units[-1] + 1), np.bincount(of_units)
    before = placed.count_broken(np.arange(len(of_units)), sizes, everyone)
    taken = placed.place(of_units, seats, rng.permutation(len(sizes)), rng=rng)
    after = placed.count_broken(taken, sizes, everyone)
    assert np.sort(taken).tolist() == [*range(len(of_units))]
    assert (seats[taken] == seats).all()
    assert before.sum() > 0.2 * len(of_units)
    assert after.sum() < 0.03 * len(of_units)


def test_rows_that_break_a_rule_are_counted_as_one_by_one():
    frame, of_units = make_stays(units=40)
    rules, rng = read("previous.ended <= begun"), np.random.default_rng(2)
    begun, ended = (frame.get_column(name).cast(pl.Int64).to_numpy() for name in ("begun", "ended"))
    keys = rng.integers(0, 6, len(of_units))
    in_order = np.lexsort([begun, keys])
    rows, sizes = rng.permutation(len(of_units)), np.bincount(of_units)
    units = rng.permutation(40)[:25]
    found = PlacedRows(rules, rules.read_values(frame), in_order, keys).count_broken(rows, sizes, units)
    for unit, count in zip(units, found, strict=True):
        own = sorted(rows[of_units == unit], key=lambda row: (keys[row], begun[row]))
        broken = (ended[one] > begun[two] or keys[one] == keys[two] for one, two in itertools.pairwise(own))
        assert count == sum(broken)
    assert found.sum() > 0


@pytest.mark.parametrize("alike", [True, False])
def test_rows_with_one_key_are_placed_in_different_units(alike):
    rules, rng = read("previous.begun <= begun"), np.random.default_rng(3)
    of_units = np.repeat(np.arange(100), 3)
    frame = pl.DataFrame({"begun": ["5"] * 300, "ended": ["7"] * 300})
    keys = np.arange(300) % 3
    placed = PlacedRows(rules, rules.read_values(frame), np.argsort(keys), keys if alike else None)
    taken = placed.place(of_units, np.zeros(300, np.int64), np.arange(100), rng=rng)
    of_each = [len(set(keys[taken][of_units == unit])) for unit in range(100)]
    assert (min(of_each) == 3) == alike
