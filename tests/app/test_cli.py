"""The command line: how arguments become a configuration, and how failures become an exit code and one sentence."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpwgan.app import interruption, pipeline
from dpwgan.app.cli import main, parse
from dpwgan.app.config import OPTIONS, ResampleConfig, RunConfig
from dpwgan.errors import (
    DataError,
    DpwganError,
    InputError,
    OutputError,
    PrivacyError,
    ResourceError,
    SpecsError,
    TransferError,
    UsageError,
)
from dpwgan.methods.registry import METHODS
from tests.programs import ROOT, RUN, call

FIVE = ["data.csv", "out.csv", "specs.json", "1.0", "1e-6"]
HEAVY = ("tensorflow", "polars", "pandas", "dp_accounting", "numpy", "scipy", "rich", "jsonschema")


def run_alone(code: str) -> subprocess.CompletedProcess[str]:
    return call(sys.executable, "-c", code, cwd=ROOT, timeout=60)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(config: RunConfig) -> None:
        raise error

    monkeypatch.setattr(pipeline, "run", run)


def interrupt_in(monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[BaseException], None]) -> None:
    """Has a run send itself a signal and do something with the exception that comes of it."""

    def run(config: RunConfig) -> None:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        except BaseException as error:
            then(error)
        signal.pause()

    monkeypatch.setattr(pipeline, "run", run)


def pass_on(error: BaseException) -> None:
    """What a library might do, which wraps each exception that it does not know and lets others through."""
    if isinstance(error, Exception):
        raise RuntimeError("wrapped") from error
    raise error


def wrap(error: BaseException) -> None:
    raise RuntimeError("wrapped") from None


@pytest.mark.parametrize(
    ("argv", "code"), [(["--help"], 0), (["--version"], 0), (["data.csv"], 2), ([*FIVE, "--rows", "x"], 2)]
)
def test_cli_imports_nothing_heavy_when_it_only_has_to_answer(argv, code):
    done = run_alone(
        f"import sys; from dpwgan.app.cli import main; code = main({argv!r}, environment={{}})\n"
        f"print(code, sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert done.stdout.splitlines()[-1] == f"{code} []", done.stderr


def test_package_imports_nothing_heavy_when_it_is_imported():
    done = run_alone(f"import sys, dpwgan; print(dpwgan.__version__, sorted(set({HEAVY!r}) & set(sys.modules)))")
    assert done.stdout.split(maxsplit=1)[1].strip() == "[]"


def test_run_py_passes_the_exit_code_on_when_called_from_another_folder(tmp_path):
    done = call(sys.executable, RUN, "a", "b", "c", "nan", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dpwgan: error: Epsilon must be a finite number above 0.\n"


def test_help_names_every_option_and_exit_code_and_keeps_what_every_run_needs_first_when_asked(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for option in OPTIONS.values():
        assert f"\n  --{option.name}" in text
    for code in ("0 done", "2 usage", "65 ", "66 ", "69 ", "70 ", "73 ", "74 ", "75 ", "78 ", "130, 143"):
        assert code in text
    assert "DPWGAN_" in text
    for method in METHODS:
        assert method in text
    assert "1/n^2" in text
    places = [text.index(f"\n  --{name} ") for name in ("method", "rows", "claim", "seed", "codes", "clip-norm")]
    assert places == sorted(places)
    assert max(len(line) for line in text.splitlines()) <= 120


def test_positionals_come_in_the_documented_order_when_parsed():
    config = parse(FIVE, environment={})
    assert isinstance(config, RunConfig)
    assert (config.data, config.output, config.specs) == ("data.csv", "out.csv", Path("specs.json"))
    assert (config.synthesis.epsilon, config.synthesis.delta) == (1.0, 1e-6)
    assert config.claim_path == Path("out.csv.privacy.json")


def test_flags_may_stand_anywhere_when_parsed():
    argv = ["--rows", "5", "data.csv", "--quiet", "out.csv", "specs.json", "--steps=3", "1", "--hidden-critic", "8,4"]
    config = parse([*argv, "1e-6", "--neighbours", "replace-one"], environment={"DPWGAN_LATENT": "2"})
    assert isinstance(config, RunConfig)
    assert config.synthesis.rows == 5
    assert config.synthesis.delta == 1e-6
    assert config.synthesis.neighbours == "replace-one"
    assert config.synthesis.settings == {"steps": 3, "hidden_critic": (8, 4), "latent": 2}
    assert config.voice.quiet


def test_from_model_takes_the_output_alone_when_parsed():
    config = parse(
        ["--from-model", "m", "out.csv", "--rows", "3", "--threads", "2"], environment={"DPWGAN_LATENT": "2"}
    )
    assert isinstance(config, ResampleConfig)
    assert (config.model, config.output, config.rows, config.threads) == (Path("m"), "out.csv", 3, 2)


@pytest.mark.parametrize(
    ("argv", "fragment"),
    [
        (FIVE[:3], "4 or 5 arguments, not 3"),
        ([*FIVE, "more"], "4 or 5 arguments, not 6"),
        (["", "out.csv", "specs.json", "1"], "must not be empty"),
        ([*FIVE, "--row", "3"], "There is no flag --row (did you mean --rows?)"),
        ([*FIVE, "--rows"], "xpected one argument"),
        ([*FIVE, "--quiet", "--verbose"], "exclude each other"),
        (["data.csv", "out.csv", "specs.json", "-inf"], "Epsilon must be a finite number above 0"),
        (["--from-model", "m", *FIVE], "one positional, OUTPUT"),
        (["--from-model", "m", "out.csv", "--steps", "3"], "--steps has no effect with --from-model"),
        (["--from-model", "m", "out.csv", "--memory", "4GB"], "--memory has no effect with --from-model"),
        ([*FIVE, "--batchsize=3"], "There is no flag --batchsize (did you mean --batch-size?)"),
        ([*FIVE, "--epsilon"], "There is no flag --epsilon: EPSILON goes without a name"),
        ([*FIVE, "--epsilonn"], "There is no flag --epsilonn: EPSILON goes without a name"),
        ([*FIVE, "--eps"], "There is no flag --eps: EPSILON goes without a name"),
    ],
)
def test_cli_answers_with_one_sentence_when_the_arguments_are_wrong(argv, fragment, capsys):
    assert main(argv, environment={}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert fragment in err
    assert err.startswith("dpwgan: error: ")
    assert err.count("\n") == 1


def test_cli_answers_in_json_when_asked_even_for_a_usage_error(capsys):
    assert main([*FIVE, "--log-format", "json", "--rows", "x"], environment={}) == 2
    event = json.loads(capsys.readouterr().err)
    assert event["exit_code"] == 2
    assert event["level"] == "error"


@pytest.mark.parametrize(
    ("error", "code", "fragment"),
    [
        (UsageError("a rule"), 2, "A rule."),
        (DataError("a rule"), 65, "A rule."),
        (InputError("a rule"), 66, "A rule."),
        (PrivacyError("a rule"), 69, "A rule."),
        (DpwganError("a rule"), 70, "Internal error: a rule."),
        (DpwganError("Internal error: a rule."), 70, "Internal error: a rule."),
        (OutputError("a rule"), 73, "A rule."),
        (TransferError("a rule"), 74, "A rule."),
        (OSError(errno.ENOSPC, "SECRET"), 74, "No space left on device"),
        (ResourceError("a rule"), 75, "A rule."),
        (MemoryError(), 75, "Out of memory"),
        (type("ResourceExhaustedError", (Exception,), {})("SECRET"), 75, "Out of memory"),
        (SpecsError("a rule"), 78, "A rule."),
        (KeyboardInterrupt(), 130, "Stopped by SIGINT; no output was written."),
        (ValueError("SECRET"), 70, "Internal error: ValueError at cli.py line"),
        (SystemExit("SECRET"), 70, "Internal error: SystemExit at"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--verbose"], ["--log-format", "json"]])
def test_cli_has_an_exit_code_and_no_cell_when_a_run_fails(monkeypatch, capsys, error, code, fragment, flags):
    fail_with(monkeypatch, error)
    assert main([*FIVE, *flags], environment={}) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert fragment in err
    assert "SECRET" not in err
    assert "Traceback" not in err


def test_cli_tells_the_place_and_not_the_text_when_verbose_meets_an_internal_error(monkeypatch, capsys):
    fail_with(monkeypatch, KeyError("SECRET"))
    assert main([*FIVE, "--verbose"], environment={}) == 70
    err = capsys.readouterr().err
    assert "in fail_with" not in err
    assert "test_cli.py line" in err
    assert " in run" in err
    assert "SECRET" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_cli_stops_with_the_signals_code_when_it_is_interrupted(monkeypatch, capsys, number, code):
    interrupt_in(monkeypatch, number, pass_on)
    before = signal.getsignal(number)
    assert main(FIVE, environment={}) == code
    assert signal.getsignal(number) is before
    assert f"Stopped by {number.name}; no output was written." in capsys.readouterr().err


def test_cli_still_calls_it_an_interruption_when_a_library_wraps_it(monkeypatch):
    interrupt_in(monkeypatch, signal.SIGTERM, wrap)
    assert main(FIVE, environment={}) == 143


def test_cli_insists_when_an_interruption_was_swallowed(monkeypatch):
    interrupt_in(monkeypatch, signal.SIGTERM, lambda error: None)  # as Python does with what a finaliser raises
    monkeypatch.setattr(interruption, "PATIENCE", 0.05)
    assert main(FIVE, environment={}) == 143


def test_cli_finishes_when_a_signal_comes_after_the_point_of_no_return(monkeypatch):
    def run(config: RunConfig) -> None:
        interruption.pass_point_of_no_return()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(pipeline, "run", run)
    assert main(FIVE, environment={}) == 0


def test_cli_keeps_its_exit_code_when_stderr_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(FIVE[:3], environment={}) == 2


def test_tensorflow_is_told_to_be_silent_when_a_run_starts(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    seen: list[str | None] = []
    monkeypatch.setattr(pipeline, "run", lambda config: seen.append(os.environ.get("TF_CPP_MIN_LOG_LEVEL")))
    assert main(FIVE, environment={}) == 0
    assert seen == ["3"]
