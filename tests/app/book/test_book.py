"""The book of a table: it never holds less than what was spent, and what was changed in it is noticed."""

import fcntl
import json
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from dpwgan.app.book.book import BookAccount, new_book, read_book
from dpwgan.app.book.cli import main
from dpwgan.app.claims.text import describe_book
from dpwgan.errors import InputError, OutputError, PrivacyError, TransferError, UsageError
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Gaussian, StableSelection
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger
from tests.ledgers import make_release, open_ledger
from tests.programs import begin_book

NOISE = Gaussian(noise_multiplier=10.0)
LIMIT = Budget(epsilon=3.0, delta=1e-8)
ABOUT = {"method": "test", "version": "0", "delta": 1e-9, "accountant": "moments"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return begin_book(tmp_path, LIMIT.epsilon, delta=LIMIT.delta)


def open_account(path: Path, name: str = "run", *, lives: Sequence[str] = ("first",)) -> BookAccount:
    return BookAccount(path, release=name, lives=lives, about=ABOUT)


def plan(times: int, **more: int) -> Ledger:
    return open_ledger([make_release("counts", NOISE, times), *(make_release(k, NOISE, n) for k, n in more.items())])


def spend(path: Path, name: str, times: int) -> None:
    account = open_account(path, name)
    account.reserve(plan(times), charged={})
    account.charge("counts", times, event=NOISE)
    account.settle()


def get_spent(path: Path) -> float:
    return read_book(path).spent[-1]


def get_cost(path: Path, times: int) -> float:
    privacy_filter = read_book(path).filter
    return privacy_filter.get_epsilon(privacy_filter.add_up([(NOISE, times)]))


def test_all_that_was_reserved_counts_until_what_was_charged_is_settled(path):
    account = open_account(path)
    account.reserve(plan(8, others=4), charged={})
    assert get_spent(path) == pytest.approx(get_cost(path, 12))
    account.charge("counts", 3, event=NOISE)
    assert get_spent(path) == pytest.approx(get_cost(path, 12))
    account.settle()
    assert get_spent(path) == pytest.approx(get_cost(path, 3))
    assert read_book(path).entries["run"].settled


def test_releases_add_up_when_there_are_several(path):
    spend(path, "one", 4)
    spend(path, "two", 3)
    open_account(path, "three").reserve(plan(2), charged={})
    assert get_spent(path) == pytest.approx(get_cost(path, 9))


def test_release_is_refused_and_nothing_written_when_it_is_past_the_limit(path):
    spend(path, "one", 10)
    before = path.read_bytes()
    # What fits is one Gaussian release: another of that epsilon may not.
    with pytest.raises(PrivacyError, match=r"no room for this release.* of up to epsilon .*, less for some methods"):
        open_account(path, "two").reserve(plan(20), charged={})
    assert path.read_bytes() == before


def test_lists_are_refused_when_they_take_more_delta_than_their_share(path):
    event = StableSelection(epsilon=0.01, delta=LIMIT.delta / 5)
    with pytest.raises(PrivacyError, match="too much delta for lists of cells"):
        open_account(path).reserve(open_ledger([make_release("cells of a", event)]), charged={})


@pytest.mark.parametrize(
    ("label", "count", "event"),
    [("counts", 4, NOISE), ("other", 1, NOISE), ("counts", 1, Gaussian(noise_multiplier=9.0))],
    ids=["too-many", "another-label", "less-noise"],
)
def test_charge_is_refused_when_the_book_did_not_set_it_aside(path, label, count, event):
    account = open_account(path)
    with pytest.raises(PrivacyError, match="has not set aside"):
        account.charge("counts", 1, event=NOISE)
    account.reserve(plan(3), charged={})
    with pytest.raises(PrivacyError, match="has not set aside"):
        account.charge(label, count, event=event)


def test_ledger_asks_the_book_before_it_charges(path):
    journal = Journal()
    account = open_account(path)
    journal.account = account
    ledger = open_ledger([make_release("counts", NOISE, 3)], journal=journal)
    with pytest.raises(PrivacyError, match="has not set aside"):
        ledger.release("counts", lambda: pytest.fail("a row was read"))
    assert ledger.charged == {"counts": 0}
    account.reserve(ledger, charged={})
    ledger.charge("counts")
    account.settle()
    assert get_spent(path) == pytest.approx(get_cost(path, 1))


def test_run_is_charged_once_when_it_goes_on(path):
    first = open_account(path)
    first.reserve(plan(6), charged={})
    first.charge("counts", 2, event=NOISE)
    again = open_account(path, lives=("first", "second"))
    again.reserve(plan(6), charged={"counts": 2})
    assert get_spent(path) == pytest.approx(get_cost(path, 6))
    again.charge("counts", 1, event=NOISE)
    again.settle()
    assert get_spent(path) == pytest.approx(get_cost(path, 3))


def test_run_is_refused_when_an_older_copy_of_its_checkpoint_goes_on(path):
    open_account(path, lives=("first",)).reserve(plan(6), charged={})
    open_account(path, lives=("first", "second")).reserve(plan(6), charged={})
    # The copy has one more life at each try, and does not come from the second all the same.
    for tries in range(1, 4):
        with pytest.raises(UsageError, match="knows more of this run"):
            open_account(path, lives=("first", *map(str, range(tries)))).reserve(plan(6), charged={})


def test_run_is_refused_when_a_copy_of_its_checkpoint_came_to_its_end_or_went_on(path):
    first = open_account(path)
    first.reserve(plan(6), charged={})
    copied = {"counts": 2}
    first.charge("counts", 6, event=NOISE)
    first.settle()
    with pytest.raises(UsageError, match="knows more of this run"):
        open_account(path, lives=("first", "copy")).reserve(plan(6), charged=copied)
    other = open_account(path, "other")
    other.reserve(plan(6), charged={})
    other.charge("counts", 6, event=NOISE)
    open_account(path, "other", lives=("first", "copy")).reserve(plan(6), charged=copied)
    with pytest.raises(UsageError, match="knows more of this run"):
        other.settle()
    # The whole checkpoint goes on, and writes another table.
    open_account(path, lives=("first", "second")).reserve(plan(6), charged={"counts": 6})


@pytest.mark.parametrize(("goes_on", "charged", "counts"), [(False, 2, 2), (True, 2, 6), (True, 0, 0), (False, 0, 0)])
def test_run_that_failed_gives_back_what_it_did_not_charge_unless_it_may_go_on(path, goes_on, charged, counts):
    account = open_account(path)
    account.reserve(plan(6), charged={})
    if charged:
        account.charge("counts", charged, event=NOISE)
    account.close(goes_on=goes_on)
    assert get_spent(path) == pytest.approx(get_cost(path, counts) if counts else 0.0)


def test_reservation_is_made_anew_when_lists_of_cells_were_read(path):
    account = open_account(path)
    account.reserve(plan(2, more=2), charged={})
    account.charge("counts", 2, event=NOISE)
    account.reserve(plan(2, more=5), charged={})
    account.charge("more", 5, event=NOISE)
    account.settle()
    assert get_spent(path) == pytest.approx(get_cost(path, 7))


# -------------------------------------------------------------------------------------------------- what is damaged


@pytest.fixture
def written(path: Path) -> Path:
    for name in ("one", "two", "three"):
        spend(path, name, 2)
    return path


def test_book_is_refused_when_any_of_its_letters_was_changed(written):
    content = written.read_bytes()
    for place in range(0, len(content) - 1, 37):
        changed = bytes([content[place] ^ 1])
        written.write_bytes(content[:place] + changed + content[place + 1 :])
        with pytest.raises(InputError, match=r"is damaged in line|is no book|is cut"):
            read_book(written)
    written.write_bytes(content)
    assert read_book(written).seals


def test_book_is_refused_when_a_line_was_taken_out_or_moved(written):
    lines = written.read_bytes().splitlines(keepends=True)
    for first in range(len(lines) - 1):
        moved = [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]
        for changed in (lines[:first] + lines[first + 1 :], moved):
            written.write_bytes(b"".join(changed))
            with pytest.raises(InputError, match=r"is damaged in line|is no book"):
                read_book(written)


def test_book_is_refused_and_not_written_to_when_its_last_line_is_cut(written):
    content = written.read_bytes()
    last = len(content.splitlines()[-1])
    for length in (1, 2, last // 2, last):
        written.write_bytes(content[:-length])
        with pytest.raises(InputError, match=r"is cut in its last line"):
            open_account(written, "four").reserve(plan(1), charged={})
        assert written.read_bytes() == content[:-length]
    written.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    assert get_spent(written) == pytest.approx(get_cost(written, 6))  # reserved, and not settled


def test_claim_shows_it_when_lines_were_cut_off_at_the_end(written, tmp_path, capfd):
    from tests.claims import make_claim

    claim = {**make_claim().document, "book": read_book(written).describe()}
    (tmp_path / "claim.json").write_text(json.dumps(claim))
    assert main(["verify", str(written), str(tmp_path / "claim.json")]) == 0
    written.write_bytes(b"".join(written.read_bytes().splitlines(keepends=True)[:-2]))
    assert main(["verify", str(written)]) == 0
    assert main(["verify", str(written), str(tmp_path / "claim.json")]) == 66
    assert "lacks the line that the claim" in capfd.readouterr().err
    (tmp_path / "claim.json").write_text(make_claim().to_json())
    assert main(["verify", str(written), str(tmp_path / "claim.json")]) == 66
    assert "cites no book" in capfd.readouterr().err


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"[]\n", b"\n", b'{"before": 1}\n', b"[" * 100_000 + b"\n", b"\xff\n"]
)
def test_file_is_refused_when_it_is_no_book(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged in line 1|is no book"):
        read_book(path)


def test_book_is_refused_when_others_can_write_to_it_or_it_is_a_link(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(InputError, match="cannot be read"):
        open_account(tmp_path / "link").reserve(plan(1), charged={})
    path.chmod(0o666)
    with pytest.raises(InputError, match="others can write"):
        open_account(path).reserve(plan(1), charged={})


def test_book_is_never_begun_anew(path):
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"is there already"):
        new_book(path, name="b", limit=LIMIT, relation=NeighboringRelation.ZERO_OUT)
    assert path.read_bytes() == before


def test_line_is_taken_back_when_it_cannot_be_written_for_good(path, monkeypatch):
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        account = open_account(path)
        with pytest.raises(TransferError, match=r"the book .* cannot be written: No space left on device"):
            account.reserve(plan(1), charged={})
        with pytest.raises(PrivacyError):
            account.charge("counts", 1, event=NOISE)
    assert path.read_bytes() == before


# -------------------------------------------------------------------------------------------------------- two at a time


def _reserve_some(path: Path, number: int) -> bool:
    try:
        open_account(path, f"run {number}").reserve(plan(3), charged={})
    except PrivacyError:
        return False
    return True


def test_limit_holds_when_several_processes_reserve_at_once(path):
    with multiprocessing.get_context("fork").Pool(6) as pool:
        granted = pool.starmap(_reserve_some, [(path, number) for number in range(24)])
    assert get_spent(path) == pytest.approx(get_cost(path, 3 * sum(granted)))
    assert get_cost(path, 3 * sum(granted)) <= LIMIT.epsilon < get_cost(path, 3 * (sum(granted) + 1))


def test_reservation_waits_for_whoever_has_the_book_open(path, monkeypatch):
    account, lock = open_account(path), fcntl.flock
    # What would wait for ever is told at once.
    monkeypatch.setattr(fcntl, "flock", lambda file, how: lock(file, how | fcntl.LOCK_NB))
    with open(path) as file:
        lock(file, fcntl.LOCK_SH)
        with pytest.raises(InputError, match="cannot be locked"):
            account.reserve(plan(1), charged={})
    account.reserve(plan(1), charged={})


# --------------------------------------------------------------------------------------------------------- the commands


def test_commands_say_what_the_book_holds(tmp_path, capfd):
    path = tmp_path / "b.book"
    new = ["new", str(path), "--name", "a\ttable", "--epsilon", "3", "--delta", "1e-8", "--neighbours", "replace-one"]
    assert main(new) == 0
    assert main(new) == 73
    assert main(["new", str(tmp_path / "c.book"), "--name", "c", "--epsilon", "1e-4", "--delta", "1e-30"]) == 2
    spend(path, "one", 2)
    open_account(path, "two").reserve(plan(2), charged={})
    open_account(path, "one").note_output("ab" * 32)
    assert main(["show", str(path)]) == 0
    assert main(["verify", str(path)]) == 0
    out = capfd.readouterr().out
    assert "book 'a\\ttable': limit epsilon 3 at delta 1e-08, neighbours replace-one" in out
    assert f"output SHA-256 {'ab' * 32}" in out
    assert out.count("not settled") == 1
    assert "5 lines are as they were written" in out
    assert out.count("room for a release of up to epsilon") == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["show", str(tmp_path / "none.book")]) == 66


def test_limit_is_never_written_below_what_it_is(tmp_path, capfd):
    path = tmp_path / "b.book"
    assert main(["new", str(path), "--name", "b", "--epsilon", "3.0000049", "--delta", "1.234561e-8"]) == 0
    assert main(["show", str(path)]) == 0
    told = [*capfd.readouterr().out.splitlines(), *describe_book(read_book(path).describe())]
    # `new` says the limit, `show` says it twice, and each claim once.
    promised = [line for line in told if "epsilon 3.00001" in line or "of 3.00001;" in line]
    assert len(promised) == len(told) == 4
    assert all("delta 1.23457e-08" in line for line in promised)
