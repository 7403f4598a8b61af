"""Columns of the root against plain Python, with values of every kind mixed into one batch."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt import CompressedBufferTree
from elfmesh.cbt.columns import canonical_floats
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX
from elfmesh.cbt.keys import KeyTooLong, encode, form_of

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7e308, 2.0**-1022]
floats = st.one_of(st.floats(-100, 100), st.floats(), st.sampled_from(SPECIAL), st.none())
batches = st.lists(st.lists(st.tuples(st.integers(0, 3), floats), max_size=12), max_size=5)
AGGREGATES = {"n": ("count", "v"), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}


def expected_sum(values: list[float]) -> float:
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if infinite := [value for value in values if math.isinf(value)]:
        return infinite[0]
    try:
        return float(sum((Fraction(value) for value in values), Fraction(0)))
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


def rank(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@given(batches)
def test_four_aggregates_of_any_floats(given_batches: list[list[tuple[int, float | None]]]) -> None:
    tree = CompressedBufferTree(["k"], AGGREGATES)
    groups: dict[str, list[float]] = defaultdict(list)
    for batch in given_batches:
        keys, values = [f"key-{key}" for key, _ in batch], [value for _, value in batch]
        tree.insert(pa.record_batch({"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.float64())}))
        for key, value in zip(keys, values, strict=True):
            groups[key].extend([] if value is None else [value])
        tree.flush()  # reading in between changes nothing
    for row in tree.flush().to_pylist():
        held = groups.pop(row["k"])
        assert row["n"] == len(held)
        if not held:
            assert (row["s"], row["lo"], row["hi"]) == (None, None, None)
            continue
        assert repr(row["s"] + 0.0) == repr(expected_sum(held) + 0.0)
        assert rank(row["lo"]) == min(map(rank, held))
        assert rank(row["hi"]) == max(map(rank, held))
    assert not groups


@pytest.mark.parametrize("bits", [-(1 << 63), -1, 0x7FF8000000000001, -0x7FF0000000000 - 1])
def test_every_odd_float_is_found(bits: int) -> None:
    """-0.0 and NaN of either sign with any payload, at the end of usual values."""
    raw = np.append(np.full(100, 1.5).view(np.int64), np.int64(bits))
    array = pa.array(raw.view(np.float64), from_pandas=False)
    found = np.asarray(canonical_floats(array)).view(np.int64)
    value = raw.view(np.float64)[-1]
    expected = 0x7FF8000000000000 if math.isnan(value) else 0 if value == 0 else bits
    assert found.tolist() == [*raw[:-1].tolist(), expected]


@pytest.mark.parametrize("place", [0, 1, 511, 512, 700, 1_023])
@pytest.mark.parametrize("usual", [1, 200])
def test_a_key_that_is_too_long_is_found_among_many(place: int, usual: int) -> None:
    texts = ["x" * usual] * 1_024
    texts[place] = "y" * KEY_BYTES_MAX
    column = pa.array(texts)
    assert len(encode([column], form_of([column]), len(column))) == 1_024
    texts[place] += "y"
    column = pa.array(texts)
    with pytest.raises(KeyTooLong) as caught:
        encode([column], form_of([column]), len(column))
    assert caught.value.rows.tolist() == [place]
