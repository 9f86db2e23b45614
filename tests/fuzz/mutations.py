"""Changes to valid inputs, drawn from a generator of random numbers: to bytes, lines of cells, JSON and words."""

import copy
import json
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

BYTES = (
    *(b"\0", b'"', b'""', b",", b";", b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xff", b"\xc3"),
    *(b"\xed\xa0\x80", b"[" * 3_000, b"9" * 400, b"\x1f\x8b", b"\x7f\xff\xff\xff", b"\xff" * 8, b"{", b"}", b"'"),
    *(b"\\", b"\x1b[2K"),
)
CELLS = (
    *("", " ", "nan", "inf", "-0", "1e999", "0x1f", "1_0", "+1", "01", "1.0", "9" * 400, "\ufeff1", '"', '""', '"a'),
    *("a\nb", "2024-02-30", "24:00:00", "\u0661", "true", "NULL", "x" * 5_000, "a,b", "\u202e", "\x1b[2K"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 0.5, 1e308, -1e308, 2**31, 2**63, 10**30, "", " ", "\0", "\ud800", "\n\x1b[2K"),
    *("x" * 3_000, [], {}, [[]], [None], {"": 0}, ["a", "a"], "nan", "1", "data", "private", "waived", "codebook"),
    *("enum", "integer", "float", "date", "datetime", "time", "boolean", "text", "drop", "constant", "string", "%Y"),
    *("%Q", "1 day", "0 days"),
)


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Up to four places, mostly one, are flipped, cut out, doubled, overwritten or added to."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 1, 2, 8, 64, 10**6)))
        piece = rng.choice(
            (
                b"",
                bytes([rng.randrange(256)]),
                bytes(byte ^ 1 << rng.randrange(8) for byte in data[start:end]),
                data[start:end] * 2,
                rng.choice(BYTES),
            )
        )
        data = data[:start] + piece + data[end if rng.random() < 0.7 else start :]
    return data


def change_cells(rng: random.Random, lines: Sequence[str], secret: str) -> str:
    """Lines of a table with cells or lines changed, doubled or taken out; some cells of all rows hold `secret`."""
    rows = [line.split(",") for line in lines]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        row = rng.choice(rows)
        place = rng.randrange(len(row) + 1)
        act = rng.randrange(6)
        if act <= 2:
            row[place : place + 1] = [rng.choice((*CELLS, secret, secret + ",1"))]
        elif act == 3:
            row[place : place + rng.randint(0, 2)] = row[:2]
        elif act == 4:
            rows.insert(rng.randrange(len(rows)), list(row))
        elif len(rows) > 1:
            rows.remove(row)
    return rng.choice(("\n", "\n", "\r\n", "\r")).join(map(",".join, rows)) + rng.choice(("\n", "", "\n\n", ","))


def change_json(rng: random.Random, document: Any, values: Sequence[Any] = VALUES) -> Any:
    """Up to three places in a copy, mostly one, are replaced, taken out, renamed, wrapped, or swapped."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        places = list(_list_places(document))
        if not places:
            return document
        owner, key = rng.choice(places)
        act = rng.randrange(6)
        if act <= 1:
            owner[key] = copy.deepcopy(rng.choice(values))
        elif act == 2:
            del owner[key]
        elif act == 3:
            other, name = rng.choice(places)
            owner[key] = copy.deepcopy(other.get(name) if isinstance(other, dict) else other[name % len(other)])
        elif act == 4:
            owner[key] = rng.choice(([owner[key]], {"a": owner[key]}, [owner[key]] * 2))
        elif isinstance(owner, dict):
            _, name = rng.choice(places)
            owner[str(rng.choice((name, key + "x", "", "rules", "unit", "layout")))] = owner.pop(key)
    return document


def _list_places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _list_places(document[key])


def write_json(rng: random.Random, document: Any) -> bytes:
    """JSON as Python writes it; now and then with bytes changed as well."""
    data = json.dumps(document).encode()
    return change_bytes(rng, data) if rng.random() < 0.1 else data


def change_words(rng: random.Random, words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Words are taken out, doubled, swapped, changed or added."""
    changed = list(words)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        place = rng.randrange(len(changed) + 1)
        piece = rng.choice(([], [rng.choice(others)], [rng.choice(CELLS)], changed[place : place + 1] * 2))
        changed[place : place + rng.randint(0, 1)] = piece
        if changed and rng.random() < 0.2:
            where = rng.randrange(len(changed))
            changed[where] = change_bytes(rng, os.fsencode(changed[where])).decode(errors="surrogateescape")
    return changed
