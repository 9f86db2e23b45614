"""The command that measures utility: what it runs, what it believes, what it does again, and what it prints."""

import gzip
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from benchmarks import utility

PEERS = {
    "conditions": ["one seed a figure"],
    "splits": {"toy": "d1g35t"},
    "figures": [
        {"table": "toy", "peer": "Low", "version": "1", "epsilon": 0.3, "kind": "peer", "kway_3": 940, "pc1_dist": 0.2},
        {"table": "toy", "peer": "Same", "version": "2", "epsilon": 1, "kind": "peer", "kway_3": 930, "pc1_dist": 0.1},
        {"table": "toy", "peer": "High", "version": "3", "epsilon": 8, "kind": "peer", "kway_3": 990, "pc1_dist": 0.0},
        {"table": "toy", "peer": "Real", "version": "", "epsilon": 1, "kind": "reference", "kway_3": 999},
    ],
}

# Stands in for run.py: fails or lies where the method's name says so, and counts its runs beside itself.
FAKE_RUN = """
import json, os, pathlib, sys
data, output, specs, epsilon = sys.argv[1:5]
flags = sys.argv[5:]
method = flags[flags.index("--method") + 1]
with open(pathlib.Path(__file__).with_name("calls"), "a") as stream:
    stream.write(json.dumps({"flags": flags, "variables": [name for name in os.environ if "DPWGAN" in name]}) + "\\n")
if method == "fails":
    print("dpwgan: error: The budget cannot be met.", file=sys.stderr)
    sys.exit(69)
spent = float(epsilon) * (1.01 if method == "overspends" else 0.99)
pathlib.Path(output).write_text("a,b\\n" + ("7,7\\n" if method == "illegal" else f"{float(epsilon):g},1\\n"))
pathlib.Path(output + ".privacy.json").write_text(json.dumps({
    "budget": {"epsilon_spent": float("nan") if method == "vague" else spent, "delta_spent": 1e-4,
               "delta_asked": 1e-2 if method == "lax" else 1e-4},
    "randomness": {"seeded": method == "seeded"}, "public": {"records": 100},
    "guarantee": {}, "why_no_guarantee": None,
}))
if method == "claimless":
    os.remove(output + ".privacy.json")
"""

# Stands in for scores.py: the score is the epsilon that the fake run wrote.
FAKE_SCORES = """
import json, pathlib, sys
if sys.argv[2] == "--reference":
    first = "0"
else:
    first = pathlib.Path(sys.argv[2]).read_text().splitlines()[1].split(",")[0]
bad = int(first == "7")
scored = {"table": "toy", "rows": 1, "bad_rows": bad}
print(json.dumps(scored if bad else scored | {"kway_3": 900 + float(first), "pc1_dist": 0.1}))
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one tiny table, with stand-ins for the product and the scorer."""
    tables = tmp_path / "tables"
    write_table(tables / "toy")
    (tmp_path / "run.py").write_text(textwrap.dedent(FAKE_RUN))
    (tmp_path / "scores.py").write_text(textwrap.dedent(FAKE_SCORES))
    monkeypatch.setattr(utility, "RUN", tmp_path / "run.py")
    monkeypatch.setattr(utility, "SCORES", tmp_path / "scores.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_table(folder: Path, rows: int = 100) -> None:
    folder.mkdir(parents=True)
    (folder / "data-specs.json").write_text(json.dumps({name: {"type": "enum", "count": 2} for name in "ab"}))
    for file in ("train.csv.gz", "holdout.csv.gz"):
        with gzip.open(folder / file, "wt") as stream:
            stream.write("a,b\n" + "".join(f"{place % 2},{place // 2 % 2}\n" for place in range(rows)))


def start(*arguments: str) -> int:
    return utility.main(["--tables", "tables", *arguments])


def read_calls(bench: Path) -> list[dict[str, Any]]:
    path = bench / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_record(title: str, epsilon: float | None, kway_3: float, **more: Any) -> dict[str, Any]:
    method = utility.read_method(title)
    cell = utility.Cell("toy", "d1g35t", method, epsilon, 0)
    made = {"commit": None, "changed": None, "code_sha256": "0", "machine": {"cores": 2, "processor": "x"}, "jobs": 1}
    scores = {"kway_3": kway_3, "pc1_dist": 0.1}
    record = cell.describe() | {"ok": True, "why": None, "scores": scores, "versions": {"python": "3"}} | made
    return record | more


# ------------------------------------------------------------------------------------------------------- running


def test_each_cell_is_run_without_a_seed_and_recorded_when_all_goes_well(bench, monkeypatch, capsys):
    monkeypatch.setenv("DPWGAN_STEPS", "1")
    code = start(
        "--methods", "good:anchor=none", "bootstrap", "--epsilons", "1", "6", "--seeds", "2", "--resume", "r.jsonl"
    )
    assert code == 0
    records = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert len(records) == 2 * (2 + 1)
    calls = read_calls(bench)
    assert [call["flags"] for call in calls] == [["--method", "good", "--anchor", "none", "--quiet"]] * 4
    assert not any(call["variables"] for call in calls)
    product = [record for record in records if record["method"] == "good"]
    assert [record["scores"]["kway_3"] for record in product] == [901, 906, 901, 906]
    for record in product:
        assert record["epsilon_spent"] <= record["epsilon"]
        assert record["cpu_s"] >= 0
        assert record["peak_mb"] > 0
        assert record["machine"]["cores"] >= 1
        assert record["versions"]["numpy"]
    assert "| 1 | **good --anchor none** |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("fails", "run.py ended with 69: dpwgan: error: The budget cannot be met."),
        ("illegal", "1 of 1 rows hold a cell that the specs do not allow"),
        ("overspends", "the claim spends epsilon"),
        ("vague", "the claim spends epsilon nan"),
        ("lax", "the claim spends delta"),
        ("seeded", "the run was seeded"),
        ("claimless", "the claim cannot be read"),
    ],
)
def test_cell_is_reported_and_the_command_fails_when_its_run_does_not_count(bench, capsys, method, why):
    assert start("--methods", method, "good", "--epsilons", "1", "--seeds", "1", "--resume", "r.jsonl") == 1
    bad, good = (json.loads(line) for line in Path("r.jsonl").read_text().splitlines())
    assert (bad["ok"], bad["scores"]) == (False, {})
    assert bad["why"].startswith(why)
    assert good["ok"]
    shown = capsys.readouterr()
    assert f"{method} at epsilon 1, repetition 1: FAILED: {why}" in shown.out
    assert "1 of 2 cells failed" in shown.err
    assert utility.main(["--report", "r.jsonl"]) == 1


def test_peer_is_scored_and_compared_with_when_the_environment_names_its_command(bench, monkeypatch, capsys):
    (bench / "peer.py").write_text("import sys; open(sys.argv[1], 'w').write('a,b\\n' + sys.argv[2] + ',1\\n')")
    monkeypatch.setenv("BENCH_PEERS", f"theirs={sys.executable} peer.py {{output}} {{epsilon}}; broken=false")
    asked = ("--methods", "good", "theirs", "broken", "--epsilons", "1", "--seeds", "1", "--resume", "r.jsonl")
    assert start(*asked) == 1
    shown = capsys.readouterr().out
    assert "| 1 | theirs (measured here) |" in shown
    assert "(theirs at 1: 901)" in shown
    assert "broken at epsilon 1, repetition 1: FAILED: the peer ended with 1" in shown


def test_resume_skips_what_is_finished_and_repeats_what_failed_when_broken_off(bench):
    asked = ("--methods", "good", "fails", "--epsilons", "1", "6", "--seeds", "1", "--resume", "r.jsonl")
    assert start(*asked) == 1
    assert len(read_calls(bench)) == 4
    with Path("r.jsonl").open("a") as stream:
        stream.write('{"table": "toy", "split_sh')  # a line that an interruption cut off
    assert start(*asked) == 1
    methods = [call["flags"][1] for call in read_calls(bench)[4:]]
    assert methods == ["fails", "fails"]
    assert start(*asked, "--methods", "good:steps=5") == 0  # other settings are other cells
    assert len(read_calls(bench)) == 4 + 2 + 2
    assert all(json.loads(line) for line in Path("r.jsonl").read_text().splitlines())


def test_resume_runs_a_cell_again_when_the_rows_have_changed(bench):
    asked = ("--methods", "good", "--epsilons", "1", "--seeds", "1", "--resume", "r.jsonl")
    assert start(*asked) == 0
    for path in sorted((bench / "tables" / "toy").iterdir()):
        path.unlink()
    (bench / "tables" / "toy").rmdir()
    write_table(bench / "tables" / "toy", rows=120)
    assert start(*asked) == 0
    assert len(read_calls(bench)) == 2


# -------------------------------------------------------------------------------------------------------- report


def test_goals_compare_with_the_best_peer_at_this_epsilon_or_below_when_judged():
    best = {score: utility.find_best_peer(PEERS["figures"], score, 1.0) for score in utility.GOALS}  # type: ignore[arg-type]
    assert best["kway_3"] is not None
    assert best["pc1_dist"] is not None
    assert best["kway_3"]["peer"] == "Low"  # epsilon 0.3 holds at 1 too; Real is not private, High spends more
    assert best["pc1_dist"]["peer"] == "Same"
    assert best["kway_2"] is None
    assert utility.judge(941.0, 940, "kway_3") == (True, 1.0)
    assert utility.judge(940.0, 940, "kway_3") == (False, 0.0)
    assert utility.judge(0.3, 0.1, "pc1_dist") == (False, pytest.approx(-0.2))
    text = utility.report([make_record("dp-wgan", 1.0, 941.0), make_record("independent", 1.0, 800.0)], PEERS)
    assert "| 1 | dp-wgan | - | yes, +1.0 (Low at 0.3: 940) | - | - | no, +0.000 (Same at 1: 0.1) | 1 of 2 |" in text
    assert "| 1 | independent |" not in text


def test_report_compares_with_nobody_when_the_rows_are_others():
    text = utility.report([make_record("dp-wgan", 1.0, 941.0, split_sha256="other")], PEERS)
    assert "No peer was measured on these rows" in text
    assert "Same" not in text


def test_peers_file_holds_possible_figures_when_read():
    peers = json.loads(utility.PEERS.read_text())
    assert peers["figures"]
    for figure in peers["figures"]:
        assert figure["kind"] in peers["kinds"]
        assert figure["table"] in peers["splits"]
        assert figure["epsilon"] is None or figure["epsilon"] > 0
        for score in utility.SCORE_NAMES:
            top = 1000 if score.startswith("kway") else 1.4143 if score == "pc1_dist" else 1
            assert 0 <= figure.get(score, 0) <= top
        assert set(figure) >= {"peer", "version"}


@pytest.mark.slow
def test_product_itself_is_measured_when_the_command_is_run_on_a_tiny_table(tmp_path):
    write_table(tmp_path / "tables" / "toy")
    command = [sys.executable, str(Path(utility.__file__)), "--tables", str(tmp_path / "tables"), "--only", "toy"]
    command += ["--methods", "dp-wgan:steps=2", "one-ways", "--epsilons", "2", "--seeds", "1"]
    done = subprocess.run([*command, "--resume", str(tmp_path / "r.jsonl")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    product, floor = utility.read_results(tmp_path / "r.jsonl").values()
    assert product["rows"] == 100
    assert 0 < product["epsilon_spent"] <= 2
    assert 0 <= product["scores"]["kway_2"] <= 1000
    assert floor["scores"]["kway_1"] == 1000
    assert "no tstr: benchmarks/tasks.json names no target for a table called toy" in done.stdout
