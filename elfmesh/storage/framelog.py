"""The frame log: stores the contributions of this agent before the agent sends them.

Each agent has one append-only file. A `Sealed` frame contains one contribution of one job (a range of
intervals with their counts and partials), the source positions up to which it reads, the positions from which
to read after a restart, and the cumulative count buckets. The frame is synced before the tree gets the
contribution, so a restart neither loses nor repeats a record (D-1). A torn frame at the end is cut off,
because no agent has seen it. Any other bad frame is damage, also one at the end that was complete before: the
agent logs an error with the file's path and declares a gap. Frames of another agent are treated in the same
way. The damaged file is kept beside the new one. A failed sync is fatal to the agent.

The module is synchronous and single-threaded; the pump runs it in a separate thread. Payloads are not kept in
memory.

Paper: none; ELF 3 replays from the sources. See guarantees D-1, D-8.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from elfmesh.errors import DiskFull, StorageError
from elfmesh.safeguards import safeguard
from elfmesh.storage.failpoints import reach
from elfmesh.storage.frame_recovery import Continuity, LogRecovery
from elfmesh.storage.frames import Forgotten, Frame, Released, Sealed
from elfmesh.storage.framescan import FRAME_BYTES_MAX, FileStretch, is_torn, pack, scan, unpack
from elfmesh.storage.storage import AppendFile, Storage
from elfmesh.wire import UNREADABLE

log = logging.getLogger("elf.agent")
FILE_NAME = "frames.log"
DAMAGED = f"{FILE_NAME}.damaged"
"""Name under which a damaged file is kept; only the newest one is kept."""

FIRST_FRAME = Forgotten("")
GARBAGE_BYTES = 4 << 20
"""Released bytes that justify a rewrite, if they are also most of the file."""


_DECODER = msgspec.msgpack.Decoder(Frame)


class _Place(NamedTuple):
    """Position of a frame. `seq`: its last revision, or 0; `void_from`: see `Sealed.below`."""

    stop: int
    offset: int
    size: int
    seq: int
    void_from: int | None = None

    def below(self, void_from: int) -> _Place:
        least = void_from if self.void_from is None else min(self.void_from, void_from)
        return self._replace(stop=min(self.stop, void_from), void_from=least)


@dataclass
class _Job:
    """State of one job in memory: the positions of its frames, without their content."""

    frames: list[_Place] = field(default_factory=list)  # frames that are not released, and the last frame
    released: int | None = None
    received: int = 0

    def is_live(self, place: _Place) -> bool:
        return self.released is None or place.stop > self.released or place.seq > self.received


class FrameLog:
    """The frame log of one agent.

    Args:
        storage: storage of the file.
        garbage_bytes: released bytes that justify a rewrite.
        limit_bytes: maximum size of the file. At this size contributions wait until others are released; a
            first contribution is always accepted, and so are frames that release others. None: no limit.
        owner: id of the agent; b"": any.
        expected: whether the file was written before, so that a file without a frame is damaged.

    Raises:
        StorageError: the file cannot be read or written; afterwards the log refuses everything.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        garbage_bytes: int = GARBAGE_BYTES,
        limit_bytes: int | None = None,
        owner: bytes = b"",
        expected: bool = False,
    ) -> None:
        self._storage, self.limit_bytes, self._owner = storage, limit_bytes, owner
        self._garbage_bytes = garbage_bytes if limit_bytes is None else min(garbage_bytes, limit_bytes // 8)
        self._file: AppendFile = storage.open(FILE_NAME)
        self._jobs: dict[str, _Job] = {}
        self._appended: set[str] = set()  # jobs with a contribution since a damaged log was opened
        self._size = 0
        self._failed = False
        self.recovery = self._recover()
        if not self.recovery.frames:
            if expected and not self.recovery.rotten:
                self.recovery.rotten = True
                log.error("%s holds no frame any more", self._storage.where(FILE_NAME))
            self._begin()
        elif self._size:
            self._write_again()

    @property
    def jobs(self) -> list[str]:
        """Jobs with frames, in order of their first frame."""
        return list(self._jobs)

    @property
    def size(self) -> int:
        return self._size

    @property
    def crowded(self) -> bool:
        """Whether so little space is left below the limit that only counts should be added."""
        return self.limit_bytes is not None and self._size > self.limit_bytes - self.limit_bytes // 4

    def append(self, frame: Frame) -> None:
        """Write a frame. A `Sealed` frame must be synced before any agent learns of it.

        Raises:
            DiskFull: the disk or the limit has no space; the file is unchanged.
            StorageError: the disk operation failed.
        """
        if isinstance(frame, Sealed) and not frame.owner:
            frame = msgspec.structs.replace(frame, owner=self._owner)
        body = msgspec.msgpack.encode(frame)
        if len(body) > FRAME_BYTES_MAX:
            raise StorageError(f"a contribution of {len(body)} bytes is over the limit of a frame")
        data = pack(body)
        if isinstance(frame, Sealed) and self.limit_bytes is not None:
            self._make_room(len(data), self.limit_bytes)
        reach("frame.write")
        self._guard(lambda: self._file.append(data))
        self._index(frame, self._size, len(data))
        self._size += len(data)
        if isinstance(frame, Sealed) and (self.recovery.rotten or self.recovery.torn):
            self._appended.add(frame.job)

    def _write_again(self) -> None:
        """Write the file again after a start. Cost: a copy of the file, once.

        A sync that failed before this start may have lost bytes that still read well. Without space for the
        copy the file stays; bytes that are missing after a power failure are then a declared gap.
        """
        with contextlib.suppress(DiskFull):
            self._storage.write(FILE_NAME, self._file.read(0, self._size))
            self._file.close()
            self._file = self._storage.open(FILE_NAME)

    def _begin(self) -> None:
        with contextlib.suppress(DiskFull):
            data = pack(msgspec.msgpack.encode(FIRST_FRAME))
            self._guard(lambda: self._file.append(data))
            self._guard(self._file.sync)
            self._size += len(data)

    def _make_room(self, nbytes: int, limit_bytes: int) -> None:
        """Rewrite the file at the limit. Raises DiskFull if other contributions must be closed first."""
        if self._size + nbytes > limit_bytes:
            self.compact()
        if self._size + nbytes > limit_bytes and any(
            state.is_live(place) for state in self._jobs.values() for place in state.frames
        ):
            raise DiskFull(
                f"the frame log has {self._size} bytes of contributions that are not closed",
                where=FILE_NAME,
                hint=f"limits.disk is {limit_bytes} bytes.",
            )

    @safeguard("sync-before-send")
    def sync(self) -> None:
        """Make everything appended durable. A failure is final."""
        reach("frame.sync")
        self._guard(self._file.sync)
        reach("frame.synced")

    def last(self, job: str) -> Sealed | None:
        """Return the newest contribution of a job, with which it continues after a restart."""
        state = self._jobs.get(job)
        return self._read(state.frames[-1]) if state and state.frames else None

    def released(self, job: str) -> int | None:
        state = self._jobs.get(job)
        return state.released if state else None

    def received(self, job: str) -> int:
        state = self._jobs.get(job)
        return state.received if state else 0

    @safeguard("damage-once")
    def undeclared(self, job: str) -> bool:
        """Whether damage may have taken contributions of a job that no frame declares as lost.

        The first frame that a job appends after a start declares them.
        """
        damaged = self.recovery.rotten or self.recovery.torn.get(job, 0) > self.received(job)
        return damaged and job not in self._appended

    @safeguard("keep-until-closed")
    def unreleased(self, job: str) -> Iterator[Sealed]:
        """Yield the contributions that an agent may still request, oldest first. Cost: one read each."""
        state = self._jobs.get(job)
        for place in list(state.frames) if state else ():
            if state and state.is_live(place):
                yield self._read(place)

    def compact(self) -> bool:
        """Rewrite the file without released frames if that is worth it. Returns whether it did."""
        live = sum(place.size for state in self._jobs.values() for place in state.frames)
        garbage = self._size - live
        if garbage < self._garbage_bytes or (garbage < live and not self.crowded) or self._has_open_holes():
            return False
        kept = [pack(msgspec.msgpack.encode(FIRST_FRAME))]
        for name, state in self._jobs.items():
            for place in state.frames:
                frame = self._read(place)
                if not state.is_live(place):
                    frame = msgspec.structs.replace(frame, entries=[], revised=[])
                kept.append(pack(msgspec.msgpack.encode(frame)))
            if state.released is not None:
                kept.append(pack(msgspec.msgpack.encode(Released(name, state.released, state.received))))
        reach("compact")
        try:
            self._guard(lambda: self._storage.write(FILE_NAME, b"".join(kept)))
        except DiskFull:  # the old file is equivalent, only longer
            return False
        reach("compacted")
        self._file.close()
        self._file = self._storage.open(FILE_NAME)
        self._jobs, self._size = {}, 0
        self._recover()
        return True

    def _has_open_holes(self) -> bool:
        """Whether a restart would have to declare a loss again. A rewritten file could not contain this."""
        return any(
            (released := self.released(job)) is None or stop > released
            for job, holes in self.recovery.holes.items()
            for _, stop in holes
            if job in self._jobs
        )

    def close(self) -> None:
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
            if (at := frame.annuls) is not None:
                state.frames = [place.below(at) for place in state.frames]
            state.frames.append(_Place(frame.stop, offset, size, frame.seq if frame.revised else 0))
        else:
            state.released = frame.stop if state.released is None else max(state.released, frame.stop)
            state.received = max(state.received, frame.received)
        # the last frame stays, because the job continues from it
        if state.released is not None and state.frames:
            state.frames = [place for place in state.frames[:-1] if state.is_live(place)] + state.frames[-1:]

    def _read(self, place: _Place) -> Sealed:
        frame = _decode(unpack(self._file, place.offset, place.offset + place.size))
        if not isinstance(frame, Sealed):
            where = self._storage.where(FILE_NAME)
            raise StorageError(f"the frame at byte {place.offset} has changed on disk", where=where)
        return frame if place.void_from is None else frame.below(place.void_from)

    def _recover(self) -> LogRecovery:
        recovery = LogRecovery()
        continuity = Continuity(recovery)
        damaged: FileStretch | None = None
        for found in scan(self._file, self._file.size()):
            frame = _decode(found.body)
            if frame is not None and self._is_foreign(frame):
                return self._set_aside()
            if frame is None:
                start = found.offset if damaged is None else damaged.offset
                damaged = FileStretch(start, found.offset + found.size - start, None)
                continue
            if damaged is not None:
                recovery.gaps.append((damaged.offset, damaged.size))
                damaged = None
            recovery.frames += 1
            if continuity.fits(frame):
                self._index(frame, found.offset, found.size)
        self._size = self._file.size()
        if damaged is not None:
            recovery.cut_bytes = damaged.size
            recovery.rotten = not is_torn(self._file, damaged.offset, self._size)
        self._report(recovery)
        if damaged is not None:
            self._file.cut(damaged.offset)
            self._size = damaged.offset
        return recovery

    def _set_aside(self) -> LogRecovery:
        self._jobs, self._size = {}, self._file.size()
        recovery = LogRecovery(cut_bytes=self._size, rotten=True)
        self._report(recovery)
        self._file.cut(0)
        self._size = 0
        return recovery

    def _is_foreign(self, frame: Frame) -> bool:
        return isinstance(frame, Sealed) and bool(self._owner) and frame.owner not in (b"", self._owner)

    def _report(self, recovery: LogRecovery) -> None:
        end = [(self._size - recovery.cut_bytes, recovery.cut_bytes)] if recovery.rotten else []
        for offset, size in [*recovery.gaps, *end]:
            where = self._storage.where(FILE_NAME)
            log.error("%s is damaged at byte %d: %d bytes hold no frame of this agent", where, offset, size)
        if recovery.gaps or end:
            with contextlib.suppress(DiskFull):
                self._storage.write(DAMAGED, self._file.read(0, self._size))


def _decode(body: bytes | None) -> Frame | None:
    if body is None:
        return None
    try:
        frame: Frame = _DECODER.decode(body)
        return frame
    except UNREADABLE:
        return None
