"""When an agent has told of what it learned: with what goes out behind the write of it, never before."""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.agent.pump import Store
from elfmesh.control.events import Persist
from elfmesh.machine import Effect


def goes_out_last(effects: Sequence[Effect], *, behind_an_epoch: bool) -> Effect | None:
    """The last effect of a step that is not stored; None if there is none.

    `behind_an_epoch`: the step has learned one. What it wants before goes out before that is written, and a
    crash in between makes the epoch unknown again, to everybody.
    """
    for effect in reversed(effects):
        if not isinstance(effect, Store):
            return effect
        if behind_an_epoch and isinstance(effect, Persist) and effect.kind == "epoch":
            return None
    return None
