"""The frame log: what this agent has promised to others, on disk before it is sent.

One append-only file per agent. A `Sealed` frame holds one contribution of one job (a range of intervals
with their counts and partials), the positions in the sources it goes up to, the positions to read again
from after a restart, and the cumulative count buckets. It is synced before the contribution is handed to
the tree, so that a restart neither loses nor repeats a record (D-1). A torn frame at the end is cut off:
nobody has seen it. A bad frame in the middle is skipped and reported as a gap, never guessed at. A failed
sync is fatal to the agent.

Synchronous and single-threaded by design: the pump runs it in its own thread. Payloads are not kept in
memory.

Paper: none; ELF 3 replays from the sources. See guarantees D-1, D-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from elfmesh.agent.failpoints import reach
from elfmesh.agent.framescan import FRAME_BYTES_MAX, Found, pack, scan, unpack
from elfmesh.agent.storage import AppendFile, Storage
from elfmesh.errors import DiskFull, StorageError
from elfmesh.wire import UNREADABLE

FILE_NAME = "frames.log"
GARBAGE_BYTES = 4 << 20
"""Released bytes that are worth a rewrite, if they are also most of the file."""


class SealedInterval(NamedTuple):
    """One interval of a contribution: its index, its counts (order of BUCKETS), its partial per partition."""

    interval: int
    counts: list[int]
    payloads: list[bytes]


class Sealed(msgspec.Struct, frozen=True, tag="sealed", array_like=True):
    """One contribution: this job has nothing more for intervals [start, stop) than `entries`.

    Attributes:
        job: qualified name of the job.
        version: manifest version the records were read under.
        start: first interval of the range.
        stop: first interval after the range.
        entries: the intervals with rows or counts.
        positions: per source how far this contribution goes.
        restart: per source where to read from again, so that every record after `stop` is seen once more.
        counters: cumulative counts of the job at this agent.
        gaps: (interval, number) of source gaps that are counted in intervals from `stop` on.
        shed: stretches of files that were left out and are counted below `stop`.
    """

    job: str
    version: int
    start: int
    stop: int
    entries: list[SealedInterval] = []
    positions: Any = None
    restart: Any = None
    counters: Any = None
    gaps: Any = None
    shed: Any = None


class Released(msgspec.Struct, frozen=True, tag="released", array_like=True):
    """Everything of a job below `stop` is closed: nobody will ask for it again."""

    job: str
    stop: int


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", array_like=True):
    """The job is gone from this agent."""

    job: str


Frame = Sealed | Released | Forgotten
_DECODER = msgspec.msgpack.Decoder(Frame)


@dataclass
class _Job:
    """What is kept in memory of one job: where its frames are, not what they hold."""

    frames: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # (stop, offset, size), unreleased or last
    released: int | None = None


@dataclass
class Recovery:
    """What opening the log found.

    Attributes:
        frames: valid frames.
        cut_bytes: length of the torn tail that was cut off.
        gaps: (offset, length) of damaged stretches with valid frames after them.
        holes: per job the interval ranges whose contributions a gap took; None: from the job's beginning.
        repeated: frames that were in the file before.
    """

    frames: int = 0
    cut_bytes: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    holes: dict[str, list[tuple[int | None, int]]] = field(default_factory=dict)
    repeated: int = 0


class FrameLog:
    """The frame log of one agent.

    Args:
        storage: where the file is.
        garbage_bytes: how much released data is worth a rewrite.

    Raises:
        StorageError: the file cannot be read or written; after that the log refuses everything.
    """

    def __init__(self, storage: Storage, *, garbage_bytes: int = GARBAGE_BYTES) -> None:
        self._storage, self._garbage_bytes = storage, garbage_bytes
        self._file: AppendFile = storage.open(FILE_NAME)
        self._jobs: dict[str, _Job] = {}
        self._size = 0
        self._failed = False
        self.recovery = self._recover()

    @property
    def jobs(self) -> list[str]:
        """Jobs with frames, in order of their first frame."""
        return list(self._jobs)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def append(self, frame: Frame) -> None:
        """Write a frame. `Sealed` frames must be followed by `sync` before anybody is told of them."""
        body = msgspec.msgpack.encode(frame)
        if len(body) > FRAME_BYTES_MAX:
            raise StorageError(f"a contribution of {len(body)} bytes is over the limit of a frame")
        data = pack(body)
        reach("frame.write")
        self._guard(lambda: self._file.append(data))
        self._index(frame, self._size, len(data))
        self._size += len(data)

    def sync(self) -> None:
        """Make everything appended durable. A failure is final."""
        reach("frame.sync")
        self._guard(self._file.sync)
        reach("frame.synced")

    def last(self, job: str) -> Sealed | None:
        """The newest contribution of a job: where to go on from after a restart."""
        state = self._jobs.get(job)
        return self._read(state.frames[-1]) if state and state.frames else None

    def released(self, job: str) -> int | None:
        """Up to where the job's contributions are released."""
        state = self._jobs.get(job)
        return state.released if state else None

    def unreleased(self, job: str) -> Iterator[Sealed]:
        """The contributions somebody may still ask for, oldest first. Cost: one read each."""
        state = self._jobs.get(job)
        for place in list(state.frames) if state else ():
            if state and (state.released is None or place[0] > state.released):
                yield self._read(place)

    def compact(self) -> bool:
        """Rewrite the file without what is released, if that is worth it."""
        live = sum(place[2] for state in self._jobs.values() for place in state.frames)
        garbage = self._size - live
        if garbage < self._garbage_bytes or garbage < live or self._has_open_holes():
            return False
        kept: list[bytes] = []
        for name, state in self._jobs.items():
            for place in state.frames:
                frame = self._read(place)
                if state.released is not None and frame.stop <= state.released:
                    frame = msgspec.structs.replace(frame, entries=[])
                kept.append(pack(msgspec.msgpack.encode(frame)))
            if state.released is not None:
                kept.append(pack(msgspec.msgpack.encode(Released(name, state.released))))
        reach("compact")
        try:
            self._guard(lambda: self._storage.write(FILE_NAME, b"".join(kept)))
        except DiskFull:  # the old file is as good, only longer
            return False
        reach("compacted")
        self._file.close()
        self._file = self._storage.open(FILE_NAME)
        self._jobs, self._size = {}, 0
        self._recover()
        return True

    def _has_open_holes(self) -> bool:
        """Whether a restart would have to say again that something is lost: a rewritten file cannot."""
        return any(
            (released := self.released(job)) is None or stop > released
            for job, holes in self.recovery.holes.items()
            for _, stop in holes
            if job in self._jobs
        )

    def close(self) -> None:
        """Sync what is there and close."""
        if not self._failed:
            self.sync()
        self._file.close()

    def _guard(self, action: Any) -> None:
        if self._failed:
            raise StorageError("the frame log has failed before; the agent must be restarted")
        try:
            action()
        except DiskFull:
            raise
        except StorageError:
            self._failed = True
            raise

    def _index(self, frame: Frame, offset: int, size: int) -> None:
        if isinstance(frame, Forgotten):
            self._jobs.pop(frame.job, None)
            return
        state = self._jobs.setdefault(frame.job, _Job())
        if isinstance(frame, Sealed):
            state.frames.append((frame.stop, offset, size))
        else:
            state.released = frame.stop if state.released is None else max(state.released, frame.stop)
        if state.released is not None:  # the last one stays: it says where to go on
            released, last = state.released, state.frames[-1:]
            state.frames = [place for place in state.frames[:-1] if place[0] > released] + last

    def _read(self, place: tuple[int, int, int]) -> Sealed:
        frame = _decode(unpack(self._file, place[1], place[1] + place[2]))
        if not isinstance(frame, Sealed):
            raise StorageError(f"the frame at byte {place[1]} has changed on disk", where=FILE_NAME)
        return frame

    def _recover(self) -> Recovery:
        recovery = Recovery()
        stops: dict[str, int] = {}
        damaged: Found | None = None
        for found in scan(self._file, self._file.size()):
            frame = _decode(found.body)
            if frame is None:
                start = found.offset if damaged is None else damaged.offset
                damaged = Found(start, found.offset + found.size - start, None)
                continue
            if damaged is not None:
                recovery.gaps.append((damaged.offset, damaged.size))
                damaged = None
            recovery.frames += 1
            if self._fits(frame, stops, recovery):
                self._index(frame, found.offset, found.size)
        self._size = self._file.size()
        if damaged is not None:
            recovery.cut_bytes = damaged.size
            self._file.cut(damaged.offset)
            self._size = damaged.offset
        return recovery

    @staticmethod
    def _fits(frame: Frame, stops: dict[str, int], recovery: Recovery) -> bool:
        """Whether a frame goes on where its job's last one ended; a block on disk twice brings old ones."""
        if isinstance(frame, Forgotten):
            stops.pop(frame.job, None)
        if not isinstance(frame, Sealed):
            return True
        before = stops.get(frame.job)
        if before is not None and frame.start < before:
            recovery.repeated += 1
            return False
        fresh = before is None and frame.start == frame.stop
        if recovery.gaps and not fresh and frame.start != before:
            recovery.holes.setdefault(frame.job, []).append((before, frame.start))
        stops[frame.job] = frame.stop
        return True


def _decode(body: bytes | None) -> Frame | None:
    """A frame, or None if it is none."""
    if body is None:
        return None
    try:
        frame: Frame = _DECODER.decode(body)
        return frame
    except UNREADABLE:
        return None
