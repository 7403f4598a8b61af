"""Columns that grow: what was written stays, and every new row holds the identity."""

from __future__ import annotations

import numpy as np
import pytest

from elfmesh.cbt.growing import ROWS_MIN, Growing


@pytest.mark.parametrize("fill", [0, -7])
@pytest.mark.parametrize("width", [0, 1, 4])
def test_rows_stay_and_new_ones_hold_the_fill(fill: int, width: int) -> None:
    column = Growing(fill, width)
    column.reach(3)[:3] = 5
    rows = column.reach(100)
    assert rows.shape[1:] == ((width,) if width else ())
    assert (rows[:3] == 5).all()
    assert (rows[3:] == fill).all()
    assert column.used == 100


def test_memory_grows_by_half_so_that_growing_is_cheap() -> None:
    column, sizes = Growing(), set()
    for groups in range(1, 2_000):
        sizes.add(len(column.reach(groups)))
    assert min(sizes) == ROWS_MIN
    assert len(sizes) < 15


def test_no_more_is_made_ahead_than_will_come() -> None:
    assert len(Growing().reach(5, most=8)) == 8
    assert len(Growing().reach(20, most=8)) == 20, "what is needed now is there in any case"


def test_rows_of_several_columns_begin_at_a_line_of_the_cache() -> None:
    for _ in range(20):
        rows = Growing(width=8).reach(5)
        assert rows.__array_interface__["data"][0] % 64 == 0


def test_cleared_rows_are_new_and_the_memory_stays() -> None:
    column = Growing(-1)
    column.reach(50)[:50] = 9
    held = column.nbytes
    column.clear()
    assert (column.used, column.nbytes) == (0, held)
    assert (column.head(50) == -1).all()


def test_rows_that_are_put_in_place_are_the_rows() -> None:
    column = Growing()
    column.replace(np.array([3, 4], np.int64))
    assert column.head(2).tolist() == [3, 4]
    assert column.head(4).tolist() == [3, 4, 0, 0]
