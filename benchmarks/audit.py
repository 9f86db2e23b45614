"""Prints the audit table: every formal method at epsilon 1 and 8 beside its lower bounds, and every broken twin.

    python benchmarks/audit.py                      # a few CPU minutes; needs no data but the example's
    python benchmarks/audit.py --only independent   # methods whose name begins so

The table is of the first rows of examples/rand-hie, with canaries appended. Settings are short: they cost utility, not
privacy, which is what is measured.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "AUTOGRAPH_VERBOSITY": "0"}.items():
    os.environ.setdefault(name, value)
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from dpwgan.app.config import SynthesisConfig  # noqa: E402
from dpwgan.app.planning import plan_run  # noqa: E402
from dpwgan.audit.canaries.black_box import audit_runs  # noqa: E402
from dpwgan.audit.canaries.watch import add_canaries  # noqa: E402
from dpwgan.audit.canaries.white_box import audit_releases  # noqa: E402
from dpwgan.privacy.noise_source import NoiseSource  # noqa: E402
from dpwgan.table.encoder import TableEncoder  # noqa: E402
from dpwgan.table.files.reader import open_table  # noqa: E402
from dpwgan.table.specs import read_specs  # noqa: E402
from tests.audit.canaries.broken import CLIPS, SOURCES, Bootstrap, broken_clip  # noqa: E402

EXAMPLE = ROOT / "examples" / "rand-hie"
FIT: dict[str, Any] = {"rounds": 5, "codes": 100, "fit_steps": 20}
CRITIC: dict[str, Any] = {"steps": 60, "expected_batch_size": 64, "hidden_critic": (32, 16)}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "independent": ("independent", {}),
    "ron-gauss, gaussian": ("ron-gauss", {"noise": "gaussian"}),
    "ron-gauss, label": ("ron-gauss", {"noise": "gaussian", "label": "idp"}),
    "query-gan": ("query-gan", FIT),
    "query-gan, one-layer": ("query-gan", {"oracle": "one-layer", "rounds": 6, "codes": 100}),
    "dp-gan": ("dp-gan", {"hidden_generator": (32,), **CRITIC}),
    "ron-dp-gan": ("ron-dp-gan", {"hidden_generator": (32,), **CRITIC}),
    "dp-critic, formal": ("dp-critic", {"formal": True, "hidden_generator": (32,), **CRITIC, "steps": 20}),
    "dp-wgan, none": ("dp-wgan", {"anchor": "none", "hidden_generator": (32,), **CRITIC}),
    "dp-wgan, queries": ("dp-wgan", {**FIT, **CRITIC}),
}
TWINS: list[tuple[str, str]] = [
    ("independent", "noise halved"),
    ("ron-gauss, gaussian", "noise halved"),
    ("query-gan", "noise halved"),
    ("query-gan, one-layer", "noise halved"),
    ("query-gan, one-layer", "same noise twice"),
    ("dp-wgan, queries", "noise halved"),
    ("dp-gan", "noise halved"),
    ("dp-gan", "clipping per tensor"),
    ("ron-dp-gan", "noise halved"),
    ("dp-critic, formal", "noise halved"),
    ("dp-critic, formal", "no clipping"),
    ("dp-wgan, none", "noise halved"),
    ("dp-wgan, none", "same noise twice"),
    ("dp-wgan, none", "no clipping"),
    ("dp-wgan, none", "clipping per tensor"),
    ("dp-wgan, queries", "clipping per tensor"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000, help="rows of the example (default 3000)")
    parser.add_argument("--canaries", type=int, default=1_000, help="canaries beside them (default 1000)")
    parser.add_argument("--runs", type=int, default=2, help="runs of each attack by guesses (default 2)")
    parser.add_argument("--epsilon", type=float, action="append", help="budgets (default 1 and 8)")
    parser.add_argument("--only", default="", help="methods whose name begins so")
    asked = parser.parse_args()
    schema = read_specs(EXAMPLE / "data-specs.json")
    rng = np.random.default_rng()
    table = open_table(str(EXAMPLE / "data.csv"), schema)
    whole = TableEncoder(schema, table.header).encode_pieces(table.pieces(), records=table.records)
    encoded = add_canaries(whole.take(np.arange(asked.rows)), canaries=asked.canaries, rng=rng)
    lines = []
    for epsilon in asked.epsilon or [1.0, 8.0]:
        for name, (method, settings) in METHODS.items():
            if not name.startswith(asked.only):
                continue
            config = SynthesisConfig(
                epsilon=epsilon, method=method, settings=settings, device="cpu", threads=1, accountant="moments"
            )
            run_plan = plan_run(schema, records=encoded.records, config=config)
            for twin in ["", *(twin for audited, twin in TWINS if audited == name)]:
                begin = time.process_time()
                with broken_clip(twin) if twin in CLIPS else contextlib.nullcontext():
                    source = SOURCES.get(twin, NoiseSource)
                    shown = audit_releases(encoded, run_plan, canary=encoded.records - 1, make_source=source)
                    guessed = None
                    if not twin and asked.runs:
                        guessed = audit_runs(encoded, run_plan, canaries=asked.canaries, runs=asked.runs, rng=rng)
                line = {
                    "method": name,
                    "twin": twin,
                    "epsilon": epsilon,
                    "claimed": shown.claimed,
                    "releases": shown.found,
                    "passing": [part.label for part in shown.lines if part.passes_the_claim],
                    "lines": {
                        part.label: [part.found and round(part.found, 3), round(part.claimed_epsilon, 3)]
                        for part in shown.lines
                    },
                    "counts": guessed.from_counts.found if guessed and guessed.from_counts else None,
                    "output": guessed.from_output.found if guessed else None,
                    "seconds": round(time.process_time() - begin, 1),
                }
                lines.append(line)
                print(json.dumps(line), file=sys.stderr, flush=True)
            if name == "independent":
                handed_out = replace(run_plan, method=Bootstrap())
                guessed = audit_runs(encoded, handed_out, canaries=asked.canaries, runs=asked.runs, rng=rng)
                line = {"method": "rows handed out again", "twin": "bootstrap", "epsilon": epsilon, "passing": []}
                line |= {"claimed": guessed.claimed, "releases": None, "counts": None}
                line |= {"output": guessed.from_output.found, "all_right": guessed.from_output.found_if_all_were_right}
                lines.append(line)
                print(json.dumps(line), file=sys.stderr, flush=True)
    print("| method | broken twin | claim | releases shown | counts shown, guesses | output, guesses | passes |")
    print("|---|---|---|---|---|---|---|")
    for line in lines:
        bounds = [line[key] for key in ("releases", "counts", "output")]
        passes = any(bound is not None and bound > line["claimed"] for bound in bounds)
        which = "whole" if passes else ", ".join(line["passing"]) or "no"
        cells = [line["method"], line["twin"] or "none", f"{line['claimed']:.3f}", *map(write_bound, bounds), which]
        print("| " + " | ".join(cells) + " |")


def write_bound(bound: float | None) -> str:
    """Writes a bound; those that end at the largest epsilon looked for are more than that."""
    return "-" if bound is None else "50 or more" if bound >= 49.999 else f"{bound:.2f}"


if __name__ == "__main__":
    main()
