"""Follow the files behind a path or glob while they grow, rotate, shrink and vanish (D-2).

Owns the order in which files are read, and how far. Refuses to know formats, jobs and time zones. `poll` is
synchronous and cheap: the pump calls it in a thread. Rules:

- A file is (device, inode, generation); generation is a hash of its first KiB, as long as it was when first
  read. Before it is read on, its beginning and the bytes before the offset are compared.
- Only newline-terminated lines are records; a block always ends at a line's end, so every offset is a
  line's beginning.
- Rename rotation is exact: the old file is finished through its open descriptor, before the new one, and
  closed after it has been silent for `grace_s`. It is not forgotten: if it grows after that, it is read on.
- A file that came and was rotated between two looks, or while no agent looked, is found by its name and read
  from its beginning; what was there when the job began is not. A copy of a file is told by its content.
- A stored or truncated file is looked for by inode, then by content among the rotated files beside it,
  compressed ones included. Bytes that are in none of them are a `Gap`.
- Compressed files are read for what was not read before they were compressed, and else never.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
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
"""Descriptors one follower holds. A file at its end gives its own up to another, the longest silent first."""

READ_MIN = 4 << 10
"""What is left of a poll is not cut into smaller blocks than this."""

ReadFrom: TypeAlias = Literal["beginning", "end", "resume"]


class Tail:
    """A follower of one path or glob.

    Args:
        pattern: a path, or a glob as in the shell (`**` for any directories).
        positions: where to resume, and what is known (`positions` and `known` of an earlier follower).
        read_from: where to begin files that are there at the first poll and not named in `positions`;
            "resume" (implied by `positions`): such files came meanwhile, rotated ones included.
        boundaries: offsets that no block may reach across (the worker's `replay_until`).
        heads: length of the first bytes that name a file's generation, for files that another follower has
            open: the two must agree on what they call it.
        grace_s: how long a rotated or deleted file is kept open after its last growth.
        framing: which lines are one record; None: each is one.
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
        """The open files and whether each is read to its end; those that wait to be opened are not."""
        states: dict[SourceId, SourceState] = {}
        for file in self._followed.files:
            before = states.get(file.id, SourceState(file.id, True))
            generations = (*before.generations, file.generation)
            at_end = file.at_end and before.at_end and not file.cutter.held
            states[file.id] = SourceState(file.id, at_end, generations)
        waiting = sorted(self._followed.waiting - states.keys())
        return [*states.values(), *(SourceState(each, False) for each in waiting)]

    def positions(self) -> tuple[FilePosition, ...]:
        """Where reading would go on, for every open file; one that was empty so far has `head` 0."""
        return tuple(file.position for file in self._followed.files)

    def known(self) -> tuple[FilePosition, ...]:
        """Files that are not open and must not be read again; to be stored with `positions`."""
        return self._followed.known()

    def detached(self) -> frozenset[FileKey]:
        """Open files that the pattern no longer leads to and that are read to their end."""
        return frozenset(f.position.key for f in self._followed.files if not f.attached and f.at_end)

    def stop_also_at(self, other: Tail) -> None:
        """Take over the boundaries of another follower that stands at the same place."""
        for key, stops in other._boundaries.items():
            self._boundaries.setdefault(key, set()).update(stops)

    def close(self) -> None:
        self._followed.close()

    def discover(self) -> None:
        self._followed.look(self._clock())

    def look(self) -> None:
        """See which files there are and which of them have grown; read nothing."""
        self.discover()
        for file in self._followed.files:
            try:
                file.at_end = file.at_end and file.size() <= file.offset + file.pending
            except OSError as error:
                self.problems[file.path] = error.strerror or str(error)
                file.at_end = False

    def poll(self, bytes_max: int = POLL_BYTES, limits: Mapping[FileKey, int] | None = None) -> list[Block]:
        """Read what has been added, until `bytes_max` or the end of all files.

        Rotated files come first, one after the other; then the others take turns, a block each. `limits` are
        offsets per file that must not be passed.
        """
        self.discover()
        blocks: list[Block] = []
        attached: list[OpenFile] = []
        for file in self._followed.files:
            if file.attached:
                attached.append(file)
            while not file.attached and bytes_max > 0:
                taken = self._read(file, blocks, limits or {}, bytes_max)
                bytes_max -= taken
                if not taken:
                    break
        while attached and bytes_max > 0:
            still: list[OpenFile] = []
            for file in attached:
                taken = self._read(file, blocks, limits or {}, bytes_max)
                bytes_max -= taken
                if taken:
                    still.append(file)
            attached = still
        self._retire()
        return blocks

    def _read(
        self, file: OpenFile, blocks: list[Block], limits: Mapping[FileKey, int], bytes_max: int
    ) -> int:
        """One block of one file; returns the bytes read, 0 when there is nothing (more) to read.

        A file that fails stays open and unfinished: its lines are not passed over, and people learn why. A
        damaged compressed one ends there.
        """
        try:
            block, taken = self._read_block(file, limits, bytes_max)
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
        self, file: OpenFile, limits: Mapping[FileKey, int], bytes_max: int
    ) -> tuple[Block | None, int]:
        if file.replaced(self._clock()):
            self._followed.cut(file, self._clock())
        size, at = file.size(), file.offset + file.pending
        file.at_end = size <= at
        if file.at_end:
            # What may go on is waited for, and then it has ended: its offset is stored like any other.
            silent = self._clock() - file.grown_at >= self._open_s
            return (file.close_record() if file.cutter.held and silent else None), 0
        if not file.head:
            file.learn_head(self._followed.heads.get(file.id, HEAD_BYTES))
        key = file.position.key
        stops = [stop for stop in self._boundaries.get(key, ()) if at < stop]
        stop = min((*stops, limits[key])) if key in limits else min(stops, default=size + 1)
        room = min(self._block_bytes, max(bytes_max, READ_MIN), size - at, stop - at)
        if room <= 0:
            return None, 0
        block, taken = file.read(room)
        file.grown_at = self._clock()
        file.at_end = file.offset + file.pending >= file.size()
        return block, taken

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
