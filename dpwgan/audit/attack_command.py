"""`python -m dpwgan.audit attack`: every attack against one table, beside the same attack on hold-out rows."""

import argparse
import time
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpwgan.app.logs import LOGGER
from dpwgan.audit.attacks import anonymity, attribute, copies, inversion, membership
from dpwgan.audit.attacks.base import Attack, AttackResult, AttackSettings, Game, SkippedAttack
from dpwgan.audit.inputs import add_table_arguments, check_arguments, read_tables, show
from dpwgan.errors import UsageError

ATTACKS: Mapping[str, Attack] = {
    copies.NAME: copies.count_copies,
    membership.DISTANCE: membership.attack_by_distance,
    membership.DENSITY_RATIO: membership.attack_by_density_ratio,
    attribute.NAME: attribute.infer_attributes,
    anonymity.SINGLING_OUT: anonymity.single_out,
    anonymity.LINKABILITY: anonymity.link,
    inversion.NAME: inversion.invert_classifier,
}
"""In the order in which they are played."""

READING = (
    "An attack that beats its baseline shows a leak; one that does not shows that this attack found none, and no more."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table_arguments(parser, holdout="real rows that the synthetic table was not made from: every baseline (needed)")
    parser.add_argument(
        "--rows", metavar="N", type=int, default=1000, help="rows of each kind to attack (default 1000)"
    )
    parser.add_argument(
        "--confidence", metavar="P", type=float, default=0.95, help="of each interval, two-sided (default 0.95)"
    )
    parser.add_argument(
        "--secret",
        metavar="COLUMN",
        action="append",
        default=[],
        help="a column to guess in attribute inference; may be given again (default: each one in turn)",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="the column whose classifier is inverted (default: the last of 2 to 50 categories)",
    )
    parser.add_argument(
        "--only",
        metavar="ATTACK",
        action="append",
        default=[],
        help=f"play this attack alone; may be given again. Attacks: {', '.join(ATTACKS)}",
    )


def run(arguments: argparse.Namespace) -> None:
    """Plays the attacks and writes what they achieved.

    Privacy: NOT private.
    Raises: the errors of dpwgan.errors.
    """
    settings = AttackSettings(
        rows=arguments.rows,
        confidence=arguments.confidence,
        secrets=tuple(arguments.secret),
        target=arguments.target,
    )
    for name in arguments.only:
        if name not in ATTACKS:
            raise UsageError(f"--only must be one of {', '.join(ATTACKS)}")
    if arguments.holdout is None:
        raise UsageError(
            "--holdout is needed: without rows that were not trained on, nobody can tell what an attack would achieve "
            "anyway"
        )
    check_arguments(arguments)
    LOGGER.info("reading the tables")
    tables = read_tables(arguments)
    if tables.holdout is None:  # it was asked for above
        raise UsageError("--holdout is needed")
    game = Game(
        real=tables.real,
        synthetic=tables.synthetic,
        holdout=tables.holdout,
        schema=tables.schema,
        settings=settings,
    )
    started = time.monotonic()
    results = [play(game, name, seed=arguments.seed) for name in ATTACKS if name in (arguments.only or ATTACKS)]
    document = {
        "command": "attack",
        "tables": tables.describe(),
        "seed": arguments.seed,
        "confidence": settings.confidence,
        "reading": READING,
        "attacks": [result.describe() for result in results if isinstance(result, AttackResult)],
        "skipped": [result.describe() for result in results if isinstance(result, SkippedAttack)],
        "seconds": time.monotonic() - started,
    }
    show(arguments, document, write_lines(document))


def play(game: Game, name: str, *, seed: int) -> AttackResult | SkippedAttack:
    """Plays one attack; what it draws depends on the seed and its name alone, not on which others are played.

    Privacy: NOT private.
    """
    LOGGER.info("attack: %s", name)
    return ATTACKS[name](game, np.random.default_rng([seed, zlib.crc32(name.encode())]))


def write_lines(document: dict[str, Any]) -> list[str]:
    """The lines of text for the terminal."""
    sizes = document["tables"]
    lines = [
        f"{sizes['real']['rows']:,} training rows, {sizes['holdout']['rows']:,} hold-out rows, "
        f"{sizes['synthetic']['rows']:,} synthetic rows",
        "",
        f"{'attack':<30}{'on training rows':>18}{'on hold-out rows':>18}{'excess':>9}  "
        f"{100 * document['confidence']:g}% interval",
    ]
    for attack in document["attacks"]:
        excess = attack["excess"]
        lines.append(
            f"{attack['name']:<30}{attack['success']['value']:>18.4f}{attack['baseline']['value']:>18.4f}"
            f"{excess['value']:>+9.4f}  [{excess['lower']:+.4f}, {excess['upper']:+.4f}]"
            + ("  BEATS ITS BASELINE" if attack["beats_baseline"] else "")
        )
    lines += [f"{skipped['name']:<30}not played: {skipped['skipped']}" for skipped in document["skipped"]]
    lines += ["", "What the numbers are:"]
    lines += [f"  {attack['name']}: {attack['measure']}" for attack in document["attacks"]]
    tail = (1.0 - document["confidence"]) / 2.0
    lines += ["", f"Each line gives a false alarm with probability {tail:.3g} by itself. {document['reading']}"]
    return lines
