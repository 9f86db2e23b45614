"""Where in a specs file each entry and each key of it stands."""

import json
import re
from collections.abc import Mapping

Place = tuple[str, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n', re.DOTALL)
_QUOTED = re.compile(r"'([\w.]+)'|\"([\w.]+)\":")


def find_lines(text: str) -> dict[Place, int]:
    """The line of each key of a JSON text, by the names on the way to it; of two equal ones, the later.

    Lists are passed through: a key within one counts as its neighbour's. The text must be JSON.
    """
    lines: dict[Place, int] = {}
    path: list[str] = []
    # For each bracket that is open: whether it is an object's, and whether a name is due in it.
    open_brackets: list[list[bool]] = []
    line, name = 1, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            open_brackets.append([token == "{", token == "{"])
            path.append(name)
        elif token in "}]":
            open_brackets.pop()
            path.pop()
        elif token == ",":
            open_brackets[-1][1] = open_brackets[-1][0]
        elif token != ":" and open_brackets and open_brackets[-1][1]:
            name = json.loads(token)
            place = (*path[1:], name)
            lines[place] = line
            open_brackets[-1][1] = False
    return lines


def find_line(lines: Mapping[Place, int], *, column: str | None, sentence: str) -> tuple[str | None, int | None]:
    """The key of a column that a sentence quotes, if it is there, and the line to look at."""
    if column is None:
        twin = re.search(r"name '(.+)' twice", sentence)
        places = [place for place in lines if twin and place[-1] == twin[1]]
        return None, lines[places[-1]] if places else None
    if (column,) not in lines:
        return None, None
    for plain, double in _QUOTED.findall(sentence.replace(repr(column), "", 1)):
        place = (column, *(plain or double).split("."))
        if place in lines:
            return plain or double, lines[place]
    return None, lines[column,]
