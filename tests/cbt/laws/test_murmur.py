"""The hash of Apache DataSketches, column by column."""

from __future__ import annotations

import datasketches
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws.hll import LOG_REGISTERS
from elfmesh.cbt.laws.murmur import hash_strings, hash_words
from tests.cbt.laws.sketching import library_hll, sketch


@given(st.lists(st.text(max_size=40), max_size=20), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_strings_and_integers_are_hashed_as_the_library_does(texts: list[str], numbers: list[int]) -> None:
    for values, data_type in ((texts, pa.string()), (numbers, pa.int64())):
        ours = datasketches.hll_sketch.deserialize(sketch("hll", pa.array(values, data_type)))
        union = datasketches.hll_union(LOG_REGISTERS)
        union.update(ours)
        union.update(library_hll(list(values)))
        assert union.get_estimate() == ours.get_estimate() == library_hll(list(values)).get_estimate()


def test_hashes_of_strings_around_block_borders_equal_those_of_words() -> None:
    words = np.arange(50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    by_words = hash_words(words)
    by_bytes = hash_strings(np.arange(51, dtype=np.int32) * 8, words.view(np.uint8))
    assert all(np.array_equal(a, b) for a, b in zip(by_words, by_bytes, strict=True))
