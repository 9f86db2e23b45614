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


def find_all(pieces: int = 3, **columns: Column) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, str]]]:
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
    found = {"weekday": ("weekday", "day"), "quarter": ("month", "day"), "blank": ("month", "day")}
    assert find_all(day=(DAYS, days), **columns)[2] == found
    rare: Column = (CODES, ["b", *["a"] * (len(ROWS) - 1)])
    years: Column = (DAYS, [f"01.01.{1900 + row // 2 if row else 1899}" for row in ROWS])
    assert find_all(day=years, rare=rare)[2] == {}  # a year has too few rows


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
