"""A claim held against itself: its ledger is added up anew, the rest is made anew of that, and the two compared."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpwgan.app.claim import DOMAINS, Claim, build_claim
from dpwgan.app.config import default_delta
from dpwgan.app.planning import COUNTED_ONCE, discovery_label
from dpwgan.errors import DpwganError, printable, quote
from dpwgan.privacy.accountants.accountant import BASIC, Accountant
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, read_event
from dpwgan.privacy.ledger import LOST, NOT_ASKED, Ledger
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import ACCOUNTANTS
from dpwgan.privacy.unit import Unit
from dpwgan.table.files.reader import get_format, open_undescribed
from dpwgan.table.files.stream import read_bytes
from dpwgan.version import __version__

SAME = 1e-6
"""Relative difference of two numbers that count as equal: other versions of libraries round otherwise."""

_NO_NUMBERS_OF_EVENTS = ("label", "mechanism", "reserved", "charged", "accountant", "accountant_version", "details")
_OF_UNITS = ("discrete_gaussian", "stable_selection")
_NOT_MADE_ANEW = ("certificate", "tool")


def find_faults(claim: Claim) -> Iterator[str]:
    """What is wrong with a claim, a sentence each; nothing if it holds. Looks at no table."""
    document = claim.document
    if not claim.private:
        yield f"It promises nothing: {printable(str(document['why_no_guarantee']))}"
        return
    try:
        ledger = _replay(document)
    except DpwganError as error:
        yield f"Its ledger does not bear it out: {printable(str(error))}"
        return
    except (TypeError, ValueError):
        yield "Its ledger does not bear it out: it has words where numbers belong"
        return
    yield from _find_odd_lines(document)
    again = _build_again(document, ledger)
    # Of sentences it is said only if no number is to blame.
    faults = list(_compare(document, again, numbers=True))
    if not faults and document["tool"]["version"] == __version__:
        faults = list(_compare(document, again, numbers=False))
    yield from faults


def say_again(claim: Claim) -> list[str]:
    """The lines of a claim without faults: its own if they were compared, else those that its numbers come to."""
    document = claim.document
    if document["tool"]["version"] == __version__:
        return [*document["summary"]]
    lines = _build_again(document, _replay(document))["summary"]
    said = printable(str(document["tool"]["version"]))
    return [*lines, f"These lines are made of its numbers: its own sentences, of version {said}, were not compared"]


def _replay(document: Mapping[str, Any]) -> Ledger:
    """Reserves and charges every line of the ledger anew, under the budget that was asked for.

    Raises: PrivacyError if a line is no event's, or is charged more than it reserved, or all cost more than that;
      UsageError.
    """
    budget, accountants = document["budget"], {**ACCOUNTANTS, BASIC.name: BASIC}
    accountant: Accountant = accountants[document["accountant"]["name"]]
    ledger = Ledger(
        Budget(epsilon=budget["epsilon_asked"] * (1 + SAME), delta=budget["delta_asked"]),
        accountant=accountant,
        neighboring_relation=NeighboringRelation(budget["neighbouring_relation"]),
        unit=_read_unit(document),
    )
    for line in document["ledger"]:
        event = read_event({key: value for key, value in line.items() if key not in _NO_NUMBERS_OF_EVENTS})
        ledger.reserve(
            Release(
                label=line["label"],
                event=event,
                times=line.get("reserved"),
                mechanism=line["mechanism"],
                sensitivity=event.sensitivity if isinstance(event, DiscreteGaussian) else 1.0,
                details=line.get("details", {}),
            ),
            as_charged=True,
        )
        if line["charged"]:
            ledger.charge(line["label"], line["charged"])
    return ledger


def _read_unit(document: Mapping[str, Any]) -> Unit:
    """Whose rows are protected together. Samples are of whole units where their event has one row, as its unit has."""
    rows = document["guarantee"]["rows_per_unit"]
    samples = [line for line in document["ledger"] if line["event"] == "poisson_gaussian"]
    whole = rows > 1 and any(line.get("rows", 1) == 1 for line in samples)
    return Unit(rows=rows, named=document["guarantee"]["unit_column"], sampled=whole)


def _find_odd_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What no sum can tell: a delta that is not its default, a batch that is not the one charged, acts left out, lists
    of cells that nobody paid for, rows that came from nowhere.

    Epsilon is that of all that was reserved. A run charges all of it, unless a loss has it leave acts out, or what was
    released before left nothing to ask, as its line says then.
    """
    records, budget = document["public"]["records"], document["budget"]
    lost = any(LOST in line.get("details", {}) for line in document["ledger"])
    if budget["delta_chosen_by"].startswith("default") and not _are_same(budget["delta_asked"], default_delta(records)):
        yield f"budget.delta_asked is {budget['delta_asked']!r}, which is not the default for {records} rows"
    if document["public"].get("rows_read", records) < records:
        yield f"public.rows_read is {document['public']['rows_read']!r}, and {records} rows of these were kept"
    if document["public"].get("units", 0) > records:
        yield f"public.units is {document['public']['units']!r}, and {records} rows of these were kept"
    labels = {line["label"] for line in document["ledger"]}
    for column in document["columns"]["domains_paid_for"]:
        if discovery_label(column) not in labels:
            yield f"columns.domains_paid_for names {quote(column)}, whose list of cells no line of the ledger pays for"
    for line in document["ledger"]:
        unasked = line["reserved"] - line["charged"]
        if unasked > 0 and not lost and line.get("details", {}).get(NOT_ASKED) != unasked:
            acts = f"{line['charged']} of {line['reserved']} acts were charged"
            yield f"{quote(line['label'])}: {acts}, and the ledger says of none that it was lost, or not asked"
        rows_of_unit = 1 if line["mechanism"].endswith(COUNTED_ONCE) else document["guarantee"]["rows_per_unit"]
        if line["event"] in _OF_UNITS and line.get("rows", 1) != rows_of_unit:
            yield f"{quote(line['label'])}: it is not accounted for as all rows of a unit"
        batch = line.get("details", {}).get("expected_batch_size")
        if batch is not None and not _are_same(batch, line.get("sampling_probability", 0.0) * records):
            yield f"{quote(line['label'])}: a batch of {batch!r} of {records} rows is not what its probability says"


def _build_again(document: Mapping[str, Any], ledger: Ledger) -> Mapping[str, Any]:
    """The claim that its own ledger gives, beside what no ledger decides."""
    public, columns, output = document["public"], document["columns"], document["output"]
    budget, accountant = document["budget"], dict(document["accountant"])
    accountant.pop("assumptions")
    method = dict(document["method"])
    settings = method.pop("settings")
    again = build_claim(
        guarantee=ledger.guarantee(),
        attacker=ledger.judge_attacker(),
        asked=Budget(epsilon=budget["epsilon_asked"], delta=budget["delta_asked"]),
        relation=ledger.neighboring_relation,
        delta_chosen_by=budget["delta_chosen_by"],
        ledger=[{**item, "accountant_version": accountant["version"]} for item in ledger.itemise()],
        accountant=accountant,
        records=public["records"],
        of_units={name: public[name] for name in ("units", "rows_read") if name in public},
        rows=output["rows"],
        rows_chosen_by=output["rows_chosen_by"],
        specs_sha256=public["specs_sha256"],
        codebook_sha256=public["codebook_sha256"],
        public_table=public.get("table"),
        domains={origin: columns[key] for origin, key in DOMAINS.items()},
        rules=columns.get("rules", ()),
        book=document.get("book"),
        seeded=document["randomness"]["seeded"],
        method=method,
        settings=settings,
    )
    kept = {key: document[key] for key in _NOT_MADE_ANEW if key in document}
    return {**again.document, **kept, "output": {**output, "note": again.document["output"]["note"]}}


def _compare(told: Any, found: Any, *, numbers: bool, at: str = "") -> Iterator[str]:
    """Where two documents differ: in numbers, or in words."""
    if isinstance(told, Mapping) and isinstance(found, Mapping):
        for key in [*told, *(key for key in found if key not in told)]:
            yield from _compare(told.get(key), found.get(key), numbers=numbers, at=f"{at}.{key}" if at else str(key))
    elif isinstance(told, list) and isinstance(found, list) and len(told) == len(found):
        for place, (one, other) in enumerate(zip(told, found, strict=True), start=1):
            yield from _compare(one, other, numbers=numbers, at=f"{at}[{place}]")
    elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in (told, found)):
        if numbers and not _are_same(told, found):
            yield f"{at} is {told!r}, and its ledger gives {found!r}"
    elif not numbers and told != found:
        yield f"{printable(at)} is not what its numbers say"


def _are_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)


def check_table(document: Mapping[str, Any], path: str) -> str | None:
    """Says what is wrong if a table is not the one that a claim names; None if it is. Raises: as `read_bytes`."""
    named = document["output"]["sha256"]
    if named is None:
        return "It names no table: it was made for a data frame"
    found = hashlib.sha256(read_bytes(path)).hexdigest()
    if found != named:
        return f"The table {quote(path)} is not the one that the claim names: its SHA-256 is {found}"
    return None


def check_rows(document: Mapping[str, Any], path: str) -> str | None:
    """Says what is wrong if a table has not as many rows as a claim says; None if it has.

    Archives of images are not counted, nor is standard input, which was read already.
    Raises: as `open_undescribed`.
    """
    rows = document["output"]["rows"]
    found = rows if path == "-" or get_format(path) == "npz" else open_undescribed(path, {}).records
    return None if found == rows else f"output.rows is {rows}, and the table {quote(path)} has {found}"
