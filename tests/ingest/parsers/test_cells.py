"""Cells of a block become columns: numbers, texts in the block or beside it, and what no cell holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.parsers import scanner
from elfmesh.ingest.parsers.cells import TEXT, CellField, Grid, event_times, spans
from tests.ingest.parsers.agreement import forced


@pytest.fixture(autouse=True)
def which_scanner() -> Iterator[str]:
    """Cells are the scanner's."""
    yield from forced("native")


def grid_of(*slots: list[Any]) -> Grid:
    grid = Grid(scanner.active, b"a block", len(slots), len(slots[0]))
    for slot, values in enumerate(slots):
        for row, value in enumerate(values):
            grid.put(slot, row, value)
    return grid


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5),
    st.just([1]),
)  # fmt: skip


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_values_come_back_as_they_were_put(values: list[Any]) -> None:
    found = grid_of(values).field([0]).values()
    assert [(type(each), each) for each in found] == [(type(each), each) for each in values]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, None, -(2**63)]),
        (pa.float64(), [1.5, None, 2.0]),
        (pa.bool_(), [True, None, False]),
        (pa.string(), ["a", None, "é"]),
        (pa.null(), [None, None]),
        (pa.string(), [None, None]),
    ],
)
def test_a_column_has_the_type_that_is_asked_for(kind: pa.DataType, values: list[Any]) -> None:
    column = grid_of(values).field([0]).column(kind)
    assert (column.type, column.to_pylist()) == (kind, values)


def test_integers_are_floats_in_a_column_of_floats() -> None:
    assert grid_of([1, 0.5]).field([0]).column(pa.float64()).to_pylist() == [1.0, 0.5]


def test_of_several_slots_the_first_that_is_filled_counts_row_by_row() -> None:
    grid = grid_of([None, None, 3], [None, 2, 9], [1, 8, 7])
    assert grid.field([0, 1, 2]).values() == [1, 2, 3]
    assert grid.field([1, 0]).values() == [None, 2, 9]


@pytest.mark.parametrize(("rows", "left"), [([], None), ([0], [1, 2]), ([1, 2], [0])])
def test_rows_that_are_left_out_leave_the_others_in_order(rows: list[int], left: list[int] | None) -> None:
    grid = grid_of(["a", "b", "c"])
    found = grid.drop(np.array(rows, np.int64))
    assert (None if found is None else found.tolist()) == left
    assert grid.field([0]).values() == [["a", "b", "c"][at] for at in (left or [0, 1, 2])]


def test_texts_are_cut_out_of_a_block() -> None:
    data = "aé b".encode()
    starts, ends = np.array([0, 1, 4], np.int64), np.array([1, 3, 5], np.int64)
    assert spans(scanner.active, data, starts, ends).to_pylist() == ["a", "é", "b"]


@pytest.mark.parametrize("scan", ["native", None])
def test_texts_are_times_with_and_without_the_scanner(scan: str | None) -> None:
    texts = pa.array(["x", "2015-05-17T10:00:00Z", None, "soon", "1431856800"])[1:]
    found = event_times(texts, scanner.active if scan else None)
    assert found.view(pa.int64()).to_pylist()[:3] == [1_431_856_800_000_000, None, None]
    assert found.equals(event_times(texts))


def test_the_kinds_that_occur_are_known() -> None:
    field: CellField = grid_of(["a", None]).field([0])
    assert field.present == 1 << TEXT
