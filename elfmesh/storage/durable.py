"""Makes votes and records of the control machine durable with as few syncs as possible.

  (RECORD, u64 number | job, data)    a record that its log may not have durably (see results/journal.py)

Votes and records that are written together form one frame of the state log with one sync, so that no vote is
durable before the record that it closes. The results logs are written afterwards without a sync; records that
a power failure removes from them are restored from the state log. Runs in the thread of the "store" lane
(D-1, D-17).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Protocol

from elfmesh.control.protocol import events as ctl
from elfmesh.control.register.lost_votes import KIND as LOST
from elfmesh.control.register.lost_votes import Loss, decode_loss
from elfmesh.storage.failpoints import reach
from elfmesh.storage.statelog import StateLog

log = logging.getLogger("elf.agent")
Write = ctl.Append | ctl.Persist
RECORD = "result"
RECORDS_BYTES_MAX = 4 << 20
"""Size of the records in the state log beyond which the results logs are synced and the records removed."""


class Records(Protocol):
    """The methods of the results logs that this module uses."""

    def append(self, *effects: ctl.Append) -> None: ...

    def prepare(self, effects: Sequence[ctl.Append]) -> list[bytes]:
        """Prepare the logs durably, and return what `put_back` needs for each record."""
        ...

    def write(self, effects: Sequence[ctl.Append]) -> None:
        """Add records in this order; they are durable after `sync`."""
        ...

    def sync(self) -> None: ...

    def put_back(self, prepared: Sequence[bytes]) -> None:
        """Restore records that a power failure removed, durably. Skips deleted and restarted logs."""
        ...


def _log_loss(loss: Loss) -> None:
    log.error(
        "%s %s: this agent has lost its votes. It votes on no job until its next start, and then not until"
        " the job's master has replaced its vote",
        loss.path, loss.reason,
    )  # fmt: skip


class Durable:
    """Writes of one agent. Construction restores what a power failure removed from the results logs."""

    def __init__(self, state: StateLog, results: Records) -> None:
        self._state, self._results = state, results
        results.put_back(state.forget(RECORD))
        self._number = self._bytes = 0

    def write(self, effects: list[Write]) -> None:
        """Make writes durable with one sync, and remove them from the list. DiskFull may be retried."""
        records = [effect for effect in effects if isinstance(effect, ctl.Append)]
        alone = len(effects) == len(records) == 1
        if not alone:
            self._remember(effects, records)
            effects[:] = records
        if records:
            self._append(records, durably=alone)
            effects.clear()

    def _remember(self, effects: Sequence[Write], records: Sequence[ctl.Append]) -> None:
        kinds = [effect.kind for effect in effects if isinstance(effect, ctl.Persist)]
        for kind in kinds:
            reach("persist", kind)
        prepared = iter(self._results.prepare(records) if records else ())
        self._state.apply([self._kept(effect, prepared) for effect in effects])
        for kind in kinds:
            reach("persisted", kind)
        for effect in effects:
            if isinstance(effect, ctl.Persist) and effect.kind == LOST and effect.data:
                _log_loss(decode_loss(effect.data))

    def _kept(self, effect: Write, prepared: Iterator[bytes]) -> ctl.Persist:
        if isinstance(effect, ctl.Persist):
            return effect
        data = next(prepared)
        self._number += 1
        self._bytes += len(data)
        return ctl.Persist(RECORD, self._number.to_bytes(8) + effect.job, data)

    def _append(self, records: Sequence[ctl.Append], *, durably: bool) -> None:
        reach("results.append")
        if durably:
            self._results.append(*records)
        else:
            self._results.write(records)
            if self._bytes > RECORDS_BYTES_MAX:
                self._results.sync()
                self._state.forget(RECORD)
                self._bytes = 0
        reach("results.appended")
