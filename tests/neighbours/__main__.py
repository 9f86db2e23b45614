"""Looks for neighbouring tables that a run tells apart by more than it pays for: `python -m tests.neighbours`."""

import argparse
import secrets
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.neighbours.histories import compare, play
from tests.neighbours.tables import Case, make_case

_LONGEST = 25


class _TooLong(BaseException):
    """A case takes too long, and is left."""


def try_case(case: Case, moved: dict[str, float], tried: Counter[str]) -> list[str]:
    """What is wrong in a case: of its neighbours, and of its own table read in pieces."""
    first = play(case, case.rows)
    tried[first.error.split(":")[0] or "table"] += 1
    if first.error.startswith(("UsageError", "PrivacyError", "SpecsError", "DataError")) and not first.acts:
        tried[first.error[:150]] += 1
        return []
    wrong = []
    for done, rows in case.neighbours:
        tried[f"neighbour: {done.split(' ', 1)[1]}"] += 1
        wrong += [f"{done}: {what}" for what in compare(case, first, play(case, rows, first), moved)]
    if case.number % 3 == 0:
        how = [{"piece": 1 + case.number % 50}, {"block": 16 + case.number % 40}, {"threads": 2}][case.number // 3 % 3]
        tried[f"the same table by {[*how]}"] += 1
        wrong += [f"{how}: {what}" for what in compare(case, first, play(case, case.rows, first, **how), {}, same=True)]
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was tried and found; gives 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.neighbours")
    parser.add_argument("--first", type=int, help="number of the first case; others each time unless given")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--method")
    parser.add_argument("--stop", action="store_true", help="at the first case in which anything is wrong")
    asked = parser.parse_args(arguments)
    first = secrets.randbits(32) if asked.first is None else asked.first
    moved: dict[str, float] = {}
    tried: Counter[str] = Counter()
    failed, end = 0, time.monotonic() + 60 * asked.minutes

    def give_up(*_: Any) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, give_up)
    for number in range(first, first + asked.cases):
        if time.monotonic() > end:
            break
        signal.alarm(_LONGEST)
        try:
            case = make_case(number, method=asked.method)
            tried[f"method {case.options['method']}"] += 1
            wrong = try_case(case, moved, tried)
        except _TooLong:
            tried["took too long"] += 1
            sys.stdout.write(f"{number}: took too long\n")
            continue
        except Exception:
            wrong = [traceback.format_exc()]
        finally:
            signal.alarm(0)
        if wrong:
            failed += 1
            sys.stdout.write(f"case {number} ({case.options}, epsilon {case.epsilon:.3g}): {wrong}\n")
            if asked.stop:
                break
        sys.stdout.flush()
    sys.stdout.write(f"{number - first} cases, {failed} wrong\n")
    for name, times in sorted(tried.items()):
        sys.stdout.write(f"  {times:6} {name}\n")
    for label, length in sorted(moved.items()):
        sys.stdout.write(f"  {label}: moved by {length:.4f} at most\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
