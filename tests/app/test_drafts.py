"""Rows that are moved to answers: together, however many of them are written at a time."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dpwgan.app.sampling import RowSource
from dpwgan.app.together import draw_chunks
from dpwgan.marginals import balance, mixture_sampler
from dpwgan.marginals.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.mixture_sampler import MixtureSampler
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs

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


def make_encoder(rules: list[str]) -> TableEncoder:
    return TableEncoder(parse_specs({**COLUMNS, "rules": rules}, sha256=""), list(COLUMNS))


def make_model(encoder: TableEncoder) -> MixtureSampler:
    parts = [
        AttributeGroups(
            cells=cells,
            starts=np.array([0, cells // 2]),
            groups=np.arange(2, dtype=np.int32),
            weights=np.ones(2),
            probabilities=np.full(2, 0.5),
            counts=np.ones(2),
            stddevs=np.ones(2),
        )
        for cells in (10, 2)
    ]
    coarsening = Coarsening(spans=encoder.spans, parts=tuple(parts))
    return MixtureSampler(
        probabilities=np.full((8, 4), 0.5, np.float32), coarsening=coarsening, answers={(0, 1): TOGETHER}
    )


def draw(rules: list[str], *, threads: int = 1, moved: bool = True, where: str | None = None) -> Iterator[pl.DataFrame]:
    encoder = make_encoder(rules)
    model = make_model(encoder)
    source = RowSource(model if moved else replace(model, answers={}), encoder, rows=ROWS, where=where)
    return draw_chunks(source, encoder, ROWS, rng=np.random.default_rng(1), threads=threads)


def count_apart(frame: pl.DataFrame) -> int:
    """Rows of which answers say that there are none."""
    return int(((frame["x"].cast(pl.Int64) < 5) != (frame["y"].cast(pl.String) == "a")).sum())


@pytest.mark.parametrize("rules", [[], ["x <> 3"]], ids=["no rule", "a rule"])
@pytest.mark.parametrize("moved", [True, False], ids=["as it is", "broken twin: rows stay where codes have them"])
def test_rows_are_moved_as_parts_of_a_table_when_they_are_written_in_steps(rules, moved, monkeypatch):
    drafts = list[int]()
    as_it_is = MixtureSampler.draft

    def note(model: MixtureSampler, records: int, *, rng: np.random.Generator) -> mixture_sampler.Draft:
        drafts.append(records)
        return as_it_is(model, records, rng=rng)

    monkeypatch.setattr(MixtureSampler, "draft", note)
    chunks = list(draw(rules, moved=moved))
    assert [chunk.height for chunk in chunks] == [STEP] * (ROWS // STEP)
    assert drafts == ([200] * 3 if moved else [STEP] * (ROWS // STEP))
    assert (count_apart(pl.concat(chunks)) < 12) == moved
    assert pl.concat(chunks)["key"].n_unique() == ROWS


def test_each_row_of_a_draft_is_written_once(monkeypatch):
    """Groups as they are drafted, cells given their groups alone: what is written has the same groups, in order."""
    drafted = list[mixture_sampler.Draft]()
    as_it_is = MixtureSampler.draft

    def note(model: MixtureSampler, records: int, *, rng: np.random.Generator) -> mixture_sampler.Draft:
        drafted.append(as_it_is(model, records, rng=rng))
        return drafted[-1]

    monkeypatch.setattr(MixtureSampler, "draft", note)
    written = pl.concat(list(draw([])))
    groups = np.concatenate([draft.groups for draft in drafted])
    assert (written["x"].cast(pl.Int64).to_numpy() >= 5).tolist() == (groups[:, 0] == 1).tolist()
    assert (written["y"].cast(pl.String).to_numpy() == "b").tolist() == (groups[:, 1] == 1).tolist()


@pytest.mark.parametrize("rules", [[], ["x <> 3"]], ids=["no rule", "a rule"])
def test_what_is_moved_does_not_depend_on_threads(rules):
    assert pl.concat(list(draw(rules, threads=1))).equals(pl.concat(list(draw(rules, threads=3))))


def test_rows_are_enough_where_a_condition_leaves_some_of_a_draft_out():
    drawn = pl.concat(list(draw([], where="y = 'a'")))
    assert drawn.height == ROWS
    assert drawn["key"].n_unique() == ROWS
    assert set(drawn["y"].cast(pl.String)) == {"a"}


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (250, 250), (251, 126), (600, 200), (501, 167)])
def test_drafts_are_of_like_size(rows, size):
    assert make_model(make_encoder([])).count_together(rows) == size
