"""Reads IPUMS and NIST codebooks (.cbk): the public lists of codes that a column may hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpwgan.errors import SpecsError
from dpwgan.table.files.stream import decode_public, read_public

_LINE_END = re.compile(r"\r\n|\r|\n")
_VARIABLE = re.compile(r" ([A-Za-z_]\w*)\t+(.*)")
# A heading inside a list of codes has tabs where the code would stand, so it cannot match.
_CODE = re.compile(r"([^\s\t](?:[^\t]*[^\s\t])?)[ ]*\t+(.*)")


@dataclass(frozen=True, kw_only=True)
class Codebook:
    """The codes of each variable with their labels, in the order of the file.

    Codes are kept as the file writes them, leading zeros included. A variable may have no codes: a plain number.
    `titles` says what each variable is.
    """

    labels: Mapping[str, Mapping[str, str]]
    titles: Mapping[str, str] = field(default_factory=dict)

    def codes(self, variable: str) -> tuple[str, ...]:
        """The codes of a variable, in the order of the file.

        Raises: SpecsError if the codebook has no codes for the variable.
        """
        if not self.labels.get(variable):
            raise SpecsError(f"The codebook lists no codes for {variable!r}.")
        return tuple(self.labels[variable])


def read_codebook(path: Path | str) -> Codebook:
    """Reads a codebook: ` NAME<tab>label` opens a variable, `code<tab>label` adds a code, other lines are headings.

    Privacy: a codebook is published beside the data and holds no records.
    Raises: InputError if the file is missing or cannot be opened, SpecsError if it is not a codebook.
    """
    return parse_codebook(read_public(path, name=f"The codebook {str(path)!r}"))


def parse_codebook(content: bytes) -> Codebook:
    """Reads the bytes of a codebook. Where a code is listed twice its first label counts.

    Raises: SpecsError if this is not a codebook: binary, empty, or without one list of codes.
    """
    text = decode_public(content)
    if text is None:
        raise SpecsError("The codebook is a binary file; a .cbk file is plain text.")
    labels: dict[str, dict[str, str]] = {}
    titles: dict[str, str] = {}
    codes: dict[str, str] | None = None
    for line in _LINE_END.split(text):
        if variable := _VARIABLE.fullmatch(line):
            codes = labels.setdefault(variable[1], {})
            titles.setdefault(variable[1], variable[2].strip())
        elif codes is not None and (code := _CODE.fullmatch(line)):
            codes.setdefault(code[1], code[2].strip())
    if not any(labels.values()):
        raise SpecsError("The codebook lists no codes: expected lines such as ' SEX<tab>Sex' and '1<tab>Male'.")
    return Codebook(labels=labels, titles=titles)
