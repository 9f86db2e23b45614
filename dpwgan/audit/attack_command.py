"""`python -m dpwgan.audit attack`: every attack against one table, beside the same attack on hold-out rows."""

import argparse
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dpwgan.app.logs import LOGGER
from dpwgan.audit.attacks import anonymity, attribute, copies, inversion, membership
from dpwgan.audit.attacks.base import Attack, AttackResult, AttackSettings, CannotPlayError, Game
from dpwgan.audit.comparisons import adjust
from dpwgan.audit.inputs import make_table_command, open_tables, show
from dpwgan.errors import UsageError

ATTACKS: Mapping[str, Attack] = {
    "exact copies": copies.count_copies,
    "membership by distance": membership.attack_by_distance,
    "membership by density ratio": membership.attack_by_density_ratio,
    "attribute inference": attribute.infer_attributes,
    "inference by anonymeter": anonymity.infer,
    "singling out": anonymity.single_out,
    "linkability": anonymity.link,
    "model inversion": inversion.invert_classifier,
}
"""In the order in which they are played."""

READING = (
    "An attack that beats its baseline shows a leak; one that does not shows that this attack found none, and no more."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own options."""
    rows = "rows of each kind to attack (default 1000)"
    confidence = "of each interval; half of what is left is the chance of any false alarm (default 0.95)"
    secret = "a column to guess in attribute inference; may be given again (default: each one in turn)"
    target = "the column whose classifier is inverted, and that anonymeter guesses"
    target += " (default: the last of 2 to 50 categories)"
    only = f"play this attack alone; may be given again. Attacks: {', '.join(ATTACKS)}"
    parser.add_argument("--rows", metavar="N", type=int, default=1000, help=rows)
    parser.add_argument("--confidence", metavar="P", type=float, default=0.95, help=confidence)
    parser.add_argument("--secret", metavar="COLUMN", action="append", default=[], help=secret)
    parser.add_argument("--target", metavar="COLUMN", help=target)
    parser.add_argument("--only", metavar="ATTACK", action="append", default=[], help=only)


def run(arguments: argparse.Namespace) -> None:
    """Plays the attacks and writes what they achieved. Raises: the errors of dpwgan.errors."""
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
    tables, sizes = open_tables(arguments)
    # Rows of one unit are alike: by a unit's other rows among those that stand for the population all seem to leak.
    for name in ("real", "holdout") if tables.schema.unit else ():
        table = getattr(tables, name)
        if table.units is None:
            raise UsageError(
                f"the table {table.path!r} lacks the column of the specs' unit, of which one row is attacked"
            )
        kept = table.units.choose(1, rng=np.random.default_rng(arguments.seed))
        tables = replace(tables, **{name: table.take(np.flatnonzero(kept))})
        sizes[name]["rows"] = int(kept.sum())
    game = Game(**vars(tables), settings=settings)
    started = time.monotonic()
    played: dict[str, AttackResult] = {}
    skipped: list[dict[str, str]] = []
    for name in ATTACKS:
        if name in (arguments.only or ATTACKS):
            LOGGER.info("attack: %s", name)
            try:
                played[name] = play(game, name, seed=arguments.seed)
            except CannotPlayError as reason:
                skipped.append({"name": name, "skipped": str(reason)})
    rate = (1.0 - settings.confidence) / 2.0  # as one end of an interval errs
    document = {
        "command": "attack",
        "tables": sizes,
        "seed": arguments.seed,
        "confidence": settings.confidence,
        "false_alarm_rate": rate,
        "reading": READING,
        "attacks": judge(played, rate=rate),
        "skipped": skipped,
        "seconds": time.monotonic() - started,
    }
    show(arguments, document, write_lines(document))


def play(game: Game, name: str, *, seed: int) -> AttackResult:
    """Plays one attack; what it draws depends on the seed and its name alone, not on which others are played.

    Raises: CannotPlayError for tables that it cannot be played on.
    """
    return ATTACKS[name](game, np.random.default_rng([seed, zlib.crc32(name.encode())]))


def judge(played: Mapping[str, AttackResult], *, rate: float) -> list[dict[str, Any]]:
    """Writes the attacks out, and says which headlines and parts beat their baseline: all of them are one family.

    Without a leak any of them is said to with probability `rate` at most.
    """
    entries = [{"name": name, **asdict(result)} for name, result in played.items()]
    family = [entry for attack in entries for entry in (attack["headline"], *attack["parts"].values())]
    for entry, adjusted in zip(family, adjust([entry["p_value"] for entry in family]), strict=True):
        entry |= {"adjusted_p_value": adjusted, "beats_baseline": adjusted <= rate}
    return entries


def write_lines(document: dict[str, Any]) -> list[str]:
    """The lines of text for the terminal: a part has one if it beats its baseline."""
    sizes = document["tables"]
    lines = [
        f"{sizes['real']['rows']:,} training rows, {sizes['holdout']['rows']:,} hold-out rows, "
        f"{sizes['synthetic']['rows']:,} synthetic rows",
        "",
        f"{'attack':<30}{'on training rows':>18}{'on hold-out rows':>18}{'excess':>9}  "
        f"{100 * document['confidence']:g}% interval",
    ]
    for attack in document["attacks"]:
        leaks = [(f"  {name}", part) for name, part in attack["parts"].items() if part["beats_baseline"]]
        for name, found in ((attack["name"], attack["headline"]), *leaks):
            excess = found["excess"]
            lines.append(
                f"{name:<30}{found['success']['value']:>18.4f}{found['baseline']['value']:>18.4f}"
                f"{excess['value']:>+9.4f}  [{excess['lower']:+.4f}, {excess['upper']:+.4f}]"
                + ("  BEATS ITS BASELINE" if found["beats_baseline"] else "")
            )
    lines += [f"{skipped['name']:<30}not played: {skipped['skipped']}" for skipped in document["skipped"]]
    lines += ["", "What the numbers are:"]
    lines += [f"  {attack['name']}: {attack['measure']}" for attack in document["attacks"]]
    many = sum(1 + len(attack["parts"]) for attack in document["attacks"])
    return [
        *lines,
        "",
        f"{many} findings are judged together: without a leak any beats its baseline with probability "
        f"{document['false_alarm_rate']:.3g} at most. {document['reading']}",
    ]


COMMAND = make_table_command(
    run,
    options="--holdout FILE [options]",
    summary="play attacks against a table, beside the same attacks on rows that were held out",
    holdout="real rows that the synthetic table was not made from: every baseline (needed)",
    add_options=add_options,
)
