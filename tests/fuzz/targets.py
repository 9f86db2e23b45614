"""What is fuzzed: for each kind of input a function that writes a changed one and reads it as a run does.

Each gets a generator of random numbers and gives what is to be done, and the cells that nothing said may hold.
"""

import gzip
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpwgan.app.api import Synthesizer
from dpwgan.app.book.book import _seal as seal_line
from dpwgan.app.book.book import _spell_line, read_book
from dpwgan.app.checkpoint import JOURNAL_FILE, _seal, open_checkpoint
from dpwgan.app.cli import main, parse
from dpwgan.app.pipeline import read
from dpwgan.app.saved_model import DESCRIPTION_FILE, _digest
from dpwgan.app.saved_model import _seal as seal_description
from dpwgan.privacy.events import Gaussian
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import read_specs
from tests.end_to_end.bad_inputs import SECRET, write_good
from tests.end_to_end.bad_inputs import SPECS as GOOD_SPECS
from tests.fuzz import mutations, seeds
from tests.ledgers import make_release, open_ledger
from tests.programs import begin_book


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is to be done with a changed input, and whether what is said may hold the marked cell."""

    work: Callable[[], object]
    may_tell: bool = False


def try_specs(rng: random.Random) -> Trial:
    document = mutations.change_json(rng, rng.choice(seeds.read_specs_corpus()))
    Path("specs.json").write_bytes(mutations.write_json(rng, document))
    return Trial(work=lambda: read_specs("specs.json"), may_tell=True)


def try_rules(rng: random.Random) -> Trial:
    rules = [rng.choice(seeds.RULES) for _ in range(rng.randint(1, 2))]
    for place, rule in enumerate(rules):
        if isinstance(rule, str):
            rules[place] = " ".join(mutations.change_words(rng, rule.split(), seeds.SQL))
        else:
            rules[place] = mutations.change_json(rng, rule, (*mutations.VALUES, *seeds.SQL))
    Path("specs.json").write_bytes(json.dumps({**seeds.COLUMNS, "rules": rules}).encode())
    Path("data.csv").write_text("\n".join(seeds.LINES))
    return Trial(work=lambda: read_table("data.csv", Path("specs.json")), may_tell=True)


def read_table(name: str, specs: Path) -> None:
    """Reads and encodes a table as a run does."""
    schema = read_specs(specs)
    table = read(name, schema)
    TableEncoder(schema, table.header).encode_pieces(table.pieces(), records=table.records, on_disk=False, threads=1)


def _try_table(name: str, data: bytes, specs: Mapping[str, Any] = seeds.COLUMNS) -> Trial:
    Path(name).write_bytes(data)
    Path("specs.json").write_text(json.dumps(specs))
    return Trial(work=lambda: read_table(name, Path("specs.json")), may_tell=_tells(data))


def _tells(data: bytes) -> bool:
    """Whether the marked cell stands in what may be shown: the header."""
    return SECRET.encode() in data.lstrip(b"\xef\xbb\xbf\r\n").split(b"\n")[0]


def _change_csv(rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return mutations.change_cells(rng, seeds.LINES, SECRET).encode()
    return mutations.change_bytes(rng, rng.choice(["\n".join(seeds.LINES).encode(), *seeds.read_corpus(".csv")]))


def try_csv(rng: random.Random) -> Trial:
    return _try_table("data.csv", _change_csv(rng))


def try_parts(rng: random.Random) -> Trial:
    Path("parts").mkdir()
    told = False
    for place in range(rng.randint(0, 3)):
        end = rng.choice(("csv", "csv", "csv", "csv.gz", "parquet", "txt"))
        part = _change_csv(rng) if rng.random() < 0.4 else "\n".join(seeds.LINES).encode()
        Path(f"parts/{place}.{end}").write_bytes(part)
        told = told or _tells(part)
    name = rng.choice(("parts", "parts/*", "parts/[0-1].csv"))
    Path("specs.json").write_text(json.dumps(seeds.COLUMNS))
    return Trial(work=lambda: read_table(name, Path("specs.json")), may_tell=told)


def try_gzip(rng: random.Random) -> Trial:
    text = "\n".join(seeds.LINES).encode()
    packed = gzip.compress(text, mtime=0) + gzip.compress(text[text.index(b"\n") :], mtime=0) * rng.randint(0, 1)
    return _try_table("data.csv.gz", mutations.change_bytes(rng, packed))


def try_parquet(rng: random.Random) -> Trial:
    data = rng.choice(seeds.read_corpus(".parquet"))
    if rng.random() < 0.5:  # what is told of the columns lies at the end
        size = 8 + int.from_bytes(data[-8:-4], "little")
        data = data[:-size] + mutations.change_bytes(rng, data[-size:-8]) + data[-8:]
    else:
        data = mutations.change_bytes(rng, data)
    return _try_table("data.parquet", data)


def try_arrays(rng: random.Random) -> Trial:
    data = rng.choice(seeds.read_corpus(".npz"))
    if rng.random() < 0.5:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
            for name in old.namelist() * rng.choice((1, 1, 2)):
                own = mutations.change_bytes(rng, old.read(name)) if rng.random() < 0.6 else old.read(name)
                new.writestr(rng.choice((name, name, "../x.npy", "labels.npy", "images")), own)
        data = packed.getvalue()
    else:
        data = mutations.change_bytes(rng, data)
    return _try_table("data.npz", data, seeds.IMAGES)


def _try_words(words: list[str], environment: Mapping[str, str]) -> Trial:
    return Trial(work=lambda: parse(words, environment=environment), may_tell=True)


def try_arguments(rng: random.Random) -> Trial:
    from dpwgan.app.config import OPTIONS

    flags = ["--" + option.name for option in OPTIONS.values()]
    words = mutations.change_words(rng, rng.choice(seeds.ARGUMENTS), [*flags, *flags, "--config=c.toml", "-", "--"])
    variable = {"DPWGAN_" + rng.choice(flags)[2:].upper().replace("-", "_"): rng.choice(mutations.CELLS)}
    Path("c.toml").write_bytes(seeds.CONFIG)
    return _try_words(words, variable if rng.random() < 0.2 else {})


def try_config(rng: random.Random) -> Trial:
    lines = seeds.CONFIG.decode().splitlines()
    changed = "\n".join(
        mutations.change_words(rng, lines, [*lines, "rows = [", "a.b = 1", "[x]", "steps = 1979-05-27"])
    )
    data = changed.encode(errors="surrogateescape")
    Path("c.toml").write_bytes(mutations.change_bytes(rng, data) if rng.random() < 0.7 else data)
    return _try_words([*seeds.ARGUMENTS[0], "--config", "c.toml"], {})


def try_cluster(rng: random.Random) -> Trial:
    text = mutations.write_json(rng, mutations.change_json(rng, seeds.CLUSTER)).decode(errors="replace")
    return _try_words(list(seeds.ARGUMENTS[0]), {"TF_CONFIG": text})


@cache
def _keep_run() -> dict[str, bytes]:
    """The files of a checkpoint with two releases."""
    checkpoint = open_checkpoint(Path("new"), facts={"rows": 3}, resume=False)
    for name in ("counts", "answers"):
        checkpoint.begin(name, dispensable=name == "answers")
        checkpoint.charge(name, 1, event=Gaussian(noise_multiplier=3.0))
        checkpoint.keep(name, {"counts": np.arange(3.0)})
        checkpoint.end()
    checkpoint.close()
    return {path.name: path.read_bytes() for path in Path("new").iterdir()}


def try_checkpoint(rng: random.Random) -> Trial:
    """Whoever can write there can seal again."""
    files = dict(_keep_run())
    key = json.loads(files[JOURNAL_FILE].partition(b"\n")[2])["run"]
    name = rng.choice(sorted(files))
    body = files[name].partition(b"\n")[2]
    if name == JOURNAL_FILE and rng.random() < 0.9:
        body = mutations.write_json(rng, mutations.change_json(rng, json.loads(body)))
    else:
        body = mutations.change_bytes(rng, body)
    own = _seal(name, body, key="" if name == JOURNAL_FILE else key)
    files[name] = own if rng.random() < 0.9 else mutations.change_bytes(rng, files[name])
    Path("kept").mkdir()
    for name, content in files.items():
        Path("kept", name).write_bytes(content)

    def work() -> None:
        checkpoint = open_checkpoint(Path("kept"), facts={"rows": 3}, resume=True)
        try:
            for name in ("counts", "answers"):
                checkpoint.recall(name)
                checkpoint.count_charged(name, event=Gaussian(noise_multiplier=3.0))
            if checkpoint.missing:
                checkpoint.start_over()
            assert all(count > 0 for count in checkpoint.charged.values())
        finally:
            checkpoint.close()

    return Trial(work=work, may_tell=True)


@cache
def _save_model() -> Path:
    """A saved model, kept for all cases of this process."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="fuzz-model-"))
    write_good(folder)
    words = ("data.csv", "out.csv", "specs.json", "1", "--method", "independent", "--quiet", "--save-model", "model")
    code = main([str(folder / word) if "." in word or word == "model" else word for word in words], environment={})
    assert code == 0
    return folder / "model"


def try_model(rng: random.Random) -> Trial:
    """A forged model has the digests that it needs."""
    shutil.copytree(_save_model(), "model")
    folder = Path("model")
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    if path.suffix == ".json" and rng.random() < 0.9:
        path.write_bytes(mutations.write_json(rng, mutations.change_json(rng, json.loads(path.read_bytes()))))
    else:
        path.write_bytes(mutations.change_bytes(rng, path.read_bytes()))
    if rng.random() < 0.8:
        try:
            document = json.loads((folder / DESCRIPTION_FILE).read_bytes())
            document["files"] = {name: _digest((folder / name).read_bytes()) for name in document["files"]}
            document.pop("sha256", None)
            (folder / DESCRIPTION_FILE).write_text(json.dumps({**document, "sha256": seal_description(document)}))
        except (ValueError, TypeError, KeyError, AttributeError, OSError):
            pass  # it cannot be sealed: it is a damaged one
    return Trial(work=lambda: list(Synthesizer.load("model").sample_cells(5)), may_tell=True)


@cache
def _begin_book() -> bytes:
    from dpwgan.app.book.book import BookAccount

    path = begin_book(Path(), delta=1e-8)
    about = {"method": "m", "version": "0", "delta": 1e-9, "accountant": "moments"}
    account = BookAccount(path, release="r", lives=("first",), about=about)
    account.reserve(open_ledger([make_release("counts", Gaussian(noise_multiplier=10.0), 3)]), charged={})
    account.charge("counts", 1, event=Gaussian(noise_multiplier=10.0))
    account.settle()
    account.note_output("0" * 64)
    return path.read_bytes()


def try_book(rng: random.Random) -> Trial:
    """Whoever can write there can chain the lines again."""
    lines = [json.loads(line) for line in _begin_book().splitlines()]
    place = rng.randrange(len(lines))
    if rng.random() < 0.2:
        lines.insert(rng.randrange(len(lines)), lines.pop(place))
    else:
        lines[place] = mutations.change_json(rng, lines[place])
    written, before = b"", "0" * 64
    for line in lines:
        if isinstance(line, dict):
            line = seal_line(line, before=before)
            before = line["seal"]
        written += (_spell_line(line) if rng.random() < 0.98 else mutations.write_json(rng, line)) + b"\n"
    Path("b.book").write_bytes(mutations.change_bytes(rng, written) if rng.random() < 0.2 else written)
    Path("b.book").chmod(0o600)
    return Trial(work=lambda: read_book("b.book"), may_tell=True)


def try_run(rng: random.Random) -> Trial:
    """A whole run; main has its own clearing up."""
    specs = mutations.change_json(rng, GOOD_SPECS) if rng.random() < 0.5 else GOOD_SPECS
    write_good(Path())
    if specs is GOOD_SPECS:
        lines = Path("data.csv").read_text().splitlines()
        Path("data.csv").write_text(mutations.change_cells(rng, lines, SECRET))
    else:
        Path("specs.json").write_text(json.dumps(specs))
    words = ("data.csv", "out.csv", "specs.json", "1", "--method", "independent", "--quiet", "--threads", "1")
    from dpwgan.app import pipeline

    told = SECRET in Path("data.csv").read_text().split("\n")[0]
    return Trial(work=lambda: pipeline.run(parse(words, environment={})), may_tell=told)  # type: ignore[arg-type]


# How many of 20,000 cases each gets: by how much there is to get wrong, and what a case costs.
TARGETS: Mapping[str, tuple[Callable[[random.Random], Trial], int]] = {
    "specs": (try_specs, 6_000),
    "rules": (try_rules, 700),
    "csv": (try_csv, 3_000),
    "parts": (try_parts, 1_000),
    "gzip": (try_gzip, 1_500),
    "parquet": (try_parquet, 1_200),
    "arrays": (try_arrays, 1_500),
    "arguments": (try_arguments, 1_500),
    "config": (try_config, 1_000),
    "cluster": (try_cluster, 1_500),
    "checkpoint": (try_checkpoint, 1_000),
    "model": (try_model, 460),
    "book": (try_book, 600),
    "run": (try_run, 40),
}
