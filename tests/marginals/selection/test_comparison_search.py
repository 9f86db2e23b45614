"""What may be held against what, and whether it is found among many numbers by how near it lies in drafted rows."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.selection.comparison_questions import find_compared
from dpwgan.marginals.selection.comparison_search import Search
from dpwgan.marginals.selection.comparisons import DIFFERENCE, PRODUCT, SUM, Number, Sides
from dpwgan.table.calendar import DAY, CalendarColumn
from dpwgan.table.schema import CategoricalColumn, NumericColumn
from tests.marginals.tables import lay_out

Levels = npt.NDArray[np.int64]

ROWS = 3_000
DIFFERENCE_OF_THREE = Sides(3, (0, 1, 2), DIFFERENCE)
(ANY,) = lay_out_attributes(lay_out(NumericColumn(name="any", minimum=0, maximum=999, integer=True)))


def search(
    steps: Mapping[int, Levels],
    *,
    units: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    compared: Sequence[int] | None = None,
    levels: int = 10**6,
) -> Search:
    """Numbers in steps of their units, whole ones unless it is said; all are compared, unless only some are.

    Numbers below 0 are missing.
    """
    units = units or ["1/1"] * len(steps)
    return Search(
        facts=[replace(ANY, unit=unit, levels=levels, first_day=0 if unit == "day" else None) for unit in units],
        sizes=sizes or [50] * len(units),
        compared=list(steps) if compared is None else compared,
        drafted={place: Number(known, known >= 0) for place, known in steps.items()},
    )


def draw(many: int, *, seed: int = 0, most: int = 500) -> list[Levels]:
    return list(np.random.default_rng(seed).integers(1, most, (many, ROWS)))


def find(searched: Search, most: int = 32) -> set[Sides]:
    return set(searched.find_nearest(most))


def test_numbers_are_compared_with_those_of_their_kind():
    day = {"format": "%Y-%m-%d", "step": DAY, "written": "date"}
    columns = (
        NumericColumn(name="whole", minimum=0, maximum=1_999, integer=True),
        NumericColumn(name="money", minimum=0, maximum=50, integer=False, decimals=2),
        CalendarColumn(name="begin", first=0, steps=900, **day),  # type: ignore[arg-type]
        CalendarColumn(name="end", first=30 * DAY, steps=900, **day),  # type: ignore[arg-type]
        NumericColumn(name="few", minimum=0, maximum=9, integer=True),
        CategoricalColumn(name="kind", tokens=tuple("abc"), integer=False),
        NumericColumn(name="binned", minimum=0, maximum=999, integer=True, edges=(0.0, 500.0, 999.0)),
    )
    facts = lay_out_attributes(lay_out(*columns))
    assert find_compared(facts, least_levels=129) == (0, 1, 2, 3)
    assert find_compared(facts, least_levels=2) == (0, 1, 2, 3, 4)
    assert [facts[place].origin for place in (0, 2, 3)] == [0, 0, -30]
    assert [facts[place].steps for place in (0, 1, 2)] == [1, 100, 1]
    # Days of a quarter are told apart by how they compare, however few they are.
    quarter = [replace(facts[place], levels=90) for place in (0, 2, 3)]
    assert find_compared(quarter, least_levels=129) == (1, 2)
    # Times of day are no numbers.
    times = replace(facts[0], unit="time of day by 60000000 microseconds")
    assert find_compared([facts[0], times, facts[1]], least_levels=129) == (0, 2)
    first, second = draw(2)
    assert not find(search({0: first, 1: second}, units=["1/1", times.unit]))
    assert find(search({0: first, 1: second}, units=[times.unit] * 2)) == {Sides(1, (0,))}


def test_of_two_numbers_the_finer_one_is_drawn_again_or_that_of_more_groups_or_the_later_one():
    first, second = draw(2)
    both = {0: first, 1: second}
    assert find(search(both)) == {Sides(1, (0,))}
    assert find(search(both, units=["1/100", "1/1"])) == {Sides(0, (1,))}
    assert find(search(both, units=["1/1", "1/100"])) == {Sides(1, (0,))}
    assert find(search(both, sizes=[50, 30])) == {Sides(1, (0,))}
    assert find(search(both, sizes=[50, 20])) == {Sides(0, (1,))}
    assert not find(search(both, sizes=[50, 20], units=["1/1", "1/10"]))


def test_a_day_is_another_one_and_the_days_between():
    begin, days, other = draw(3)
    units = ["day", "1/1", "1/1", "day"]
    found = find(search({0: begin, 1: days % 90, 2: other, 3: begin + days % 90}, units=units))
    # Where the whole number has nothing to do with what lies between, it only brings sums nearer to the mean of it.
    assert found >= {Sides(3, (0, 1)), Sides(3, (0,)), Sides(0, (3, 1), DIFFERENCE)}
    assert not any(2 in (sides.own, *sides.others) and {0, 3} & {sides.own, *sides.others} for sides in found)
    cents = find(search({0: begin, 1: days % 90, 3: begin + days % 90}, units=["day", "1/100", "1/1", "day"]))
    assert cents == {Sides(3, (0,))}


@pytest.mark.parametrize(("many", "parts"), [*itertools.product((5, 15), (2, 3, 4)), (40, 4)])
def test_sums_are_found_among_many_numbers(many, parts):
    numbers = draw(many - 1)
    found = search(dict(enumerate([*numbers, sum(numbers[:parts])]))).find_nearest(32)
    assert found[0] == Sides(many - 1, tuple(range(parts)))
    assert len(found) == len(set(found)) <= 32
    assert max(Counter(sides.own for sides in found).values()) <= max(4, 64 // many)


def test_days_that_lie_near_each_other_take_no_room_of_sums():
    numbers, days = draw(6), draw(5, seed=1, most=60)
    alone = search(dict(enumerate(numbers))).find_nearest(32)
    beside = search(dict(enumerate([*numbers, *days])), units=["1/1"] * 6 + ["day"] * 5).find_nearest(32)
    assert [sides for sides in beside if sides.own < 6] == alone
    assert {sides.own for sides in beside} >= {7, 8, 9, 10}


def test_what_a_sum_of_two_says_of_either_part_is_a_difference_too():
    less, more, off = draw(1, most=50)[0], draw(1, seed=1)[0], draw(1, seed=2, most=9)[0]
    # As far as groups tell.
    found = find(search({0: less, 1: more, 2: less + more + off}))
    assert {Sides(2, (0, 1)), Sides(1, (2, 0), DIFFERENCE)} <= found
    assert Sides(0, (2, 1), DIFFERENCE) not in found
    # Cents in one part, and it has to be that.
    found = find(search({0: 100 * less, 1: more, 2: 100 * (less + more)}, units=["1/100", "1/1", "1/100"]))
    assert {Sides(2, (0, 1)), Sides(0, (2, 1), DIFFERENCE)} <= found


def test_a_difference_is_what_a_sum_of_three_leaves_too():
    base, bonus, tax = draw(3)
    found = find(search({0: 9 * base, 1: bonus, 2: tax, 3: 9 * base + bonus + tax}))
    assert found >= {Sides(0, (3, 1, 2), DIFFERENCE)}
    assert DIFFERENCE_OF_THREE.join([np.array([9]), np.array([2]), np.array([4])], [replace(ANY)] * 4).tolist() == [3]


def test_sums_are_looked_at_where_drafted_rows_show_no_part_of_them_but_means_add_up():
    rng = np.random.default_rng(0)
    parts = [9 * own for own in draw(1)] + draw(2, seed=5, most=50)
    total = rng.permutation(sum(parts))
    searched = search(dict(enumerate([*parts, total, np.full(ROWS, -1)])))
    right = Sides(3, (0, 1, 2))
    assert right not in searched.find_nearest(32)
    assert right in searched.list_sums(64)
    assert Sides(0, (3, 1, 2), DIFFERENCE) in searched.list_sums(64)
    # What is a tenth too much, a day, and what has fewer groups is none.
    assert right not in search(dict(enumerate([*parts, total + total // 10]))).list_sums(64)
    assert not search(dict(enumerate([*parts, total])), units=["day"] * 4).list_sums(64)
    assert right not in search(dict(enumerate([*parts, total])), sizes=[50, 50, 50, 24]).list_sums(64)
    assert len(search(dict(enumerate(draw(30)))).list_sums(5)) <= 10


def test_products_are_of_whole_numbers_and_another_one():
    often, price, other = draw(3)
    often = often % 9 + 1
    cents = ["1/1", "1/100", "1/100", "1/1"]
    found = find(search({0: often, 1: price, 2: often * price, 3: other}, units=cents, compared=(1, 2, 3)))
    assert Sides(2, (0, 1), PRODUCT) in found
    assert all(cents[sides.own] == "1/100" for sides in found if sides.how == PRODUCT and 1 in sides.others)
    # Nothing is taken a number of cents times, nor is a day.
    for units in (["1/100", "1/100", "1/100"], ["1/1", "day", "day"], ["1/1", "1/100", "1/1"]):
        found = find(search({0: often, 1: price, 2: often * price}, units=units))
        assert not any(sides.how == PRODUCT and sides.own == 2 for sides in found)


def test_nothing_is_counted_that_64_bits_do_not_hold():
    numbers = draw(2)
    numbers += [numbers[0] * numbers[1], numbers[0] + numbers[1]]

    def list_ways(levels: int) -> set[str]:
        return {sides.how for sides in search(dict(enumerate(numbers)), levels=levels).find_nearest(99)}

    assert list_ways(1 << 29) == {SUM, DIFFERENCE, PRODUCT}
    assert list_ways(1 << 53) == {SUM, DIFFERENCE}
    assert not find(search({0: numbers[0], 1: numbers[1]}, units=["1/1", "1/1000000000"], levels=1 << 53))


def test_numbers_that_no_row_has_together_are_no_matter():
    first, second, third = draw(3)
    is_first = np.arange(ROWS) % 2 == 0
    found = find(search({0: np.where(is_first, first, -1), 1: np.where(is_first, -1, second), 2: third}))
    assert {Sides(2, (0,)), Sides(2, (1,))} <= found


def test_what_rows_that_have_a_number_lack_is_no_part_of_it():
    """What is reserved of claims that are closed is 0: it is of others that it could be told from."""
    opened, taken, reserve = draw(3)
    is_open = np.arange(ROWS) % 3 == 0
    reserve = np.where(is_open | (np.arange(ROWS) % 50 == 1), reserve, 0)
    closed = np.where(is_open, -1, opened + taken)
    found = find(search({0: opened, 1: closed, 2: reserve}, units=["day", "day", "1/1"]))
    assert found == {Sides(1, (0,))}
