"""SDV metadata, V1 and SINGLE_TABLE_V1: types of columns, and no domain of any.

Source: DataCebo, SDV documentation, Metadata, "Sdtypes". All that it calls personal (names, addresses) is text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dpwgan.drafts.entry import Entry, Source, choose_calendar


def recognise(source: Source) -> bool:
    """Whether it says that it is."""
    return "METADATA_SPEC_VERSION" in source.members


def read(source: Source) -> Iterator[Entry]:
    """The columns of the table that was asked for. Raises: SpecsError."""
    document = source.document
    table = document if "columns" in document else source.choose(document.get("tables", {}))
    for name, said in table["columns"].items():
        yield _read_column(name, said, is_key=name == table.get("primary_key"))


def _read_column(name: str, said: Mapping[str, Any], *, is_key: bool) -> Entry:
    kind = said.get("sdtype")
    if is_key or kind == "id":
        return Entry(name=name, type="string")
    if kind == "numerical":
        form = str(said.get("computer_representation", ""))
        number: dict[str, Any] = {"type": "float" if form == "Float" else "integer"} if form else {}
        return Entry(name=name, **number)
    if kind == "datetime":
        pattern = said.get("datetime_format")
        return Entry(name=name, type=choose_calendar(pattern or "%Y%H"), format=pattern)
    if kind in ("categorical", "boolean"):
        return Entry(name=name, type="enum" if kind == "categorical" else "boolean")
    return Entry(name=name) if kind in (None, "unknown") else Entry(name=name, type="text")
