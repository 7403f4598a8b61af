"""What masters, members and trees do without their safeguards; see `ablations`."""

from __future__ import annotations

from typing import Any

from elfmesh.control.closing import partial_store
from elfmesh.control.election import leadership
from elfmesh.control.jobs import register_value
from elfmesh.control.member import contributions
from elfmesh.control.replicas import epochs
from elfmesh.srt import barrier, coverage, uplink
from elfmesh.storage.results import log as resultslog

Patch = tuple[Any, str, Any]


def epoch_forgotten() -> list[Patch]:
    """Epochs are remembered until the process ends."""

    def note(self: Any, job: bytes, epoch: int) -> None:
        if epoch > self.of(job):
            self._known[job] = epoch

    return [(epochs.Epochs, "note", note)]


def blind(verdict: coverage.Verdict) -> list[Patch]:
    """A partial of which something is counted already passes as new."""
    new = coverage.Verdict.NEW

    def judge(partial: int, known: int) -> coverage.Verdict:
        return new if (found := coverage.judge(partial, known)) is verdict else found

    return [(barrier, "judge", judge)]


def overlaps_merged() -> list[Patch]:
    """What overlaps is merged: on the way, and at the root, where it takes the place of what it overlaps."""
    original = partial_store.PartitionStore.judge

    def judge(self: Any, new: Any) -> coverage.Verdict:
        found = original(self, new)
        return coverage.Verdict.NEW if found is coverage.Verdict.OVERLAP else found

    return [*blind(coverage.Verdict.OVERLAP), (partial_store.PartitionStore, "judge", judge)]


def sent_once() -> list[Patch]:
    """What is not acknowledged is not sent again."""
    original = uplink.Uplink._transmit

    def transmit(self: Any, parent: Any, waiting: Any) -> None:
        if waiting.tries:
            waiting.due = None
        else:
            original(self, parent, waiting)

    return [(uplink.Uplink, "_transmit", transmit)]


def appended_again() -> list[Patch]:
    """A record that is in the log already is added once more."""
    write = resultslog.ResultsLog.write

    class Blind(resultslog.ResultsLog):
        @property
        def latest(self) -> None:
            return None

    def blindly(self: Any, record: Any, rows: bytes) -> bool:
        own = self.__class__
        self.__class__ = Blind
        try:
            return write(self, record, rows)
        finally:
            self.__class__ = own

    return [(resultslog.ResultsLog, "write", blindly)]


def closed_is_not_sealed() -> list[Patch]:
    """What a worker seals of intervals that are closed is dropped."""

    def forget(self: Any, event: Any, frontier: int) -> None:
        self._sealed = max(self._sealed, event.stop)

    return [(contributions.Contributions, "_closed_unsealed", forget)]


def led_after_its_end() -> list[Patch]:
    """A deleted job is like any other, to those who vote about it and to those who saw its end."""

    def live(found: Any, incarnation: str) -> Any:
        if found is None or found.value.incarnation != incarnation:
            raise register_value.Refused("another incarnation", found)
        return found.value

    return [
        (register_value, "live", live),
        (leadership.Leadership, "is_over", lambda self, job, incarnation: False),
    ]
