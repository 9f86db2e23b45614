"""Rows that are moved to answers: together, however many of them are written at a time."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dpwgan.app.sampling import RowSource
from dpwgan.app.together import draw_chunks
from dpwgan.marginals.rows import balance, mixture_sampler
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs
from tests.marginals.groups import make_halves

ROWS, STEP = 600, 50
COLUMNS = {
    "key": {"type": "integer", "uuid": True, "min": 0},
    "x": {"type": "integer", "min": 0, "max": 9},
    "y": {"type": "enum", "values": ["a", "b"]},
}
# Codes have x and y each by itself; answers have them together.
TOGETHER = np.array([[0.5, 0.0], [0.0, 0.5]], np.float32)


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    monkeypatch.setattr(balance, "_MOST_WORK", 0)
    monkeypatch.setattr(mixture_sampler, "_MOST_TOGETHER", 2 * 250)
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: STEP)


def make_encoder(rules: list[str], *, units: bool = False, unique: tuple[str, ...] = ()) -> TableEncoder:
    """Rows by themselves, or in units of one to three."""
    if not units:
        return TableEncoder(parse_specs({**COLUMNS, "rules": rules}, sha256=""), list(COLUMNS))
    named = {"unit": {"column": "house", "max_rows": 3}, "house": {"type": "integer", "uuid": True, "min": 0}}
    schema = parse_specs({**named, **COLUMNS, "rules": rules}, sha256="")
    return TableEncoder(schema.put(replace(schema.unit, sizes=(0.5, 0.3, 0.2), unique=unique)), ["house", *COLUMNS])


def make_model(encoder: TableEncoder) -> MixtureSampler:
    # The last says of how many rows a unit is, where there are any.
    cells = (10, 2, 3)[: len(encoder.spans)]
    probabilities = np.full((8, 2 * len(cells)), 0.5, np.float32)
    coarsening = make_halves(encoder.spans, cells=cells)
    return MixtureSampler(probabilities=probabilities, coarsening=coarsening, answers={(0, 1): TOGETHER})


def draw(
    rules: list[str],
    *,
    units: bool = False,
    unique: tuple[str, ...] = (),
    threads: int = 1,
    moved: bool = True,
    where: str | None = None,
) -> Iterator[pl.DataFrame]:
    encoder = make_encoder(rules, units=units, unique=unique)
    model = make_model(encoder)
    source = RowSource(model if moved else replace(model, answers={}), encoder, rows=ROWS, where=where)
    return draw_chunks(source, encoder, ROWS, rng=np.random.default_rng(1), threads=threads)


def count_apart(frame: pl.DataFrame) -> int:
    """Rows of which answers say that there are none."""
    return int(((frame["x"].cast(pl.Int64) < 5) != (frame["y"].cast(pl.String) == "a")).sum())


def note_drafts(monkeypatch: pytest.MonkeyPatch) -> list[mixture_sampler.Draft]:
    """Every draft that is made from now on."""
    drafts = list[mixture_sampler.Draft]()
    as_it_is = MixtureSampler.draft

    def note(model: MixtureSampler, records: int, *, rng: np.random.Generator) -> mixture_sampler.Draft:
        drafts.append(as_it_is(model, records, rng=rng))
        return drafts[-1]

    monkeypatch.setattr(MixtureSampler, "draft", note)
    return drafts


@pytest.mark.parametrize("rules", [[], ["x <> 3"]], ids=["no rule", "a rule"])
@pytest.mark.parametrize("moved", [True, False], ids=["as it is", "broken twin: rows stay where codes have them"])
def test_rows_are_moved_as_parts_of_a_table_when_they_are_written_in_steps(rules, moved, monkeypatch):
    drafts = note_drafts(monkeypatch)
    chunks = list(draw(rules, moved=moved))
    assert [chunk.height for chunk in chunks] == [STEP] * (ROWS // STEP)
    assert [len(draft.codes) for draft in drafts] == ([200] * 3 if moved else [STEP] * (ROWS // STEP))
    assert (count_apart(pl.concat(chunks)) < 12) == moved
    assert pl.concat(chunks)["key"].n_unique() == ROWS


@pytest.mark.parametrize("moved", [True, False], ids=["as it is", "broken twin: rows stay where codes have them"])
def test_rows_of_units_are_moved_as_parts_of_a_table(moved, monkeypatch):
    drafts = note_drafts(monkeypatch)
    chunks = list(draw([], units=True, moved=moved))
    frame = pl.concat(chunks)
    assert sum(len(draft.codes) for draft in drafts) == frame.height == ROWS
    # Parts end where units do; drafts are of about a fourth, as rows say how large their unit is, too.
    assert len(drafts) == (4 if moved else len(chunks))
    assert (count_apart(frame) < 12) == moved
    assert frame["key"].n_unique() == ROWS
    assert 300 < frame["house"].n_unique() < 400
    assert frame["house"].value_counts()["count"].max() == 3


@pytest.mark.parametrize(("unique", "times"), [((), 2), (("x",), 4)])
def test_few_units_are_put_together_of_the_rows_of_one_draft(unique, times, monkeypatch):
    """Of units that may break several times as many are made, and the fine ones chosen: so many rows has the draft."""
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: 4 * ROWS)
    drafts = note_drafts(monkeypatch)
    assert pl.concat(list(draw([], units=True, unique=unique))).height == ROWS
    assert [len(draft.codes) for draft in drafts] == [times * ROWS]


def test_each_row_of_a_draft_is_written_once(monkeypatch):
    """Groups as they are drafted, cells given their groups alone: what is written has the same groups, in order."""
    drafted = note_drafts(monkeypatch)
    written = pl.concat(list(draw([])))
    groups = np.concatenate([draft.groups for draft in drafted])
    assert (written["x"].cast(pl.Int64).to_numpy() >= 5).tolist() == (groups[:, 0] == 1).tolist()
    assert (written["y"].cast(pl.String).to_numpy() == "b").tolist() == (groups[:, 1] == 1).tolist()


@pytest.mark.parametrize("units", [False, True], ids=["rows", "units"])
@pytest.mark.parametrize("rules", [[], ["x <> 3"]], ids=["no rule", "a rule"])
def test_what_is_moved_does_not_depend_on_threads(rules, units):
    one, three = (pl.concat(list(draw(rules, units=units, threads=threads))) for threads in (1, 3))
    assert one.equals(three)


def test_rows_are_enough_where_a_condition_leaves_some_of_a_draft_out():
    drawn = pl.concat(list(draw([], where="y = 'a'")))
    assert drawn.height == ROWS
    assert drawn["key"].n_unique() == ROWS
    assert set(drawn["y"].cast(pl.String)) == {"a"}


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (250, 250), (251, 126), (600, 200), (501, 167)])
def test_drafts_are_of_like_size(rows, size):
    assert make_model(make_encoder([])).count_together(rows) == size
