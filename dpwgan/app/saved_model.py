"""A fitted model on disk: what it takes to sample more rows, and the claim under which that is free.

Privacy: a folder holds the public schema, the header, the claim and the released model. No row, no count, no state of a
random generator is in it. Lists of cells that were waived in the specs are in it as found, as the claim says.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpwgan.app.claim import Claim, read_claim
from dpwgan.app.folders import read_file, refuse_shared
from dpwgan.critic.sampler import MlpSampler
from dpwgan.errors import InputError, OutputError, say_why
from dpwgan.gaussians.projected_gaussian import PROJECTED_FILE, ClassSampler
from dpwgan.images.sampler import GaussianImages
from dpwgan.marginals.rows.mixture_sampler import MIXTURE_FILE, MixtureSampler
from dpwgan.methods.base import FittedSynthesizer
from dpwgan.methods.published.samplers import REFINED_FILE, ConvSampler, LabelledSampler, RefinedTable, SmoothSampler
from dpwgan.table.files.places import choose_passing_name, sync
from dpwgan.table.saved import DAMAGES
from dpwgan.table.schema import Column, ImageLayout, Rule, Schema

Restored = TypeVar("Restored", Column, ImageLayout, Rule)

FORMAT = 3
DESCRIPTION_FILE = "model.json"
CLAIM_FILE = "privacy.json"
WEIGHTS_FOLDER = "synthesizer"

# Which model lies in a folder is told by a file of its own; one that has none is a perceptron's.
_SAMPLERS = (
    (MIXTURE_FILE, MixtureSampler),
    # A model with a prior holds the prior's files as well: the model's own come first.
    (REFINED_FILE, RefinedTable),
    ("smooth.npz", SmoothSampler),
    (PROJECTED_FILE, ClassSampler),
    ("image_gaussian.npz", GaussianImages),
    ("convolutions.npz", ConvSampler),
    ("labelled.npz", LabelledSampler),
)


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What decoding needs beside the weights: the method, the schema after discovery, and the form of the table."""

    method: str
    header: tuple[str, ...]
    line_ending: str
    schema: Schema


def save_model(target: Path, fitted: FittedSynthesizer, description: ModelDescription, *, claim: Claim) -> None:
    """Keeps a fitted model in a new folder, which appears whole or not at all. Raises: OutputError."""
    check_model_folder(target)
    try:
        staged = choose_passing_name(target)
        staged.mkdir(mode=0o700)
        try:
            weights = staged / WEIGHTS_FOLDER
            weights.mkdir()
            fitted.save(weights)
            write_description(staged, description, claim=claim)
            staged.chmod(0o755)
            for path in (*staged.rglob("*"), staged):
                path.chmod(path.stat().st_mode & ~0o022)  # nobody else is to write there, whatever the umask allows
                sync(path)
            staged = staged.rename(os.path.realpath(target))
            sync(staged.parent)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except OSError as error:
        raise OutputError(f"the model cannot be saved: {say_why(error)}") from None


def check_model_folder(target: Path) -> None:
    """Makes sure that a model can be saved there. Raises: OutputError if it cannot."""
    if os.path.isdir(target):
        if any(target.iterdir()):
            raise OutputError(f"the folder {str(target)!r} for the model is not empty")
    elif os.path.lexists(target):
        raise OutputError(f"{str(target)!r} for the model is there and is not a folder")
    try:
        staged = choose_passing_name(target)
        staged.mkdir(mode=0o700)
        staged.rmdir()
    except OSError as error:
        raise OutputError(f"the folder {str(target)!r} for the model cannot be created: {say_why(error)}") from None


def write_description(folder: Path, description: ModelDescription, *, claim: Claim) -> None:
    """Writes everything but the weights into a folder that has them: beside the rest the digest of each file."""
    (folder / CLAIM_FILE).write_text(claim.to_json(), encoding="utf-8")
    document = {
        "format": FORMAT,
        "files": {name: _digest((folder / name).read_bytes()) for name in _list_files(folder)},
        "method": description.method,
        "header": list(description.header),
        "line_ending": description.line_ending,
        "specs_sha256": description.schema.sha256,
        "columns": [describe_column(column) for column in description.schema.columns],
        "layout": None if description.schema.layout is None else asdict(description.schema.layout),
        "rules": [asdict(rule) for rule in description.schema.rules],
    }
    document["sha256"] = _seal(document)
    (folder / DESCRIPTION_FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_description(folder: Path) -> tuple[ModelDescription, Claim]:
    """Reads back what `write_description` wrote, and makes sure that all files of the model are as they were then.

    Raises: InputError if the folder is missing, is no saved model, is damaged, or others can write to it.
    """
    if not folder.is_dir():
        raise InputError(f"there is no saved model at {str(folder)!r}")
    refuse_shared(folder, own=False)
    try:
        document = json.loads(read_file(folder / DESCRIPTION_FILE, own=False))
    except FileNotFoundError:
        raise InputError(f"{str(folder)!r} is not a saved model: it has no {DESCRIPTION_FILE}") from None
    except (ValueError, RecursionError):
        raise _damaged() from None
    try:
        if document["format"] != FORMAT:
            raise InputError("the saved model was written by another version of the tool")
        if document.pop("sha256") != _seal(document) or document["line_ending"] not in ("\n", "\r\n"):
            raise _damaged()
        _check_files(folder, document["files"])
        claim = read_claim(folder / CLAIM_FILE)
        columns = tuple(read_column(column) for column in document["columns"])
        description = ModelDescription(
            method=str(document["method"]),
            header=tuple(str(name) for name in document["header"]),
            line_ending=str(document["line_ending"]),
            schema=Schema(
                columns=columns,
                sha256=str(document["specs_sha256"]),
                layout=None if document["layout"] is None else _restore(ImageLayout, document["layout"]),
                rules=tuple(_restore(Rule, rule) for rule in document["rules"]),
            ),
        )
        layout = description.schema.layout
        named = () if layout is None else (*layout.pixels, layout.label)
        written = filter(description.schema.is_written, description.schema.by_name)
        if sorted(description.header) != sorted(written) or not set(named) <= set(description.header):
            raise _damaged()
    except InputError:
        raise
    except DAMAGES:
        raise _damaged() from None
    return description, claim


def _damaged() -> InputError:
    return InputError("the description of the saved model is damaged")


def _seal(document: Mapping[str, Any]) -> str:
    return _digest(json.dumps(document, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _list_files(folder: Path) -> list[str]:
    """The files of a model but for its description, by their paths in its folder."""
    within = [path for place in (folder, folder / WEIGHTS_FOLDER) if place.is_dir() for path in place.iterdir()]
    names = {path.relative_to(folder).as_posix() for path in within}
    return sorted(names - {DESCRIPTION_FILE, WEIGHTS_FOLDER})


def _check_files(folder: Path, digests: Mapping[str, str]) -> None:
    """Raises: InputError unless these are the files, and their digests, that a model was written with."""
    if (folder / WEIGHTS_FOLDER).exists():
        refuse_shared(folder / WEIGHTS_FOLDER, own=False)
    if _list_files(folder) != sorted(digests):
        raise InputError("the saved model is damaged: it has not the files that it was saved with")
    for name, digest in digests.items():
        if _digest(read_file(folder / name, own=False)) != digest:
            raise InputError(f"the saved model is damaged: {name} is not as it was saved")


def describe_column(column: Column) -> dict[str, Any]:
    """A column as JSON-able pairs."""
    return {"kind": column.kind, **asdict(column)}


def read_column(document: Mapping[str, Any]) -> Column:
    """Makes a column from its `describe_column`. Raises: KeyError, TypeError if it is not one."""
    fields = dict(document)
    return _restore(Column.kinds[fields.pop("kind")], fields)


def _restore(form: type[Restored], fields: Mapping[str, Any]) -> Restored:
    return form(**{key: _freeze(value) for key, value in fields.items()})


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def load_synthesizer(directory: Path) -> FittedSynthesizer:
    """Reads a fitted model back from its folder. Raises: InputError if it is missing or damaged."""
    for file, sampler in _SAMPLERS:
        if (directory / file).exists():
            return sampler.load(directory)
    return MlpSampler.load(directory)
