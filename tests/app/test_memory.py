"""Memory: the limit that holds, and the refusal that names the widest columns."""

import pytest

from dpwgan.app import memory
from dpwgan.app.memory import check_memory, memory_limit
from dpwgan.errors import ResourceError
from dpwgan.table.encoded import Span


def make_span(column: str, width: int) -> Span:
    return Span(column=column, role="category", head="softmax", start=0, width=width, source=0, categories=width)


def test_limit_is_the_machines_unless_a_container_sets_a_lower_one(tmp_path, monkeypatch):
    file = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_FILES", (str(file), str(tmp_path / "none")))
    for text, limited in (("max\n", False), ("123456789\n", True)):
        file.write_text(text)
        found = memory_limit()
        assert found == 123456789 if limited else found > 2**28


def test_run_is_refused_with_the_widest_columns_when_it_needs_too_much():
    spans = [make_span("town", 9000), make_span("sex", 2), make_span("job", 500), make_span("age", 100)]
    with pytest.raises(ResourceError, match=r"needs about 2\.0 GB .* may use 1\.0 GB") as caught:
        check_memory(2 * 2**30, limit=2**30, spans=spans)
    assert "town (9000), job (500), age (100)" in str(caught.value)
    assert "sex" not in str(caught.value)


def test_run_is_refused_without_advice_on_columns_when_no_run_fits():
    with pytest.raises(
        ResourceError, match=r"^any run needs at least 0\.7 GB of memory and this one about 2\.0 GB, more than the "
    ):
        check_memory(2 * 2**30, limit=2**20, spans=[make_span("town", 5)])


def test_run_is_refused_without_advice_on_bins_when_the_widest_column_is_narrow():
    with pytest.raises(ResourceError, match=r"may use 1\.0 GB; smaller layers or batches need less$"):
        check_memory(2 * 2**30, limit=2**30, spans=[make_span("colour", 3), make_span("age", 1)])


def test_run_is_refused_without_naming_columns_when_none_stands_out():
    spans = [make_span("label", 10), *(make_span(f"p{pixel}", 1) for pixel in range(784))]
    with pytest.raises(
        ResourceError, match="many, none of them wide: a method that takes no pairs, such as ron-gauss"
    ) as caught:
        check_memory(2 * 2**30, limit=2**30, spans=spans)
    assert "bins" not in str(caught.value)
