"""The runs that are frozen: every method, both relations, tables of several kinds; and what is kept of each run.

`python -m tests.frozen.cases METHOD ...` runs those of some methods, in one process, and prints what is kept as JSON.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.critic.tables import HAS_REFERENCE
from tests.end_to_end.bad_inputs import write_good
from tests.frozen.transcript import transcribed
from tests.table.images import draw_images, make_specs

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rand-hie"
TABLES = ("rand-hie", "missing", "column")
ALL = (*TABLES, "images")

# The generator has to move, and far enough to be seen in a few rows.
_STEPS = ("--steps", "3", "--batch-size", "8", "--critic-steps", "1", "--generator-learning-rate", "0.1")
_CRITIC = (*_STEPS, "--hidden-critic", "8")
_SHORT = ("--steps", "2", "--batch-size", "8", "--critic-steps", "1", "--latent", "4")
_HIDDEN = ("--hidden-generator", "8")
_LATENT = ("--latent", "4")
_FIT = ("--fit-steps", "4", "--codes", "16")
_PLAIN = ("--no-guarantee", "--private-part", "generator", "--steps", "2", *_HIDDEN)

METHODS: Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "dp-wgan": {
        "queries": (TABLES, ("--rounds", "2", *_CRITIC, *_FIT)),
        "none": (TABLES, ("--anchor", "none", *_CRITIC, *_HIDDEN, *_LATENT)),
        "reference": (("missing",), ("--anchor", "none", "--engine", "reference", *_CRITIC, *_HIDDEN, *_LATENT)),
    },
    "query-gan": {
        "marginals": (TABLES, ("--rounds", "2", *_FIT)),
        "three-way": (("rand-hie",), ("--rounds", "3", "--ways", "3", *_FIT)),
        "one-layer": (TABLES, ("--oracle", "one-layer", "--rounds", "1", "--codes", "16")),
    },
    "independent": {"": ((*ALL, "lists"), ())},
    "ron-gauss": {
        "laplace": (ALL, ()),
        "gaussian": (ALL, ("--noise", "gaussian")),
        "label": (("missing",), ("--label", "member")),
    },
    "dp-gan": {"discriminator": (ALL, (*_STEPS, *_HIDDEN, *_LATENT)), "generator": (ALL, _PLAIN)},
    "ron-dp-gan": {"discriminator": (ALL, (*_STEPS, *_HIDDEN)), "generator": (ALL, _PLAIN)},
    "dp-critic": {
        "formal": (TABLES, ("--formal", *_SHORT, *_HIDDEN)),
        "formal, convolutions": (("images",), ("--formal", *_SHORT)),
        "as published": (TABLES, ("--no-guarantee", *_SHORT, *_HIDDEN)),
        "as published, convolutions": (("images",), ("--no-guarantee", *_SHORT)),
    },
    "loss-noise-gan": {
        "perceptrons": (TABLES, ("--no-guarantee", *_SHORT, *_HIDDEN)),
        "convolutions": (("images",), ("--no-guarantee", *_SHORT)),
    },
}
"""What is run of each method: for each variant the tables, and the flags that make it short."""

_FIRST = {method: next(iter(variants.values()))[1] for method, variants in METHODS.items()}
FORMAL = [(method, flags) for method, flags in _FIRST.items() if "--no-guarantee" not in flags]
"""Every method that has a guarantee, and the flags of its first variant."""

# What names a version or a file, and not what was done.
_LEFT_OUT = (("tool", "version"), ("accountant", "version"), ("output", "sha256"), ("public", "specs_sha256"))


def write_tables(folder: Path) -> None:
    """Makes one folder for each kind of table, with its data and specs."""
    for name in (*ALL, "lists"):
        (folder / name).mkdir()
    rows = (EXAMPLE / "data.csv").read_text().splitlines(keepends=True)[:201]
    (folder / "rand-hie" / "data.csv").write_text("".join(rows))
    (folder / "rand-hie" / "specs.json").write_bytes((EXAMPLE / "data-specs.json").read_bytes())
    write_good(folder / "missing")
    write_good(folder / "lists")
    specs = json.loads((folder / "lists" / "specs.json").read_text())
    specs["colour"] = {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["other"]}
    (folder / "lists" / "specs.json").write_text(json.dumps(specs))
    (folder / "column" / "data.csv").write_text("size\n" + "".join(f"{'SML'[row % 7 % 3]}\n" for row in range(300)))
    (folder / "column" / "specs.json").write_text('{"size": {"type": "enum", "values": ["S", "M", "L"]}}')
    images, labels = draw_images(36, 8, 8)
    np.savez(folder / "images" / "data.npz", images=images, labels=labels)
    (folder / "images" / "specs.json").write_text(json.dumps(make_specs(8, 8, 1)))


def list_cases(method: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Gives the name of each case of a method, its table and its flags."""
    for variant, (tables, flags) in METHODS[method].items():
        for table in tables:
            # What the relation changes of a network's training is the noise, whatever the table: one will do.
            both = "--steps" not in flags or table in ("missing", "images")
            for relation in ("zero-out", "replace-one") if both else ("zero-out",):
                name = ", ".join(part for part in (variant, table, relation) if part)
                yield name, table, ("--method", method, "--neighbours", relation, *flags)


def run_cases(method: str, *, only: str | None = None) -> dict[str, Any]:
    """Runs the cases of a method that this Python has the engine for, or one of them; gives what is kept of each."""
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        return {
            name: _run(Path(folder) / table, flags)
            for name, table, flags in list_cases(method)
            if only in (None, name) and (HAS_REFERENCE or "reference" not in flags)
        }


def _run(folder: Path, flags: tuple[str, ...]) -> dict[str, Any]:
    from dpwgan.app import cli

    data = "data.npz" if (folder / "data.npz").exists() else "data.csv"
    paths = [str(folder / part) for part in (data, "out.csv", "specs.json")]
    with transcribed() as transcript:
        words = (*paths, "1.0", "--seed", "7", "--threads", "1", "--device", "cpu", "--quiet", *flags)
        if cli.main(words, environment={}) != 0:
            raise SystemExit(f"a frozen run fails: {' '.join(flags)}")
    claim = json.loads((folder / "out.csv.privacy.json").read_text())
    for section, key in _LEFT_OUT:
        del claim[section][key]
    ledger = claim.pop("ledger")
    for line in ledger:
        del line["accountant_version"]
    output = hashlib.sha256((folder / "out.csv").read_bytes()).hexdigest()
    return {"output": output, "ledger": ledger, "transcript": transcript, "claim": dict(_flatten(claim))}


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Gives the leaves of a JSON document by their path."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _flatten(part, f"{path}.{key}" if path else str(key))
    if not parts:
        yield path, value


def take_fingerprint() -> str:
    """Hashes what this machine's numpy and TensorFlow make of fixed numbers: where it differs, so may last bits."""
    import tensorflow as tf

    numbers = np.random.Generator(np.random.Philox(1)).standard_normal((160, 160))
    made: list[Any] = []
    for kind in (np.float32, np.float64):
        own = numbers.astype(kind)
        made += [own @ own, own[:, :7].T @ own, np.exp(own), np.log(np.abs(own)), np.linalg.eigh(own + own.T)[0]]
        made += [own.sum(axis=0), own.sum(), np.einsum("ij,ik->jk", own, own)]
    single = tf.constant(numbers, tf.float32)

    @tf.function(jit_compile=True)
    def compiled(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.exp(values) * tf.tanh(values), axis=1) + tf.math.log(tf.abs(values[0]))

    made += [single @ single, tf.exp(single), tf.tanh(single), tf.math.softplus(single), tf.reduce_sum(single, axis=0)]
    made += [tf.nn.softmax(single), compiled(single)]
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in made)).hexdigest()[:16]


if __name__ == "__main__":
    kept = {method: run_cases(method) for method in sys.argv[1:]}
    platform = take_fingerprint()
    json.dump({method: {"platform": platform, "cases": cases} for method, cases in kept.items()}, sys.stdout)
