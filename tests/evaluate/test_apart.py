"""Telling tables apart: known ends of the scale, and the columns that do it."""

import numpy as np
import polars as pl
import pytest

from dpwgan.evaluate.apart import tell_apart

RNG = np.random.default_rng


def draw_texts(seed, *, rows=2_000):
    rng = RNG(seed)
    numbers = {name: [f"{value:.4f}" for value in rng.uniform(size=rows)] for name in ("a", "b")}
    return pl.DataFrame({**numbers, "c": rng.choice(["x", "y", "N"], size=rows)})


def test_tables_of_one_law_are_not_told_apart_and_rounded_numbers_give_a_table_away():
    # Half give or take 0.1: five standard errors of an AUC on 4,000 rows are 0.046, a false alarm below 1e-6.
    first, second = draw_texts(0), draw_texts(1)
    assert tell_apart(first, second, RNG(1)).auc == pytest.approx(0.5, abs=0.1)
    rounded = second.with_columns(pl.col("b").str.head(3))
    telling = tell_apart(first, rounded, RNG(1), by_column=True)
    assert telling.auc > 0.9
    assert set(telling.columns) == {"a", "b", "c"}
    assert telling.columns["b"] > 0.3 > 0.05 > max(telling.columns["a"], telling.columns["c"])


def test_spelling_of_what_is_no_number_is_seen_and_that_of_a_number_is_not():
    first, second = draw_texts(2), draw_texts(3)
    assert tell_apart(first, second.with_columns(pl.col("c").replace({"N": "n"})), RNG(1)).auc > 0.6
    assert tell_apart(first, second.with_columns(pl.col("a") + "0"), RNG(1)).auc < 0.6


def test_the_same_rows_score_half_and_hardly_any_rows_nothing():
    table = draw_texts(4, rows=200)
    assert tell_apart(table, table, RNG(0)).auc == 0.5
    assert tell_apart(table[:99], table, RNG(0)) is None
    assert tell_apart(pl.DataFrame(), pl.DataFrame(), RNG(0)) is None
