"""What an agent must not forget about jobs that it neither leads nor holds: their epochs, and their ends.

Owns two bounded memories; the highest epoch of each job is on disk (D-5).
"""

from __future__ import annotations

from collections import OrderedDict

from elfmesh.control.events import Persist
from elfmesh.control.office import Office

TOMBSTONES_MAX = 4096
EPOCHS_MAX = 10_000


class Epochs:
    """The highest epoch seen of every job.

    Args:
        office: the disk.
    """

    def __init__(self, office: Office) -> None:
        self._office = office
        self._known: OrderedDict[bytes, int] = OrderedDict()

    def of(self, job: bytes) -> int:
        """The highest epoch seen of a job."""
        return self._known.get(job, 0)

    def note(self, job: bytes, epoch: int) -> None:
        """An epoch was seen."""
        if epoch <= self.of(job):
            return
        self._known[job] = epoch
        self._known.move_to_end(job)
        while len(self._known) > EPOCHS_MAX:
            self._known.popitem(last=False)
        self._office.emit(Persist("epoch", job, epoch.to_bytes(8)))

    def restored(self, epochs: dict[bytes, int]) -> None:
        """What was seen before this agent was restarted."""
        self._known.update(epochs)


class Tombstones:
    """The incarnation of each job that was over last."""

    def __init__(self) -> None:
        self._over: OrderedDict[bytes, str] = OrderedDict()

    def __contains__(self, job: bytes) -> bool:
        return job in self._over

    def add(self, job: bytes, incarnation: str) -> None:
        """This incarnation is over."""
        self._over[job] = incarnation
        self._over.move_to_end(job)
        while len(self._over) > TOMBSTONES_MAX:
            self._over.popitem(last=False)

    def of(self, job: bytes) -> str | None:
        """Which incarnation was over last."""
        return self._over.get(job)
