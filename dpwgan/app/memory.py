"""How much memory this process may use, asked before anything large is made."""

import os
from collections.abc import Sequence
from pathlib import Path

from dpwgan.app.process import find_limit
from dpwgan.errors import ResourceError, show_name
from dpwgan.table.encoded import Span

# What the interpreter, TensorFlow and its compiler hold before the first row: measured 0.5 GB, rounded up.
BASE_BYTES = 700 * 2**20
_WIDEST = 3
# The widest columns are worth naming where they have this share of all cells: pixels and their label have not.
_WIDE_SHARE = 0.05
# Of fewer cells bins would save nothing.
_WIDE = 50

_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> int:
    """The number of bytes this process may use: the machine's, or less in a container or under ulimit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUP_FILES:
        try:
            limits.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # not there, or the word "max"
            continue
    return int(min(*limits, find_limit(0)))


def choose_limit(asked: int | None) -> int:
    """The bytes to plan for: those asked for, or fewer if this process may not use as many."""
    return memory_limit() if asked is None else min(asked, memory_limit())


def check_memory(needed: int, *, limit: int, spans: Sequence[Span] = ()) -> None:
    """Refuses a run that would be killed for memory later on.

    Raises: ResourceError, naming the widest columns where they stand out, if `needed` bytes are more than `limit`.
    """
    if needed <= limit:
        return
    if limit < BASE_BYTES:
        least = gigabytes(BASE_BYTES)
        raise ResourceError(
            f"any run needs at least {least} of memory and this one about {gigabytes(needed)}, more than the {limit:,} "
            "bytes it may use"
        )
    widest = sorted(spans, key=lambda span: -span.width)[:_WIDEST]
    columns = ", ".join(f"{show_name(span.column)} ({span.width})" for span in widest)
    hint = ""
    if sum(span.width for span in widest) > _WIDE_SHARE * sum(span.width for span in spans):
        hint = f"; the widest columns are {columns}: give them bins, or smaller layers or batches"
        if widest[0].width < _WIDE:
            hint = "; smaller layers or batches need less"
    elif columns:
        hint = "; its columns are many, none of them wide: a method that takes no pairs, such as ron-gauss, needs less"
    raise ResourceError(f"the run needs about {gigabytes(needed)} of memory and may use {gigabytes(limit)}{hint}")


def gigabytes(count: int) -> str:
    """Writes a number of bytes for people."""
    return f"{count / 2**30:.1f} GB"
