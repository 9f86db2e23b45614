"""Tiny tables of images as methods see them."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpwgan.table.encoded import EncodedTable, TableShape
from tests.images.test_grid import make_grid, make_shape
from tests.table.images import draw_images


def encode_images(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> EncodedTable:
    """Encodes images (n, height, width) and labels below 3."""
    return make_grid((*images.shape[1:], 1)).to_rows(images.reshape(len(images), -1) / 255, labels)


def make_images(records: int, *, side: int = 6, seed: int = 0) -> tuple[EncodedTable, TableShape]:
    """Draws images whose class k is bright in row k, and gives their public shape."""
    encoded = encode_images(*draw_images(records, side, side, seed=seed))
    return encoded, replace(make_shape(side, side, 1), records=records)
