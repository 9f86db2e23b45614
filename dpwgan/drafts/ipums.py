"""An IPUMS codebook (.cbk), and the plain list of variables that came with NIST's 2018 challenge.

A codebook opens with a table of all variables of the extract and lists the codes of those that have some; the others
are numbers. `dpwgan.table.codebook` reads the lists.
"""

import re
from collections.abc import Iterator

from dpwgan.drafts.entry import Entry, Source, drop_zeros
from dpwgan.table.codebook import parse_codebook

_PLACE = re.compile(r"^  ([A-Za-z_]\w*) +[A-Z] +[0-9]+(?:-[0-9]+)? +[0-9]+ ", re.MULTILINE)
_VARIABLE = re.compile(r"^ [A-Za-z_]\w*\t+", re.MULTILINE)
# Names of any form, without a list's mark: a line too many is seen in the draft, a column that was left out is not.
_LINE = re.compile(r"^(?:(?:[-*+\u2022]|\d+[.)])[ \t]+)?([^\s:][^:,;\n]*):(?!\S)(.*)$", re.MULTILINE)


def recognise_codebook(source: Source) -> bool:
    """Whether it opens variables as a codebook does."""
    return source.document is None and bool(_VARIABLE.search(source.text))


def read_codebook(source: Source) -> Iterator[Entry]:
    """The variables; one without a list of codes is a whole number whose range is left open.

    Raises: SpecsError if it lists no code at all.
    """
    codebook = parse_codebook(source.content)
    for name in dict.fromkeys((*_PLACE.findall(source.text), *codebook.labels)):
        labels, description = codebook.labels.get(name, {}), codebook.titles.get(name, "")
        if labels:
            yield Entry(name=name, type="enum", values=drop_zeros(labels), description=description)
        else:
            yield Entry(name=name, type="integer", description=description)


def recognise_list(source: Source) -> bool:
    """Whether it has lines such as "SEX: reports whether the person was male or female"."""
    return source.document is None and len(_LINE.findall(source.text)) > 1


def read_list(source: Source) -> Iterator[Entry]:
    """The variables and what they are; everything else is left open."""
    for name, description in dict(_LINE.findall(source.text)).items():
        yield Entry(name=name.strip(" *`"), description=description.strip())
