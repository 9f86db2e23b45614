"""Tables on disk: what a method counts in them, and what a step reads of them, is what it would be in memory."""

import math
from typing import Any

import numpy as np
import pytest

from dpwgan.gaussians.class_moments import count_labels, split_classes
from dpwgan.marginals.answers.measurements import count_marginals, count_pairs
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.one_way.merging import coarsen
from dpwgan.marginals.one_way.one_ways import count_one_ways, plan_one_ways
from dpwgan.table import encoded as encoded_module
from dpwgan.table import storage
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema
from tests.marginals.tables import make_encoded, measure_one_ways

SCHEMA = Schema(
    columns=(
        CategoricalColumn(name="a", tokens=("0", "1", "2"), integer=True),
        NumericColumn(name="b", minimum=0, maximum=1_000, integer=True, missing=("N",)),
        CategoricalColumn(name="c", tokens=("x", "y")),
        NumericColumn(name="d", minimum=0, maximum=1, integer=False, decimals=3),
    ),
    sha256="0",
)
SPANS = lay_out_spans(SCHEMA)
RECORDS = 50


def make_table(*, on_disk: bool) -> EncodedTable:
    drawn = make_encoded(RECORDS, seed=0, columns=SCHEMA.columns, uniform=True)
    codes, numbers = (storage.allocate(own.shape, own.dtype, on_disk=on_disk) for own in (drawn.codes, drawn.numbers))
    codes[:], numbers[:] = drawn.codes, drawn.numbers
    storage.let_go(codes, numbers)
    return EncodedTable(codes=codes, numbers=numbers, spans=SPANS)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, EncodedTable):
        one, other = (one.codes, one.numbers), (other.codes, other.numbers)
    if isinstance(one, tuple | list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert np.array_equal(one, other)


@pytest.mark.parametrize("chunk", [1, 7, 50, 1_000])
def test_counts_are_those_of_a_table_in_memory_when_it_is_on_disk(monkeypatch, chunk):
    inside, outside = make_table(on_disk=False), make_table(on_disk=True)
    plan = plan_one_ways(SPANS)
    one_ways = measure_one_ways(inside, plan, noise_multiplier=0.1)
    blocks = [
        tuple(one_ways.histograms[index][look][0] for index in plan.find(look)) for look in range(len(plan.histograms))
    ]
    expected_one_ways = [count_one_ways(inside, plan, look, own) for look, own in enumerate(blocks)]
    coarsening = coarsen(one_ways, records=RECORDS, least_count=5.0)
    layout = GroupLayout(coarsening.sizes)
    expected_groups = coarsening.to_groups(inside)
    expected_pairs = count_pairs(expected_groups, layout)
    by_class = split_classes(inside, SPANS[0])
    masked = [inside.take(inside.codes[:, 0] == code) for code in range(3)]
    monkeypatch.setitem(storage.cut.__kwdefaults__, "size", chunk)
    for table in (inside, outside):
        assert_same([count_one_ways(table, plan, look, own) for look, own in enumerate(blocks)], expected_one_ways)
        groups = coarsening.to_groups(table)
        assert storage.is_on_disk(groups) is table.on_disk
        assert_same(groups, expected_groups)
        assert_same(count_pairs(groups, layout), expected_pairs)
        assert_same(count_labels(table, SPANS[0]), np.bincount(inside.codes[:, 0], minlength=3))
        parts = split_classes(table, SPANS[0])
        assert_same(list(parts), list(by_class))
        for part, mask in zip(parts, masked, strict=True):
            assert_same(part.codes, mask.codes[:, 1:])
            assert_same(part.numbers, mask.numbers)
        marginals = [[(0, 1), (1, 1)], [(0, 2), (2, 1), (3, 2)], [(1, 4)]]
        expected_counts = []
        for marginal in marginals:
            places = tuple(expected_groups[:, attribute] // width for attribute, width in marginal)
            shape = [-(-layout.sizes[attribute] // width) for attribute, width in marginal]
            expected_counts.append(np.bincount(np.ravel_multi_index(places, shape), minlength=math.prod(shape)))
        assert_same(count_marginals(groups, marginals, layout), np.concatenate(expected_counts))


def test_batch_is_that_of_a_table_in_memory_when_it_is_on_disk():
    import tensorflow as tf

    from dpwgan.critic.rows import RowReader

    inside, outside = make_table(on_disk=False), make_table(on_disk=True)
    assert outside.on_disk
    assert not outside.take(np.arange(3)).on_disk
    for rows in (np.array([3, 4, 49]), np.zeros(0, np.int64), np.arange(RECORDS)):
        for table in (inside, outside):
            reader = RowReader(table)
            read = tf.function(reader, input_signature=[tf.TensorSpec([None], tf.int64)])
            codes, numbers = read(tf.constant(rows, tf.int64))
            assert codes.shape[1] == 3
            assert_same([codes.numpy(), numbers.numpy()], [inside.codes[rows], inside.numbers[rows]])


@pytest.mark.parametrize("fetched", [1, 7, 1_000])
def test_rows_are_those_of_a_table_in_memory_when_they_are_fetched_a_few_at_a_time(monkeypatch, fetched):
    monkeypatch.setattr(encoded_module, "_FETCHED", fetched)
    inside, outside = make_table(on_disk=False), make_table(on_disk=True)
    flags = np.arange(RECORDS) % 3 == 0
    for rows in (np.array([40, 3, 3, 49, 0, -1, 12, 12]), np.zeros(0, np.int64), flags, np.zeros(RECORDS, np.bool_)):
        assert_same(outside.take(rows), inside.take(rows))
        assert outside.take(rows).codes.dtype == np.int32
