"""DDI Codebook XML, 1.2 to 2.6, as data archives and IPUMS write it.

Source: DDI Alliance, DDI-Codebook 2.5, elements `var`, `catgry`, `valrng` and `invalrng`. Read are what is declared of
a variable: its categories, valid and invalid ranges. Its summary statistics (`sumStat`, `catStat`) are those of the
rows, and are not. A document type declaration, which may name files to read or grow without end, is refused.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any, NoReturn
from xml.parsers import expat

from dpwgan.drafts.entry import Entry, Source, drop_zeros, join_words, read_number
from dpwgan.errors import SpecsError

# What Nesstar calls the cell that its tables leave empty.
_SYSTEM_MISSING = "sysmiss"
_FEW_CODES = 100


def recognise(source: Source) -> bool:
    """Whether it is XML with a codeBook."""
    return source.text.lstrip().startswith("<") and "codeBook" in source.text


def read(source: Source) -> Iterator[Entry]:
    """The variables of the codebook. Raises: SpecsError if it is not well formed, or has a document type."""
    for variable in _parse(source.content).iter():
        if _name(variable) == "var":
            yield _read_variable(variable)


def _parse(content: bytes) -> ET.Element:
    def refuse(*_: Any) -> NoReturn:
        raise SpecsError("The dictionary has a document type declaration (DTD), which is not read: take it out.")

    scan = expat.ParserCreate()
    scan.StartDoctypeDeclHandler = refuse
    try:
        scan.Parse(content, True)
        return ET.fromstring(content)
    except (expat.ExpatError, ET.ParseError) as error:
        raise SpecsError(f"The dictionary is not well-formed XML: {error}.") from error


def _read_variable(variable: ET.Element) -> Entry:
    codes: list[str] = []
    listed: list[str] = []
    missing: list[str] = []
    lows: list[str] = []
    highs: list[str] = []
    form = None
    for part in variable:
        name = _name(part)
        if name == "catgry":
            value = _text(part, "catValu")
            (missing if part.get("missing") == "Y" else codes).append(value)
        elif name == "invalrng":
            missing += [code for item in part for code in _list_codes(item)]
        elif name == "valrng":
            lows += [item.get("min", "") for item in part if _name(item) == "range"]
            highs += [item.get("max", "") for item in part if _name(item) == "range"]
            listed += [item.get("VALUE", "") for item in part if _name(item) == "item"]
        elif name == "varFormat":
            form = part.get("type")
    missing = ["" if code.lower() == _SYSTEM_MISSING else code for code in missing]
    codes = [code for code in codes or listed if code not in missing]
    label = _text(variable, "labl")
    said: dict[str, Any] = {"name": variable.get("name", ""), "description": label, "missing": missing}
    numeric = form != "character"
    if codes and variable.get("intrvl") != "contin":
        return Entry(**said, type="enum", values=drop_zeros(codes) if numeric else codes)
    if not numeric:
        return Entry(**said, type="enum")
    digits = read_number(variable.get("dcml", "0")) or 0
    if not (lows or highs or "dcml" in variable.attrib):
        return Entry(**said)  # whole numbers or not
    # An end that one of several ranges leaves open is open.
    least, most = ([read_number(end) for end in ends] or [None] for ends in (lows, highs))
    ends: dict[str, Any] = {
        "minimum": None if None in least else min(end for end in least if end is not None),
        "maximum": None if None in most else max(end for end in most if end is not None),
    }
    whole = not digits and not any(isinstance(end, float) for end in ends.values())
    number: dict[str, Any] = {"type": "integer"} if whole else {"type": "float", "decimals": int(digits) or None}
    return Entry(**said, **number, **ends)


def _list_codes(item: ET.Element) -> list[str]:
    """The codes of an item, or of a range of few whole numbers."""
    if _name(item) == "item":
        return [item.get("VALUE", "")]
    low, high = read_number(item.get("min")), read_number(item.get("max"))
    if _name(item) == "range" and isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _FEW_CODES:
        return [str(code) for code in range(low, high + 1)]
    return []


def _name(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    return next((join_words("".join(part.itertext())) for part in element if _name(part) == name), "")
