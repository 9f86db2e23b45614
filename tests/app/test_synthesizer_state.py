"""What is left of a run in a fitted synthesizer: a model and a claim, and nothing that noise could be made of again."""

import copy
import gc
import pickle
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpwgan.app import cli
from dpwgan.app.api import Synthesizer
from dpwgan.app.fitting import EncodedRun
from dpwgan.errors import PrivacyError, UsageError
from dpwgan.table.files.reader import open_table
from dpwgan.table.source import make_table
from dpwgan.table.specs import read_specs
from tests.forks import do_in_child
from tests.frozen.cases import METHODS, write_tables

SPECS = {"member": {"type": "enum", "count": 2}}
FORMAL = [
    (method, variant, table)
    for method, variants in METHODS.items()
    for variant, (tables, flags) in variants.items()
    for table in ("missing", "images")
    if table in tables and "--no-guarantee" not in flags and variant not in ("reference", "label")
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    return folder


def find_generators(start: object) -> list[np.random.Generator]:
    """Gives every generator of numpy that can be reached from an object, through attributes, lists and closures."""
    found, seen, waiting = [], set(), [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, ModuleType | type):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.random.Generator):
            found.append(thing)
        if isinstance(thing, FunctionType):
            # Not its module: whatever runs is reached from there.
            waiting += [*(thing.__closure__ or ()), *(thing.__defaults__ or ()), thing.__kwdefaults__]
        else:
            waiting += gc.get_referents(thing)
    return found


def encode(synthesizer: Synthesizer) -> EncodedRun:
    return synthesizer.encode_table(make_table(pl.DataFrame({"member": ["0", "1"] * 50})))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "variant", "table"), FORMAL)
def test_no_stream_but_the_models_is_reached_when_a_synthesizer_is_fitted(method, variant, table, tables):
    folder = tables / table
    data = "data.npz" if table == "images" else "data.csv"
    words = [str(folder / name) for name in (data, "out.csv", "specs.json")]
    config = cli.parse([*words, "1.0", "--method", method, *METHODS[method][variant][1]], environment={})
    schema = read_specs(folder / "specs.json")
    synthesizer = Synthesizer(schema, **vars(config.synthesis))
    run = synthesizer.encode_table(open_table(folder / data, schema))
    synthesizer.fit_encoded(run)
    assert find_generators(synthesizer) == [run.streams.model]
    # The twin: one that keeps its run keeps the noise.
    synthesizer.kept = run
    assert len(find_generators(synthesizer)) == 3


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_synthesizer_names_save_when_it_is_to_be_pickled_or_copied(fitted, copied):
    synthesizer = Synthesizer(SPECS, 1.0, method="independent")
    run = encode(synthesizer)
    with pytest.raises(UsageError, match="cannot be copied"):
        pickle.dumps(run)
    if fitted:
        synthesizer.fit_encoded(run)
    with pytest.raises(UsageError, match=r"save\(folder\)"):
        copied(synthesizer)


def test_child_releases_nothing_when_the_process_forks_before_or_after_the_fit():
    synthesizer = Synthesizer(SPECS, 1.0, method="independent")
    run = encode(synthesizer)

    def fit() -> Any:
        return synthesizer.fit_encoded(run).claim().private

    error, words = do_in_child(fit)
    assert (error, "forked" in words) == (PrivacyError.__name__, True)
    assert fit()
    assert do_in_child(fit)[0] == UsageError.__name__
