"""Builds specs/nist2018-match3.json, for the 1940 census table of NIST's 2018 synthetic data challenge, Match 3.

    python scripts/build_nist2018_match3.py PACK [OUTPUT]

PACK is the competitor pack: a folder with codebook.cbk and colorado-specs.json. The challenge was decided on other
states than Colorado, so a column's domain is what the codebook lists for the whole country, never what one state's
largest code happens to be; that largest code is legal as well. No record is read.

Treatment of each column: Srivastava and Alzantot 2019, section 7.1. Their exception, the domains of SEA, METAREA,
METAREAD, COUNTY and CITY taken from the private rows, is not made here: these have public lists too.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dpwgan.table.codebook import Codebook, read_codebook  # noqa: E402
from dpwgan.table.encoded import TableShape, lay_out_spans  # noqa: E402
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema  # noqa: E402
from dpwgan.table.specs import parse_specs  # noqa: E402

# General column: (detailed column, k). The general code is the detailed one divided by k, rounded down, so training
# the detailed one and deriving the general one loses nothing; the other way round would lose the detail.
PAIRS = {
    "METAREA": ("METAREAD", 10),
    "GQTYPE": ("GQTYPED", 100),
    "OWNERSHP": ("OWNERSHPD", 10),
    "RACE": ("RACED", 100),
    "HISPAN": ("HISPAND", 100),
    "BPL": ("BPLD", 100),
    "MBPL": ("MBPLD", 100),
    "FBPL": ("FBPLD", 100),
    "MTONGUE": ("MTONGUED", 100),
    "HIGRADE": ("HIGRADED", 10),
    "EDUC": ("EDUCD", 10),
    "EMPSTAT": ("EMPSTATD", 10),
    "CLASSWKR": ("CLASSWKRD", 10),
    "MIGRATE5": ("MIGRATE5D", 10),
    "VETSTAT": ("VETSTATD", 10),
}

# Column without a list of its own: (column with the same classification, codes of its own, code for the rest, why).
SIBLINGS: dict[str, tuple[str, tuple[int, ...], int, str]] = {
    "OCC": ("UOCC", (0,), 997, "the 1940 classification of occupations, and 0 for persons without one"),
    "IND": ("UIND", (0,), 997, "the 1940 classification of industries, and 0 for persons without one"),
    "MIGMET5": ("METAREAD", (9999,), 9999, "the same metropolitan areas, and 9999 for unknown"),
    "MIGCITY5": ("CITY", (9999,), 9999, "the same cities, and 9999 for unknown"),
}

# County codes (ICPSR): ten times the county's FIPS code, plus 5 for most of those that were renamed or merged later.
LARGEST_COUNTY = 8400
COUNTY_STEP = 5

NUMBERS: dict[str, tuple[int, int, str]] = {
    "AGE": (0, 135, "years; the codebook's largest is 135"),
    "FAMSIZE": (1, 29, "members; the codebook's largest is 29"),
    "ENUMDIST": (0, 9999, "a district's running number, four digits in the codebook's record layout"),
    "SUPDIST": (0, 999, "a district's running number, three digits in the codebook's record layout"),
}

# Numbers with codes that mean not available. 0 is such a code where it stands for "does not apply", so that the many
# persons it holds for are not smeared over the neighbouring numbers.
NUMBERS_OR_MISSING: dict[str, tuple[int, int, tuple[int, ...], str]] = {
    "RENT": (1, 9997, (0, 9998, 9999), "dollars a month; 0 does not apply, 9998 no cash rent, 9999 not available"),
    "VALUEH": (1, 9999997, (0, 9999998, 9999999), "dollars; 0 and 9999999 do not apply, 9999998 not available"),
    "INCWAGE": (1, 999997, (0, 999998, 999999), "dollars a year; 0 none, 999998 not available, 999999 does not apply"),
    "AGEMARR": (12, 99, (0,), "years; the codebook lists 12 to 99, and 0 for does not apply"),
    "CHBORN": (1, 87, (0, 99), "children plus one; the codebook lists 1 to 87, 0 does not apply, 99 not available"),
    "DURUNEMP": (1, 998, (0, 999), "weeks; 0 does not apply, 999 not available"),
    "WKSWORK1": (1, 52, (0,), "weeks of a year; 0 none or does not apply"),
    "HRSWORK1": (1, 98, (0, 99), "hours of a week; 0 none or does not apply, 99 not available"),
    "OCCSCORE": (1, 80, (0,), "a score that each occupation has; 0 no occupation"),
    "SEI": (1, 96, (0,), "a score that each occupation has; 0 no occupation"),
    "PRESGL": (1, 815, (0,), "a score in tenths that each occupation has; 0 no occupation"),
    "ERSCOR50": (0, 1000, (9999,), "a percentage in tenths; 9999 no occupation"),
    "EDSCOR50": (0, 1000, (9999,), "a percentage in tenths; 9999 no occupation"),
    "NPBOSS50": (0, 1000, (9999,), "a percentage in tenths; 9999 no occupation"),
}

PERCENTAGES = ("ERSCOR50", "EDSCOR50", "NPBOSS50")

POPULATION_BORDERS = [0, 1, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 99999]


def build_specs(*, codebook: Codebook, challenge: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Gives the specs of each of the challenge's columns, in its order, checked against codebook and challenge.

    Raises: ValueError if a pair, a list or a range does not hold for the codebook and the challenge's largest codes.
    """
    maxval = {name: int(keys["maxval"]) for name, keys in challenge.items()}
    general = {detailed: name for name, (detailed, _) in PAIRS.items()}
    specs: dict[str, dict[str, Any]] = {}
    for name in challenge:
        if name in PAIRS:
            specs[name] = _derive_general(name, codebook=codebook, maxval=maxval)
        elif name in NUMBERS:
            low, high, why = NUMBERS[name]
            specs[name] = {"description": f"Number: {why}.", "type": "integer", "min": low, "max": high}
        elif name in NUMBERS_OR_MISSING:
            low, high, missing, why = NUMBERS_OR_MISSING[name]
            keys = {"type": "integer", "min": low, "max": high, "missing": list(missing)}
            specs[name] = {"description": f"Number or not available: {why}."} | keys
            if name in PERCENTAGES:
                specs[name]["out_of_domain"] = "missing"  # the pack itself gives them four digits and no range
        elif name in ("CITYPOP", "URBPOP"):
            specs[name] = {
                "description": "Number, in bins: hundreds of inhabitants, five digits in the codebook's record layout."
                " From villages to the largest cities, on a scale where one straight line would lose the small ones.",
                "type": "integer",
                "min": POPULATION_BORDERS[0],
                "max": POPULATION_BORDERS[-1],
                "bins": POPULATION_BORDERS,
            }
        elif name in SIBLINGS:
            sibling, own, rest, why = SIBLINGS[name]
            codes = {*_list_codes(codebook, sibling), *own, maxval[name]}
            specs[name] = _list_values(f"Categorical, the codebook's list of {sibling}: {why}.", codes, rest=rest)
        elif name in ("COUNTY", "MIGCOUNTY"):
            codes = {*range(0, LARGEST_COUNTY + 1, COUNTY_STEP), 9997, 9999, maxval[name]}
            specs[name] = _list_values(
                "Categorical, geographic: every county code there can be in any state, ten times a county's FIPS code,"
                " plus 5 where it was later renamed or merged; 9997 several, 9999 unknown.",
                codes,
                rest=9999,
            )
        elif name in ("SEA", "MIGSEA5"):
            specs[name] = {
                "description": "Categorical, geographic: any code of the three digits that the codebook's record"
                " layout gives it; the numbers run through the whole country.",
                "type": "enum",
                "count": 1000,
            }
        elif name == "WARD":
            specs[name] = {
                "description": "Categorical, geographic: a city's wards, numbered from 1; a code above 99 counts as"
                " 99.",
                "type": "enum",
                "count": 100,
                "out_of_domain": "clamp",
            }
        else:
            why = "Categorical, the codebook's list"
            why += ", with the challenge's largest code" if maxval[name] not in _list_codes(codebook, name) else ""
            why += f"; {general[name]} is derived from it." if name in general else "."
            specs[name] = _list_values(why, {*_list_codes(codebook, name), maxval[name]})
    _check_largest_codes(specs, maxval=maxval)
    return specs


def _list_codes(codebook: Codebook, name: str) -> set[int]:
    return {int(code) for code in codebook.codes(name)}


def _list_values(description: str, codes: set[int], *, rest: int | None = None) -> dict[str, Any]:
    keys: dict[str, Any] = {"description": description, "type": "enum", "values": sorted(codes - {rest})}
    if rest is not None:
        keys |= {"missing": [rest], "out_of_domain": "missing"}
    return keys


def _derive_general(name: str, *, codebook: Codebook, maxval: Mapping[str, int]) -> dict[str, Any]:
    detailed, k = PAIRS[name]
    reached = {code // k for code in _list_codes(codebook, detailed) | {maxval[detailed]}}
    if not _list_codes(codebook, name) <= reached or maxval[detailed] // k != maxval[name]:
        raise ValueError(f"{name} is not {detailed} divided by {k} in this codebook and challenge.")
    return {
        "description": f"Derived: each of its codes is one or more codes of {detailed} without the last digits.",
        "derived": {"from": detailed, "floordiv": k},
    }


def _check_largest_codes(specs: Mapping[str, Any], *, maxval: Mapping[str, int]) -> None:
    schema = parse_specs(specs, sha256="")
    for name, largest in maxval.items():
        column = schema.by_name[name]
        legal = True
        if isinstance(column, CategoricalColumn):
            legal = str(largest) in column.tokens
        elif isinstance(column, NumericColumn):
            legal = str(largest) in column.missing or column.minimum <= largest <= column.maximum
        if not legal:
            raise ValueError(f"{name}: the challenge's largest code {largest} would be refused.")


def write_specs(specs: Mapping[str, Mapping[str, Any]]) -> str:
    """Writes specs as JSON with a line for each column, so that a change of one column is a change of one line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(keys)}" for name, keys in specs.items())
    return "{\n" + lines + "\n}\n"


def describe(schema: Schema) -> str:
    """Gives the number of columns of each kind and the width of an encoded row, in one line."""
    numbers = [column for column in schema.columns if isinstance(column, NumericColumn)]
    binned = sum(column.edges is not None for column in numbers)
    missing = sum(bool(column.missing) and column.edges is None for column in numbers)
    categorical = sum(isinstance(column, CategoricalColumn) for column in schema.columns)
    derived = sum(isinstance(column, DerivedColumn) for column in schema.columns)
    width = TableShape(records=0, spans=lay_out_spans(schema)).width
    return (
        f"{len(schema.columns)} columns: {categorical} categorical, {len(numbers) - binned - missing} numbers,"
        f" {missing} numbers or not available, {binned} numbers in bins, {derived} derived; encoded width {width}."
    )


def read_pack(pack: Path) -> dict[str, dict[str, Any]]:
    """Builds the specs from a competitor pack."""
    challenge = json.loads((pack / "colorado-specs.json").read_text(encoding="utf-8"))
    return build_specs(codebook=read_codebook(pack / "codebook.cbk"), challenge=challenge)


def main() -> int:
    """Reads the pack named on the command line and writes the specs."""
    parser = argparse.ArgumentParser(description="Build the specs of the 2018 challenge's 1940 census table.")
    parser.add_argument("pack", type=Path, help="folder with codebook.cbk and colorado-specs.json")
    parser.add_argument("output", type=Path, nargs="?", default=ROOT / "specs" / "nist2018-match3.json")
    arguments = parser.parse_args()
    specs = read_pack(arguments.pack)
    arguments.output.write_text(write_specs(specs), encoding="utf-8")
    sys.stdout.write(describe(parse_specs(specs, sha256="")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
