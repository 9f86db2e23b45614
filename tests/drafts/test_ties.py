"""What columns have in common in every row: what follows from others, and moments in their order."""

import datetime

import polars as pl
import pytest

from dpwgan.drafts.ties import find_ties

CODES = {"type": "enum", "values_from": "data"}
DAYS = {"type": "date", "format": "%d.%m.%Y", "min": "01.01.2024", "max": "31.12.2024"}
MINUTES = {"type": "datetime", "format": "%d.%m.%Y %H:%M", "min": "01.01.2024 00:00", "max": "31.12.2024 00:00"}
ROWS = range(120)


Column = tuple[dict[str, object], list[str]]


def find_all(pieces: int = 3, **columns: Column) -> list[str]:
    frame = pl.DataFrame({name: cells for name, (_, cells) in columns.items()})
    return find_ties({name: keys for name, (keys, _) in columns.items()}, frame.iter_slices(len(ROWS) // pieces))


def find(**columns: Column) -> dict[str, str]:
    pairs = [line.split("'")[1::2] for line in find_all(**columns) if "is not before" in line]
    return {late: soon for late, soon in pairs}


def say(**columns: Column) -> list[str]:
    return [line for line in find_all(**columns) if "is not before" not in line]


def make_days(shift: int = 0) -> list[str]:
    return [f"{row % 20 + 1 + shift:02d}.{row % 12 + 1:02d}.2024" for row in ROWS]


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
    said = say(day=(DAYS, days), **columns)
    assert {line for line in said if " of 'day'" in line} == {
        "'weekday' follows from the weekday of 'day'",
        "'quarter' follows from the month of 'day'",
        "'blank' follows from the month of 'day'",
    }
    assert {*said} >= {"'weekday' follows from 'broken'", "'quarter' follows from 'blank'"}  # which days tell as well
    rare: Column = (CODES, ["b", *["a"] * (len(ROWS) - 1)])
    years: Column = (DAYS, [f"01.01.{1900 + row // 2 if row else 1899}" for row in ROWS])
    assert say(day=years, rare=rare) == []  # a year has too few rows


def test_codes_are_told_to_follow_from_the_column_of_fewest_that_tell_them():
    towns = [f"t{row % 15}" for row in ROWS]
    columns: dict[str, Column] = {
        "street": (CODES, [f"{town}s{row % 2}" for row, town in enumerate(towns)]),
        "town": (CODES, towns),
        "state": (CODES, [str(row % 3) for row in ROWS]),
        "name": (CODES, [f"name of {row % 3}" if row % 4 else "" for row in ROWS]),
        "all": (CODES, ["a"] * len(ROWS)),
        "row": ({"type": "integer", "uuid": True}, list(map(str, ROWS))),
        "note": ({"type": "text", "optional": True}, ["" if row % 3 else "x" for row in ROWS]),
        "code": ({**CODES, "missing": ["9"]}, ["9" if row % 3 == 1 else str(row // 7 % 2) for row in ROWS]),
    }
    said = ["'name' follows from 'state'", "'state' follows from 'town'", "'town' follows from 'street'"]
    blank = [f"whether '{name}' is blank follows from 'state'" for name in ("note", "code")]
    assert sorted(say(**columns)) == sorted([*said, *blank])
    rare: Column = (CODES, ["b" if town == "t3" else "a" for town in towns])
    assert say(rare=rare, town=columns["town"]) == []  # too few could have been otherwise
    assert say(state=columns["state"], row=(CODES, list(map(str, ROWS)))) == []  # each code has a row
    towns[7] = "t8"
    assert say(town=(CODES, towns), state=columns["state"]) == []


@pytest.mark.parametrize("left", [{"type": None}, {"type": "enum", "values": None}])
def test_a_flag_follows_from_a_list_that_is_left_open(left):
    columns: dict[str, Column] = {
        "diagnosis": (left, [f"{'EI'[row % 2]}{row % 40}" for row in ROWS]),
        "diabetic": (CODES, [f"{(row + 1) % 2}" for row in ROWS]),
        "nurse": (CODES, [f"{row * row % 7}" for row in ROWS]),
        "remark": (left, [f"{row}" for row in ROWS]),  # of one row each
    }
    assert say(**columns) == ["'diabetic' follows from 'diagnosis'"]


def test_day_of_a_moment_is_told():
    minutes = [f"{row % 12 + 1:02d}.01.2024 {row % 24:02d}:30" for row in ROWS]
    days: Column = ({**DAYS, "format": "%Y-%m-%d"}, [f"2024-01-{row % 12 + 1:02d}" for row in ROWS])
    assert say(seen=(MINUTES, minutes), day=days) == ["'day' follows from the day of 'seen'"]


def test_time_between_times_of_day_is_told_beyond_midnight():
    shift: dict[str, object] = {"type": "time", "format": "%H:%M"}
    begin, end = ([f"{(row * 7 + hours) % 24:02d}:00" for row in ROWS] for hours in (0, 9))
    for cells in (["540"] * len(ROWS), ["", *["540"] * (len(ROWS) - 1)]):
        found = say(begin=(shift, begin), end=(shift, end), minutes=(CODES, cells))
        assert found == ["'minutes' is the minutes from 'begin' to 'end'"]
    broken = ["541", *["540"] * (len(ROWS) - 1)]
    assert say(begin=(shift, begin), end=(shift, end), minutes=(CODES, broken)) == []


def test_numbers_side_by_side_with_one_sum_are_told():
    number: dict[str, object] = {"type": "float", "min": 0.1, "max": 90, "decimals": 1}
    shares = [[f"{row * part % 31 + 0.1:.1f}" for row in ROWS] for part in (7, 11)]
    rest = [f"{100 - float(one) - float(other):.1f}" for one, other in zip(*shares, strict=True)]
    columns: dict[str, Column] = {"a": (number, shares[0]), "b": (number, shares[1]), "c": (number, rest)}
    assert say(**columns) == ["the sum of 'a', 'b', 'c' is the same"]
    assert say(a=columns["a"], x=(number, shares[0]), b=columns["b"], c=columns["c"]) == [
        "'x' is the same as 'a'",
        "the sum of 'x', 'b', 'c' is the same",
    ]
    assert say(**{**columns, "c": (number, [*rest[:-1], "0.1"])}) == []


def test_numbers_that_others_make_are_told_once_each():
    whole: dict[str, object] = {"type": "float", "min": 0, "max": 9999, "decimals": 0}
    money = {**whole, "decimals": 2}
    ones, others, many = ([row * part % 97 for row in ROWS] for part in (7, 11, 5))
    parts: dict[str, Column] = {
        "one": (money, [f"{one:.2f}" for one in ones]),
        "other": (whole, list(map(str, others))),
        "many": (whole, list(map(str, many))),
    }
    made = {
        "the sum of 'one', 'other', 'many'": [sum(row) for row in zip(ones, others, many, strict=True)],
        "the sum of 'one', 'many'": [one + each for one, each in zip(ones, many, strict=True)],
        "the product of 'one' and 'many'": [one * each for one, each in zip(ones, many, strict=True)],
        "'one' / 'other'": [one / other if other else "" for one, other in zip(ones, others, strict=True)],
        "'one' in percent of 'other'": [
            100 * one / other if other else "" for one, other in zip(ones, others, strict=True)
        ],
    }
    for text, numbers in made.items():
        cells = [f"{number:.2f}" if number != "" else "" for number in numbers]
        assert say(**parts, x=(money, cells)) == [f"'x' is {text}"]
        assert say(**parts, x=(money, [*cells[:-1], "9.99"])) == []
    assert say(**parts, x=(money, [""] * len(ROWS))) == []
    cells = [f"{one * each:.2f}" for one, each in zip(ones, many, strict=True)]
    assert say(x=(money, cells), **parts) == ["'one' is 'x' / 'many'"]  # the last of those that are made
    open_one = {key: value for key, value in money.items() if key != "decimals"}
    assert say(**parts, x=(open_one, cells)) == []  # nobody says how exact it is
    most: dict[str, Column] = {
        f"n{place}": (money, [f"{one * row % 89:.2f}" for row, one in enumerate(ones, place)]) for place in range(17)
    }
    assert say(**parts, **most, x=(money, cells)) == []


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
        assert [line for line in say(**moments, **{name: (whole, cells)}) if line.startswith(f"'{name}' is ")] == said
    year: Column = (whole, [str(2020 - row % 5) for row in ROWS])
    assert "the sum of 'age' and 'year' is the same" in say(age=(whole, days), year=year)
    said = say(age=(whole, days), again=(whole, days))
    assert said == ["'again' is the same as 'age'"]
    later = [str(int(cell) + 1) for cell in days]
    said = say(age=(whole, days), later=(whole, later))
    assert said == ["'later' follows from 'age'", "the difference of 'age' and 'later' is the same"]
    assert say(age=(whole, days), one=({**whole, "max": 0}, ["0"] * len(ROWS))) == []


def test_columns_that_are_the_same_are_told_first_and_nothing_else_of_both():
    share: dict[str, object] = {"type": "float", "min": 0.3, "max": 1, "decimals": 2}
    flag: dict[str, object] = {"type": "integer", "min": 0, "max": 1}
    shares = [f"{0.3 + row * 7 % 61 / 100:.2f}" for row in ROWS]
    columns: dict[str, Column] = {
        "share": (share, shares),
        "y98": (flag, [str(row % 7 % 2) for row in ROWS]),
        "y99": (flag, [str(row % 11 % 2) for row in ROWS]),
        "town": (CODES, [f"t{row % 13}" for row in ROWS]),
        "day": (DAYS, make_days()),
    }
    written = [cell.rstrip("0") for cell in shares]  # the same numbers, written otherwise
    found = say(**columns, copy=(share, written), town2=columns["town"], town3=columns["town"], day2=columns["day"])
    assert found == [
        "'copy' is the same as 'share'",
        "'town2' is the same as 'town'",
        "'town3' is the same as 'town'",
        "'day2' is the same as 'day'",
    ]
    for broken in (["0.99", *shares[1:]], [*shares[:-1], ""]):
        assert say(**columns, copy=(share, broken)) == []
    assert say(one=(share, [""] * len(ROWS)), other=(share, [""] * len(ROWS))) == []
    assert say(one=(CODES, ["a"] * len(ROWS)), other=(CODES, ["a"] * len(ROWS))) == []


def test_a_flag_divides_nothing_and_makes_a_product_with_an_amount_alone():
    number: dict[str, object] = {"type": "float", "min": 0, "max": 99, "decimals": 2}
    for few in ("01", "02", ["0", "0.5", "2"]):
        amounts = [row * 7 % 61 + 1 for row in ROWS]
        parts = [few[row % len(few)] for row in ROWS]
        made = [f"{amount * float(part):.2f}" for amount, part in zip(amounts, parts, strict=True)]
        columns: dict[str, Column] = {"flag": (number, parts), "amount": (number, [f"{one:.2f}" for one in amounts])}
        assert say(**columns, x=(number, made)) == ["'x' is the product of 'flag' and 'amount'"]
        is_amount = len(few) > 2
        found = "'amount' is 'x' / 'flag'" if is_amount else "'x' is the product of 'flag' and 'amount'"
        assert say(x=(number, made), **columns) == [found]
    flags = [(row % 2, row // 2 % 2) for row in ROWS]
    one, other = ((number, [str(pair[place]) for pair in flags]) for place in (0, 1))
    assert say(one=one, other=other, both=(number, [str(a * b) for a, b in flags])) == []


def test_few_rows_tell_nothing():
    town: Column = (CODES, [f"t{row % 15}" for row in ROWS][:99])
    assert find_all(town=town, state=(CODES, [str(row % 3) for row in ROWS][:99])) == []


def test_moments_are_told_with_the_last_before_them_of_several():
    second = [day if row % 2 else "" for row, day in enumerate(make_days(1))]
    third = [f"{day} 07:30" for day in make_days(1)]
    assert find(third=(MINUTES, third), first=(DAYS, make_days()), second=(DAYS, second)) == {
        "third": "second",
        "second": "first",
    }


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
    assert find(first=(DAYS, make_days()), other=(DAYS, other)) == {}


def test_moments_are_told_when_one_is_as_long_behind_the_other_in_every_row():
    ends = [day.replace("2024", "2034") for day in make_days()]
    assert find(begin=(DAYS, make_days()), end=(DAYS, ends)) == {"end": "begin"}
    apart = [f"01.01.{2034 + row % 2}" for row in ROWS]
    assert find(begin=(DAYS, make_days()), end=(DAYS, apart)) == {}


def test_months_are_read_and_columns_without_a_format_are_gone_over():
    months = {"type": "date", "format": "%Y-%m", "min": "2024-01", "max": "2024-12"}
    cells = [f"2024-{row % 12 + 1:02d}" for row in ROWS]
    open_one: dict[str, object] = {"type": "date", "format": None, "min": None, "max": None}
    short: dict[str, object] = {**DAYS, "format": "%d.%m.%y"}  # which nothing reads
    others = {"open": (open_one, cells), "short": (short, [day.replace("2024", "24") for day in make_days()])}
    assert find(month=(months, cells), first=(DAYS, make_days()), **others) == {"first": "month"}
