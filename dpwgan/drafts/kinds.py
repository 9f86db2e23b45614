"""The kinds of dictionaries that specs are drafted from, and which of them a file is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpwgan.drafts import csvw, ddi, dpsynth, frictionless, ipums, private_pgm, sdnist, sdv
from dpwgan.drafts.entry import Entry, Source, open_source, write_draft
from dpwgan.errors import SpecsError, UsageError


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A format: what it is called, how a file of it is told, and how it is read."""

    title: str
    recognise: Callable[[Source], bool]
    read: Callable[[Source], Iterable[Entry]]


# In the order in which they are tried: what says its own name first.
KINDS: dict[str, Kind] = {
    "sdv": Kind(title="SDV metadata V1", recognise=sdv.recognise, read=sdv.read),
    "csvw": Kind(title="CSVW metadata", recognise=csvw.recognise, read=csvw.read),
    "frictionless": Kind(
        title="Frictionless Table Schema or datapackage.json", recognise=frictionless.recognise, read=frictionless.read
    ),
    "sdnist": Kind(title="SDNist data dictionary", recognise=sdnist.recognise, read=sdnist.read),
    "private-pgm": Kind(title="private-pgm domain.json", recognise=private_pgm.recognise, read=private_pgm.read),
    "ddi": Kind(title="DDI Codebook XML", recognise=ddi.recognise, read=ddi.read),
    "dpsynth": Kind(title="dpsynth domain.yaml", recognise=dpsynth.recognise, read=dpsynth.read),
    "ipums": Kind(title="IPUMS codebook (.cbk)", recognise=ipums.recognise_codebook, read=ipums.read_codebook),
    "variables": Kind(title="list of lines NAME: description", recognise=ipums.recognise_list, read=ipums.read_list),
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
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # A public document, so its own word may be quoted.
        raise SpecsError(f"The dictionary breaks the rules of its form, {KINDS[kind].title}: {error!r}.") from error
