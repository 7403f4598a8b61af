"""Reports of a job's sealed intervals: events of bounded size, in the newest revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import NOT_COUNTED
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.ingest.worker.early import EarlyStates
from elfmesh.safeguards import safeguard
from elfmesh.storage.frames import RevisedInterval, Sealed, SealedInterval

NO_INPUTS: Mapping[int, tuple[int, ...]] = MappingProxyType({})
EVENT_ENTRIES_MAX = 64
EVENT_BYTES_MAX = 4 << 20
"""Maximum number of bytes in one `Sealed` event (at least one interval), because it becomes one message per
tree."""


def newest(frame: Sealed, revised: Mapping[int, RevisedInterval]) -> list[SealedInterval]:
    """Return the non-empty intervals of a frame's range, each in its newest revision."""
    entries = {entry.interval: entry for entry in frame.entries}
    for each in revised.values():
        if frame.start <= each.interval < frame.stop:
            entries[each.interval] = SealedInterval(each.interval, each.counts, each.payloads, each.rev)
    return [entries[interval] for interval in sorted(entries)]


def whole_counts(counts: Sequence[int]) -> tuple[int, ...]:
    """Extend counts of an old frame to the present number of buckets."""
    return (*counts, *NOT_COUNTED[len(counts) :])


class Saying:
    """Constructor of the events of one job's worker; `begun` is from `StartWorker`."""

    def __init__(self, manifest: Manifest, begun: int = 0) -> None:
        self._manifest, self._begun = manifest, begun

    def events(
        self,
        start: int,
        stop: int,
        entries: list[SealedInterval],
        evaluated: int,
        inputs: Mapping[int, tuple[int, ...]] = NO_INPUTS,
    ) -> list[ctl.Sealed]:
        """Return a range as events of bounded size without a gap between them; `inputs`: see `Sealed`."""
        events: list[ctl.Sealed] = []
        part: list[SealedInterval] = []
        size = 0
        for entry in entries:
            more = sum(map(len, entry.payloads))
            if part and (len(part) >= EVENT_ENTRIES_MAX or size + more > EVENT_BYTES_MAX):
                events.append(self._sealed(start, entry.interval, part, evaluated, inputs))
                start, part, size = entry.interval, [], 0
            part.append(entry)
            size += more
        events.append(self._sealed(start, stop, part, evaluated, inputs))
        return events

    def revised(self, interval: RevisedInterval, *, again: bool = False) -> ctl.Revised:
        """Return the event of a revision; one of an earlier boot has no contents."""
        entry = SealedInterval(interval.interval, interval.counts, interval.payloads, interval.rev)
        return ctl.Revised(
            self._manifest.job_id,
            self._manifest.incarnation,
            interval.interval,
            interval.rev,
            () if again else self._parts([entry]),
            tuple(interval.added),
            interval.seq,
            again,
            interval.version,
            self._begun,
        )

    def early(self, states: EarlyStates, evaluated: int) -> ctl.EarlyReported:
        about = (self._manifest.job_id, self._manifest.incarnation, states.interval, states.payload)
        return ctl.EarlyReported(*about, states.skipped, evaluated, self._begun)

    def cut(
        self, number: int, whole: bool, panes: Sequence[CutPane], first: int, until_us: int, age_us: int
    ) -> ctl.PanesCut:
        about = (self._manifest.job_id, self._manifest.incarnation, number, whole)
        return ctl.PanesCut(*about, tuple(panes), first, until_us, begun=self._begun, age_us=age_us)

    def not_cut(self, number: int, error: str) -> ctl.PanesCut:
        about = (self._manifest.job_id, self._manifest.incarnation, number, True)
        return ctl.PanesCut(*about, error=error, begun=self._begun)

    def ended(self, stop: int) -> ctl.LogEnded:
        return ctl.LogEnded(self._manifest.job_id, self._manifest.incarnation, stop, self._begun)

    def _sealed(
        self,
        start: int,
        stop: int,
        entries: list[SealedInterval],
        evaluated: int,
        inputs: Mapping[int, tuple[int, ...]],
    ) -> ctl.Sealed:
        job, incarnation, parts = self._manifest.job_id, self._manifest.incarnation, self._parts(entries)
        mine = tuple((each.interval, inputs[each.interval]) for each in entries if each.interval in inputs)
        return ctl.Sealed(job, incarnation, start, stop, parts, False, evaluated, self._begun, mine)

    @safeguard("late-revises")
    def _parts(self, entries: list[SealedInterval]) -> tuple[tuple[Contribution, ...], ...]:
        return tuple(
            tuple(
                Contribution(
                    entry.interval,
                    whole_counts(entry.counts) if partition == 0 else NOT_COUNTED,
                    entry.payloads[partition],
                    entry.rev,
                )
                for entry in entries
            )
            for partition in range(self._manifest.partitions)
        )
