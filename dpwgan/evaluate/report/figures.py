"""The report's figures as inline SVG: no script, no outside file, colours left to the page's style sheet.

Every figure carries its own text alternative. Every word that comes from a table or its specs is escaped, stripped of
characters that do not print, and cut to a length that fits.

Privacy: NOT private. What is drawn here are exact statistics of the real rows.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from dpwgan.array_types import Floats

WIDTH = 320
"""Of every figure, in its own units; at the width of a phone one unit is about one pixel."""

MOST_BARS = 12
"""Rows of a bar chart; of more categories the rarest are drawn as one."""

MOST_STEPS = 100
"""Steps of a profile; neighbouring cells beyond that are drawn together."""

DEPENDENCE_STEPS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
"""Borders of the shades of a heat map, closer where most pairs of columns are: near 0."""

DIFFERENCE_STEPS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Least size of a difference for each of its shades; smaller ones are left blank."""

MOST_NAMED = 16
"""Columns of a heat map whose rows are named and not only numbered."""

LEAST_APART = 17.0
"""Distance of two numbers along a heat map's side, so that they do not run into each other."""


def printable(text: str, *, most: int) -> str:
    """A text that cannot disturb the page around it: no control or direction characters, at most `most` long.

    A longer one loses its middle, since names of one table often differ at the end only.
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: 100 * most])
    if not clean.strip():
        return "(empty)" if not clean else "(blank)"
    if len(clean) <= most:
        return clean
    tail = max(1, most // 3)
    return clean[: most - 1 - tail] + "\N{HORIZONTAL ELLIPSIS}" + clean[-tail:]


def percent(share: float) -> str:
    """Writes a share as a percentage with one decimal; a small one that is not 0 never as 0."""
    if 0.0 < share < 0.0005:
        return "<0.1%"
    return f"{100.0 * share:.1f}%"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The part of a score's scale that is drawn: from `start`, at the left, to `best`, at the right."""

    start: float
    best: float

    def place(self, value: float) -> float:
        """How far to the right a value lies, from 0 to 1."""
        if self.start == self.best:
            return 1.0
        return min(1.0, max(0.0, (value - self.start) / (self.best - self.start)))


def choose_scale(values: Sequence[float], *, worst: float, best: float) -> Scale:
    """Chooses a scale from a round number that no value is worse than to the best possible score."""
    if worst == best or not values:
        return Scale(start=worst, best=best)
    farthest = max(abs(best - value) for value in values)
    whole = abs(best - worst)
    for part in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        if farthest <= part * whole:
            return Scale(start=best - np.sign(best - worst) * part * whole, best=best)
    return Scale(start=worst, best=best)


def draw_scale(
    *, synthetic: float, floor: float | None, ceiling: float | None, scale: Scale, ends: tuple[str, str], says: str
) -> Markup:
    """Draws one score between its floor and its ceiling; right is better.

    `ends` are the numbers at both ends of the scale, `says` the text alternative.
    """
    left, right, line = 8.0, WIDTH - 8.0, 18.0
    parts = [_path("axis", f"M{left} {line}H{right}")]
    for name, value in (("floor", floor), ("ceiling", ceiling), ("synthetic", synthetic)):
        if value is not None:
            parts.append(draw_mark(name, x=left + (right - left) * scale.place(value), y=line))
    parts += [_text(left, 42, ends[0]), _text(right, 42, ends[1], "small end")]
    return _figure(parts, height=47, says=says)


def draw_mark(name: str, *, x: float, y: float) -> Markup:
    """Draws the mark of a table on a scale; the shapes differ, so that no colour is needed to tell them apart."""
    if name == "synthetic":
        return Markup('<circle class="mark synthetic" cx="{:.1f}" cy="{:.1f}" r="6"/>').format(x, y)
    down = 1 if name == "floor" else -1
    return _path(f"mark {name}", f"M{x:.1f} {y + down:.1f}l6 {9 * down}h-12z")


def draw_mark_alone(name: str) -> Markup:
    """Draws a mark for a legend, hidden from screen readers: the words beside it say the same."""
    mark = draw_mark(name, x=8, y={"synthetic": 8, "floor": 3, "ceiling": 13}[name])
    form = '<svg class="key" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{}</svg>'
    return Markup(form).format(mark)


def draw_bars(
    labels: Sequence[str], real: Floats, synthetic: Floats, *, rest: tuple[str, float, float] | None = None, says: str
) -> Markup:
    """Draws two bars for each category: the real table's above, the synthetic one's below, and both shares.

    `rest`, what is left over, is written under them without bars: as a sum it would dwarf what it is a sum of.
    Shapes: `real` and `synthetic` are (len(labels),).
    Units: shares of all rows.
    """
    row = 27.0
    rows = list(zip(labels, real.tolist(), synthetic.tolist(), strict=True))
    listed = [*rows, rest] if rest else rows
    longest = max(len(printable(label, most=14)) for label, _, _ in listed)
    left = min(104.0, 14.0 + 7.5 * longest)  # a label is about that wide
    room = WIDTH - left - 96.0
    most = max(float(real.max(initial=0.0)), float(synthetic.max(initial=0.0)), 1e-12)
    parts = []
    for place, (label, ours, theirs) in enumerate(listed):
        y = place * row
        parts.append(_text(left - 6, y + 15, printable(label, most=14), "end", title=label))
        for name, share, top in (("real", ours, 3.0), ("synthetic", theirs, 12.5)):
            if place < len(rows):
                parts.append(_rect(f"bar {name}", left, y + top, room * share / most, 8.5))
        parts.append(_text(WIDTH, y + 15, f"{percent(ours)} / {percent(theirs)}", "end small"))
    parts.append(_path("axis", f"M{left} 0V{len(rows) * row:.1f}"))
    return _figure(parts, height=len(listed) * row + 2, says=says)


def draw_profile(
    labels: Sequence[str], real: Floats, synthetic: Floats, *, missing: tuple[float, float] | None, says: str
) -> Markup:
    """Draws neighbouring cells as two outlines: the real table's filled, the synthetic one's as a line.

    Heights go with the square root of the share, so that rare cells can still be seen. `missing` are the two shares of
    cells without a number, drawn apart at the right.
    Shapes: `real` and `synthetic` are (len(labels),).
    Units: shares of all rows.
    """
    top, bottom, left = 12.0, 104.0, 40.0
    right = WIDTH - (58.0 if missing is not None else 2.0)
    shares = [float(real.max(initial=0.0)), float(synthetic.max(initial=0.0)), *(missing or ())]
    most = max(*shares, 1e-12)

    def height(share: float) -> float:
        return (bottom - top) * float(np.sqrt(share / most))

    parts = []
    for part in (1.0, 0.25, 0.0625):
        y = bottom - height(part * most)
        parts += [_path("grid", f"M{left} {y:.1f}H{WIDTH}"), _text(left - 4, y + 4, _tick(part * most), "small end")]
    width = (right - left) / len(labels)
    for classes, drawn, closed in (("area real", real, "z"), ("line synthetic", synthetic, "")):
        outline = _outline([height(share) for share in drawn], left=left, bottom=bottom, width=width)
        parts.append(_path(classes, outline + closed))
    parts.append(_path("axis", f"M{left} {bottom}H{right:.1f}"))
    parts.append(_text(left, bottom + 15, printable(labels[0], most=22)))
    parts.append(_text(right, bottom + 15, printable(labels[-1], most=22), "small end"))
    if missing is not None:
        for name, share, x in (("real", missing[0], right + 20), ("synthetic", missing[1], right + 37)):
            parts.append(_rect(f"bar {name}", x, bottom - height(share), 15, height(share)))
        parts.append(_path("axis", f"M{right + 14:.1f} {bottom}H{WIDTH}"))
        parts.append(_text(WIDTH, bottom + 15, "missing", "small end"))
    return _figure(parts, height=bottom + 20, says=says)


def merge_neighbours(labels: Sequence[str], real: Floats, synthetic: Floats) -> tuple[list[str], Floats, Floats]:
    """Puts neighbouring cells together where there are more than a profile has steps.

    Shapes: (cells,) each; at most `MOST_STEPS` after it.
    """
    each = -(-len(labels) // MOST_STEPS)
    if each <= 1:
        return list(labels), real, synthetic
    starts = np.arange(0, len(labels), each)
    merged = []
    for start in starts:
        first, last = labels[start], labels[min(start + each, len(labels)) - 1]
        merged.append(first if first == last else f"{first} to {last}")
    return merged, np.add.reduceat(real, starts), np.add.reduceat(synthetic, starts)


def draw_heat_map(matrix: Floats, names: Sequence[str], *, difference: bool, says: str) -> Markup:
    """Draws one square a pair of columns, in shades; one path a shade, so that 98 columns stay small.

    With `difference` shades have a sign: "more" where `matrix` is above 0, "less" where it is below.
    Shapes: `matrix` is (d, d); its diagonal is blank but for a line.
    """
    count = len(names)
    named = count <= MOST_NAMED
    left, top = (104.0, 16.0) if named else (26.0, 16.0)
    side = (WIDTH - left) / count
    shades: dict[str, list[str]] = {}
    for row, values in enumerate(matrix.tolist()):
        values[row] = np.nan
        start = 0
        for shade, run in itertools.groupby(_shade(value, difference=difference) for value in values):
            length = len(list(run))  # equal neighbours are one rectangle
            if shade:
                shades.setdefault(shade, []).append(f"M{start} {row}h{length}v1h-{length}z")
            start += length
    parts = [
        _rect("field", left, top, side * count, side * count),
        Markup('<g transform="translate({} {}) scale({:.4f})" shape-rendering="crispEdges">').format(left, top, side),
        *(_path(name, "".join(paths)) for name, paths in sorted(shades.items())),
        Markup('</g><path class="diagonal" d="M{0} {1}l{2:.2f} {2:.2f}"/>').format(left, top, side * count),
    ]
    every = next(step for step in (1, 5, 10, 20, 50, 100, count) if step * side >= LEAST_APART or step == count)
    for place in range(count):
        middle = side * (place + 0.5)
        numbered = place == 0 or (place + 1) % every == 0
        if numbered:
            parts.append(_text(left + middle, top - 4, str(place + 1), "small middle"))
        if named or numbered:
            text = f"{printable(names[place], most=12)} {place + 1}" if named else str(place + 1)
            parts.append(_text(left - 4, top + middle + 4, text, "small end", title=names[place]))
    return _figure(parts, height=top + side * count + 1, says=says)


def draw_heat_key(*, difference: bool) -> Markup:
    """Draws the shades of a heat map with their borders."""
    if difference:
        steps = DIFFERENCE_STEPS
        names = [f"less{k}" for k in range(len(steps), 0, -1)] + [""] + [f"more{k}" for k in range(1, len(steps) + 1)]
        borders = [f"{step:g}" for step in (*reversed(steps), *steps)]
        says = f"Key: left, stronger in the real table; right, in the synthetic one; blank, by less than {steps[0]:g}."
    else:
        names = [f"level{k}" for k in range(len(DEPENDENCE_STEPS) - 1)]
        borders = [f"{step:g}" for step in DEPENDENCE_STEPS[1:-1]]
        says = "Key: the further from the background, the stronger the dependence, from 0 to 1."
    side = WIDTH / len(names)
    parts = [_rect(f"field {name}", place * side + 0.5, 1, side - 1, 12) for place, name in enumerate(names)]
    parts += [_text(place * side, 24, border, "tiny middle") for place, border in enumerate(borders, start=1)]
    if not difference:
        return _figure(parts, height=28, says=says)
    parts += [_text(0, 40, "stronger in the real table"), _text(WIDTH, 40, "in the synthetic one", "small end")]
    return _figure(parts, height=44, says=says)


def _shade(value: float, *, difference: bool) -> str:
    if not np.isfinite(value):
        return ""
    if not difference:
        # A value on a border, the first one too, belongs to the shade above it; 1 to the last one.
        level = int(np.searchsorted(DEPENDENCE_STEPS, value, side="right")) - 1
        return f"level{min(max(level, 0), len(DEPENDENCE_STEPS) - 2)}"
    level = int(np.searchsorted(DIFFERENCE_STEPS, abs(value), side="right"))
    return "" if level == 0 else f"{'more' if value > 0 else 'less'}{level}"


def _outline(heights: Sequence[float], *, left: float, bottom: float, width: float) -> str:
    """The outline of a profile as an SVG path, from the bottom left to the bottom right."""
    moves, y = [f"M{left:g} {bottom:g}"], bottom
    run = x = 0.0  # x is what is written so far, rounded, so that rounding does not add up
    for height in heights:
        level = round(bottom - height, 1)
        if level != round(y, 1):
            step = round(run - x, 1)
            moves.append(f"h{step:g}" if step else "")
            moves.append(f"v{level - y:.1f}")
            x, y = round(x + step, 1), level
        run += width
    moves.append(f"h{run - x:.1f}v{bottom - y:.1f}")
    return "".join(moves)


def _tick(share: float) -> str:
    form = ".1g" if share < 0.01 else ".2g" if share < 0.1 else ".0f"
    return f"{100.0 * share:{form}}%"


def _text(x: float, y: float, words: str, classes: str = "small", *, title: str | None = None) -> Markup:
    whole = "" if title is None else Markup("<title>{}</title>").format(printable(title, most=120))
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}{}</text>').format(classes, x, y, words, whole)


def _rect(classes: str, x: float, y: float, width: float, height: float) -> Markup:
    form = '<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>'
    return Markup(form).format(classes, x, y, width, height)


def _path(classes: str, drawn: str) -> Markup:
    return Markup('<path class="{}" d="{}"/>').format(classes, drawn)


def _figure(parts: Sequence[Markup], *, height: float, says: str) -> Markup:
    return Markup('<svg class="figure" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, printable(says, most=600), Markup("").join(parts)
    )
