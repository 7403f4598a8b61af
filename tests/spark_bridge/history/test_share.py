"""Columns of a table of Spark by their paths, as statements name them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.spark_bridge.history.share import column_of

MAPS = pa.array([[("a", 1), ("b", None)], [], None, [("z", 26)]], pa.map_(pa.string(), pa.int64()))
BATCH = pa.RecordBatch.from_pydict(
    {
        "m": MAPS,
        "n": pa.array([[(1, "x")], [(2, "y")], None, []], pa.map_(pa.int64(), pa.string())),
        "s": pa.StructArray.from_arrays([MAPS], ["m"]),
        "p.q": pa.array([1, 2, 3, 4]),
    }
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("m.a", [1, None, None, None]),
        ("m.z", [None, None, None, 26]),
        ("n.1", ["x", None, None, None]),
        ("n.x", [None] * 4),
        ("s.m.a", [1, None, None, None]),
        ("p.q", [1, 2, 3, 4]),
        ("none.a", [None] * 4),
    ],
)
def test_a_path_goes_into_structs_and_maps(path: str, values: list[object]) -> None:
    assert column_of(BATCH, path, 4).to_pylist() == values
