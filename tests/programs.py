"""Programs in processes of their own, the tool among them, and what a run leaves behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpwgan.app import cli
from dpwgan.app.book.book import new_book
from dpwgan.privacy.budget import Budget, NeighboringRelation

ROOT = Path(__file__).resolve().parents[1]
RUN = str(ROOT / "run.py")
TABLES = Path(os.environ.get("PUBLIC_TABLES", ROOT.parent / "shared" / "data"))
"""Public tables, which are not part of the project: tests that read some are skipped where they are not there."""


def call(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, whatever that is, and gives what it said."""
    return subprocess.run(words, **{"capture_output": True, "text": True, "check": False, **more})


def call_module(name: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a module of the tests that forks: threads that other tests began would be missed in its children."""
    return call(sys.executable, "-m", name, *words, cwd=ROOT, env={**os.environ, **environment})


def list_names(folder: Path) -> list[str]:
    """What lies in a folder, by name."""
    return sorted(path.name for path in folder.iterdir())


def list_variables() -> dict[str, str]:
    """The environment, without what would change a run."""
    return {name: text for name, text in os.environ.items() if not name.startswith("DPWGAN_")}


def run_on(folder: Path, lines: Iterable[str], specs: Mapping[str, Any], *flags: str, epsilon: str = "1.0") -> None:
    """Runs the tool, in this process, on a table of these lines."""
    folder.mkdir(exist_ok=True)
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    (folder / "specs.json").write_text(json.dumps(specs))
    paths = (str(folder / name) for name in ("data.csv", "out.csv", "specs.json"))
    assert cli.main((*paths, epsilon, "--device", "cpu", *flags), environment={}) == 0


def read_claim(folder: Path, output: str = "out.csv") -> dict[str, Any]:
    """Gives the claim that lies beside an output."""
    claim: dict[str, Any] = json.loads((folder / f"{output}.privacy.json").read_text())
    return claim


def begin_book(
    folder: Path,
    epsilon: float = 3.0,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    *,
    delta: float = 1e-3,
    name: str = "cases",
    **unit: Any,
) -> Path:
    """Begins a book, b.book."""
    path = folder / "b.book"
    new_book(path, name=name, limit=Budget(epsilon=epsilon, delta=delta), relation=relation, **unit)
    return path
