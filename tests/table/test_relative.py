"""What holds of moments told since others and of numbers told above others alike."""

import pytest

from dpwgan.app.saved_model import describe_column, read_column
from dpwgan.errors import DataError, SpecsError
from dpwgan.table.specs import parse_specs
from tests.rows import encode_table, round_trip
from tests.table.relative import BASE, BEGAN, COUNT, DELAY, GROSS, NOON, SHIFT, STAY, TIME, frame, make

MOMENTS, NUMBERS = (BEGAN, STAY, (NOON, "2023-06-03 08:00")), (BASE, GROSS, ("1.00", "2.50"))


@pytest.mark.parametrize(
    ("columns", "cells", "rule"),
    [
        (MOMENTS, (NOON, "2023-05-31 12:00"), "is not as long after 'a' as the specs say"),
        (MOMENTS, (NOON, "2023-08-01 00:00"), "is not as long after 'a' as the specs say"),
        (MOMENTS, ("", NOON), "is there where 'a' is not"),
        (MOMENTS, (NOON, "2023-06-01"), "is not written as"),
        (MOMENTS, (NOON, "2029-06-01 00:00"), "is not between"),
        (NUMBERS, ("10.00", "9.99"), "is not as far above 'a' as the specs say"),
        (NUMBERS, ("10.00", "510.01"), "is not as far above 'a' as the specs say"),
        (NUMBERS, ("", "10.00"), "is there where 'a' is not"),
        (NUMBERS, ("10.00", "ten"), "is not a number"),
        (NUMBERS, ("10.00", "1500.01"), "is not between -10 and 1500"),
    ],
)
def test_row_that_lies_wrong_is_refused_or_put_right(columns, cells, rule):
    first, second, right = columns
    optional = {"optional": True}
    for place in range(3):  # the first, a middle and the last row alike
        rows = [right] * 3
        rows[place] = cells
        with pytest.raises(DataError, match=f"'b': 1 row with a cell that {rule}"):
            encode_table(make(first | optional, second | optional), frame(*rows))
    encoder = make(first | optional, second | {"missing": ["?"], "out_of_domain": "missing"})
    assert round_trip(encoder, frame(cells)).rows() == [(cells[0], "?")]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (BEGAN, STAY | {"since": "b"}, "must name a date or datetime"),
        (BEGAN, STAY | {"since": "z"}, "'since' is 'z', which the specs do not name"),
        ({"type": "time"}, STAY, "must name a date or datetime"),
        (BEGAN, {"type": "time", "since": "a", "min": "0 days", "max": "1 day"}, "must name a date or datetime"),
        (BEGAN, {"type": "integer", "min": 0, "max": 1, "since": "a"}, "does not go with the type 'integer'"),
        (BEGAN, STAY | {"min": "2023-01-01"}, "must be such as \"0 days\""),
        (BEGAN, {key: STAY[key] for key in STAY if key != "max"}, "'max' must be such as"),
        (BEGAN, STAY | {"min": "61 days"}, "'min' is above 'max'"),
        (BEGAN, STAY | {"min": "-6 hours"}, "must be whole days"),
        (BEGAN, DELAY | {"step": "7 minutes"}, "'step' must be that of 'a'"),
        (BEGAN, STAY | {"step": "1 month"}, "to the day or finer"),
        (BEGAN | {"optional": True}, STAY, "may be missing"),
        (TIME, SHIFT | {"max": "24 hours"}, "must lie within a day"),
        (TIME, SHIFT | {"min": "-1 hours"}, "must lie within a day"),
        (TIME | {"step": "7 minutes"}, SHIFT | {"step": "7 minutes", "max": "7 minutes"}, "'step' divide one"),
        (TIME, SHIFT | {"step": "15 minutes"}, "'step' must be that of 'a'"),
        (BEGAN, STAY | {"max": "9000000 days"}, "the years 1 to 9999"),
        (BASE, GROSS | {"above": "b"}, "must name a number"),
        (BASE, GROSS | {"above": "z"}, "'above' is 'z', which the specs do not name"),
        ({"type": "enum", "count": 3}, GROSS, "must name a number"),
        (BASE | {"bins": 4}, GROSS, "must name a number"),
        (COUNT | {"width": 4}, GROSS, "must name a number"),
        (BASE, GROSS | {"bins": 4}, "'bins'"),
        (COUNT, {"type": "integer", "above": "a", "min": 0, "max": 9, "width": 3}, "'width'"),
        (BASE, {"type": "enum", "count": 4, "above": "a"}, "does not go with the type 'enum'"),
        (BASE, {"type": "integer", "above": "a", "min": 0, "max": 9}, "it needs the digits of 'a'"),
        (BASE, GROSS | {"decimals": 1}, "it needs the digits of 'a'"),
        (BASE, GROSS | {"min": 501}, "'min' is above 'max'"),
        (BASE | {"optional": True}, GROSS, "may be missing"),
        (BASE, GROSS | {"missing": [-5]}, "'missing' must lie outside"),
        (BASE, GROSS | {"max": 1e14}, "beyond 2\\^53 steps"),
    ],
)  # fmt: skip
def test_specs_are_refused_when_the_two_do_not_fit(first, second, words):
    with pytest.raises(SpecsError, match=words):
        parse_specs({"a": first, "b": second}, sha256="0")


@pytest.mark.parametrize(("first", "second", "key"), [(BEGAN, STAY, "since"), (BASE, GROSS, "above")])
def test_what_is_told_by_another_tells_no_third_and_comes_back_from_a_saved_model(first, second, key):
    column = parse_specs({"a": first, "b": second}, sha256="0").columns[1]
    assert read_column(describe_column(column)) == column
    with pytest.raises(SpecsError, match=f"'{key}' must name a"):
        parse_specs({"a": first, "b": second, "c": second | {key: "b"}}, sha256="0")
