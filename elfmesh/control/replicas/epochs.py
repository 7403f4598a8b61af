"""Highest epochs of jobs, and the incarnations that have ended.

Owns two bounded memories. The highest epoch of each job is on disk (D-5). Beyond the bound the oldest entries
are forgotten, except for jobs in which this agent takes part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Persist
from elfmesh.safeguards import safeguard

TOMBSTONES_MAX = 4096
EPOCHS_MAX = 4096


class Epochs:
    """The highest known epoch of each job.

    Args:
        concerns: returns whether this agent leads a job, is a member, has a replica, or votes on it.
    """

    def __init__(self, context: Context, concerns: Callable[[bytes], bool]) -> None:
        self._context, self._concerns = context, concerns
        self._known: OrderedDict[bytes, int] = OrderedDict()

    def of(self, job: bytes) -> int:
        return self._known.get(job, 0)

    @safeguard("epoch-on-disk")
    def note(self, job: bytes, epoch: int) -> None:
        if epoch <= self.of(job):
            return
        self._known[job] = epoch
        self._known.move_to_end(job)
        self._context.emit(Persist("epoch", job, epoch.to_bytes(8)))
        while len(self._known) > EPOCHS_MAX:
            oldest = next((each for each in self._known if each != job and not self._concerns(each)), None)
            if oldest is None:
                return
            del self._known[oldest]
            self._context.emit(Persist("epoch", oldest, b""))

    def restored(self, epochs: dict[bytes, int]) -> None:
        self._known.update(epochs)


class Tombstones:
    """The incarnation of each job that ended last."""

    def __init__(self) -> None:
        self._over: OrderedDict[bytes, str] = OrderedDict()

    def __contains__(self, job: bytes) -> bool:
        return job in self._over

    def add(self, job: bytes, incarnation: str) -> None:
        self._over[job] = incarnation
        self._over.move_to_end(job)
        while len(self._over) > TOMBSTONES_MAX:
            self._over.popitem(last=False)

    def of(self, job: bytes) -> str | None:
        return self._over.get(job)
