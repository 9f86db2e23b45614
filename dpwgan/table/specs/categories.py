"""Enums: lists of cells that are written out, counted, taken from a codebook or left to the data."""

import functools
from collections.abc import Sequence

from dpwgan.table.numerals import WHOLE_NUMBER
from dpwgan.table.schema import CategoricalColumn, DomainSource, TrainedColumn, UndiscoveredColumn, write_whole
from dpwgan.table.specs.keys import MAX_CATEGORIES, MISSING_KEYS, Keys, count_codes, read_item, write_item
from dpwgan.table.specs.numbers import parse_number

LIST_KEYS = {"count", "maxval", "values", "domain_from", "values_from", "domain_privacy", "treat_as", "ordered"}
ENUM_KEYS = LIST_KEYS | MISSING_KEYS | {"width", "bins"}


def parse_enum(keys: Keys) -> TrainedColumn | UndiscoveredColumn:
    """Reads an enum. Raises: SpecsError."""
    if "treat_as" in keys:
        return parse_number(keys)
    if "values_from" in keys:
        return _parse_undiscovered(keys)
    for key, beside in (("bins", "treat_as"), ("domain_privacy", "values_from")):
        if key in keys:
            raise keys.refuse(f"the key {key!r} needs {beside!r} on an enum")
    lists = [key for key in ("count", "maxval", "values") if key in keys]
    if "domain_from" in keys:
        keys.refuse_beside("domain_from", "values")
    elif not lists:
        raise keys.refuse("an enum needs one of 'count', 'maxval', 'values', 'domain_from' and 'values_from'")
    if len(lists) > 1:
        raise keys.refuse(f"{lists[0]!r} and {lists[1]!r} are both given; keep one")
    codes = 0 if keys.any_of("values", "domain_from") else count_codes(keys)
    if codes > MAX_CATEGORIES:
        raise keys.refuse(
            f"its {codes} codes are more than {MAX_CATEGORIES}, which need a list ('values' or 'domain_from') or"
            ' "treat_as": "number-or-missing"'
        )
    width = int(keys.get("width", 0))
    missing = keys.read_missing(width=width)
    missing_numbers = {read_item(code) for code in missing}
    domain: DomainSource = "specs"
    values: Sequence[str]
    if "values" in keys:
        keys.refuse_beside("values", "width")
        values = [write_item(value) for value in keys["values"]]
        both = sum(read_item(value) in missing_numbers for value in values)
        if both:
            raise keys.refuse(f"{both} of its 'missing' codes are also in 'values'; list each in one place")
    else:
        # Lists that are implied name the missing codes too; the explicit 'missing' says which those are.
        if "domain_from" in keys:
            domain, values = "codebook", _list_codes(keys, width=width)
        else:
            values = _write_codes(codes, width)
        if missing_numbers:
            values = [value for value in values if read_item(value) not in missing_numbers]
    if not values:
        raise keys.refuse("every one of its codes is in 'missing'")
    integer = codes > 0 or (
        len({read_item(value) for value in values}) == len(values) and all(map(WHOLE_NUMBER.fullmatch, values))
    )
    out_of_domain = keys.read_out_of_domain(missing)
    if out_of_domain == "clamp" and not integer:
        raise keys.refuse('"out_of_domain": "clamp" needs numbers, and its cells are not all whole numbers')
    return CategoricalColumn(
        name=keys.name,
        tokens=tuple(values) + missing,  # columns of as many codes share them
        missing=missing,
        integer=integer,
        ordered=keys.get("ordered"),
        out_of_domain=out_of_domain,
        domain=domain,
    )


@functools.cache
def _write_codes(count: int, width: int) -> tuple[str, ...]:
    return tuple(write_whole(code, width=width) for code in range(count))


def _parse_undiscovered(keys: Keys) -> UndiscoveredColumn:
    keys.refuse_beside("values_from", "values", "domain_from", "width", "bins", "out_of_domain", "ordered")
    if "domain_privacy" not in keys:
        raise keys.refuse(
            "'values_from' reads the column's domain from private rows, so 'domain_privacy' must say on what terms:"
            ' "private" (found by a private selection, paid for from the budget) or "waived" (as it stands, and named'
            " in the claim as not covered)"
        )
    missing = keys.read_missing()
    if keys["domain_privacy"] == "private" and not missing:
        raise keys.refuse(
            "a private list needs a cell for those that are not released: 'missing' says which, or 'optional' that it "
            "is the empty one"
        )
    return UndiscoveredColumn(
        name=keys.name,
        privacy=keys["domain_privacy"],
        missing=missing,
        integer=keys.any_of("count", "maxval"),
    )


def _list_codes(keys: Keys, *, width: int) -> list[str]:
    if keys.codebook is None:
        raise keys.refuse("its domain comes from a codebook, and none is given (--codebook)")
    codes = keys.codebook.codes(keys.name)
    if not all(WHOLE_NUMBER.fullmatch(code) for code in codes):
        if keys.any_of("count", "maxval", "width"):
            raise keys.refuse("the codebook's codes are not whole numbers: 'count', 'maxval', 'width' do not apply")
        return list(codes)
    # Tables hold plain numbers; the zeros in front are those of the fixed-width file that the codebook describes.
    numbers = list(dict.fromkeys(int(code) for code in codes))
    if keys.any_of("count", "maxval"):
        largest = count_codes(keys) - 1
        numbers = [number for number in numbers if number < largest] + [largest]
    return [write_whole(number, width=width) for number in numbers]
