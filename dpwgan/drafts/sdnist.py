"""The data dictionaries of NIST's SDNist: JSON, a description and codes with their labels for each feature.

A range stands among the codes as "min" and "max". A code beside a range that goes on where it ends (0 beside 1 to 19)
is a number of it; any other, and one labelled "N/A ...", means not available.
Source: usnistgov/SDNist, data_dictionary.json of the ACS and SBO excerpts.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dpwgan.drafts.entry import Entry, Number, Source, extend_range, join_words, read_number

_NO_CODES = ("description", "link", "details", "values", "min", "max", "step_size")


def recognise(source: Source) -> bool:
    """Whether all it holds are features with a description, and without a type."""
    features = source.members.values()
    told = [isinstance(said, Mapping) and "description" in said and "type" not in said for said in features]
    return bool(told) and all(told)


def read(source: Source) -> Iterator[Entry]:
    """The features."""
    for name, said in source.members.items():
        yield _read_feature(name, said)


def _read_feature(name: str, said: Mapping[str, Any]) -> Entry:
    description = join_words(said.get("description"))
    domain = {**{key: value for key, value in said.items() if key not in _NO_CODES[:4]}, **said.get("values", {})}
    low, high = read_number(domain.get("min")), read_number(domain.get("max"))
    codes = {str(code): str(label) for code, label in domain.items() if code not in _NO_CODES}
    missing = [code for code, label in codes.items() if label.upper().startswith("N/A")]
    if low is None or high is None:
        return Entry(name=name, type="enum", values=list(codes), missing=missing, description=description)
    for code in sorted(codes.keys() - set(missing), key=lambda code: (read_number(code) is None, read_number(code))):
        low, high, is_number = extend_range(low, high, read_number(code))
        missing += [] if is_number else [code]
    step = read_number(domain.get("step_size"))
    whole = isinstance(low, int) and isinstance(high, int) and (step is None or isinstance(step, int))
    return Entry(
        name=name,
        type="integer" if whole else "float",
        minimum=low,
        maximum=high,
        decimals=None if whole or step is None else _count_decimals(step),
        missing=missing,
        description=description,
    )


def _count_decimals(number: Number) -> int:
    """Digits behind the point of a number as Python writes it."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
