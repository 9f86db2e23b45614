"""The evaluation as one HTML file for people: no script, no outside file, readable on a phone and in print.

Privacy: NOT private. The page shows exact statistics of the real rows, which no epsilon covers, and says so.
"""

import base64
import hashlib
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from dpwgan.app.claim import validate_claim
from dpwgan.app.claims.text import round_up
from dpwgan.array_types import Floats
from dpwgan.errors import DpwganError
from dpwgan.evaluate.dependence import Pairs
from dpwgan.evaluate.report import figures
from dpwgan.evaluate.scores import look_up, write_scores
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable

FOLDER = Path(__file__).resolve().parent

WORST = 10
"""Pairs and targets that are listed by name."""

LONGEST_NAME = 60
"""Of a column or category in the text of the page; figures cut more."""

MISSING_FIGURE = "\N{EN DASH}"

TABLES = ("synthetic", "floor", "ceiling")

HEADLINES = (
    (("nist2018", "mean"), "NIST 2018 score", 0.0, 1e6, 0),
    (("kway_1",), "Single columns", 0.0, 1000.0, 1),
    (("kway_2",), "Pairs of columns", 0.0, 1000.0, 1),
    (("kway_3",), "Triples of columns", 0.0, 1000.0, 1),
    (("classifier_auc",), "Training on it", 0.5, 1.0, 3),
    (("detection_auc",), "Telling them apart", 1.0, 0.5, 3),
    (("pc1_distance",), "Main direction", math.sqrt(2.0), 0.0, 3),
    (("interval_overlap", "coefficients"), "Analysts' answers", 0.0, 1.0, 3),
)
"""Scores at the top: the path in the document, the title, worst and best on the score's own scale, and digits."""


def render_report(
    document: Mapping[str, Any], real: ComparedTable, synthetic: ComparedTable, pairs: Pairs | None
) -> str:
    """Writes the evaluation as one HTML page that needs nothing but itself.

    `document` and `pairs` are what `dpwgan.evaluate.scores.evaluate` returns. Names and cells of
    tables may hold anything: they are escaped, and the page's own policy forbids scripts and requests.

    Privacy: NOT private: shares of real rows for every column and the dependence of every pair are in it.
    Shapes: both tables have the same columns; their numbers of rows may differ.
    """
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = lambda value: figures.printable(str(value), most=LONGEST_NAME)
    environment.filters["text"] = lambda value: figures.printable(str(value), most=2000)
    environment.filters["agreement"] = write_agreement
    environment.filters["count"] = lambda value: f"{int(value):,}"
    environment.filters["round_up"] = lambda value, digits: round_up(value, digits=digits)
    moments = {entry["name"]: list_moments(entry) for entry in document["numbers"]}
    own = {
        "style": Markup(style),
        "style_digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "marks": {name: figures.draw_mark_alone(name) for name in TABLES},
        "headlines": [view for line in HEADLINES if (view := show_headline(*line, scores=document["scores"]))],
        "claim_kind": judge_claim(document["claim"], matches=document["claim_matches"]),
        "columns": [
            {
                **show_column(place, agreement["agreement"], real=real, synthetic=synthetic),
                "moments": moments.get(agreement["name"]),
            }
            for place, agreement in enumerate(document["columns"])
        ],
        "dependence": None if pairs is None else show_dependence(pairs, real.names),
        "attacks": None if document["audit"] is None else show_attacks(document["audit"]),
        "classifiers": show_classifiers(document["scores"]["synthetic"]["classifiers"]),
        "every_score": [
            {"title": title, **{name: value or MISSING_FIGURE for name, value in shown.items()}}
            for title, shown, _ in write_scores(document["scores"])
        ],
        "not_allowed": list_legality(document["legality"]),
        "numbered": {name: place for place, name in enumerate(real.names, start=1)},
        "short": write_short,
        "percent": figures.percent,
    }
    return environment.get_template("template.html.j2").render(**{**document, **own})


def write_agreement(share: float) -> str:
    """Writes an agreement from 0 to 1 as a percentage, rounded down so that 100.0% means all."""
    return f"{math.floor(1000.0 * share + 1e-9) / 10.0:.1f}%"


# --- scores -----------------------------------------------------------------------------------------------------------


def show_headline(
    path: Sequence[str], title: str, worst: float, best: float, digits: int, *, scores: Mapping[str, Any]
) -> dict[str, Any] | None:
    """One score with its figure, or None where it was not computed."""
    values = {name: look_up(scores[name], path) for name in TABLES}
    found, floor, ceiling = (values[name] for name in TABLES)
    if found is None:
        return None
    shown = {name: MISSING_FIGURE if value is None else f"{value:,.{digits}f}" for name, value in values.items()}
    scale = figures.choose_scale([value for value in values.values() if value is not None], worst=worst, best=best)
    # As short as they are exact to three digits behind the point.
    start, end = (f"{value:,.3f}".rstrip("0").rstrip(".") for value in (scale.start, scale.best))
    return {
        "title": title,
        "values": shown,
        "way": describe_way(found, floor=floor, ceiling=ceiling, whole=best - worst),
        "figure": figures.draw_scale(
            synthetic=found,
            floor=floor,
            ceiling=ceiling,
            scale=scale,
            ends=(start, f"{end}, best"),
            says=f"{title}: " + ", ".join(f"{name} {shown[name]}" for name in TABLES) + ".",
        ),
    }


def describe_way(found: float, *, floor: float | None, ceiling: float | None, whole: float) -> str:
    """Says in words where a score lies between floor and ceiling; "" where the ceiling is hardly better, or not at all.

    Units: `whole` is the length of the score's scale, below 0 where lower is better; what counts is a hundredth of it.
    """
    if floor is None or ceiling is None or (ceiling - floor) / whole < 0.01:
        return ""
    way = (found - floor) / (ceiling - floor)
    if way >= 1.0:
        return "As good as the ceiling."
    if way < 0.0:
        return "Worse than the floor."
    return f"{math.floor(100.0 * way)}% of the way from floor to ceiling."


def list_moments(entry: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The entry of a number, with the real and the synthetic table's values."""
    real, synthetic = entry["real"], entry["synthetic"]
    spread = f"standard deviation, {real['unit']}" if real["unit"] else "standard deviation"
    lines = [("mean", real["mean"], synthetic["mean"]), (spread, real["stddev"], synthetic["stddev"])]
    return lines + [
        (f"quantile {level}", real["quantiles"][level], synthetic["quantiles"][level]) for level in real["quantiles"]
    ]


def write_short(value: float | str | None) -> str:
    """Writes a number of any size so that its first four digits or so are seen, and what is text as it is."""
    if value is None:
        return MISSING_FIGURE
    if isinstance(value, str):
        return value
    if float(value).is_integer() or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:#.4g}"


def write_signed(value: float, *, digits: int = 3) -> str:
    """Writes a difference with its sign."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def list_legality(legality: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How many rows and derived cells the specs do not allow, then each broken rule by its column."""
    counts = {"rows with an illegal cell, left out": legality["illegal_rows"]}
    if legality["derived_columns"]:
        counts["derived cells that do not follow"] = legality["derived_broken"]
    return [*({"column": "", "rule": rule, "rows": value} for rule, value in counts.items()), *legality["broken"]]


def show_classifiers(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each classifier's mean over all targets, and the targets that lose most by training on the synthetic table."""
    entries = [{**entry, "classifier": entry["classifier"].replace("_", " ")} for entry in entries]
    means = []
    for name in dict.fromkeys(entry["classifier"] for entry in entries):
        own = [entry for entry in entries if entry["classifier"] == name]
        both = {key: np.mean([entry[key] for entry in own]) for key in ("auc", "auc_real")}
        means.append({"classifier": name, "targets": len(own), **both})
    losses = sorted(entries, key=lambda entry: float(entry["auc"] - entry["auc_real"]))
    return {"means": means, "losses": losses[:WORST]}


def judge_claim(claim: Mapping[str, Any] | None, *, matches: bool | None) -> str:
    """What the claim beside the synthetic table is worth.

    `matches` says whether the claim names the digest of the synthetic table's bytes, None where it names none. A claim
    is only quoted if it is this table's and of the documented form; what merely looks like one promises nothing.
    """
    if claim is None:
        return "none"
    if matches is False:
        return "another"
    try:
        validate_claim(claim)
    except DpwganError:
        return "damaged"
    return "not private" if claim["guarantee"] is None else "private"


def show_attacks(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The attacks, each with the parts that beat their baseline, and with what another attack guesses too."""
    compared = {attack["details"].get("column") for attack in audit["attacks"]}
    lines = []
    for attack in audit["attacks"]:
        lines.append(show_finding(attack["name"], attack["headline"]))
        for name, part in attack["parts"].items():
            if part["beats_baseline"] or name in compared:
                lines.append(show_finding(f"{attack['name']}: {name}", part))
    return lines


def show_finding(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """A finding of the audit in words."""
    excess, lower, upper = (write_signed(found["excess"][end]) for end in ("value", "lower", "upper"))
    shares = {side: f"{found[side]['value']:.3f}" for side in ("success", "baseline")}
    return {
        "name": name,
        "leaks": found["beats_baseline"],
        "excess": excess,
        "interval": f"{lower} to {upper}",
        **shares,
    }


# --- columns ----------------------------------------------------------------------------------------------------------


def show_column(place: int, agreement: float, *, real: ComparedTable, synthetic: ComparedTable) -> dict[str, Any]:
    """One column's card: its figure, its agreement, and the cell that differs most."""
    column = real.columns[place]
    ours, theirs = (table.count_shares(place) for table in (real, synthetic))
    name = figures.printable(column.name, most=LONGEST_NAME)
    if column.kind != "categorical":
        column = replace(column, labels=tuple(shorten_range(label) for label in column.labels))
    worst = int(np.argmax(np.abs(ours - theirs)))
    difference = (
        f"Largest difference at {figures.printable(column.labels[worst], most=LONGEST_NAME)}: "
        f"real {figures.percent(float(ours[worst]))}, synthetic {figures.percent(float(theirs[worst]))}."
    )
    says = f"{name}: shares of rows, real against synthetic. Agreement {write_agreement(agreement)}. {difference}"
    return {
        "number": place + 1,
        "name": name,
        "kind": describe_kind(column, ours),
        "agreement": agreement,
        "difference": difference,
        "figure": draw_column(column, ours, theirs, says=says),
    }


def shorten_range(label: str) -> str:
    """Writes the numbers of a bucket's label with four digits, enough to find it on the axis."""
    return " to ".join(
        f"{float(part):.4g}" if re.fullmatch(r"-?\d{1,4}\.\d+", part) else part for part in label.split(" to ")
    )


def draw_column(column: ComparedColumn, ours: Floats, theirs: Floats, *, says: str) -> Markup:
    """Draws few cells as bars, cells with an order as a profile, and of many categories the commonest as bars."""
    labels = list(column.labels)
    if len(labels) <= figures.MOST_BARS:
        return figures.draw_bars(labels, ours, theirs, says=says)
    if column.kind == "number_or_missing":
        labels, numbers, synthetic = figures.merge_neighbours(labels[:-1], ours[:-1], theirs[:-1])
        missing = (float(ours[-1]), float(theirs[-1]))
        return figures.draw_profile(labels, numbers, synthetic, missing=missing, says=says)
    if column.kind == "number" or are_rising(labels):
        return figures.draw_profile(*figures.merge_neighbours(labels, ours, theirs), missing=None, says=says)
    order = np.argsort(-np.maximum(ours, theirs), kind="stable")
    common, rare = order[: figures.MOST_BARS - 1], order[figures.MOST_BARS - 1 :]
    return figures.draw_bars(
        [labels[cell] for cell in common],
        ours[common],
        theirs[common],
        rest=(f"{len(rare):,} others", float(ours[rare].sum()), float(theirs[rare].sum())),
        says=says,
    )


def are_rising(labels: Sequence[str]) -> bool:
    """Says whether categories are whole numbers in rising order, so that neighbours belong together."""
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return False
    return all(lower < upper for lower, upper in itertools.pairwise(numbers))


def describe_kind(column: ComparedColumn, shares: Floats) -> str:
    """Says what the cells of a column are, and where nearly all real numbers lie in one bucket of several values."""
    if column.kind == "categorical":
        return f"{column.cells:,} categories" if column.cells != 1 else "1 category"
    kind, fullest = f"{column.kind.replace('_', ' ')}, {column.cells:,} cells", int(np.argmax(shares))
    if " to " not in column.labels[fullest] or shares[fullest] < 0.9:
        return kind
    share = figures.percent(float(shares[fullest]))
    return f"{kind}; one has {share} of the real rows, so agreement says little: look at the quantiles"


# --- dependence -------------------------------------------------------------------------------------------------------


def show_dependence(pairs: Pairs, names: Sequence[str]) -> dict[str, Any]:
    """The three heat maps of dependence and the pairs that changed most."""
    ours, theirs = pairs.real, pairs.other
    maps = []
    for title, matrix in (("Real", ours), ("Synthetic", theirs), ("Synthetic minus real", theirs - ours)):
        signed = matrix is not ours and matrix is not theirs
        says = describe_matrix(title, matrix, names, signed=signed)
        figure = figures.draw_heat_map(matrix, names, difference=signed, says=says)
        maps.append({"title": title, "figure": figure, "key": figures.draw_heat_key(difference=signed)})
    return {"maps": maps, "pairs": rank_pairs(ours, theirs, names)}


def rank_pairs(ours: Floats, theirs: Floats, names: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs of columns whose dependence differs most between the tables, largest difference first."""
    first, second = np.triu_indices(len(names), k=1)
    order = np.argsort(-np.abs(theirs - ours)[first, second], kind="stable")[:WORST]
    return [
        {
            "names": (names[one], names[other]),
            "real": f"{ours[one, other]:.2f}",
            "synthetic": f"{theirs[one, other]:.2f}",
            "difference": write_signed(theirs[one, other] - ours[one, other], digits=2),
        }
        for one, other in zip(first[order], second[order], strict=True)
    ]


def describe_matrix(title: str, matrix: Floats, names: Sequence[str], *, signed: bool) -> str:
    """A heat map in words: how many pairs, their median, the most extreme one."""
    first, second = np.triu_indices(len(names), k=1)
    values = matrix[first, second]
    peak = int(np.argmax(np.abs(values)))
    pair = " and ".join(figures.printable(names[side[peak]], most=LONGEST_NAME) for side in (first, second))
    middle = float(np.median(np.abs(values)))
    what, size, extreme = ("Difference of ", "size ", "largest") if signed else ("", "", "strongest")
    return (
        f"{title}: {what}Cram\u00e9r's V of {len(values):,} pairs of columns; median {size}{middle:.2f}; "
        f"{extreme} {values[peak]:.2f}, {pair}."
    )
