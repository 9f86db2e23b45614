"""A dictionary's file as it was read: its text, and the JSON document it holds, if it does."""

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpwgan.errors import SpecsError, quote


@dataclass(frozen=True, kw_only=True)
class Source:
    """The bytes and the text of a dictionary; `document` is None unless the text is JSON.

    `table` is the table that was asked for, of a dictionary of several.
    """

    content: bytes
    text: str
    document: Any = None
    table: str | None = None

    @property
    def members(self) -> Mapping[str, Any]:
        """Those of the JSON object; none of anything else."""
        return self.document if isinstance(self.document, Mapping) else {}

    def choose(self, tables: dict[str, Any]) -> Any:
        """The table that was asked for, or the only one. Raises: SpecsError, naming those that there are."""
        if self.table is None and len(tables) == 1:
            return next(iter(tables.values()))
        names = ", ".join(map(repr, tables))
        if not tables:
            raise SpecsError("The dictionary describes no table.")
        if self.table is None:
            raise SpecsError(f"The dictionary describes {len(tables)} tables: say which by --table ({names}).")
        if self.table not in tables:
            raise SpecsError(f"The dictionary describes no table {quote(self.table)}, but {names}.")
        return tables[self.table]


def open_source(content: bytes, *, table: str | None = None) -> Source:
    """Reads a dictionary's bytes as text, UTF-8, UTF-16 or else Latin-1, and as JSON where it begins as JSON does.

    Raises: SpecsError if it is binary or not the JSON that it begins as.
    """
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in content and not wide:
        raise SpecsError("The dictionary is a binary file, and none of the known formats is one.")
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    document = None
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            where = f": {error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise SpecsError(f"The dictionary is not JSON that can be read{where}.") from error
    return Source(content=content, text=text, document=document, table=table)
