"""Reader of one stream for many jobs: a line is read and parsed once for all jobs with the same position.

A cursor group is a set of jobs at the same offsets, with its own follower of the files. A new job gets its
own group, reads from its own beginning, never passes the leading group, and joins it when it has caught up. A
leader that reads a backlog waits for groups close behind it. Otherwise they would follow it at the same
distance to the end, and every line would be parsed once per group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from elfmesh.ingest.parsers import Parsed, Parser, StreamFormat
from elfmesh.ingest.parsers.base import sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.sources.blocks import BLOCK_BYTES, POLL_BYTES, Block
from elfmesh.ingest.sources.directives import head_before
from elfmesh.ingest.sources.file import OpenFile
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.position import FileKey, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.stream_times import StreamTimes
from elfmesh.ingest.sources.tail import FILES_MAX, GRACE_S, Passed, ReadFrom, Tail
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ql.engine.block import Times
from elfmesh.storage.starving import files_max as allowed_files
from elfmesh.storage.starving import retried

log = logging.getLogger("elf.worker")
JOIN_BYTES = 64 << 20
"""Distance up to which the leader waits for a group: less than a second of reading."""


@dataclass(frozen=True, slots=True)
class BlockDelivery:
    """Parsed block and the jobs that receive it, in the order in which they joined."""

    jobs: tuple[str, ...]
    parsed: Parsed
    block: Block


@dataclass(slots=True)
class _Group:
    """Jobs at one position. Invariant: every block goes to all of `jobs`, in order.

    `states` and `places` cache the tail's answers since it last moved, for all jobs; None: not cached.
    """

    tail: Tail
    jobs: dict[str, tuple[str, ...]]
    parsers: dict[FileKey, Parser] = field(default_factory=dict)
    states: list[SourceState] | None = None
    places: tuple[FilePosition, ...] | None = None

    def moved(self) -> None:
        """Take what the tail answers now; an equal answer stays the same object, for who compares."""
        states, places = self.tail.sources(), (*self.tail.known(), *self.tail.positions())
        self.states = states if states != self.states else self.states
        self.places = places if places != self.places else self.places

    def columns(self) -> tuple[str, ...]:
        return tuple(sorted({name for wanted in self.jobs.values() for name in wanted}))


class StreamReader:
    """Reader of one stream of this host for any number of jobs.

    Args:
        pattern: path or glob of the stream's files.
        formats: the stream's format; its parsers share one schema.
        grace_s: time for which a rotated file stays open after its last growth.
        files_max: most descriptors of one cursor group; at most a quarter of the process's.
        times: time indexes of the files; None: there are none, and every job reads everything.
    """

    def __init__(
        self,
        pattern: str,
        formats: StreamFormat,
        *,
        block_bytes: int = BLOCK_BYTES,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
        files_max: int = FILES_MAX,
        times: StreamTimes | None = None,
    ) -> None:
        self.pattern = pattern
        self.formats = formats
        self._block_bytes = block_bytes
        self._grace_s = grace_s
        self._clock = clock
        self._files_max = allowed_files(files_max)
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}
        self._gaps: dict[str, list[Gap]] = {}
        self._times, self._wanted = times, dict[str, WantedTimes]()

    @property
    def groups(self) -> int:
        """Return the number of cursor groups: 1 if all jobs share every read."""
        return len(self._groups)

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(job for group in self._groups for job in group.jobs)

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: ReadFrom = "beginning",
        boundaries: Iterable[FilePosition] = (),
        wanted: WantedTimes | None = None,
    ) -> None:
        """Start to read for a job; replaces it if it already exists.

        Reading resumes at `positions` (`JobWorker.positions`); `read_from` selects the start in other files
        (see `Tail`). No block crosses `boundaries` (`JobWorker`'s replay_until). Records that are certainly
        outside `wanted` need not be read (None: all are).
        """
        self.remove(job)
        if wanted is not None:
            self._wanted[job] = wanted
        heads = {p.id: p.head for group in self._groups for p in group.tail.positions()}
        tail = Tail(
            self.pattern,
            positions=positions,
            read_from=read_from,
            boundaries=boundaries,
            heads=heads,
            block_bytes=self._block_bytes,
            grace_s=self._grace_s,
            clock=self._clock,
            files_max=self._files_max,
            framing=self.formats.framing,
        )
        tail.discover()
        self._gaps[job] = tail.take_gaps()
        group = self._group_of[job] = _Group(tail, {job: tuple(columns)})
        self._groups.append(group)
        self._groups.sort(key=lambda group: -sum(p.offset for p in group.tail.positions()))

    def remove(self, job: str) -> None:
        self._gaps.pop(job, None)
        self._wanted.pop(job, None)
        group = self._group_of.pop(job, None)
        if group is not None:
            del group.jobs[job]
            if not group.jobs:
                group.tail.close()
                self._groups.remove(group)
        if group is not None and self._times is not None:
            self._times.flush()

    def note(self, delivery: BlockDelivery, dated: Mapping[str, Times]) -> None:
        """Note the event times of a block by column, for readers of a range of times. Thread-safe."""
        if self._times is not None:
            for column, times in dated.items():
                self._times.note(delivery.block, column, times, delivery.parsed.unfit)

    def close(self) -> None:
        if self._times is not None:
            self._times.flush()
        for group in self._groups:
            group.tail.close()
        self._groups.clear()
        self._group_of.clear()

    def poll(self, bytes_max: int = POLL_BYTES, paused: Sequence[str] = ()) -> list[BlockDelivery]:
        """Read and parse new lines, about `bytes_max` per group.

        `paused` are jobs under back-pressure; a group that contains one does not read.
        """
        deliveries: list[BlockDelivery] = []
        self._unite()
        reading = [group for group in self._groups if not any(job in paused for job in group.jobs)]
        awaited = self._close_behind(reading)
        for group in awaited or reading:
            deliveries += self._poll_group(group, bytes_max)
        if awaited and not deliveries:  # the awaited groups are blocked
            for group in reading:
                deliveries += self._poll_group(group, bytes_max)
        self._unite()
        return deliveries

    def look(self) -> None:
        for group in self._groups:
            group.tail.look()
            group.moved()
            self._take_gaps(group)

    def _take_gaps(self, group: _Group) -> None:
        for gap in group.tail.take_gaps():
            log.warning("%s", gap)
            for job in group.jobs:
                self._gaps[job].append(gap)

    def _poll_group(self, group: _Group, bytes_max: int) -> Iterator[BlockDelivery]:
        """Read and parse for one group; never past the leader."""
        leader = self._groups[0]
        limits = None
        if group is not leader:
            ahead = leader.tail.positions()
            limits = {p.key: p.offset for p in ahead}
            group.tail.use_heads({p.id: p.head for p in ahead})
        blocks = group.tail.poll(bytes_max, limits, self._passed(group))
        group.moved()
        self._take_gaps(group)
        columns = group.columns() if blocks else ()
        for block in blocks:
            parser = retried(partial(self._parser, group, block), f"reading {block.source}")
            parsed = _parse_any(parser, block, columns)
            yield BlockDelivery(tuple(group.jobs), parsed, block)

    def _passed(self, group: _Group) -> Passed | None:
        wanted = [self._wanted[job] for job in group.jobs if job in self._wanted]
        times = self._times
        if times is None or len(wanted) < len(group.jobs):
            return None

        def passed(file: OpenFile) -> int:
            parser = group.parsers.get(file.position.key)
            return file.offset if parser is None or parser.directed else times.passed(file, wanted)

        return passed

    def sources(self, job: str) -> list[SourceState]:
        """Return the files of a job and whether each is read to its end, as the last poll found them."""
        group = self._group(job)
        if group is None:
            return []
        if group.states is None:
            group.states = group.tail.sources()
        return group.states

    def at_end(self, job: str) -> bool:
        group = self._group(job)
        return group is None or group.tail.at_end

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        """Return the positions of the job's next records, and the files that are known and closed."""
        group = self._group(job)
        if group is None:
            return ()
        if group.places is None:
            group.places = (*group.tail.known(), *group.tail.positions())
        return group.places

    def problems(self) -> dict[str, str]:
        return {path: why for group in self._groups for path, why in group.tail.problems.items()}

    def gaps(self, job: str) -> list[Gap]:
        found = self._gaps.get(job, [])
        if found:
            self._gaps[job] = []
        return found

    def lose(self, gap: Gap) -> None:
        """Report to every job that input of the stream was lost before it could be read."""
        log.warning("%s", gap)
        for gaps in self._gaps.values():
            gaps.append(gap)

    def _group(self, job: str) -> _Group | None:
        return self._group_of.get(job)

    def _close_behind(self, reading: Sequence[_Group]) -> list[_Group]:
        """Return all groups except the leader, if it waits for one of them.

        At the end of its files it does not wait, because new lines must be read immediately.
        """
        if len(self._groups) < 2:  # the usual case, several times a second
            return []
        leader = self._groups[0]
        if leader not in reading or leader.tail.at_end:
            return []
        ahead = {p.key: p.offset for p in leader.tail.positions()}
        others = [group for group in reading if group is not leader]
        return others if any(0 < _behind(ahead, group.tail) <= JOIN_BYTES for group in others) else []

    def _parser(self, group: _Group, block: Block) -> Parser:
        assert block.position is not None
        key = block.position.key
        parser = group.parsers.get(key)
        if parser is None:
            if self._times is not None:  # the file before it may have ended
                self._times.flush()
            open_files = {p.key for p in group.tail.positions()}
            group.parsers = {k: p for k, p in group.parsers.items() if k in open_files}
            head = head_before(block, self.formats.directive)
            parser = group.parsers[key] = self.formats.parser(block.source, head=head)
        parser.source = block.source
        return parser

    def _unite(self) -> None:
        if len(self._groups) < 2:
            return
        united: list[_Group] = []
        for group in self._groups:
            twin = next((other for other in united if _same_place(other.tail, group.tail)), None)
            if twin is None:
                united.append(group)
            else:
                twin.jobs.update(group.jobs)
                self._group_of.update(dict.fromkeys(group.jobs, twin))
                twin.moved()
                twin.tail.stop_also_at(group.tail)
                group.tail.close()
        self._groups = united


def _behind(ahead: Mapping[FileKey, int], follower: Tail) -> int:
    at = {p.key: p.offset for p in follower.positions()}
    return sum(max(0, offset - at.get(key, 0)) for key, offset in ahead.items())


def _same_place(leader: Tail, follower: Tail) -> bool:
    ahead = {p.key: p.offset for p in leader.positions()}
    behind = {p.key: p.offset for p in follower.positions()}
    finished = leader.detached() | follower.detached()
    alone = ahead.keys() ^ behind.keys()  # one group may have closed a file that the other has finished
    return all(
        ahead.get(key) == behind.get(key) for key in (ahead.keys() | behind.keys()) - (finished & alone)
    )


def _parse_any(parser: Parser, block: Block, columns: Sequence[str]) -> Parsed:
    """Parse as `parse_block`, for any bytes, because no content of a log may end the agent.

    Waits if the host lacks a resource. Any other error makes the lines of the block parse errors.
    """
    try:
        return retried(partial(parse_block, parser, block, columns), f"reading {block.source}")
    except Exception as error:
        log.exception(
            "a block of %s from byte %d breaks its parser", block.source, block.end - len(block.data)
        )
        lines = len(Lines(block.data)) + block.overlong
        text = sample(f"the parser failed on a whole block ({error!r})", block.source)
        return replace(parser.parse(b"", columns), lines=lines, errors=lines, samples=[text])
