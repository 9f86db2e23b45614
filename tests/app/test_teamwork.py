"""What several workers must agree on before any of them reads a row."""

import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from dpwgan.app import teamwork
from dpwgan.app.config import SynthesisConfig
from dpwgan.app.interruption import Interrupted
from dpwgan.app.planning import plan_run
from dpwgan.errors import DataError, UsageError
from dpwgan.table.cluster import Cluster
from dpwgan.table.specs import parse_specs

SPECS = {"sex": {"type": "enum", "values": ["f", "m"]}}


def list_facts(table: Path, *, sha256: str = "0" * 64, **asked: object) -> dict[str, bytes]:
    synthesis = SynthesisConfig(**{"epsilon": 1.0, "method": "independent", **asked})
    run_plan = plan_run(parse_specs(SPECS, sha256=sha256), records=4, config=synthesis)
    return teamwork._list_facts(str(table), run_plan=run_plan)


@pytest.mark.parametrize("rows", ["m f m m", "f m m m", "f f m f"], ids=["order", "other order", "cell"])
def test_workers_do_not_agree_where_a_row_of_their_tables_differs(rows, tmp_path):
    """By the place of a row it is one worker's: in another order some would count twice."""
    (tmp_path / "parts").mkdir()
    facts = []
    for name, cells in (("one.csv", "f m m f"), ("other.csv", rows), ("parts/1.csv", rows)):
        (tmp_path / name).write_text("\n".join(["sex", *cells.split(), ""]))
        facts.append(list_facts(tmp_path / name.removesuffix("/1.csv")))
    differing = {name for name in facts[0] if facts[0][name] != facts[1][name]}
    assert differing == {"the table"}
    assert facts[1] == facts[2]


def test_workers_do_not_agree_where_budgets_or_settings_differ(tmp_path):
    (tmp_path / "table.csv").write_text("sex\nf\nm\nm\nf\n")
    table = tmp_path / "table.csv"
    known = list_facts(table)
    for asked, name in (
        ({"epsilon": 1.1}, "the budget"),
        ({"delta": 1e-3}, "the budget"),
        ({"neighbours": "replace-one"}, "the settings"),
        ({"rows_per_unit": 2}, "the settings"),
        ({"seed": 1}, "the settings"),
        ({"sha256": "1" * 64}, "the specs"),
    ):
        found = list_facts(table, **asked)
        assert {fact for fact in known if known[fact] != found[fact]} == {name}


@pytest.mark.parametrize(
    ("listed", "records", "units", "words"),
    [
        ({"values_from": "data", "domain_privacy": "private", "optional": True}, 400, None, "is for one machine"),
        ({"values": ["f", "m"]}, 1, None, "2 workers, and the table has 1 rows"),
        ({"values": ["f", "m"]}, 400, 1, "2 workers, and the table has 1 units"),
    ],
)
def test_a_run_is_not_shared_where_each_worker_would_release_by_itself_or_have_nothing(listed, records, units, words):
    synthesis = SynthesisConfig(epsilon=1.0, method="independent")
    schema = parse_specs({"sex": {"type": "enum", **listed}}, sha256="0" * 64)
    cluster = Cluster(addresses=("one:1", "other:1"), rank=0)
    with pytest.raises(UsageError, match=words):
        teamwork._refuse_what_cannot_be_shared(
            cluster, run_plan=plan_run(schema, records=records, config=synthesis), units=units
        )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Interrupted(signal.SIGTERM), 143),
        (DataError("a rule"), 65),
        (MemoryError(), 75),
        (type("ResourceExhaustedError", (Exception,), {})(), 75),  # TensorFlow's
        (ValueError(), 70),
    ],
)
def test_all_workers_have_the_exit_code_of_the_one_that_failed(error, code):
    team = Mock()
    with pytest.raises(type(error)):
        teamwork.do_together(team, Mock(side_effect=error))
    team.check_ready.assert_called_once_with(code)
