"""The figures show the numbers they were given, and no name that they show can break out of them."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.evaluate.report import figures
from tests.evaluate.report.samples import HOSTILE

SHARES = st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=1, max_size=100)


def read_svg(figure: str) -> ElementTree.Element:
    """Reads a figure as XML, which fails at any tag or quote that was not closed."""
    return ElementTree.fromstring(figure)


def read_texts(figure: str) -> list[str]:
    return [(element.text or "") for element in read_svg(figure).iter("text")]


def read_outline(path: str) -> list[tuple[float, float]]:
    """Walks along a path of M, h and v and gives its corners."""
    start, *moves = re.findall(r"([Mhv])([-\d. ]+)", path)
    x, y = (float(part) for part in start[1].split())
    corners = [(x, y)]
    for letter, length in moves:
        x, y = (x + float(length), y) if letter == "h" else (x, y + float(length))
        corners.append((x, y))
    return corners


def height_at(corners: list[tuple[float, float]], x: float) -> float:
    for (left, y), (right, other) in itertools.pairwise(corners):
        if y == other and left <= x <= right:
            return y
    raise AssertionError(f"the outline has a gap at {x}")


@pytest.mark.parametrize("text", HOSTILE)
def test_printable_gives_short_text_without_control_characters_when_text_is_hostile(text):
    shown = figures.printable(text, most=20)
    assert 0 < len(shown) <= 20
    assert shown.isprintable()
    shown.encode("utf-8")


def test_printable_keeps_both_ends_when_a_name_is_long():
    first, second = (figures.printable("the_same_long_beginning" + end, most=15) for end in ("_A", "_B"))
    assert first != second
    assert first.startswith("the_same_")
    assert first.endswith("_A")


@given(st.floats(min_value=1e-12, max_value=1.0))
def test_percent_never_shows_nothing_when_there_is_something(share):
    assert float(figures.percent(share).strip("<%")) > 0.0


@given(
    values=st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=1, max_size=3),
    ends=st.sampled_from([(0.0, 1.0), (1.0, 0.0), (0.5, 1.0), (1.0, 0.5)]),
)
def test_scale_puts_better_to_the_right_when_either_end_is_best(values, ends):
    worst, best = ends
    inside = [min(max(value, min(ends)), max(ends)) for value in values]
    scale = figures.choose_scale(inside, worst=worst, best=best)
    ranked = sorted(inside, reverse=best < worst)
    places = [scale.place(value) for value in ranked]
    assert places == sorted(places)
    assert scale.best == best
    # Every value lies on the scale itself, not only at its clipped end.
    assert all(min(scale.start, best) - 1e-12 <= value <= max(scale.start, best) + 1e-12 for value in inside)


@settings(max_examples=30)
@given(real=SHARES, data=st.data())
def test_profile_has_a_step_for_each_cell_when_shares_are_any(real, data):
    synthetic = data.draw(st.lists(st.floats(0.0, 1.0), min_size=len(real), max_size=len(real)))
    labels = [str(cell) for cell in range(len(real))]
    figure = figures.draw_profile(labels, np.array(real), np.array(synthetic), missing=None, says="x")
    most = max(*real, *synthetic, 1e-12)
    for name, shares in (("area real", real), ("line synthetic", synthetic)):
        path = next(element for element in read_svg(figure).iter("path") if element.get("class") == name)
        corners = read_outline(str(path.get("d")))
        left, right, bottom = corners[0][0], corners[-1][0], corners[0][1]
        assert corners[-1][1] == pytest.approx(bottom, abs=0.06)
        tallest = bottom - 12.0
        for cell, share in enumerate(shares):
            x = left + (right - left) * (cell + 0.5) / len(shares)
            assert bottom - height_at(corners, x) == pytest.approx(tallest * (share / most) ** 0.5, abs=0.11)


def test_bars_are_as_long_as_their_shares_when_drawn():
    real, synthetic = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.2, 0.0])
    figure = figures.draw_bars(["a", "b", "c"], real, synthetic, rest=("2 others", 0.0, 0.4), says="x")
    bars = list(read_svg(figure).iter("rect"))
    widths = np.array([float(str(bar.get("width"))) for bar in bars]).reshape(3, 2)
    np.testing.assert_allclose(widths / widths.max(), np.column_stack([real, synthetic]) / 0.6, atol=1e-3)
    assert [bar.get("class") for bar in bars[:2]] == ["bar real", "bar synthetic"]
    assert "2 others" in read_texts(figure)
    assert "0.0% / 40.0%" in read_texts(figure)


@given(cells=st.integers(1, 1000))
def test_merged_neighbours_add_up_when_there_are_too_many(cells):
    real = np.arange(cells, dtype=float)
    labels, merged, other = figures.merge_neighbours([str(cell) for cell in range(cells)], real, real[::-1])
    assert len(labels) == len(merged) == len(other) <= figures.MOST_STEPS
    assert merged.sum() == other.sum() == real.sum()
    assert labels[0].startswith("0")
    assert labels[-1].endswith(str(cells - 1))


def read_heat_map(figure: str, count: int) -> list[list[str]]:
    """Paints the rectangles of a heat map's paths into a grid of shades."""
    grid = [[""] * count for _ in range(count)]
    group = next(read_svg(figure).iter("g"))
    for path in group:
        for column, row, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", str(path.get("d"))):
            for place in range(int(column), int(column) + int(length)):
                assert grid[int(row)][place] == ""
                grid[int(row)][place] = str(path.get("class"))
    return grid


def shade_plainly(value: float, *, difference: bool) -> str:
    """The same borders, one comparison at a time."""
    if not difference:
        return f"level{max(k for k, step in enumerate(figures.DEPENDENCE_STEPS[:-1]) if value >= step)}"
    level = sum(abs(value) >= step for step in figures.DIFFERENCE_STEPS)
    return "" if not level else ("more" if value > 0 else "less") + str(level)


@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("count", [2, 10, 98])
def test_heat_map_shades_every_pair_when_drawn_in_runs(count, difference):
    rng = np.random.default_rng(count)
    matrix = rng.uniform(-1.0 if difference else 0.0, 1.0, (count, count)) ** 3
    matrix[0, 1], matrix[1, 0] = 0.0, 0.05  # on a border
    matrix = np.round(matrix, 1 if count == 98 else 3)
    names = [f"c{place}" for place in range(count)]
    grid = read_heat_map(figures.draw_heat_map(matrix, names, difference=difference, says="x"), count)
    for row in range(count):
        for column in range(count):
            wanted = "" if row == column else shade_plainly(matrix[row, column], difference=difference)
            assert grid[row][column] == wanted


@pytest.mark.parametrize("count", [2, 16, 17, 60, 98, 300])
def test_heat_map_numbers_do_not_run_into_each_other_when_there_are_many(count):
    figure = figures.draw_heat_map(np.eye(count), ["name"] * count, difference=False, says="x")
    texts = list(read_svg(figure).iter("text"))
    top = sorted(float(str(t.get("x"))) for t in texts if "middle" in str(t.get("class")))
    left = sorted(float(str(t.get("y"))) for t in texts if "end" in str(t.get("class")))
    assert min(np.diff(top[1:])) >= figures.LEAST_APART - 0.1 if len(top) > 2 else True
    assert min(np.diff(left)) >= 12.0
    assert len(figure) < 5_000 + 60 * count


def draw_all(labels: list[str]) -> dict[str, str]:
    shares = np.linspace(0.0, 1.0, len(labels))
    square = np.outer(shares, shares)
    scale = figures.Scale(start=0.0, best=1.0)
    return {
        "bars": figures.draw_bars(labels, shares, shares, says=labels[0]),
        "profile": figures.draw_profile(labels, shares, shares, missing=(0.1, 0.2), says=labels[0]),
        "heat map": figures.draw_heat_map(square, labels, difference=False, says=labels[0]),
        "difference": figures.draw_heat_map(square - 0.5, labels, difference=True, says=labels[0]),
        "key": figures.draw_heat_key(difference=True),
        "scale": figures.draw_scale(
            synthetic=0.4, floor=None, ceiling=0.5, scale=scale, ends=(labels[0], labels[1]), says=labels[0]
        ),
    }


@pytest.mark.parametrize("name", list(draw_all(["a", "b"])))
def test_figure_stays_one_picture_with_a_text_alternative_when_names_are_hostile(name):
    root = read_svg(draw_all(list(HOSTILE))[name])
    assert root.get("role") == "img"
    assert root.get("aria-label")
    known = {"svg", "g", "path", "rect", "circle", "text", "title"}
    assert {element.tag for element in root.iter()} <= known
    for element in root.iter():
        assert not {key for key in element.attrib if key.startswith(("on", "href", "style"))}
        assert len(element.text or "") <= 120
