"""Counts the alarms of many audits, of a release that knows nobody, or one in which a few training rows stand.

    python benchmarks/audits.py ../shared/data/adult                 # without a leak: alarms are false
    python benchmarks/audits.py ../shared/data/adult --copied 0.01   # with one: the share of audits that find it

FOLDER holds data-specs.json and data.csv or data.csv.gz. For each audit three tables of --rows rows are drawn from it
without replacement: training rows, hold-out rows and the release, a share --copied of which then gives way to training
rows; all rows are attacked. Prints one JSON object an audit, then how many had an alarm: family-wise, as the command
judges, and by each finding's own p-value.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from benchmarks.processes import find_table  # noqa: E402
from dpwgan.audit.attack_command import ATTACKS, judge, play  # noqa: E402
from dpwgan.audit.attacks.base import AttackSettings, CannotPlayError, Game  # noqa: E402
from dpwgan.audit.comparisons import bound_share  # noqa: E402
from dpwgan.evaluate.tables import read_compared  # noqa: E402
from dpwgan.table.specs import read_specs  # noqa: E402

RATE = 0.025
"""Of any false alarm, as the command has it at its default confidence."""


def audit(game: Game, *, seed: int) -> dict[str, Any]:
    """What beat its baseline, and what would have by its own p-value alone."""
    played = {}
    for name in ATTACKS:
        try:
            played[name] = play(game, name, seed=seed)
        except CannotPlayError:
            continue
    found = {}
    for attack in judge(played, rate=RATE):
        found[attack["name"]] = attack["headline"]
        found |= {f"{attack['name']}: {part}": entry for part, entry in attack["parts"].items()}
    return {
        "findings": len(found),
        "alarms": [name for name, entry in found.items() if entry["beats_baseline"]],
        "least_adjusted_p_value": min(entry["adjusted_p_value"] for entry in found.values()),
        "by_themselves": [name for name, entry in found.items() if entry["p_value"] <= RATE],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--copied", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)  # anonymeter's, about figures that are not used
    schema = read_specs(asked.folder / "data-specs.json")
    table = read_compared(find_table(asked.folder), schema)
    audits = []
    for number in range(asked.audits):
        begin = time.process_time()
        rng = np.random.default_rng([asked.seed, number])
        real, holdout, release = np.split(rng.permutation(table.rows)[: 3 * asked.rows], 3)
        copied = round(asked.copied * asked.rows)
        drawn = {"real": real, "holdout": holdout, "synthetic": np.concatenate([real[:copied], release[copied:]])}
        game = Game(
            schema=schema,
            settings=AttackSettings(rows=asked.rows),
            **{name: table.take(rows) for name, rows in drawn.items()},
        )
        audits.append(audit(game, seed=number))
        print(json.dumps({**audits[-1], "cpu_s": round(time.process_time() - begin, 2)}), flush=True)
    for judged in ("alarms", "by_themselves"):
        hits = sum(bool(one[judged]) for one in audits)
        interval = bound_share(hits, len(audits), confidence=0.95)
        which = dict(Counter(name for one in audits for name in one[judged]).most_common())
        print(json.dumps({"judged": judged, "audits": len(audits), **asdict(interval), "findings": which}))


if __name__ == "__main__":
    main()
