"""The line of a specs file that a sentence about it speaks of."""

import json
import re
from collections.abc import Mapping

Place = tuple[str, ...]
"""The names on the way to a key, and its own."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n', re.DOTALL)
_QUOTED = re.compile(r"'([\w.]+)'|\"([\w.]+)\":")


def find_lines(text: str) -> dict[Place, int]:
    """The line of each key of a JSON text, by the names on the way to it; of two equal ones, the later.

    What stands in a list goes by its number, from 0. Lines of numbers in lists are not told. The text must be JSON.
    """
    lines: dict[Place, int] = {}
    path: list[str] = []
    # For each bracket that is open: whether it is an object's, whether a name is due in it, and how many commas it had.
    brackets: list[tuple[bool, bool, int]] = []
    line, name = 1, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        is_object, is_due, commas = brackets[-1] if brackets else (True, False, 0)
        if token == "\n":
            line += 1
        elif token in "}]":
            brackets.pop()
            path.pop()
        elif token == ",":
            brackets[-1] = is_object, is_object, commas + 1
        elif token != ":" and (is_due or not is_object):
            name = json.loads(token) if is_due else str(commas)
            place = (*path[1:], name)
            lines[place] = line
            brackets[-1] = is_object, False, commas
        if token in "{[":
            path.append(name)
            brackets.append((token == "{", token == "{", 0))
    return lines


def find_line(lines: Mapping[Place, int], *, column: str | None, sentence: str) -> tuple[str | None, int | None]:
    """The key of a column that a sentence quotes, if it is there, and the line to look at."""
    if column is None:
        if rule := re.match(r"[Rr]ule (\d+)", sentence):
            return None, lines.get(("rules", str(int(rule[1]) - 1)))
        twin = re.search(r"name '(.+)' twice", sentence)
        places = [place for place in lines if twin and place[-1] == twin[1]]
        return None, lines[places[-1]] if places else None
    if (column,) not in lines:
        return None, None
    for plain, double in _QUOTED.findall(sentence.replace(repr(column), "", 1)):
        place = (column, *(plain or double).split("."))
        if place in lines:
            return plain or double, lines[place]
    return None, lines[(column,)]
