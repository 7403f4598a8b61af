"""Which files of a stream are open, which are known and closed, and what became of those that are gone (D-2).

Owns descriptors, the memory of closed files and the search for what is missing. Reads no line. The rules
stand in tail.py; here they become decisions:

- Open: what the pattern leads to, and what was and is not yet read to its end.
- Known: files read to their end and closed (FINISHED), and files that must not be read (FOREIGN): copies,
  compressed forms, and rotated files from before the job. Both are stored with the positions.
- Everything else that carries the name of a rotated file of the stream was never seen, and is read.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from elfmesh.agent.sources import contents
from elfmesh.agent.sources.blocks import LineCutter
from elfmesh.agent.sources.file import SETTLED_S, OpenFile, open_file
from elfmesh.agent.sources.position import (
    FINISHED,
    FOREIGN,
    HEAD_BYTES,
    READING,
    FileKey,
    FilePosition,
    Gap,
    SourceId,
)
from elfmesh.agent.sources.rotated import Entry
from elfmesh.agent.sources.surroundings import Surroundings
from elfmesh.errors import DataError

COMPRESSED = "compressed files are not followed"
CUT = "it was truncated or written anew in place"
REST = "all but what came between the copying and the cut is in"


@dataclass(slots=True)
class _Known:
    """A file that is not open, and what the system said of it when it was last looked at."""

    position: FilePosition
    size: int
    mtime_ns: int = -1

    def stored(self) -> FilePosition:
        """Its position, for a restart; with an unfinished line it is one that was not read to its end."""
        unfinished = self.position.role == FINISHED and self.size > self.position.offset
        return msgspec.structs.replace(self.position, role=READING) if unfinished else self.position


class Followed:
    """The files of one follower.

    Args:
        pattern: see `Tail`.
        stored: `positions` and `known` of an earlier follower.
        read_from: see `Tail`.
        replay: by file, up to where it was read before the restart.
        heads: see `Tail`.
        line_bytes_max: longest line.
        files_max: descriptors at most.
        new_cutter: see `read_blocks`.

    Attributes:
        gaps: what was lost; whoever takes note of it empties the list.
        problems: path -> why it cannot be read.
        waiting: files that are not read yet, for whatever reason.
        heads: see `Tail`.
    """

    def __init__(
        self,
        pattern: str,
        stored: Sequence[FilePosition],
        read_from: str,
        *,
        replay: Mapping[FileKey, int],
        heads: dict[SourceId, int],
        line_bytes_max: int,
        files_max: int,
        new_cutter: Callable[[int], LineCutter] = LineCutter,
    ) -> None:
        self.gaps: list[Gap] = []
        self.problems: dict[str, str] = {}
        self.waiting: set[SourceId] = set()
        self.heads = heads
        self._around = Surroundings(pattern, (p.path for p in stored if p.role == READING))
        self._resume = [p for p in stored if p.role == READING]
        self._known = {p.id: _Known(p, p.offset) for p in stored if p.role != READING}
        self._began_before = bool(stored) or read_from == "resume"
        self._from_end = read_from == "end"
        self._replay = replay
        self._limit, self._files_max = line_bytes_max, files_max
        self._new_cutter = partial(new_cutter, line_bytes_max)
        self._files: dict[SourceId, OpenFile] = {}
        # What is read in place of a lost file, by its own identity.
        self._copies: dict[SourceId, OpenFile] = {}
        self._sizes: dict[SourceId, tuple[int, float]] = {}
        self._nearby: dict[SourceId, Entry] = {}
        self._listed: dict[SourceId, Entry] = {}
        self._first = True
        self._now = 0.0

    @property
    def files(self) -> list[OpenFile]:
        """All open files; what is read in place of lost ones comes first, as it is older."""
        return [*self._copies.values(), *self._files.values()]

    def known(self) -> tuple[FilePosition, ...]:
        """Files that are not open and must not be read again."""
        return tuple(known.stored() for known in self._known.values())

    def close(self) -> None:
        """Give all descriptors back."""
        for file in self.files:
            file.close()
        self._files.clear()
        self._copies.clear()

    def look(self, now: float) -> None:
        """Look which files there are now; open those that are to be read."""
        self._now = now
        self._listed = self._around.listed()
        self.problems = self._around.problems
        self._nearby = self._around.nearby(now) | self._listed
        self.waiting.clear()
        for identity, file in self._files.items():
            file.attached = identity in self._listed
            if file.attached:
                file.path = self._listed[identity].path
        if self._first:
            self._go_on_with_stored()
        self._look_after_known()
        for file in self.files:  # a copy of one that was cut must not be taken for a file of its own
            try:
                if file.replaced(now):
                    self.cut(file, now)
            except OSError as error:
                self.problems[file.path] = error.strerror or str(error)
        unknown = [each for each in self._nearby.values() if self._is_unknown(each)]
        for each in sorted(unknown, key=lambda entry: (entry.mtime_ns, entry.path)):
            self._take_in(each)
        self._first = False

    def cut(self, file: OpenFile, now: float) -> None:
        """A file was truncated or written anew: go on in a copy that was made before, and in it from 0."""
        self._now = now
        lost = file.position
        self._nearby = self._around.nearby(now, at_once=True) | self._listed
        why, copy = CUT, self._copy_of(lost)
        if copy is not None:
            why += f"; {REST} {copy.path}"
            self._go_on(copy, lost)
        self.gaps.append(Gap(file.path, why))
        file.head = b""
        file.start_at(0)
        file.learn_head(0)

    def shut(self, file: OpenFile) -> None:
        """Close a file that was read to its end, and know it again."""
        status = os.fstat(file.fd)
        own = (status.st_dev, status.st_ino)
        compressed = file.inflated is not None
        file.close()
        gone = not status.st_nlink
        if own in self._copies:
            del self._copies[own]
        else:
            del self._files[own]
        if compressed or own != file.id:
            self._remember(Entry(file.path, own, status.st_size, status.st_mtime_ns), FOREIGN)
            gone = True  # it never grows
        elif not gone:
            place = msgspec.structs.replace(file.position, role=FINISHED)
            self._known[own] = _Known(place, status.st_size, status.st_mtime_ns)
        if file.pending and gone:
            self.gaps.append(Gap(file.path, "its last line never ended", file.pending))

    def give_up(self, file: OpenFile, why: str) -> None:
        """Close a compressed file that is damaged."""
        self.gaps.append(Gap(file.path, why))
        file.at_end = True
        self.shut(file)

    # -- what is missing -------------------------------------------------------------------------------

    def _go_on_with_stored(self) -> None:
        """Stored files: under their inode, in a copy or compressed form beside it, or lost."""
        for place in self._resume:
            each = self._nearby.get(place.id)
            if each is not None and contents.holds(each.path, place):
                if self._has_room(each):
                    self._begin(each, place)
                else:
                    self._known[each.id] = _Known(msgspec.structs.replace(place, role=FINISHED), place.offset)
                continue
            copy = self._copy_of(place)
            if copy is not None:
                self._go_on(copy, place)
                if each is not None and not self._was_cut(place):
                    self.gaps.append(Gap(place.path, f"{CUT}; {REST} {copy.path}"))
                continue
            read = self._replay.get(place.key, 0) - place.offset
            if read > 0 or not (self._was_cut(place) or self._is_unseen(place)):
                why = "it was replaced, truncated or deleted while nobody read it"
                self.gaps.append(Gap(place.path, why, read if read > 0 else None))
        self._resume = []

    def _was_cut(self, place: FilePosition) -> bool:
        """Whether the file was seen to begin anew before the restart: that loss is counted already."""
        others = (*self._resume, *(known.position for known in self._known.values()))
        return any(p.id == place.id and p.key != place.key for p in others)

    def _is_unseen(self, place: FilePosition) -> bool:
        """Whether a file that was empty may be one of the rotated ones that nobody has seen yet."""
        unseen = (each for each in self._nearby.values() if each.id not in self._listed)
        return not place.head and any(map(self._is_unknown, unseen))

    def _copy_of(self, place: FilePosition) -> Entry | None:
        """A rotated file that begins with what was read of a lost one; plain and newest ones first."""
        if not place.head:
            return None
        found = [each for each in self._nearby.values() if self._may_be_copy(each)]
        found.sort(key=lambda each: (contents.is_compressed(each.path), -each.mtime_ns))
        return next((each for each in found if contents.holds(each.path, place)), None)

    def _may_be_copy(self, each: Entry) -> bool:
        if each.id in self._files or each.id in self._copies:
            return False
        return self._around.is_rotated(each.path)

    def _go_on(self, copy: Entry, place: FilePosition) -> None:
        """Read the rest of a lost file in its copy, under the lost one's name."""
        file = self._open(copy, place.id, place)
        if file is not None:
            file.attached = False
            self._copies[copy.id] = file
            self._known.pop(copy.id, None)

    def _look_after_known(self) -> None:
        """Closed files that have grown are read on; those that are gone or others now are forgotten."""
        for identity in list(self._known):
            known = self._known.get(identity)
            if known is None:  # it became the continuation of another one
                continue
            place, each = known.position, self._nearby.get(identity)
            if each is None:
                self._forget(known)
                continue
            changed = (each.size, each.mtime_ns) != (known.size, known.mtime_ns)
            if changed and not self._is_still(each, place):
                self._forget(known)
                continue
            grown = place.role == FINISHED and each.size > known.size
            known.size, known.mtime_ns = (known.size if grown else each.size), each.mtime_ns
            if place.role == FOREIGN and identity in self._listed and contents.is_compressed(each.path):
                self.problems[each.path] = COMPRESSED
            if grown and self._has_room(each):
                self._begin(each, place)

    def _is_still(self, each: Entry, place: FilePosition) -> bool:
        """Whether a closed file is what it was; of foreign ones, raw bytes are compared."""
        if place.role == FINISHED:
            return contents.holds(each.path, place)
        return each.size >= place.offset and contents.begins_as(each.path, place)

    def _forget(self, known: _Known) -> None:
        """A closed file is gone: what it had beyond our offset is in its compressed form, or lost."""
        place = known.position
        del self._known[place.id]
        if place.role == FOREIGN or not place.head:
            return
        copy = self._copy_of(place)
        if copy is None:
            if known.size > place.offset:
                why = "it was deleted before its last line had ended"
                self.gaps.append(Gap(place.path, why, known.size - place.offset))
        elif contents.ends_at(copy.path, place):
            self._remember(copy, FOREIGN)
        else:
            self._go_on(copy, place)

    # -- what is new -----------------------------------------------------------------------------------

    def _is_unknown(self, each: Entry) -> bool:
        if each.id in self._files or each.id in self._copies or each.id in self._known:
            return False
        return each.id in self._listed or self._around.is_rotated(each.path)

    def _take_in(self, each: Entry) -> None:
        """A file that is not known: read it, or know it for what it is."""
        attached, compressed = each.id in self._listed, contents.is_compressed(each.path)
        if self._first and not self._began_before:
            if compressed or not attached:
                self._remember(each, FOREIGN if compressed else FINISHED)
                if compressed and attached:
                    self.problems[each.path] = COMPRESSED
            elif self._has_room(each):
                self._begin(each, from_end=self._from_end)
            return
        rotated = self._around.is_rotated(each.path)
        if (rotated and self._is_copy(each, compressed)) or (compressed and not rotated):
            self._remember(each, FOREIGN)
        elif compressed and not self._is_settled(each):
            self.waiting.add(each.id)
        elif self._has_room(each):
            self._begin(each)

    def _is_copy(self, each: Entry, compressed: bool) -> bool:
        """Whether it is a copy of an open file, or of a closed one that is still there."""
        for file in self._files.values():
            if file.inflated is None and contents.is_copy(each.path, file.fd):
                return True
        paths = [self._nearby[known].path for known in self._known if known in self._nearby]
        return any(contents.is_copy_of(each.path, path) for path in paths if compressed or path != each.path)

    def _is_settled(self, each: Entry) -> bool:
        """Whether a compressed file is complete, as far as not growing for a while can tell."""
        size, since = self._sizes.get(each.id, (-1, 0.0))
        if size != each.size:
            self._sizes[each.id] = (each.size, self._now)
            return False
        return self._now - since >= SETTLED_S

    def _remember(self, each: Entry, role: int) -> None:
        """Know a file without reading it: not at all (FOREIGN), or only what is added to it."""
        try:
            fd = os.open(each.path, contents.READ_ONLY)
        except OSError as error:
            self.problems[each.path] = error.strerror or str(error)
            return
        try:
            place = contents.place_at_end(each.path, fd, role, self._limit)
        finally:
            os.close(fd)
        if place.id == each.id:
            self._known[each.id] = _Known(place, each.size, each.mtime_ns)

    # -- descriptors -----------------------------------------------------------------------------------

    def _begin(self, each: Entry, place: FilePosition | None = None, *, from_end: bool = False) -> None:
        file = self._open(each, each.id, place)
        if file is None:
            return
        if place is None and from_end:
            file.start_at(contents.last_line_start(file.fd, each.size, self._limit))
        file.attached = each.id in self._listed
        self._files[each.id] = file
        self._known.pop(each.id, None)
        self._sizes.pop(each.id, None)

    def _open(self, each: Entry, identity: SourceId, place: FilePosition | None) -> OpenFile | None:
        """The file, at its place; None, a problem, and the watermark waits, if it cannot be read."""
        try:
            file = open_file(each.path, identity, self._new_cutter)
        except OSError as error:
            self._cannot(each, error)
            return None
        status = os.fstat(file.fd)
        if (status.st_dev, status.st_ino) != each.id:  # rotated since it was listed: the next look knows more
            file.close()
            self._cannot(each, OSError(errno.ESTALE, "another file has its name since a moment ago"))
            return None
        try:
            if place is not None:
                file.resume(place)
            else:
                file.learn_head(self.heads.get(each.id, HEAD_BYTES))
            return file
        except OSError as error:
            file.close()
            self._cannot(each, error)
        except DataError as error:
            file.close()
            self.gaps.append(Gap(each.path, str(error)))
            self._remember(each, FOREIGN)
        return None

    def _cannot(self, each: Entry, error: OSError) -> None:
        self.problems[each.path] = error.strerror or str(error)
        self.waiting.add(each.id)

    def _has_room(self, each: Entry) -> bool:
        """Whether there is a descriptor for one file more; closes the one that has been silent longest."""
        if len(self._files) + len(self._copies) < self._files_max:
            return True
        idle = [f for f in self._files.values() if f.at_end and f.silent_since is not None]
        if not idle:
            self.waiting.add(each.id)
            self.problems[each.path] = f"it waits: {self._files_max} files are being read"
            return False
        self.shut(min(idle, key=lambda file: file.silent_since or 0.0))
        return True
