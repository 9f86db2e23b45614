"""Tables of images: the one key that stands for the columns of all pixels."""

from collections.abc import Mapping, Set
from functools import partial
from typing import Any

from dpwgan.errors import quote
from dpwgan.table.schema import ImageLayout
from dpwgan.table.specs.keys import LAYOUT, declares, refuse_key

MAX_PIXELS = 65_536
"""Most numbers an image may have, 256 x 256 in gray: each is a column, and no method here is made for more."""

refuse_layout = partial(refuse_key, LAYOUT)


def expand_layout(
    columns: Mapping[str, dict[str, Any]], *, named: Set[str]
) -> tuple[dict[str, dict[str, Any]], ImageLayout | None]:
    """Puts the columns of the pixels where the layout stands, as if each had been written out.

    `named` are all entries of the specs, also those that are not among `columns` because they are wrong.
    Raises: SpecsError.
    """
    if not declares(columns, LAYOUT):
        return dict(columns), None
    layout = _read_layout(columns[LAYOUT], listed=named - {LAYOUT})
    pixel = {"type": "integer", "min": layout.minimum, "max": layout.maximum}
    expanded: dict[str, dict[str, Any]] = {}
    for name, keys in columns.items():
        expanded.update(dict.fromkeys(layout.pixels, pixel) if name == LAYOUT else {name: keys})
    return expanded, layout


def _read_layout(keys: Mapping[str, Any], *, listed: Set[str]) -> ImageLayout:
    height, width, channels = (*(int(length) for length in keys["shape"]), 1)[:3]
    if channels not in (1, 3):
        raise refuse_layout("the third number of 'shape' must be 1 (gray) or 3 (red, green, blue)")
    count = height * width * channels
    if count > MAX_PIXELS:
        raise refuse_layout(f"'shape' asks for {count} columns of pixels, and there may be at most {MAX_PIXELS}")
    pixels = keys["pixels"]
    minimum, maximum, first = int(pixels.get("min", 0)), int(pixels.get("max", 255)), int(pixels.get("from", 0))
    if minimum >= maximum:
        raise refuse_layout("'pixels.min' must be below 'pixels.max'")
    names = tuple(f"{pixels['prefix']}{number}" for number in range(first, first + count))
    both = [name for name in names if name in listed]
    if both:
        raise refuse_layout(
            f"it declares {quote(both[0])} as a pixel, and the specs list a column of that name as well"
            + (f" ({len(both)} such columns)" if len(both) > 1 else "")
        )
    if keys["label"] not in listed:
        raise refuse_layout(f"its 'label', {quote(keys['label'])}, is no column that the specs list")
    return ImageLayout(
        shape=(height, width, channels), pixels=names, minimum=minimum, maximum=maximum, label=keys["label"]
    )
