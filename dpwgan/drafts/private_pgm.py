"""The domain.json of private-pgm and of the challenges that took it up: a size for each column, or its labels.

Source: ryan112358/private-pgm, mbi/domain.py: the codes of a column of size k are 0 .. k - 1.
"""

from collections.abc import Iterator

from dpwgan.drafts.entry import Entry, Source
from dpwgan.table.specs.keys import MAX_CATEGORIES


def recognise(source: Source) -> bool:
    """Whether all it holds are sizes, or lists of labels, by name."""
    columns = source.members.values()
    return bool(columns) and all(_is_size(said) or isinstance(said, list) for said in columns)


def read(source: Source) -> Iterator[Entry]:
    """The columns. One of more codes than a list may have without being written out is a number."""
    for name, said in source.members.items():
        if not _is_size(said):
            labels = [label if isinstance(label, int) else str(label) for label in said]
            yield Entry(name=name, type="enum", values=labels)
        elif said <= MAX_CATEGORIES:
            yield Entry(name=name, type="enum", more={"count": said})
        else:
            yield Entry(name=name, type="integer", minimum=0, maximum=said - 1)


def _is_size(said: object) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and said > 0
