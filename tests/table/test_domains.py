"""Lists of cells read from the data, waived or private."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from dpwgan.errors import DataError, DpwganError, SpecsError
from dpwgan.table import domains
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema, UndiscoveredColumn, UnitColumn
from dpwgan.table.units.units import Units
from tests.rows import encode_table

PLAIN = NumericColumn(name="n", minimum=0, maximum=9, integer=True)


class Selection:
    """Releases every cell seen at least twice, and remembers what it was asked."""

    def __init__(self) -> None:
        self.acts: list[object] = []

    def __call__(
        self, columns: Sequence[str], count: Callable[[], Sequence[Mapping[str, int]]]
    ) -> list[tuple[str, ...]]:
        self.acts += columns
        counts = count()
        self.acts += map(dict, counts)
        return [tuple(cell for cell, rows in each.items() if rows > 1) for each in counts]


def make_schema(**keys: object) -> Schema:
    column = UndiscoveredColumn(name="c", **keys)
    return Schema(columns=(PLAIN, column), sha256="abc")


def make_frame(cells: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"n": ["1"] * len(cells), "c": cells})


def discover(cells: list[str], *, select: Selection | None = None, **keys: object) -> Schema:
    return discover_domains([make_frame(cells)], make_schema(**keys), select=select)


def test_waived_column_lists_every_cell_in_order_when_read():
    schema = discover(["b", "a", "10", "9", "", "b"], privacy="waived", missing=("?", ""))
    assert schema.sha256 == "abc"
    assert schema.columns == (
        PLAIN,
        CategoricalColumn(
            name="c", tokens=("9", "10", "a", "b", "?", ""), missing=("?", ""), domain="waived", out_of_domain="reject"
        ),
    )


def test_cells_that_begin_with_numbers_are_listed_by_these():
    schema = discover(["10-14", "5-9", "0-4", "75+", "5-9"], privacy="waived", missing=("?",))
    (column,) = (column for column in schema.columns if column.name == "c")
    assert isinstance(column, CategoricalColumn)
    assert column.tokens == ("0-4", "5-9", "10-14", "75+", "?")
    assert column.parts[0].ordered


def test_spellings_are_merged_when_the_column_is_of_whole_numbers():
    cells = ["3", "03", "3.0", "10", "-1", "0999"]
    schema = discover(cells, privacy="waived", integer=True, missing=("999",))
    assert schema.columns[1].tokens == ("-1", "3", "10", "999")
    encoded = encode_table(TableEncoder(schema, ["n", "c"]), make_frame(cells))
    assert encoded.codes[:, 0].tolist() == [1, 1, 1, 2, 0, 3]


@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_units_are_counted_once_in_a_column_that_they_share_and_move_one_count_by_one(pieces):
    columns = (
        UndiscoveredColumn(name="town", privacy="private", missing=("?",)),
        UndiscoveredColumn(name="own", privacy="private", missing=("?",)),
        UnitColumn(name="who", max_rows=3, written=True, shared=("town",)),
    )

    def count(whose: str, towns: str) -> list[dict[str, int]]:
        selection, frame = Selection(), pl.DataFrame({"town": list(towns), "own": list(towns)})
        frames = frame.iter_slices(-(-len(towns) // pieces))
        firsts = Units(np.array(list(whose), np.int32)).firsts
        discover_domains(frames, Schema(columns=columns, sha256="0"), select=selection, firsts=firsts)
        return [dict(counts) for counts in selection.acts[2:]]

    town, own = count("010212", "abacbc")
    assert (town, own) == ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 2})
    # Of another unit 0, and of none: one count moves by one, and of rows by two.
    gone, gone_own = count("010212", "?b?cbc")
    assert ({**gone, "a": 1}, {**gone_own, "a": 2}) == (town, own)
    with pytest.raises(DpwganError, match="whose rows are whose is not known"):
        discover_domains([], Schema(columns=columns, sha256="0"), select=Selection())


def test_private_column_lists_what_is_released_when_charged_first():
    selection = Selection()
    frame = make_frame(["a", "a", "rare", "b", "b", "?"])
    schema = discover_domains([frame[:2], frame[2:]], make_schema(privacy="private", missing=("?",)), select=selection)
    assert selection.acts == ["c", {"a": 2, "rare": 1, "b": 2}]
    assert schema.columns[1] == CategoricalColumn(
        name="c", tokens=("a", "b", "?"), missing=("?",), domain="private", out_of_domain="missing"
    )
    encoder = TableEncoder(schema, ["n", "c"])
    encoded = encode_table(encoder, frame)
    assert encoded.codes[:, 0].tolist() == [0, 0, 2, 1, 1, 2]
    assert "rare" not in encoder.decode(encoded, np.random.default_rng(1))["c"].to_list()


def test_cells_the_specs_rule_out_are_missing_when_the_list_is_private():
    selection = Selection()
    cells = ["1", "1.0", "x", "2.5", ""]
    schema = discover(cells, privacy="private", integer=True, missing=("N",), select=selection)
    assert selection.acts == ["c", {"1": 2}]
    assert schema.columns[1].tokens == ("1", "N")


def test_private_column_is_refused_when_there_is_no_budget_for_it():
    with pytest.raises(SpecsError, match="cannot be selected"):
        discover(["a"], privacy="private", missing=("?",))


def test_all_private_columns_are_charged_when_no_row_was_read_yet():
    selection = Selection()
    acts = selection.acts

    def read() -> Iterator[pl.DataFrame]:
        acts.append("read")
        yield pl.DataFrame({"c": ["x"], "d": ["x"], "w": ["x"]})

    columns = (
        UndiscoveredColumn(name="w", privacy="waived"),
        UndiscoveredColumn(name="c", privacy="private", missing=("?",)),
        UndiscoveredColumn(name="d", privacy="private", missing=("?",)),
    )
    discover_domains(read(), Schema(columns=columns, sha256="0"), select=selection)
    assert acts[:3] == ["c", "d", "read"]


@pytest.mark.parametrize(
    ("cells", "keys", "words"),
    [
        (["a", "", ""], {}, "2 rows with a cell that is empty"),
        (["1", "S3CRET", "2.5"], {"integer": True}, "2 rows with a cell that is not a whole number"),
        ([str(cell) for cell in range(11)], {}, "more than 10 distinct cells"),
    ],
)
def test_waived_column_is_refused_when_its_cells_cannot_be_listed(monkeypatch, cells, keys, words):
    monkeypatch.setattr(domains, "MOST_CATEGORIES", 10)
    with pytest.raises(DataError, match=words) as raised:
        discover(cells, privacy="waived", **keys)
    assert "S3CRET" not in str(raised.value)


def test_schema_stays_as_it_is_when_nothing_is_left_to_discover():
    schema = Schema(columns=(PLAIN,), sha256="0")
    assert discover_domains([make_frame(["a"])], schema) == schema
