"""Work side by side: results in order, no more of them waiting than threads, and an end at the first failure."""

import threading
from collections.abc import Iterator

import pytest

from dpwgan.table.threads import map_in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_when_later_tasks_are_done_first(threads):
    later = threading.Event()

    def work(task: int) -> int:
        if task == 0 and threads > 1:
            assert later.wait(10)
        later.set()
        return task * task

    assert list(map_in_order(work, range(20), threads=threads)) == [task * task for task in range(20)]


@pytest.mark.parametrize("threads", [1, 3])
def test_tasks_are_taken_as_they_are_needed_when_there_are_many(threads):
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for task in range(1_000_000):
            taken.append(task)
            yield task

    results = map_in_order(lambda task: task, tasks(), threads=threads)
    for expected in range(10):
        assert next(results) == expected
        assert len(taken) <= expected + 1 + threads
    results.close()
    assert len(taken) <= 11 + threads


@pytest.mark.parametrize("threads", [1, 2])
def test_no_task_is_begun_when_one_before_has_failed_and_was_asked_for(threads):
    begun: list[int] = []

    def work(task: int) -> int:
        begun.append(task)
        if task == 3:
            raise ValueError("no")
        return task

    got: list[int] = []
    with pytest.raises(ValueError, match="no"):
        got.extend(map_in_order(work, range(1_000), threads=threads))
    assert len(begun) < 10
