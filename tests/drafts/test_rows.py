"""Gaps filled from rows: each such column is waived, and what a dictionary says stays as it is."""

from typing import Any

import polars as pl
import pytest

from dpwgan.drafts import rows
from dpwgan.drafts.rows import fill_from_rows
from dpwgan.table.specs import parse_specs
from tests.table.test_codecs import encode

WAIVED = {"domain_privacy": "waived"}
FRAMES = [
    pl.DataFrame({"age": ["30", ""], "fee": ["1.50", "2"], "day": ["02/01/2024", "01/02/2024"], "town": ["b", "9"]}),
    pl.DataFrame({"age": ["-7", "999"], "fee": ["0.25", "9e1"], "day": ["x", "03/01/2023"], "town": ["a", "b"]}),
]


def fill(**draft: Any) -> dict[str, dict[str, Any]]:
    return fill_from_rows(draft, FRAMES)[0]


def test_table_without_a_dictionary_is_described_by_its_rows_when_asked():
    specs, waived, _ = fill_from_rows({}, FRAMES)
    assert waived == ["age", "fee", "day", "town"]
    assert specs == {
        "age": {"type": "integer", **WAIVED, "min": -7, "max": 999, "optional": True},
        "fee": {"type": "float", **WAIVED, "min": 0.25, "max": 90.0, "decimals": 2},
        "day": {"type": "enum", "values_from": "data", **WAIVED},
        "town": {"type": "enum", "values_from": "data", **WAIVED},
    }


@pytest.mark.parametrize(
    ("cells", "low", "high", "decimals"),
    [
        (["0.16050000488758087", "91.269996643066406", "5"], 0.1605, 91.27, 4),
        (["0.160500004887581", "91.2699966430664"], 0.1605, 91.27, 4),  # to 15 digits
        (["-33.599998474121094", "-0.0099999997764825821"], -33.6, 0.0, 2),
        (["6.852242469787598", "9.545526504516602"], 6.8522424, 9.5455266, 7),
        (["0.1605", "91.27"], 0.1605, 91.27, 4),
        (["0.5", "0.0625"], 0.0625, 0.5, 4),
        (["0.16050000488758087", "91.27"], 0.16050000488758087, 91.27, 13),  # one is no single float
        (["0.1604999899864197", "0.91269996643066"], 0.1604999899864197, 0.91269996643066, 14),
    ],
)
def test_digits_of_single_floats_are_those_that_were_meant(cells, low, high, decimals):
    found = fill_from_rows({}, [pl.DataFrame({"x": cells})])[0]["x"]
    assert (found["min"], found["max"], found["decimals"]) == (low, high, decimals)
    assert str(found["max"]) != "-0.0"
    assert found["min"] <= min(map(float, cells)) <= max(map(float, cells)) <= found["max"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_column_without_a_name_is_left_out_and_named(name):
    specs, waived, why = fill_from_rows({}, [pl.DataFrame({name: ["0", "1"], "age": ["3", "7"]})])
    assert specs[name] == {"type": "drop"}
    assert waived == ["age"]
    assert "without a name" in why[name]
    specs, _, why = fill_from_rows({name: {"type": "drop"}}, [pl.DataFrame({name: ["0", "1"]})])
    assert (specs, why) == ({name: {"type": "drop"}}, {})


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["21.12.1933", "01.02.2024"], {"type": "date", "format": "%d.%m.%Y"}),
        (["12/31/1999", "01/02/2024"], {"type": "date", "format": "%m/%d/%Y"}),
        (["01/02/2024", "03/04/2024"], {"type": "enum", "values_from": "data"}),  # which of them is the month?
        (["1.02.2024", "21.12.1933"], {"type": "enum", "values_from": "data"}),  # a format tells how many digits
        (["21-12-2023 09:30", "01-02-2024 10:00"], {"type": "datetime", "format": "%d-%m-%Y %H:%M"}),
        (["1.2.2024", "21.12.2033"], {"type": "date", "format": "%-d.%-m.%Y"}),
        (["1/31/2024 9:05", "12/1/2024 10:00"], {"type": "datetime", "format": "%-m/%-d/%Y %-H:%M"}),
        (["06/03/2024 06:52 AM", "12/31/2024 01:00 PM"], {"type": "datetime", "format": "%m/%d/%Y %I:%M %p"}),
        (["03-Jun-2024", "03-Jul-2024"], {"type": "date", "format": "%d-%b-%Y"}),
        (["03JUN2024", "03JUL2024"], {"type": "date", "format": "%d%b%Y"}),
        (["03jun2024:09:05:00", "03jul2024:13:00:59"], {"type": "datetime", "format": "%d%b%Y:%H:%M:%S"}),
        (["Jun 3, 2024", "Dec 24, 2024"], {"type": "date", "format": "%b %-d, %Y"}),
        (["Jun 3 2024", "Dec 24 2024"], {"type": "date", "format": "%b %-d %Y"}),
        (["24 May 2024", "3 June 2024"], {"type": "date", "format": "%-d %B %Y"}),
        (["May 24, 2024", "June 03, 2024"], {"type": "date", "format": "%B %d, %Y"}),
        (["8h30", "19h00"], {"type": "time", "format": "%-Hh%M"}),
        (["9:05 AM", "10:00 PM"], {"type": "time", "format": "%-I:%M %p"}),
        (["2023-12-08 10:44", "2024-01-01 00:00"], {"type": "datetime", "format": "%Y-%m-%d %H:%M"}),
        (["09:05:00", "23:59:59"], {"type": "time", "format": "%H:%M:%S"}),
        (["20240229", "20241231"], {"type": "date", "format": "%Y%m%d"}),
        (["2024-02", "2024-12"], {"type": "date", "format": "%Y-%m"}),
        (["20230229", "20241231"], {"type": "integer"}),  # no leap year
        (["2024111", "2024311"], {"type": "integer"}),
        (["10240229", "20241231"], {"type": "integer"}),  # rather an amount
        (["2024-02-29T07:30:00Z", "2024-12-31T00:00:00Z"], {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%SZ"}),
        (
            ["2024-02-29T07:30:00.120Z", "2024-12-31T00:00:00.000Z"],
            {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S.%3fZ"},
        ),
        (
            ["2024-02-29 07:30:00.000", "2024-03-01 00:00:00.000"],
            {"type": "datetime", "format": "%Y-%m-%d %H:%M:%S.000"},
        ),
        (["07:30:00.000001", "23:00:00.000000"], {"type": "time", "format": "%H:%M:%S.%f"}),
        (
            ["2024-02-29T07:30:00+01:00", "2024-12-31T00:00:00+01:00"],
            {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S+01:00"},
        ),
        (
            ["2024-02-29T07:30:00.120+0000", "2024-12-31T00:00:00.000+0000"],
            {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S.%3f+0000"},
        ),
        (["2024-02-29T07:30:00+01:00", "2024-12-31T00:00:00+02:00"], {"type": "enum", "values_from": "data"}),
        (["2024-02-29T07:30:00.5", "2024-12-31T00:00:00.25"], {"type": "enum", "values_from": "data"}),
        (["01067", "99084"], {"type": "enum", "values_from": "data"}),  # the zero is part of a code
        (["01.10", "62.09"], {"type": "enum", "values_from": "data"}),
        (["0.15", "62.09"], {"type": "float", "decimals": "2"}),
        (["0", "12"], {"type": "integer"}),
        (["34.0", "101.0"], {"type": "integer", "decimals": "1"}),
    ],
)
def test_moments_and_codes_are_told_from_amounts(cells, found):
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"cell": cells})])
    ends = {} if found["type"] == "enum" else {"min": cells[0], "max": cells[1]}
    ends = {key: cell.removesuffix(".0") for key, cell in ends.items()} if found["type"] == "integer" else ends
    assert {key: str(value) for key, value in specs["cell"].items()} == {**found, **WAIVED, **ends}
    schema = parse_specs(specs, sha256="")
    if found["type"] != "enum":
        encode(schema.columns[0], cells)  # all of them are legal


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["1.5", "NA", "20"], {"type": "float", "min": 1.5, "max": 20.0, "decimals": 1, "missing": ["NA"]}),
        (["3", "-", "", "NULL"], {"type": "integer", "min": 3, "max": 3, "missing": ["-", "NULL"], "optional": True}),
        (["2024-01-01", "N/A"], {"type": "date", "format": "%Y-%m-%d", **dict.fromkeys(("min", "max"), "2024-01-01")}),
        (["01", "02", "NA"], {"type": "enum", "values_from": "data"}),  # codes
        (["3", "NA", "low"], {"type": "enum", "values_from": "data"}),
        (["NA", "-"], {"type": "enum", "values_from": "data"}),
        (["7", "#DIV/0!"], {"type": "integer", "min": 7, "max": 7, "missing": ["#DIV/0!"]}),
        (["7", "."], {"type": "integer", "min": 7, "max": 7, "missing": ["."]}),
        (["A", "#REF!"], {"type": "enum", "values_from": "data"}),
    ],
)
def test_mark_beside_numbers_or_moments_means_not_available(cells, found):
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"cell": cells})])
    assert specs["cell"] == {**found, **WAIVED, **({"missing": ["N/A"]} if "N/A" in cells else {})}
    if found["type"] != "enum":
        encode(parse_specs(specs, sha256="").columns[0], cells)  # all of them are legal


@pytest.mark.parametrize("never", ["0000-00-00", "9999-12-31"])
def test_day_that_never_comes_means_not_available(never):
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"end": ["2024-02-29", never, "2024-03-01"]})])
    found = {"type": "date", "format": "%Y-%m-%d", "min": "2024-02-29", "max": "2024-03-01", "missing": [never]}
    assert specs["end"] == {**found, **WAIVED}
    encode(parse_specs(specs, sha256="").columns[0], ["2024-02-29", never])


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        (["-8"], True),
        (["-1", "-99"], True),
        (["-1", "-2"], False),  # down from 0
        (["-2", "-5.5"], False),
        (["-12"], False),
        ([f"-{code}" for code in (1, 3, 4, 5, 6, 8)], False),
    ],
)
def test_few_codes_below_many_numbers_mean_not_available(codes, found):
    cells = [*(str(hours) for hours in range(60)), *codes]
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"hours": cells})])
    assert specs["hours"].get("missing", []) == (sorted(codes) if found else [])
    assert (specs["hours"]["min"] >= 0) is found
    few, _, _ = fill_from_rows({}, [pl.DataFrame({"hours": cells[:19] + codes[:1]})])
    assert "missing" not in few["hours"]


def test_mark_is_a_cell_like_others_when_a_dictionary_says_what_is_missing():
    keys = {"a": {"type": None, "missing": ["-1"]}}
    found = {"type": "enum", "values_from": "data", **WAIVED, "missing": ["-1"]}
    assert fill_from_rows(keys, [pl.DataFrame({"a": ["3", "NA", "-1"]})])[0] == {"a": found}


def test_days_are_dates_when_each_row_has_its_own():
    days = [f"2024{month:02d}{day:02d}" for month in range(1, 13) for day in range(1, 11)]
    found = {"type": "date", **WAIVED, "format": "%Y%m%d", "min": "20240101", "max": "20241210"}
    assert fill_from_rows({}, [pl.DataFrame({"day": days})])[0] == {"day": found}


def test_code_of_many_keeps_its_zeros(monkeypatch):
    monkeypatch.setattr(rows, "MOST_CATEGORIES", 1)
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"zip": ["01067", "99084"]})])
    assert specs["zip"] == {"type": "integer", **WAIVED, "min": 1067, "max": 99084, "width": 5}


def test_nulls_alone_are_filled_when_a_dictionary_says_the_rest():
    specs = fill(
        age={"type": "integer", "min": 0, "max": None, "missing": ["999"], "description": "Age"},
        fee={"type": "integer", "min": 0, "max": 5},
        day={"type": "date", "format": "%d/%m/%Y", "min": None, "max": None},
    )
    assert specs["age"] == {
        **{"type": "integer", **WAIVED, "min": 0, "max": 30, "missing": ["999"]},
        **{"optional": True, "description": "Age"},
    }
    assert specs["fee"] == {"type": "integer", "min": 0, "max": 5}
    assert specs["day"] == {
        **{"type": "date", **WAIVED, "format": "%d/%m/%Y"},
        **{"min": "03/01/2023", "max": "01/02/2024"},
    }


def test_column_stays_open_when_its_rows_do_not_say_enough(monkeypatch):
    monkeypatch.setattr(rows, "MOST_CATEGORIES", 1)
    holes = {
        "town": {"type": "enum", "values": None},
        "day": {"type": "date", "format": None, "min": None, "max": None},
        "fee": {"type": "float", "min": None, "max": None, "missing": ["1.50", "2", "0.25", "9e1"]},
        "other": {"type": None},
    }
    specs, waived, why = fill_from_rows(holes, FRAMES)
    assert {name: specs[name] for name in holes} == holes
    assert waived == ["age"]
    assert why == {
        "town": "names or free text? too many for a list",
        "day": "the format comes first",
        "fee": "no cell has anything",
        "other": "not in the table",
    }


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["03.06.24", "14.11.24"], "moments in no known format?"),
        (["2024-03-30T07:30:00+01:00", "2024-03-31T07:30:00+02:00"], "offsets that change? turn all to one zone"),
        (["03/06/2024", "11/12/2024"], "day or month first?"),
        (["93,05", "1"], "numbers with other marks than a point?"),
        (["93\u202f000", "1"], "numbers with other marks than a point?"),
        (["<0.5", "152.93 €", "77%", "20,730"], "numbers with other marks than a point?"),
        (["100245812208319143"], "more digits than are exact"),
        (["123-45-6789"], "names or free text? too many for a list"),
        (["J18.0"], "names or free text? too many for a list"),
    ],
)
def test_why_a_column_stays_open_is_told(cells, why, monkeypatch):
    monkeypatch.setattr(rows, "MOST_CATEGORIES", 0)
    assert fill_from_rows({}, [pl.DataFrame({"a": cells})])[1:] == ([], {"a": why})


def test_list_of_a_dictionary_stays_open_when_it_would_be_long(monkeypatch):
    monkeypatch.setattr(rows, "MOST_CATEGORIES", 1)
    keys = {"type": "enum", "values": None}
    why = {"a": "names or free text? too many for a list"}
    assert fill_from_rows({"a": keys}, [pl.DataFrame({"a": ["1", "2"]})]) == ({"a": keys}, [], why)


def test_column_stays_open_when_it_may_hold_names():
    for rows_of_each, found in ((9, {"type": None}), (10, {"type": "enum", "values_from": "data", **WAIVED})):
        frame = pl.DataFrame({"patient": [f"P{row // rows_of_each}" for row in range(200 * rows_of_each)]})
        assert fill_from_rows({}, [frame])[0] == {"patient": found}


@pytest.mark.parametrize(
    ("cells", "rows_of_each", "found"),
    [
        (["1", "2", "5", "8"], 100, "enum"),
        (["-8", "-1", "3"], 100, "enum"),
        (["1", "2", "3"], 100, "integer"),
        (["1", "2", "5", "8"], 99, "integer"),
        ([str(2 * number) for number in range(21)], 200, "integer"),
        (["1.0", "2.0", "3.0"], 100, "integer"),
        (["1.0", "1.5", "2.0"], 100, "enum"),
        (["1.0", "1.5", "2.0"], 99, "float"),
        (["0.1", "0.2", "0.3"], 100, "float"),
        (["0.5", "2", "x"], 100, "enum"),
    ],
)
def test_few_numbers_are_codes_when_there_are_others_between_them(cells, rows_of_each, found):
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"answer": cells * rows_of_each})])
    assert specs["answer"]["type"] == found


@pytest.mark.parametrize(
    ("cells", "most"),
    [(["1", "8"], 8), (["-8", "-2", "-1"], 0), (["01", "08"], None), (["1.0", "8.0"], None), (["1", "8.5"], None)],
)
def test_codes_that_are_whole_numbers_are_so_for_rules(cells, most):
    specs, _, _ = fill_from_rows({}, [pl.DataFrame({"answer": cells * 100})])
    more = {} if most is None else {"maxval": most}
    assert specs == {"answer": {"type": "enum", "values_from": "data", **more, **WAIVED}}
    parse_specs({**specs, **({} if most is None else {"rules": ["answer < 9"]})}, sha256="")


@pytest.mark.parametrize(
    ("name", "found"),
    [("zip", "enum"), ("programmeCode", "enum"), ("Post-Code 2", "enum"), ("phone", "enum"), ("zipped", "integer")],
)
def test_whole_numbers_are_codes_when_their_column_is_named_so(name, found):
    cells = [str(10_115 + 37 * row) for row in range(90)]
    assert fill_from_rows({}, [pl.DataFrame({name: cells})])[0][name]["type"] == found
    assert fill_from_rows({}, [pl.DataFrame({name: [f"{cell}.5" for cell in cells]})])[0][name]["type"] == "float"


CODES = "codes? list those that there are, for others come out as well"
FEW = "few values? list them, for others come out as well"
SEVERAL = "several answers in a cell? make a column of each"
MARKED = "numbers with other marks than a point?"
ALIKE = "some differ in blanks or capitals alone: is one meant?"


@pytest.mark.parametrize(
    ("name", "cells", "doubt"),
    [
        ("town", range(10_115, 99_999, 13), CODES),
        ("town", range(1_067, 99_999, 13), ""),
        ("plz", range(1_067, 99_999, 13), CODES),
        ("town", [f"{town:05d}" for town in range(67, 99_999, 13)], CODES),
        ("born", range(1930, 2012), ""),
        ("debt", range(-50_000, 50_000, 13), ""),
        ("lat", [f"{47 + place / 37:.5f}" for place in range(40)], FEW),
        ("lat", [f"{47 + place / 37:.5f}" for place in range(101)], ""),
        ("pay", [str(2_000 + 37 * grade + 11 * grade**2) for grade in range(90)], FEW),
        ("pay", range(0, 90_000, 1_000), ""),
        ("one", ["7"], ""),
        ("income", [*range(0, 90_000, 1_000), 999_999], "nines for not available?"),
        ("warmth", ["-999.0", *(f"{half / 2}" for half in range(-30, 60))], "nines for not available?"),
        ("age", [*range(60), 99], ""),
        ("age", [*range(10), 99], ""),
        ("grade", range(10), ""),
        ("way", [f"{way} km" for way in range(30)], MARKED),
        ("house", ["12a", "12b"], ""),
        ("ph", [f"{6 + place / 10:.1f}" for place in range(40)], ""),
        ("fee", ["$1,000.00", "(5)", "7%"], MARKED),
        ("begin", ["01/02/2024", "03/04/2024"], "day or month first?"),
        ("heard", [f"{one};{other}" for one in "abcdef" for other in "abcdef"], SEVERAL),
        ("heard", ["a;b", "a", "b"], ""),
        ("town", ["Ulm, Alb", "Ulm, Donau"], ""),
        ("town", ["Ulm", "ulm ", "Aalen"], ALIKE),
        ("town", ["Bad  Urach", "Bad Urach"], ALIKE),
        ("share", ["97%", "4%", "NA"], MARKED),
        ("share", ["NA", "-"], ""),
        ("answer", range(-2, 11), "below 0 for not available?"),
        ("entry", [f"01.09.{year}" for year in range(2015, 2024)], FEW),
        ("month", [f"{year}-{month:02d}" for year in (2023, 2024) for month in range(1, 13)], ""),
        ("month", [f"{year}-{1 + year % 7:02d}" for year in range(1990, 2024)], FEW),
        ("entry", [f"{day}.9.2015" for day in range(1, 10)], ""),
        ("entry", [f"{9 * month // 3}/{month}/2015" for month in range(1, 10)], FEW),
    ],
)  # fmt: skip
def test_what_a_drafted_column_may_be_as_well_is_told(name, cells, doubt):
    every = list(map(str, cells))
    _, waived, why = fill_from_rows({}, [pl.DataFrame({name: every * (100 if len(every) <= 101 else 2)})])
    assert (waived, why) == ([name], {name: doubt} if doubt else {})


def test_cells_that_are_no_numbers_are_told_when_a_dictionary_says_that_all_are():
    ends = {"min": None, "max": None}
    for kind, cells, found in (
        ("float", ["9.50", "1,234.50"], True),
        ("float", ["9.50", "x"], False),
        ("float", ["9.50", ""], False),
        ("integer", ["9", "1.0"], False),
        ("integer", ["9", "1.5"], True),
    ):
        keys, frame = {"type": kind, "missing": ["x"]}, pl.DataFrame({"fee": cells})
        _, waived, why = fill_from_rows({"fee": {**keys, **ends}}, [frame])
        assert (waived, [*why]) == (["fee"], ["fee"] if found else [])
        whole, waived, why = fill_from_rows({"fee": {**keys, "min": 0, "max": 9999}}, [frame])
        assert (whole["fee"], waived, [*why]) == ({**keys, "min": 0, "max": 9999}, [], ["fee"] if found else [])


def test_row_names_of_a_dictionary_are_no_wrong_numbers():
    assert fill_from_rows({"row": {"type": "integer", "uuid": True}}, [pl.DataFrame({"row": ["a1"]})])[2] == {}


def test_words_beside_many_numbers_or_moments_mean_not_available():
    days = [f"2024-01-{day:02d}" for day in range(1, 32)]
    for cells in (list(map(str, range(40))), days):
        for words, found in ((["k.A."], True), (["exempt", "?", "."], True), ([*"abcdef"], False), (["A1"], False)):
            specs, _, _ = fill_from_rows({}, [pl.DataFrame({"a": [*cells, *words]})])
            assert specs["a"].get("missing", []) == (sorted(words) if found else [])
            assert (specs["a"]["type"] == "enum") is not found


def test_texts_that_all_differ_may_be_names_of_rows():
    names = [f"CR-{row}" for row in range(101)]
    for cells, why in (
        (names, "names of rows or free text? all differ"),
        ([*names, names[0]], "names or free text? too"),
    ):
        assert fill_from_rows({}, [pl.DataFrame({"a": cells})])[2]["a"].startswith(why)


def test_limit_of_measurement_is_a_cell_of_its_own_beside_many_numbers():
    numbers = [f"{level / 100:.2f}" for level in range(5, 95)]
    for limits, found in (
        (["<0.05"], True),
        (["<0.05", ">= 1"], True),
        (["1+"], True),
        ([f"<0.0{n}" for n in range(6)], False),
    ):
        specs, _, _ = fill_from_rows({}, [pl.DataFrame({"lead": [*numbers, *limits] * 10})])
        assert specs["lead"].get("missing", []) == (sorted(limits) if found else [])
        assert (specs["lead"]["type"] == "float") is found
    few, _, _ = fill_from_rows({}, [pl.DataFrame({"persons": ["1", "2", "3", ">3"]})])
    assert few["persons"] == {"type": "enum", "values_from": "data", **WAIVED}


def test_amounts_with_decimal_commas_stay_open_when_they_are_no_short_list():
    cells = [f"{euros},50" for euros in range(101)]
    specs, _, why = fill_from_rows({}, [pl.DataFrame({"pay": cells * 20, "share": cells[:10] * 202})])
    assert (specs["pay"], specs["share"]["type"]) == ({"type": None}, "enum")
    assert why == dict.fromkeys(("pay", "share"), MARKED)
    words = ["haemolytic", "see note", "<0,05"]
    assert fill_from_rows({}, [pl.DataFrame({"pay": [*cells, *words] * 20})])[1:] == ([], {"pay": MARKED})
    few, _, _ = fill_from_rows({}, [pl.DataFrame({"pay": [*cells[:40], *words] * 20})])
    assert few["pay"]["type"] == "enum"


def test_moments_in_no_known_format_stay_open_when_they_are_no_short_list():
    cells = [
        f"2024-03-{day:02d}T07:{minute}:00+0{1 + day // 31}:00" for day in range(28, 32) for minute in range(10, 60)
    ]
    specs, _, why = fill_from_rows({}, [pl.DataFrame({"read": cells * 20, "begun": cells[::50] * 1_000})])
    assert (specs["read"], specs["begun"]["type"]) == ({"type": None}, "enum")
    assert why == dict.fromkeys(("read", "begun"), "offsets that change? turn all to one zone")


def test_whole_numbers_stay_open_when_each_row_has_its_own():
    number = [str(1_000 + row) for row in range(101)]
    specs, waived, why = fill_from_rows({}, [pl.DataFrame({"stay": number, "age": [number[0], *number[:-1]]})])
    assert (specs["stay"], waived) == ({"type": None}, ["age"])
    assert why == {"stay": "names of rows or free text? all differ"}
    kept = {"stay": {"type": "integer", "min": None, "max": None}}
    assert fill_from_rows(kept, [pl.DataFrame({"stay": number})])[1] == ["stay"]


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_number_stays_open_when_no_cell_is_one(kind):
    keys = {"type": kind, "min": None, "max": None}
    assert fill_from_rows({"a": keys}, [pl.DataFrame({"a": ["x", ""]})]) == (
        {"a": keys},
        [],
        {"a": "no cell is a number"},
    )


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["100245812208319143", "7"], {"type": None}),  # a name in digits
        (["1e18", "0.5"], {"type": None}),
        (["9007199254740990.5", "7.5"], {"type": "float", "min": 7.5, "max": 9007199254740990.0, "decimals": 0}),
        (["0.00000000000001", "94801166169.5"], {"type": "float", "min": 1e-14, "max": 94801166169.5, "decimals": 4}),
        (["0.000000000000000001", "0.5"], {"type": "float", "min": 1e-18, "max": 0.5, "decimals": 15}),
        # A program that wrote a sum of tenths.
        (["0.30000000000000004", "2"], {"type": "float", "min": 0.30000000000000004, "max": 2.0, "decimals": 1}),
    ],
)
def test_range_that_is_drafted_can_be_acted_on(cells, found):
    specs, waived, _ = fill_from_rows({}, [pl.DataFrame({"a": cells})])
    assert specs == {"a": {**found, **(WAIVED if waived else {})}}
    assert not waived or parse_specs(specs, sha256="")
