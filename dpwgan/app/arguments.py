"""What callers from Python hand in, read and checked."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpwgan.app.config import SynthesisConfig
from dpwgan.errors import InputError, UsageError
from dpwgan.settings import declared
from dpwgan.table.codebook import read_codebook
from dpwgan.table.schema import Schema
from dpwgan.table.specs import parse_specs, read_specs
from dpwgan.table.stream import read_public


def read_schema(
    specs: Schema | Mapping[str, Any] | str | os.PathLike[str], *, codebook: str | os.PathLike[str] | None
) -> Schema:
    """The schema of specs that are a path, a document or a schema. Raises: UsageError, SpecsError, InputError."""
    if isinstance(specs, Schema):
        return specs
    path = read_path(codebook, name="codebook") if codebook is not None else None
    if isinstance(specs, Mapping):
        try:
            text = json.dumps(specs, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise UsageError("specs given as a mapping must hold what JSON can hold") from None
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        return parse_specs(dict(specs), sha256=sha256, codebook=read_codebook(path) if path is not None else None)
    return read_specs(read_path(specs, name="specs"), codebook=path)


def read_path(value: str | os.PathLike[str], *, name: str) -> Path:
    """Passes a path through. Raises: UsageError for what is none."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f"{name} must be a path")
    return Path(value)


def check_count(rows: int, *, name: str = "rows") -> int:
    """Passes a number of rows through. Raises: UsageError unless it can be acted on."""
    declared(SynthesisConfig)["rows"].check(rows, origin=name)
    return rows


def digest_file(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a codebook. Raises: InputError."""
    try:
        return hashlib.sha256(read_public(Path(path))).hexdigest()
    except OSError as error:
        raise InputError(f"the codebook cannot be read: {error.strerror or type(error).__name__}") from None
