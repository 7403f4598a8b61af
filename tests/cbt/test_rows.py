"""States of every kind through everything that moves them: tables, sorted rows, packed blocks, merges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.codec import codec
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.rows import Layout, Rows, combine, empty_rows, finish_rows, from_table, to_table
from elfmesh.cbt.sorted_rows import merge_sorted, partition_sorted, sort_rows, to_rows
from tests.cbt.sketched import taken

GROUPS = 60
LAYOUT = Layout(("key",), tuple((kind, kind) for kind in LAWS))


def rows_of(data_type: pa.DataType, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, GROUPS, 800)
    values = pa.array(rng.integers(0, 40, 800), mask=rng.random(800) < 0.1).cast(data_type)
    by = pa.array(rng.integers(0, 9, 800))
    states = tuple(
        law.lift(
            (pairs_of(law.kind, values), by) if law.inputs == 2 else taken(law.kind, values), ids, GROUPS
        )
        for law in LAWS.values()
    )
    return Rows(LAYOUT, GROUPS, (pa.array([f"key {n}" for n in range(GROUPS)]),), states)


def pairs_of(kind: str, values: pa.Array) -> pa.Array:
    """The first of two inputs: a query casts decimals for a covariance."""
    return values.cast(pa.float64()) if kind == "covariance" else values


def finished(rows: Rows) -> list[dict[str, object]]:
    found = finish_rows(rows).to_pylist()
    return sorted(found, key=lambda row: str(row["key"]))


@pytest.mark.parametrize("data_type", [pa.int64(), pa.float64(), pa.decimal128(25, 2)])
def test_states_survive_tables_and_packed_blocks(data_type: pa.DataType) -> None:
    rows = rows_of(data_type, 1)
    assert finished(from_table(to_table(rows))) == finished(rows)
    (block,) = sort_rows(rows)
    packed = codec.pack(block)
    back = codec.unpack(packed.header, packed.chunks, trusted=False)
    assert finished(to_rows(back)) == finished(rows)


def test_merging_sorted_rows_equals_combining_rows() -> None:
    parts = [rows_of(pa.int64(), 2), rows_of(pa.int64(), 3), rows_of(pa.float64(), 4)]
    together = finished(combine(parts))
    merged = merge_sorted([block for part in parts for block in sort_rows(part)])
    assert finished(to_rows(merged)) == together
    pieces = [to_rows(piece) for piece in partition_sorted(merged, 4)]
    assert finished(combine([piece for piece in pieces if piece.count])) == together


def test_a_table_without_rows_has_all_columns() -> None:
    rows = empty_rows(LAYOUT)
    assert finish_rows(rows).column_names == ["key", *LAWS]
    some = rows_of(pa.int64(), 5)
    assert finished(combine([rows, some])) == finished(some)
