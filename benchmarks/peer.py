"""Runs another tool's synthesizer on a table as benchmarks/job.py measures it, in that tool's own environment.

    ENVIRONMENT/bin/python benchmarks/peer.py TOOL DATA OUTPUT SPECS EPSILON

TOOL is dpmm-mst, dpmm-aim (package dpmm), smartnoise-mst or smartnoise-dpctgan (package smartnoise-synth). Columns
come as codes, made here from the specs alone: a category by its place, a number as one of 20 equal parts of its range
or a missing code. Derived columns are left out: no peer knows of them. delta is 1/n^2; as many rows are written as
were read. This file imports nothing of dpwgan, which is not there.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BINS = 20


def code_column(cells: "pd.Series[str]", rule: dict[str, Any]) -> tuple[Any, int]:
    """Gives the codes of a column's cells and how many there can be. Unlisted cells get the first code."""
    if rule["type"] == "enum":
        listed = rule.get("values", range(rule.get("count", 0)))
        tokens = [str(value) for value in [*listed, *rule.get("missing", [])]]
        return np.maximum(pd.Categorical(cells, categories=list(dict.fromkeys(tokens))).codes, 0), len(set(tokens))
    missing = [str(value) for value in rule.get("missing", [])]
    numbers = cells.astype(float).to_numpy()
    share = (numbers - rule["min"]) / (rule["max"] - rule["min"])
    codes = np.clip((share * BINS).astype(int), 0, BINS - 1)
    for place, token in enumerate(missing):
        codes[(cells == token).to_numpy()] = BINS + place
    return codes, BINS + len(missing)


def run_dpmm(table: pd.DataFrame, sizes: dict[str, int], *, kind: str, epsilon: float, delta: float) -> pd.DataFrame:
    """Fits and samples a synthesizer of the package dpmm."""
    from dpmm import pipelines

    maker = {"mst": pipelines.MSTPipeline, "aim": pipelines.AIMPipeline}[kind]
    pipeline = maker(epsilon=epsilon, delta=delta, disable_processing=True)
    pipeline.fit(table, domain=sizes)
    return pipeline.generate(len(table))


def run_smartnoise(
    table: pd.DataFrame, sizes: dict[str, int], *, kind: str, epsilon: float, delta: float
) -> pd.DataFrame:
    """Fits and samples a synthesizer of the package smartnoise-synth, which learns the cells from the table."""
    from snsynth import Synthesizer

    synthesizer = Synthesizer.create(kind, epsilon=epsilon, delta=delta)
    synthesizer.fit(table, preprocessor_eps=0.0, categorical_columns=list(sizes))
    return synthesizer.sample(len(table))


RUNNERS: dict[str, Callable[..., pd.DataFrame]] = {"dpmm": run_dpmm, "smartnoise": run_smartnoise}


def main() -> None:
    """Codes the table, runs the tool, and writes what it made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=["dpmm-mst", "dpmm-aim", "smartnoise-mst", "smartnoise-dpctgan"])
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("specs", type=Path)
    parser.add_argument("epsilon", type=float)
    asked = parser.parse_args()
    rules = {name: rule for name, rule in json.loads(asked.specs.read_text(encoding="utf-8")).items() if "type" in rule}
    cells = pd.read_csv(asked.data, dtype=str, keep_default_na=False, usecols=list(rules))
    coded = {name: code_column(cells[name], rule) for name, rule in rules.items()}
    del cells
    table = pd.DataFrame({name: codes for name, (codes, _) in coded.items()})
    sizes = {name: size for name, (_, size) in coded.items()}
    package, _, kind = asked.tool.partition("-")
    made = RUNNERS[package](table, sizes, kind=kind, epsilon=asked.epsilon, delta=1 / len(table) ** 2)
    made.to_csv(asked.output, index=False)
    sys.stderr.write(f"{len(made)} rows\n")


if __name__ == "__main__":
    main()
