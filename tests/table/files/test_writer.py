"""Files that appear whole or not at all, whatever goes wrong and whenever."""

import contextlib
import csv
import errno
import gzip
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import OutputError, TransferError
from dpwgan.table.files import writer
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import WrittenTable, check_writable, write_bytes, write_table
from dpwgan.table.schema import CategoricalColumn, Schema
from tests.programs import list_names

FRAME = pl.DataFrame({"a": ["1", "2"], "b": ["x,y", ""]})
UNREAD = Schema(columns=(), sha256="")
"""A CSV file does not ask it for types."""


def release(folder: Path, **changes: Any) -> WrittenTable:
    """Writes a table and its claim, "c"."""
    where = {"path": folder / "out.csv", "claim_path": folder / "c"} | changes
    return write_table(frames=[FRAME], header=["a", "b"], schema=UNREAD, **{"make_claim": lambda _: b"{}", **where})


def refuse(*_: object) -> Any:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def fail_after(frames: int, error: BaseException) -> Iterator[pl.DataFrame]:
    for _ in range(frames):
        yield FRAME
    raise error


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A pipe, and the end of it that is read from."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield tmp_path / "pipe", reading
    os.close(reading)


@pytest.mark.parametrize("line_ending", ["\n", "\r\n"])
def test_table_is_written_with_few_quotes_when_it_comes_in_chunks(tmp_path, capfdbinary, line_ending):
    wanted = b'a,"b ""c"""\n1,"x,y"\n2,\n1,"x,y"\n2,\n'.replace(b"\n", line_ending.encode())
    for path in (tmp_path / "out.csv", "-"):
        written = write_table(path, [FRAME, FRAME], header=["a", 'b "c"'], line_ending=line_ending, schema=UNREAD)
        assert written == WrittenTable(records=4, sha256=hashlib.sha256(wanted).hexdigest())
    assert (tmp_path / "out.csv").read_bytes() == capfdbinary.readouterr().out == wanted
    assert list_names(tmp_path) == ["out.csv"]


def test_archive_is_the_same_when_the_same_rows_are_written_twice(tmp_path):
    digests = [
        write_table(tmp_path / name, [FRAME], header=["a", "b"], schema=UNREAD).sha256
        for name in ("p.csv.gz", "q.csv.gz")
    ]
    assert digests[0] == digests[1] == hashlib.sha256((tmp_path / "p.csv.gz").read_bytes()).hexdigest()
    assert gzip.decompress((tmp_path / "p.csv.gz").read_bytes()) == b'a,b\n1,"x,y"\n2,\n'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.text(alphabet='ab,"\n\r é\ufeff#', max_size=4), min_size=width, max_size=width), min_size=1
        )
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_table_reads_back_when_its_cells_are_any_text(tmp_path, rows, line_ending):
    header = ["a", "b", "c"][: len(rows[0])]
    path = tmp_path / "out.csv"
    frame = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row")
    write_table(path, [frame], header=header, line_ending=line_ending, schema=UNREAD)
    schema = Schema(columns=tuple(CategoricalColumn(name=name, tokens=("",)) for name in header), sha256="0")
    assert [list(row) for row in open_table(path, schema).frame().rows()] == rows
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == rows


def test_folder_is_left_as_it_was_when_the_rows_break_off(tmp_path):
    path = tmp_path / "out.csv"
    for error in (ValueError("x"), KeyboardInterrupt(), SystemExit(143)):
        with pytest.raises(type(error)):
            write_table(path, fail_after(2, error), header=["a", "b"], schema=UNREAD)
        assert list_names(tmp_path) == []
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_table(path, fail_after(2, KeyboardInterrupt()), header=["a", "b"], schema=UNREAD)
    assert path.read_bytes() == b"before"
    assert list_names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("call", ["write", "fsync", "close"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_transfer_breaks_off_without_a_trace_when_the_disk_is_full(tmp_path, monkeypatch, call, code):
    real: Callable[..., object] = getattr(os, call)

    def fail(descriptor: int, *rest: object) -> object:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".tmp"):
            if call == "close":
                real(descriptor)
            raise OSError(code, os.strerror(code))
        return real(descriptor, *rest)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(TransferError) as raised:
        write_table(tmp_path / "out.csv", [FRAME], header=["a", "b"], schema=UNREAD)
    assert os.strerror(code) in str(raised.value)
    with pytest.raises(TransferError):
        release(tmp_path)
    monkeypatch.undo()
    assert list_names(tmp_path) == []


def test_output_is_refused_when_it_cannot_be_created(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match="folder does not exist"):
        check_writable(tmp_path / "none" / "out.csv")
    with pytest.raises(OutputError, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be created"):
        check_writable(tmp_path / "file" / "out.csv")
    with pytest.raises(OutputError, match="File name too long"):
        check_writable(tmp_path / ("x" * 250 + ".csv.privacy.json"))
    real = os.open

    def open_to_read(path: str, flags: int, *rest: int, **keys: int) -> int:
        return refuse() if flags & os.O_CREAT else real(path, flags, *rest, **keys)

    monkeypatch.setattr(os, "open", open_to_read)
    for act in (check_writable, lambda path: write_bytes(path, b"x")):
        with pytest.raises(OutputError, match="Permission denied"):
            act(tmp_path / "out.csv")


def test_check_leaves_nothing_when_the_output_can_be_created(tmp_path):
    check_writable(tmp_path / "out.csv")
    assert list_names(tmp_path) == []
    (tmp_path / "out.csv").write_bytes(b"before")
    check_writable(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == b"before"
    check_writable("-")


def test_rights_are_those_of_a_new_file_or_of_the_one_replaced(tmp_path):
    mask = os.umask(0o027)
    try:
        path = tmp_path / "out.csv"
        write_bytes(path, b"x")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_bytes(path, b"y")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        write_bytes(path, b"z", private=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(mask)


def test_rows_are_for_their_owner_alone_when_they_are_not_yet_complete(tmp_path):
    def look() -> Iterator[pl.DataFrame]:
        (passing,) = tmp_path.iterdir()
        assert stat.S_IMODE(passing.stat().st_mode) == 0o600
        yield FRAME

    write_table(tmp_path / "out.csv", look(), header=["a", "b"], schema=UNREAD)


def test_file_is_replaced_and_not_the_link_when_the_output_is_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "real" / "out.csv")
    write_bytes(tmp_path / "link.csv", b"x")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real" / "out.csv").read_bytes() == b"x"


def test_device_is_written_into_when_the_output_is_one(pipe):
    before = os.stat("/dev/null")
    write_table("/dev/null", [FRAME], header=["a", "b"], schema=UNREAD)
    assert os.stat("/dev/null").st_ino == before.st_ino
    path, reading = pipe
    write_bytes(path, b"x")
    assert os.read(reading, 9) == b"x"
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_standard_output_gets_nothing_when_a_later_row_is_bad(capfdbinary):
    with pytest.raises(ValueError, match="bad"):
        write_table("-", fail_after(2, ValueError("bad")), header=["a", "b"], schema=UNREAD)
    assert capfdbinary.readouterr().out == b""


def test_claim_is_made_of_what_was_written_and_both_appear_when_all_is_well(tmp_path):
    seen: list[WrittenTable] = []

    def make_claim(written: WrittenTable) -> bytes:
        assert not (tmp_path / "out.csv").exists()
        seen.append(written)
        return b"claim"

    written = release(tmp_path, make_claim=make_claim)
    assert seen == [written]
    assert written == WrittenTable(records=2, sha256=hashlib.sha256((tmp_path / "out.csv").read_bytes()).hexdigest())
    assert list_names(tmp_path) == ["c", "out.csv"]


def test_neither_appears_when_the_claim_cannot_be_made_or_placed(tmp_path):
    def fail(written: WrittenTable) -> bytes:
        raise ValueError("not valid")

    with pytest.raises(ValueError, match="not valid"):
        release(tmp_path, make_claim=fail)
    with pytest.raises(OutputError):
        release(tmp_path, claim_path=tmp_path / "no" / "c", make_claim=fail)
    assert list_names(tmp_path) == []


@pytest.mark.parametrize("fails", [1, 2])
def test_no_table_stands_without_a_claim_when_putting_in_place_fails(tmp_path, monkeypatch, fails):
    acts = iter([os.rename] * (fails - 1) + [refuse])
    monkeypatch.setattr(writer.os, "rename", lambda source, target: next(acts)(source, target))
    with pytest.raises(OutputError, match="put in place"):
        release(tmp_path)
    assert list_names(tmp_path) == []


@pytest.mark.parametrize(("folder_synced", "there"), [(1, []), (2, ["c", "out.csv"])])
def test_release_is_whole_or_not_there_when_its_folder_cannot_be_forced_to_disk(
    tmp_path, monkeypatch, folder_synced, there
):
    real, left = writer.sync, folder_synced

    def sync(folder: Path) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(folder)

    monkeypatch.setattr(writer, "sync", sync)
    with contextlib.nullcontext() if there else pytest.raises(TransferError, match="broke off"):
        release(tmp_path)
    assert list_names(tmp_path) == there


def test_no_claim_is_left_when_a_device_takes_nothing(tmp_path):
    with pytest.raises(TransferError, match="No space left"):
        release(tmp_path, path="/dev/full")
    assert list_names(tmp_path) == []
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_claim_stays_when_a_reader_has_seen_some_of_the_rows(tmp_path, monkeypatch):
    real, calls = os.write, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls > 2:  # the claim first, then the first bytes of the table
            raise BrokenPipeError
        return real(descriptor, data if calls == 1 else data[:3])

    monkeypatch.setattr(writer.os, "write", write)
    with pytest.raises(TransferError, match="has stopped"):
        release(tmp_path, path="/dev/null")
    assert list_names(tmp_path) == ["c"]


@pytest.mark.usefixtures("pipe")
def test_pipe_for_the_claim_is_not_removed_when_the_table_cannot_be_placed(tmp_path, monkeypatch):
    monkeypatch.setattr(writer.os, "rename", refuse)
    with pytest.raises(OutputError, match="put in place"):
        release(tmp_path, claim_path=tmp_path / "pipe")
    assert list_names(tmp_path) == ["pipe"]


def test_name_beside_the_target_fits_when_the_targets_is_long(tmp_path):
    path = tmp_path / ("é" * 120 + ".csv")
    write_bytes(path, b"x")
    assert list_names(tmp_path) == [path.name]
