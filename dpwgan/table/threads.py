"""Works on the chunks of a table in parallel threads; results come in the order of the chunks.

Threads, not processes: what takes the time here (numpy, polars, zlib) lets go of the interpreter while it works, and
rows need not be copied from one process to another.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


_MOST_THREADS = 8
"""Unless more are asked for: what is held grows with them, and one thread puts all their results together."""


def map_in_order(
    work: Callable[[Task], Result], tasks: Iterable[Task], *, threads: int | None = None
) -> Iterator[Result]:
    """Works on tasks side by side, and gives the results in the order of the tasks.

    Tasks are taken one after the other as they are needed, and no more results than threads are ever waiting: what is
    held does not grow with the number of tasks. Without `threads` there is one for each core that this process may use.
    Raises: whatever `work` raises, in its turn; no task is begun after that.
    """
    count = min(_MOST_THREADS, len(os.sched_getaffinity(0))) if threads is None else threads
    if count == 1:
        yield from map(work, tasks)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(count, thread_name_prefix="rows")
    try:
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
