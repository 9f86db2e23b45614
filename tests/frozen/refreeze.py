"""Writes the goldens anew: `python -m tests.frozen.refreeze [METHOD ...]`, and says which cases changed, and in what.

When that is right: when what is drawn or promised is meant to change (another noise, another accountant, a mended
mechanism, a setting's default, a sentence of the claim), after a look at what it says has changed. A change that is
meant to keep what the tool does, a move or a merge of copies, must leave every golden as it is.

One file a method, under goldens/. `always` holds what all claims of the method share; of each case there are the hash
of the output, the ledger, the claim's other entries, and the transcript of its releases: label, event, sensitivity,
and hash of the exact value. Hashes hold for processors that round as the one they were made on: `platform` is its
fingerprint, and on others only the ledger, the claim, and the transcript without hashes are compared.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GROUPS = (
    ("dp-wgan", "dp-gan", "loss-noise-gan"),
    ("ron-dp-gan", "dp-critic", "query-gan", "independent", "ron-gauss"),
)
"""Methods that are run in one process: to import TensorFlow takes as long as ten runs."""

FOLDER = Path(__file__).resolve().parent / "goldens"
ROOT = Path(__file__).resolve().parents[2]


def run_fresh(*methods: str, cwd: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Runs the cases of some methods in a process of their own, where nothing else has chosen the number of threads."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPWGAN_") and name != "TF_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.frozen.cases", *methods],
        cwd=cwd,
        env={**kept, **threads, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the frozen runs of {', '.join(methods)} fail:\n{done.stderr[-4000:]}")
    result: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return result


def read_golden(method: str) -> dict[str, Any]:
    """Reads what was frozen, in the form that `run_fresh` gives for each method."""
    document = json.loads((FOLDER / f"{method}.json").read_text())
    for case in document["cases"].values():
        case["claim"] = {**document["always"], **case["claim"]}
    del document["always"]
    result: dict[str, Any] = document
    return result


def write_golden(method: str, found: dict[str, Any]) -> None:
    """Writes it, a line for each line of a ledger and each release."""
    claims = [case["claim"] for case in found["cases"].values()]
    always = {key: value for key, value in claims[0].items() if all(key in c and c[key] == value for c in claims)}
    lines = ["{", f' "platform": {json.dumps(found["platform"])},', ' "always": {']
    lines += [_join(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in always.items())]
    lines += [" },", ' "cases": {']
    cases = []
    for name, case in found["cases"].items():
        own = {key: value for key, value in case["claim"].items() if key not in always}
        parts = [f'   "output": {json.dumps(case["output"])}']
        for part in ("ledger", "transcript"):
            inner = _join(f"    {json.dumps(line, ensure_ascii=False)}" for line in case[part])
            parts.append(f'   "{part}": [\n{inner}\n   ]' if inner else f'   "{part}": []')
        inner = _join(f"    {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in own.items())
        parts.append(f'   "claim": {{\n{inner}\n   }}')
        cases.append(f"  {json.dumps(name)}: {{\n{_join(parts)}\n  }}")
    lines += [_join(cases), " }", "}"]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{method}.json").write_text("\n".join(lines) + "\n")


def _join(parts: Any) -> str:
    return ",\n".join(parts)


def compare(golden: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Says in what two sets of runs differ; on another platform, in what does not depend on its last bits."""
    same = golden["platform"] == found["platform"]
    before, after = golden["cases"], found["cases"]
    said = [f"{name}: there is no such case any more" for name in before if name not in after]
    said += [f"{name}: is new" for name in after if name not in before]
    for name in [name for name in before if name in after]:
        for part in before[name]:
            one, other = (_take(side[name][part], part=part, exact=same) for side in (before, after))
            said += [f"{name}: {part}{place}" for place in _differ(one, other)]
    return said


def _take(value: Any, *, part: str, exact: bool) -> Any:
    if exact:
        return value
    if part == "transcript":
        return [line[:3] for line in value]
    if part == "claim":
        return {key: entry for key, entry in value.items() if not key.startswith("certificate")}
    return None if part == "output" else value


def _differ(one: Any, other: Any) -> list[str]:
    """Gives the places where two JSON values differ. Numbers may differ by what another summation order brings."""
    if isinstance(one, float) and isinstance(other, float):
        return [] if abs(one - other) <= 1e-9 * max(abs(one), abs(other)) else [f": {one!r}, and was {other!r}"]
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in {**one, **other} if key not in one or key not in other]
        inside = [(f".{key}", one[key], other[key]) for key in one if key in other]
        return [f".{key} is on one side only" for key in keys] + [
            f"{key}{place}" for key, a, b in inside for place in _differ(a, b)
        ]
    if isinstance(one, list) and isinstance(other, list):
        longer = [] if len(one) == len(other) else [f": {len(other)} entries, and were {len(one)}"]
        return longer + [
            f"[{index}]{place}" for index, (a, b) in enumerate(zip(one, other, strict=False)) for place in _differ(a, b)
        ]
    return [] if one == other else [f": {other!r}, and was {one!r}"]


def main(methods: Sequence[str]) -> None:
    """Writes the goldens of some methods, or of all, and prints what changed."""
    groups = [(method,) for method in methods] or GROUPS
    for method, found in ((method, found) for group in groups for method, found in run_fresh(*group).items()):
        known = (FOLDER / f"{method}.json").exists()
        changes = compare(read_golden(method), found) if known else [f"{name}: is new" for name in found["cases"]]
        write_golden(method, found)
        print(f"{method}: {len(found['cases'])} cases, {len(changes)} changes")  # noqa: T201
        for change in changes:
            print(f"  {change}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
