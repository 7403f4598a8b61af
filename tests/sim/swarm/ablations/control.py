"""What masters, members and trees do without their safeguards; see `ablations`."""

from __future__ import annotations

from typing import Any

from elfmesh.control.register import changes
from elfmesh.srt import coverage
from tests.sim.swarm.ablations.names import Patch, always, instead, original


def epoch_forgotten(self: Any, job: bytes, epoch: int) -> None:
    """Epochs are remembered until the process ends."""
    if epoch > self.of(job):
        self._known[job] = epoch


def one_seal_less(self: Any, pane: Any) -> Any:
    """The last producer of a partition is not waited for."""
    needed = self._needed(pane)
    return (needed > 0) & (self._sealers(pane) >= (needed - 1).clip(1))


def blind(name: str, verdict: coverage.PartialOverlap) -> list[Patch]:
    """A partial of which something is counted already passes as new."""
    new, judged = coverage.PartialOverlap.NEW, original(name)

    def judge(partial: int, known: int) -> coverage.PartialOverlap:
        return new if (found := judged(partial, known)) is verdict else found

    return instead(name, judge)


def overlaps_merged() -> list[Patch]:
    """What overlaps is merged: on the way, and at the root, where it takes the place of what it overlaps."""
    judged = original("disjoint-merge:root")

    def judge(self: Any, new: Any) -> coverage.PartialOverlap:
        found = judged(self, new)
        return coverage.PartialOverlap.NEW if found is coverage.PartialOverlap.OVERLAP else found

    return [
        *blind("disjoint-merge:trees", coverage.PartialOverlap.OVERLAP),
        *instead("disjoint-merge:root", judge),
    ]


def sent_once() -> list[Patch]:
    """What is not acknowledged is not sent again."""
    transmitted = original("retransmit")

    def transmit(self: Any, parent: Any, waiting: Any) -> None:
        if waiting.tries:
            waiting.due = None
        else:
            transmitted(self, parent, waiting)

    return instead("retransmit", transmit)


def appended_again() -> list[Patch]:
    """A record that is in the log already is added once more."""
    write = original("append-once")

    def blindly(self: Any, record: Any, rows: bytes) -> bool:
        own = self.__class__
        self.__class__ = type("Blind", (own,), {"latest": None})
        try:
            return bool(write(self, record, rows))
        finally:
            self.__class__ = own

    return instead("append-once", blindly)


def closed_is_not_sealed(self: Any, event: Any, frontier: int) -> None:
    """What a worker seals of intervals that are closed is dropped."""
    self._sealed = max(self._sealed, event.stop)


def led_after_its_end() -> list[Patch]:
    """A deleted job is like any other, to those who vote about it and to those who saw its end."""

    def live(found: Any, incarnation: str) -> Any:
        if found is None or found.value.incarnation != incarnation:
            raise changes.ChangeRefused("another incarnation", found)
        return found.value

    return always(("tombstone:voted", live), ("tombstone:seen", lambda self, job, incarnation: False))()
