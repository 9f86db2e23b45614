"""Progress and logs: what is said on stderr, where, and in which form."""

import contextlib
import io
import json
import math
import sys
from typing import Any

import pytest

from dpwgan.app.delivery import Voice
from dpwgan.app.logs import LOGGER, speak
from dpwgan.app.progress import Lines, ignore_progress, show_progress, show_stages


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stand_in_for_stderr(monkeypatch: pytest.MonkeyPatch, *, term: str = "xterm") -> Terminal:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    return terminal


def say(steps: range, seconds: float, **options: Any) -> list[str]:
    """What is said at these of 100 steps, so many seconds after each other."""
    now = [0.0]
    with contextlib.redirect_stderr(io.StringIO()) as stream, speak():
        lines = Lines(clock=lambda: now[0], **options)
        for step in steps:
            lines(step, 100, step / 100)
            now[0] += seconds
    return stream.getvalue().splitlines()


def test_lines_come_once_a_tenth_when_steps_pass():
    said = say(range(1, 101), 1.0)
    assert len(said) == 10
    assert said[4] == "dpwgan: step 50 of 100 (50%), epsilon spent so far 0.5, about 50 s left"
    assert said[-1] == "dpwgan: step 100 of 100 (100%), epsilon spent so far 1, about 0 s left"


def test_lines_wait_when_little_time_has_passed():
    said = say(range(1, 100), 0.5, parts=2, patience=30.0)
    assert said == ["dpwgan: step 61 of 100 (61%), epsilon spent so far 0.61, about 20 s left"]


def test_first_line_says_no_time_when_a_run_goes_on_where_it_was():
    assert say(range(30, 50, 10), 5.0) == [
        "dpwgan: step 30 of 100 (30%), epsilon spent so far 0.3",
        "dpwgan: step 40 of 100 (40%), epsilon spent so far 0.4, about 30 s left",
    ]


# Without a guarantee epsilon is infinite, and is not shown.
EPSILONS = pytest.mark.parametrize(
    ("spent", "said", "hidden"), [(0.25, "epsilon", "no guarantee"), (math.inf, "no guarantee", "inf")]
)


@EPSILONS
def test_lines_are_json_when_asked(spent, said, hidden, capsys):
    with speak(log_format="json"):
        Lines()(5, 10, spent)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["step"], event["steps"]) == ("progress", 5, 10)
    assert event["epsilon_spent"] == (spent if math.isfinite(spent) else None)
    assert event["seconds_left"] is None
    assert said in event["message"]
    assert hidden not in event["message"]


@EPSILONS
def test_progress_is_a_bar_when_stderr_is_a_terminal(monkeypatch, spent, said, hidden):
    terminal = stand_in_for_stderr(monkeypatch)
    with show_progress(Voice()) as progress:
        assert not isinstance(progress, Lines)
        progress(3, 10, spent / 2)
        progress(10, 10, spent)
    assert said in terminal.getvalue()
    assert hidden not in terminal.getvalue()
    assert "10/10" in terminal.getvalue()


def test_bar_and_log_share_the_terminal_when_something_is_said_meanwhile(monkeypatch):
    terminal = stand_in_for_stderr(monkeypatch)
    with speak(), show_progress(Voice()) as progress:
        progress(3, 10, 0.5)
        LOGGER.warning("said meanwhile")
        assert sys.stderr is not terminal
    said = terminal.getvalue()
    # The bar's line is wiped before the words come, and drawn again below them.
    assert "\x1b[2Kdpwgan: warning: said meanwhile\n" in said


def test_stages_are_one_line_and_warnings_stay_when_stderr_is_a_terminal(monkeypatch):
    terminal = stand_in_for_stderr(monkeypatch)
    with speak(), show_stages(Voice()):
        LOGGER.info("measuring: [the] floor")
        LOGGER.warning("said meanwhile")
    said = terminal.getvalue()
    assert "measuring: [the] floor" in said
    assert "dpwgan: measuring" not in said
    assert "dpwgan: warning: said meanwhile\n" in said


@pytest.mark.parametrize("voice", [Voice(), Voice(quiet=True)])
def test_stages_are_lines_or_nothing_when_stderr_is_no_terminal_or_quiet(voice, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal() if voice.quiet else io.StringIO())
    with speak(quiet=voice.quiet), show_stages(voice):
        LOGGER.info("measuring")
    assert sys.stderr.getvalue() == ("" if voice.quiet else "dpwgan: measuring\n")


@pytest.mark.parametrize("voice", [Voice(), Voice(log_format="json")])
def test_progress_is_lines_when_the_terminal_cannot_redraw(monkeypatch, voice):
    stand_in_for_stderr(monkeypatch, term="dumb")
    with show_progress(voice) as progress:
        assert isinstance(progress, Lines)


def test_progress_has_no_colour_when_no_color_is_set(monkeypatch):
    terminal = stand_in_for_stderr(monkeypatch, term="xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    with show_progress(Voice()) as progress:
        progress(10, 10, 0.75)
    assert "\x1b[3" not in terminal.getvalue()
    assert "\x1b[9" not in terminal.getvalue()


def test_progress_is_nothing_when_quiet(monkeypatch):
    terminal = stand_in_for_stderr(monkeypatch)
    with show_progress(Voice(quiet=True)) as progress:
        assert progress is ignore_progress
        progress(1, 1, 1.0)
    assert terminal.getvalue() == ""


def test_logs_hold_warnings_only_when_quiet(capsys):
    with speak(quiet=True):
        LOGGER.info("not said")
        LOGGER.warning("said")
    LOGGER.warning("not said any more")
    assert capsys.readouterr().err == "dpwgan: warning: said\n"
