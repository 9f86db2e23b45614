"""Tiny tables of images as methods see them."""

import numpy as np
import numpy.typing as npt

from dpwgan.table.encoded import EncodedTable, Span, TableShape, lay_out_spans
from dpwgan.table.schema import Schema
from tests.table.images import draw_images, get_layout, make_schema


def encode_images(
    images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], *, schema: Schema | None = None
) -> tuple[EncodedTable, Span]:
    """Encodes images (n, height, width) and labels below 3; gives the label's span as well."""
    schema = schema or make_schema(*images.shape[1:], 1)
    spans = lay_out_spans(schema)
    flat = images.reshape(len(images), -1)
    numbers = np.zeros(flat.shape, np.float32)
    for place, name in enumerate(get_layout(schema).pixels):
        numbers[:, next(span.source for span in spans if span.column == name)] = flat[:, place] / 255
    encoded = EncodedTable(codes=labels[:, np.newaxis].astype(np.int32), numbers=numbers, spans=spans)
    return encoded, next(span for span in spans if span.head != "linear")


def make_images(records: int, *, side: int = 6, seed: int = 0) -> tuple[EncodedTable, TableShape]:
    """Draws images whose class k is bright in row k, and gives their public shape."""
    schema = make_schema(side, side, 1)
    images, labels = draw_images(records, side, side, seed=seed)
    encoded, _ = encode_images(images, labels, schema=schema)
    return encoded, TableShape(records=records, spans=encoded.spans, image=get_layout(schema))
