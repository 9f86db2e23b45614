"""Runs the command line in this process and notes how long each stage took.

    python benchmarks/stages.py FILE.json ARGUMENTS OF run.py...

FILE gets, for each stage, wall and CPU seconds: `read` (open, header, count), `plan`, `encode` (parse and check cells),
`fit`, `write` (sample, decode, validate, write, claim), `draw` (what sampling takes of that, the CPU time of all
threads, the same for both; 0 for methods without codes), and `rest`: start-up and what lies between.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

START = time.perf_counter(), time.process_time()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

STAGES = {"plan": "plan", "encode_table": "encode", "fit_encoded": "fit"}


def run(arguments: list[str]) -> tuple[int, dict[str, dict[str, float]]]:
    """Runs the command line. Gives the exit code and seconds by stage."""
    from dpwgan.app import pipeline
    from dpwgan.app.api import Synthesizer
    from dpwgan.app.cli import main
    from dpwgan.marginals.rows.mixture_sampler import MixtureSampler

    spent: dict[str, dict[str, float]] = {}
    drawn: list[float] = []

    def note(stage: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **more: Any) -> Any:
            start = time.perf_counter(), time.process_time()
            try:
                return act(*args, **more)
            finally:
                add(stage, time.perf_counter() - start[0], time.process_time() - start[1])

        return noting

    def add(stage: str, wall: float, cpu: float) -> None:
        sums = spent.setdefault(stage, {"wall_s": 0.0, "cpu_s": 0.0})
        sums["wall_s"] += wall
        sums["cpu_s"] += cpu

    def note_draws(act: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **more: Any) -> Any:
            start = time.thread_time()
            try:
                return act(*args, **more)
            finally:
                drawn.append(time.thread_time() - start)

        return noting

    with ExitStack() as stack:
        for name in ("draft", "draw_cells"):
            stack.enter_context(mock.patch.object(MixtureSampler, name, note_draws(getattr(MixtureSampler, name))))
        for name in ("read", "write"):
            stack.enter_context(mock.patch.object(pipeline, name, note(name, getattr(pipeline, name))))
        for name, stage in STAGES.items():
            stack.enter_context(mock.patch.object(Synthesizer, name, note(stage, getattr(Synthesizer, name))))
        code = main(arguments)
    wall, cpu = time.perf_counter() - START[0], time.process_time() - START[1]
    noted = list(spent.values())
    add("rest", wall - sum(part["wall_s"] for part in noted), cpu - sum(part["cpu_s"] for part in noted))
    # After the rest, which it is no part of: it is in `write` already.
    add("draw", sum(drawn), sum(drawn))
    return int(code or 0), spent


if __name__ == "__main__":
    code, spent = run(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(spent))
    sys.exit(code)
