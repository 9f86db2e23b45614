"""Work of two processes: the same as of one, whoever fails; no process and no signal is left over."""

import os
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.fit import mixture as mixture_module
from dpwgan.marginals.fit import side_by_side
from dpwgan.marginals.fit.code_information import CodeInformation
from dpwgan.marginals.fit.mixture import Mixture, fit
from dpwgan.marginals.fit.side_by_side import share_memory, work_side_by_side
from dpwgan.marginals.groups import GroupLayout
from tests.marginals.groups import make_mixture
from tests.marginals.random_answers import measure

LAYOUT = GroupLayout((3, 1, 4, 2))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def has_child() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def take_turns(seen: np.ndarray) -> Callable[[Sequence[int], Callable[[], None]], None]:
    """Each part writes its turn, and at the next what the other wrote; and which process it was."""

    def work(own: Sequence[int], meet: Callable[[], None]) -> None:
        for turn in range(20):
            for part in own:
                seen[part, turn] = turn + 100 * part
            meet()
            for part in own:
                seen[2 + part, turn] = seen[1 - part, turn]
        for part in own:
            seen[4 + part, 0] = os.getpid() % 65_536

    return work


@pytest.mark.parametrize("apart", [False, True])
def test_each_part_sees_what_the_other_wrote_when_they_have_met(apart):
    seen = share_memory((6, 20))
    work_side_by_side(take_turns(seen), parts=2, apart=apart)
    assert np.array_equal(seen[:2], [np.arange(20), np.arange(20) + 100])
    assert np.array_equal(seen[2:4], seen[1::-1])
    assert seen[4, 0] == os.getpid() % 65_536
    assert bool(seen[5, 0] != seen[4, 0]) is apart
    assert not has_child()


def make_fit(threads: int | None, meanwhile: Callable[[], None] | None = None) -> Mixture:
    """What a fit to answers makes of 41 codes, an odd number."""
    views = Views(LAYOUT, (True, False, True, False))
    blocks = views.at[2][2]
    measured, _ = measure([(0,), (0, 2), (0, 3), (2, 3), (0, 2, 3), (0, blocks)], views=views, seed=1)
    mixture = make_mixture(41, layout=LAYOUT, seed=2)
    losses = [measured, CodeInformation(weight=0.3)]
    steps, ticks = {"steps": 25, "learning_rate": 0.1, "last_rate": 0.01}, list[int]()
    for first, last in ((0, 20), (20, 25)):
        fit(
            mixture,
            losses,
            **steps,  # type: ignore[arg-type]
            first=first,
            last=last,
            threads=threads,
            tick=lambda: ticks.append(os.getpid()),
            meanwhile=meanwhile,
        )
        meanwhile = None
    assert ticks == [os.getpid()] * 25
    return mixture


def test_fit_is_the_same_to_the_bit_when_one_process_or_two_do_it(monkeypatch):
    monkeypatch.setattr(mixture_module, "_LEAST_APART", 0)
    forks: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    alone = make_fit(1)
    assert not forks
    done: list[int] = []
    for meanwhile, expected in ((None, []), (lambda: done.append(os.getpid()), [os.getpid()])):
        forks.clear()
        apart = make_fit(None, meanwhile)
        assert len(forks) == 2
        assert done == expected
        for name, array in alone.pack().items():
            assert np.array_equal(array, apart.pack()[name]), name
    # What may be done meanwhile is left to later where there is no other process to do the rest.
    make_fit(1, lambda: done.append(0))
    assert done == [os.getpid()]
    assert np.abs(alone.logits - make_mixture(41, layout=LAYOUT, seed=2).logits).max() > 0.1


@pytest.mark.parametrize("reason", ["one core", "no more processes"])
def test_all_is_done_here_when_there_can_be_no_other_process(monkeypatch, reason):
    def refuse() -> int:
        raise BlockingIOError("no more processes")

    if reason == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    monkeypatch.setattr(os, "fork", refuse)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    seen = share_memory((6, 20))
    work_side_by_side(take_turns(seen), parts=2, apart=True)
    assert seen[5, 0] == seen[4, 0] == os.getpid() % 65_536
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda: os._exit(3), RuntimeError),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), MemoryError),
        (lambda: bytearray(1 << 62), MemoryError),
        (lambda: [][0], RuntimeError),
    ],
)
def test_end_of_the_other_half_is_an_error_here(end, expected):
    def work(own: Sequence[int], meet: Callable[[], None]) -> None:
        meet()
        if own == [1]:
            end()
        meet()

    with pytest.raises(expected, match="the other half"):
        work_side_by_side(work, parts=2, apart=True)
    assert not has_child()


def fail() -> None:
    raise ValueError("here")


@pytest.mark.parametrize("meanwhile", [None, fail])
def test_other_process_ends_when_this_one_fails(meanwhile):
    def work(own: Sequence[int], meet: Callable[[], None]) -> None:
        if own == [0]:
            fail()
        while True:
            meet()

    with pytest.raises(ValueError, match="here"):
        work_side_by_side(work, parts=2, apart=True, meanwhile=meanwhile)
    assert not has_child()


def test_signals_are_for_this_process_alone_when_all_are_told():
    """As a terminal does: the other half goes on, and no handler of this process runs in it."""
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: told.append(os.getpid()))
    seen = share_memory((2,))
    try:

        def work(own: Sequence[int], meet: Callable[[], None]) -> None:
            seen[own[0]] = os.getpid()
            meet()
            if own == [0]:
                os.kill(int(seen[1]), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.05)
            meet()
            seen[own[0]] = len(told)

        work_side_by_side(work, parts=2, apart=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen.tolist() == [1, 0]
    assert told == [os.getpid()]


@pytest.mark.parametrize("is_alone", [False, True])
def test_other_process_ends_when_this_one_is_killed(is_alone):
    """A process that makes a second one and is killed: the second has no one to work for, nor locks to hold."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        seen = share_memory((2,), np.int64)

        def work(own: Sequence[int], meet: Callable[[], None]) -> None:
            seen[own[0]] = os.getpid()
            meet()
            if 0 in own:
                os.write(writing, str(os.getpid() if is_alone else seen[1]).encode())
            while True:
                meet()

        meanwhile = signal.pause if is_alone else None
        side_by_side.work_side_by_side(work, parts=2, apart=True, meanwhile=meanwhile)
        os._exit(0)
    other = int(os.read(reading, 20))
    assert other != child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(200):
        if not os.path.exists(f"/proc/{other}") or "Z" in open(f"/proc/{other}/stat").read().split()[2]:  # noqa: SIM115
            break
        time.sleep(0.05)
    else:
        os.kill(other, signal.SIGKILL)
        pytest.fail("the second process goes on")
