"""One column both ways: what each cell becomes, what is refused, and what comes back."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.errors import DataError, DpwganError
from dpwgan.table.codecs import make_codec
from dpwgan.table.codecs.codec import EncodedCells
from dpwgan.table.findings import Findings
from dpwgan.table.schema import MOST_LEVELS, CategoricalColumn, NumericColumn, TrainedColumn

RNG = np.random.default_rng(5)


def encode(column: TrainedColumn, cells: list[str]) -> Any:
    """Encodes cells by themselves. Raises: DataError if one of them is illegal."""
    findings = Findings()
    encoded = make_codec(column).encode(pl.Series(cells, dtype=pl.String), findings)
    findings.raise_if_any()
    return encoded


def decode(column: TrainedColumn, codes: Any = None, numbers: Any = None) -> list[str]:
    encoded = EncodedCells(
        codes=None if codes is None else np.asarray(codes, dtype=np.int32),
        numbers=None if numbers is None else np.asarray(numbers),
    )
    return make_codec(column).decode(encoded, RNG).to_list()


def round_trip(column: TrainedColumn, cells: list[str]) -> list[str]:
    encoded = encode(column, cells)
    return decode(column, encoded.codes, encoded.numbers)


def get_refusal(column: TrainedColumn, cells: list[str]) -> str:
    with pytest.raises(DataError) as raised:
        encode(column, cells)
    return str(raised.value)


class TestCategories:
    TEXT = CategoricalColumn(name="c", tokens=("a", "B ", "03", "?", ""), missing=("?", ""))
    WHOLE = CategoricalColumn(
        name="c", tokens=("1", "03", "10", "-2", "99", "N", ""), missing=("99", "N", ""), integer=True
    )

    @given(st.lists(st.sampled_from(TEXT.tokens)))
    def test_cells_come_back_exactly_when_they_are_listed(self, cells):
        assert round_trip(self.TEXT, cells) == cells

    def test_cell_is_refused_when_its_spelling_is_another(self):
        assert get_refusal(self.TEXT, ["a", "A", "b", "3", " a"]) == (
            "The table does not fit the specs: column 'c': 3 rows with a cell that is one of its legal cells but for "
            "blanks or capitals; column 'c': 1 row with a cell that is not one of its legal cells."
        )

    def test_spellings_are_one_cell_when_the_column_is_of_whole_numbers(self):
        cells = ["3", "03", "3.0", " 3", "+3", "3e0", "0.3e1", "1.", "010", "-2.0", "99.0", "N", ""]
        assert round_trip(self.WHOLE, cells) == ["03"] * 7 + ["1", "10", "-2", "99", "N", ""]

    @pytest.mark.parametrize("cell", ["3.5", "nan", "inf", "٣", "1_0", " N", " ", "1e999", "2", "S3CRET"])
    def test_cell_is_refused_when_no_listed_number_is_meant(self, cell):
        message = get_refusal(self.WHOLE, ["1", cell])
        assert "1 row with" in message
        assert cell.strip() == "" or repr(cell) not in message

    def test_nearest_listed_number_is_taken_when_the_rule_is_clamp(self):
        column = CategoricalColumn(
            name="c", tokens=("1", "5", "99"), missing=("99",), integer=True, out_of_domain="clamp"
        )
        assert round_trip(column, ["-7", "0", "3", "3.1", "98", "1e300", "5", "99"]) == [
            "1", "1", "1", "5", "5", "5", "5", "99",
        ]  # fmt: skip
        assert "1 row with" in get_refusal(column, ["x"])

    def test_missing_code_is_taken_when_the_rule_is_missing(self):
        column = CategoricalColumn(name="c", tokens=("a", "?", ""), missing=("?", ""), out_of_domain="missing")
        assert round_trip(column, ["a", "b", ""]) == ["a", "?", ""]

    @pytest.mark.parametrize("codes", [[5], [-1]])
    def test_code_is_refused_when_it_is_beyond_the_list(self, codes):
        with pytest.raises(DpwganError, match="beyond its 5 categories"):
            decode(self.TEXT, codes)


class TestNumbers:
    AGE = NumericColumn(name="age", minimum=0, maximum=120, integer=True)
    PAY = NumericColumn(name="pay", minimum=-100, maximum=1e6, integer=False, decimals=1, missing=("9999999", "N", ""))

    @given(st.lists(st.integers(0, 120)))
    def test_whole_numbers_come_back_exactly_when_the_range_is_small(self, values):
        cells = [str(value) for value in values]
        assert round_trip(self.AGE, cells) == cells

    @given(st.lists(st.integers(0, MOST_LEVELS - 1)))
    def test_whole_numbers_come_back_exactly_when_a_double_can_tell_them_apart(self, values):
        column = NumericColumn(name="n", minimum=0, maximum=MOST_LEVELS - 1, integer=True)
        cells = [str(value) for value in values]
        assert round_trip(column, cells) == cells

    @given(low=st.floats(-1e6, 1e6), width=st.floats(0.01, 1e6), share=st.floats(0, 1), decimals=st.integers(0, 4))
    def test_number_comes_back_within_its_precision_when_it_is_in_range(self, low, width, share, decimals):
        high = low + width
        if math.ceil(low * 10**decimals) + 1 > math.floor(high * 10**decimals):
            return
        column = NumericColumn(name="x", minimum=low, maximum=high, integer=False, decimals=decimals)
        value = min(max(low + share * width, low), high)
        (cell,) = round_trip(column, [repr(value)])
        assert low <= float(cell) <= high
        assert abs(float(cell) - value) <= 1.01 * 10**-decimals + width * 2.0**-23
        assert len(cell.partition(".")[2]) == decimals

    def test_missing_codes_come_first_and_available_last_when_a_number_may_be_missing(self):
        encoded = encode(self.PAY, ["N", "9999999.0", "", " ", "-100", "9999999"])
        assert encoded.codes.tolist() == [1, 0, 2, 2, 3, 0]
        assert encoded.numbers.tolist() == [0] * 6
        assert decode(self.PAY, encoded.codes, encoded.numbers) == ["N", "9999999", "", "", "-100.0", "9999999"]

    @pytest.mark.parametrize("edges", [None, (0.0, 3.0, 6.0)])
    @pytest.mark.parametrize("decimals", [0, 1])
    @given(taken=st.sets(st.integers(0, 6), max_size=6), numbers=st.lists(st.floats(0, 1), min_size=1, max_size=20))
    def test_number_never_says_that_there_is_none_when_a_missing_code_lies_in_the_range(
        self, edges, decimals, taken, numbers
    ):
        missing = tuple(f"{step}.0" if decimals and step % 2 else str(step) for step in sorted(taken))
        column = NumericColumn(
            name="n", minimum=0, maximum=6, integer=True, decimals=decimals, missing=missing, edges=edges
        )
        if edges:
            cells = decode(column, [int(number > 0.5) for number in numbers])
        else:
            cells = decode(column, [len(missing)] * len(numbers) if missing else None, numbers)
        assert all(0 <= float(cell) <= 6 and float(cell) not in taken for cell in cells)
        free = [step for step in range(7) if step not in taken]
        if not edges:
            for cell, number in zip(cells, numbers, strict=True):
                nearest = min(abs(step - round(6 * number)) for step in free)
                assert abs(float(cell) - round(6 * number)) == nearest

    def test_missing_code_wins_when_it_lies_in_the_range(self):
        column = NumericColumn(name="x", minimum=0, maximum=99, integer=True, missing=("99",))
        assert encode(column, ["99", "99.0", "98"]).codes.tolist() == [0, 0, 1]

    @pytest.mark.parametrize(
        ("cell", "rule"),
        [
            *((cell, "is not a number") for cell in ("abc", "nan", "inf", "1_000", "٣")),
            *((cell, 'is empty, which only "optional": true allows') for cell in ("", " ")),
            ("7.5", "is not a whole number"),
            *((cell, "is not between 0 and 120") for cell in ("1e308", "1e999", "-1", "121")),
        ],
    )
    def test_cell_is_refused_with_its_rule_when_it_is_illegal(self, cell, rule):
        assert get_refusal(self.AGE, ["5", cell, cell]) == (
            f"The table does not fit the specs: column 'age': 2 rows with a cell that {rule}."
        )

    def test_nearest_number_is_taken_when_the_rule_is_clamp(self):
        column = NumericColumn(name="x", minimum=0.5, maximum=9.5, integer=True, out_of_domain="clamp")
        assert round_trip(column, ["0", "-5", "1e308", "-1e999", "3.4", "9.5"]) == ["1", "1", "9", "1", "3", "9"]
        assert "is not a number" in get_refusal(column, ["nan"])

    def test_missing_code_is_taken_when_the_rule_is_missing(self):
        column = NumericColumn(name="x", minimum=0, maximum=9, integer=True, missing=("N", ""), out_of_domain="missing")
        assert round_trip(column, ["10", "abc", "1.5", "inf", "", "9"]) == ["N", "N", "N", "N", "", "9"]

    @pytest.mark.parametrize(
        ("minimum", "maximum", "decimals", "lowest", "highest"),
        [
            (0.06, 10.04, 1, "0.1", "10.0"),
            (1.1, 3.3, 1, "1.1", "3.3"),
            (-0.5, 0.5, 0, "0", "0"),
            (-2.25, -0.01, 2, "-2.25", "-0.01"),
            (7, 7, 0, "7", "7"),
            (0.1 + 0.2, 1, 1, "0.4", "1.0"),
            (1e-11, 3e-11, 12, "0.000000000010", "0.000000000030"),
            (0, 4e18, 0, "0", "4000000000000000000"),
        ],
    )
    def test_output_stays_in_range_when_the_method_gives_anything(self, minimum, maximum, decimals, lowest, highest):
        column = NumericColumn(name="x", minimum=minimum, maximum=maximum, integer=False, decimals=decimals)
        numbers = [-math.inf, -3e38, -0.1, 0, 1, 1.5, 3e38, math.inf, math.nan]
        assert decode(column, numbers=numbers) == [lowest] * 4 + [highest] * 4 + [lowest]

    def test_whole_numbers_have_a_point_when_the_column_has_decimals(self):
        column = NumericColumn(name="x", minimum=-10, maximum=20000, integer=True, decimals=1)
        assert round_trip(column, ["15400.0", "15400", "-10"]) == ["15400.0", "15400.0", "-10.0"]

    def test_number_has_no_sign_when_it_is_zero(self):
        column = NumericColumn(name="x", minimum=-1, maximum=1, integer=False, decimals=2)
        assert round_trip(column, ["-0.001", "0", "-0"]) == ["0.00"] * 3


class TestBins:
    AGE = NumericColumn(name="age", minimum=0, maximum=100, integer=True, edges=(0, 18, 65, 100), missing=("N", "999"))

    def test_bin_holds_its_lower_edge_when_encoded(self):
        encoded = encode(self.AGE, ["0", "17", "18", "64", "65", "100", "N", "999.0"])
        assert encoded.numbers is None
        assert encoded.codes.tolist() == [0, 0, 1, 1, 2, 2, 3, 4]

    def test_largest_number_has_a_bin_of_its_own_when_the_last_edge_stands_twice(self):
        top = NumericColumn(name="x", minimum=0, maximum=501, integer=True, edges=(0, 500, 501, 501))
        assert encode(top, ["499", "500", "501"]).codes.tolist() == [0, 1, 2]
        assert decode(top, [1] * 50 + [2] * 50) == ["500"] * 50 + ["501"] * 50

    def test_every_number_of_a_bin_is_drawn_and_no_other_when_decoded(self):
        cells = decode(self.AGE, np.repeat([0, 1, 2, 3, 4], 3000))
        assert sorted(map(int, set(cells[:3000]))) == list(range(18))
        assert sorted(map(int, set(cells[3000:6000]))) == list(range(18, 65))
        assert sorted(map(int, set(cells[6000:9000]))) == list(range(65, 101))
        assert set(cells[9000:12000]) == {"N"}
        assert set(cells[12000:]) == {"999"}

    @given(st.lists(st.integers(0, 100)))
    def test_bin_is_the_same_when_a_decoded_number_is_encoded_again(self, values):
        codes = encode(self.AGE, [str(value) for value in values]).codes
        assert encode(self.AGE, decode(self.AGE, codes)).codes.tolist() == codes.tolist()

    def test_reals_keep_their_digits_and_bin_when_decoded(self):
        column = NumericColumn(name="x", minimum=0, maximum=1, integer=False, decimals=2, edges=(0, 0.255, 1))
        cells = decode(column, np.repeat([0, 1], 4000))
        assert set(cells[:4000]) == {f"{step / 100:.2f}" for step in range(26)}
        assert set(cells[4000:]) == {f"{step / 100:.2f}" for step in range(26, 101)}

    def test_nearest_number_is_written_when_a_bin_holds_none(self):
        column = NumericColumn(name="x", minimum=0, maximum=2, integer=True, edges=(0, 0.2, 0.4, 2))
        assert decode(column, [1, 1]) == ["0", "0"]

    def test_drawing_is_even_when_a_bin_holds_several_numbers(self):
        # Chi-square with 17 degrees of freedom: above 75 by chance about once in 1e8. The twin draws one number more.
        cells = np.array(decode(self.AGE, np.zeros(18_000, dtype=np.int32))).astype(int)
        twin = np.where(np.arange(18_000) % 18 == 0, 3, cells)
        for drawn, is_even in ((cells, True), (twin, False)):
            statistic = float((((np.bincount(drawn, minlength=18) - 1000) ** 2) / 1000).sum())
            assert (statistic < 75) == is_even
