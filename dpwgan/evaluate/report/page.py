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
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dpwgan.app.claim import round_up, validate_claim
from dpwgan.errors import DpwganError
from dpwgan.evaluate.dependence import map_dependence
from dpwgan.evaluate.report import figures
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable

FOLDER = Path(__file__).resolve().parent

WORST = 10
"""Columns, triples and pairs that are listed by name."""

LONGEST_NAME = 60
"""Of a column or category in the text of the page; figures cut more."""

MISSING_FIGURE = "\N{EN DASH}"

Shares = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


class Headline(NamedTuple):
    """A score that is shown at the top: where it stands in the document, and how it is to be read.

    Units: `worst` and `best` are the ends of the score's own scale; either may be the larger.
    """

    path: tuple[str, ...]
    title: str
    worst: float
    best: float
    digits: int
    meaning: str


HEADLINES = (
    Headline(
        ("nist2018", "mean"),
        "NIST 2018 score",
        0.0,
        1e6,
        0,
        "The mean of the challenge's own scores; a table that "
        "answers every question as the real one does has 1,000,000.",
    ),
    Headline(
        ("kway_1",),
        "Single columns",
        0.0,
        1000.0,
        1,
        "How far the tables agree, in thousandths of the rows, when "
        "one column is counted at a time. The floor has the real columns, so it is near 1,000 here.",
    ),
    Headline(
        ("kway_2",),
        "Pairs of columns",
        0.0,
        1000.0,
        1,
        "The same for two columns at a time: does the synthetic table keep which cells occur together?",
    ),
    Headline(
        ("kway_3",),
        "Triples of columns",
        0.0,
        1000.0,
        1,
        "The same for three columns at a time, which is harder: rare combinations count.",
    ),
    Headline(
        ("classifier_auc",),
        "Training on it",
        0.5,
        1.0,
        3,
        "Models trained on the synthetic table and tested on "
        "real rows, mean area under the curve: 0.5 is guessing, 1 is never wrong.",
    ),
    Headline(
        ("detection_auc",),
        "Telling them apart",
        1.0,
        0.5,
        3,
        "How well a model tells synthetic rows from real "
        "ones: 0.5 is guessing, which is what is wanted; 1 is always right.",
    ),
    Headline(
        ("pc1_distance",),
        "Main direction",
        math.sqrt(2.0),
        0.0,
        3,
        "How far the direction in which the rows vary most has turned: 0 is not at all, 1.41 a right angle.",
    ),
)


def render_report(document: Mapping[str, Any], real: ComparedTable, synthetic: ComparedTable) -> str:
    """Writes the evaluation as one HTML page that needs nothing but itself.

    `document` is what `dpwgan.evaluate.scores.evaluate` returns. Names and cells of tables may hold anything: they are
    escaped, and the page's own policy forbids scripts and requests.

    Privacy: NOT private: shares of real rows for every column and the dependence of every pair are in it.
    Shapes: both tables have the same columns; their numbers of rows may differ.
    """
    agreements = {column["name"]: column["agreement"] for column in document["columns"]}
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
    return environment.get_template("template.html.j2").render(
        notice=document["notice"],
        style=Markup(style),
        style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        real_file=PurePath(real.path).name,
        synthetic_file=PurePath(synthetic.path).name,
        tables=document["tables"],
        seed=document["seed"],
        marks={name: figures.draw_mark_alone(name) for name in ("synthetic", "floor", "ceiling")},
        headlines=[view for headline in HEADLINES if (view := show_headline(headline, document["scores"]))],
        claim=show_claim(document["claim"], matches=document["claim_matches"]),
        match=document["match"],
        columns=[
            show_column(place, column, agreements[column.name], real=real, synthetic=synthetic)
            for place, column in enumerate(real.columns)
        ],
        worst_columns=rank_columns(document["columns"], real.names),
        triples=document["triples"][:WORST],
        dependence=show_dependence(real, synthetic),
        classifiers=show_classifiers(document["scores"]["synthetic"].get("classifiers") or []),
        every_score=list_scores(document["scores"]),
        legality=list_legality(document["legality"]),
        seconds=document["seconds"],
        rows_per_second=document["rows_per_second"],
    )


def write_agreement(share: float | None) -> str:
    """Writes an agreement from 0 to 1 as a percentage, rounded down so that 100.0% means all."""
    if share is None:
        return MISSING_FIGURE
    return f"{math.floor(1000.0 * share + 1e-9) / 10.0:.1f}%"


# --- scores -----------------------------------------------------------------------------------------------------------


def show_headline(headline: Headline, scores: Mapping[str, Any]) -> dict[str, Any] | None:
    """The page's words and figure for one score, or None where it was not computed."""
    values = {name: read_score(scores.get(name), headline.path) for name in ("synthetic", "floor", "ceiling")}
    found = values["synthetic"]
    if found is None:
        return None
    floor, ceiling = values["floor"], values["ceiling"]
    scale = figures.choose_scale(
        [value for value in values.values() if value is not None], worst=headline.worst, best=headline.best
    )

    def write(value: float | None) -> str:
        return write_number(value, digits=headline.digits)

    says = f"{headline.title}: synthetic {write(found)}, floor {write(floor)}, ceiling {write(ceiling)}."
    ends = (write_end(scale.start), f"{write_end(scale.best)}, best")
    return {
        "title": headline.title,
        "meaning": headline.meaning,
        "values": {name: write(value) for name, value in values.items()},
        "way": describe_way(found, floor=floor, ceiling=ceiling, whole=headline.best - headline.worst),
        "figure": figures.draw_scale(synthetic=found, floor=floor, ceiling=ceiling, scale=scale, ends=ends, says=says),
    }


def read_score(scores: Mapping[str, Any] | None, path: Sequence[str]) -> float | None:
    """Reads one number of one table's scores, or None where it is not there or not finite."""
    if scores is None:
        return None
    value: Any = scores
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


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


def write_number(value: float | None, *, digits: int) -> str:
    """Writes a score with thousands marked."""
    return MISSING_FIGURE if value is None else f"{value:,.{digits}f}"


def write_end(value: float) -> str:
    """Writes an end of a scale as short as it is exact to three digits behind the point."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


SCORE_TITLES = {
    ("nist2018", "marginals"): "NIST 2018: three-column marginals",
    ("nist2018", "conjunctions"): "NIST 2018: conjunctions",
    ("nist2018", "gini_and_pay_gap"): "NIST 2018: Gini index and pay gap",
    ("nist2018", "mean"): "NIST 2018: mean",
    ("kway_1",): "One-way agreement",
    ("kway_2",): "Two-way agreement",
    ("kway_3",): "Three-way agreement",
    ("pc1_distance",): "First principal component, distance",
    ("correlations", "cramers_v"): "Cramér's V, mean change of a pair",
    ("correlations", "correlation_ratio"): "Correlation ratio, mean change of a pair",
    ("correlations", "pearson"): "Pearson correlation, mean change of a pair",
    ("correlations", "all"): "All three, mean change of a pair",
    ("detection_auc",): "Detection, area under the curve",
    ("classifier_auc",): "Classifiers, mean area under the curve",
    ("classifier_auc_real",): "Classifiers trained on real rows",
}


def list_scores(scores: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row of text for each number in the scores that was computed."""
    rows = []
    for path, title in SCORE_TITLES.items():
        values = {name: read_score(scores.get(name), path) for name in ("synthetic", "floor", "ceiling")}
        if any(value is not None for value in values.values()):
            rows.append({"title": title} | {name: write_short(value) for name, value in values.items()})
    return rows


def write_short(value: float | None) -> str:
    """Writes a number of any size so that its first four digits or so are seen."""
    if value is None:
        return MISSING_FIGURE
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4f}"


def list_legality(legality: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How many rows and cells the specs do not allow, then each broken rule by its column."""
    counts = {key.replace("_", " "): value for key, value in legality.items() if key != "broken"}
    return [*({"column": "", "rule": rule, "rows": value} for rule, value in counts.items()), *legality["broken"]]


def show_classifiers(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each classifier's mean over all targets, and the targets that lose most by training on the synthetic table."""
    known = [entry for entry in entries if entry["auc"] is not None and entry["auc_real"] is not None]
    means = []
    for name in dict.fromkeys(entry["classifier"] for entry in known):
        of_name = [entry for entry in known if entry["classifier"] == name]
        means.append(
            {"classifier": str(name).replace("_", " "), "targets": len(of_name)}
            | {key: f"{np.mean([entry[key] for entry in of_name]):.3f}" for key in ("auc", "auc_real")}
        )
    losses = sorted(known, key=lambda entry: float(entry["auc"] - entry["auc_real"]))[:WORST]
    return {
        "means": means,
        "losses": [
            {"target": entry["target"], "classifier": str(entry["classifier"]).replace("_", " ")}
            | {key: f"{entry[key]:.3f}" for key in ("auc", "auc_real")}
            for entry in losses
        ],
    }


# --- claim ------------------------------------------------------------------------------------------------------------


def show_claim(claim: Mapping[str, Any] | None, *, matches: bool | None) -> dict[str, Any]:
    """The page's words about the claim that lies beside the synthetic table.

    `matches` says whether the claim names the digest of the synthetic table's bytes, None where it names none. A claim
    is only quoted if it is this table's and of the documented form; what merely looks like one promises nothing.
    """
    if claim is None:
        return {"kind": "none"}
    if matches is False:
        return {"kind": "another"}
    try:
        validate_claim(claim)
    except DpwganError:
        return {"kind": "damaged"}
    shown = {"statement": claim["statement"], "method": claim["method"], "not_covered": claim["not_covered"]}
    guarantee = claim["guarantee"]
    if guarantee is None:
        return shown | {"kind": "not private", "reason": claim["why_no_guarantee"]}
    replaced = guarantee["for_replace_one"]
    return shown | {
        "kind": "private",
        "epsilon": round_up(guarantee["epsilon"], digits=6),
        "delta": round_up(guarantee["delta"], digits=4),
        "accountant": claim["accountant"]["name"],
        "unit": guarantee["unit"],
        "relation": guarantee["neighbouring_relation"],
        "replace_epsilon": None if replaced["epsilon"] is None else round_up(replaced["epsilon"], digits=6),
        "replace_delta": None if replaced["delta"] is None else round_up(replaced["delta"], digits=4),
        "covered": claim["covered"],
        "tied": matches is True,
    }


# --- columns ----------------------------------------------------------------------------------------------------------


def show_column(
    place: int, column: ComparedColumn, agreement: float | None, *, real: ComparedTable, synthetic: ComparedTable
) -> dict[str, Any]:
    """One column's card: its figure, its agreement, and the cell that differs most."""
    ours, theirs = (count_shares(table, place, column.cells) for table in (real, synthetic))
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
        "kind": describe_kind(column),
        "agreement": agreement,
        "difference": difference,
        "figure": draw_column(column, ours, theirs, says=says),
    }


def shorten_range(label: str) -> str:
    """Writes the numbers of a bucket's label with four digits, enough to find it on the axis."""
    return " to ".join(
        f"{float(part):.4g}" if re.fullmatch(r"-?\d{1,4}\.\d+", part) else part for part in label.split(" to ")
    )


def draw_column(column: ComparedColumn, ours: Shares, theirs: Shares, *, says: str) -> Markup:
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


def count_shares(table: ComparedTable, place: int, cells: int) -> Shares:
    """The share of a table's rows in each cell of a column. Shapes: (cells,)."""
    counts = np.bincount(table.cells[:, place], minlength=cells)
    return np.asarray(counts / max(1, len(table.cells)), dtype=np.float64)


def are_rising(labels: Sequence[str]) -> bool:
    """Says whether categories are whole numbers in rising order, so that neighbours belong together."""
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return False
    return all(lower < upper for lower, upper in itertools.pairwise(numbers))


def describe_kind(column: ComparedColumn) -> str:
    """Says what the cells of a column are."""
    if column.kind == "categorical":
        return f"{column.cells:,} categories" if column.cells != 1 else "1 category"
    if column.kind == "number":
        return f"number, {column.cells:,} cells"
    return f"number or missing, {column.cells:,} cells"


def rank_columns(columns: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The columns that agree least, worst first."""
    places = {name: place for place, name in enumerate(names)}
    ranked = sorted((c for c in columns if c["agreement"] is not None), key=lambda c: float(c["agreement"]))
    return [
        {"name": column["name"], "agreement": column["agreement"], "number": places[column["name"]] + 1}
        for column in ranked[:WORST]
    ]


# --- dependence -------------------------------------------------------------------------------------------------------


def show_dependence(real: ComparedTable, synthetic: ComparedTable) -> dict[str, Any] | None:
    """The three heat maps of dependence and the pairs that changed most; None for a single column."""
    if len(real.columns) < 2:
        return None
    ours, theirs = map_dependence(real), map_dependence(synthetic)
    difference = theirs - ours
    pairs = rank_pairs(ours, theirs, real.names)
    maps = []
    for title, matrix, signed in (
        ("Real", ours, False),
        ("Synthetic", theirs, False),
        ("Synthetic minus real", difference, True),
    ):
        says = describe_matrix(title, matrix, real.names, signed=signed)
        maps.append(
            {
                "title": title,
                "figure": figures.draw_heat_map(matrix, real.names, difference=signed, says=says),
                "key": figures.draw_heat_key(difference=signed),
            }
        )
    return {"maps": maps, "pairs": pairs, "numbered": len(real.columns) > figures.MOST_NAMED}


def rank_pairs(ours: Matrix, theirs: Matrix, names: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs of columns whose dependence differs most between the tables, largest difference first."""
    first, second = np.triu_indices(len(names), k=1)
    order = np.argsort(-np.abs(theirs - ours)[first, second], kind="stable")[:WORST]
    return [
        {
            "names": (names[first[pair]], names[second[pair]]),
            "real": f"{ours[first[pair], second[pair]]:.2f}",
            "synthetic": f"{theirs[first[pair], second[pair]]:.2f}",
            "difference": f"{(theirs - ours)[first[pair], second[pair]]:+.2f}".replace("-", "\N{MINUS SIGN}"),
        }
        for pair in order
    ]


def describe_matrix(title: str, matrix: Matrix, names: Sequence[str], *, signed: bool) -> str:
    """A heat map in words: how many pairs, their median, the most extreme one."""
    first, second = np.triu_indices(len(names), k=1)
    values = matrix[first, second]
    peak = int(np.argmax(np.abs(values)))
    pair = " and ".join(figures.printable(names[i[peak]], most=LONGEST_NAME) for i in (first, second))
    middle = float(np.median(np.abs(values)))
    what = "Difference of Cram\u00e9r's V" if signed else "Cram\u00e9r's V"
    extreme = "largest" if signed else "strongest"
    return (
        f"{title}: {what} of {len(values):,} pairs of columns; median {'size ' if signed else ''}{middle:.2f}; "
        f"{extreme} {values[peak]:.2f}, {pair}."
    )
