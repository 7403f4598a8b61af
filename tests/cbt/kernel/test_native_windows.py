"""The hot table takes short keys in windows of 16 bytes: every byte of a key counts, and none beyond it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel.protocol import Keys
from tests.cbt.kernel.cases import keys_of, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)

SIZES = range(67)
"""Shorter than a window, up to two, beyond."""

BLOCKS = (1, 2, 127, 128, 129, 1_000)
"""Numbers of keys around those that are worked at a time."""


def first_places(texts: list[bytes]) -> list[int]:
    """The oracle: ids in the order of first appearance."""
    ids: dict[bytes, int] = {}
    return [ids.setdefault(text, len(ids)) for text in texts]


@pytest.mark.parametrize("size", SIZES)
def test_keys_that_differ_in_one_byte_are_two_keys(size: int) -> None:
    same = bytes(range(1, size + 1))
    texts = [same, *(same[:place] + b"\xff" + same[place + 1 :] for place in range(size))]
    table = native.table(1)
    # Twice: once as new keys, once found by a window.
    for _ in range(2):
        assert table.upsert(keys_of(texts, b"." * 14)).tolist() == list(range(size + 1))
    assert texts_of(table.keys()) == texts


def test_what_follows_a_key_in_memory_is_not_a_part_of_it() -> None:
    texts = [b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"[:size] for size in SIZES if size <= 36]
    for after in (b"", b"\0" * 16, b"\xff" * 40):
        table = native.table(2)
        ids = table.upsert(keys_of([text + after for text in texts]))
        assert ids.tolist() == list(range(len(texts)))
        data = np.frombuffer(b"".join(text + after for text in texts), np.uint8)
        # The same texts again, each cut out of the bytes that follow it.
        for place, text in enumerate(texts):
            start = sum(len(before) + len(after) for before in texts[:place])
            cut = Keys(np.array([start, start + len(text)], np.int32), data)
            known = len(after) == 0
            assert table.upsert(cut).tolist() == [place if known else len(texts) + place]


@pytest.mark.parametrize("count", BLOCKS)
@pytest.mark.parametrize("text", [b"", b"k", b"sixteen bytes ok", b"a key of more than thirty-two bytes"])
def test_a_buffer_that_ends_with_its_last_key(count: int, text: bytes) -> None:
    data = np.frombuffer(text * count, np.uint8).copy()
    keys = Keys(np.arange(count + 1, dtype=np.int32) * np.int32(len(text)), data)
    table = native.table(3)
    assert table.upsert(keys_of([b"first"])).tolist() == [0]
    assert table.upsert(keys).tolist() == [1] * count


@pytest.mark.parametrize("text", [b"", b"short", b"a key of more than thirty-two bytes"])
def test_a_row_from_before_a_clear_is_not_found(text: bytes) -> None:
    table = native.table(4)
    table.upsert(keys_of([text]))
    table.clear()
    assert table.upsert(keys_of([b"other", text, text] * 50, b"." * 20)).tolist() == [0, 1, 1] * 50
    assert texts_of(table.keys()) == [b"other", text]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=400),
    st.lists(st.binary(max_size=40), min_size=10, max_size=10),
    st.integers(0, 40),
)
def test_keys_that_are_new_and_come_again_within_one_batch(
    draws: list[int], texts: list[bytes], before: int
) -> None:
    batch = [texts[draw] for draw in draws]
    assert native.table(5).upsert(keys_of(batch, b"s" * before)).tolist() == first_places(batch)
