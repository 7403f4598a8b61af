"""What a table groups by and aggregates: its names, its inputs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.cbt import CompressedBufferTree


@pytest.mark.parametrize(
    ("keys", "aggregates", "message"),
    [
        (["k"], {"k": ("count", None)}, "used twice"),
        (["k", "k"], {}, "used twice"),
        ([], {}, "a key or an aggregate"),
        (["k"], {"x": ("median", "v")}, "unknown kind 'median'"),
        (["k"], {"x": ("sum", None)}, "needs an input"),
        (["k"], {"x": ("sum", ("a", "b"))}, "needs 1 input column"),
        (["k"], {"x": ("first", "a")}, "needs 2 input columns"),
    ],
)
def test_wrong_plans_are_refused(keys: list[str], aggregates: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompressedBufferTree(keys, aggregates)
