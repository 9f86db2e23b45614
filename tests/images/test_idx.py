"""idx files: what is written reads back, and what is no such file is refused in one sentence."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpwgan.errors import DataError, TransferError
from dpwgan.images.idx import read_idx, write_idx

BYTES = arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "images.idx"


@given(array=BYTES, packed=st.booleans())
def test_idx_file_reads_back_when_it_holds_any_bytes(file, array, packed):
    data = write_idx(array, packed=packed)
    file.write_bytes(data)
    again = read_idx(file)
    assert again.shape == array.shape
    assert (again == array).all()
    assert write_idx(again, packed=packed) == data


def test_idx_file_has_the_documented_bytes_when_written():
    # The MNIST page: 0x00000803 for images, 0x00000801 for labels, then big-endian lengths.
    images = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    assert write_idx(images) == bytes.fromhex("00000803 00000002 00000003 00000002") + bytes(range(12))
    assert write_idx(images[0, :, 0]) == bytes.fromhex("00000801 00000003 00 02 04")


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", DataError, "not an idx file"),
        (b"p0,p1\n1,2\n", DataError, "not an idx file"),
        (bytes.fromhex("00000d01 00000001 00000000"), DataError, "not an idx file of unsigned bytes"),
        (bytes.fromhex("00000800"), DataError, "not an idx file"),
        (bytes.fromhex("00000803 00000001"), TransferError, "ends inside its header"),
        (bytes.fromhex("00000801 00000003 0102"), TransferError, "2 bytes of data, where its header says 3"),
        (bytes.fromhex("00000801 00000001 0102"), TransferError, "2 bytes of data, where its header says 1"),
        (struct.pack(">I4I", 0x804, *[2**32 - 1] * 4), TransferError, "0 bytes of data"),
        (gzip.compress(bytes(99), mtime=0)[:-9], TransferError, "cut short or damaged"),
    ],
)
def test_idx_file_is_refused_when(file, data, error, words):
    file.write_bytes(data)
    with pytest.raises(error, match=words) as caught:
        read_idx(file)
    assert str(caught.value).startswith(f"The file {str(file)!r} is ")
