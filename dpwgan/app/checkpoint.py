"""A run on disk: what it has charged, noted before rows are read, and what it has released, so that it can go on.

Privacy: a folder holds public facts (the settings, n, the header), how often each release was charged, the releases
themselves, and weights and moments made of releases. No row, no batch and no state of a random generator is in it.
"""

import fcntl
import hashlib
import io
import json
import math
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dpwgan.app.folders import create_file, read_file, refuse_shared
from dpwgan.array_types import Arrays
from dpwgan.errors import DpwganError, InputError, OutputError, TransferError, UsageError, say_why
from dpwgan.privacy.events import Event, read_event
from dpwgan.privacy.journal import Journal
from dpwgan.table.files.places import sync
from dpwgan.table.saved import DAMAGES

FORMAT = 2
JOURNAL_FILE = "journal.json"
LOCK_FILE = "lock"
# A kill costs the steps of one block at most, and keeping weights costs about as much as a few steps.
_BLOCKS = 50
_TEMPORARY = ".tmp"
_FORM = {"run": str, "lives": list, "plan": int, "facts": dict, "spent": list, "events": dict, "acts": list}
_KEPT = re.compile(r"plan-\d+-.+\.npz")


class Checkpoint(Journal):
    """The journal of one run in a folder of its own, which one process at a time may work on.

    Privacy: a charge is on the disk before `charge` returns, hence before rows are read. What was charged and gave
      nothing that was kept stays charged. No randomness is kept: each life of a run draws noise of its own.
      This holds as long as nobody puts an older copy of the folder in its place.
    """

    keeps = True

    def __init__(self, folder: Path, document: dict[str, Any], lock: int) -> None:
        """Takes a folder that is locked, and what is to be in its journal; `open_checkpoint` finds both."""
        super().__init__(document)
        self._folder = folder
        self._document = document
        self._lock: int | None = lock
        self._under_way: list[tuple[str, bool]] = []
        self._lost = {act["name"]: self._find_lost(act) for act in self._acts}

    @property
    def lives(self) -> tuple[str, ...]:
        """The random names of all lives of the run, this one last."""
        return tuple(self._document["lives"])

    @property
    def life(self) -> int:
        """How many lives the run had before this one."""
        return len(self.lives) - 1

    @property
    def key(self) -> int:
        """The name of the run."""
        return int(self._document["run"], 16)

    @property
    def charged(self) -> Mapping[str, int]:
        """How many acts of each reservation are charged by now, by label, under whichever plan."""
        totals = {line.label: line.count for line in self.spent}
        for act in self._acts:
            for label, count in act["charges"].items():
                totals[label] = totals.get(label, 0) + count
        return totals

    @property
    def missing(self) -> list[str]:
        """The acts that are lost and that the run cannot do without."""
        return [act["name"] for act in self._acts if self._lost.get(act["name"]) and not act["dispensable"]]

    def start_over(self) -> None:
        """Gives up all that was kept, and counts all that was charged as spent: a new plan has the rest of the budget.

        Privacy: nothing is charged less than before.
        """
        number, earlier = self._document["plan"], {line.label for line in self.spent}
        self._document["spent"] += [
            {"label": f"{label} (plan {number})", "event": self._document["events"][label], "count": count}
            for label, count in self.charged.items()
            if label not in earlier
        ]
        self._document.update(plan=number + 1, events={}, acts=[])
        self._lost = {}
        self._write_journal()
        for name in _list_kept(self._folder):
            (self._folder / name).unlink()

    def close(self) -> None:
        """Lets others work on the folder; once is enough. A run that charged nothing leaves no journal there."""
        if self._lock is None:
            return
        super().close()
        if not self._acts and not self.spent:
            # The lock stays: whoever waits for this one must not hold another than who comes next.
            (self._folder / JOURNAL_FILE).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    # --------------------------------------------------------------------------------------------------- as a journal

    def begin(self, name: str, *, dispensable: bool) -> None:
        """Says that the charges from here on are those of this act."""
        self._under_way.append((name, dispensable))

    def end(self) -> None:
        """Says that the act begun last is over."""
        self._under_way.pop()

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Notes a charge for good. Raises: TransferError if it cannot be written; the act must not happen then."""
        name, dispensable = self._under_way[-1] if self._under_way else (label, False)
        act = self._find(name)
        if act is None:
            act = {"name": name, "dispensable": dispensable, "charges": {}}
            self._acts.append(act)
        act["charges"][label] = act["charges"].get(label, 0) + count
        self._document["events"][label] = event.describe()
        self._write_journal()

    def count_charged(self, label: str, *, event: Event) -> int:
        """Counts the acts that earlier lives charged. Raises: UsageError if it was for another event."""
        count = super().count_charged(label, event=event)
        if self._document["events"].get(label, event.describe()) != event.describe():
            raise UsageError(
                f"the run in {str(self._folder)!r} planned other noise for its {label}, and cannot be resumed: was the "
                "tool, or a package that it needs, changed in between?"
            )
        return count

    def count_lost(self, label: str) -> int:
        """Counts those of them that gave nothing that the run still has."""
        spent = sum(line.count for line in self.spent if line.label == label)
        return spent + sum(lost.get(label, 0) for lost in self._lost.values())

    def has_lost(self, name: str) -> bool:
        """Says whether an earlier life began this act, and nothing of it was kept."""
        return name in self._lost and not self._path(name).exists()

    def keep(self, name: str, arrays: Arrays) -> None:
        """Keeps arrays under a name, whole or not at all. Raises: TransferError if they cannot be written."""
        act, lost = self._find(name), self._lost.get(name, {})
        kept = None if act is None else {label: n - lost.get(label, 0) for label, n in act["charges"].items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        meta = json.dumps({"name": name, "kept": kept}).encode()
        self._write(self._path(name).name, meta + b"\n" + buffer.getvalue())

    def recall(self, name: str) -> Arrays | None:
        """Finds what was kept under a name, or None. Raises: InputError if it is damaged."""
        found = self._read_kept(name)
        if found is None:
            return None
        kept, payload = found
        if kept is not None and self._find(name) is None:
            raise _damaged(self._folder)
        try:
            with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except DAMAGES:
            raise _damaged(self._folder) from None

    def choose_block(self, steps: int, *, together: int) -> int:
        """Chooses the number of steps between which weights are kept: a fiftieth of all."""
        return max(1, math.ceil(steps / _BLOCKS))

    # ------------------------------------------------------------------------------------------------------ the folder

    @property
    def _acts(self) -> list[dict[str, Any]]:
        acts: list[dict[str, Any]] = self._document["acts"]
        return acts

    def _find(self, name: str) -> dict[str, Any] | None:
        return next((act for act in self._acts if act["name"] == name), None)

    def _find_lost(self, act: Mapping[str, Any]) -> dict[str, int]:
        """What an act charged beyond what is kept of it, at the start of this life."""
        found = self._read_kept(act["name"])
        kept = found[0] or {} if found is not None else {}
        lost = {label: count - kept.get(label, 0) for label, count in act["charges"].items()}
        if min(lost.values(), default=0) < 0:  # more was kept than was charged
            raise _damaged(self._folder)
        return {label: count for label, count in lost.items() if count}

    def _path(self, name: str) -> Path:
        # Names hold the names of columns, which may be anything.
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name)[:40]
        return self._folder / (
            f"plan-{self._document['plan']}-{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.npz"
        )

    def _read_kept(self, name: str) -> tuple[dict[str, int] | None, bytes] | None:
        path = self._path(name)
        if not os.path.lexists(path):
            return None
        body = _unseal(path, key=self._document["run"])
        meta, _, payload = body.partition(b"\n")
        try:
            kept = json.loads(meta)["kept"]
            return None if kept is None else {label: int(count) for label, count in kept.items()}, payload
        except DAMAGES:
            raise _damaged(self._folder) from None

    def _write_journal(self) -> None:
        self._write(JOURNAL_FILE, json.dumps(self._document, indent=1, allow_nan=False).encode() + b"\n")

    def _write(self, name: str, body: bytes) -> None:
        """Writes a file whole or not at all: when this returns it has outlived the process, and the machine.

        Raises: UsageError if the folder was let go of; TransferError.
        """
        if self._lock is None:
            raise UsageError(f"the run in {str(self._folder)!r} has ended here: resume it to go on")
        key = "" if name == JOURNAL_FILE else self._document["run"]
        temporary = self._folder / (name + _TEMPORARY)
        try:
            with os.fdopen(create_file(temporary), "wb") as file:
                file.write(_seal(name, body, key=key))
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self._folder / name)
            sync(self._folder)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise TransferError(f"the checkpoint cannot be written: {say_why(error)}") from None


def open_checkpoint(folder: Path, *, facts: Mapping[str, Any], resume: bool) -> Checkpoint:
    """Begins the journal of a run in a new or empty folder, or with `resume` takes up the one that is there.

    `facts`: what decides the plan, all of it public and such as JSON can hold; a run is resumed under the same only.
    Privacy: reads no row. Each life has a name, written before anything is drawn.
    Raises: UsageError if there is a run and it is not to be resumed, none where one is, one of other facts, or another
      process is working on it; OutputError if the folder is no place for it; InputError if it is damaged, or others can
      write to it.
    """
    facts = json.loads(json.dumps(facts, allow_nan=False))
    if resume:
        if not folder.is_dir() or not _list_files(folder):
            raise UsageError(f"the folder {str(folder)!r} holds no run to resume: leave --resume out to begin one")
    else:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _say_cannot(folder, "created", error) from None
        _refuse_occupied(folder)
    refuse_shared(folder, own=True)
    lock = _lock(folder)
    try:
        if resume:
            document = _read_journal(folder)
            _refuse_other_run(folder, document["facts"], facts)
            _clear_up(folder, plan=document["plan"])
        else:
            _refuse_occupied(folder)  # again: now nobody else begins a run there
            document = {
                "format": FORMAT,
                "run": secrets.token_hex(16),
                "lives": [],
                "plan": 1,
                "facts": facts,
                "spent": [],
                "events": {},
                "acts": [],
            }
        document["lives"].append(secrets.token_hex(16))
        checkpoint = Checkpoint(folder, document, lock)
        checkpoint._write_journal()
        return checkpoint
    except BaseException:
        os.close(lock)
        raise


def _say_cannot(folder: Path, what: str, error: OSError) -> OutputError:
    return OutputError(f"the folder {str(folder)!r} for the checkpoint cannot be {what}: {say_why(error)}")


def _refuse_occupied(folder: Path) -> None:
    files = _list_files(folder)
    if JOURNAL_FILE in files:
        raise UsageError(
            f"the folder {str(folder)!r} holds a run already: add --resume to go on with it, or name an empty folder"
        )
    if files:
        raise OutputError(f"the folder {str(folder)!r} for the checkpoint is not empty")


def _list_files(folder: Path) -> list[str]:
    """What is in the folder, but for the lock and files that were never finished. Raises: OutputError."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise _say_cannot(folder, "read", error) from None
    return [name for name in names if name != LOCK_FILE and not name.endswith(_TEMPORARY)]


def _list_kept(folder: Path) -> list[str]:
    return [name for name in _list_files(folder) if _KEPT.fullmatch(name)]


def _lock(folder: Path) -> int:
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _say_cannot(folder, "written to", error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError(
            f"another process is working on the run in {str(folder)!r}: two would read rows for the same charges"
        ) from None
    return descriptor


def _read_journal(folder: Path) -> dict[str, Any]:
    if not (folder / JOURNAL_FILE).exists():
        raise _damaged(folder)
    try:
        document = json.loads(_unseal(folder / JOURNAL_FILE, key=""))
    except (ValueError, RecursionError):
        raise _damaged(folder) from None
    if not isinstance(document, dict):
        raise _damaged(folder)
    if document.get("format") != FORMAT:
        raise UsageError(f"the run in {str(folder)!r} was begun by another version of the tool, which can resume it")
    if not all(isinstance(document.get(key), kind) for key, kind in _FORM.items()):
        raise _damaged(folder)
    try:
        for name in (document["run"], *document["lives"]):
            int(name, 16)
        json.dumps(document["acts"], ensure_ascii=False).encode()  # names that are no text are none of ours
        events = [line["event"] for line in document["spent"]]
        charges = [(line["label"], line["count"]) for line in document["spent"]]
        for act in document["acts"]:
            events += [document["events"][label] for label in act["charges"]]
            charges += [(act["name"], 1 + act["dispensable"]), *act["charges"].items()]
        for event in events:
            read_event(event)
        sound = all(isinstance(label, str) and type(count) is int and count > 0 for label, count in charges)
    except DAMAGES:
        sound = False
    if not sound:
        raise _damaged(folder)
    return document


def _refuse_other_run(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    other = [key for key in dict.fromkeys((*before, *now)) if before.get(key) != now.get(key)]
    if other:
        words = " and ".join(filter(None, (", ".join(other[:-1]), other[-1])))
        raise UsageError(
            f"the run in {str(folder)!r} has another {words}: resume it with the tool, the command line, the specs and "
            "the table that it was begun with"
        )


def _clear_up(folder: Path, *, plan: int) -> None:
    """Removes what was never finished and what an earlier plan kept. Raises: InputError if a later plan kept some."""
    for name in _list_kept(folder):
        own = int(name.split("-")[1])
        if own > plan:
            raise _damaged(folder)
        if own < plan:
            (folder / name).unlink()
    for path in folder.glob(f"*{_TEMPORARY}"):
        path.unlink()


def _seal(name: str, body: bytes, *, key: str) -> bytes:
    return hashlib.sha256(f"{key}\n{name}\n".encode() + body).hexdigest().encode() + b"\n" + body


def _unseal(path: Path, *, key: str) -> bytes:
    try:
        sealed = read_file(path, own=True)
    except OSError as error:
        raise InputError(f"the checkpoint cannot be read: {say_why(error)}") from None
    body = sealed.partition(b"\n")[2]
    if sealed != _seal(path.name, body, key=key):
        raise _damaged(path.parent)
    return body


def _damaged(folder: Path) -> DpwganError:
    return InputError(
        f"the checkpoint in {str(folder)!r} is damaged: what it released cannot be told, and counts as spent; begin "
        "again in another folder, with a budget of its own"
    )
