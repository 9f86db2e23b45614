"""The kinds of dictionaries that specs are drafted from, and which of them a file is."""

import csv
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dpwgan.drafts import csvw, ddi, dpsynth, frictionless, ipums, json_schema, private_pgm, redcap, sdnist, sdv, sheet
from dpwgan.drafts.entry import Entry, Source, open_source, write_draft
from dpwgan.errors import SpecsError, UsageError


class Kind(NamedTuple):
    """A format: its title, how to recognise it, and how to read it."""

    title: str
    recognise: Callable[[Source], bool]
    read: Callable[[Source], Iterable[Entry]]


# In the order in which they are tried: what says its own name first.
KINDS: dict[str, Kind] = {
    "sdv": Kind("SDV metadata V1", sdv.recognise, sdv.read),
    "csvw": Kind("CSVW metadata", csvw.recognise, csvw.read),
    "frictionless": Kind("Frictionless Table Schema or datapackage.json", frictionless.recognise, frictionless.read),
    "json-schema": Kind("JSON Schema of a row", json_schema.recognise, json_schema.read),
    "sdnist": Kind("SDNist data dictionary", sdnist.recognise, sdnist.read),
    "private-pgm": Kind("private-pgm domain.json", private_pgm.recognise, private_pgm.read),
    "redcap": Kind("REDCap data dictionary (CSV)", redcap.recognise, redcap.read),
    "ddi": Kind("DDI Codebook XML", ddi.recognise, ddi.read),
    "dpsynth": Kind("dpsynth domain.yaml", dpsynth.recognise, dpsynth.read),
    "ipums": Kind("IPUMS codebook (.cbk)", ipums.recognise_codebook, ipums.read_codebook),
    "sheet": Kind("sheet of variables (CSV, Markdown or JSON), a row for each", sheet.recognise, sheet.read),
    "variables": Kind("list of lines NAME: description", ipums.recognise_list, ipums.read_list),
}


def draft_specs(
    content: bytes, *, kind: str | None = None, table: str | None = None
) -> tuple[str, dict[str, dict[str, Any]]]:
    """The kind that a dictionary is, and the specs that it says; null stands where it leaves something open.

    Privacy: reads a public document, never a row.
    Raises: UsageError if there is no such kind; SpecsError if the dictionary is of no known form, or not of this one.
    """
    source = open_source(content, table=table)
    if kind is None:
        kind = next((name for name, known in KINDS.items() if known.recognise(source)), None)
    if kind is None:
        raise SpecsError("The dictionary is of no form that is known; --help lists them, and --kind names one.")
    if kind not in KINDS:
        raise UsageError(f"--kind must be one of {', '.join(KINDS)}")
    if not KINDS[kind].recognise(source):
        raise SpecsError(f"The dictionary is no {KINDS[kind].title}.")
    try:
        return kind, write_draft(KINDS[kind].read(source))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, csv.Error) as error:
        # A public document, so its own word may be quoted.
        raise SpecsError(f"The dictionary breaks the rules of its form, {KINDS[kind].title}: {error!r}.") from error
