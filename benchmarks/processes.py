"""Runs a command and says what it took: wall and CPU seconds, peak memory; and finds what to run it on."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = [sys.executable, str(ROOT / "run.py")]
CSV_TABLES = ("data.csv", "data.csv.gz", "train.csv.gz")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a command took. Units: seconds, CPU seconds of it and its children, MB of 10^6 bytes at the peak."""

    exit_code: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    errors: str


def find_table(folder: Path, names: Sequence[str] = CSV_TABLES) -> Path:
    """Gives the folder's table. Raises: FileNotFoundError if it has none of these names."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{folder} holds no {' or '.join(names)}")


def read_peers(text: str) -> dict[str, list[str]]:
    """Reads BENCH_PEERS, `name=command` with semicolons between. Gives each peer's command, its fields yet to fill in.

    Fields: {data}, {specs}, {output} and {epsilon}. Each command starts in an environment of its own.
    """
    entries = (part.strip().partition("=") for part in text.split(";") if part.strip())
    return {name: shlex.split(command) for name, _, command in entries}


def run_measured(command: Sequence[str], *, timeout: float | None = None, cwd: Path | None = None) -> Run:
    """Runs a command to its end, its stdout thrown away. Raises: subprocess.TimeoutExpired, when it was ended."""
    with tempfile.TemporaryFile() as heard:
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=heard, cwd=cwd) as process:
            while True:
                found, status, usage = os.wait4(process.pid, os.WNOHANG)
                if found:
                    break
                if timeout is not None and time.perf_counter() > start + timeout:
                    process.kill()
                    process.wait()
                    raise subprocess.TimeoutExpired(list(command), timeout)
                time.sleep(0.005)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
        heard.seek(0)
        errors = heard.read()[-4_000:].decode(errors="replace")
    return Run(
        exit_code=process.returncode,
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss * 1024 / 1e6,
        errors=errors,
    )
