"""The privacy claim: what was promised about a release, on what it rests, and what it leaves out.

Built from values that were fixed before training, from the ledger, and from a certificate that the ledger paid for;
nothing else in it is computed from rows.
"""

import copy
import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dpwgan.app.claims.text import describe, round_up, summarise
from dpwgan.app.config import RECORDS
from dpwgan.errors import DpwganError, InputError, printable, quote
from dpwgan.privacy.attacker import FALSE_ALARMS, Attacker, judge_attacker
from dpwgan.privacy.budget import Budget, NeighboringRelation, list_weaknesses
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.events import Unprotected
from dpwgan.privacy.guarantee import PrivacyGuarantee
from dpwgan.privacy.randomness import NOISE_SOURCE
from dpwgan.privacy.unit import ONE_ROW, Unit
from dpwgan.privacy.unit_counts import SIZES_LABEL
from dpwgan.table.schema import Schema
from dpwgan.version import __version__

CLAIM_VERSION = 2
SCHEMA_FILE = resources.files(__package__) / "privacy-claim.schema.json"
DEFINITION = "(epsilon, delta)-differential privacy"
NOT_PRIVATE = "NOT PRIVATE"

RELATIONS = {
    NeighboringRelation.ZERO_OUT: (
        "two tables of the same public number of rows, in one of which one row is replaced by a null row that "
        "contributes nothing to any sum"
    ),
    NeighboringRelation.REPLACE_ONE: (
        "two tables of the same public number of rows, in one of which one row is replaced by any other legal row"
    ),
}
RELATIONS_OF_UNITS = {
    NeighboringRelation.ZERO_OUT: (
        "two tables with the same rows in the same places, in one of which the rows of one unit are replaced by null "
        "rows that contribute nothing to any sum"
    ),
    NeighboringRelation.REPLACE_ONE: (
        "two tables with the same rows in the same places, in one of which each row of one unit is replaced by any "
        "legal row, or a null row"
    ),
}

DOMAINS = {"codebook": "domains_from_codebook", "private": "domains_paid_for", "waived": "domains_waived"}
"""Where lists of cells may come from, and the key of the columns whose list did."""

SAMPLING_USE = "the sampling probability: expected batch size over n"
COUNTS_USE = "noisy counts as shares of n, and the choice of how many to ask for"
DELTA_USE = "the default of delta: 1/n^2"
ROWS_USE = "the number of rows written"

NOTHING_ASSUMED = "nothing is proved, so nothing is assumed"

COVERED = (
    "the output table, and any further table sampled from the same fitted model",
    "this claim",
    "the saved model, if there is one",
)

OTHER_RELEASES = (
    "other releases from the same rows, a second run of this tool too: their epsilons and deltas add up with these"
)

NOT_COVERED = (
    "messages on stderr (an error message may count rows), the exit code, running time and memory use: keep them with "
    "the custodian",
    OTHER_RELEASES,
    "a person with more than one row: k rows cost k times epsilon, and a larger delta",
    "specs, settings, epsilon or this method chosen by looking at the rows: they are taken as public facts",
    "what the release teaches about a population: conclusions that hold with or without any single row",
)

NOT_IN_BOOK = "releases from the same rows that are not in the book {}: their epsilons and deltas add up with its limit"

NOT_COVERED_OF_UNITS = (
    "how many rows a unit has, where the numbers of all others are known: the numbers of rows read and kept are public",
    "a person who is more than one unit, with two names say: what each of them shows adds up",
)

NOT_KEPT = " What the rows of one unit have in common is not kept: each row is drawn by itself."
TOGETHER = (
    " Units are made of rows that were drawn each by itself, of as many as the released histogram says: what their "
    "rows have in common is kept for columns of the unit, and in part for linked ones, and no unit stands for one of "
    "the input table."
)

WAIVED = "the lists or ranges of {}, which were read from the rows and not paid for (waived by the specs)"

FLOATING_POINT = (
    "Discrete Gaussian and Laplace noise is whole numbers on whole numbers, drawn exactly. Of all other noise the "
    "proofs speak of real numbers, and it is drawn and added in IEEE 754 floating point: on gradients in single "
    "precision, on other numbers in double. Gradients are only seen through training, other numbers through the "
    "generator fitted to them, a certificate's raised to four digits. An attack through the gaps between "
    "floating-point numbers is not known to us on this path, and is not excluded."
)

OTHER_PUBLIC = (
    "every training setting, the code, and of the table the header, the types of its columns and the line ending"
)

FORMATS = (
    "Every cell written is one that the specs allow: spelling, digits, order of columns and ranges come from the specs "
    "and the header, not from the rows."
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim as one JSON document that fits privacy-claim.schema.json.

    Privacy: epsilon never stands alone in it: delta, relation, accountant and assumptions come with it.
    Raises: DpwganError if the document does not fit its schema, or spends more than was asked for.
    """

    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        validate_claim(self.document)

    @property
    def private(self) -> bool:
        """Whether a guarantee is issued."""
        return self.document["guarantee"] is not None

    @property
    def rows(self) -> int:
        """The number of rows written under this claim."""
        return int(self.document["output"]["rows"])

    def for_output(self, *, rows: int, chosen_by: str, from_saved_model: bool) -> "Claim":
        """The same claim for another table sampled from the same fitted model.

        Privacy: the model is covered, so a table sampled from it is a function of a covered release: nothing is added
          to epsilon or delta.
        Source: Dwork and Roth 2014, Proposition 2.1 (post-processing).
        """
        document = copy.deepcopy(dict(self.document))
        _put_output(document, rows=rows, chosen_by=chosen_by, from_saved_model=from_saved_model)
        return Claim(document=document)

    def for_output_with(self, **more: str | None) -> "Claim":
        """The same claim with further facts on its output, those that are not None; post-processing, as `for_output`.

        `where` is a condition that all rows meet; `sha256` ties the claim to one file by its bytes, which are public.
        """
        known = {key: fact for key, fact in more.items() if fact is not None}
        return Claim(document={**self.document, "output": {**self.document["output"], **known}})

    def to_json(self) -> str:
        """Writes the claim as JSON text, ending in a newline."""
        return json.dumps(self.document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Writes the claim for people: what it comes to in a few lines, and under them all of it, one fact a line."""
        return "\n".join(map(printable, describe(self.document))) + "\n"


def read_claim(path: Path) -> Claim:
    """Reads a claim back. Raises: InputError if the file is missing, no JSON, or no claim of this form."""
    try:
        return Claim(document=json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"the claim of the saved model cannot be read: {error.strerror}") from None
    except (ValueError, DpwganError):
        raise InputError("the claim of the saved model is damaged") from None


def build_claim(
    *,
    guarantee: PrivacyGuarantee | Unprotected,
    asked: Budget,
    relation: NeighboringRelation,
    delta_chosen_by: str,
    ledger: Sequence[Mapping[str, Any]],
    accountant: Mapping[str, Any],
    records: int,
    of_units: Mapping[str, int] | None = None,
    rows: int,
    rows_chosen_by: str,
    specs_sha256: str,
    codebook_sha256: str | None,
    public_table: Mapping[str, Any] | None = None,
    domains: Mapping[str, Sequence[str]],
    rules: Sequence[Mapping[str, str]] = (),
    seeded: bool,
    method: Mapping[str, Any],
    settings: Mapping[str, Any],
    certificate: Certificate | None = None,
    book: Mapping[str, Any] | None = None,
    attacker: Attacker | None = None,
) -> Claim:
    """Builds the claim of one run.

    `attacker` is what the ledger leaves to somebody who guesses; without it, what epsilon and delta alone do.
    `certificate` is what is certified about the generator's accuracy, beside and apart from the guarantee.
    `book` is how far the book of the table is after this release, as it describes itself.
    `guarantee` is what was proved, or why nothing was; `relation` is the one asked for.
    `rules` are those between columns, as `list_rules` gives them. `of_units`: where the specs name a unit, `units`,
    how many the table has, and `rows_read`, how many rows before some of units with too many were left out.
    `public_table` is the digest and the number of rows of the table that the fit began with.
    `domains` are the columns whose list of cells came from each of `DOMAINS`.
    Privacy: with `seeded` the noise can be replayed, so there is no guarantee, whatever the ledger says.
    Raises: DpwganError if more was spent than asked for, or the document does not fit its schema.
    """
    proved = guarantee if isinstance(guarantee, PrivacyGuarantee) else None
    published = guarantee.published if isinstance(guarantee, Unprotected) else None
    waived, reason = sorted(domains.get("waived", ())), None
    unit = ONE_ROW if proved is None else proved.unit
    if isinstance(guarantee, Unprotected):
        reason = f"{NOT_PRIVATE}: {guarantee.reason}"
    elif seeded:
        reason = f"{NOT_PRIVATE}: --seed was given, so the noise can be replayed and taken off; for tests only"
    document = {
        "claim_version": CLAIM_VERSION,
        "summary": [],
        "statement": _state(guarantee, records=records, reason=reason, waived=waived),
        "tool": {"name": "dpwgan", "version": __version__},
        "guarantee": None if reason is not None or proved is None else _describe_guarantee(proved, attacker),
        "why_no_guarantee": reason,
        "warnings": list_weaknesses(asked, records=records) if reason is None else [],
        "published": published.describe() if published is not None else None,
        "budget": {
            "epsilon_asked": asked.epsilon,
            "epsilon_spent": proved.epsilon if proved is not None else None,
            "delta_asked": asked.delta,
            "delta_spent": proved.delta if proved is not None else None,
            "delta_chosen_by": delta_chosen_by,
            "neighbouring_relation": relation.value,
        },
        "accountant": _finite(
            {**accountant, "assumptions": list(proved.assumptions) if proved is not None else [NOTHING_ASSUMED]}
        ),
        "ledger": _finite(ledger),
        "randomness": {
            "noise_and_batches": NOISE_SOURCE if not seeded else "a generator that was given a seed",
            "seeded": seeded,
            "floating_point": FLOATING_POINT,
        },
        "public": {
            "records": records,
            **(of_units or {}),
            "uses_of_records": [],
            "specs_sha256": specs_sha256,
            "codebook_sha256": codebook_sha256,
            **({} if public_table is None else {"table": dict(public_table)}),
            "other": OTHER_PUBLIC,
        },
        "columns": {
            "formats": FORMATS,
            **{key: sorted(domains.get(origin, ())) for origin, key in DOMAINS.items()},
            **({"rules": [dict(rule) for rule in rules]} if rules else {}),
        },
        "output": {},
        "method": {**method, "settings": _finite(settings)},
        "certificate": certificate.describe() if certificate is not None else None,
        **({} if book is None else {"book": dict(book)}),
        "covered": list(COVERED) if reason is None else [],
        "not_covered": [*_list_not_covered(unit, book), *([WAIVED.format(", ".join(waived))] if waived else [])],
    }
    _put_output(document, rows=rows, chosen_by=rows_chosen_by, from_saved_model=False)
    document["summary"] = summarise(document)
    return Claim(document=document)


def _list_not_covered(unit: Unit, book: Mapping[str, Any] | None) -> list[str]:
    of_rows = [item for item in NOT_COVERED if unit.is_row or not item.startswith("a person with more")]
    if book is not None:
        entered = NOT_IN_BOOK.format(quote(book["name"]))
        of_rows = [entered if item is OTHER_RELEASES else item for item in of_rows]
    return of_rows if unit.named is None else [*of_rows, *NOT_COVERED_OF_UNITS]


def _put_output(document: dict[str, Any], *, rows: int, chosen_by: str, from_saved_model: bool) -> None:
    """Puts in what the table written decides: its number of rows, who chose it, and what the public n was used for."""
    document["output"] = {
        "rows": rows,
        "rows_chosen_by": chosen_by,
        "sha256": None,
        "from_saved_model": from_saved_model,
        "note": "Sampling more rows from the same fitted model costs no privacy, however often."
        + (
            TOGETHER
            if any(item["label"] == SIZES_LABEL for item in document["ledger"])
            else NOT_KEPT * ("rows_read" in document["public"])
        ),
    }
    events = {item.get("event") for item in document["ledger"]}
    uses = {
        SAMPLING_USE: "poisson_gaussian" in events,
        COUNTS_USE: bool(events & {"gaussian", "discrete_gaussian", "exponential_selection", "laplace"}),
        DELTA_USE: document["budget"]["delta_chosen_by"].startswith("default"),
        ROWS_USE: chosen_by == RECORDS,
    }
    document["public"]["uses_of_records"] = [use for use, made in uses.items() if made]


def validate_claim(document: Mapping[str, Any]) -> None:
    """Checks a claim against its schema, and that it does not spend more than was asked for.

    Raises: DpwganError if it fails: the run must then end without output.
    """
    error = next(_validator().iter_errors(document), None)
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path) or "the whole"
        raise DpwganError(f"the claim does not fit its schema at {where} ({error.validator})")
    budget = document["budget"]
    for name in ("epsilon", "delta"):
        spent = budget[f"{name}_spent"]
        if spent is None and document["guarantee"] is None:
            continue
        if spent is None or not spent <= budget[f"{name}_asked"]:
            raise DpwganError(f"the claim would spend more {name} than was asked for")
    if (document["guarantee"] is None) != (document["why_no_guarantee"] is not None):
        raise DpwganError("the claim must hold either a guarantee or the reason why there is none")
    if document["randomness"]["seeded"] and document["guarantee"] is not None:
        raise DpwganError("a run with a seed must not be given a guarantee")


@functools.cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def _describe_guarantee(guarantee: PrivacyGuarantee, attacker: Attacker | None) -> dict[str, Any]:
    relation = guarantee.neighboring_relation
    if attacker is None:
        attacker = judge_attacker(epsilon=guarantee.epsilon, delta=guarantee.delta)
    epsilon, delta = guarantee.replace_one()
    useful = delta < 1.0
    if relation is NeighboringRelation.REPLACE_ONE:
        why = "this is the relation that was calibrated for"
    elif useful:
        why = "a replacement is two steps of zero-out: (2 epsilon, (1 + e^epsilon) delta)"
    else:
        why = "a replacement is two steps of zero-out, and (1 + e^epsilon) delta is not below 1: nothing follows"
    return {
        "definition": DEFINITION,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "unit": "one row of the input table" if guarantee.unit.is_row else guarantee.unit.meaning,
        "unit_column": guarantee.unit.named,
        "rows_per_unit": guarantee.unit.rows,
        "trust_model": "central curator: whoever runs the tool sees the rows",
        "releases": 1,
        "neighbouring_relation": {
            "name": relation.value,
            "meaning": (RELATIONS if guarantee.unit.is_row else RELATIONS_OF_UNITS)[relation],
        },
        "for_replace_one": {
            "epsilon": epsilon if useful else None,
            "delta": delta if useful else None,
            "why": why,
        },
        "attacker": {
            "prior": 0.5,
            "right_at_most": attacker.right,
            "sure_at_most": attacker.sure,
            "but_for_a_chance_of": guarantee.delta,
            "finds_at_most": attacker.power,
            "false_alarms": FALSE_ALARMS,
            "proof": attacker.proof,
        },
    }


def _state(
    guarantee: PrivacyGuarantee | Unprotected, *, records: int, reason: str | None, waived: Sequence[str]
) -> str:
    if isinstance(guarantee, Unprotected):
        return f"{reason}. Nothing is promised about any row: keep this table where the real one is kept."
    if reason is not None:
        return f"{reason}. The ledger shows what a run without a seed would have spent."
    replacing = guarantee.neighboring_relation is NeighboringRelation.REPLACE_ONE
    act, others = ("Replacing", " by other legal rows") if replacing else ("Zeroing out", "")
    if guarantee.unit.is_row:
        change = f"{act} any one of the {records} rows" + others.replace("other legal rows", "another legal row")
    elif guarantee.unit.named is None:
        change = f"{act} any {guarantee.unit.rows} of the {records} rows{others}"
    else:
        change = f"{act} the rows of any one unit ({guarantee.unit.meaning}: {records} in all){others}"
    more = f", up to an additional {round_up(guarantee.delta, digits=4)}" if guarantee.delta > 0 else ""
    return (
        f"{change} changes the probability of any outcome of this release by at most a factor "
        f"e^{round_up(guarantee.epsilon, digits=6)}{more}: "
        f"{DEFINITION} with epsilon {round_up(guarantee.epsilon, digits=6)} and delta "
        f"{round_up(guarantee.delta, digits=4)}, by the {guarantee.accountant} accountant."
        + (f" This does not cover the lists or ranges of {', '.join(waived)}, read from the rows." if waived else "")
    )


def _finite(value: Any) -> Any:
    # JSON has no infinity: an accountant without an answer is said by null.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def list_rules(schema: Schema) -> list[dict[str, str]]:
    """The rules between columns, as a claim has them."""
    return [
        {"rule": rule.name, "violations": rule.violations, **({"sha256": rule.sha256} if rule.sha256 else {})}
        for rule in schema.rules
    ]
