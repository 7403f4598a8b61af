"""Follower of the files of a path or glob while they grow, rotate, shrink and vanish (D-2).

Owns the order in which files are read, and the offsets. Does not depend on formats, jobs or time zones.
`poll` is synchronous; the pump calls it in a thread. Rules:

- A file is identified by (device, inode, generation); generation is a hash of its first KiB, or of its first
  bytes if it was shorter when first read. Before reading continues, the beginning and the bytes before the
  offset are compared.
- Only newline-terminated lines are records. A block always ends at the end of a line, so every offset is the
  beginning of a line.
- Rotation by renaming is exact: the old file is read to its end through its descriptor, before the new one,
  and is closed after it has been silent for `grace_s`. It stays known: if it grows, reading continues.
- A file that appeared and was rotated between two looks, or while no agent ran, is recognised by its name and
  read from its beginning; files that existed before the job are not. A copy is recognised by content.
- A stored or truncated file is searched by inode, then by content among the rotated files in its directory,
  including compressed ones. Bytes that are in none of them are a `Gap`.
- Compressed files are read only for lines that were not read before the compression.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal, TypeAlias

from elfmesh.errors import DataError
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.sources.blocks import BLOCK_BYTES, POLL_BYTES, Block
from elfmesh.ingest.sources.file import OpenFile
from elfmesh.ingest.sources.followed import Followed
from elfmesh.ingest.sources.position import (
    HEAD_BYTES,
    FileKey,
    FilePosition,
    Gap,
    SourceId,
    SourceState,
    replay_ends,
)
from elfmesh.ingest.sources.records import cutter_for
from elfmesh.limits import LINE_BYTES_MAX

GRACE_S = 5.0
FILES_MAX = 512
"""Maximum number of descriptors of one follower. Files at their end, the longest silent first, give theirs up
to others."""

READ_MIN = 4 << 10
"""Minimum size of a block at the end of a poll."""

ReadFrom: TypeAlias = Literal["beginning", "end", "resume"]
Passed: TypeAlias = Callable[[OpenFile], int]
"""Returns the offset up to which a file need not be read, from its present offset on."""


class Tail:
    """Follower of one path or glob.

    Args:
        pattern: a path, or a glob as in the shell (`**` for any directories).
        positions: where to resume, and known files (`positions` and `known` of an earlier follower).
        read_from: start in files that exist at the first poll and are not in `positions`; "resume" (implied
            by `positions`): such files are new, including rotated ones.
        boundaries: offsets that no block may cross (the worker's `replay_until`).
        heads: number of first bytes in the generations of files that another follower has open, because both
            must use the same generation.
        grace_s: time for which a rotated or deleted file stays open after its last growth.
        framing: rule for records of several lines; None: each line is a record.
    """

    def __init__(
        self,
        pattern: str,
        *,
        positions: Iterable[FilePosition] = (),
        read_from: ReadFrom = "beginning",
        boundaries: Iterable[FilePosition] = (),
        heads: Mapping[SourceId, int] | None = None,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
        files_max: int = FILES_MAX,
        framing: Framing | None = None,
    ) -> None:
        self.pattern = pattern
        self._open_s = framing.timeout_s if framing is not None else 0.0
        self._boundaries: dict[FileKey, set[int]] = {}
        stops = list(boundaries)
        for stop in stops:
            self._boundaries.setdefault(stop.key, set()).add(stop.offset)
        self._followed = Followed(
            pattern,
            list(positions),
            read_from,
            replay=replay_ends(stops),
            heads=dict(heads or {}),
            line_bytes_max=line_bytes_max,
            files_max=files_max,
            grace_s=grace_s,
            new_cutter=cutter_for(framing),
        )
        self._block_bytes, self._grace_s, self._clock = block_bytes, grace_s, clock

    @property
    def gaps(self) -> list[Gap]:
        return self._followed.gaps

    def take_gaps(self) -> list[Gap]:
        found, self._followed.gaps = self._followed.gaps, []
        return found

    @property
    def problems(self) -> dict[str, str]:
        return self._followed.problems

    @property
    def at_end(self) -> bool:
        return not self._followed.waiting and all(file.at_end for file in self._followed.files)

    def use_heads(self, heads: Mapping[SourceId, int]) -> None:
        self._followed.heads = dict(heads)

    def sources(self) -> list[SourceState]:
        """Return the open files and whether each is read to its end; files that wait to be opened are not."""
        states: dict[SourceId, SourceState] = {}
        for file in self._followed.files:
            before = states.get(file.id, SourceState(file.id, True))
            generations = (*before.generations, file.generation)
            at_end = file.at_end and before.at_end and not file.cutter.held
            states[file.id] = SourceState(file.id, at_end, generations)
        waiting = sorted(self._followed.waiting - states.keys())
        return [*states.values(), *(SourceState(each, False) for each in waiting)]

    def positions(self) -> tuple[FilePosition, ...]:
        """Return the position of every open file; a file that was empty so far has `head` 0."""
        return tuple(file.position for file in self._followed.files)

    def known(self) -> tuple[FilePosition, ...]:
        return self._followed.known()

    def detached(self) -> frozenset[FileKey]:
        """Return the open files that the pattern no longer matches and that are read to their end."""
        return frozenset(f.position.key for f in self._followed.files if not f.attached and f.at_end)

    def stop_also_at(self, other: Tail) -> None:
        """Adopt the boundaries of another follower at the same position."""
        for key, stops in other._boundaries.items():
            self._boundaries.setdefault(key, set()).update(stops)

    def close(self) -> None:
        self._followed.close()

    def discover(self) -> None:
        self._followed.look(self._clock())

    def look(self) -> None:
        """Find the files and which of them have grown, without reading."""
        self.discover()
        for file in self._followed.files:
            try:
                file.at_end = file.at_end and file.size() <= file.offset + file.pending
            except OSError as error:
                self.problems[file.path] = error.strerror or str(error)
                file.at_end = False

    def poll(
        self,
        bytes_max: int = POLL_BYTES,
        limits: Mapping[FileKey, int] | None = None,
        passed: Passed | None = None,
    ) -> list[Block]:
        """Read new lines, until `bytes_max` or the end of all files.

        Rotated files are read first, one after the other; then the others in turn, one block each. `limits`
        are offsets per file that must not be passed. `passed`: see `Passed`.
        """
        self.discover()
        if passed is not None:  # it may pass over the next block, once the reader has seen this one
            bytes_max = min(bytes_max, self._block_bytes)
        blocks: list[Block] = []
        take = partial(self._read, blocks, limits or {}, passed)
        attached: list[OpenFile] = []
        for file in self._followed.files:
            if file.attached:
                attached.append(file)
            while not file.attached and bytes_max > 0:
                taken = take(file, bytes_max)
                bytes_max -= taken
                if not taken:
                    break
        while attached and bytes_max > 0:
            still: list[OpenFile] = []
            for file in attached:
                taken = take(file, bytes_max)
                bytes_max -= taken
                if taken:
                    still.append(file)
            attached = still
        self._retire()
        return blocks

    def _read(
        self,
        blocks: list[Block],
        limits: Mapping[FileKey, int],
        passed: Passed | None,
        file: OpenFile,
        bytes_max: int,
    ) -> int:
        """Read one block of one file; returns the bytes read, 0 if there is nothing (more) to read.

        A file that fails stays open and unread, so that its lines are not skipped, and its problem is shown.
        A damaged compressed file ends there.
        """
        try:
            block, taken = self._read_block(file, limits, passed, bytes_max)
        except DataError as error:
            self._followed.give_up(file, str(error))
            return 0
        except OSError as error:
            self.problems[file.path] = error.strerror or str(error)
            file.at_end = False
            return 0
        if block is not None:
            blocks.append(block)
        if file.cutter.held and self._cut_here(file, limits) and (last := file.close_record()) is not None:
            blocks.append(last)
        return taken

    def _read_block(
        self, file: OpenFile, limits: Mapping[FileKey, int], passed: Passed | None, bytes_max: int
    ) -> tuple[Block | None, int]:
        if file.replaced(self._clock()):
            self._followed.cut(file, self._clock())
        size, at = file.size(), file.offset + file.pending
        file.at_end = size <= at
        if file.at_end:
            # A record that may continue is awaited, and then ends; its offset is stored like any other.
            silent = self._clock() - file.grown_at >= self._open_s
            return (file.close_record() if file.cutter.held and silent else None), 0
        if not file.head:
            file.learn_head(self._followed.heads.get(file.id, HEAD_BYTES))
        if passed is not None:
            self._pass_over(file, passed(file), limits)
            size, at = file.size(), file.offset + file.pending
            file.at_end = size <= at
        stop = min(self._stops(file, limits), default=size + 1)
        room = min(self._block_bytes, max(bytes_max, READ_MIN), size - at, stop - at)
        if room <= 0:
            return None, 0
        block, taken = file.read(room)
        file.grown_at = self._clock()
        file.at_end = file.offset + file.pending >= file.size()
        return block, taken

    def _pass_over(self, file: OpenFile, to: int, limits: Mapping[FileKey, int]) -> None:
        stop = min(self._stops(file, limits), default=to)
        if file.inflated is None:
            to = min(to, stop)
        if file.offset + file.pending < to <= stop:
            file.pass_over(to)

    def _stops(self, file: OpenFile, limits: Mapping[FileKey, int]) -> list[int]:
        at, key = file.offset + file.pending, file.position.key
        stops = [stop for stop in self._boundaries.get(key, ()) if at < stop]
        return [*stops, limits[key]] if key in limits else stops

    def _cut_here(self, file: OpenFile, limits: Mapping[FileKey, int]) -> bool:
        at, key = file.offset + file.pending, file.position.key
        return at == limits.get(key) or at in self._boundaries.get(key, ())

    def _retire(self) -> None:
        now = self._clock()
        for file in self._followed.files:
            if not file.at_end or file.cutter.held:
                file.silent_since = None
            elif file.silent_since is None:
                file.silent_since = now
            elif not file.attached and now - file.silent_since >= self._grace_s:
                self._followed.shut(file)
