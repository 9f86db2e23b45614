"""Numbers in a public range, and enums that are numbers in truth."""

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal

from dpwgan.errors import quote
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import HigherColumn, NumericColumn
from dpwgan.table.specs.keys import MAX_CATEGORIES, MAX_WHOLE_NUMBER, MISSING_KEYS, Keys, count_codes, is_finite

RANGE_KEYS = {"min", "max", "bins"}
# Steps are counted in int64, and doubles are cast to it.
_MOST_STEPS = 1 << 62
NUMBER_KEYS = RANGE_KEYS | MISSING_KEYS | {"above", "decimals"}


def parse_number(keys: Keys) -> NumericColumn:
    """Reads an integer, a float or an enum with 'treat_as'. Raises: SpecsError."""
    extra: tuple[str, ...] = ()
    if "treat_as" in keys:
        keys.refuse_beside("treat_as", "values", "domain_from", "values_from", "domain_privacy", "width")
        if not keys.any_of("count", "maxval"):
            raise keys.refuse("'treat_as' needs 'count' or 'maxval'")
        integer, low, high = True, 0, count_codes(keys) - 2
        if high < low:
            raise keys.refuse("'treat_as' needs at least one number below its not-available code")
        extra = (str(high + 1),)
    else:
        integer = keys["type"] == "integer"
        for key in ("min", "max"):
            if key not in keys:
                raise keys.refuse(f"the key {key!r} is missing: the range of a number must be public")
        low, high = keys["min"], keys["max"]
    if low > high:
        raise keys.refuse("'min' is above 'max'")
    if integer and (low != int(low) or high != int(high)):
        raise keys.refuse("'min' and 'max' of an integer must be whole numbers")
    if integer and max(abs(low), abs(high)) > MAX_WHOLE_NUMBER:
        raise keys.refuse("its range goes beyond 2^53, where whole numbers are no longer exact")
    if not math.isfinite(float(high) - float(low)):
        raise keys.refuse("its range is too wide for a double")
    decimals = int(keys.get("decimals", 0 if integer else _default_decimals(keys, low, high)))
    width = int(keys.get("width", 0))
    if width:
        keys.refuse_beside("width", "decimals")
    missing = keys.read_missing(width=width, decimals=decimals, extra=extra)
    column = NumericColumn(
        name=keys.name,
        minimum=float(low),
        maximum=float(high),
        integer=integer,
        decimals=decimals,
        width=width,
        missing=missing,
        edges=_read_edges(keys, low=low, high=high, integer=integer),
        out_of_domain=keys.read_out_of_domain(missing),
    )
    first, last = column.find_ends()
    if first > last:
        raise keys.refuse("no number with the digits it may have lies in its range")
    if max(abs(first), abs(last)) > _MOST_STEPS:
        raise keys.refuse("its range holds more numbers than can be counted")
    return _tell_above(keys, column) if "above" in keys else column


def _tell_above(keys: Keys, difference: NumericColumn) -> HigherColumn:
    """The column whose numbers lie so far above those of another one."""
    keys.refuse_beside("above", "bins", "width")
    base = keys.earlier
    if not isinstance(base, NumericColumn) or isinstance(base, HigherColumn) or base.edges is not None or base.width:
        raise keys.refuse("'above' must name a number without 'bins' and 'width' that is not told above another one")
    steps_of_base, remainder = divmod(difference.steps_per_unit, base.steps_per_unit)
    if remainder:
        raise keys.refuse(f"it needs the digits of {quote(base.name)}: as many 'decimals', or more")
    if base.missing and not difference.missing:
        raise keys.refuse(f"{quote(base.name)} may be missing: so may it, and 'missing' or 'optional' must say so")
    bounds = zip(base.find_ends(), difference.find_ends(), strict=True)
    low, high = (start * steps_of_base + between for start, between in bounds)
    if max(abs(low), abs(high)) > MAX_WHOLE_NUMBER:
        raise keys.refuse("above the other column's numbers its own go beyond 2^53 steps, which are no longer exact")
    codes = (
        number * difference.steps_per_unit for number in map(read_number, difference.missing) if number is not None
    )
    if any(low <= code <= high for code in codes):
        raise keys.refuse("beside 'above', 'missing' must lie outside the range of its numbers")
    minimum, maximum = (float(Decimal(end) / difference.steps_per_unit) for end in (low, high))
    told = {"above": base.name, "least": difference.minimum, "most": difference.maximum}
    return HigherColumn(**{**vars(difference), **told, "minimum": minimum, "maximum": maximum})


def _default_decimals(keys: Keys, low: float, high: float) -> int:
    """Digits behind the point that leave about six significant ones at the largest number of the range.

    Above another column, as many as that has.
    """
    if isinstance(keys.earlier, NumericColumn):
        return keys.earlier.decimals
    largest = max(abs(low), abs(high))
    return 6 if largest == 0 else min(17, max(0, 6 - math.floor(math.log10(largest))))


def _read_edges(keys: Keys, *, low: float, high: float, integer: bool) -> tuple[float, ...] | None:
    bins = keys.get("bins")
    if bins is None:
        return None
    if isinstance(bins, list | tuple):
        if not all(is_finite(edge) for edge in bins):
            raise keys.refuse("'bins' must be finite")
        # The last border may stand twice: the largest number is then a bin of its own.
        if not _are_rising(bins[:-1] if len(bins) > 2 and bins[-1] == bins[-2] else bins):
            raise keys.refuse("the borders in 'bins' must increase")
        if bins[0] != low or bins[-1] != high:
            raise keys.refuse("the borders in 'bins' must go from the column's 'min' to its 'max'")
        if integer and any(edge != int(edge) for edge in bins):
            raise keys.refuse("the borders in 'bins' of an integer must be whole numbers")
        return tuple(float(edge) for edge in bins)
    bins = int(bins)
    if bins > MAX_CATEGORIES:
        raise keys.refuse(f"'bins' must be at most {MAX_CATEGORIES}")
    if integer:
        if bins > high - low:
            raise keys.refuse("'bins' must be at most 'max' minus 'min', so that each holds a whole number")
        # A bin holds the numbers from its left border up to the next border; each gets its share of whole numbers.
        span = int(high) - int(low) + 1
        return (*(float(int(low) + index * span // bins) for index in range(bins)), float(high))
    edges = (*(low + (high - low) * (index / bins) for index in range(bins)), float(high))
    if not _are_rising(edges):
        raise keys.refuse("'bins' are more than its range can be cut into")
    return tuple(float(edge) for edge in edges)


def _are_rising(edges: Sequence[float]) -> bool:
    return all(left < right for left, right in itertools.pairwise(edges))
