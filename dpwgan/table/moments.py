"""Moments as text in a column's format, and as the types that frames and files have for them.

Inside, a moment is a wall-clock time to the microsecond, without a zone: a date is its midnight, a time of day lies on
the first day of 1970.
"""

import polars as pl

from dpwgan.table.calendar import DIRECTIVE, CalendarColumn
from dpwgan.table.numerals import BLANKS

MOMENT = pl.Datetime("us")


def read_moments(cells: pl.Series, column: CalendarColumn) -> pl.Series:
    """Reads (n,) cells; null where a cell is not, but for capitals, what `write_moments` writes of a moment."""
    # What a format does not say is said behind it.
    said = set(DIRECTIVE.findall(column.format.replace("%-", "%")))
    behind = [("%Y", "1970")] * (not said & {"Y"})
    if "j" not in said:
        behind += [("%m", "01")] * (not said & {"m", "b", "B"}) + [("%d", "01")] * ("d" not in said)
    behind += [("%M", "00")] * (bool(said & {"H", "I"}) and "M" not in said)
    form = " ".join([_translate(column.format), *(directive for directive, _ in behind)])
    texts = cells.cast(pl.String).str.strip_chars(BLANKS)
    whole = texts + "".join(f" {text}" for _, text in behind) if behind else texts
    moments = whole.str.to_datetime(form, time_unit="us", strict=False)
    written = write_moments(moments, column)
    is_written = (written.str.to_lowercase() == texts.str.to_lowercase()).fill_null(False)
    return moments.set(~is_written, None)


def write_moments(moments: pl.Series, column: CalendarColumn) -> pl.Series:
    """Writes (n,) moments as text."""
    return moments.dt.strftime(_translate(column.format))


def _translate(form: str) -> str:
    """A format as polars reads it, where %f alone would be nine digits."""
    return form.replace("%f", "%6f")


def drop_zone(values: pl.Series, column: CalendarColumn) -> pl.Series:
    """Turns (n,) dates, times of day, both, or durations since midnight into moments; null for what has none.

    A time with a zone is told as clocks in the column's zone show it, or in its own. What is finer than a microsecond,
    or of another kind than the column, has no moment.
    """
    kind = values.dtype
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is not None:
            values = values.dt.convert_time_zone(column.zone or kind.time_zone).dt.replace_time_zone(None)
        moments = values.dt.cast_time_unit("us")
        moments = moments.set(moments.dt.cast_time_unit(kind.time_unit) != values, None)
    elif kind == pl.Date:
        moments = values.cast(MOMENT)
    else:
        # What is too long for nanoseconds is none.
        nanoseconds = values.cast(pl.Duration("ns"), strict=False).cast(pl.Int64)
        moments = (nanoseconds // 1000).set(nanoseconds % 1000 != 0, None).cast(MOMENT)
    of_day = kind == pl.Time or isinstance(kind, pl.Duration)
    return moments if of_day == (column.written == "time") else pl.repeat(None, len(values), dtype=MOMENT, eager=True)


def give_zone(moments: pl.Series, column: CalendarColumn, kind: pl.DataType) -> pl.Series:
    """Turns (n,) moments into dates, times of day, both, or durations since midnight: `drop_zone` the other way.

    Where clocks are put back the first of the two is meant, where they are put forward an hour later.
    """
    if isinstance(kind, pl.Duration):
        return moments.cast(pl.Int64).cast(pl.Duration("us")).dt.cast_time_unit(kind.time_unit)
    if not isinstance(kind, pl.Datetime):
        return moments.cast(kind)
    if kind.time_zone is not None:
        told_in, hour = column.zone or kind.time_zone, pl.duration(hours=1)
        zoned = [
            (pl.col("moment") + shift).dt.replace_time_zone(told_in, ambiguous="earliest", non_existent="null")
            for shift in (0 * hour, hour)
        ]
        moments = moments.rename("moment").to_frame().select(pl.coalesce(zoned)).to_series()
        moments = moments.dt.convert_time_zone(kind.time_zone)
    return moments.dt.cast_time_unit(kind.time_unit)
