"""What an agent tells people of itself: its trees, its memory, its clock."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.agent.runtime.assembly import _memory, _rounded, _tree
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.errors import StorageError
from elfmesh.machine import Contact
from elfmesh.srt.events import TreeInfo

ROOT, CHILD = (Contact(bytes([at]) * 20, "10.0.0.1", 7400, 1) for at in (1, 2))
INFO: dict[str, Any] = {"epoch": 1, "front": None, "released": 0, "held_bytes": 0, "unacknowledged": 0}


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "None"), (1.23456, "1.235"), (-1.0006, "-1.001"), (-0.0001, "0.0")]
)
def test_a_skew_is_milliseconds_and_never_minus_nothing(seconds: float | None, shown: str) -> None:
    assert str(_rounded(seconds)) == shown


@pytest.mark.parametrize("parent", [None, ROOT])
def test_a_tree_names_its_neighbours(parent: Contact | None) -> None:
    info = TreeInfo(b"\xaa" * 20, True, parent is None, parent, (CHILD,), 3, 9, **INFO)
    assert _tree(info) == {
        "tree": "aa" * 20,
        "root": parent is None,
        "subscribed": True,
        "parent": None if parent is None else "01" * 20,
        "children": ["02" * 20],
        "depth": 3,
        "size": 9,
    }


def test_the_report_of_memory_has_its_limit_and_the_error_of_its_store() -> None:
    assert _memory(None) == {}
    budget = MemoryBudget(1000)
    wanted = {"open_intervals_bytes": 0, "limit_bytes": 1000, "spilled_bytes": 0, "problem": None}
    assert _memory(budget) == wanted
    budget.problem = StorageError("no space left")
    assert _memory(budget)["problem"] == "no space left"
