"""Frequent values against Apache DataSketches itself."""

from __future__ import annotations

import datasketches
import numpy as np
import pyarrow as pa

from elfmesh.cbt.laws import LAWS
from tests.cbt.laws.sketching import ZEROS, sketch


def test_frequent_values_are_read_by_the_library_within_their_bounds() -> None:
    numbers = np.random.default_rng(5).zipf(1.4, 50_000) % 20_000
    texts = [f"/path/{n}" for n in numbers.tolist()]
    held = datasketches.frequent_strings_sketch.deserialize(sketch("frequent:50", texts))
    assert held.total_weight == 50_000
    assert held.num_active_items <= 50
    counts = dict(zip(*np.unique(texts, return_counts=True), strict=True))
    for text, count in counts.items():
        assert held.get_lower_bound(text) <= count <= held.get_upper_bound(text)
        if count > 50_000 / 51:
            assert held.get_lower_bound(text) > 0
    few = ["a", "b", "a", "", "é"]
    exact = datasketches.frequent_strings_sketch.deserialize(sketch("frequent", few))
    assert [exact.get_estimate(text) for text in ("a", "b", "", "é", "c")] == [2, 1, 1, 1, 0]
    longs = datasketches.frequent_items_sketch.deserialize(
        sketch("frequent", [5, -6, -6]), datasketches.PyLongsSerDe()
    )
    assert [longs.get_estimate(number) for number in (5, -6)] == [1, 2]
    assert datasketches.frequent_strings_sketch.deserialize(sketch("frequent", pa.nulls(3))).is_empty()


def test_frequent_values_are_thinned_while_they_come() -> None:
    accumulator = LAWS["frequent:10"].accumulator(pa.int64())
    for start in range(0, 400_000, 50_000):
        accumulator.add(pa.array(np.arange(start, start + 50_000)), ZEROS[:50_000], 1)
        accumulator.add(pa.array(np.full(5_000, -1)), ZEROS[:5_000], 1)
    assert accumulator.nbytes < 30_000_000
    state = accumulator.freeze(1)
    LAWS["frequent:10"].check(state, 1)
    assert state.parts["error"][0] <= 440_000 / 11
    held = datasketches.frequent_items_sketch.deserialize(
        LAWS["frequent:10"].finish(state, 1)[0].as_py(), datasketches.PyLongsSerDe()
    )
    assert held.get_lower_bound(-1) <= 40_000 <= held.get_upper_bound(-1)
