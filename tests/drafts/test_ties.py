"""What two columns have in common in every row: codes that go on where others end, and moments in their order."""

import datetime

import polars as pl
import pytest

from dpwgan.drafts.ties import find_ties

CODES = {"type": "enum", "values_from": "data"}
DAYS = {"type": "date", "format": "%d.%m.%Y", "min": "01.01.2024", "max": "31.12.2024"}
MINUTES = {"type": "datetime", "format": "%d.%m.%Y %H:%M", "min": "01.01.2024 00:00", "max": "31.12.2024 00:00"}
ROWS = range(120)


Column = tuple[dict[str, object], list[str]]


def find_all(pieces: int = 3, **columns: Column) -> tuple[dict[str, str], dict[str, str], list[str]]:
    frame = pl.DataFrame({name: cells for name, (_, cells) in columns.items()})
    return find_ties({name: keys for name, (keys, _) in columns.items()}, frame.iter_slices(len(ROWS) // pieces))


def find(**columns: Column) -> tuple[dict[str, str], dict[str, str]]:
    return find_all(**columns)[:2]


def make_codes(digits: int) -> list[str]:
    return [f"{row * 7919 % 90000:05d}"[:digits] for row in ROWS]


def make_days(shift: int = 0) -> list[str]:
    return [f"{row % 20 + 1 + shift:02d}.{row % 12 + 1:02d}.2024" for row in ROWS]


def test_codes_are_told_with_the_longest_that_begin_with_them():
    town: tuple[dict[str, object], list[str]] = ({"type": "integer", "min": 0, "max": 99999, "width": 5}, make_codes(5))
    found, _ = find(town=town, state=(CODES, make_codes(2)), county=(CODES, make_codes(3)))
    assert found == {"state": "town", "county": "town"}


def test_whole_numbers_begin_codes_when_all_have_as_many_digits():
    level: Column = ({"type": "integer", "min": 1, "max": 9}, [str(row % 9 + 1) for row in ROWS])
    code: Column = (CODES, [f"{row % 9 + 1}{row % 7}0" for row in ROWS])
    number: Column = ({"type": "integer", "min": 100, "max": 960}, code[1])
    assert find(code=code, level=level) == find(level=level, code=number) == ({"level": "code"}, {})
    assert find(code=code, level=({"type": "integer", "min": 1, "max": 10}, level[1])) == ({}, {})
    assert find(code=code, level=({"type": "integer", "uuid": True}, level[1])) == ({}, {})


def test_what_moments_tell_is_told():
    days = make_days()
    parsed = [datetime.datetime.strptime(day, "%d.%m.%Y") for day in days]
    columns: dict[str, Column] = {
        "weekday": (CODES, [f"{day:%a}" for day in parsed]),
        "quarter": ({"type": "integer", "min": 1, "max": 4}, [f"{(day.month + 2) // 3}" for day in parsed]),
        "always": (CODES, ["a"] * len(ROWS)),
        "broken": (CODES, [f"{day:%a}" for day in parsed[:-1]] + ["holiday"]),
        "blank": (CODES, [*(f"{day:%b}" for day in parsed[:-1]), ""]),
    }
    said = find_all(day=(DAYS, days), **columns)[2]
    assert {line for line in said if " of 'day'" in line} == {
        "'weekday' follows from the weekday of 'day'",
        "'quarter' follows from the month of 'day'",
        "'blank' follows from the month of 'day'",
    }
    assert {*said} >= {"'weekday' follows from 'broken'", "'quarter' follows from 'blank'"}  # which days tell as well
    rare: Column = (CODES, ["b", *["a"] * (len(ROWS) - 1)])
    years: Column = (DAYS, [f"01.01.{1900 + row // 2 if row else 1899}" for row in ROWS])
    assert find_all(day=years, rare=rare)[2] == []  # a year has too few rows


def test_codes_are_told_to_follow_from_the_column_of_fewest_that_tell_them():
    towns = [f"t{row % 15}" for row in ROWS]
    columns: dict[str, Column] = {
        "street": (CODES, [f"{town}s{row % 2}" for row, town in enumerate(towns)]),
        "town": (CODES, towns),
        "state": (CODES, [str(row % 3) for row in ROWS]),
        "name": (CODES, [f"name of {row % 3}" if row % 4 else "" for row in ROWS]),
        "all": (CODES, ["a"] * len(ROWS)),
    }
    said = find_all(**columns)[2]
    assert said == ["'name' follows from 'state'", "'state' follows from 'town'"]  # 'town' begins 'street'
    rare: Column = (CODES, ["b" if town == "t3" else "a" for town in towns])
    assert (
        "'rare' follows from 'town'"
        not in find_all(rare=(CODES, ["b", *["a"] * (len(ROWS) - 1)]), town=columns["town"])[2]
    )
    assert find_all(rare=rare, town=columns["town"])[2] == []  # too few could have been otherwise
    towns[7] = "t8"
    assert find_all(town=(CODES, towns), state=columns["state"])[2] == []


def test_day_of_a_moment_is_told():
    minutes = [f"{row % 12 + 1:02d}.01.2024 {row % 24:02d}:30" for row in ROWS]
    days: Column = ({**DAYS, "format": "%Y-%m-%d"}, [f"2024-01-{row % 12 + 1:02d}" for row in ROWS])
    assert find_all(seen=(MINUTES, minutes), day=days)[2] == ["'day' follows from the day of 'seen'"]


def test_time_between_times_of_day_is_told_beyond_midnight():
    shift: dict[str, object] = {"type": "time", "format": "%H:%M"}
    begin, end = ([f"{(row * 7 + hours) % 24:02d}:00" for row in ROWS] for hours in (0, 9))
    for cells in (["540"] * len(ROWS), ["", *["540"] * (len(ROWS) - 1)]):
        found = find_all(begin=(shift, begin), end=(shift, end), minutes=(CODES, cells))[2]
        assert found == ["'minutes' is the minutes from 'begin' to 'end'"]
    broken = ["541", *["540"] * (len(ROWS) - 1)]
    assert find_all(begin=(shift, begin), end=(shift, end), minutes=(CODES, broken))[2] == []


def test_numbers_side_by_side_with_one_sum_are_told():
    number: dict[str, object] = {"type": "float", "min": 0.1, "max": 90, "decimals": 1}
    shares = [[f"{row * part % 31 + 0.1:.1f}" for row in ROWS] for part in (7, 11)]
    rest = [f"{100 - float(one) - float(other):.1f}" for one, other in zip(*shares, strict=True)]
    columns: dict[str, Column] = {"a": (number, shares[0]), "b": (number, shares[1]), "c": (number, rest)}
    assert find_all(**columns)[2] == ["the sum of 'a', 'b' and 'c' is the same"]
    assert find_all(a=columns["a"], x=(number, shares[0]), b=columns["b"], c=columns["c"])[2] == [
        "the sum of 'x', 'b' and 'c' is the same"
    ]
    assert find_all(**{**columns, "c": (number, [*rest[:-1], "0.1"])})[2] == []


def test_what_whole_numbers_follow_from_is_told():
    whole: dict[str, object] = {"type": "integer", "min": 0, "max": 2024}
    begin = [f"{row % 20 + 1:02d}.{row % 12 + 1:02d}.2024 10:30" for row in ROWS]
    end = [f"{row % 20 + 1 + row % 5:02d}.{row % 12 + 1:02d}.2024 11:00" for row in ROWS]
    born = [f"29.02.{1904 + 4 * (row % 7)}" for row in ROWS]
    moments: dict[str, Column] = {"begin": (MINUTES, begin), "end": (MINUTES, end), "born": (DAYS, born)}
    days = [str(row % 5) for row in ROWS]
    ages = [str(2024 - 1904 - 4 * (row % 7) - (row % 12 < 2)) for row in ROWS]
    found = {
        "days": (days, ["'days' is the days from 'begin' to 'end'"]),
        "some": (["", *days[1:]], ["'some' is the days from 'begin' to 'end'"]),
        "broken": (["4", *days[1:]], []),
        "minutes": ([str(1440 * (row % 5) + 30) for row in ROWS], ["'minutes' is the minutes from 'begin' to 'end'"]),
        "age": (ages, [f"'age' is the full years from 'born' to '{late}'" for late in ("begin", "end")]),
        "none": ([""] * len(ROWS), []),
    }
    for name, (cells, said) in found.items():
        assert [line for line in find_all(**moments, **{name: (whole, cells)})[2] if name in line] == said
    year: Column = (whole, [str(2020 - row % 5) for row in ROWS])
    assert "the sum of 'age' and 'year' is the same" in find_all(age=(whole, days), year=year)[2]
    said = find_all(age=(whole, days), again=(whole, days))[2]
    assert said == ["'again' follows from 'age'", "the difference of 'age' and 'again' is the same"]
    assert find_all(age=(whole, days), one=({**whole, "max": 0}, ["0"] * len(ROWS)))[2] == []


@pytest.mark.parametrize("broken", [{119: "9"}, {0: ""}, {5: "0000"}])
def test_codes_are_not_told_when_one_row_breaks_it(broken):
    state = [broken.get(row, code) for row, code in enumerate(make_codes(2))]
    assert find(town=(CODES, make_codes(5)), state=(CODES, state)) == ({}, {})


def test_the_same_codes_and_few_rows_are_not_told():
    assert find(one=(CODES, make_codes(5)), other=(CODES, make_codes(5))) == ({}, {})
    assert find(town=(CODES, make_codes(5)[:99]), state=(CODES, make_codes(2)[:99])) == ({}, {})


def test_moments_are_told_with_the_last_before_them_of_several():
    second = [day if row % 2 else "" for row, day in enumerate(make_days(1))]
    third = [f"{day} 07:30" for day in make_days(1)]
    assert find(third=(MINUTES, third), first=(DAYS, make_days()), second=(DAYS, second)) == (
        {},
        {"third": "second", "second": "first"},
    )


@pytest.mark.parametrize(
    "other",
    [
        [*make_days(1)[:-1], "01.01.2024"],
        make_days(),
        [day.replace("2024", "2025") for day in reversed(make_days())],
        [""] * len(ROWS),
    ],
)
def test_moments_are_not_told_when_their_ranges_say_it_or_it_is_not_so(other):
    assert find(first=(DAYS, make_days()), other=(DAYS, other)) == ({}, {})


def test_moments_are_told_when_one_is_as_long_behind_the_other_in_every_row():
    ends = [day.replace("2024", "2034") for day in make_days()]
    assert find(begin=(DAYS, make_days()), end=(DAYS, ends)) == ({}, {"end": "begin"})
    apart = [f"01.01.{2034 + row % 2}" for row in ROWS]
    assert find(begin=(DAYS, make_days()), end=(DAYS, apart)) == ({}, {})


def test_months_are_read_and_columns_without_a_format_are_gone_over():
    months = {"type": "date", "format": "%Y-%m", "min": "2024-01", "max": "2024-12"}
    cells = [f"2024-{row % 12 + 1:02d}" for row in ROWS]
    open_one: dict[str, object] = {"type": "date", "format": None, "min": None, "max": None}
    short: dict[str, object] = {**DAYS, "format": "%d.%m.%y"}  # which nothing reads
    others = {"open": (open_one, cells), "short": (short, [day.replace("2024", "24") for day in make_days()])}
    assert find(month=(months, cells), first=(DAYS, make_days()), **others) == ({}, {"first": "month"})
