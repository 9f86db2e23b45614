"""A claim as text: what it comes to in five lines, and all of it, one fact a line. Works on the document alone."""

import decimal
from collections.abc import Mapping, Sequence
from typing import Any

from dpwgan.errors import printable, quote, say_count, show_name

ACCURACY = (
    "the generator, before rows are drawn from it and groups of cells are split into cells; it is bought from the same "
    "budget, in the ledger, and is no part of the privacy promise"
)


def round_up(value: float, *, digits: int) -> str:
    """Writes a proved bound with that many significant digits, never below what was proved."""
    written = f"{value:.{digits}g}"
    # A bound that was asked for in so few digits is written as it was asked for, whatever its double is in binary.
    if float(written) == value:
        return written
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):.{digits}g}"


def write_bounds(bounds: Mapping[str, Any]) -> str:
    """Writes proved bounds on epsilon and delta, never below what was proved."""
    return f"epsilon {round_up(bounds['epsilon'], digits=6)}, delta {round_up(bounds['delta'], digits=4)}"


# What noise is not of whole numbers, by the event of its line in the ledger.
_FLOATS = {
    "poisson_gaussian": "gradients",
    "gaussian": "numbers that are no counts",
    "wishart": "numbers that are no counts",
}


def summarise(document: Mapping[str, Any]) -> list[str]:
    """What a claim comes to, in the few lines that a reader without mathematics needs; they hang on the rest alone.

    Who is told what with which certainty, who is protected from whom, how strongly, what is not covered, and what all
    of that rests on. Of a claim that promises nothing there is one line.
    """
    guarantee, public = document["guarantee"], document["public"]
    if guarantee is None:
        return [document["statement"]]
    attacker, columns = guarantee["attacker"], document["columns"]
    relation = guarantee["neighbouring_relation"]["name"]
    who, were, other, protected, apart = _name_unit(guarantee)
    was = f"{were} in the real one" + ("" if relation == "zero_out" else f", or {other} place")
    chance = f", but for a chance of {round_up(guarantee['delta'], digits=4)}," if guarantee["delta"] > 0 else ""
    told = f"whether {who} {was}, if it was an even chance to them before"
    certainty, right = percent(attacker["sure_at_most"]), percent(attacker["right_at_most"])
    # What rounds to all is no bound that a reader could use.
    if certainty != "100%":
        sure = f"with more than {certainty} certainty{chance}"
        told = f"Nobody who sees this table can tell {sure} {told}; a guess is then right at most {right} of the time."
    elif right != "100%":
        told = f"Nobody who sees this table can guess {told}, and be right more than {right} of the time."
    else:
        told = (
            f"Whoever sees this table may tell with certainty whether {who} {was}: so large an epsilon hides nothing."
        )
    waived = columns["domains_waived"]
    floats = dict.fromkeys(name for item in document["ledger"] if (name := _FLOATS.get(item.get("event", ""))))
    drawn = f"; noise on {' and '.join(floats)} is drawn in floating point" if floats else ""
    unbooked = f" that are not in the book {quote(document['book']['name'])}" if "book" in document else ""
    return [
        told,
        f"Protected {protected}, from everybody who sees the table, this claim or the saved model, whatever "
        "else they know, all other rows included; not from whoever runs the tool, who sees the rows.",
        f"How strongly: {write_bounds(guarantee)}, neighbours {relation}, accountant "
        f"{document['accountant']['name']}; an attack with {percent(attacker['false_alarms'])} false alarms finds at "
        f"most {percent(attacker['finds_at_most'])} of those that were there."
        + "".join(f" WARNING: {warning}." for warning in document["warnings"]),
        "Not covered: "
        + (f"the lists or ranges of {', '.join(map(show_name, waived))}, read from the rows; " if waived else "")
        + f"{apart}; other releases from the same rows{unbooked}, which add up with this one; messages, "
        f"exit code and running time; what is true of a population with or without {who}.",
        f"Proved, not measured, from {say_count(len(document['ledger']), 'kind')} of noisy looks at the rows, all in "
        f"the ledger. Taken as public: {say_count(public['records'], 'row')}, specs, settings and code"
        + (f", and a table of {public['table']['records']} rows" if "table" in public else "")
        + f". Assumed: the noise stays secret{drawn}.",
    ]


def _name_unit(guarantee: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Whose presence is hidden, its verb, what may stand in its place, what is protected, and who is not."""
    rows, column = guarantee["rows_per_unit"], guarantee["unit_column"]
    if column is not None:
        who = f"all rows of any one {show_name(column)}"
        return who, "were", "other rows in their", f"are {guarantee['unit']}", "a person who is more than one of these"
    if rows > 1:
        who = f"any {rows} rows"
        return who, "were", "other rows in their", f"are {who}", f"a person with more than {rows} rows"
    unit = guarantee["unit"]
    return "any one row", "was", "another row in its", f"is {unit}", "a person with more than one row"


def percent(share: float) -> str:
    """Writes a proved bound on a share in percent, never below what was proved."""
    return f"{float(round_up(100 * share, digits=3 if share < 0.999 else 6)):g}%"


def describe(document: Mapping[str, Any]) -> list[str]:
    """All of a claim, in lines: its summary, then one fact a line."""
    guarantee, budget = document["guarantee"], document["budget"]
    lines = [f"Privacy claim of {document['tool']['name']} {document['tool']['version']}", *document["summary"]]
    if guarantee is not None:
        lines.append(f"statement: {document['statement']}")
    if budget["epsilon_spent"] is None:
        lines.append(f"budget: none was kept; epsilon {budget['epsilon_asked']:.6g} was asked for")
    else:
        lines.append(
            f"budget: epsilon {round_up(budget['epsilon_spent'], digits=6)} spent of {budget['epsilon_asked']:.6g} "
            f"asked; delta {round_up(budget['delta_spent'], digits=4)} of {round_up(budget['delta_asked'], digits=4)} "
            f"({budget['delta_chosen_by']})"
        )
    if document.get("published") is not None:
        lines.append(describe_published(document["published"]))
    if guarantee is not None:
        relation, replace = guarantee["neighbouring_relation"], guarantee["for_replace_one"]
        lines.append(f"unit: {guarantee['unit']}; trust: {guarantee['trust_model']}; one release")
        lines.append(f"neighbours: {relation['name']}: {relation['meaning']}")
        follows = "" if replace["epsilon"] is None else f"{write_bounds(replace)}: "
        lines.append(f"for replace-one: {follows}{replace['why']}")
        lines.append(f"attacker: his bounds are proved by {guarantee['attacker']['proof']}")
    lines += describe_book(document.get("book"))
    lines += describe_accountant(document["accountant"])
    lines += ["ledger:", *describe_ledger(document["ledger"])]
    public, columns, output = document["public"], document["columns"], document["output"]
    lines += [
        f"randomness: {document['randomness']['noise_and_batches']}; seeded: {_show(document['randomness']['seeded'])}",
        f"floating point: {document['randomness']['floating_point']}",
        f"public: {describe_rows(public)}, used for {'; '.join(public['uses_of_records'])}; {public['other']}; "
        f"specs SHA-256 {public['specs_sha256']}",
        f"columns: {columns['formats']}",
    ]
    if "table" in public:
        lines.append(
            f"the fit began with a public table of {public['table']['records']} rows, which nothing here protects: "
            f"SHA-256 {public['table']['sha256']}"
        )
    for title, key in (
        ("from a codebook", "domains_from_codebook"),
        ("paid for", "domains_paid_for"),
        ("WAIVED, not covered", "domains_waived"),
    ):
        if columns[key]:
            lines.append(f"lists of cells {title}: {', '.join(map(show_name, columns[key]))}")
    lines += describe_rules(columns.get("rules", ()))
    source = ", from a saved model" if output["from_saved_model"] else ""
    lines.append(f"output: {output['rows']} rows ({output['rows_chosen_by']}){source}. {output['note']}")
    if "where" in output:
        lines.append(f"condition on all rows written, which costs no privacy: {output['where']}")
    if output["sha256"] is not None:
        lines.append(f"output SHA-256: {output['sha256']}")
    method = document["method"]
    lines.append(f"method: {method['name']}: {method['title']} ({method['paper']})")
    lines.append("settings: " + ", ".join(f"{key} {_show(value)}" for key, value in method["settings"].items()))
    lines += _describe_certificate(document.get("certificate"))
    lines += [f"covered: {item}" for item in document["covered"]]
    lines += [f"not covered: {item}" for item in document["not_covered"]]
    return lines


def describe_rows(public: Mapping[str, Any]) -> str:
    """How many rows there were, as whose units."""
    read = f" kept of {public['rows_read']} read" if "rows_read" in public else ""
    return f"{public['records']} rows{read}" + (f", of {public['units']} units" if "units" in public else "")


def describe_rules(rules: Sequence[Mapping[str, str]]) -> list[str]:
    """Says which rules every row written keeps, and what a real row that breaks one does; nothing without rules."""
    if not rules:
        return []
    done = {"drop": " (a real row that breaks it counts as null)", "keep": " (real rows may break it)"}
    files = (f", of a file with SHA-256 {rule['sha256']}" if "sha256" in rule else "" for rule in rules)
    told = "; ".join(
        rule["rule"] + done.get(rule["violations"], "") + of for rule, of in zip(rules, files, strict=True)
    )
    return [f"rules that every row written keeps: {told}"]


def describe_book(book: Mapping[str, Any] | None) -> list[str]:
    """Says what a book promises of all releases in it, and how far it is; nothing without one."""
    if book is None:
        return []
    return [
        f"book {quote(book['name'])}: all releases in it together, however each was chosen in the light of those "
        f"before: epsilon {round_up(book['epsilon_limit'], digits=6)} and delta "
        f"{round_up(book['delta_limit'], digits=6)}; after this one it stands at epsilon "
        f"{round_up(book['epsilon'], digits=6)}"
    ]


def describe_published(published: Mapping[str, Any]) -> str:
    """Says in one line what a paper states of a method's settings, and what can be proved of them."""
    at = "" if published["delta"] is None else f" at delta {_show(published['delta'])}"
    provable = published["provable_epsilon"]
    proved = "none can be proved" if provable is None else f"epsilon {round_up(provable, digits=4)}"
    return f"published ({published['source']}): epsilon {_show(published['epsilon'])}{at}; provable{at}: {proved}"


def _describe_certificate(certificate: Mapping[str, Any] | None) -> list[str]:
    if certificate is None:
        return []
    # From the decimal as it was written: 1 - 0.05 in binary would be shown as a little less than 95%.
    failure = decimal.Decimal(repr(certificate["failure_probability"]))
    confidence = decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR).multiply(1 - failure, decimal.Decimal(100))
    details = _show(certificate["details"])
    return [
        f"accuracy: with confidence {float(confidence):.6g}%, for alpha = {certificate['alpha']:.6g}: "
        f"{certificate['statement']} ({certificate['kind']}{'; ' if details else ''}{details})",
        f"accuracy of what: {ACCURACY}",
    ]


def describe_accountant(accountant: Mapping[str, Any], *, verbose: bool = False) -> list[str]:
    """Says in a line which accountant was chosen; if `verbose`, why, what computed the numbers, and what others say.

    The others' are the noise they need, and their epsilon for the noise that was used.
    """
    lines = [f"accountant: {accountant['name']}, rule {accountant['rule']}"]
    if not verbose:
        return lines
    lines[0] += f": {accountant['reason']}"
    lines.append(f"  {accountant['name']} is {accountant['version']}")
    for other in accountant["alternatives"]:
        unit = "noise_scale" if "noise_scale" in other else "noise_multiplier"
        noise, words = other[unit], unit.replace("_", " ")
        needed = f"needs {words} {_show(noise)}" if noise is not None else f"cannot meet it with any {words}"
        lines.append(
            f"  {other['name']} {needed}, and gives epsilon {_show_bound(other['epsilon'])} for the noise used"
        )
    return lines


def describe_ledger(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Writes each line of the ledger for people: what was reserved, for which mechanism, and its numbers.

    The kind of event is in the words of the mechanism; the accountant, one for all lines, has a line of its own.
    """
    lines = []
    for item in items:
        numbers = {key: value for key, value in item.items() if key not in _NOT_IN_LEDGER_LINES}
        numbers.update(item.get("details", {}))
        # The epsilon and delta of a mechanism that is known by them alone are proved bounds.
        rest = ", ".join(
            f"{_say_key(key, item)} {_show_bound(value) if key in ('epsilon', 'delta') else _show(value)}"
            for key, value in numbers.items()
        )
        lines.append(f"  {printable(item['label'], most=200)}: {item['mechanism']}; {rest}")
    return lines


_NOT_IN_LEDGER_LINES = ("label", "mechanism", "event", "accountant", "accountant_version", "details")


_SAID = {
    "replace_one_factor": "sensitivities that a replaced row can move it by",
    "cells": "counts that a row adds 1 to",
    "rows": "rows of a unit",
}


def _say_key(key: str, item: Mapping[str, Any]) -> str:
    if key == "epsilon" and item.get("event") == "exponential_selection":
        return "epsilon of each"
    return _SAID.get(key, key.replace("_", " "))


def _show_bound(value: float | None) -> str:
    return "none" if value is None else round_up(value, digits=6)


def _show(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_show(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return " x ".join(_show(item) for item in value)
    return str(value)
