"""Contents of a table, whatever holds them: each key once, in the types of all parts together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial import contents
from elfmesh.cbt.partial.contents import (
    Content,
    FinishedBlocks,
    MergedContent,
    RowsContent,
    all_rows,
    bits_for,
    finished,
    narrowed,
    sorted_within,
)
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sorted_rows import to_rows

LAYOUT = Layout(("k",), (("s", "sum"), ("n", "count")))


def rows_of(keys: list[Any], values: list[Any], layout: Layout = LAYOUT) -> RowsContent:
    column, ids = pa.array(values), np.arange(len(values))
    states = tuple(
        LAWS[kind].lift(None if kind == "count" else column, ids, len(ids)) for _, kind in layout.aggregates
    )
    return RowsContent(Rows(layout, len(ids), (pa.array(keys),), states))


def as_dict(content: Content) -> dict[Any, tuple[Any, ...]]:
    """Finished values by key, unsorted and sorted; both must be the same."""
    found = [tuple(row.values()) for row in finished(content).to_pylist()]
    blocks = [RowsContent(to_rows(block)) for block in content.sorted()]
    again = [tuple(row.values()) for block in blocks for row in finished(block).to_pylist()]
    assert sorted(map(repr, again)) == sorted(map(repr, found))
    assert len({row[0] for row in found}) == len(found)
    return {key: tuple(rest) for key, *rest in found}


@pytest.mark.parametrize("small_rows", [0, contents.SMALL_ROWS])
def test_parts_are_merged_key_by_key_in_memory_and_as_runs(
    small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "SMALL_ROWS", small_rows)
    merged = MergedContent([rows_of(["a", "b"], [1, 2]), rows_of(["b", "c"], [3, None])])
    assert as_dict(merged) == {"a": (1, 1), "b": (5, 2), "c": (None, 1)}
    assert merged.rows_max == 4


@pytest.mark.parametrize("small_rows", [0, contents.SMALL_ROWS])
def test_keys_of_another_type_meet_where_they_are_equal(
    small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "SMALL_ROWS", small_rows)
    merged = MergedContent([rows_of([1, 2], [1, 2]), rows_of([2.0, 2.5], [0.5, 4.0]), rows_of([None], [7])])
    assert as_dict(merged) == {1.0: (1.0, 1), 2.0: (2.5, 2), 2.5: (4.0, 1), None: (7.0, 1)}


def test_tables_of_another_layout_do_not_merge() -> None:
    other = Layout(("k",), (("s", "sum"),))
    with pytest.raises(ValueError, match="do not merge"):
        MergedContent([rows_of(["a"], [1]), rows_of(["a"], [1], other)])


def test_the_last_aggregates_are_left_out() -> None:
    content, few = rows_of(["a"], [1]), Layout(("k",), (("s", "sum"),))
    assert narrowed(content, LAYOUT) is content
    assert as_dict(narrowed(content, few)) == {"a": (1,)}


def test_blocks_are_kept_if_they_are_small_enough() -> None:
    content = rows_of([f"key {at}" for at in range(100)], list(range(100)))
    kept = sorted_within(content, 1 << 20)
    assert kept is not None
    assert as_dict(kept) == as_dict(content)
    assert kept.small_block is not None
    assert kept.counted == (None, "rows")
    assert sorted_within(content, kept.nbytes) is not None
    assert sorted_within(content, kept.nbytes - 1) is None


def test_a_block_of_long_keys_is_not_written_as_it_is() -> None:
    kept = sorted_within(rows_of(["x" * 60_000 + str(at) for at in range(20)], [1] * 20), 1 << 30)
    assert kept is not None
    assert kept.small_block is None


def test_a_sum_that_is_wide_in_one_block_is_wide_in_the_table() -> None:
    class Blocks(RowsContent):
        def rows(self) -> Any:
            yield from (rows_of(["a"], [2**62])._rows, rows_of(["b"], [1])._rows)
            yield MergedContent([rows_of(["c"], [2**62]), rows_of(["c"], [2**62])]).rows().__next__()

    table = finished(Blocks(rows_of(["a"], [1])._rows))
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    assert [int(value) for value in table["s"].to_pylist()] == [2**62, 1, 2**63]
    assert all_rows(Blocks(rows_of(["a"], [1])._rows)).count == 3
    assert sum(part.num_rows for part in FinishedBlocks(Blocks(rows_of(["a"], [1])._rows)).blocks()) == 3


def test_no_rows_have_the_columns() -> None:
    nothing = MergedContent([rows_of(["a"], [1])])
    nothing._parts = ()
    assert all_rows(nothing).count == finished(nothing).num_rows == 0
    assert finished(nothing).column_names == ["k", "s", "n"]


@pytest.mark.parametrize(
    ("rows", "bits"),
    [(0, 0), ((1 << 16) - 1, 0), (1 << 16, 0), (1 << 17, 4), (1 << 21, 8), (1 << 60, 16)],
)
def test_rows_are_sorted_in_blocks_of_some_size(rows: int, bits: int) -> None:
    assert bits_for(rows) == bits
