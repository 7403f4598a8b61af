"""Sealing of a job's open intervals: frames for the frame log, and the events that follow from them.

Each frame has the sealed and revised intervals, the positions of the sources, and the restart positions. The
ranges of frames have no gaps. A frame contains the late records of everything that was read up to its
positions. This module has no reference to the job, so that a job's memory is freed as soon as it ends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from elfmesh.contribution import payload_bytes
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.worker.intervals import WorkerInterval as Closed
from elfmesh.ingest.worker.outcome import WorkerOutcome
from elfmesh.ingest.worker.recovered import read_up_to_by
from elfmesh.ingest.worker.saying import Saying, whole_counts
from elfmesh.ingest.worker.staged import StagedWorker
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.safeguards import safeguard
from elfmesh.storage.failpoints import reach
from elfmesh.storage.frames import RevisedInterval, Sealed, SealedInterval
from elfmesh.storage.framescan import FRAME_BYTES_MAX

log = logging.getLogger("elf.worker")
CONTRIBUTION_BYTES_MAX = FRAME_BYTES_MAX - (16 << 20)
"""Maximum number of bytes of payloads that are sealed at once; the rest of a frame is for counts and
positions."""

REVISED_BYTES_MAX = 64 << 20
"""Maximum number of bytes of revisions in one frame: enough for all revisable intervals of ordinary size."""


class Unreleased:
    """Contributions that the control plane has received and that are not closed.

    Used only in the event loop.
    """

    def __init__(self) -> None:
        self._held: deque[tuple[int, int]] = deque()  # (end of the range, bytes)
        self.nbytes = 0

    def given(self, event: ctl.Sealed | ctl.Revised) -> None:
        """Note that a range or a revision is held until it is closed."""
        size = payload_bytes(event.parts)
        stop = event.stop if isinstance(event, ctl.Sealed) else event.interval + 1
        self._held.append((stop, size))
        self.nbytes += size

    def release(self, stop: int) -> None:
        while self._held and self._held[0][0] <= stop:
            self.nbytes -= self._held.popleft()[1]


NEAR = 0.8
"""Share of a message's limit above which each partial is logged."""


class Sealing:
    """Sealing of one job.

    `last` is the frame after which the job continues; `unreleased` counts against the limit of held bytes.
    `lookups` are refreshed after intervals were sealed.
    """

    def __init__(
        self,
        key: str,
        worker: StagedWorker,
        saying: Saying,
        last: Sealed,
        unreleased: Unreleased,
        *,
        lookups: LookupTables | None,
    ) -> None:
        self._key = key
        self._worker = worker
        self._saying = saying
        self._last = last
        self._seq = 0 if worker.late is None else last.seq
        self._unreleased = unreleased
        self._lookups = lookups

    def seal(
        self, at: Sequence[FilePosition], now_us: int, outcome: WorkerOutcome, spool_bytes_max: int | None
    ) -> None:
        """Seal the intervals below the watermark of the first open interval's version, and revise others.

        `at` has the reader's positions, for files of which nothing was read yet. Sealed contributions that
        are not closed are given up beyond `spool_bytes_max` and counted (None: no limit). Raises
        RuntimeFailure if intervals that must be sealed together do not fit in a frame.
        """
        worker, head, late = self._worker, self._worker.head, self._worker.late
        worker.drop_closed()
        start, ready = head.next_index, head.ready_index
        if ready <= start and (late is None or not late.is_due(now_us)):
            return
        once = head.tally.once_below(ready)
        room = None if spool_bytes_max is None else spool_bytes_max - self._unreleased.nbytes
        turns = worker.turns(start) if ready > start + 1 else ()
        inputs = head.inputs_below(ready)
        entries = self._closed(ready, room) if ready > start else []
        sizes = [len(payload) for entry in entries for payload in entry.payloads]
        size, largest = sum(sizes), max(sizes, default=0)
        if largest > NEAR * DATA_FRAME_BYTES_MAX:
            about = (head.statement.name, largest, DATA_FRAME_BYTES_MAX)
            log.warning("job %s: a partial of this agent has %d bytes, and %d are sent", *about)
        if size > CONTRIBUTION_BYTES_MAX:
            raise RuntimeFailure(
                f"intervals {start} to {ready - 1} have {size} bytes, over the limit of"
                f" {CONTRIBUTION_BYTES_MAX}; group by fewer keys or allow less LATENESS"
            )
        room = CONTRIBUTION_BYTES_MAX - size if room is None else max(0, room - size)
        # A frame must contain the late records of all input up to its positions, because a replay does not
        # count them.
        revised = self._revise(now_us, min(room, REVISED_BYTES_MAX))
        if ready <= start and not revised:
            return
        if late is not None:
            for entry in entries:
                late.sealed(as_closed(entry), entry.rev)
        frame = self._frame(start, ready, at)
        frame = msgspec.structs.replace(frame, entries=entries, revised=revised, once=once, turns=turns)
        outcome.frames.append(frame)
        self._last = msgspec.structs.replace(frame, entries=[], revised=[])
        outcome.events += [self._saying.revised(each) for each in revised]
        if ready > start:
            outcome.events += self._saying.events(start, ready, entries, head.evaluated, inputs)

    def _closed(self, ready: int, room: int | None) -> list[SealedInterval]:
        late = self._worker.late
        entries = _within(self._worker.head.seal(ready), room)
        reach("seal")
        if self._lookups is not None:
            self._lookups.refresh()
        if late is None:
            return entries
        return [each._replace(rev=late.first_rev(each.interval)) for each in entries]

    def _frame(self, start: int, ready: int, at: Sequence[FilePosition]) -> Sealed:
        """Return a frame without its contents: positions and restart state."""
        worker, last = self._worker, self._last
        restart = {position.key: position for position in at}
        restart.update((position.key, position) for position in worker.positions())
        return Sealed(
            self._key,
            worker.head.evaluated,
            start,
            max(start, ready),
            positions=worker.read_positions(),
            restart=tuple(restart.values()),
            counters=list(worker.totals),
            carried=worker.carried,
            shed=worker.shed_stretches,
            seq=self._seq,
            read_up_to=worker.read_up_to,
            revs=list(worker.revs_used),
            newest=worker.newest,
            before=(read_up_to_by(last, last.stop), last.restart, last.shed),
        )

    @safeguard("late-with-positions")
    def _revise(self, now_us: int, room: int) -> list[RevisedInterval]:
        found = []
        for each in self._worker.revise(now_us, room):
            self._seq += 1
            counts, payloads, added = list(each.counts), list(each.payloads), list(each.added)
            found.append(
                RevisedInterval(each.interval, each.rev, counts, payloads, added, self._seq, each.evaluated)
            )
        return found


def as_closed(entry: SealedInterval) -> Closed:
    """Return an interval as reported, for later revisions."""
    return Closed(entry.interval, whole_counts(entry.counts), tuple(entry.payloads))


def _within(sealed: Sequence[Closed], room: int | None) -> list[SealedInterval]:
    """Return sealed intervals for the frame log.

    Those that exceed the spool's limit keep only their counts.
    """
    entries = []
    for each in sealed:
        size = sum(map(len, each.payloads))
        if room is not None and size > room:
            entries.append(_reported(each.given_up))
            continue
        if room is not None:
            room -= size
        entries.append(_reported(each))
    return entries


def _reported(closed: Closed) -> SealedInterval:
    return SealedInterval(closed.index, list(closed.counts), list(closed.payloads))
