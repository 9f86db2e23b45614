"""Rules between columns through whole runs: no row written breaks one, and rows that are dropped are null rows."""

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpwgan.app import cli, sampling
from dpwgan.app.api import Synthesizer
from dpwgan.app.claims.text import describe_rules
from dpwgan.errors import SpecsError, UsageError
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.methods import ron_gauss_tables
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs
from tests.end_to_end.bad_inputs import HEADER, ROWS, SPECS, write_good
from tests.frozen.cases import FORMAL
from tests.frozen.transcript import transcribed
from tests.marginals.groups import make_halves
from tests.programs import read_claim, run_on

# Ages of the good table are 0 to 59, one a row.
DROPS = [{"sql": "age <> 33 AND age <> 90", "violations": "drop"}]
RULES = ["age >= 10 OR income IS NULL", "colour <> 'red' OR member = 0 OR age > 30"]


def run(
    folder: Path, *flags: str, rules: Any = (), rows: dict[int, str] | None = None, epsilon: str = "1.0"
) -> pl.DataFrame:
    """Runs the tool on the good table with some rows exchanged."""
    lines = [HEADER, *((rows or {}).get(place, row) for place, row in enumerate(ROWS))]
    run_on(folder, lines, {**SPECS, "rules": list(rules)}, "--seed", "7", "--quiet", *flags, epsilon=epsilon)
    return pl.read_csv(folder / "out.csv", infer_schema=False)


def test_the_claim_cites_the_file_that_a_rule_takes_its_combinations_from(tmp_path):
    (tmp_path / "pairs.csv").write_text("colour,member\nred,0\n")
    rules = [{"columns": ["colour", "member"], "allowed_from": "pairs.csv", "violations": "keep"}, "age <= 120"]
    run(tmp_path, "--method", "independent", rules=rules)
    digest = hashlib.sha256((tmp_path / "pairs.csv").read_bytes()).hexdigest()
    cited = read_claim(tmp_path)["columns"]["rules"]
    assert [rule.get("sha256") for rule in cited] == [digest, None]
    assert f"SHA-256 {digest}; rule 2" in describe_rules(cited)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "flags"), FORMAL)
def test_a_dropped_row_is_a_null_row(method, flags, tmp_path):
    """Whatever else is in it, nothing of it reaches a release or the output; n stays that of the file."""
    first = {33: '"blue, dark",33,1.0,1'}
    seen = []
    for name, rows in (
        ("one", first),
        ("other", {33: "red,90,999.9,0"}),
        ("half", {p: "red,33,,0" for p in range(0, 60, 2)}),
    ):
        with transcribed() as transcript:
            run(tmp_path / name, "--method", method, *flags, rules=DROPS, rows=rows)
        claim = read_claim(tmp_path / name)
        assert claim["public"]["records"] == claim["output"]["rows"] == 60
        seen.append((transcript, (tmp_path / name / "out.csv").read_bytes()))
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[2][0]


def test_sums_of_gradients_are_divided_by_the_public_n(tmp_path, monkeypatch):
    """Each method that takes critic steps, where a rule drops half of the rows: none of its plans tells how many."""
    batches, private_step = {}, importlib.import_module("dpwgan.critic.private_step").FusedStep
    begin = private_step.__init__

    def note(step, encoded, *, plan, **parts):
        batches[method] = (encoded.records, plan.expected_batch_size / plan.sampling_probability)
        begin(step, encoded, plan=plan, **parts)

    monkeypatch.setattr(private_step, "__init__", note)
    for method in ("dp-wgan", "dp-gan", "ron-dp-gan"):
        rows = {place: "red,33,,0" for place in range(0, 60, 2)}
        run(tmp_path / method, "--method", method, "--steps", "5", rules=DROPS, rows=rows)
    # Of the odd ones that are left, 33 itself is dropped, too.
    assert batches == dict.fromkeys(("dp-wgan", "dp-gan", "ron-dp-gan"), (29, pytest.approx(60)))


def test_a_covariance_is_divided_by_the_public_n(tmp_path, monkeypatch):
    """The twin that divides by the rows that are left would tell how many were dropped."""
    drawn, coarsen = [], ron_gauss_tables.coarsen
    monkeypatch.setattr(ron_gauss_tables, "coarsen", lambda *a, **k: drawn.append(k["records"]) or coarsen(*a, **k))
    run(tmp_path / "run", "--method", "ron-gauss", rules=DROPS)
    assert drawn == [60]


@pytest.mark.parametrize(
    ("method", "flags"), [p if p[0] == "independent" else pytest.param(*p, marks=pytest.mark.slow) for p in FORMAL]
)
def test_no_row_written_breaks_a_rule(method, flags, tmp_path):
    kept = [{"sql": rule, "violations": "keep"} for rule in RULES]
    out = run(tmp_path / "run", "--method", method, *flags, "--rows", "500", rules=kept)
    again = run(tmp_path / "again", "--method", method, *flags, "--rows", "500", rules=kept)
    assert out.equals(again)
    assert out.height == 500
    values = out.with_columns(pl.col("age", "member").cast(pl.Int64), pl.col("income").replace({"": None}))
    assert all(values.select(pl.sql_expr(rule).alias("kept"))["kept"].all(ignore_nulls=True) for rule in RULES)


def test_no_row_written_breaks_a_rule_of_ages():
    day = {"type": "date", "min": "1990-01-01"}
    specs = {"born": {**day, "max": "2010-12-31"}, "seen": {**day, "max": "2020-12-31"}}
    sql = (
        "born <= seen - INTERVAL '17 years'",
        "seen <= born + INTERVAL '25 years 2 months'",
        "born > DATE '1990-06-01'",
    )
    frame = pd.DataFrame({"born": ["1990-06-02", "2000-02-29"] * 50, "seen": ["2011-01-01", "2020-12-31"] * 50})
    synthesizer = Synthesizer({**specs, "rules": list(sql)}, 1.0, method="independent", seed=1)
    written = synthesizer.fit(frame).sample(500).apply(pd.to_datetime)
    assert len(written) == 500
    assert (written["born"] <= written["seen"] - pd.DateOffset(years=17)).all()
    assert (written["seen"] <= written["born"] + pd.DateOffset(years=25, months=2)).all()
    assert (written["born"] > "1990-06-01").all()


AMOUNT = {"type": "float", "min": -1e7, "max": 1e7, "decimals": 2}
EQUATIONS = (
    "fixed + current = total",
    "ABS(equity + debt - total) < 0.005",
    "stock + cash = current",
    "sold - paid = won",
)


@pytest.mark.parametrize("solved", [2, 0], ids=["as it is", "broken twin: drawn alone"])
def test_equations_between_numbers_hold_in_all_rows(solved, monkeypatch):
    monkeypatch.setitem(sampling._ROUNDS, "solved", solved)
    monkeypatch.setattr(sampling, "_LEAST_DRAWN", 1_000)
    monkeypatch.setattr(sampling, "_MOST_DRAWN", 1_000)
    rng = np.random.default_rng(0)
    fixed, stock, cash, paid, won = np.round(np.exp(rng.normal(8, 1, (5, 2_000))), 2)
    current = stock + cash
    equity = np.round(0.3 * (fixed + current), 2)
    frame = pd.DataFrame(
        {"fixed": fixed, "stock": stock, "cash": cash, "current": current, "total": fixed + current, "equity": equity}
    )
    frame = frame.assign(debt=frame.total - equity, paid=paid, won=won, sold=paid + won).round(2)
    unknown = {"type": "float", "min": 0, "max": 1e7, "decimals": 2, "missing": ["-1"]}
    specs = {**dict.fromkeys(frame, AMOUNT), "won": unknown, "rules": list(EQUATIONS)}
    synthesizer = Synthesizer(specs, 1.0, method="independent", seed=1).fit(frame)
    if not solved:
        with pytest.raises(SpecsError, match="keep all rules"):
            synthesizer.sample(500)
        return
    out = pl.from_pandas(synthesizer.sample(500)).select(pl.exclude("won"), pl.col("won").cast(pl.Float64))
    off = out.select(
        total=pl.sum_horizontal("fixed", "current") - pl.col("total"),
        debt=pl.sum_horizontal("equity", "debt") - pl.col("total"),
        current=pl.sum_horizontal("stock", "cash") - pl.col("current"),
        sold=pl.when(pl.col("won") != -1).then(pl.col("sold") - pl.col("paid") - pl.col("won")),
    )
    assert off.select(pl.all().abs().max()).row(0) == pytest.approx([0.0] * 4, abs=0.006)
    # Parts stay what they were drawn as; totals are made of them.
    assert out["stock"].median() == pytest.approx(np.median(stock), rel=0.2)
    assert out["total"].median() == pytest.approx(frame.total.median(), rel=0.3)


def test_a_saved_model_keeps_rules_and_takes_conditions(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sampling, "_LEAST_DRAWN", 1_000)
    rules = [{"sql": RULES[0], "violations": "keep"}]
    run(tmp_path / "run", "--method", "independent", "--save-model", str(tmp_path / "model"), rules=rules)
    out = tmp_path / "more.csv"
    words = ["--from-model", str(tmp_path / "model"), str(out), "--rows", "300", "--where"]
    assert cli.main([*words, "income < 50"], environment={}) == 0
    capfd.readouterr()
    assert cli.main([*words, "town = 1"], environment={}) == 2
    assert "will be replaced" not in capfd.readouterr().err
    frame = pl.read_csv(out)
    assert frame.height == 300
    assert frame.filter((pl.col("age") < 10) | (pl.col("income") >= 50) | pl.col("income").is_null()).is_empty()
    claim = json.loads(Path(f"{out}.privacy.json").read_text())
    assert claim["output"]["where"] == "income < 50"
    assert claim["columns"]["rules"] == [{"rule": f"rule 1 ({RULES[0]!r})", "violations": "keep"}]
    model = Synthesizer.load(tmp_path / "model")
    assert (model.sample(50, where="age > 50")["age"] > 50).all()
    for condition, told in (
        ("age < 5 AND age > 9 AND member = 1", "rows that the model drew keep all"),
        ("town = 1", "names 'town'"),
    ):
        with pytest.raises(UsageError, match=told):
            model.sample(1, where=condition)


def test_rules_that_no_row_can_keep_end_with_a_sentence_that_names_the_worst(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_LEAST_DRAWN", 1_000)
    rules = [{"sql": sql, "violations": "keep"} for sql in ("age > 2", "age > 70 AND age < 60")]
    write_good(tmp_path)
    synthesizer = Synthesizer({**SPECS, "rules": rules}, 1.0, method="independent", seed=1)
    frame = pl.read_csv(tmp_path / "data.csv", infer_schema=False).to_pandas()
    with pytest.raises(SpecsError, match=r"0 of [0-9,]+ rows that the model drew keep all.*rule 2 \("):
        synthesizer.fit(frame).sample()


def test_shares_are_of_the_rows_that_are_left_as_far_as_counts_tell(tmp_path):
    """Were they of all rows, a third of them would be spread evenly over all ages."""
    colours = {place: f"red,{20 if place % 3 else 90},1.0,1" for place in range(60)}
    rules = [{"sql": "age < 90", "violations": "drop"}]
    out = run(tmp_path / "run", "--method", "independent", "--rows", "2000", rules=rules, rows=colours, epsilon="1000")
    assert (out["age"] == "20").mean() > 0.99


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_rows_are_dropped_alike_however_they_come(suffix, tmp_path):
    write_good(tmp_path)
    frame = pl.read_csv(tmp_path / "data.csv")
    synthesizer = Synthesizer({**SPECS, "rules": DROPS}, 1.0, method="independent", seed=1)
    if suffix == "frame":
        from dpwgan.table.frames import from_pandas
        from dpwgan.table.source import make_table

        table = make_table(from_pandas(frame.to_pandas(), synthesizer.schema))
    else:
        from dpwgan.table.files.reader import open_table

        path = tmp_path / f"data.{suffix}"
        if suffix == "parquet":
            frame.write_parquet(path)
        table = open_table(path, synthesizer.schema)
    encoded = synthesizer.encode_table(table).encoded
    assert (table.records, encoded.records) == (60, 59)
    ages = np.rint(encoded.numbers[:, 0] * 120).astype(int)
    assert ages.tolist() == [age for age in range(60) if age != 33]


def make_source(probabilities: list[list[float]], rules: list[str], where: str | None = None) -> sampling.RowSource:
    """A mixture of x from 0 to 9 in two groups of five, and of y, a or b: its rows as they are written."""
    columns = {"x": {"type": "integer", "min": 0, "max": 9}, "y": {"type": "enum", "values": ["a", "b"]}}
    encoder = TableEncoder(parse_specs({**columns, "rules": rules}, sha256=""), list(columns))
    coarsening = make_halves(encoder.spans, cells=(10, 2))
    sampler = MixtureSampler(probabilities=np.array(probabilities, np.float32), coarsening=coarsening)
    return sampling.RowSource(sampler, encoder, rows=10, where=where)


def draw_values(source: sampling.RowSource) -> pl.DataFrame:
    return source.draw(20_000, first_record=0, rng=np.random.default_rng(3)).cast({"x": pl.Int64, "y": pl.String})


def test_mended_rows_keep_the_shares_of_groups_and_of_codes():
    # Half of the first code's rows have x below 5, of which two in five break the first rule; half of the second's
    # break the other one.
    codes = [[0.5, 0.5, 1.0, 0.0], [0.5, 0.5, 0.0, 1.0]]
    drawn = draw_values(make_source(codes, ["y = 'b' OR x >= 2", "y = 'a' OR x >= 5"]))
    assert (drawn["y"] == "a").mean() == pytest.approx(0.5, abs=0.01)
    of_first = drawn.filter(y="a")
    assert (of_first["x"] < 5).mean() == pytest.approx(0.5, abs=0.02)
    assert of_first["x"].min() == 2
    assert drawn.filter(y="b")["x"].min() == 5


# Of the first code x is high where y is a, of the second it is low where y is b: none of their rows keeps the rule that
# a goes with low alone. The others' rows all do.
TWO_STUCK = [[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]]


@pytest.mark.parametrize("exchanged", [32, 0], ids=["as it is", "broken twin: rows drawn anew"])
def test_rows_that_break_a_rule_exchange_cells_and_move_no_share(exchanged, monkeypatch):
    monkeypatch.setitem(sampling._ROUNDS, "exchanged", exchanged)
    drawn = draw_values(make_source(TWO_STUCK, ["(y = 'a') = (x < 5)"]))
    counts = ((drawn["y"] == "a").sum(), (drawn["x"] < 5).sum())
    # Where rows are drawn anew as a whole, no b is left.
    assert counts == ((15_000, 15_000) if exchanged else (20_000, 20_000))


def test_cells_of_the_finest_column_alone_change_places(monkeypatch):
    def draw(rounds: int) -> sampling.EncodedTable:
        monkeypatch.setattr(sampling, "_ROUNDS", {"exchanged": rounds})
        source = make_source(TWO_STUCK, ["(y = 'a') = (x < 5)"])
        return next(iter(source._draw_mended(200, None, rng=np.random.default_rng(0))))[0].encoded

    before, after = draw(0), draw(32)
    assert (before.codes == after.codes).all()
    assert (np.sort(before.numbers, axis=0) == np.sort(after.numbers, axis=0)).all()
    moved = (before.numbers != after.numbers).any(axis=1)
    assert moved.sum() == 100
    assert ((before.codes[:, 0] == 0) == (before.numbers[:, 0] > 0.5))[moved].all()


def test_pairs_are_of_rows_that_break_one_rule():
    rng = np.random.default_rng(0)
    for rows in (1, 2, 7, 200):
        broken = rng.random((3, rows)) < 0.4
        broken[0] |= ~broken.any(axis=0)
        flags, partners = sampling._pair(broken, rng=rng)
        assert (flags.sum(axis=0) == 1).all()
        assert (flags == flags[:, partners]).all()
        assert (partners[partners] == np.arange(rows)).all()
        assert (partners == np.arange(rows)).sum() == rows % 2
        # A pair across two rules is left where a rule has an odd row: one for each rule at most.
        assert (flags & ~broken).sum() <= 3


def test_an_exchange_that_breaks_as_many_rules_as_it_mends_is_not_made(monkeypatch):
    monkeypatch.setattr(sampling, "_ROUNDS", {"exchanged": 32})
    # Whichever way rows exchange y or x, one that kept the second rule would break it.
    source = make_source(TWO_STUCK[:2], ["(y = 'a') = (x < 5)", "(y = 'a') = (x >= 5)"])
    drawn, counts = next(iter(source._draw_mended(100, None, rng=np.random.default_rng(0))))
    assert drawn.broken.tolist() == [[True] * 100, [False] * 100]
    assert counts.tolist() == [100, 0]
    assert ((drawn.encoded.codes[:, 0] == 0) == (drawn.encoded.numbers[:, 0] > 0.5)).all()


def test_a_condition_on_the_output_gives_the_rows_that_meet_it_their_own_shares():
    """Were what does not meet it mended as well, numbers below 5 would have half of the rows."""
    drawn = draw_values(make_source([[0.5, 0.5, 1.0, 0.0]], [], where="x >= 3"))
    assert drawn["x"].min() == 3
    assert (drawn["x"] < 5).mean() == pytest.approx(2 / 7, abs=0.02)


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (TWO_STUCK, None),
        ([TWO_STUCK[0]] * 4 + TWO_STUCK[2:], "67%"),
        # All rows of a cell may be among few.
        ([TWO_STUCK[0]] + [[1.0, 0.0, 1.0, 0.0]] * 24, "4%"),
        ([TWO_STUCK[0]] + [[1.0, 0.0, 1.0, 0.0]] * 49, None),
    ],
)
def test_it_is_said_once_when_many_rows_keep_a_rule_only_by_other_cells(codes, told, caplog):
    source = make_source(codes, ["(y = 'a') = (x < 5)"])
    source.draw(50, first_record=0, rng=np.random.default_rng(3))
    assert not caplog.records
    # Rows that exchange cells move no share; where there is nothing to exchange, two thirds of them are drawn anew.
    for _ in range(2):
        draw_values(source)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (told is not None)
    assert all(text.startswith(f"{told} of the rows drawn kept rule 1 ") for text in said)


def test_rules_that_many_rows_keep_only_by_other_cells_share_a_line(caplog):
    draw_values(make_source([TWO_STUCK[0]] * 4 + TWO_STUCK[2:], ["(y = 'a') = (x < 5)", "x < 5 OR y = 'b'", "x <= 9"]))
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "67% of the rows drawn kept rule 1, rule 2 only by other cells than the model gave them: how"
    )
