"""Several workers: threads with the pipeline in each for what they say to each other, processes for how they end."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan.app import cli, pipeline
from dpwgan.app.book.book import read_book
from dpwgan.errors import OutputError
from dpwgan.privacy.ledger import LOST
from dpwgan.privacy.poisson import sample_poisson_rows
from dpwgan.privacy.unit import Unit
from tests.end_to_end.bad_inputs import HEADER, ROWS, SPECS, inside, write_good, write_paid
from tests.end_to_end.test_runs import check_rows
from tests.ports import find_ports
from tests.programs import RUN, begin_book, list_names, list_variables, read_claim
from tests.teams import make_config, run_threads

pytestmark = pytest.mark.slow

QUERIES = {"rounds": 2, "fit_steps": 10, "codes": 20}
METHODS: dict[str, dict[str, Any]] = {
    "query-gan": QUERIES,
    "independent": {},
    "dp-wgan": {**QUERIES, "steps": 10, "hidden_critic": (4,)},
}


@pytest.fixture(autouse=True)
def good_table(tmp_path):
    write_good(tmp_path)


def run_alone(folder: Path, **synthesis: Any) -> tuple[bytes, dict[str, Any]]:
    pipeline.run(make_config(folder, output="alone.csv", **synthesis))
    return (folder / "alone.csv").read_bytes(), read_claim(folder, "alone.csv")


def name_people(folder: Path, rows_of_each: int) -> None:
    """Gives the good table a column that says whose a row is, of whom three are kept; a person's lie far apart."""
    people = len(ROWS) // rows_of_each
    lines = [f"{HEADER},person", *(f"{row},{number % people}" for number, row in enumerate(ROWS))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    unit = {"column": "person", "max_rows": 3, "kind": "colour", "linked": ["age"]}
    named = {"unit": unit, "person": {"type": "integer", "uuid": True, "min": 0}}
    (folder / "specs.json").write_text(json.dumps({**SPECS, **named}))


def cut_into_parts(path: Path, *, rows: int) -> None:
    """Puts a folder of parts in the place of a table."""
    header, *lines = path.read_text().splitlines()
    path.unlink()
    path.mkdir()
    for first in range(0, len(lines), rows):
        (path / f"{first:02}.csv").write_text("\n".join((header, *lines[first : first + rows])))


@pytest.mark.parametrize(
    ("method", "size", "rows_of_each", "rows_of_part"),
    [("query-gan", 3, 0, 0), ("independent", 2, 0, 17), ("query-gan", 2, 5, 25)],
)
def test_table_is_the_same_to_the_byte_when_workers_only_count(tmp_path, method, size, rows_of_each, rows_of_part):
    if rows_of_each:
        name_people(tmp_path, rows_of_each)
    asked: dict[str, Any] = {"method": method, "settings": METHODS[method], "seed": 1}
    table, claim = run_alone(tmp_path, **asked)
    if rows_of_part:
        cut_into_parts(tmp_path / "data.csv", rows=rows_of_part)
    assert run_threads(tmp_path, size, **asked) == [None] * size
    assert (tmp_path / "out.csv").read_bytes() == table
    shared = read_claim(tmp_path)
    assert shared["ledger"] == claim["ledger"]
    assert shared["method"]["settings"] == {**claim["method"]["settings"], "workers": size}


def test_numbers_are_compared_alike_when_workers_share_the_rows(tmp_path):
    write_paid(tmp_path)
    asked: dict[str, Any] = {"method": "query-gan", "settings": QUERIES, "seed": 1, "epsilon": 50.0}
    table, claim = run_alone(tmp_path, **asked)
    assert "comparison answers" in [line["label"] for line in claim["ledger"]]
    rows = [line.split(",")[-2:] for line in table.decode().splitlines()[1:]]
    assert sum(pay == total for pay, total in rows) > len(rows) / 2
    assert run_threads(tmp_path, 2, **asked) == [None] * 2
    assert (tmp_path / "out.csv").read_bytes() == table
    assert read_claim(tmp_path)["ledger"] == claim["ledger"]


def test_columns_are_correlated_alike_when_workers_share_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    answers = np.clip(np.rint(3 + rng.standard_normal((90, 1)) + rng.standard_normal((90, 24))), 1, 5).astype(int)
    names = [f"q{place}" for place in range(24)]
    lines = [",".join(names), *(",".join(map(str, row)) for row in answers.tolist())]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    specs = {name: {"type": "enum", "values": [1, 2, 3, 4, 5]} for name in names}
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    asked: dict[str, Any] = {"method": "query-gan", "settings": QUERIES, "seed": 1, "epsilon": 50.0}
    table, claim = run_alone(tmp_path, **asked)
    assert {"norms of ranks", "rank correlations"} <= {line["label"] for line in claim["ledger"]}
    assert run_threads(tmp_path, 2, **asked) == [None] * 2
    assert (tmp_path / "out.csv").read_bytes() == table
    assert read_claim(tmp_path)["ledger"] == claim["ledger"]


def test_claim_is_the_same_when_workers_share_the_training_of_one_layer_networks(tmp_path):
    asked: dict[str, Any] = {"method": "query-gan", "settings": {"oracle": "one-layer", "rounds": 2, "codes": 20}}
    _, claim = run_alone(tmp_path, **asked, seed=1)
    assert run_threads(tmp_path, 3, **asked, seed=1) == [None] * 3
    shared = read_claim(tmp_path)
    # Gradients that are added up in another order differ by rounding, which the noise does not: it is drawn once.
    alpha = shared["certificate"].pop("alpha")
    assert alpha == pytest.approx(claim["certificate"].pop("alpha"), rel=1e-3)
    for part in ("guarantee", "budget", "ledger", "statement", "certificate"):
        assert shared[part] == claim[part]


@pytest.mark.parametrize("anchor", ["queries", "none"])
def test_claim_is_the_same_when_workers_share_the_critic_steps(tmp_path, monkeypatch, anchor):
    alone = {"anchor": "none", "steps": 3, "expected_batch_size": 8, "hidden_critic": (4,), "hidden_generator": (4,)}
    more = alone if anchor == "none" else METHODS["dp-wgan"]
    drawn: list[int] = []

    def watch(records: int, **rest: Any) -> Any:
        drawn.append(records)
        return sample_poisson_rows(records, **rest)

    monkeypatch.setattr("dpwgan.privacy.noise_source.sample_poisson_rows", watch)
    assert run_threads(tmp_path, 2, settings=more) == [None] * 2
    assert set(drawn) == {30}  # each of both draws of its own half
    shared = read_claim(tmp_path)
    steps = next(line for line in shared["ledger"] if line["label"] == "critic steps")
    assert len(drawn) == 2 * steps["charged"] == 2 * steps["reserved"]
    _, claim = run_alone(tmp_path, settings=more)
    for part in ("guarantee", "budget", "ledger", "statement"):
        assert shared[part] == claim[part]


def test_all_exit_alike_when_one_share_breaks_the_specs(tmp_path):
    (tmp_path / "data.csv").write_text("\n".join((HEADER, *ROWS[:-1], "mauve,1,1.0,0")) + "\n")
    before = list_names(tmp_path)
    ends = run_threads(tmp_path, 3, method="independent")
    assert [end.exit_code for end in ends] == [65] * 3
    assert "worker 2 failed" in str(ends[0])
    assert "colour" in str(ends[2])
    assert list_names(tmp_path) == before


def test_all_refuse_when_workers_were_told_different_budgets(tmp_path):
    ends = run_threads(tmp_path, 2, method="independent", epsilons=[1.0, 2.0])
    assert {str(end) for end in ends} == {"the workers do not agree on the budget: give all of them the same"}
    assert [end.exit_code for end in ends] == [2, 2]


def test_all_refuse_when_workers_have_different_codebooks(tmp_path):
    specs = json.loads((tmp_path / "specs.json").read_text())
    (tmp_path / "specs.json").write_text(json.dumps({**specs, "member": {"type": "enum", "domain_from": "codebook"}}))
    codebooks = [tmp_path / "two.cbk", tmp_path / "three.cbk"]
    codebooks[0].write_text(" member\t\tMember\n0\t\tNo\n1\t\tYes\n")
    codebooks[1].write_text(" member\t\tMember\n0\t\tNo\n1\t\tYes\n2\t\tUnknown\n")
    ends = run_threads(tmp_path, 2, method="independent", codebooks=codebooks)
    assert {str(end) for end in ends} == {"the workers do not agree on the specs: give all of them the same"}
    ends = run_threads(tmp_path, 2, method="independent", codebooks=codebooks[:1] * 2)
    assert ends == [None, None]


def test_all_exit_alike_when_the_chief_cannot_write(tmp_path, monkeypatch):

    def fail(*_: Any, **__: Any) -> None:
        raise OutputError("no room")

    monkeypatch.setattr(pipeline, "write", fail)
    ends = run_threads(tmp_path, 2, method="independent")
    assert [end.exit_code for end in ends] == [73, 73]


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        pytest.param({"output": "none/out.csv"}, 73, "none", id="output"),
        pytest.param({"checkpoint": "none/kept"}, 73, "the checkpoint cannot be created", id="checkpoint"),
        pytest.param({"checkpoint": "kept", "resume": True}, 2, "holds no run to resume", id="resume"),
    ],
)
def test_all_end_at_once_when_the_chief_is_refused_its_folders(tmp_path, asked, code, sentence):
    before = list_names(tmp_path)
    with inside(tmp_path):
        ends = run_threads(tmp_path, 3, method="independent", **asked)
    assert [end.exit_code for end in ends] == [code] * 3
    assert sentence in str(ends[0])
    assert {str(end) for end in ends[1:]} == {"worker 0 failed; its own log says why"}
    assert list_names(tmp_path) == before


def test_plan_is_made_alone_when_only_checking(tmp_path, capsys):
    environment = {"TF_CONFIG": json.dumps(configure(find_ports(2), 1))}
    with inside(tmp_path):
        assert cli.main(["data.csv", "out.csv", "specs.json", "1", "--check"], environment=environment) == 0
    assert "planned" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------- processes of their own


def configure(ports: list[int], rank: int) -> dict[str, Any]:
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}


def start(
    folder: Path, size: int, *arguments: str, output: str = "out.csv", epsilon: str = "1.0"
) -> "list[subprocess.Popen[str]]":
    ports = find_ports(size)
    return [
        subprocess.Popen(
            [sys.executable, RUN, "data.csv", output, "specs.json", epsilon, *arguments, "--threads", "1"],
            cwd=folder,
            env={**list_variables(), "TF_CONFIG": json.dumps(configure(ports, rank))},
            text=True,
            stderr=subprocess.PIPE,
        )
        for rank in range(size)
    ]


def finish(processes: "list[subprocess.Popen[str]]") -> list[str]:
    try:
        return [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()


def test_book_is_kept_by_the_chief_alone_when_two_processes_have_persons_between_them(tmp_path):
    name_people(tmp_path, 5)
    begin_book(tmp_path, 1.5, unit=Unit(rows=3, named="person"))
    flags = ("--steps", "20", "--rounds", "1", "--codes", "20", "--fit-steps", "4", "--book", "b.book")
    processes = start(tmp_path, 2, *flags)
    said = finish(processes)
    assert [process.returncode for process in processes] == [0, 0], said
    assert len(said[1].splitlines()) == 1  # a warning: the chief alone tells the story
    # Where there is no room the chief says so, and all end alike.
    ends = run_threads(tmp_path, 2, output="more.csv", method="independent", more=[{"book": tmp_path / "b.book"}, {}])
    assert [end.exit_code for end in ends] == [69, 69]
    assert "has no room for this release" in str(ends[0])
    assert not (tmp_path / "more.csv").exists()
    lines = [json.loads(line) for line in (tmp_path / "b.book").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["book", "reserve", "settle", "output"]
    claim = read_claim(tmp_path)
    assert claim["public"]["records"] == len((tmp_path / "out.csv").read_text().splitlines()) - 1 == len(ROWS) // 5 * 3
    assert {line["label"]: line["times"] for line in lines[2]["charges"]} == {
        line["label"]: line["charged"] for line in claim["ledger"]
    }
    assert lines[3]["sha256"] == claim["output"]["sha256"]
    # Whole persons were drawn for critic steps; for everything else the ledger has three rows of each.
    assert {line["label"]: line.get("rows", 3) for line in claim["ledger"] if line["label"] != "critic steps"} == {
        line["label"]: 3 for line in claim["ledger"] if line["label"] != "critic steps"
    }
    assert claim["guarantee"]["rows_per_unit"] == 3
    assert claim["book"]["epsilon"] == read_book(tmp_path / "b.book").spent[-1] <= 1.5


def test_workers_are_refused_when_they_are_more_than_units(tmp_path):
    name_people(tmp_path, len(ROWS) // 2)
    ends = run_threads(tmp_path, 3, method="independent")
    assert {str(end) for end in ends} == {"TF_CONFIG names 3 workers, and the table has 2 units"}


@pytest.mark.slow
def test_the_others_stop_and_the_run_goes_on_and_counts_lost_steps_when_a_process_was_killed_in_them(tmp_path):
    before = list_names(tmp_path)
    steps = 100
    flags = ["--rounds", "1", "--codes", "20", "--fit-steps", "4", "--steps", str(steps), "--checkpoint", "kept"]

    def find_block() -> list[int]:
        return [path.stat().st_mtime_ns for path in tmp_path.glob("kept/plan-1-critic-steps-*.npz")]

    for lost in (1, 0):
        kept = find_block()
        # What is lost has to leave enough to go on with.
        processes = start(tmp_path, 2, *flags, epsilon="4")
        while find_block() == kept:  # one more of fifty blocks is done
            assert all(process.poll() is None for process in processes), finish(processes)
            time.sleep(0.01)
        processes[lost].send_signal(signal.SIGKILL)
        said = finish(processes)
        assert [processes[lost].returncode, processes[1 - lost].returncode] == [-signal.SIGKILL, 75], said
        assert "Another worker stopped, or cannot be reached any more; no output was written." in said[1 - lost]
        assert "Traceback" not in said[1 - lost]
        # Whoever is killed leaves the signs of its places; they hold nobody off, and the next run takes them away.
        signs = [path.name for path in tmp_path.glob(".out.csv.*.lock")]
        assert len(signs) == (0 if lost else 2)  # of the table and of the claim
        assert list_names(tmp_path) == sorted([*before, *signs, "kept"])
        flags = [*flags[:10], "--resume"]
    processes = start(tmp_path, 2, *flags, epsilon="4")
    said = finish(processes)
    assert [process.returncode for process in processes] == [0, 0], said
    claim = read_claim(tmp_path)
    line = next(line for line in claim["ledger"] if line["label"] == "critic steps")
    assert line["charged"] == line["reserved"] == steps
    # A chief may have died between two blocks.
    assert line["details"][LOST] in (steps // 50, 2 * steps // 50)
    assert 3.6 < claim["guarantee"]["epsilon"] <= 4.0
    assert not list(tmp_path.glob(".out.csv.*"))
    check_rows((tmp_path / "out.csv").read_text(), count=len(ROWS))
