"""Choice of the step of a statement whose window spans intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elfmesh.ql.engine import counted, sealed, sessions, within
from elfmesh.ql.engine.open_groups import ClosedPane, GroupStep, Open
from elfmesh.ql.plan.statement import ROWS, SEALED, SESSION, WITHIN, Statement

STEPS: Mapping[str, Callable[[Statement, Open, ClosedPane], GroupStep]] = MappingProxyType(
    {SESSION: sessions.step, SEALED: sealed.step, ROWS: counted.step, WITHIN: within.step}
)


def step(statement: Statement, open_: Open, pane: ClosedPane) -> GroupStep:
    """Add the content of one interval to the groups that are open after all earlier ones."""
    assert statement.window is not None
    return STEPS[statement.window.kind](statement, open_, pane)
