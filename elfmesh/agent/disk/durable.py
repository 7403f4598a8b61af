"""What the control machine wants on disk: the order in which it is made durable.

Owns no file: the state log and the results logs do. Runs in the thread of the "store" lane.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.agent.disk.statelog import StateLog
from elfmesh.agent.failpoints import reach
from elfmesh.control import events as ctl

Write = ctl.Append | ctl.Persist


class Records(Protocol):
    """The results logs, as far as they are written here."""

    def append(self, *effects: ctl.Append) -> None:
        """Add records, in this order."""
        ...


class Durable:
    """Writes of one agent.

    Args:
        state: where `Persist` goes.
        results: where `Append` goes.
    """

    def __init__(self, state: StateLog, results: Records) -> None:
        self._state, self._results = state, results

    def write(self, effects: list[Write]) -> None:
        """Make them durable, in two syncs: what is remembered, then records. What is done leaves the list.

        Nothing is remembered before a record of the same job that came first: a vote for an interval vouches
        for those before it.

        Raises:
            DiskFull: there is no room for what the list still holds; it may be tried again.
            StorageError: the disk refuses.
        """
        while effects:
            state: list[ctl.Persist] = []
            records: list[ctl.Append] = []
            for effect in effects:
                if isinstance(effect, ctl.Append):
                    records.append(effect)
                elif any(effect.key.startswith(record.job) for record in records):
                    break
                else:
                    state.append(effect)
            self._remember(state)
            self._append(records)
            del effects[: len(state) + len(records)]

    def _remember(self, effects: list[ctl.Persist]) -> None:
        for effect in effects:
            reach("persist", effect.kind)
        if effects:
            self._state.apply(effects)
        for effect in effects:
            reach("persisted", effect.kind)

    def _append(self, effects: list[ctl.Append]) -> None:
        if effects:
            reach("results.append")
            self._results.append(*effects)
            reach("results.appended")
