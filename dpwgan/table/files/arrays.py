"""Tables of images as arrays, and as .npz files: `images` (n, height, width[, 3]) uint8 and `labels` (n,).

Which columns the arrays stand for, and what is written into `labels`, whole numbers or text, is said by the specs.
"""

import io
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tokenize import TokenError

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.array_types import AnyArray
from dpwgan.errors import DataError, DpwganError, TransferError, quote, say_count
from dpwgan.table.findings import check_header, count_rows
from dpwgan.table.schema import ImageLayout, Schema
from dpwgan.table.source import Piece, SourceTable, choose_step
from dpwgan.table.storage import cut

IMAGES, LABELS = "images", "labels"

Pixels = npt.NDArray[np.uint8]


def find_misfit(schema: Schema) -> str | None:
    """Says why a table with these columns cannot be kept as .npz; None if it can."""
    if schema.layout is None:
        return "an .npz file holds images, and the specs have no 'layout' that says which columns are their pixels"
    others = [name for name in schema.by_name if name not in {*schema.layout.pixels, schema.layout.label}]
    if others:
        return (
            f"an .npz file holds pixels and one label, and the specs have "
            f"{say_count(len(others), 'other column')}, the first of them {quote(others[0])}"
        )
    return None


def open_arrays(data: bytes, schema: Schema, *, name: str) -> SourceTable:
    """Opens an .npz file as a table; the pixels come first, then the label.

    Privacy: no rule is made from the arrays: their shape, and the domain of each cell, are the specs'.
    Raises: TransferError if the archive is damaged; DataError if it does not hold the arrays that the specs ask for.
    """
    misfit = find_misfit(schema)
    if misfit is not None or schema.layout is None:
        raise DataError(f"{name} cannot be read: {misfit}.")
    arrays = _unpack(data, name=name)
    for key in (IMAGES, LABELS):
        if key not in arrays:
            raise DataError(f"{name} does not hold an array {key!r}.")
    if len(arrays) > 2:
        raise DataError(f"{name} holds {len(arrays)} arrays, where {IMAGES!r} and {LABELS!r} belong.")
    return make_image_table(arrays[IMAGES], arrays[LABELS], schema.layout, schema, name=name)


def measure_arrays(path: str | Path) -> int:
    """How many bytes the arrays of an .npz file take when they are unpacked; 0 where it is no such archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return 0


def make_image_table(
    images: AnyArray, labels: AnyArray, layout: ImageLayout, schema: Schema, *, name: str
) -> SourceTable:
    """Makes a table of images (n, height, width[, channels]) and labels (n,), whole numbers or text.

    Raises: DataError if the arrays have other types or shapes than the specs ask for, or no rows.
    """
    wanted = [layout.shape, layout.shape[:2]] if layout.shape[2] == 1 else [layout.shape]
    if images.dtype != np.uint8:
        raise DataError(f"{name}: {IMAGES!r} must be whole numbers of one byte (uint8), and is {images.dtype}.")
    if images.ndim < 1 or images.shape[1:] not in wanted:
        raise DataError(
            f"{name}: an image has the shape {_write_shape(images.shape[1:])}, "
            f"and in the specs {_write_shape(wanted[0])}."
        )
    if labels.shape != images.shape[:1]:
        raise DataError(f"{name}: {LABELS!r} must be one for each image.")
    if labels.dtype.kind not in "iuU":
        raise DataError(f"{name}: {LABELS!r} must be whole numbers or text, and is {labels.dtype}.")
    if not len(images):
        raise DataError("The table has a header but no rows.")
    header = (*layout.pixels, layout.label)
    check_header(header, schema)
    flat = images.reshape(len(images), -1)

    def parse(rows: slice) -> pl.DataFrame:
        pixels = pl.DataFrame(flat[rows], schema=list(layout.pixels), orient="row").cast(pl.String)
        own = labels[rows].astype(str)
        try:
            # numpy holds numbers that no character has, and reads them as it pleases.
            if labels.dtype.kind == "U" and own.view(np.uint32).max(initial=0) > sys.maxunicode:
                raise UnicodeError
            cells = pl.Series(layout.label, own.tolist(), dtype=pl.String)
        except UnicodeError:
            raise DataError(f"Column {quote(layout.label)} has a cell that cannot be written in UTF-8.") from None
        return pixels.with_columns(cells)

    def pieces() -> Iterator[Piece]:
        for rows in cut(len(images), size=choose_step(len(header))):
            yield Piece(records=rows.stop - rows.start, parse=partial(parse, rows))

    return SourceTable(header=header, records=len(images), pieces=pieces)


def read_images(frame: pl.DataFrame, layout: ImageLayout) -> Pixels:
    """The pixels of string cells as an array.

    Shapes: (n, height, width, channels).
    Raises: DataError, with the number of rows, if a pixel is no whole number from 0 to 255.
    """
    values = frame.select(pl.col(list(layout.pixels)).cast(pl.Float64, strict=False)).to_numpy()
    legal = (values >= 0) & (values <= 255) & (values == np.floor(values))
    bad = int(np.count_nonzero(~legal.all(axis=1)))
    if bad:
        raise DataError(f"The table has {count_rows(bad)} with a pixel that is no whole number between 0 and 255.")
    return values.astype(np.uint8).reshape(-1, *layout.shape)


def read_label_bytes(frame: pl.DataFrame, layout: ImageLayout) -> npt.NDArray[np.uint8]:
    """The labels of string cells as bytes.

    Shapes: (n,).
    Raises: DataError, with the number of rows, if a label is no whole number from 0 to 255.
    """
    numbers = frame.get_column(layout.label).cast(pl.UInt8, strict=False)
    if numbers.null_count():
        raise DataError(
            f"The table has {count_rows(numbers.null_count())} with a label that is no whole number between 0 and 255."
        )
    return numbers.to_numpy()


def pack_table(frames: Iterable[pl.DataFrame], schema: Schema) -> tuple[int, bytes]:
    """Packs a table of legal cells into the bytes of an .npz file; gives the number of rows as well.

    Raises: DpwganError, an internal error, if the specs are not those of images; whatever `frames` raises.
    """
    layout = schema.layout
    if layout is None:  # the form of the output was checked before anything was done
        raise DpwganError("Internal error: a table without a layout was to be written as images.")
    images: list[Pixels] = [np.empty((0, *layout.shape), dtype=np.uint8)]
    labels: list[str] = []
    for frame in frames:
        frame = frame.cast(pl.String)
        images.append(read_images(frame, layout))
        labels += frame.get_column(layout.label).to_list()
    whole = schema.by_name[layout.label].choose_type(schema) == ("whole", False)
    pixels = np.concatenate(images)
    packed = io.BytesIO()
    # No time is in the archive: equal rows make equal bytes.
    arrays = {
        IMAGES: pixels[..., 0] if layout.shape[2] == 1 else pixels,
        LABELS: np.array(labels, dtype=np.int64 if whole else np.str_),
    }
    np.savez_compressed(packed, **arrays)
    return len(labels), packed.getvalue()


def _unpack(data: bytes, *, name: str) -> dict[str, AnyArray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):  # a file that is none is its bytes
            raise TypeError
        return arrays
    except (AttributeError, TypeError, ValueError, SyntaxError, TokenError):
        # One array without an archive, a pickle, or no array at all; the words may quote what was read.
        raise DataError(f"{name} is not an .npz archive of plain arrays.") from None
    except (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise TransferError(f"{name} is an archive that is cut short or damaged.") from None


def _write_shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
