"""The command `dpwgan book`: begins the book of a private table, shows it, and adds it up anew."""

import argparse
import math
import re
from pathlib import Path

from dpwgan.app.book.book import Book, Entry, new_book, read_book
from dpwgan.app.claims.cli import read_claim_file
from dpwgan.app.claims.text import round_up
from dpwgan.app.commands import Command, Program
from dpwgan.app.config import read_delta, read_epsilon
from dpwgan.app.logs import print_lines
from dpwgan.errors import InputError, PrivacyError, UsageError, printable, quote
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.unit import Unit

EPILOG = """\
A run that is given the book (dpwgan run ... --book FILE) sets its cost aside before it reads a row, and is refused (69)
where that would be past the limit. All releases in a book are together (epsilon, delta)-differentially private at its
limit, however each was chosen in the light of those before: docs/privacy.md has the proof.

verify adds all up anew and looks for the line that each CLAIM cites: lines that were cut off at the end show that way.

exit codes: 0 done; 2 usage; 65 a claim is none; 66 there is no book, or it is damaged, or lacks the line of a claim;
69 it is past its limit; 70 internal error; 73 the book cannot be created; 74 reading or writing broke off; 130, 143
stopped by a signal."""


def _add_new(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--name", required=True, metavar="NAME", help="what the table is called, as claims say it")
    parser.add_argument("--epsilon", required=True, metavar="EPSILON", help="what all its releases may cost together")
    parser.add_argument("--delta", required=True, metavar="DELTA", help="the same: well below 1/n")
    relations = [relation.spelled for relation in NeighboringRelation]
    parser.add_argument("--neighbours", choices=relations, default=relations[0], help="those of all its releases")
    parser.add_argument("--unit", metavar="COLUMN", help="the column that the specs name as the unit, if they do")
    parser.add_argument(
        "--rows-per-unit", metavar="K", default="1", help="its max_rows, or --rows-per-unit of the runs"
    )


def _new(arguments: argparse.Namespace) -> None:
    limit = Budget(epsilon=read_epsilon(arguments.epsilon), delta=read_delta(arguments.delta))
    relation = NeighboringRelation.read(arguments.neighbours)
    if not re.fullmatch("[1-9][0-9]{0,8}", arguments.rows_per_unit):
        raise UsageError("--rows-per-unit must be a whole number of at least 1")
    unit = Unit(rows=int(arguments.rows_per_unit), named=arguments.unit)
    new_book(Path(arguments.file), name=arguments.name, limit=limit, relation=relation, unit=unit)
    print_lines([_describe(read_book(arguments.file))])


def _show(arguments: argparse.Namespace) -> None:
    book = read_book(arguments.file)
    print_lines([_describe(book), *map(_describe_entry, book.entries.values()), _say_left(book)])


def _verify(arguments: argparse.Namespace) -> None:
    book = read_book(arguments.file)
    for claimed, found in zip(book.claimed, book.spent, strict=True):
        if found > claimed * (1 + 1e-9):
            raise InputError(f"a line of the book says epsilon {claimed:.6g}, and adding up gives {found:.6g}")
    if book.spent[-1] > book.limit.epsilon:
        raise PrivacyError(f"The book {quote(book.name)} stands at epsilon {book.spent[-1]:.6g}, past its limit")
    for path in arguments.claims:
        _, claim = read_claim_file(path)
        cited = claim.get("book")
        if cited is None:
            raise InputError(
                f"the claim {path!r} cites no book: its release is in none, and adds up with those in this one"
            )
        if cited["line"] not in book.seals:
            raise InputError(f"the book lacks the line that the claim {path!r} cites: it was cut, or is another's")
    counted = " and those that the claims cite" if arguments.claims else ""
    print_lines([_describe(book), f"{len(book.seals)} lines{counted} are as they were written. {_say_left(book)}"])


def _describe(book: Book) -> str:
    epsilon, delta = _show_limit(book)
    return (
        f"book {quote(book.name)}: limit epsilon {epsilon} at delta {delta}, neighbours "
        f"{book.filter.neighboring_relation.spelled}, unit {printable(book.unit)}"
    )


def _describe_entry(entry: Entry) -> str:
    about = entry.about
    left = "" if entry.settled else "; not settled: it runs, or died, and counts with all that it reserved"
    outputs = f"; output SHA-256 {', '.join(map(printable, entry.outputs))}" if entry.outputs else ""
    return (
        f"  {printable(entry.date)} {printable(str(about['method']))}: alone epsilon "
        f"{round_up(float(about['epsilon']), digits=6)} at delta {round_up(float(about['delta']), digits=4)} by "
        f"{printable(str(about['accountant']))}; the book after it: epsilon {_show_epsilon(entry.after)}{outputs}{left}"
    )


def _say_left(book: Book) -> str:
    epsilon, delta = _show_limit(book)
    return (
        f"spent: epsilon {_show_epsilon(book.spent[-1])} of {epsilon}; left: room for a release of up to epsilon "
        f"{book.left:.3g} at delta {delta}, less for some methods (--check --book tells): releases together cost "
        "less than their sum"
    )


def _show_limit(book: Book) -> tuple[str, str]:
    """Epsilon and delta, which are promised."""
    return round_up(book.limit.epsilon, digits=6), round_up(book.limit.delta, digits=6)


def _show_epsilon(epsilon: float) -> str:
    return round_up(epsilon, digits=6) if math.isfinite(epsilon) else "without bound"


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=argparse.SUPPRESS)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("claims", metavar="CLAIM", nargs="*", help=argparse.SUPPRESS)


PROGRAM = Program(
    name="dpwgan book",
    commands={
        "new": Command(
            usage="FILE --name NAME --epsilon EPSILON --delta DELTA [--neighbours replace-one] [options]",
            summary="begin the book of a private table, with the limit of all releases from it",
            add_arguments=_add_new,
            run=_new,
        ),
        "show": Command(
            usage="FILE",
            summary="say what was released, what it cost together, and what is left",
            add_arguments=_add_file,
            run=_show,
            reads=("FILE",),
        ),
        "verify": Command(
            usage="FILE [CLAIM ...]",
            summary="make sure that no line was changed, and add up anew",
            add_arguments=_add_verify,
            run=_verify,
            reads=("FILE", "CLAIMS"),
        ),
    },
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
