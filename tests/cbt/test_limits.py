"""Limits of a tree that cannot be are refused when they are made, not when the tree is full."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields

from elfmesh.cbt.limits import TreeLimits


@pytest.mark.parametrize("name", [field.name for field in fields(TreeLimits)])
def test_no_limit_may_be_zero(name: str) -> None:
    wrong: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=r"limits of a tree|splits by"):
        TreeLimits(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"runs_max": 1}, {"root_bits": 5}, {"root_bits": 20}, {"pending_share": -0.1}, {"root_rows": -1}],
)
def test_limits_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"limits of a tree|splits by"):
        TreeLimits(**wrong)


@pytest.mark.parametrize(
    "least", [{"runs_max": 2}, {"root_bits": 4}, {"leaf_rows_max": 1}, {"spilled_share": 0.01}]
)
def test_the_least_limits_are_taken(least: dict[str, Any]) -> None:
    limits = TreeLimits(**least)
    assert {name: getattr(limits, name) for name in least} == least
