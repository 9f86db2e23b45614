"""Made-up specs, tables of them, and their neighbours, all of one number: whatever the specs can say, in odd tables."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Cells = dict[str, str]
Draw = Callable[[np.random.Generator, Mapping[str, str], str], str]
"""Draws a cell, beside those of the row that were drawn before: as `MOODS` say."""

MOODS = ("any", "any", "few", "least", "most", "missing")
"""Any cell, one of a few, the first or the last one, or one that means not available."""


_MOMENTS = ("date", "datetime", "time")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Specs, a table of them, settings of a run, and neighbours of the table with what was done to a unit."""

    number: int
    specs: dict[str, Any]
    epsilon: float
    options: dict[str, Any]
    rows: list[Cells] = field(repr=False)
    neighbours: list[tuple[str, list[Cells]]] = field(repr=False)
    public: list[Cells] | None = field(default=None, repr=False)

    @property
    def finds(self) -> bool:
        """Whether lists of cells are found in the table."""
        return any(isinstance(keys, dict) and "values_from" in keys for keys in self.specs.values())


@dataclass
class _Maker:
    """Specs that grow by a column at a time, and how the cells of each are drawn."""

    rng: np.random.Generator
    specs: dict[str, Any] = field(default_factory=dict)
    draws: dict[str, Draw] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    listed: dict[str, list[str]] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)

    def may(self, chance: float) -> bool:
        return bool(self.rng.random() < chance)

    def pick(self, things: Sequence[Any]) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def add(self, name: str, keys: dict[str, Any], draw: Draw, *, legal: bool = False) -> None:
        """`legal`: other columns are computed from its cells, so that none is outside of its domain."""
        missing = [str(cell) for cell in keys.get("missing", [])]
        if (
            keys["type"] not in ("constant", "drop", "text", "place", "size")
            and "missing" not in keys
            and self.may(0.3)
        ):
            keys["optional"] = True
        missing += [""] if keys.get("optional") else []
        strays = []
        if not legal and keys["type"] != "constant" and "values_from" not in keys and self.may(0.3):
            if missing:
                keys["out_of_domain"], strays = "missing", ["stray", "1e400", "-7.5"]
            elif keys["type"] in ("integer", "float") and "above" not in keys:
                keys["out_of_domain"], strays = "clamp", ["-999999999", "1e300", "99999999999.5"]

        def draw_any(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
            if missing and (mood == "missing" or rng.random() < 0.1):
                return missing[int(rng.integers(len(missing)))]
            if strays and mood in ("any", "most") and rng.random() < 0.1:
                return strays[int(rng.integers(len(strays)))]
            return draw(rng, row, mood)

        self.specs[name], self.draws[name] = keys, draw_any

    # ----------------------------------------------------------------------------------------------------- columns

    def add_list(self, name: str) -> None:
        size = self.pick([1, 2, 2, 3, 5, 9, 40, 200])
        kind = self.pick(["count", "maxval", "words", "zeros", "ordered"])
        keys: dict[str, Any] = {"type": "enum"}
        cells = [str(code) for code in range(size)]
        if kind in ("count", "maxval"):
            keys[kind] = size - (kind == "maxval")
            if self.may(0.3):
                keys["width"] = 4
                cells = [cell.zfill(4) for cell in cells]
        elif kind == "zeros":
            keys["values"] = cells = [f"{code:03d}" for code in range(size)]
        else:
            keys["values"] = cells = [f"w{code} é,x" if code % 7 == 3 else f"w{code}" for code in range(size)]
            keys["ordered"] = kind == "ordered"
        if self.may(0.2):
            keys["missing"] = ["?", "n/a"]
        self.listed[name] = cells
        self.add(name, keys, draw_of(cells))

    def add_found(self, name: str) -> None:
        keys: dict[str, Any] = {"type": "enum", "values_from": "data", "domain_privacy": "private"}
        cells = [f"token {code}" for code in range(self.pick([1, 4, 60]))]
        if self.may(0.3):
            keys["maxval"], cells = 99, ["1", "01", "1.0", "2", "33", "x"]
        if self.may(0.5):
            keys["missing"] = ["none"]
        else:
            keys["optional"] = True
        self.add(name, keys, draw_of(cells), legal=True)

    def add_number(self, name: str) -> None:
        low, high = self.pick([(0, 1), (0, 9), (-5, 90), (0, 999), (0, 2_999), (1, 10**6), (-(10**9), 10**9)])
        keys: dict[str, Any] = {"type": "integer", "min": low, "max": high}
        decimals = 0
        if self.may(0.3):
            keys["type"], decimals = "float", self.pick([0, 1, 2])
            keys["decimals"] = decimals
        if self.may(0.15) and high - low > 5:
            keys["bins"] = self.pick([3, [low, low + 1, (low + high) // 2, high, high]])
        if self.may(0.2):
            keys["missing"] = [self.pick([low, high, high + 7, "none"])]
        wide = high - low
        listed = [str(cell) for cell in keys.get("missing", [])]

        def draw(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
            above = 0 if mood == "least" else wide if mood == "most" else int(rng.integers(wide + 1))
            if mood == "few":
                above = min(wide, 100 * int(rng.integers(4)))
            number = low + above
            if decimals and mood == "any" and number < high:
                part = f".{int(rng.integers(10**decimals)):0{decimals}d}"
                return f"{number}{part if number >= 0 else ''}"
            return str(number)

        is_whole = keys["type"] == "integer" and not listed
        if "missing" not in keys and "bins" not in keys:
            self.numbers.append(name)
            if is_whole:
                self.whole.append(name)
        self.add(name, keys, draw, legal=True)

    def add_above(self, name: str) -> None:
        if not self.whole:
            return
        base, wide = self.pick(self.whole), self.pick([5, 700])
        keys = {"type": "integer", "above": base, "min": 0, "max": wide, "optional": True}

        def draw(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
            if row[base] == "":
                return ""
            above = {"least": 0, "most": wide}.get(mood, int(rng.integers(wide + 1)))
            return str(int(row[base]) + above)

        self.add(name, keys, draw, legal=True)

    def add_moment(self, name: str) -> None:
        kind = self.pick(["date", "date", "datetime", "time"])
        keys: dict[str, Any] = {"type": kind}
        form = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}[kind]
        if kind == "date" and self.may(0.3):
            keys["format"] = form = "%d.%m.%Y"
        first = datetime.datetime(2020, 1, 1)
        seconds, step = 86_400 * self.pick([21, 399, 3_003]), 86_400
        if kind == "time":
            seconds, step = 86_399, self.pick([1, 900])
            keys["step"] = "1 second" if step == 1 else "15 minutes"
        else:
            last = first + datetime.timedelta(seconds=seconds)
            keys["min"], keys["max"] = "2020-01-01", last.strftime("%Y-%m-%d" if kind == "date" else form)
            if kind == "datetime":
                step = self.pick([1, 60, 3_600])
                keys["step"] = f"{step} seconds"
            elif self.may(0.2):
                keys["step"], step = "7 days", 7 * 86_400

        def draw(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
            most = seconds // step
            times = {"least": 0, "most": most, "few": min(most, 9)}.get(mood, int(rng.integers(most + 1)))
            return (first + datetime.timedelta(seconds=times * step)).strftime(form)

        if kind != "time" and "format" not in keys and step in (1, 60, 86_400):
            self.moments.append(name)
        self.add(name, keys, draw, legal=True)

    def add_since(self, name: str) -> None:
        if not self.moments:
            return
        base, days = self.pick(self.moments), self.pick([1, 60])
        kind = self.specs[base]["type"]
        form = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S"}[kind]
        keys: dict[str, Any] = {"type": kind, "since": base, "min": "0 days", "max": f"{days} days", "optional": True}

        def draw(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
            if row[base] == "":
                return ""
            later = {"least": 0, "most": days}.get(mood, int(rng.integers(days + 1)))
            return (datetime.datetime.strptime(row[base], form) + datetime.timedelta(days=later)).strftime(form)

        self.add(name, keys, draw, legal=True)

    def add_boolean(self, name: str) -> None:
        self.add(name, {"type": "boolean", "true": ["Y", "yes"], "false": ["N"]}, draw_of(["Y", "N", "yes", "y"]))

    def add_other(self, name: str) -> None:
        kind = self.pick(["constant", "text", "drop", "uuid"])
        cells = ["7"] if kind == "constant" else ["a", "b", "", "free text, quoted"]
        keys: dict[str, Any] = {"type": "integer", "uuid": True} if kind == "uuid" else {"type": kind}
        if kind == "constant":
            keys["value"] = "7"
        self.specs[name], self.draws[name] = keys, draw_of(cells)

    def add_derived(self, name: str) -> None:
        sources = [source for source in self.whole if "optional" not in self.specs[source]]
        if self.listed and (not sources or self.may(0.4)):
            source = self.pick([*self.listed])
            if {*self.specs[source]} & {"optional", "missing", "out_of_domain"}:
                return
            parts = {cell: f"part {place % 3}" for place, cell in enumerate(self.listed[source])}
            self.specs[name] = {"derived": {"from": source, "map": parts}}
            self.draws[name] = lambda rng, row, mood: parts[row[source]]
        elif sources:
            source, times = self.pick(sources), self.pick([1, 7])
            how = self.pick(["multiply", "floordiv", "sql"])
            if how == "sql":
                self.specs[name] = {"derived": {"sql": f'"{source}" + {times}'}, "decimals": 0}
                self.draws[name] = lambda rng, row, mood: str(int(row[source]) + times)
            else:
                self.specs[name] = {"derived": {"from": source, how: times}}
                self.draws[name] = lambda rng, row, mood: str(
                    int(row[source]) * times if how == "multiply" else int(row[source]) // times
                )

    # ---------------------------------------------------------------------------------------------------- settings

    def choose_fit(self) -> dict[str, Any]:
        """Settings of a short fit to marginals."""
        rounds = self.pick([0, 2, 5, 10, 20, None])
        return {
            **({} if rounds is None else {"rounds": rounds}),
            "fit_steps": int(self.pick([1, 4])),
            "codes": int(self.pick([20, 100])),
            **({"ways": int(self.pick([2, 3, 4]))} if self.may(0.5) else {}),
            **({"most_cells": int(self.pick([40, 400]))} if self.may(0.2) else {}),
        }

    def choose_method(self, only: str | None) -> tuple[str, dict[str, Any]]:
        """A method, and settings with which it takes a second."""
        steps: dict[str, Any] = {"steps": 3, "hidden_critic": (8,), "step_noise": "plain"}
        alone = {**steps, "hidden_generator": (8,)}
        methods: list[tuple[float, str, dict[str, Any]]] = [
            (6, "query-gan", self.choose_fit()),
            (1.5, "independent", {} if self.may(0.3) else {"noise": self.pick(["laplace", "gaussian"])}),
            (1, "ron-gauss", {"noise": self.pick(["laplace", "gaussian"]), "projection_dimension": 3}),
            (1, "dp-wgan", {**self.choose_fit(), **steps}),
            (0.5, "dp-wgan", {"anchor": "none", **alone}),
            (0.3, "query-gan", {"oracle": "one-layer", "rounds": 2, "codes": 40}),
            (0.2, "dp-gan", alone),
            (0.2, "ron-dp-gan", alone),
            (0.2, "dp-critic", {"formal": True, "steps": 3, "hidden_critic": (8,)}),
        ]
        chances = np.array([chance * (only in (None, name)) for chance, name, _ in methods])
        _, name, settings = methods[int(self.rng.choice(len(methods), p=chances / chances.sum()))]
        return name, settings

    # ------------------------------------------------------------------------------------------------------- rules

    def make_rules(self, *, drops: bool) -> list[Any]:
        rules: list[Any] = []
        if drops:
            by_list = {"columns": ["gone"], "allowed": [["n"]], "violations": "drop"}
            rules.append(self.pick([by_list, {"sql": "gone = 'n'", "violations": "drop"}]))
        plain = [name for name in self.numbers if self.specs[name]["max"] < 10**7]
        if plain and self.may(0.4):
            name = self.pick(plain)
            middle = (self.specs[name]["min"] + self.specs[name]["max"]) // 3
            how = self.pick(["drop", "keep"]) if drops else "keep"
            rules.append({"sql": f'"{name}" >= {middle} OR "{name}" IS NULL', "violations": how})
        if drops and self.may(0.3):
            rules.append("gone IN ('n', 'y')")
        if len(plain) > 1 and self.may(0.3):
            rules.append({"sql": f'"{plain[0]}" <= "{plain[1]}" * 2 + 10', "violations": "keep"})
        names = [name for name, cells in self.listed.items() if 1 < len(cells) < 10]
        if len(names) > 1 and self.may(0.4):
            pair = [self.listed[name] for name in names[:2]]
            forbidden = [[pair[0][0], pair[1][-1]]]
            rules.append({"columns": names[:2], "forbidden": forbidden, "violations": "drop" if drops else "keep"})
        return rules

    def make_unit_rules(self, names: Sequence[str]) -> list[str]:
        """Rules between rows of a unit, drawn apart: all else of a case is the same with them."""
        rng = self.rng.spawn(1)[0]
        forms = ["previous.{0} <= {0}", "{0} <= first.{0}", "previous.{0} <> {0}"]
        return [rng.choice(forms).format(f'"{rng.choice(names)}"') for _ in range(rng.integers(1, 3))]


def draw_of(cells: Sequence[str]) -> Draw:
    """Draws from a list; a few cells are its first ones."""

    def draw(rng: np.random.Generator, row: Mapping[str, str], mood: str) -> str:
        if mood in ("least", "most"):
            return cells[0 if mood == "least" else -1]
        return cells[int(rng.integers(min(len(cells), 2) if mood == "few" else len(cells)))]

    return draw


_KINDS = {
    "list": 4, "found": 1, "number": 4, "above": 1, "moment": 2, "since": 1, "boolean": 1, "other": 0.5, "derived": 1
}  # fmt: skip


def make_case(number: int, *, method: str | None = None) -> Case:
    """The case of that number, every time the same."""
    maker = _Maker(np.random.default_rng(number))
    rng, pick, may = maker.rng, maker.pick, maker.may
    kinds, weights = [*_KINDS], np.array([*_KINDS.values()], float)
    alike = pick([None, None, None, None, None, "boolean", "number", "moment", "list"])
    for place in range(int(rng.integers(1, 11 if alike is None else 15))):
        kind = alike if alike and may(0.8) else kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
        getattr(maker, f"add_{kind}")(f"{kind} {place}" if may(0.3) else f"{kind}_{place}")
    if not any(
        keys.get("type") not in (None, "drop", "text", "constant") and "uuid" not in keys
        for keys in maker.specs.values()
    ):
        maker.add_list("last")
    replacing = may(0.5)
    finds = any("values_from" in keys for keys in maker.specs.values())
    drops = not finds and (not replacing or may(0.3))
    if drops:
        maker.specs["gone"] = {"type": "enum", "values": ["n", "y"]}
        maker.draws["gone"] = lambda rng, row, mood: "y" if rng.random() < 0.1 else "n"
    rules = maker.make_rules(drops=drops)
    if rules:
        maker.specs["rules"] = rules
    name, settings = maker.choose_method(method)
    options: dict[str, Any] = {"method": name, "settings": settings}
    options["neighbours"] = "replace-one" if replacing else "zero-out"
    rows = int(pick([20, 40, 80, 150, 300] if may(0.8) else [2_000, 5, 1]))
    table = _Table(maker, rows)
    if table.promised:
        options["rows_per_unit"] = table.promised
    base = table.draw_all()
    neighbours = []
    for _ in range(3):
        places, where = table.choose_unit()
        neighbours.append(table.make_neighbour(base, places, where, replacing=replacing))
    public = None
    if may(0.15) and "fit_steps" in settings:
        public = table.draw_all()[:100]
    return Case(
        number=number,
        specs=maker.specs,
        epsilon=float(np.exp(rng.uniform(np.log(0.05), np.log(100.0)))),
        options=options,
        rows=base,
        neighbours=neighbours,
        public=public,
    )


class _Table:
    """Rows of a maker's columns, in units or not."""

    def __init__(self, maker: _Maker, rows: int) -> None:
        self.maker, self.rng = maker, maker.rng
        pick, may = maker.pick, maker.may
        self.persons: np.ndarray | None = None
        self.promised = 0
        self.shared: list[str] = []
        self.unique: list[str] = []
        self.most = 1
        specs = maker.specs
        trained = [name for name in maker.draws if "derived" not in specs[name] and "uuid" not in specs[name]]
        trained = [name for name in trained if specs[name]["type"] not in ("drop", "text", "constant")]
        if may(0.55):
            self.most = int(pick([1, 2, 3, 5]))
            unit: dict[str, Any] = {"column": "person", "max_rows": self.most}
            sizes = {
                "ones": np.ones(rows, int),
                "many": self.rng.integers(1, 2 * self.most + 3, rows),
                "one": np.array([rows // 2, *np.ones(rows, int)]),
                "all": np.array([rows]),
                "pairs": np.full(rows, 2),
            }[pick(["many", "many", "many", "ones", "one", "all", "pairs"])]
            persons = np.repeat(np.arange(len(sizes)), sizes)[:rows]
            if may(0.7):
                persons = self.rng.permutation(persons)
            self.persons = persons
            written = may(0.75)
            if written:
                specs["person"] = {"type": "integer", "uuid": True, "min": 0}
                free = [name for name in trained if not {"since", "above"} & {*specs[name]} and name != "gone"]
                if free and may(0.5):
                    told = {keys.get("since", keys.get("above")) for keys in specs.values() if isinstance(keys, dict)}
                    free = sorted(free, key=lambda name: "values_from" not in specs[name])
                    self.shared = [name for name in free[:2] if name not in told]
                    for name in self.shared:
                        specs[name]["of"] = "unit"
                    free = [name for name in free if name not in self.shared]
                lists = [name for name in free if len(maker.listed.get(name, range(99))) < 6]
                if lists and may(0.5):
                    unit["kind"] = pick(lists)
                    if rows % 3 != 1:
                        unit["of_kind"] = {maker.listed[unit["kind"]][0]: [rows % 2, 1]}
                    if may(0.7):
                        for key in ("missing", "optional", "out_of_domain"):
                            specs[unit["kind"]].pop(key, None)
                        maker.draws[unit["kind"]] = draw_of(maker.listed[unit["kind"]])
                linked = [
                    name for name in free if specs[name]["type"] != "boolean" and "values_from" not in specs[name]
                ]
                linked = [name for name in linked if name != unit.get("kind")]
                if linked and self.most > 1 and may(0.6):
                    unit["linked"] = linked[: int(self.rng.integers(1, 4))]
                wide = [name for name in maker.moments if name in free and "missing" not in specs[name]]
                if wide and may(0.3) and sizes.max() < 15:
                    self.unique = [wide[0]]
                    unit["unique"] = self.unique
                if may(0.2):
                    specs["place"] = {"type": "place", "of": "unit"}
                    maker.draws["place"] = draw_of(["1", "junk"])
                timed = [name for name in unit.get("linked", ()) if specs[name]["type"] in _MOMENTS]
                if self.most > 1 and ("kind" in unit or self.unique or timed):
                    unit["rules"] = maker.make_unit_rules(free)
            specs["unit"] = unit
        elif may(0.2):
            self.promised = int(pick([2, 4]))
        self.count = rows if self.persons is None else len(self.persons)
        self.moods = {name: pick(MOODS) if may(0.6) else "mixed" for name in maker.draws}
        if may(0.25):
            self.moods = dict.fromkeys(
                maker.draws, pick(["least", "most", "missing", "together", "together", "together"])
            )

    def draw_rows(self, places: np.ndarray, moods: Mapping[str, str]) -> list[Cells]:
        """Rows for these places, which are whole units where there are any."""
        common: dict[Any, Cells] = {}
        taken: set[tuple[Any, ...]] = set()
        drawn = []
        for place in places:
            person = None if self.persons is None else int(self.persons[place])
            for _ in range(300):
                row: Cells = {}
                together = MOODS[int(self.rng.integers(len(MOODS)))]
                for name, draw in self.maker.draws.items():
                    mood = moods[name]
                    if name in self.unique:
                        mood = "any"
                    elif mood in ("mixed", "together"):
                        mood = together if mood == "together" else MOODS[int(self.rng.integers(len(MOODS)))]
                    known = common.get(person, {})
                    row[name] = known[name] if name in known else draw(self.rng, row, mood)
                    if name in self.shared:
                        common.setdefault(person, {})[name] = row[name]
                key = (person, *(row[name] for name in self.unique))
                if not self.unique or key not in taken:
                    taken.add(key)
                    break
            if person is not None:
                row["person"] = f"p{person}"
            drawn.append(row)
        return drawn

    def draw_all(self) -> list[Cells]:
        return self.draw_rows(np.arange(self.count), self.moods)

    def choose_unit(self) -> tuple[np.ndarray, str]:
        """The places of a unit, and where it lies."""
        where = self.maker.pick(["first", "last", "any", "largest"])
        if self.persons is None:
            start = {"first": 0, "last": self.count - 1}.get(where, int(self.rng.integers(self.count)))
            if self.promised and where != "first":
                return self.rng.choice(self.count, min(self.promised, self.count), replace=False), where
            return np.arange(start, min(start + max(1, self.promised), self.count)), where
        person = {
            "first": self.persons[0],
            "last": self.persons[-1],
            "largest": np.bincount(self.persons).argmax(),
        }.get(where, self.maker.pick(self.persons))
        return np.flatnonzero(self.persons == person), where

    def make_neighbour(
        self, base: list[Cells], places: np.ndarray, where: str, *, replacing: bool
    ) -> tuple[str, list[Cells]]:
        other = [dict(row) for row in base]
        found = [name for name, keys in self.maker.specs.items() if isinstance(keys, dict) and "values_from" in keys]
        if not replacing and found:
            # Rules that drop rows do not go with lists that are found: here a unit has a part in these alone.
            for place in places:
                other[place].update((name, str(self.maker.specs[name].get("missing", [""])[0])) for name in found)
            return f"{where} without cells of lists that are found", other
        if not replacing:
            how = self.maker.pick(["gone", "gone", "gone, with other cells"])
            cells = self.draw_rows(places, self.moods) if "other" in how else [base[place] for place in places]
            for place, row in zip(places, cells, strict=True):
                other[place] = {**row, "gone": "y"}
            return f"{where} {how}", other
        how = self.maker.pick(["order", "drawn", "alike", "gone", "least", "most", "missing"])
        if how == "order":
            for place, source in zip(places, self.rng.permutation(places), strict=True):
                other[place] = dict(base[source])
        else:
            moods = dict.fromkeys(self.maker.draws, how) if how in MOODS else self.moods
            if how == "drawn":
                moods = {name: self.maker.pick(MOODS) for name in self.maker.draws}
            rows = self.draw_rows(places, moods)
            if how == "alike" and not self.unique:
                rows = [dict(rows[0]) for _ in rows]
            for place, row in zip(places, rows, strict=True):
                if how == "gone" and "gone" in row:
                    row["gone"] = "y"
                other[place] = row
        return f"{where} {how}", other
