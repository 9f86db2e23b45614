"""Memory: the limit that holds, and the refusal that names the widest columns."""

import pytest

from dpwgan.app.memory import check_memory, memory_limit
from dpwgan.errors import ResourceError
from dpwgan.table.encoded import Span


def make_span(column: str, width: int) -> Span:
    return Span(column=column, role="category", head="softmax", start=0, width=width, source=0, categories=width)


def test_limit_is_the_machines_when_no_container_sets_one(tmp_path):
    unlimited = tmp_path / "memory.max"
    unlimited.write_text("max\n")
    assert memory_limit(cgroup_files=(str(unlimited), str(tmp_path / "none"))) > 2**28


def test_limit_is_the_containers_when_it_is_lower(tmp_path):
    limited = tmp_path / "memory.max"
    limited.write_text("123456789\n")
    assert memory_limit(cgroup_files=(str(limited),)) == 123456789


def test_run_is_refused_with_the_widest_columns_when_it_needs_too_much():
    spans = [make_span("town", 9000), make_span("sex", 2), make_span("job", 500), make_span("age", 100)]
    with pytest.raises(ResourceError, match=r"needs about 2\.0 GB .* may use 1\.0 GB") as caught:
        check_memory(2 * 2**30, limit=2**30, spans=spans)
    assert "town (9000), job (500), age (100)" in str(caught.value)
    assert "sex" not in str(caught.value)


def test_run_is_refused_without_naming_columns_when_none_stands_out():
    spans = [make_span("label", 10), *(make_span(f"p{pixel}", 1) for pixel in range(784))]
    with pytest.raises(
        ResourceError, match="many, none of them wide: a method that takes no pairs, such as ron-gauss"
    ) as caught:
        check_memory(2 * 2**30, limit=2**30, spans=spans)
    assert "bins" not in str(caught.value)
