"""What a kept window holds, read by group number: in blocks, and sorted by the hash of the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.cbt.keys import decode, encode, form_of
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.rows import Layout, finish_rows
from elfmesh.cbt.sorted_rows import to_rows
from elfmesh.cbt.windows import sliding_content
from elfmesh.cbt.windows.sliding_content import SlidContent, take_keys

LAYOUT = Layout(("k",), (("m", "max"),))


def content_of(count: int) -> SlidContent:
    column, values = pa.array([f"key {at}" for at in range(count)], pa.string()), np.arange(count) * 7
    form = form_of([column])

    def read() -> tuple[Keys, Callable[[np.ndarray[Any, Any]], tuple[State, ...]]]:
        def states(places: np.ndarray[Any, Any]) -> tuple[State, ...]:
            return (LAWS["max"].lift(pa.array(values[places]), np.arange(len(places)), len(places)),)

        return encode([column], form, count), states

    return SlidContent(LAYOUT, (pa.string(), pa.int64()), form, count, read)


@pytest.mark.parametrize(("count", "blocks"), [(0, 0), (1, 1), (10, 1), (11, 2), (25, 3)])
def test_groups_are_read_in_blocks(count: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding_content, "_BLOCK_ROWS", 10)
    found = list(content_of(count).rows())
    assert len(found) == blocks
    rows = [tuple(row.values()) for block in found for row in finish_rows(block).to_pylist()]
    assert rows == [(f"key {at}", 7 * at) for at in range(count)]


@pytest.mark.parametrize("bits", [0, 4])
def test_sorted_groups_keep_their_states(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding_content, "bits_for", lambda _rows: bits)
    blocks = list(content_of(100).sorted())
    assert [block.prefix for block in blocks] == sorted({block.prefix for block in blocks})
    assert (len(blocks) > 1) == (bits > 0)
    rows = [tuple(row.values()) for block in blocks for row in finish_rows(to_rows(block)).to_pylist()]
    assert sorted(rows) == sorted((f"key {at}", 7 * at) for at in range(100))


@given(st.lists(st.text(max_size=3), min_size=1, max_size=6), st.data())
def test_keys_are_taken_by_place(texts: list[str], data: st.DataObject) -> None:
    column = pa.array(texts)
    form = form_of([column])
    places = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=5))
    taken = take_keys(encode([column], form, len(texts)), np.array(places, np.int64))
    assert decode(taken, form)[0].to_pylist() == [texts[place] for place in places]
