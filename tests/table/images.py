"""Tiny tables of images: their specs, and rows drawn at random."""

from typing import Any

import numpy as np

from dpwgan.table.schema import Schema
from dpwgan.table.specs import parse_specs

LABEL: dict[str, Any] = {"type": "enum", "count": 3}


def make_specs(*shape: int, label: dict[str, Any] = LABEL, **columns: Any) -> dict[str, Any]:
    layout = {"kind": "image", "shape": list(shape), "pixels": {"prefix": "p", "from": 0}, "label": "y"}
    return {"layout": layout, "y": label, **columns}


def make_schema(*shape: int, **more: Any) -> Schema:
    return parse_specs(make_specs(*shape, **more), sha256="0")


def draw_images(*shape: int, seed: int = 0) -> tuple[Any, Any]:
    """Draws (n, ...) images and (n,) labels; class k is bright in row k, counted round."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, size=shape[0])
    images = rng.integers(0, 60, size=shape).astype(np.uint8)
    for row, label in enumerate(labels):
        images[row, label % shape[1]] += 190
    return images, labels
