"""Every kind of bad or odd input that is promised an answer, with the exit code and the sentence it gets.

One table, read by the tests and by `python -m tests.end_to_end.bad_inputs`, which writes docs/errors.md from it.
"""

import gzip
import json
import os
import re
import shlex
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwgan.__main__ import main as every_command
from dpwgan.privacy.budget import NeighboringRelation
from tests.programs import begin_book

SECRET = "Zq7secret"
FAST = tuple(shlex.split("--anchor none --steps 3 --batch-size 8 --hidden-critic 8 --hidden-generator 8 --latent 4"))
# The same for Python.
SETTINGS: dict[str, Any] = {
    **{"anchor": "none", "steps": 3, "expected_batch_size": 8},
    **{"hidden_critic": (8,), "hidden_generator": (8,), "latent": 4},
}
SPECS: dict[str, Any] = {
    "colour": {"type": "enum", "values": ["red", "green", "blue, dark"]},
    "age": {"type": "integer", "min": 0, "max": 120},
    "income": {"type": "float", "min": 0, "max": 1000, "decimals": 1, "optional": True},
    "member": {"type": "enum", "count": 2},
}
HEADER = "colour,age,income,member"
COLOURS = ("red", "green", '"blue, dark"')
ROWS = tuple(
    f"{COLOURS[row % 3]},{row % 90},{'' if row % 7 == 0 else f'{row * 3.5:.1f}'},{row % 2}" for row in range(60)
)

# Places that another run has, to the end of this process.
TAKEN = ExitStack()

Prepare = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of input: `prepare` changes a folder that holds a good data.csv and specs.json."""

    kind: str
    exit_code: int
    prepare: Prepare
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def write_good(folder: Path) -> None:
    """Writes the table and the specs that every case starts from."""
    (folder / "data.csv").write_text("\n".join((HEADER, *ROWS)) + "\n", encoding="utf-8")
    (folder / "specs.json").write_text(json.dumps(SPECS), encoding="utf-8")


def write_paid(folder: Path) -> None:
    """Writes that table with two numbers more, long ones that are the same."""
    lines = [f"{HEADER},pay,total", *(f"{row},{70 * number},{70 * number}" for number, row in enumerate(ROWS))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    paid = {name: {"type": "integer", "min": 0, "max": 5_000} for name in ("pay", "total")}
    (folder / "specs.json").write_text(json.dumps({**SPECS, **paid}), encoding="utf-8")


def file(name: str, content: str | bytes) -> Prepare:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def data(content: str | bytes) -> Prepare:
    return file("data.csv", content)


def specs_text(text: str) -> Prepare:
    return file("specs.json", text)


def both(*steps: Prepare) -> Prepare:
    return lambda folder: [step(folder) for step in steps]


def holds(name: str, files: Mapping[str, str], *, mode: int = 0o755) -> Prepare:
    """Makes a folder that holds these files."""

    def prepare(folder: Path) -> None:
        (folder / name).mkdir()
        (folder / name).chmod(mode)
        for part, text in files.items():
            (folder / name / part).write_text(text)

    return prepare


def layout(label: str) -> dict[str, Any]:
    return {"kind": "image", "shape": [2, 2, 1], "pixels": {"prefix": "p", "from": 0}, "label": label}


def with_row(row: str) -> Prepare:
    return data("\n".join((HEADER, *ROWS[:30], row, *ROWS[30:])) + "\n")


def specs(**columns: Any) -> Prepare:
    """Replaces the specs of single columns; None takes a column out."""
    document = {name: keys for name, keys in {**SPECS, **columns}.items() if keys is not None}
    return specs_text(json.dumps(document))


def two_rows(column: str) -> dict[str, Any]:
    """A unit of at most two rows, by this column."""
    return {"column": column, "max_rows": 2}


def booked(epsilon: float, *relation: NeighboringRelation, cut: bool = False) -> Prepare:
    def prepare(folder: Path) -> None:
        begin_book(folder, epsilon, *relation)
        if cut:
            (folder / "b.book").write_bytes((folder / "b.book").read_bytes() + b'{"kind": "res')

    return prepare


def taken(folder: Path) -> None:
    from dpwgan.table.files.places import hold_place

    TAKEN.enter_context(hold_place(folder / "out.csv"))


def nested(folder: Path) -> None:
    import polars as pl

    cells = {**{name: ["1"] for name in SPECS}, "age": [[SECRET]]}
    pl.DataFrame(cells).write_parquet(folder / "data.parquet")


def damaged_gzip(folder: Path) -> None:
    packed = gzip.compress((folder / "data.csv").read_bytes())
    (folder / "data.csv").write_bytes(packed[: len(packed) // 2])


def packed_images(folder: Path) -> None:
    """An archive of 150 KB that takes 150 MB when it is unpacked."""
    with zipfile.ZipFile(folder / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", bytes(150_000_000))


def linked(folder: Path) -> None:
    os.link(folder / "data.csv", folder / "out.csv")


def words(text: str) -> tuple[str, ...]:
    """Arguments as they are typed."""
    return tuple(shlex.split(text))


def args(changed: str = "", flags: str | None = None) -> tuple[str, ...]:
    """The four arguments of a run, the first of them changed, and these flags."""
    given = ["data.csv", "out.csv", "specs.json", "1.0"]
    given[: len(words(changed))] = words(changed)
    return (*given, *(FAST if flags is None else words(flags)))


def budget(numbers: str) -> tuple[str, ...]:
    return args(f"data.csv out.csv specs.json {numbers}")


def by(method: str) -> tuple[str, ...]:
    return args(flags=f"--method {method}")


def flags(more: str) -> tuple[str, ...]:
    return (*args(), *words(more))


def workers(index: int = 0, role: object = "worker", **more: list[str]) -> dict[str, str]:
    cluster = {"worker": ["a:1", "b:2"], **more}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def refuse(
    kind: str,
    exit_code: int,
    prepare: Prepare = lambda folder: None,
    arguments: tuple[str, ...] = args(),
    environment: Mapping[str, str] | None = None,
) -> Case:
    return Case(kind=kind, exit_code=exit_code, prepare=prepare, arguments=arguments, environment=environment or {})


def share(kind: str, prepare: Prepare = lambda folder: None, arguments: tuple[str, ...] = args()) -> Case:
    return refuse(f"several workers {kind}", 2, prepare, arguments, workers())


def accept(kind: str, prepare: Prepare) -> Case:
    return refuse(kind, 0, prepare)


LINES = (HEADER, *ROWS)
TABLE = "\n".join(LINES) + "\n"
PLAIN = TABLE.replace('"blue, dark"', "red")
FIRST = f"{HEADER}\n{ROWS[0]}"
ONE_NUMBER = "\n".join((HEADER, *("red,1,4.0,1" for row in ROWS)))
UNIT_OF_AGES = specs(unit=two_rows("age"), age=None)
AGAIN = words("--from-model model out.csv")
A_PART = {"a.csv": HEADER}
DROPPING = {"sql": "age < 100", "violations": "drop"}
UNLISTED = {"type": "enum", "values_from": "data", "domain_privacy": "waived"}
DIGITS = json.dumps({"layout": layout("digit"), "digit": {"type": "enum", "count": 2}})
PAIR = {"columns": ["colour", "member"]}
AUDITED = ("evaluate", "data.csv", "data.csv", "specs.json", "--audit", "audit.json")

CASES: tuple[Case, ...] = (
    # the arguments
    refuse("no arguments at all", 2, arguments=()),
    refuse("a flag that does not exist", 2, arguments=flags("--epsilonn 3")),
    refuse('epsilon "abc"', 2, arguments=budget("abc")),
    refuse('epsilon "1,5"', 2, arguments=budget("1,5")),
    *(refuse(f"epsilon {text}", 2, arguments=budget(text)) for text in ("0", "1_0", "-1e-3", "nan", "inf")),
    refuse("a column count as fifth argument", 2, arguments=budget("1.0 98")),
    refuse("delta 0", 2, arguments=budget("1.0 0")),
    refuse("delta nan", 2, arguments=budget("1.0 nan")),
    refuse("an .npz output without images", 2, arguments=args("data.csv out.npz")),
    refuse("an .xlsx output", 2, arguments=args("data.csv out.xlsx")),
    refuse("--rows 0", 2, arguments=flags("--rows 0")),
    refuse("--where that names no column", 2, arguments=flags("--where '1 = 1'")),
    refuse("--where beyond a column's range", 2, arguments=flags("--where 'age > 200'")),
    refuse(
        "rules that drop rows, without a guarantee", 2, specs(rules=[DROPPING]), by("loss-noise-gan --no-guarantee")
    ),
    refuse("a unit in the specs, without a guarantee", 2, UNIT_OF_AGES, by("loss-noise-gan --no-guarantee")),
    refuse("--rows-per-unit beside a unit in the specs", 2, UNIT_OF_AGES, flags("--rows-per-unit 3")),
    refuse(
        "--where on a column that is not the unit's",
        2,
        specs(unit=two_rows("member"), member={"type": "integer", "uuid": True}),
        flags("--where 'age > 20'"),
    ),
    refuse("a method that does not exist", 2, arguments=flags("--method magic")),
    refuse("a preset that does not exist", 2, arguments=flags("--preset best")),
    refuse("a preset of another method", 2, arguments=by("query-gan --preset uclanesl-2019")),
    refuse("another method's setting", 2, arguments=by("query-gan --batch-size 8")),
    refuse("no --no-guarantee for a method that needs it", 2, arguments=by("loss-noise-gan")),
    refuse("--no-guarantee for a method that has one", 2, arguments=flags("--no-guarantee")),
    refuse(
        "--hidden-critic for images",
        2,
        both(specs_text(DIGITS), data("digit,p0,p1,p2,p3\n" + "1,0,9,200,255\n" * 60)),
        by("dp-gan --hidden-critic 8"),
    ),
    refuse("--codes without an anchor", 2, arguments=flags("--anchor none --codes 8")),
    refuse("an --anchor that does not exist", 2, arguments=flags("--anchor heavy")),
    refuse("--ways 1", 2, arguments=flags("--ways 1")),
    refuse("--steps and --epochs together", 2, arguments=flags("--epochs 2")),
    refuse("--resume without --checkpoint", 2, arguments=flags("--resume")),
    refuse("--resume without a run", 2, arguments=flags("--checkpoint kept --resume")),
    refuse(
        "--checkpoint with a run in it, without --resume",
        2,
        holds("kept", {"journal.json": "{}"}),
        flags("--checkpoint kept"),
    ),
    refuse(
        "--checkpoint for a method without a guarantee",
        2,
        arguments=by("loss-noise-gan --no-guarantee --checkpoint kept"),
    ),
    refuse("--book with --seed", 2, booked(3.0), flags("--book b.book --seed 1")),
    refuse("--book of other neighbours", 2, booked(3.0, NeighboringRelation.REPLACE_ONE), flags("--book b.book")),
    refuse("output = input", 2, arguments=args("data.csv data.csv")),
    refuse("output is a hard link to the input", 2, linked),
    refuse("an output among the parts of the table", 2, holds("parts", A_PART), args("parts parts/out.csv")),
    refuse("--public names the private table", 2, arguments=by("query-gan --public data.csv")),
    refuse("--public for a method that asks for no marginals", 2, arguments=flags("--public other.csv")),
    refuse("--public does not exist", 66, arguments=by("query-gan --public other.csv")),
    refuse("--public names a folder", 66, holds("parts", A_PART), by("query-gan --public parts")),
    refuse(
        "--public does not fit the specs",
        65,
        file("other.csv", f"{HEADER}\n{SECRET},1,1,1\n".encode()),
        by("query-gan --public other.csv"),
    ),
    refuse("--claim names the specs file", 2, arguments=flags("--claim specs.json")),
    refuse("--sign and a claim that is no file", 2, arguments=args("data.csv -", "--sign specs.json")),
    refuse("--sign with an open key", 66, file("key.pem", b""), flags("--sign key.pem")),
    refuse("output and claim on stdout", 2, arguments=args("data.csv -", "--claim -")),
    *(
        refuse(kind, 2, file("c.toml", content), flags("--config c.toml"))
        for kind, content in (
            ("a misspelt key in the config file", b"batchsize = 3"),
            ("a config file not in TOML", b"{"),
            ("with a number of 5,000 digits", b"rows = " + b"1" * 5_000),
            ("with lists 2,000 deep", b"hidden-critic = " + b"[" * 2_000),
            ("a path with a NUL in the config file", b'claim = "a\\u0000b"'),
        )
    ),
    refuse("a misspelt DPWGAN_ variable", 2, environment={"DPWGAN_ROW": "3"}),
    refuse("TF_CONFIG not in JSON", 2, environment={"TF_CONFIG": "{"}),
    refuse("TF_CONFIG with a list as the task's type", 2, environment=workers(role=["worker"])),
    refuse("TF_CONFIG with parameter servers", 2, environment=workers(ps=["c:3"])),
    refuse("with a task that is no worker", 2, environment=workers(index=2)),
    share("for a method that needs all rows on one machine", arguments=by("ron-gauss")),
    share("for the reference engine", arguments=flags("--engine reference")),
    share("and standard input", arguments=args("-")),
    share("and cells that are to be listed from the data", prepare=specs(colour=UNLISTED)),
    refuse("--from-model with a table", 2, arguments=flags("--from-model model")),
    # inputs that are not there
    refuse("the table does not exist", 66, arguments=args("none.csv")),
    refuse("a folder without a part of a table", 66, holds("parts", {}), args("parts")),
    refuse("a pattern that no file has", 66, arguments=args("'parts/*.csv'")),
    refuse("the specs do not exist", 66, arguments=args("data.csv out.csv none.json")),
    refuse("specs without an end", 66, arguments=args("data.csv out.csv /dev/zero")),
    refuse("--book: there is none", 66, arguments=flags("--book b.book")),
    refuse("--book: its last line is cut", 66, booked(3.0, cut=True), flags("--book b.book")),
    refuse("the codebook does not exist", 66, arguments=flags("--codebook none.cbk")),
    refuse("the config file does not exist", 66, arguments=flags("--config none.toml")),
    refuse("--from-model: no such folder", 66, arguments=AGAIN),
    refuse("--from-model: a damaged model", 66, holds("model", {"model.json": "{"}), AGAIN),
    refuse("--from-model: others can write to the folder", 66, holds("model", {}, mode=0o777), AGAIN),
    refuse(
        "--resume where the journal is damaged",
        66,
        holds("kept", {"journal.json": "{}", "lock": "{}"}),
        flags("--checkpoint kept --resume"),
    ),
    # the table
    refuse("an empty file", 65, data("")),
    refuse("a file of blank lines", 65, data("\n\n\n")),
    refuse("a header alone: n = 0", 65, data(HEADER + "\n")),
    refuse("a binary file", 65, data(bytes(range(256)) * 40)),
    refuse("NUL bytes in the text", 65, data(TABLE.replace("red", "r\x00d"))),
    refuse("text in Latin-1", 65, data(TABLE.replace("red", "réd").encode("latin-1"))),
    refuse("text in UTF-16", 65, data(TABLE.encode("utf-16"))),
    refuse("an Excel workbook, or a ZIP archive", 65, data(b"PK\x03\x04" + bytes(range(256)))),
    refuse("a row with a cell too many", 65, with_row(f"red,3,4.0,1,{SECRET}")),
    refuse("a row with a cell too few", 65, with_row(SECRET)),
    refuse("no header line", 65, data("\n".join((f"{SECRET},3,4.0,1", *ROWS)))),
    refuse("semicolons between the cells", 65, data(PLAIN.replace(",", ";"))),
    refuse("a column not in the specs", 65, specs(member=None)),
    refuse("a column missing", 65, specs(town={"type": "enum", "count": 3})),
    refuse("a column twice", 65, data(TABLE.replace("income", "age", 1))),
    refuse("a comma at the end of each line", 65, data(TABLE.replace("\n", ",\n"))),
    refuse("two columns without a name", 65, data(TABLE.replace("age", "", 1).replace("income", "", 1))),
    refuse("a cell outside an enum's list", 65, with_row(f"{SECRET},3,4.0,1")),
    refuse("a cell of an enum's list with a capital and a blank", 65, with_row("Red ,3,4.0,1")),
    refuse("a text for a number", 65, with_row(f"red,{SECRET},4.0,1")),
    refuse("a fraction for a whole number", 65, with_row("red,3.577,4.0,1")),
    refuse("a number outside its range", 65, with_row("red,7577,4.0,1")),
    refuse("a code outside an enum's count", 65, with_row("red,3,4.0,7577")),
    *(refuse(f"{cell} in a number column", 65, with_row(f"red,3,{cell},1")) for cell in ("nan", "inf", "1e308")),
    refuse("a number of 400 digits", 65, with_row(f"red,{'7' * 400},4.0,1")),
    refuse("an empty cell", 65, with_row("red,,4.0,1")),
    refuse("a quote that is never closed", 65, with_row(f'"{SECRET},3,4.0,1')),
    refuse("a quote inside a cell", 65, with_row(f'r"{SECRET}"d,3,4.0,1')),
    refuse("a line break inside a cell", 65, with_row(f'"{SECRET}\nred",3,4.0,1')),
    refuse(
        "a wrong derived cell",
        65,
        both(
            specs(decade={"derived": {"from": "age", "floordiv": 10}}),
            data("\n".join((HEADER + ",decade", *(f"{row},7" for row in ROWS)))),
        ),
    ),
    *(
        refuse(kind, 65, both(specs(age=keys), with_row(f"red,{cell},4.0,1")))
        for kind, keys, cell in (
            ("a date in another format", {"type": "date", "min": "2020-01-01", "max": "2021-01-01"}, "1.2.2020"),
            ("neither true nor false", {"type": "boolean", "true": "Y", "false": "N"}, SECRET),
            ("not the constant", {"type": "constant", "value": 3}, "4"),
        )
    ),
    refuse("an empty cell in the unit's column", 65, specs(unit=two_rows("income"), income=None)),
    refuse(
        "a unit's rows differ in its own column",
        65,
        specs(unit=two_rows("member"), member={"type": "integer", "uuid": True}, age={**SPECS["age"], "of": "unit"}),
    ),
    refuse(
        "rows of a unit alike in its unique columns",
        65,
        specs(
            unit={**two_rows("member"), "unique": ["colour"]},
            member={"type": "integer", "uuid": True},
        ),
    ),
    refuse("a table without the unit's column", 65, specs(unit=two_rows("person"))),
    refuse("a row that breaks a rule between columns", 65, specs(rules=["age < 50 OR member = 0"])),
    refuse(
        "a part with another header",
        65,
        holds("parts", {"a.csv": FIRST, "b.csv": "age,colour,income,member\n30,red,,1"}),
        args("parts"),
    ),
    refuse(
        "a part with a row of too few cells",
        65,
        holds("parts", {"a.csv": FIRST, "b.csv": f"{HEADER}\nred,1"}),
        args("parts"),
    ),
    refuse("parts of two kinds", 65, holds("parts", {"a.csv": HEADER, "b.parquet": "PAR1"}), args("parts")),
    refuse("a gzip archive cut short", 74, damaged_gzip),
    # the specs
    refuse("an .npz table without a layout", 65, file("data.npz", b"PK"), args("data.npz")),
    refuse("a damaged .parquet table", 65, file("data.parquet", f"PAR1{SECRET}PAR1".encode()), args("data.parquet")),
    refuse("a .parquet column of lists", 65, nested, args("data.parquet")),
    refuse("specs that are not JSON", 78, specs_text("{")),
    refuse("specs that are a list", 78, specs_text("[]")),
    refuse("specs without a column", 78, specs_text("{}")),
    refuse("a column's specs as text", 78, specs(age="integer")),
    refuse("rules as text", 78, specs(rules="age >= 15")),
    refuse("rules under another name", 78, specs(rule=["age >= 15"])),
    refuse("a unit as text", 78, specs(unit="age")),
    refuse("a unit under another name", 78, specs(units={"type": "enum", "max_rows": 5})),
    refuse("an unknown type", 78, specs(age={"type": "number"})),
    refuse("a date without a range", 78, specs(age={"type": "date"})),
    *(
        refuse(kind, 78, specs(age={"type": "date", "min": "2020-01-01", "max": "2021-01-01", **keys}))
        for kind, keys in (
            ("a format without a year", {"format": "%d.%m."}),
            ("a year of two digits", {"format": "%d.%m.%y"}),
            ("a format with an offset", {"format": "%Y-%m-%d%z"}),
            ("a date's `min` above its `max`", {"min": "2022-01-01"}),
            ("a `max` that is no date", {"max": "2021-02-29"}),
            ("a step that does not divide the range", {"step": "7 days"}),
        )
    ),
    refuse("one spelling for true and false", 78, specs(age={"type": "boolean", "true": 1, "false": [0, 1]})),
    refuse("a misspelt key", 78, specs(age={"type": "integer", "min": 0, "maxx": 9})),
    refuse("min above max", 78, specs(age={"type": "integer", "min": 9, "max": 0})),
    refuse("an enum without a list of cells", 78, specs(member={"type": "enum"})),
    refuse("a unit without max_rows", 78, specs(unit={"column": "age"}, age=None)),
    refuse("a unit that keeps no row", 78, specs(unit={"column": "age", "max_rows": 0}, age=None)),
    refuse("a unit of more rows than any", 78, specs(unit={"column": "age", "max_rows": 100_001}, age=None)),
    refuse(
        "a unit's own column, without names in the output",
        78,
        specs(unit=two_rows("member"), member=None, age={**SPECS["age"], "of": "unit"}),
    ),
    refuse(
        "columns of a unit, and `unit` is a column",
        78,
        specs(unit={"type": "enum", "count": 2}, age={**SPECS["age"], "of": "unit"}),
    ),
    refuse("a unit's column to be trained", 78, specs(unit=two_rows("age"))),
    refuse(
        "a linked column of a unit that is its own",
        78,
        specs(
            unit={**two_rows("member"), "linked": ["age"]},
            member={"type": "integer", "uuid": True},
            age={**SPECS["age"], "of": "unit"},
        ),
    ),
    refuse(
        "a linked column of units of one row",
        78,
        specs(unit={"column": "member", "max_rows": 1, "linked": ["age"]}, member={"type": "integer", "uuid": True}),
    ),
    refuse(
        "a rule between rows of units that come in no order",
        78,
        specs(unit={**two_rows("member"), "rules": ["previous.age < age"]}, member={"type": "integer", "uuid": True}),
    ),
    refuse("a rule on another row, among those between columns", 78, specs(rules=["previous.age < age"])),
    refuse("a layout's label is no column", 78, specs(layout=layout("z"))),
    refuse("a pixel listed as well", 78, specs(layout=layout("age"), p3={"type": "enum", "count": 2})),
    refuse("a column named twice", 78, specs_text('{"age": {}, "age": {}}')),
    refuse("NaN in the specs", 78, specs_text('{"age": {"type": "float", "min": NaN, "max": 1}}')),
    refuse("a domain of 10^7 values", 78, specs(member={"type": "enum", "maxval": 9999999})),
    refuse("derived from a column not there", 78, specs(member={"derived": {"from": "town", "multiply": 2}})),
    refuse("half of a character in the specs", 78, specs(colour={"type": "enum", "values": ["x", "\ud800"]})),
    refuse("a NUL in the specs", 78, specs(colour={"type": "enum", "values": ["x", "\0"]})),
    refuse("a name with a byte order mark", 78, specs(**{"\ufeffid": {"type": "enum", "count": 2}})),
    refuse("a missing code in two spellings", 78, specs(age={**SPECS["age"], "missing": ["7", " 7.0"]})),
    refuse(
        "missing codes for a whole range",
        78,
        both(specs(age={"type": "integer", "min": 0, "max": 1, "missing": [0, 1]}), data(ONE_NUMBER)),
    ),
    *(
        refuse(kind, 78, specs(rules=["age < 121", rule]))
        for kind, rule in (
            ("a rule that is no SQL", "age >"),
            ("a rule on a column not there", "town = 1"),
            ("a rule that looks beyond its row", "age > AVG(age)"),
            ("a text compared with a number", "colour > 1"),
            ("a rule that is no condition", "age"),
            ("a rule that compares with NULL", "age <> NULL"),
            ("a rule without combinations", PAIR),
            ("combinations with an illegal cell", {**PAIR, "allowed": [[SECRET, 1]]}),
            ("a file of combinations not there", {"columns": ["colour", "member"], "allowed_from": "pairs.csv"}),
        )
    ),
    refuse("a rule that drops rows, and values_from", 78, specs(colour=UNLISTED, rules=[DROPPING])),
    refuse(
        "rules hardly ever kept",
        78,
        specs(rules=[{"sql": "age > 70 AND age < 60", "violations": "keep"}]),
        by("independent"),
    ),
    refuse("derived by SQL over several rows", 78, specs(member={"derived": {"sql": "SUM(age)"}})),
    refuse("row names alone", 78, specs_text('{"id": {"type": "string", "uuid": true}}')),
    refuse("a codebook not given", 78, specs(member={"type": "enum", "domain_from": "codebook"})),
    refuse("a null left by a draft", 78, specs(age={"type": "integer", "min": 0, "max": None})),
    refuse(
        "several problems at once",
        78,
        specs(age={"type": "integer", "min": 9, "max": 0}, member={"type": "enum", "cuont": 2}),
    ),
    refuse("a range to be found privately", 78, specs(age={**SPECS["age"], "domain_privacy": "private"})),
    # the commands for specs
    refuse("`specs draft` of an unknown form", 78, arguments=words("specs draft --from data.csv")),
    refuse(
        "`specs draft` of XML with a DTD",
        78,
        file("c.xml", b'<!DOCTYPE codeBook [<!ENTITY a "a">]><codeBook>&a;</codeBook>'),
        words("specs draft --from c.xml"),
    ),
    refuse("`specs draft` without a dictionary", 2, arguments=words("specs draft")),
    refuse(
        "`specs draft --from-rows` of a table with a title",
        65,
        file("a.csv", "People of 2024\nage,sex\n30,f\n"),
        words("specs draft --from-rows a.csv"),
    ),
    refuse(
        "`specs draft --from-rows` of a table with blank rows",
        65,
        file("a.csv", "age,sex\n30,f\n,\n"),
        words("specs draft --from-rows a.csv"),
    ),
    refuse(
        "`specs check` with two problems",
        65,
        both(with_row("red,7577,4.0,1"), specs(town={"type": "enum", "count": 3})),
        words("specs check specs.json data.csv"),
    ),
    refuse(
        "`specs check` with a problem", 78, specs(member={"type": "enum"}), words("specs check specs.json data.csv")
    ),
    refuse("`evaluate --audit` of a file that does not exist", 66, arguments=AUDITED),
    refuse("`evaluate --audit` of what is not JSON", 65, file("audit.json", b"{"), AUDITED),
    refuse(
        "`evaluate --audit` of JSON that `audit attack` did not write",
        65,
        file("audit.json", b'{"command": "attack", "tables": []}'),
        AUDITED,
    ),
    refuse(
        "`evaluate --audit` of what `audit attack` found in another table",
        65,
        file("audit.json", b'{"command": "attack", "tables": {"synthetic": {"sha256": "0"}}}'),
        AUDITED,
    ),
    # the budget
    refuse("--book: what is left of it is less", 69, booked(0.5), flags("--book b.book")),
    refuse("epsilon 1e-9 at delta 1e-15", 69, arguments=budget("1e-9 1e-15")),
    refuse(
        "a noise multiplier too small",
        69,
        arguments=args("data.csv out.csv specs.json 0.01", "--anchor none --noise-multiplier 0.05"),
    ),
    # the output
    refuse("the output is a folder", 73, arguments=args("data.csv .")),
    refuse("the output's folder does not exist", 73, arguments=args("data.csv none/out.csv")),
    refuse("the output's folder cannot be written", 73, arguments=args("data.csv /proc/out.csv")),
    refuse("the claim's folder does not exist", 73, arguments=flags("--claim none/claim.json")),
    refuse(
        "--save-model: the folder is not empty", 73, holds("model", {"notes.txt": "mine"}), flags("--save-model model")
    ),
    refuse(
        "--checkpoint: the folder holds something else",
        73,
        holds("kept", {"notes.txt": "{}"}),
        flags("--checkpoint kept"),
    ),
    refuse(
        "--checkpoint: others can write to the folder", 66, holds("kept", {}, mode=0o777), flags("--checkpoint kept")
    ),
    refuse("more rows than the disk has room for", 73, arguments=flags("--rows 1000000000000000")),
    refuse("another run writes the same output", 73, taken),
    refuse("--checkpoint in a folder that does not exist", 73, arguments=flags("--checkpoint none/kept")),
    refuse("the disk is full (/dev/full)", 74, arguments=args("data.csv /dev/full")),
    # the machine
    refuse("a network too large", 75, arguments=args(flags="--hidden-critic 4000000,400000 --steps 3")),
    refuse(
        "images that do not fit `--memory`",
        75,
        both(specs_text(DIGITS), packed_images),
        args("data.npz", "--method ron-gauss --memory 800MB"),
    ),
    refuse("`--memory` below what one batch takes", 75, arguments=args(flags="--memory 100MB")),
    # odd and legal
    accept("a byte order mark", data(b"\xef\xbb\xbf" + TABLE.encode())),
    accept("CRLF line endings", data(TABLE.replace("\n", "\r\n"))),
    accept("no line break at the end", data(TABLE.rstrip("\n"))),
    accept("blank lines at the end", data(TABLE + "\n\n")),
    accept("a gzip archive", data(gzip.compress(TABLE.encode()))),
    accept(
        "quotes and line breaks in listed cells",
        both(
            specs(colour={"type": "enum", "values": ["re\nd", 'gr"een', "blue, dark"]}),
            data(TABLE.replace("\nred", '\n"re\nd"').replace("\ngreen", '\n"gr""een"')),
        ),
    ),
    accept(
        "one column",
        both(specs_text(json.dumps({"age": SPECS["age"]})), data("age\n" + "\n".join(map(str, range(60))) + "\n")),
    ),
    accept("one row: n = 1", data(f"{HEADER}\nred,3,4.0,1\n")),
    accept("two rows", data(f"{HEADER}\nred,3,4.0,1\ngreen,4,,0\n")),
    accept(
        "a column with one legal cell",
        both(
            specs(member={"type": "enum", "values": ["1"]}),
            data("\n".join((HEADER, *(row[:-1] + "1" for row in ROWS)))),
        ),
    ),
    accept(
        "a range of one number",
        both(
            specs(age={"type": "integer", "min": 3, "max": 3}),
            data("\n".join((HEADER, *("red,3,4.0,1" for row in ROWS)))),
        ),
    ),
    accept("columns in another order", specs_text(json.dumps(dict(reversed(SPECS.items()))))),
    accept("a text column and a dropped one", specs(colour={"type": "text"}, member={"type": "drop"})),
    accept(
        "a number to be clamped",
        both(specs(age={**SPECS["age"], "out_of_domain": "clamp"}), with_row("red,7577,4.0,1")),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back: the exit code, the last line on stderr without its prefix, and all of stderr."""

    exit_code: int
    sentence: str
    stderr: str
    left_over: tuple[str, ...]


@contextmanager
def inside(folder: Path) -> Any:
    """Works inside a folder, so that sentences hold no path of this machine."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_inside(folder: Path, *words: str) -> int:
    """Runs the tool inside a folder, and gives its exit code."""
    from dpwgan.app import cli

    with inside(folder):
        return cli.main(words, environment={})


def answer(case: Case, folder: Path, *, main: Callable[..., int], read_stderr: Callable[[], str]) -> Answer:
    """Runs one case inside an empty folder."""
    write_good(folder)
    case.prepare(folder)
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with inside(folder):
        if case.arguments[:1] in (("specs",), ("evaluate",)):
            exit_code = every_command([*case.arguments])
        else:
            exit_code = main([*case.arguments], environment=dict(case.environment))
    stderr = read_stderr()
    errors = [line for line in stderr.splitlines() if line.startswith("dpwgan: error: ")]
    after = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    changed = tuple(sorted(name for name, content in after.items() if before.get(name) != content))
    sentence = errors[-1].removeprefix("dpwgan: error: ") if errors else ""
    return Answer(exit_code=exit_code, sentence=steady(sentence), stderr=stderr, left_over=changed)


def steady(sentence: str) -> str:
    """Cuts out what depends on the machine: amounts of memory."""
    return re.sub(r"[0-9.]+ GB", "... GB", sentence)


def main() -> None:
    """Prints docs/errors.md: runs every case and writes down its answer."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from dpwgan.app import cli

    told = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            stderr = io.StringIO()
            with redirect_stderr(stderr), redirect_stdout(io.StringIO()):
                given = answer(case, Path(name), main=cli.main, read_stderr=stderr.getvalue)
        told.append((given.exit_code, case.kind, given.sentence or ACCEPTED))
    sys.stdout.write(write_page([*told, *ELSEWHERE]))


MEANINGS: Mapping[int, str] = {
    0: "done: the output, its claim and, if asked for, the model are there",
    2: "usage: arguments, settings, epsilon or delta that cannot be acted on",
    65: "the table does not fit the specs",
    66: "an input is missing or cannot be opened",
    69: "the budget cannot be met",
    70: "internal error: a rule of the tool's own did not hold",
    73: "an output cannot be created",
    74: "reading or writing broke off",
    75: "not enough memory, no such device, or another worker was lost",
    76: "an audit did not see all that the ledger holds",
    78: "the specs or the codebook are not of the documented form, or no row keeps their rules",
    130: "stopped by SIGINT",
    143: "stopped by SIGTERM",
}
ACCEPTED = "accepted"

HEAD = """# What each kind of bad input gets

For users who met an error: find its exit code, then its sentence on stderr; the **input** before that is what gets it.
After any code but 0 there is no new output, claim or temporary file. Where the system kills a run, a file
.out.csv.*.tmp may stay; the next run into that output removes it. No message holds a cell, so an internal error names
only the type of the exception and its place in the code.

`python -m tests.end_to_end.bad_inputs > docs/errors.md` writes this page, and a test runs every input.
"""
# So many sentences that begin alike share their beginning.
ALIKE = 3

# What needs processes of its own: tests/end_to_end/test_processes.py, test_workers.py and tests/app/test_process.py.
ELSEWHERE = (
    (0, "a signal after the table is in place", ACCEPTED),
    (2, "workers' budgets differ", "The workers do not agree on the budget: give all of them the same."),
    (
        2,
        "only some workers resume",
        "The workers do not agree on whether there is a checkpoint, and to be resumed: give all of them the same.",
    ),
    (
        2,
        "workers' ledgers differ",
        "The workers do not agree on the plan of what is released: give all of them the same.",
    ),
    (
        65,
        "a Parquet file that kills its reader",
        "The table is damaged: it ended the process that read it; no output was written.",
    ),
    (65, "another worker's rows do not fit the specs", "Worker 2 failed; its own log says why."),
    (73, "the chief cannot write its output", "Worker 0 failed; its own log says why."),
    (74, "a full disk, or a file size limit", "Writing 'out.csv' broke off: File too large."),
    (74, "whoever reads stdout goes away", "Whoever was reading standard output has stopped."),
    (75, "memory ends", "Out of memory: the system ended the run; no output was written."),
    (75, "another worker is lost", "Another worker stopped, or cannot be reached any more; no output was written."),
    (75, "workers missing for 15 minutes", "Not all workers could be reached within 900 s; missing: 1 (host:port)."),
    (130, "SIGINT during the run", "Stopped by SIGINT; no output was written."),
    (143, "SIGTERM during the run", "Stopped by SIGTERM; no output was written."),
)


def write_page(told: Sequence[tuple[int, str, str]]) -> str:
    """Writes the page: kinds of one sentence share a line, sentences that begin alike stand below their beginning."""
    parts = [HEAD]
    for code, meaning in MEANINGS.items():
        kinds: dict[str, list[str]] = {}
        for own, kind, sentence in told:
            if own == code:
                kinds.setdefault(sentence, []).append(kind)
        begun = [sentence.partition(": ")[0] for sentence in kinds]
        groups: dict[str, list[str]] = {}
        for beginning, (sentence, alike) in zip(begun, kinds.items(), strict=True):
            shared = f"{beginning}: " if begun.count(beginning) >= ALIKE else ""
            line = f"- **{'; '.join(alike)}** {sentence.removeprefix(shared)}"
            groups.setdefault(shared, [f"- {shared}..."] if shared else []).append(f"  {line}" if shared else line)
        parts.append(
            "\n".join([f"## {code}: {meaning}", *(line for lines in groups.values() for line in lines)]) + "\n"
        )
    return "\n".join(parts)


def read_page(page: str) -> list[tuple[int, str, str]]:
    """Reads what `write_page` wrote, in the page's order."""
    told, code, shared = [], 0, ""
    for line in page.splitlines():
        if line.startswith("## "):
            code = int(line[3:].partition(":")[0])
        elif line.lstrip().startswith("- **"):
            kinds, _, sentence = line.lstrip()[4:].partition("** ")
            told += [(code, kind, (shared if line[0] == " " else "") + sentence) for kind in kinds.split("; ")]
        elif line.startswith("- "):
            shared = line[2:].removesuffix("...")
    return told


if __name__ == "__main__":
    main()
