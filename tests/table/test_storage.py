"""Rows on disk: the same arrays, a file that nobody can find, and room that is taken before it is needed."""

import os
import signal
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dpwgan.errors import TransferError
from dpwgan.table import storage
from tests.programs import call


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that holds nothing else."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("on_disk", [False, True])
def test_array_keeps_what_is_written_when_its_pages_are_let_go(scratch: Path, on_disk: bool) -> None:
    array = storage.allocate((70_000, 3), np.int32, on_disk=on_disk)
    values = np.arange(array.size, dtype=np.int32).reshape(array.shape)
    for rows in storage.cut(len(array), size=9_999):
        array[rows] = values[rows]
        storage.let_go(array)
    assert np.array_equal(array, values)
    assert storage.is_on_disk(array) is storage.is_on_disk(array[5:9]) is on_disk
    assert not storage.is_on_disk(np.array(array[5:9]))
    assert storage.is_on_disk(storage.allocate_beside(array, (2, 2), np.float32)) is on_disk
    assert list(scratch.iterdir()) == []


def test_empty_array_lies_in_memory_when_there_is_nothing_to_keep() -> None:
    assert not storage.is_on_disk(storage.allocate((10, 0), np.float32, on_disk=True))


def test_one_sentence_is_said_when_the_disk_is_full(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(TransferError, match=r"the rows need 0\.0 GB on the disk of .*TMPDIR.*: No space left"):
        storage.allocate((10, 2), np.int32, on_disk=True)
    assert list(scratch.iterdir()) == []


def test_no_file_is_left_when_the_process_is_killed(scratch: Path) -> None:
    program = """
        import os, signal, sys
        import numpy as np
        from dpwgan.table.storage import allocate
        array = allocate((100_000, 4), np.int32, on_disk=True)
        array[:] = 7
        print(os.listdir(sys.argv[1]), "mapped", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    environment = {**os.environ, "TMPDIR": str(scratch)}
    done = call(sys.executable, "-c", textwrap.dedent(program), scratch, env=environment)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "[] mapped\n")
    assert list(scratch.iterdir()) == []
