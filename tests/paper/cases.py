"""The worked examples of ELF that the tests quote."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from elfmesh.cbt import (
    CompressedBufferTree,
)

CASES: dict[str, dict[str, Any]] = {
    "local_groupby": {
        "input": [["a", 1], ["b", 1], ["a", 1], ["b", 1], ["b", 1]],
        "expected": {"a": 2, "b": 3},
    },
    "rollup_tree": {
        "leaves": [{"a": 2, "b": 3}, {"a": 5}, {"b": 2, "c": 2}],
        "expected_root": {"a": 7, "b": 5, "c": 2},
    },
    "product_bundling_edges": {
        "input": [["a", "b"], ["b", "a"], ["a", "c"], ["c", "f"], ["d", "e"], ["d", "g"], ["d", "h"]],
        "expected": {"a": ["b", "c"], "b": ["a"], "c": ["f"], "d": ["e", "g", "h"]},
    },
    # The rule is the paper's, the numbers are not.
    "invertible_reduce": {
        "example": {
            "PAO5": {"Angry Birds": 3},
            "PAO15": {"Angry Birds": 8},
            "expected_5_15": {"Angry Birds": 5},
        }
    },
    "pao_merge": {"input": [["argu", 2], ["argu", 5]], "expected": ["argu", 7]},
}
"""The worked examples that the tests quote."""


def sums(pairs: list[list[Any]]) -> CompressedBufferTree:
    tree = CompressedBufferTree(["key"], {"n": ("count", None), "value": ("sum", "v")})
    tree.insert(pa.record_batch({"key": [key for key, _ in pairs], "v": [value for _, value in pairs]}))
    return tree


def as_dict(table: pa.Table) -> dict[Any, int]:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
