"""Settings: one table, four layers, and a refusal for each value that cannot be acted on."""

import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app.config import (
    OPTIONS,
    TRAINING_OPTIONS,
    ResampleConfig,
    RunConfig,
    SynthesisConfig,
    default_delta,
    gather,
)
from dpwgan.app.delivery import Voice
from dpwgan.errors import UsageError
from dpwgan.methods.registry import METHODS, get_method, make_settings
from dpwgan.privacy.terms import RULES
from dpwgan.settings import Setting, declared


def make_run(tmp_path: Path, **changes: object) -> RunConfig:
    fields: dict = {
        "data": str(tmp_path / "data.csv"),
        "output": str(tmp_path / "out.csv"),
        "specs": tmp_path / "specs.json",
        "synthesis": SynthesisConfig(epsilon=1.0),
    }
    return RunConfig(**{**fields, **changes})


@pytest.mark.parametrize("records", [1, 2, 3, 100, 661_968])
def test_default_delta_is_one_over_n_squared_and_stays_below_one_when_there_is_one_row(records):
    assert default_delta(records) == (1 / records**2 if records > 1 else 0.25)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "fifth argument"),
        ({"rows": 0}, "^rows must be a whole number of at least 1"),
        ({"preset": "best"}, "preset must be one of uclanesl-2019"),
        ({"preset": "uclanesl-2019", "method": "query-gan"}, "the preset uclanesl-2019 is for the method dp-wgan"),
        ({"settings": {"codes": 4}, "method": "dp-gan"}, "the method dp-gan has no setting codes"),
        ({"settings": {"expected_batch_size": 4}, "method": "query-gan"}, "has no setting batch-size"),
        ({"settings": {"weight_clips": 3}}, "weight_clips .*did you mean weight_clip"),
        ({"settings": {"steps": 3, "epochs": 1.0}}, "steps and epochs exclude each other"),
    ],
)
def test_synthesis_config_refuses_a_value_when_it_cannot_be_acted_on(changes, fragment):
    with pytest.raises(UsageError, match=fragment):
        SynthesisConfig(**{"epsilon": 1.0, **changes})


def test_preset_has_the_published_noise_and_rows_when_epsilon_passes_the_border():
    low, high = (SynthesisConfig(epsilon=epsilon, preset="uclanesl-2019") for epsilon in (5.0, 5.1))
    assert (low.training["noise_multiplier"], low.training["l2_clip_norm"]) == (3.0, 1.0)
    assert high.training == {**low.training, "noise_multiplier": 1.0}
    assert low.rows_and_reason == (1_000_000, "preset uclanesl-2019")


def test_preset_yields_when_a_single_setting_is_given():
    config = SynthesisConfig(epsilon=1.0, preset="uclanesl-2019", settings={"steps": 7, "latent": 3}, rows=5)
    assert config.training["steps"] == 7
    assert "epochs" not in config.training
    assert config.training["latent"] == 3
    assert config.rows_and_reason == (5, "asked for")


def choose_value(option: Setting) -> Any:
    """Gives a value that the setting may have, as text."""
    number = 4 if option.bounds.get("below") is None else 0.5
    return "true" if option.is_switch else option.choices[0] if option.choices else str(number)


def choose_wrong_values(option: Setting) -> list[str]:
    """Gives the texts next to what a setting may have: just beyond each of its bounds, or of another type."""
    beyond = {"at_least": -1, "above": 0, "at_most": 1, "below": 0}
    numbers = [str(bound + beyond[name]) for name, bound in option.bounds.items()]
    return numbers or ["neither"]


@pytest.mark.parametrize("option", [one for one in OPTIONS.values() if one.choices or one.bounds or one.is_switch])
def test_setting_is_refused_by_the_name_it_was_given_under_when_it_is_out_of_bounds(option, tmp_path):
    file = tmp_path / "settings.toml"
    for text in choose_wrong_values(option):
        with pytest.raises(UsageError, match=f"^--{option.name} must be {re.escape(option.form)}$"):
            gather({option.key: text}, environment={})
        if not option.flag_only:
            with pytest.raises(UsageError, match=f"^{option.variable} must be "):
                gather({}, environment={option.variable: text})
            file.write_text(f"{option.name} = '{text}'")
            with pytest.raises(UsageError, match=f"^{option.name} in the config file must be "):
                gather({"config": str(file)}, environment={})


@pytest.mark.parametrize("option", [*declared(SynthesisConfig).values(), *TRAINING_OPTIONS.values()])
def test_keyword_is_refused_by_its_name_when_its_value_has_another_type(option):
    asked: dict[str, Any] = {option.key: object()}
    if option.key in TRAINING_OPTIONS:
        method = next(name for name in METHODS if option.key in declared(METHODS[name].settings))
        asked = {"method": method, "settings": asked}
    with pytest.raises(UsageError, match=f"^{option.key} must be {re.escape(option.form)}$"):
        SynthesisConfig(epsilon=1.0, **asked)


def test_setting_is_held_to_the_bounds_of_the_method_when_two_methods_have_others():
    flags = {"expected_batch_size": "200000"}
    assert gather(flags, environment={})[0] == {"expected_batch_size": 200_000}
    with pytest.raises(UsageError, match=r"^--batch-size must be a whole number from 1 to 100,000$"):
        gather({**flags, "method": "dp-critic"}, environment={})


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_is_taken_or_refused_by_name_when_a_method_is_asked(method):
    own = declared(METHODS[method].settings)
    assert get_method(method).name == method
    assert type(make_settings(method)) is METHODS[method].settings
    for option in TRAINING_OPTIONS.values():
        value = own.get(option.key, option).read(choose_value(option), origin=option.name)
        try:
            make_settings(method, **{option.key: value})
        except UsageError as error:
            assert option.name in str(error) or option.key.replace("_", "-") in str(error)  # noqa: PT017
        else:
            SynthesisConfig(epsilon=1.0, method=method, settings={option.key: value})
            assert option.key in own


def test_choices_are_those_of_the_accounting_when_compared():
    assert OPTIONS["accountant"].choices == RULES


def test_layers_win_in_order_when_all_of_them_speak(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('rows = 1\nthreads = 1\ndevice = "cpu"\nhidden-critic = [8, 4]\nlatent = 2\n')
    values, path = gather(
        {"config": str(file), "threads": 3}, environment={"DPWGAN_ROWS": "2", "DPWGAN_THREADS": "2", "HOME": "/"}
    )
    assert values == {"rows": 2, "threads": 3, "device": "cpu", "hidden_critic": (8, 4), "latent": 2}
    assert path == file


def test_layers_replace_epochs_when_a_later_one_gives_steps(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("epochs = 3\nquiet = true\n")
    values, _ = gather({"config": str(file), "steps": 9, "verbose": True}, environment={})
    assert values == {"steps": 9, "verbose": True}


def test_config_file_is_named_when_the_environment_points_to_it(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("batch_size = 12\n")
    values, path = gather({}, environment={"DPWGAN_CONFIG": str(file)})
    assert values == {"expected_batch_size": 12}
    assert path == file


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("epsilonn = 1", "unknown key epsilonn"),
        ("batchsize = 3", "unknown key batchsize .did you mean batch-size"),
        ("[training]\nsteps = 3", "unknown key training"),
        ("steps = 'many'", "steps in the config file must be a whole number"),
        ("steps = true", "steps in the config file must be a whole number"),
        ("quiet = 1", "quiet in the config file must be true or false"),
        ("weight-clip = inf", "weight-clip in the config file must be a number from 1e-06 to 1000"),
        ("batch-size = 3\nbatch_size = 4", "gives batch-size twice"),
        ("seed = 3", "seed changes what a run means"),
        ("check = true", "check changes what a run means"),
        ("steps = ", "not TOML"),
    ],
)
def test_config_file_is_refused_by_name_when_a_line_is_wrong(tmp_path, text, fragment):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=fragment):
        gather({"config": str(file)}, environment={})


@pytest.mark.parametrize(
    ("name", "text", "fragment"),
    [
        ("DPWGAN_ROW", "3", "unknown setting DPWGAN_ROW .did you mean DPWGAN_ROWS"),
        ("DPWGAN_EPSILON", "3", "unknown setting DPWGAN_EPSILON"),
        ("DPWGAN_ROWS", "three", "DPWGAN_ROWS must be a whole number"),
        ("DPWGAN_SEED", "3", "can only be given as a flag"),
    ],
)
def test_environment_is_refused_by_name_when_a_variable_is_wrong(name, text, fragment):
    with pytest.raises(UsageError, match=fragment):
        gather({}, environment={name: text})


def test_environment_counts_as_not_set_when_a_variable_is_empty():
    values, _ = gather({}, environment={"DPWGAN_ROWS": "", "DPWGAN_QUIET": "1"})
    assert values == {"quiet": True}


def test_every_option_has_its_own_names_when_the_table_is_read():
    assert len({option.name for option in OPTIONS.values()}) == len(OPTIONS)
    for entry in METHODS.values():
        for key, option in declared(entry.settings).items():
            assert (option.name, option.kind) == (OPTIONS[key].name, OPTIONS[key].kind)


@pytest.mark.parametrize("target", ["data.csv", "specs.json"])
def test_run_is_refused_when_the_output_is_an_input(tmp_path, target):
    for name in ("data.csv", "specs.json"):
        (tmp_path / name).write_text("x")
    (tmp_path / "symbolic").symlink_to(tmp_path / target)
    os.link(tmp_path / target, tmp_path / "hard")
    for name in (target, "symbolic", "hard", f"sub/../{target}"):
        (tmp_path / "sub").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="output is the same file as an input"):
            make_run(tmp_path, output=str(tmp_path / name))
        with pytest.raises(UsageError, match="claim is the same file as an input"):
            make_run(tmp_path, claim=str(tmp_path / name))


def test_run_is_refused_when_two_outputs_are_one_file(tmp_path):
    with pytest.raises(UsageError, match="output and claim are the same file"):
        make_run(tmp_path, claim=str(tmp_path / "out.csv"))
    with pytest.raises(UsageError, match="output and saved model are the same file"):
        make_run(tmp_path, save_model=tmp_path / "out.csv")


@pytest.mark.parametrize("name", ["out.XLSX", "out.json", "out.tsv"])
def test_run_is_refused_when_its_output_is_called_what_it_will_not_be(tmp_path, name):
    with pytest.raises(UsageError, match=r"would be CSV, which its name denies: end it in \.csv or \.parquet"):
        make_run(tmp_path, output=name)


def test_run_is_refused_when_the_claim_would_be_lost(tmp_path):
    with pytest.raises(UsageError, match="claim would be lost"):
        make_run(tmp_path, output="-", voice=Voice(quiet=True))


@pytest.mark.parametrize(
    ("output", "claim", "path"),
    [
        ("out.csv", None, "out.csv.privacy.json"),
        ("out.csv", "-", "out.csv.privacy.json"),
        ("out.csv", "c.json", "c.json"),
        ("-", "c.json", "c.json"),
        ("-", None, None),
        ("/dev/null", None, None),
        ("/dev/null", "c.json", "c.json"),
    ],
)
def test_claim_goes_beside_the_output_when_no_path_is_given(tmp_path, output, claim, path):
    config = make_run(tmp_path, output=output, claim=claim)
    assert config.claim_path == (Path(path) if path is not None else None)


def test_resampling_is_refused_when_the_output_lies_in_the_model(tmp_path):
    with pytest.raises(UsageError, match="inside the saved model"):
        ResampleConfig(model=tmp_path, output=str(tmp_path / "out.csv"))


@pytest.mark.parametrize(
    ("text", "amount"),
    [("4GB", 4 << 30), ("800MB", 800 << 20), ("1.5 gib", 3 << 29), ("2k", 2048), ("12345", 12345), ("1TB", 1 << 40)],
)
def test_amount_is_read_when_it_has_any_usual_unit(text, amount):
    assert OPTIONS["memory"].read(text, origin="--memory") == amount


@pytest.mark.parametrize("text", ["", "GB", "4 4GB", "-1GB", "1e9", "4GB/s", "inf"])
def test_amount_is_refused_when_it_is_none(text):
    with pytest.raises(UsageError, match="--memory must be an amount such as"):
        OPTIONS["memory"].read(text, origin="--memory")
