"""Breaks one privacy-critical line at a time and sees whether a fast test notices: `python -m tests.mutants`.

`mutants.toml` beside this file lists them: a line of the package, what it is broken into, and the tests of `make check`
of which one must fail then. A mutant lives in the import of one process, so no file of the package changes. Before,
all tests named are run on the code as it is: a test that fails anyway would notice everything.

    python -m tests.mutants [--jobs N] [WORD...]     only mutants whose file or name has one of the words

Exit code 0: all are caught; 1: some live, or a line to break is not there any more.
"""

import argparse
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
FAST = "not slow and not statistical and not container and not browser"
MOST_SECONDS = 120.0

# What tests import, once for all of them, before any process is forked; the package itself is imported by each.
_HEAVY = (
    *("numpy", "scipy.stats", "scipy.sparse", "pandas", "polars", "jsonschema", "randomgen", "mpmath"),
    *("pytest", "hypothesis", "cryptography.hazmat.primitives.ciphers", "dp_accounting"),
    *("tensorflow", "keras", "tensorflow_privacy"),
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A line of a file of the package and what it is broken into. `tests`: those of which one must fail."""

    name: str
    file: str
    line: str
    broken: str
    tests: tuple[str, ...]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    def break_source(self) -> str:
        """Gives the file's text, broken. Raises: ValueError unless the line is there exactly once."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if text.count(self.line) != 1:
            raise ValueError(f"{self.name}: the line is in {self.file} {text.count(self.line)} times, not once")
        return text.replace(self.line, self.broken)


def read_mutants(words: Sequence[str] = ()) -> list[Mutant]:
    """Reads the list. `words`: only mutants whose name or file has one of them."""
    document = tomllib.loads(LIST.read_text(encoding="utf-8"))
    mutants = [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in document["mutant"]]
    return [m for m in mutants if not words or any(word in m.name or word in m.file for word in words)]


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from another file than its own."""

    def __init__(self, module: str, path: str, broken: Path) -> None:
        super().__init__(module, path)
        self._broken = broken

    def get_code(self, fullname: str) -> CodeType:
        # TensorFlow reads functions again, from the file that they are said to be compiled from.
        code = compile(self._broken.read_text(encoding="utf-8"), self._broken, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the broken module, written into a folder of its own, where its import asks for the whole one."""

    def __init__(self, mutant: Mutant, folder: Path) -> None:
        self._mutant, self._broken = mutant, folder / "broken.py"
        self._broken.write_text(mutant.break_source(), encoding="utf-8")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        place = str(ROOT / self._mutant.file)
        return importlib.util.spec_from_file_location(fullname, place, loader=_Loader(fullname, place, self._broken))


class _Tell:
    """Tells the parent process which test failed, by the first example at which it did."""

    def __init__(self, failed: Connection) -> None:
        self._failed = failed

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        # A smaller example would say no more of a mutant, and looking for one takes most of the time.
        settings.register_profile("first", parent=settings(), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("first")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.send(report.nodeid)


def _run_tests(mutant: Mutant | None, tests: Sequence[str], failed: Connection) -> None:
    """Runs tests in this process, on broken code if there is a mutant, and ends it with pytest's exit code."""
    sys.stdout.flush()
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant, Path(folder)))
        options = ["-q", "-x", "--tb=native", "-p", "no:cacheprovider", "-m", FAST]
        code = int(pytest.main([*options, *tests], plugins=[_Tell(failed)]))
    os._exit(code)


def run_tests(mutant: Mutant | None, tests: Sequence[str]) -> tuple[int | None, str]:
    """Runs tests in a process of their own; gives pytest's exit code, None if they took too long, and what failed."""
    context = multiprocessing.get_context("fork")
    failed, end = context.Pipe(duplex=False)
    child = context.Process(target=_run_tests, args=(mutant, tests, end))
    child.start()
    child.join(None if mutant is None else MOST_SECONDS)
    if child.exitcode is None:
        child.kill()
        child.join()
        return None, ""
    return child.exitcode, failed.recv() if failed.poll() else ""


def judge(mutant: Mutant) -> bool:
    """Says what became of a mutant, and whether a test noticed it."""
    started = time.monotonic()
    code, test = run_tests(mutant, mutant.tests)
    # 1: a test failed. All else, such as an import that failed, is no test's merit.
    outcome = {1: f"caught by {test}", None: "caught: it hung"}.get(code, f"LIVES: pytest's exit code {code}")
    print(f"{time.monotonic() - started:5.1f} s  {mutant.name} ({mutant.file}): {outcome}", flush=True)
    return code in (1, None)


def judge_all(mutants: Sequence[Mutant], *, jobs: int) -> list[bool] | None:
    """Judges mutants, if all their tests pass on the code as it is; else says which does not, and gives None."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with ThreadPoolExecutor(jobs) as pool:
        for code, test in pool.map(lambda part: run_tests(None, part), [t for t in (tests[::2], tests[1::2]) if t]):
            if code != 0:
                print(f"the tests do not pass on the code as it is (pytest's exit code {code}): {test}")
                return None
        return list(pool.map(judge, mutants))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the mutants asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    started, mutants = time.monotonic(), read_mutants(asked.words)
    for mutant in mutants:
        mutant.break_source()
    for name in _HEAVY:
        __import__(name)
    gc.freeze()  # or each process would look through all of that for garbage, and copy it by doing so
    caught = judge_all(mutants, jobs=asked.jobs) if mutants else []
    if caught is None:
        return 1
    print(f"{len(caught)} mutants, {caught.count(False)} live, {time.monotonic() - started:.0f} s")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
