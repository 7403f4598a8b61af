"""Checks of single values."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.planning.topology_draft import TopologyRefused, draft_of


def test_an_operator_is_read_with_its_defaults() -> None:
    draft = draft_of(4, {"name": "A", "tasks": [{"name": "t1"}]})
    assert (draft.name, draft.tasks, draft.given, draft.costs) == ("A", ["t1"], [None], [1.0])
    assert (draft.selectivity, draft.correlated, draft.inputs) == (1.0, False, {})


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ([], ("operators", 4)),
        ({"name": "A"}, ("operators", 4)),
        ({"name": "", "tasks": []}, ("operators", 4, "name")),
        ({"name": "A", "tasks": {}}, ("operators", 4, "tasks")),
        ({"name": "A", "tasks": [{"name": "t"}], "selectivity": -1}, ("operators", 4, "selectivity")),
        ({"name": "A", "tasks": [{"name": "t", "cost": 10**400}]}, ("operators", 4, "tasks", 0, "cost")),
        ({"name": "A", "tasks": [{"name": "t", "domains": [5]}]}, ("operators", 4, "tasks", 0, "domains", 0)),
    ],
)
def test_a_refusal_has_the_path(values: Any, path: tuple[str | int, ...]) -> None:
    with pytest.raises(TopologyRefused) as refused:
        draft_of(4, values)
    assert refused.value.path == path
