"""The command `dpwgan images`: idx files to tables and back, and contact sheets of tables.

Privacy: it changes the form of a table and nothing else. What it writes is as private as what it reads.
Source: W3C, Portable Network Graphics (PNG) Specification (Third Edition), sections 5 (chunks), 9 (filters) and 11
  (IHDR, IDAT, IEND).
"""

import argparse
import functools
import itertools
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.app.commands import Command, Program
from dpwgan.app.logs import LOGGER
from dpwgan.errors import UsageError
from dpwgan.images.idx import read_idx, write_idx
from dpwgan.table.files.arrays import make_image_table, read_images, read_label_bytes
from dpwgan.table.files.reader import check_format, open_table
from dpwgan.table.files.writer import write_bytes, write_table
from dpwgan.table.findings import count_rows
from dpwgan.table.schema import CategoricalColumn, ImageLayout, Schema
from dpwgan.table.specs import read_specs

Pixels = npt.NDArray[np.uint8]

MOST_ACROSS = 20
GAP = 2
_GROUND = 128
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2}

EPILOG = """\
TABLE is CSV (.gz too), .npz or .parquet, by the end of its name; idx files may be gzipped. SPECS is the data-specs.json
whose "layout" says which columns are the pixels (docs/images.md). What is written is as private as what is read: a
contact sheet of a released table may be shown to anyone, one of the real table shows the real rows.

exit codes: 0 done; 2 usage; 65 a file does not fit SPECS; 66 an input is missing; 70 internal error; 73 an output
cannot be created; 74 reading or writing broke off; 75 out of memory; 78 bad SPECS; 130, 143 stopped by a signal."""


def from_idx(arguments: argparse.Namespace) -> None:
    """Makes a table of two idx files, images and labels; each cell is the byte, written as a number.

    Raises: the errors of dpwgan.errors.
    """
    schema, layout = _read_layout(arguments)
    check_format(arguments.table, schema)
    images, labels = read_idx(arguments.images), read_idx(arguments.labels)
    table = make_image_table(images, labels, layout, schema, name=f"The file {arguments.images!r}")
    written = write_table(arguments.table, table.frames(), header=table.header, schema=schema)
    LOGGER.info("%s of %d columns written", count_rows(written.records), len(table.header))


def to_idx(arguments: argparse.Namespace) -> None:
    """Makes two idx files of a table, images and labels, gzipped where their names end in .gz.

    Raises: the errors of dpwgan.errors; DataError if a pixel or label is no whole number from 0 to 255.
    """
    schema, layout = _read_layout(arguments)
    table = open_table(arguments.table, schema)
    images = np.empty((table.records, *layout.shape), dtype=np.uint8)
    labels = np.empty(table.records, dtype=np.uint8)
    first = 0
    for frame in table.frames():
        rows = slice(first, first + frame.height)
        images[rows] = read_images(frame, layout)
        labels[rows] = read_label_bytes(frame, layout)
        first += frame.height
    shown = images[..., 0] if layout.shape[2] == 1 else images
    for path, array in ((arguments.images, shown), (arguments.labels, labels)):
        write_bytes(path, write_idx(array, packed=path.endswith(".gz")))
    LOGGER.info("%s written", count_rows(table.records))


def make_sheet(arguments: argparse.Namespace) -> None:
    """Makes a contact sheet of a table's first rows, and says which of its lines hold which class.

    Raises: the errors of dpwgan.errors; DataError if a pixel is no whole number from 0 to 255.
    """
    schema, layout = _read_layout(arguments)
    table = open_table(arguments.table, schema)
    frame = table.part(0, min(arguments.rows, table.records)).frame()
    column = schema.by_name[layout.label]
    listed = column.tokens if isinstance(column, CategoricalColumn) else ()
    pixels, classes = lay_out_sheet(
        stretch(read_images(frame, layout), minimum=layout.minimum, maximum=layout.maximum),
        frame.get_column(layout.label).to_list(),
        order=listed,
        scale=arguments.scale,
    )
    write_bytes(arguments.png, write_png(pixels))
    for label, first, last in classes:
        # No cell is said aloud that the specs do not have.
        name = f"class {label!r}" if label in listed else "a class that the specs do not list"
        LOGGER.info("line %s: %s", f"{first}" if first == last else f"{first} to {last}", name)


def lay_out_sheet(
    images: Pixels, labels: Sequence[str], *, order: Sequence[str], scale: int
) -> tuple[Pixels, list[tuple[str, int, int]]]:
    """Puts images side by side, each class from the start of a line; within a class they keep their order.

    Says of each class the first and the last of its lines as well, counted from 1.
    `order` is that of the classes; labels that are not in it follow, in the order of their names. Each pixel becomes a
    square of `scale` by `scale`.
    Privacy: what it is made from shows: a sheet of a released table is as free as the table, one of private rows is
      private.
    Shapes: `images` is (n, height, width, channels), n at least 1; `labels` has n; the sheet is (height, width,
      channels).
    """
    known = {label: place for place, label in enumerate(order)}
    classes = sorted(set(labels), key=lambda label: (known.get(label, len(known)), label))
    members = {label: [row for row, own in enumerate(labels) if own == label] for label in classes}
    across = min(MOST_ACROSS, max(len(rows) for rows in members.values()))
    lines = [rows[first : first + across] for rows in members.values() for first in range(0, len(rows), across)]
    large = images.repeat(scale, axis=1).repeat(scale, axis=2)
    height, width, channels = large.shape[1:]
    sheet = np.full(
        (GAP + len(lines) * (height + GAP), GAP + across * (width + GAP), channels), _GROUND, dtype=np.uint8
    )
    for line, rows in enumerate(lines):
        top = GAP + line * (height + GAP)
        for place, row in enumerate(rows):
            left = GAP + place * (width + GAP)
            sheet[top : top + height, left : left + width] = large[row]
    found, first = [], 1
    for label, rows in members.items():
        last = first + math.ceil(len(rows) / across) - 1
        found.append((label, first, last))
        first = last + 1
    return sheet, found


def stretch(images: Pixels, *, minimum: int, maximum: int) -> Pixels:
    """Stretches pixels of the public range to the full range of a PNG: `minimum` becomes black."""
    share = (images.astype(np.float64) - minimum) / (maximum - minimum)
    stretched: Pixels = np.rint(np.clip(share, 0.0, 1.0) * 255).astype(np.uint8)
    return stretched


def write_png(pixels: Pixels) -> bytes:
    """Writes pixels as a PNG file, eight bits a channel.

    Shapes: `pixels` is (height, width, channels), channels 1 (gray) or 3 (red, green, blue).
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each line starts with the number of its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)], axis=1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_write_chunk(kind, data) for kind, data in chunks)


def _write_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _read_layout(arguments: argparse.Namespace) -> tuple[Schema, ImageLayout]:
    schema = read_specs(arguments.specs, codebook=arguments.codebook)
    if schema.layout is None:
        raise UsageError(f"the specs {arguments.specs!r} have no 'layout' that says which columns are pixels")
    return schema, schema.layout


def _add_arguments(parser: argparse.ArgumentParser, *, files: tuple[str, ...], numbers: bool) -> None:
    for file in files:
        parser.add_argument(file.lower(), metavar=file, help=argparse.SUPPRESS)
    parser.add_argument("--codebook", metavar="FILE", help="the codebook that the specs refer to")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")
    if numbers:
        parser.add_argument("--rows", metavar="N", type=int, default=100, help="first rows to show (default 100)")
        parser.add_argument("--scale", metavar="K", type=int, default=2, help="width of a pixel (default 2)")


def _check(arguments: argparse.Namespace, *, writes: tuple[str, ...]) -> None:
    paths = {file: Path(getattr(arguments, file.lower())).resolve() for file in writes}
    for one, other in itertools.combinations(writes, 2):
        if paths[one] == paths[other]:
            raise UsageError(f"{one} and {other} are the same file")
    for option in ("rows", "scale"):
        if getattr(arguments, option, 1) < 1:
            raise UsageError(f"--{option} must be at least 1")


def _make_command(
    run: Callable[[argparse.Namespace], None], summary: str, files: tuple[str, ...], *, writes: tuple[str, ...]
) -> Command:
    """A command on these files, of which it writes some."""
    return Command(
        usage=f"{' '.join(files)} [options]",
        summary=summary,
        add_arguments=functools.partial(_add_arguments, files=files, numbers=run is make_sheet),
        check=functools.partial(_check, writes=writes),
        run=run,
        reads=(*(file for file in files if file not in writes), "--codebook"),
        writes=writes,
    )


PROGRAM = Program(
    name="dpwgan images",
    commands={
        "from-idx": _make_command(
            from_idx,
            "make a table of two idx files, as the MNIST data has them",
            ("IMAGES", "LABELS", "TABLE", "SPECS"),
            writes=("TABLE",),
        ),
        "to-idx": _make_command(
            to_idx, "make two idx files of a table", ("TABLE", "IMAGES", "LABELS", "SPECS"), writes=("IMAGES", "LABELS")
        ),
        "sheet": _make_command(
            make_sheet,
            "make a contact sheet (PNG) of a table's first rows, grouped by class",
            ("TABLE", "PNG", "SPECS"),
            writes=("PNG",),
        ),
    },
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
