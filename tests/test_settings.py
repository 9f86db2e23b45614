"""A setting is declared once: its type and bounds are read from there, by text, by TOML, and by Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from dpwgan.errors import UsageError
from dpwgan.settings import MethodSettings, again, declared, setting


@dataclass(frozen=True, kw_only=True)
class Inner(MethodSettings):
    """Settings that another class holds."""

    heading = "inner"

    steps: int = setting(3, "how many", flag="how-many", at_least=1, at_most=1_000)
    rate: float | None = setting(None, "how fast", above=0, excludes="steps")


@dataclass(frozen=True, kw_only=True)
class Outer(MethodSettings):
    """Settings of every type."""

    heading = "outer"

    marginals: tuple[tuple[str, ...], ...] | None = setting(None, "lists of columns")
    columns: tuple[str, ...] | None = setting(None, "columns")
    widths: tuple[int, ...] | None = setting(None, "widths", at_least=1)
    share: float = setting(0.5, "a share", at_least=0, below=1)
    kind: Literal["one", "two"] = setting("one", "which")
    label: str | None = setting(None, "a column", form="the name of a column")
    loud: bool = setting(False, "whether")
    folder: Path | None = setting(None, "where")
    inner: Inner = Inner()


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("marginals", "a,b;c", (("a", "b"), ("c",))),
        ("marginals", ["a,b", "c,d"], (("a", "b"), ("c", "d"))),
        ("marginals", [["a,b", "c"], ["d"]], (("a,b", "c"), ("d",))),
        ("columns", "a,b", ("a", "b")),
        ("columns", ["a,b", "c"], ("a,b", "c")),
        ("widths", "8,4", (8, 4)),
        ("widths", [8, 4], (8, 4)),
        ("widths", 8, (8,)),
        ("share", "0.25", 0.25),
        ("share", 0, 0.0),
        ("kind", "two", "two"),
        ("label", "a,b", "a,b"),
        ("loud", "yes", True),
        ("loud", False, False),
        ("folder", "here", Path("here")),
    ],
)
def test_value_is_read_when_it_has_the_type_of_its_field(key, given, value):
    read = declared(Outer)[key].read(given, origin="--it")
    assert read == value
    assert type(read) is type(value)
    made = Outer.make("outer", {key: read})
    assert getattr(made.inner if key == "steps" else made, key) == value


@pytest.mark.parametrize(
    ("key", "given", "form"),
    [
        ("marginals", [["a"], []], "one or more lists of names, such as age,sex;age"),
        ("marginals", "a;;b", "one or more lists of names, such as age,sex;age"),
        ("marginals", [[["a"]]], "one or more lists of names, such as age,sex;age"),
        ("columns", "", "one or more names, such as age,sex"),
        ("columns", [["a"]], "one or more names, such as age,sex"),
        ("widths", [8, 0], "one or more whole numbers of at least 1, such as 256,128"),
        ("widths", [8, 1.5], "one or more whole numbers of at least 1, such as 256,128"),
        ("widths", [], "one or more whole numbers of at least 1, such as 256,128"),
        ("share", 1, "a number of at least 0 and below 1"),
        ("share", "nan", "a number of at least 0 and below 1"),
        ("share", True, "a number of at least 0 and below 1"),
        ("kind", "three", "one of one, two"),
        ("label", "", "the name of a column"),
        ("label", ["a"], "the name of a column"),
        ("loud", 1, "true or false"),
        ("loud", "maybe", "true or false"),
        ("steps", "1_000", "a whole number from 1 to 1,000"),
        ("share", "0_0.5", "a number of at least 0 and below 1"),
        ("share", "\u0660.5", "a number of at least 0 and below 1"),
        ("steps", "1001", "a whole number from 1 to 1,000"),
        ("steps", 1.0, "a whole number from 1 to 1,000"),
        ("steps", {"a": 1}, "a whole number from 1 to 1,000"),
        ("rate", "inf", "a finite number above 0"),
        ("widths", ["1" + "0" * 400], "one or more whole numbers of at least 1, such as 256,128"),
    ],
)
def test_value_is_refused_with_what_is_expected_when_it_is_none(key, given, form):
    with pytest.raises(UsageError) as caught:
        declared(Outer)[key].read(given, origin="--it")
    assert str(caught.value) == f"--it must be {form}"


def test_value_is_refused_when_it_holds_what_no_path_and_no_name_can_hold():
    for key in ("folder", "columns", "steps"):
        with pytest.raises(UsageError, match=r"^--it holds a NUL character$"):
            declared(Outer)[key].read("a\0b", origin="--it")


@pytest.mark.parametrize(
    ("asked", "fragment"),
    [
        ({"steps": 0}, "^steps must be a whole number from 1 to 1,000$"),
        ({"steps": True}, "^steps must be "),
        ({"steps": None}, "^steps must be "),
        ({"label": 3}, "^label must be the name of a column$"),
        ({"loud": "yes"}, "^loud must be true or false$"),
        ({"widths": (8, True)}, "^widths must be "),
        ({"rate": 0.1, "steps": 2}, "^rate and steps exclude each other: give one of them$"),
        ({"other": 1}, "^the method outer has no setting other$"),
    ],
)
def test_python_is_refused_by_its_keyword_when_a_value_cannot_be_acted_on(asked, fragment):
    with pytest.raises(UsageError, match=fragment):
        Outer.make("outer", asked)


def test_setting_has_the_names_of_its_field_when_none_are_given():
    options = declared(Outer)
    assert list(options)[-2:] == ["steps", "rate"]
    steps, share = options["steps"], options["share"]
    assert (steps.name, steps.variable, steps.heading) == ("how-many", "DPWGAN_HOW_MANY", "inner")
    assert (share.name, share.variable, share.heading, share.metavar) == ("share", "DPWGAN_SHARE", "outer", "X")
    assert (options["widths"].metavar, options["marginals"].metavar) == ("N[,N...]", "NAME,NAME[;...]")


def test_setting_is_the_same_but_for_its_changes_when_it_is_declared_again():
    @dataclass(frozen=True, kw_only=True)
    class Narrow(MethodSettings):
        steps: int = again(Inner, "steps", 7, at_most=10)

    assert (Narrow().steps, declared(Narrow)["steps"].help) == (7, "how many")
    with pytest.raises(UsageError, match=r"^steps must be a whole number from 1 to 10$"):
        Narrow(steps=11)
