"""Runs another tool's synthesizer as benchmarks/utility.py, job.py and xor.py measure it, in that tool's environment.

    ENVIRONMENT/bin/python benchmarks/peer.py TOOL DATA OUTPUT SPECS EPSILON [--ways K]

TOOL is dpmm-mst, dpmm-aim (package dpmm; with -privtree behind it a tenth of the budget finds the bins of numbers;
AIM's workload is all pairs, or sets of as many columns as --ways says), mbi-mst, mbi-aim (package mbi, with the loops
of mbi_mechanisms.py), smartnoise-mst or smartnoise-dpctgan (package smartnoise-synth). `make peers` sets dpmm and mbi
up. Columns come as codes, made here from the specs alone: a category by its place, a number as one of 20 equal parts of
its range (1,024 where bins are found; there columns of 24 counted codes or more are numbers, too) or a missing code.
Cells are written back: a category as it is, a number as the middle of its part. Derived columns are left out: no peer
knows of them. delta is 1/n^2; as many rows are written as were read. This file imports nothing of dpwgan, which is not
there.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BINS, FINE_BINS = 20, 1024
ORDERED = 24
MODEL_MB = 80  # AIM's limit where its authors set one; without any it does not end


def list_tokens(rule: dict[str, Any]) -> list[str]:
    """Gives the cells of a category, or the missing codes of a number, in the order of their codes."""
    listed = rule.get("values", range(rule.get("count", 0))) if rule["type"] == "enum" else []
    return list(dict.fromkeys(str(value) for value in [*listed, *rule.get("missing", [])]))


def code_column(cells: "pd.Series[str]", rule: dict[str, Any], bins: int = BINS) -> tuple[Any, int]:
    """Gives the codes of a column's cells and how many there can be. Unlisted cells get the first code."""
    tokens = list_tokens(rule)
    if rule["type"] == "enum":
        return np.maximum(pd.Categorical(cells, categories=tokens).codes, 0).astype(int), len(tokens)
    # Missing codes may be words; they get codes of their own below.
    numbers = pd.to_numeric(cells, errors="coerce").fillna(rule["min"]).to_numpy(float)
    share = (numbers - rule["min"]) / (rule["max"] - rule["min"])
    codes = np.clip((share * bins).astype(int), 0, bins - 1)
    for place, token in enumerate(tokens):
        codes[(cells == token).to_numpy()] = bins + place
    return codes, bins + len(tokens)


def write_cells(codes: Any, rule: dict[str, Any], bins: int = BINS) -> Any:
    tokens = np.array(list_tokens(rule), dtype=object)
    if rule["type"] == "enum":
        return tokens[codes]
    middles = rule["min"] + (np.arange(bins) + 0.5) * (rule["max"] - rule["min"]) / bins
    return np.concatenate([middles.astype(int if rule["type"] == "integer" else float).astype(object), tokens])[codes]


def run_dpmm(
    table: pd.DataFrame, sizes: dict[str, int], *, kind: str, epsilon: float, delta: float, ways: int
) -> pd.DataFrame:
    """Fits and samples a synthesizer of the package dpmm. Columns of text are categories to it, which bins leave."""
    from dpmm import pipelines

    name, _, binned = kind.partition("-")
    maker = {"mst": pipelines.MSTPipeline, "aim": pipelines.AIMPipeline}[name]
    limit = {"max_model_size": MODEL_MB, "gen_kwargs": {"degree": ways}} if name == "aim" else {}
    if not binned:
        pipeline = maker(epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=1, **limit)
        pipeline.fit(table, domain=sizes)
        return pipeline.generate(len(table))
    pipeline = maker(epsilon=0.9 * epsilon, delta=delta, proc_epsilon=0.1 * epsilon, n_jobs=1, **limit)
    domain = {
        column: {"lower": 0, "upper": size}
        if table[column].dtype == int
        else {"categories": list(map(str, range(size)))}
        for column, size in sizes.items()
    }
    pipeline.fit(table, domain=domain)
    made = pipeline.generate(len(table)).astype(int)
    return made.clip(0, pd.Series(sizes)[made.columns] - 1, axis=1)


def run_mbi(
    table: pd.DataFrame, sizes: dict[str, int], *, kind: str, epsilon: float, delta: float, ways: int
) -> pd.DataFrame:
    """Fits and samples mbi's graphical model of what MST or AIM measure."""
    import jax
    import mbi_mechanisms as mechanisms  # beside this file

    jax.config.update("jax_enable_x64", True)  # without it mirror descent may stall, says mbi
    jax.config.update("jax_enable_compilation_cache", False)  # mbi asks for this, too
    asked = mechanisms.Guarded(table, sizes, mechanisms.find_rho(epsilon, delta))
    return mechanisms.run_mst(asked) if kind == "mst" else mechanisms.run_aim(asked, ways, MODEL_MB)


def run_smartnoise(
    table: pd.DataFrame, sizes: dict[str, int], *, kind: str, epsilon: float, delta: float, ways: int
) -> pd.DataFrame:
    """Fits and samples a synthesizer of the package smartnoise-synth, which learns the cells from the table."""
    from snsynth import Synthesizer

    synthesizer = Synthesizer.create(kind, epsilon=epsilon, delta=delta)
    synthesizer.fit(table, preprocessor_eps=0.0, categorical_columns=list(sizes))
    return synthesizer.sample(len(table))


RUNNERS: dict[str, Callable[..., pd.DataFrame]] = {"dpmm": run_dpmm, "mbi": run_mbi, "smartnoise": run_smartnoise}
DPMM = ("dpmm-mst", "dpmm-aim", "dpmm-mst-privtree", "dpmm-aim-privtree")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=[*DPMM, "mbi-mst", "mbi-aim", "smartnoise-mst", "smartnoise-dpctgan"])
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("specs", type=Path)
    parser.add_argument("epsilon", type=float)
    parser.add_argument("--ways", type=int, default=2, metavar="K")
    asked = parser.parse_args()
    specs = json.loads(asked.specs.read_text(encoding="utf-8"))
    rules = {name: rule for name, rule in specs.items() if "type" in rule}
    cells = pd.read_csv(asked.data, dtype=str, keep_default_na=False, usecols=list(rules))
    package, _, kind = asked.tool.partition("-")
    bins = FINE_BINS if kind.endswith("privtree") else BINS
    coded = {name: code_column(cells[name], rule, bins) for name, rule in rules.items()}
    del cells
    table = pd.DataFrame({name: codes for name, (codes, _) in coded.items()})
    if bins == FINE_BINS:
        listed = [name for name, rule in rules.items() if rule["type"] == "enum" and rule.get("count", 0) < ORDERED]
        table = table.astype(dict.fromkeys(listed, str))
    sizes = {name: size for name, (_, size) in coded.items()}
    budget = {"epsilon": asked.epsilon, "delta": 1 / len(table) ** 2}
    made = RUNNERS[package](table, sizes, kind=kind, ways=asked.ways, **budget)
    written = {name: write_cells(made[name].to_numpy(dtype=int), rule, bins) for name, rule in rules.items()}
    pd.DataFrame(written).to_csv(asked.output, index=False)
    sys.stderr.write(f"{len(made)} rows\n")


if __name__ == "__main__":
    main()
