"""The order of keys in the native kernel against that of its twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from tests.cbt.kernel.cases import distinct, keys_of, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)


bits = st.sampled_from([0, 1, 4, 8, 16])


@given(distinct, bits)
def test_order_is_by_placement_then_bytes(texts: set[bytes], bits: int) -> None:
    keys = keys_of(list(texts), b"..")
    order, cuts = native.sort_keys(keys, bits)
    places = (native.hash_keys(keys) >> np.uint64(64 - bits)).tolist() if bits else [0] * len(keys)
    named = list(zip(places, texts_of(keys), strict=True))
    assert [named[row] for row in order.tolist()] == sorted(named)
    assert cuts.tolist() == [sum(p < part for p in places) for part in range((1 << bits) + 1)]
    expected = twin.sort_keys(keys, bits)
    assert order.tolist() == expected[0].tolist()
    assert cuts.tolist() == expected[1].tolist()


def test_keys_that_nest_by_thousands_sort_without_deep_recursion() -> None:
    texts = [b"a" * (9 * size) for size in range(2_000)]
    order, _ = native.sort_keys(keys_of(texts[::-1]), 0)
    assert order.tolist() == list(range(1_999, -1, -1))


@pytest.mark.parametrize("pattern", ["equal", "ascending", "descending", "organ", "few"])
def test_sorting_holds_for_patterns_that_mislead_pivots(pattern: str) -> None:
    rows = np.arange(20_000)
    numbers = {
        "equal": rows * 0,
        "ascending": rows,
        "descending": rows[::-1],
        "organ": np.minimum(rows, rows[::-1]),
        "few": rows % 3,
    }[pattern]
    texts = [n.to_bytes(8, "big") + row.to_bytes(4, "big") for row, n in enumerate(numbers.tolist())]
    order, _ = native.sort_keys(keys_of(texts), 0)
    assert [texts[row] for row in order.tolist()] == sorted(texts)


@pytest.mark.parametrize(
    ("order", "cuts"),
    [([0, 2], [0, 2]), ([-1], [0, 1]), ([0], [0, 2]), ([0], [1, 0]), ([0], [-1, 1]), ([0], [])],
)
def test_orders_and_cuts_outside_are_refused(order: list[int], cuts: list[int]) -> None:
    with pytest.raises(ValueError, match=r"outside|ascend"):
        native.front_code(keys_of([b"a", b"b"]), np.array(order), np.array(cuts, np.int64))
