"""The first cases of each fuzzer, the same in each run, and what judges them; `make fuzz` looks further."""

import json

import pytest

from dpwgan.app.cli import parse
from dpwgan.table.specs import read_specs
from tests.end_to_end.bad_inputs import SECRET
from tests.fuzz import seeds
from tests.fuzz.__main__ import judge
from tests.fuzz.targets import TARGETS, read_table
from tests.programs import call_module

SENTENCE = "dpwgan: error: The table is empty.\n"


@pytest.mark.slow
def test_readers_answer_as_documented_when_inputs_are_changed_at_random():
    told = call_module("tests.fuzz", "--cases", "4000")
    assert told.returncode == 0, told.stdout[-5_000:] + told.stderr[-5_000:]
    assert int(told.stdout.splitlines()[-1].split()[0]) >= 4_000 - len(TARGETS)


@pytest.mark.parametrize(
    ("code", "said", "left"),
    [
        (70, SENTENCE, []),
        (1, SENTENCE, []),
        (65, "", []),
        (65, SENTENCE * 2, []),
        (65, "Traceback (most recent call last):\n" + SENTENCE, []),
        (65, SENTENCE.replace("empty", f"of {SECRET}"), []),
        (65, SENTENCE.replace("empty", "\x1b[2K"), []),
        (65, SENTENCE, ["out.csv"]),
        (0, SENTENCE, []),
    ],
)
def test_answer_is_wrong_when_it_breaks_one_promise(code, said, left):
    assert judge(code, said, may_tell=False, left=left)
    assert judge(65, SENTENCE, may_tell=False, left=[]) is None


def test_seeds_are_what_the_tool_accepts(tmp_path):
    for number, document in enumerate(seeds.read_specs_corpus()):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(document))
        read_specs(path)
    for name, specs in (("text.parquet", "0"), ("typed.parquet", "0"), ("plain.npz", "1"), ("packed.npz", "1")):
        read_table(str(seeds.CORPUS / name), tmp_path / f"{specs}.json")
    (tmp_path / "data.csv").write_text("\n".join(seeds.LINES))
    (tmp_path / "rules.json").write_text(json.dumps({**seeds.COLUMNS, "rules": seeds.RULES}))
    read_table(str(tmp_path / "data.csv"), tmp_path / "0.json")
    read_specs(tmp_path / "rules.json")
    for words in seeds.ARGUMENTS:
        (tmp_path / "c.toml").write_bytes(seeds.CONFIG)
        parse([word if word != "c.toml" else str(tmp_path / word) for word in words], environment={})
