"""Makes a population of any size with the 98 columns of specs/nist2018-match3.json: made up, and by public rules alone.

    python benchmarks/census1940.py FOLDER [--rows 661968] [--seed 1940]

FOLDER gets data.csv and data-specs.json, so that benchmarks/estimates.py can run on it. No figure of it is a fact about
anybody; what it shares with the challenge's table is its size, its width, and that columns hang together: people of one
household share their place, their dwelling and its head's background; place decides city, ward and farm; age decides
schooling, marriage and work; schooling decides occupation, occupation industry, scores, weeks and wages; who moved has
another place five years before; questions of the sample line are asked of one person in twenty.

Rows are drawn in pieces, each with a random stream of its own: memory does not grow with --rows, and
the same seed gives the same file. Derived columns follow their rule in the specs.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
import polars as pl  # noqa: E402

from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema  # noqa: E402
from dpwgan.table.specs import read_specs  # noqa: E402

SPECS = ROOT / "specs" / "nist2018-match3.json"
ROWS = 661_968
_PIECE = 100_000  # rows
_COUNTIES = 254

Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Rng = np.random.Generator


class _People:
    """The columns of one piece as they are drawn: codes of categories (places in their lists), or numbers."""

    def __init__(self, schema: Schema, records: int) -> None:
        self.schema, self.records = schema, records
        self.cells: dict[str, Any] = {}

    def put(self, name: str, codes: Any) -> Codes:
        """Fills a column of categories with places in its list, cut to its length."""
        column = self._categories(name)
        places = np.clip(np.broadcast_to(codes, self.records), 0, len(column.tokens) - 1).astype(np.int64)
        self.cells[name] = pl.Series(name, column.tokens, dtype=pl.String).gather(places)
        return places

    def put_numbers(self, name: str, numbers: Any, *, absent: Flags | None = None) -> Codes:
        """Fills a column of numbers; where `absent`, the cell is the column's first missing code."""
        column = self.schema.by_name[name]
        if not isinstance(column, NumericColumn):
            raise TypeError(f"{name} is no column of numbers")
        kept = np.broadcast_to(numbers, self.records)
        whole = np.clip(np.rint(kept), column.minimum, column.maximum).astype(np.int64)
        cells = pl.Series(name, whole).cast(pl.String)
        if absent is not None and absent.any():
            code = pl.lit(column.missing[0])
            cells = pl.select(pl.when(pl.Series(absent)).then(code).otherwise(cells).alias(name)).to_series()
        self.cells[name] = cells
        return whole

    def size(self, name: str) -> int:
        return len(self._categories(name).tokens)

    def _categories(self, name: str) -> CategoricalColumn:
        column = self.schema.by_name[name]
        if not isinstance(column, CategoricalColumn):
            raise TypeError(f"{name} is no column of categories")
        return column

    def to_frame(self) -> pl.DataFrame:
        """Gives all columns in the order of the specs; derived ones follow from their sources."""
        for column in self.schema.columns:
            if isinstance(column, DerivedColumn):
                source = self.schema.by_name[column.source]
                missing = source.missing if isinstance(source, CategoricalColumn | NumericColumn) else ()
                cells = self.cells[column.source]
                rule = {cell: column.derive(cell, available=cell not in missing) for cell in cells.unique().to_list()}
                self.cells[column.name] = cells.replace_strict(rule, return_dtype=pl.String)
        return pl.DataFrame({column.name: self.cells[column.name] for column in self.schema.columns})


def draw_pieces(schema: Schema, *, rows: int, seed: int) -> Iterator[pl.DataFrame]:
    for number, start in enumerate(range(0, rows, _PIECE)):
        rng = np.random.Generator(np.random.PCG64([seed, number]))
        yield _draw_piece(schema, min(_PIECE, rows - start), rng)


def _skewed(rng: Rng, categories: int, size: int, *, power: float) -> Codes:
    """Draws places in a list with the rank-size law."""
    weights = 1.0 / np.arange(1, categories + 1) ** power
    return rng.choice(categories, size=size, p=weights / weights.sum())


def _near(rng: Rng, places: Codes, categories: int, *, reach: int) -> Codes:
    """Draws places in a list that lie near those of another column: what fits, and now and then what does not."""
    return (places + np.rint(rng.standard_normal(places.size) * reach).astype(np.int64)) % categories


def _draw_piece(schema: Schema, records: int, rng: Rng) -> pl.DataFrame:
    people = _People(schema, records)
    sizes = 1 + rng.poisson(2.7, size=records)
    households = int(np.searchsorted(np.cumsum(sizes), records)) + 1
    household = np.repeat(np.arange(households), sizes[:households])[:records]
    within = np.arange(records) - np.searchsorted(household, household)
    county, city = _draw_places(people, household, households, rng)
    farm, wealth = _draw_dwellings(people, household, within, sizes, city, rng)
    age, sex, foreign = _draw_persons(people, household, within, households, rng)
    education = _draw_schooling(people, age, wealth, rng)
    working = _draw_work(people, age, sex, farm, education, county, rng)
    _draw_moves(people, household, county, age, rng)
    _draw_sample_line(people, age, sex, working, foreign, rng)
    return people.to_frame()


def _draw_places(people: _People, household: Codes, households: int, rng: Rng) -> tuple[Codes, Codes]:
    county = _skewed(rng, _COUNTIES, households, power=0.8)[household]
    # Every third county has cities; how large they are is the county's own.
    urban_county = county % 3 == 0
    in_city = urban_county & (rng.random(households) < 0.7)[household]
    city = np.where(in_city, 1 + county * 4 % (people.size("CITY") - 1), 0)
    rank = np.where(in_city, 2 + county * 7 % (people.size("SIZEPL") - 2), 0)
    people.put("COUNTY", county * 6)
    people.put("URBAN", np.where(in_city, 2, 1))
    people.put("METRO", np.where(urban_county, np.where(in_city, 2, 3), 1))
    people.put("METAREAD", np.where(urban_county, 1 + county % (people.size("METAREAD") - 1), 0))
    people.put("CITY", city)
    people.put("SIZEPL", rank)
    population = np.where(in_city, 10.0 * 1.62**rank, 0.0)
    people.put_numbers("CITYPOP", population)
    people.put_numbers("URBPOP", population * 1.2)
    people.put("SEA", county * 3)
    people.put("WARD", np.where(rank > 8, (county + household % 17) % 24, 0))
    people.put_numbers("SUPDIST", 1 + county // 12)
    people.put_numbers("ENUMDIST", 1 + county * 37 % 4000 + household % 40)
    return county, city


def _draw_dwellings(
    people: _People, household: Codes, within: Codes, sizes: Codes, city: Codes, rng: Rng
) -> tuple[Flags, npt.NDArray[np.float64]]:
    households = int(household[-1]) + 1

    def once(values: Any) -> Any:
        return values[household]

    wealth = once(rng.standard_normal(households)) + 0.4 * (city > 0)
    group = once(rng.random(households) < 0.02)
    farm = ~group & (city == 0) & once(rng.random(households) < 0.45)
    owner = ~group & (once(rng.random(households)) < 1 / (1 + np.exp(0.3 - 0.9 * wealth - farm)))
    people.put("GQ", np.where(group, 3 + household % 2, 1))
    people.put("GQTYPED", np.where(group, 3 + household % (people.size("GQTYPED") - 3), 0))
    people.put("GQFUNDS", np.where(group, 1 + household % 12, 0))
    people.put("FARM", np.where(group, 0, 1 + farm))
    people.put("OWNERSHPD", np.where(group, 0, np.where(owner, 1 + household % 3, 5 + household % 3)))
    rent = np.exp(2.6 + 0.5 * wealth + 0.4 * (city > 0))
    people.put_numbers("RENT", rent, absent=group | owner | farm)
    people.put_numbers("VALUEH", 10 * np.rint(np.exp(7.4 + 0.8 * wealth) / 10), absent=~owner)
    people.put("SPLIT", once(rng.random(households) < 0.01))
    people.put("RESPONDT", np.where(within == 0, 1, 2 * (within == 1)))
    people.put_numbers("FAMSIZE", np.where(group, 1, once(sizes[:households])))
    return farm, wealth


def _draw_persons(
    people: _People, household: Codes, within: Codes, households: int, rng: Rng
) -> tuple[Codes, Codes, Flags]:
    n = people.records
    head_age = np.clip(rng.normal(45, 13, households), 20, 90)[household]
    age = np.where(
        within == 0,
        head_age,
        np.where(within == 1, head_age - 3 + rng.normal(0, 4, n), head_age - 20 - 12 * rng.random(n)),
    )
    lodger = (within >= 2) & (rng.random(n) < 0.15)
    age = np.clip(np.where(lodger, 18 + 50 * rng.random(n), age), 0, 99).astype(np.int64)
    sex = np.where(within == 0, rng.random(n) < 0.15, np.where(within == 1, rng.random(n) < 0.9, rng.random(n) < 0.49))
    sex = sex.astype(np.int64)
    origin = _skewed(rng, 60, households, power=1.6)[household]
    foreign = (origin >= 4) & (age > 25) & (rng.random(n) < 0.5)
    race = np.where(origin == 1, 13, np.where(origin == 9, 30, 0))
    people.put("SEX", sex)
    people.put_numbers("AGE", age)
    people.put("AGEMONTH", np.where(age == 0, rng.integers(1, 13, n), 0))
    married = (within <= 1) & (age >= 18) & (rng.random(n) < 0.85)
    widowed = ~married & (age > 50) & (rng.random(n) < 0.5)
    people.put("MARST", np.where(married, rng.random(n) < 0.05, np.where(widowed, 4, 5)))
    people.put("NCHLT5", np.where((within <= 1) & (age < 48), rng.poisson(0.4, households)[household], 0))
    people.put("RACED", race)
    hispanic = origin == 7
    people.put("HISPAND", np.where(hispanic, 1 + household % 5, 0))
    people.put("SPANNAME", np.where(hispanic & (rng.random(n) < 0.9), 2, 1))
    people.put("HISPRULE", np.where(hispanic, 1 + household % 8, 0))
    born = np.where(foreign, 150 + origin * 6, origin * 3 % 50)
    people.put("BPLD", born)
    people.put("NATIVITY", np.where(foreign, 5, np.where(origin >= 4, 2 + household % 3, 1)))
    people.put("CITIZEN", np.where(foreign, 2 + (rng.random(n) < 0.35), 0))
    return age, sex, foreign


def _draw_schooling(people: _People, age: Codes, wealth: npt.NDArray[np.float64], rng: Rng) -> Codes:
    n = people.records
    most = np.clip(age - 6, 0, 17)
    grades = 8.5 + 2.2 * wealth + 2.0 * rng.standard_normal(n) - 0.03 * np.maximum(age - 25, 0)
    years = np.clip(np.rint(grades), 0, most).astype(np.int64)
    in_school = (age >= 6) & (age <= 24) & (years >= most - 1) & (rng.random(n) < np.clip((27 - age) / 14, 0.0, 0.97))
    people.put("SCHOOL", np.where(in_school, 2, 1))
    people.put("HIGRADED", np.where(age < 5, 0, 1 + 3 * years))
    people.put("EDUCD", np.where(age < 5, 0, 2 + 2 * years))
    return years


def _draw_work(
    people: _People, age: Codes, sex: Codes, farm: Flags, education: Codes, county: Codes, rng: Rng
) -> Flags:
    n = people.records
    asked = age >= 14
    wish = np.where(sex == 0, 2.2, -0.8) - 3.5 * (age > 65) - 2.0 * (age < 18) + 0.1 * (education - 8)
    force = asked & (rng.random(n) < 1 / (1 + np.exp(-wish)))
    working = force & (rng.random(n) < 0.88)
    relief = force & ~working & (rng.random(n) < 0.4)
    people.put("EMPSTATD", np.where(~asked, 0, np.where(working, 1 + farm, np.where(force, 6 + relief, 9))))
    people.put("LABFORCE", np.where(asked, 1 + force, 0))
    # Occupations in 30 families; schooling and farm decide which, the county leans on industry.
    family = np.clip(np.rint(1.6 * education + 3 * rng.standard_normal(n) + 3 * sex), 0, 28).astype(np.int64)
    family = np.where(farm & (rng.random(n) < 0.8), 29, family)
    job = family * 7 + rng.integers(0, 7, n) % 7
    people.put("OCC", np.where(force, 1 + job, 0))
    people.put("OCC1950", np.where(force, 1 + _near(rng, job * 9 // 7, 270, reach=1), 281))
    trade = _near(rng, family * 4 + county % 4, 130, reach=2)
    people.put("IND", np.where(force, 1 + trade, 0))
    people.put("IND1950", np.where(force, 1 + trade * 160 // 130, 0))
    own = force & (rng.random(n) < np.where(farm, 0.6, 0.1))
    people.put("CLASSWKRD", np.where(force, np.where(own, 1 + family % 4, 5 + family % 8), 0))
    weeks = np.where(working, np.clip(52 - rng.exponential(6, n), 1, 52), 0)
    weeks = np.where(relief, rng.integers(0, 30, n), weeks)
    weeks = people.put_numbers("WKSWORK1", weeks, absent=weeks < 1) * (weeks >= 1)
    people.put("WKSWORK2", np.searchsorted([1, 14, 27, 40, 48, 50], weeks, side="right"))
    hours = np.where(working, np.clip(rng.normal(44, 9, n) + 8 * farm, 1, 98), 0)
    people.put_numbers("HRSWORK1", hours, absent=~working)
    people.put("HRSWORK2", np.where(working, 1 + np.searchsorted([15, 30, 35, 40, 41, 49, 60], hours, side="right"), 0))
    people.put_numbers("DURUNEMP", 1 + rng.exponential(40, n), absent=~(force & ~working))
    wage = np.exp(5.2 + 0.09 * education + 0.035 * weeks - 0.4 * sex + 0.5 * rng.standard_normal(n))
    waged = force & ~own & (weeks > 0)
    people.put_numbers("INCWAGE", 10 * np.rint(wage / 10), absent=~waged & asked)
    people.put("INCNONWG", np.where(asked, 1 + (own | (rng.random(n) < 0.15)), 0))
    for name, scale in (("OCCSCORE", 80), ("SEI", 96), ("PRESGL", 815)):
        people.put_numbers(name, scale * (3 + family * 5 % 30 + 0.2 * (job % 7)) / 36, absent=~force)
    for name, step in (("ERSCOR50", 7), ("EDSCOR50", 11), ("NPBOSS50", 13)):
        people.put_numbers(name, 20 + 960 * (family * step % 30) / 30, absent=~force)
    return force


def _draw_moves(people: _People, household: Codes, county: Codes, age: Codes, rng: Rng) -> None:
    households = int(household[-1]) + 1
    kind = rng.choice(4, size=households, p=[0.55, 0.3, 0.1, 0.05])[household]
    kind = np.where(age < 5, -1, kind)
    moved = kind >= 2
    before = np.where(moved, _skewed(rng, _COUNTIES, households, power=0.8)[household], county)
    people.put("MIGRATE5D", np.select([kind == -1, kind == 0, kind == 1, kind == 2], [0, 1, 3, 5], 9))
    people.put("MIGPLAC5", np.where(moved, 1 + before % 48, 0))
    people.put("MIGMET5", np.where(moved & (before % 3 == 0), 1 + before, 0))
    people.put("MIGTYPE5", np.where(moved, 1 + before % 3, 0))
    people.put("MIGCITY5", np.where(moved & (before % 3 == 0), 1 + before * 4, 0))
    people.put("MIGSEA5", np.where(moved, 1 + before * 3, 0))
    people.put("SAMEPLAC", np.where(kind == -1, 0, np.where(moved, 1, 2)))
    people.put("SAMESEA5", np.where(kind == -1, 0, np.where(before == county, 2, 1)))
    people.put("MIGCOUNTY", np.where(moved, before * 6, 0))


def _draw_sample_line(people: _People, age: Codes, sex: Codes, force: Flags, foreign: Flags, rng: Rng) -> None:
    n = people.records
    asked = rng.random(n) < 0.05
    people.put("SLREC", asked)
    married = asked & (sex == 1) & (age >= 18) & (rng.random(n) < 0.8)
    people.put("MARRNO", np.where(married, 1 + (rng.random(n) < 0.1), 0))
    people.put_numbers("AGEMARR", np.clip(rng.normal(22, 4, n), 12, np.maximum(age, 12)), absent=~married)
    people.put_numbers("CHBORN", 1 + rng.poisson(np.clip((age - 18) / 8, 0.1, 3.5)), absent=~married)
    parents = np.where(foreign, 150 + rng.integers(0, 60, n) * 6, rng.integers(0, 50, n))
    people.put("MBPLD", np.where(asked, 1 + parents, 0))
    people.put("FBPLD", np.where(asked, 1 + _near(rng, parents, 500, reach=3), 0))
    people.put("MTONGUED", np.where(asked, np.where(foreign, 10 + parents % 300, 1), 0))
    looked = asked & ~force & (age >= 14) & (rng.random(n) < 0.3)
    for name in ("UOCC", "UOCC95", "UIND", "UCLASSWK"):
        people.put(name, np.where(looked, age * 3 % (people.size(name) - 1), people.size(name) - 1))
    soldier = asked & (sex == 0) & (age > 38) & (age < 60) & (rng.random(n) < 0.3)
    people.put("VETSTATD", np.where(asked, np.where(soldier, 5, 3), 0))
    people.put("VET1940", np.where(asked, 1 + soldier, 0))
    people.put("VETWWI", np.where(asked, 1 + soldier, 0))
    people.put("VETPER", np.where(soldier, 2, 0))
    people.put("VETCHILD", np.where(asked & (age < 18), 1 + (rng.random(n) < 0.1), 0))
    people.put("SSENROLL", np.where(asked & force, 1 + (rng.random(n) < 0.7), 0))


def write_population(folder: Path, *, rows: int, seed: int) -> None:
    schema = read_specs(SPECS)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "data.csv").open("wb") as file:
        for number, piece in enumerate(draw_pieces(schema, rows=rows, seed=seed)):
            piece.write_csv(file, include_header=number == 0)
    shutil.copyfile(SPECS, folder / "data-specs.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=1940)
    asked = parser.parse_args()
    if asked.rows < 1:
        parser.error("--rows must be at least 1")
    write_population(asked.folder, rows=asked.rows, seed=asked.seed)


if __name__ == "__main__":
    main()
