"""A batch is cut by pane: rows of a pane keep their order, whichever way is the cheapest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.windows.panes_split import FEW_PANES_MAX, split_by_pane


@given(st.lists(st.integers(-3, 20), min_size=1, max_size=60), st.booleans(), st.integers(1, 30))
def test_a_batch_is_cut_by_pane_in_its_order(panes: list[int], ascending: bool, few: int) -> None:
    indices = np.array(sorted(panes) if ascending else panes, np.int64) % few
    pieces = split_by_pane({"row": pa.array(range(len(panes)))}, indices)
    assert [pane for pane, _, _ in pieces] == sorted(set(indices.tolist()))
    for pane, columns, rows in pieces:
        assert columns["row"].to_pylist() == np.flatnonzero(indices == pane).tolist()
        assert rows == len(columns["row"])
    if (np.diff(indices) >= 0).all():
        runs = {pane: rows for pane, _, rows in pieces}
        assert split_by_pane({"row": pa.array(range(len(panes)))}, indices, runs) == pieces


def test_each_way_of_cutting_a_batch_is_taken() -> None:
    rng = np.random.default_rng(1)
    for panes in (1, 2, FEW_PANES_MAX, FEW_PANES_MAX + 1, 40):
        indices = rng.permutation(np.arange(200) % panes)
        assert len(split_by_pane({"v": pa.array(indices)}, indices)) == panes
    (only,) = split_by_pane({"v": pa.array([1, 2])}, np.broadcast_to(np.int64(7), (2,)))
    assert only[0] == 7
