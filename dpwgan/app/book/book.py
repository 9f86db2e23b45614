"""The book of a private table: one file, one line for each reservation and settlement, and the limit of them all.

Privacy: a line holds events, labels, dates and digests: public facts. A release counts with all that it reserved, until
what it really charged is settled. What was written is on the disk before the run goes on. Lines are chained by digests,
so that one that was changed, cut or taken out is noticed. Claims cite lines: those cut off at the end show that way.
"""

import fcntl
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dpwgan.app.folders import open_file
from dpwgan.array_types import Floats
from dpwgan.errors import (
    DpwganError,
    InputError,
    OutputError,
    PrivacyError,
    TransferError,
    UsageError,
    printable,
    quote,
)
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Charge, Event, read_event
from dpwgan.privacy.filter import PrivacyFilter, open_filter
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.terms import Terms
from dpwgan.privacy.unit import ONE_ROW, Unit
from dpwgan.table.files.places import sync, write_all

FORMAT = 1

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """What the book says of one release: what it was planned to be, what counts of it, and which outputs it has.

    `cost` is that of all it reserved, or once it is `settled` of what it charged; `after` is what the book stands at
    after that line. `life`: the name of the one that reserved last. `charged`: how often each act was when it was
    settled.
    """

    date: str
    life: str
    about: Mapping[str, Any]
    cost: Floats
    after: float = 0.0
    settled: bool = False
    charged: Mapping[str, int] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Book:
    """What a book says, as far as it was read: its limit, and its releases by their random names, in order.

    `seals` holds the digest of every line, to the last of which the next is chained; `spent` the composed epsilon after
    each of them, and `claimed` what the line says of it.
    """

    name: str
    unit: str
    filter: PrivacyFilter
    entries: dict[str, Entry] = field(default_factory=dict)
    seals: list[str] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    claimed: list[float] = field(default_factory=list)

    @property
    def limit(self) -> Budget:
        """What all releases together may cost."""
        return self.filter.limit

    @property
    def left(self) -> float:
        """The epsilon, at the limit's delta, of a release that there is still room for."""
        return self.filter.find_left(self._add_up())

    def describe(self) -> dict[str, Any]:
        """The state of the book, as the claim states it."""
        return {
            "name": self.name,
            "line": self.seals[-1],
            "epsilon": self.spent[-1],
            "epsilon_limit": self.limit.epsilon,
            "delta_limit": self.limit.delta,
        }

    def refuse_other(self, terms: Terms) -> None:
        """Raises: UsageError unless a run has the neighbours and the unit that the book is for."""
        own, relation, unit = self.filter.neighboring_relation, terms.neighboring_relation, terms.unit.meaning
        if relation is not own:
            raise UsageError(
                f"the book {quote(self.name)} is for neighbours {own.spelled}, and this run's are {relation.spelled}"
            )
        if unit != self.unit:
            raise UsageError(
                f"the book {quote(self.name)} is for the unit {printable(self.unit)}, and this run's is {unit}"
            )

    def foresee(self, charges: Iterable[Charge], *, instead_of: str | None = None) -> float:
        """The composed epsilon with so much more, in place of what the release of a name costs.

        Raises: PrivacyError if it would be past the limit.
        """
        others = self._add_up(but=instead_of)
        epsilon = self.filter.get_epsilon(others + self.filter.add_up(charges))
        if epsilon <= self.limit.epsilon:
            return epsilon
        cost = f"cost epsilon {epsilon:.6g}" if math.isfinite(epsilon) else "take too much delta for lists of cells"
        raise PrivacyError(
            f"The book {quote(self.name)} has no room for this release: all that it holds would {cost}, and its limit "
            f"is epsilon {self.limit.epsilon:g} at delta {self.limit.delta:g}; there is room for one of up to "
            f"epsilon {self.filter.find_left(others):.3g} at that delta, less for some methods"
        )

    def take(self, line: Line) -> None:
        """Counts one more line. Raises: KeyError, TypeError, ValueError, DpwganError for one that makes no sense."""
        kind, name = line["kind"], line["release"]
        entry = self.entries.get(name)
        if kind == "reserve":
            about = {key: line[key] for key in ("method", "epsilon", "delta", "accountant")}
            cost, life = self.filter.add_up(_read_charges(line["charges"])), str(line["life"])
            earlier = Entry(date=str(line["date"]), life=life, about=about, cost=cost) if entry is None else entry
            self.entries[name] = replace(earlier, life=life, about=about, cost=cost, settled=False)
        elif entry is not None and kind == "settle":
            cost = self.filter.add_up(_read_charges(line["charges"]))
            charged = {str(one["label"]): int(one["times"]) for one in line["charges"]}
            self.entries[name] = replace(entry, cost=cost, settled=True, charged=charged)
        elif entry is not None and kind == "output":
            self.entries[name] = replace(entry, outputs=(*entry.outputs, str(line["sha256"])))
        else:
            raise ValueError
        self.spent.append(self.filter.get_epsilon(self._add_up()))
        self.entries[name] = replace(self.entries[name], after=self.spent[-1])
        self.claimed.append(float(line.get("composed", math.inf)))

    def _add_up(self, *, but: str | None = None) -> Floats:
        return sum((entry.cost for name, entry in self.entries.items() if name != but), self.filter.add_up([]))


class BookAccount:
    """One run's hand on the book: it sets aside what the run may charge, and settles what it has charged.

    `release` is the random name of the run, which is not charged twice when it is resumed; `lives` are those of all its
    lives, this one last. Numbers would not tell a copy of a checkpoint from what another run went on with: they grow in
    both.
    Privacy: `reserve` returns when all charges of the run are on the disk, and within the limit with all others'.
      `charge` is asked before each act, and refuses one that was not set aside.
    """

    def __init__(self, path: Path, *, release: str, lives: Sequence[str], about: Mapping[str, Any]) -> None:
        self._path, self._release, self._lives, self._about = path, release, lives, about
        self._reserved: dict[str, tuple[Event, int]] = {}
        self._charged: dict[str, int] = {}
        self._begun = self._settled = False

    def reserve(self, ledger: Ledger, *, charged: Mapping[str, int]) -> None:
        """Sets aside all that a ledger has reserved, in place of what was set aside for the run before.

        `charged`: what earlier lives have charged, by label.
        Raises: PrivacyError if it does not fit; UsageError if another process went on with the same run; InputError,
          TransferError if the book cannot be read or written.
        """
        releases = ledger.releases

        def line(book: Book) -> Line:
            self._refuse_copy(book, charged=charged)
            charges = [release.charge for release in releases]
            return {
                "kind": "reserve",
                **self._about,
                "epsilon": ledger.epsilon_reserved(),
                "life": self._lives[-1],
                "composed": book.foresee(charges, instead_of=self._release),
                "charges": [_describe(one.label, one.charge) for one in releases],
            }

        self._append(line)
        self._begun, self._settled = True, False
        self._reserved = {release.label: release.charge for release in releases}
        self._charged = {label: max(charged.get(label, 0), self._charged.get(label, 0)) for label in self._reserved}

    def charge(self, label: str, count: int, *, event: Event) -> None:
        """Counts acts that are about to happen. Raises: PrivacyError if the book has not set them aside."""
        reserved, times = self._reserved.get(label, (None, 0))
        total = self._charged.get(label, 0) + count
        if reserved != event or total > times:
            raise PrivacyError(f"{label}: the book has not set aside {total} acts of this kind.")
        self._charged[label] = total

    def settle(self) -> dict[str, Any]:
        """Puts what was charged in place of what was reserved, and says how far the book is then. Raises: as above."""

        def line(book: Book) -> Line:
            self._refuse_copy(book, charged=self._charged)
            charged = {label: (event, self._charged[label]) for label, (event, _) in self._reserved.items()}
            return {
                "kind": "settle",
                "composed": book.foresee(charged.values(), instead_of=self._release),
                "charges": [_describe(label, charge) for label, charge in charged.items() if charge[1]],
            }

        book = self._append(line)
        self._settled = True
        return book.describe()

    def note_output(self, sha256: str) -> None:
        """Notes the digest of an output. Raises: as above."""
        self._append(lambda book: {"kind": "output", "sha256": sha256})

    def close(self, *, goes_on: bool) -> None:
        """Settles a run that failed, unless it may go on: what it reserved stays set aside for it then.

        Where the book cannot be written, all stays reserved.
        """
        if self._begun and not self._settled and not (goes_on and any(self._charged.values())):
            with suppress(DpwganError):
                self.settle()

    def _refuse_copy(self, book: Book, *, charged: Mapping[str, int]) -> None:
        """Raises: UsageError if another process went on, or came to its end, with a copy of this run's checkpoint.

        Privacy: both would have charged the same acts, and the entry has room for them once.
        """
        entry = book.entries.get(self._release)
        if entry is None:
            return
        fewer = any(charged.get(label, 0) < times for label, times in entry.charged.items())
        if fewer or entry.life not in self._lives:
            raise UsageError(
                f"the book {quote(book.name)} knows more of this run than its checkpoint here, which is a copy, or of "
                "which one went on elsewhere"
            )

    def _append(self, make: Callable[[Book], Line]) -> Book:
        with _locked(self._path, os.O_RDWR | os.O_APPEND, own=True) as descriptor:
            book = _read(self._path, descriptor)
            line = _seal({"date": _now(), **make(book), "release": self._release}, before=book.seals[-1])
            book.take(line)
            book.seals.append(line["seal"])
            _write(descriptor, line, shown=str(self._path))
        return book


def new_book(path: Path, *, name: str, limit: Budget, relation: NeighboringRelation, unit: Unit = ONE_ROW) -> None:
    """Begins a book. Raises: UsageError for a limit without room for any release; OutputError, TransferError."""
    privacy_filter = open_filter(limit, relation)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise OutputError(f"{str(path)!r} is there already, and a book is never begun anew") from None
    except OSError as error:
        raise OutputError(f"the book {str(path)!r} cannot be created: {error.strerror}") from None
    header = {
        "kind": "book",
        "format": FORMAT,
        "date": _now(),
        "name": name,
        "epsilon": limit.epsilon,
        "delta": limit.delta,
        "neighbours": relation.spelled,
        "unit": unit.meaning,
        "shares": [[order, share] for order, share in privacy_filter.shares.items()],
    }
    try:
        _write(descriptor, _seal(header, before=secrets.token_hex(32)), shown=str(path))
        sync(path.parent)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise TransferError(f"the book {str(path)!r} cannot be written: {error.strerror}") from None
        raise
    finally:
        os.close(descriptor)


def read_book(path: str | os.PathLike[str]) -> Book:
    """Reads a book and adds it up anew. Raises: InputError if it is not there or damaged, or others can write to it."""
    with _locked(Path(path), os.O_RDONLY, own=False) as descriptor:
        return _read(Path(path), descriptor)


@contextmanager
def _locked(path: Path, flags: int, *, own: bool) -> Iterator[int]:
    """Opens the book for this process alone, for as long as it takes to read it and add a line."""
    try:
        descriptor = open_file(path, flags, own=own)
    except FileNotFoundError:
        raise InputError(f"there is no book {str(path)!r}: dpwgan book new begins one") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            same = os.path.samestat(os.stat(path), os.fstat(descriptor))
        except OSError as error:
            raise InputError(f"the book {str(path)!r} cannot be locked: {error.strerror}") from None
        if not same:
            raise InputError(f"the book {str(path)!r} was put in another's place while this run waited for it")
        yield descriptor
    finally:
        os.close(descriptor)


def _read(path: Path, descriptor: int) -> Book:
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read()
    *lines, rest = content.split(b"\n")
    book: Book | None = None
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            if _spell_line(_seal(line, before=line["before"])) != text:
                raise ValueError
            if book is None:
                book = _read_header(line)
            elif line["before"] != book.seals[-1]:
                raise ValueError
            else:
                book.take(line)
            book.seals.append(line["seal"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, DpwganError):
            raise InputError(
                f"the book {str(path)!r} is damaged in line {number}: it, or the one before, was changed or taken out"
            ) from None
    if book is None:
        raise InputError(f"{str(path)!r} is no book, or cut in its first line")
    if rest:
        raise InputError(
            f"the book {str(path)!r} is cut in its last line: if the machine went down while a run wrote it, that run "
            "relied on nothing that it says, and the line can be taken away; else take the book from a copy"
        )
    return book


def _read_header(line: Mapping[str, Any]) -> Book:
    if line["kind"] != "book" or line["format"] != FORMAT:
        raise ValueError
    privacy_filter = PrivacyFilter(
        limit=Budget(epsilon=line["epsilon"], delta=line["delta"]),
        neighboring_relation=NeighboringRelation.read(line["neighbours"]),
        shares={float(order): float(share) for order, share in line["shares"]},
    )
    return Book(name=str(line["name"]), unit=str(line["unit"]), filter=privacy_filter, spent=[0.0], claimed=[0.0])


def _describe(label: str, charge: Charge) -> Line:
    return {"label": label, "event": charge[0].describe(), "times": charge[1]}


def _read_charges(lines: Sequence[Mapping[str, Any]]) -> list[Charge]:
    charges: list[Charge] = [(read_event(one["event"]), one["times"]) for one in lines]
    if not all(type(times) is int and times > 0 for _, times in charges):
        raise ValueError
    return charges


def _seal(line: Mapping[str, Any], *, before: str) -> Line:
    """Chains a line to the one before, by a digest over both."""
    sealed = {key: value for key, value in line.items() if key not in ("before", "seal")}
    sealed["before"] = before
    return {**sealed, "seal": hashlib.sha256(_spell_line(sealed)).hexdigest()}


def _spell_line(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode()


def _write(descriptor: int, line: Line, *, shown: str) -> None:
    """Adds a line whole and for good, or takes back what was written of it."""
    size = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, _spell_line(line) + b"\n")
        os.fsync(descriptor)
    except BaseException as error:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        if isinstance(error, OSError):
            raise TransferError(f"the book {shown!r} cannot be written: {error.strerror}") from None
        raise


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
