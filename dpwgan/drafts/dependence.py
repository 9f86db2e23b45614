"""Finds columns that have one cell in all rows of each value of another one, as a town is always in one county."""

import polars as pl

KEY = "\0key"
ROWS = "\0rows"


def narrow(told: pl.DataFrame | None, frame: pl.DataFrame, key: pl.Series) -> pl.DataFrame:
    """The one cell that each column has with each value of a key; columns with several for some value are left out.

    Of the rows that were `told` before and of these. What is null, as a key or as a cell, says nothing. First come the
    columns `KEY`, the value, and `ROWS`, how many rows it has.
    """
    names = [name for name in (frame if told is None else told).columns if name not in (KEY, ROWS)]
    own = frame.select(key.alias(KEY), *names, pl.lit(1, pl.Int64).alias(ROWS)).drop_nulls(KEY)
    both = own if told is None else pl.concat([told.select(own.columns), own])
    groups = both.group_by(KEY, maintain_order=True)
    low = groups.agg(pl.col(ROWS).sum(), *(pl.col(name).min() for name in names))
    high = groups.agg(pl.col(name).max() for name in names)
    return low.select(KEY, ROWS, *(name for name in names if low[name].equals(high[name])))


def count_others(told: pl.DataFrame, name: str) -> float:
    """In how many rows a column would differ from what its key tells, were it independent of the key."""
    known = told.drop_nulls(name)
    rows = int(known[ROWS].sum())
    shares = known.group_by(name).agg(pl.col(ROWS).sum())[ROWS].to_numpy() / max(rows, 1)
    return float((rows - known.height) * (1 - (shares**2).sum()))
