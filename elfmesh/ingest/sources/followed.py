"""State of the files of a stream: open, known and closed, or gone (D-2).

tail.py has the rules, which this module implements:

- Open: the files of the pattern, and earlier ones that are not read to their end.
- Known: files that were read to their end and closed (FINISHED), and files that must not be read (FOREIGN):
  copies, compressed forms, and rotated files from before the job. Both are stored with the positions.
- Any other file with the name of a rotated file of the stream has never been seen, and is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.birth import is_younger
from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.ingest.sources.file import OpenFile
from elfmesh.ingest.sources.held import Held
from elfmesh.ingest.sources.known import KnownFile, Settling
from elfmesh.ingest.sources.position import (
    FINISHED,
    FOREIGN,
    READING,
    FileKey,
    FilePosition,
    Gap,
    SourceId,
)
from elfmesh.ingest.sources.rotated import RotatedFile, is_rotated
from elfmesh.ingest.sources.succession import UNSEEN, FileNames, Heir, identity_of, judge
from elfmesh.ingest.sources.surroundings import NeighbourFiles

COMPRESSED = "compressed files are not followed"
CUT = "it was truncated or rewritten in place"
REST = "all lines except those between the copy and the truncation are in"


class Followed(Held):
    """Files of one follower; see `Tail`.

    `stored` has the `positions` and `known` of an earlier follower; `replay` has, by file, the offset up to
    which it was read before.
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
        grace_s: float,
        new_cutter: Callable[[int], LineCutter] = LineCutter,
    ) -> None:
        super().__init__(stored, heads, files_max, line_bytes_max, partial(new_cutter, line_bytes_max))
        self._around = NeighbourFiles(pattern, (p.path for p in stored if p.role == READING))
        self._resume = [p for p in stored if p.role == READING]
        self._began_before = bool(stored) or read_from == "resume"
        self._from_end = read_from == "end"
        self._replay = replay
        self._grace_s = grace_s
        self._settling = Settling()
        self._names = FileNames(self._resume)
        self._nearby: dict[SourceId, RotatedFile] = {}
        self._waited: dict[SourceId, RotatedFile] = {}
        self._first = True
        self._now = 0.0

    def look(self, now: float) -> None:
        self._now = now
        self._listed = self._around.listed()
        self.problems = self._around.problems
        before, self._nearby = self._nearby, self._around.nearby(now) | self._listed
        self._waited = {identity: before[identity] for identity in self.waiting if identity in before}
        self.waiting.clear()
        for identity, file in self._files.items():
            file.attached = identity in self._listed
            if file.attached:
                file.path = self._listed[identity].path
        successors = self._names.look(self._listed, self._around.is_rotated)
        if self._first:
            self._go_on_with_stored()
        self._look_after_known()
        for each, identity in successors:
            self._succeed(each, identity)
        self._inherit()
        for file in self.files:  # a copy of a truncated file must not be treated as a separate file
            try:
                if file.replaced(now):
                    self.cut(file, now)
            except OSError as error:
                self.problems[file.path] = error.strerror or str(error)
        unknown = [each for each in self._nearby.values() if self._is_unknown(each)]
        for each in sorted(unknown, key=lambda entry: (entry.mtime_ns, entry.path)):
            self._take_in(each)
        for identity, each in self._waited.items():
            if identity not in self._nearby and not self._is_held(identity):
                self.gaps.append(Gap(each.path, "it was deleted before it could be read"))
        self._first = False

    def cut(self, file: OpenFile, now: float) -> None:
        """Handle a truncated or rewritten file: continue in an earlier copy, and read the file from 0."""
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

    # -- missing files -------------------------------------------------------------------------------

    def _go_on_with_stored(self) -> None:
        for place in self._resume:
            each = self._nearby.get(place.id)
            if each is not None and contents.holds(each.path, place):
                if self._has_room(each):
                    self._begin(each, place)
                else:
                    self._known[each.id] = KnownFile(
                        msgspec.structs.replace(place, role=FINISHED), place.offset
                    )
                continue
            copy = self._copy_of(place)
            if copy is not None:
                self._go_on(copy, place)
                if each is not None and copy.path != place.path and self._is_cut_now(place, each, copy):
                    self.gaps.append(Gap(place.path, f"{CUT}; {REST} {copy.path}"))
                continue
            read = self._replay.get(place.key, 0) - place.offset
            if read > 0 or not (self._was_cut(place) or self._is_unseen(place)):
                why = "it was replaced, truncated or deleted while no agent read it"
                self.gaps.append(Gap(place.path, why, read if read > 0 else None))
        self._resume = []

    def _was_cut(self, place: FilePosition) -> bool:
        """Return whether the file was seen to restart before this boot; that loss is counted already."""
        others = (*self._resume, *(known.position for known in self._known.values()))
        return any(p.id == place.id and p.key != place.key for p in others)

    def _is_cut_now(self, place: FilePosition, each: RotatedFile, copy: RotatedFile) -> bool:
        """Return whether a file was copied and truncated; a new file may have got its inode instead."""
        return not self._was_cut(place) and not is_younger(each.path, copy.path)

    def _is_unseen(self, place: FilePosition) -> bool:
        """Return whether a file that was empty may be one of the rotated files that were never seen."""
        unseen = (each for each in self._nearby.values() if each.id not in self._listed)
        return not place.head and any(map(self._is_unknown, unseen))

    def _copy_of(self, place: FilePosition) -> RotatedFile | None:
        if not place.head:
            return None
        found = [each for each in self._nearby.values() if self._may_be_copy(each, place)]
        found.sort(key=lambda each: (contents.is_compressed(each.path), -each.mtime_ns))
        return next((each for each in found if contents.holds(each.path, place)), None)

    def _may_be_copy(self, each: RotatedFile, place: FilePosition) -> bool:
        if each.id in self._files or each.id in self._copies:
            return False
        return each.path == place.path or self._around.is_rotated(each.path)

    def _go_on(self, copy: RotatedFile, place: FilePosition) -> None:
        if copy.path == place.path:
            self._begin(copy, place)
            return
        file = self._open(copy, place.id, place)
        if file is not None:
            file.attached = False
            self._copies[copy.id] = file
            self._known.pop(copy.id, None)

    def _look_after_known(self) -> None:
        for identity in list(self._known):
            known = self._known.get(identity)
            if known is None:  # it has become the continuation of another file
                continue
            place, each = known.position, self._nearby.get(identity)
            if each is None:
                self._forget(known)
                continue
            changed = (each.size, each.mtime_ns) != (known.size, known.mtime_ns)
            if changed and not known.is_still(each):
                self._forget(known)
                continue
            grown = place.role == FINISHED and each.size > known.size
            known.size, known.mtime_ns = (known.size if grown else each.size), each.mtime_ns
            if place.role == FOREIGN and identity in self._listed and contents.is_compressed(each.path):
                self.problems[each.path] = COMPRESSED
            if grown and self._has_room(each):
                self._begin(each, place)

    def _forget(self, known: KnownFile) -> None:
        place = known.position
        del self._known[place.id]
        if place.role == FOREIGN or not place.head:
            return
        copy = self._copy_of(place)
        if copy is None:
            if known.size > place.offset:
                why = "it was deleted before its last line had ended"
                self.gaps.append(Gap(place.path, why, known.size - place.offset))
            elif self._names.has_passed_on(place.id):
                self.gaps.append(Gap(place.path, UNSEEN))
        elif contents.ends_at(copy.path, place):
            self._remember(copy, FOREIGN)
        else:
            self._go_on(copy, place)

    # -- new files -----------------------------------------------------------------------------------

    def _succeed(self, each: RotatedFile, before: SourceId) -> None:
        """Handle a file that has taken a log's name: test for a copy, and for lost files in between."""
        if before in self._heirs and before not in self._nearby:
            file: OpenFile | None = self._heirs.pop(before).file
        else:
            file = self._files.get(before)
        if file is None or not self._is_unknown(each):
            return
        rotated = [other for other in self._nearby.values() if is_rotated(other.path, [each.path])]
        unseen = [other for other in rotated if self._is_unknown(other)]
        unseen.sort(key=lambda other: other.mtime_ns)
        try:
            found = judge(file, each, rotated, unseen, self._is_held)
        except OSError as error:  # vanished again or unreadable; the next look decides
            self._cannot(each, error)
            return
        if found.is_copy:
            self._waited.pop(before, None)
            self._heirs[each.id] = Heir(file, self._now + self._grace_s)
            file.silent_since = None
        elif found.lost:
            self.gaps.append(Gap(each.path, found.lost))

    def _inherit(self) -> None:
        """Continue in copies that have replaced logs, when no process can write to the old files any more."""
        for identity, heir in list(self._heirs.items()):
            each, file = self._nearby.get(identity), heir.file
            if each is None:
                del self._heirs[identity]
                continue
            if self._now < heir.since:
                self.waiting.add(identity)
                continue
            try:
                common, is_whole = heir.compared(each.path)
            except OSError as error:
                self._cannot(each, error)
                continue
            del self._heirs[identity]
            if not is_whole:
                self._begin(each, behind=common)
                continue
            self._begin(each, file.position)
            if identity in self._files:
                del self._files[identity_of(file)]
                file.close()
            else:
                self._heirs[identity] = heir

    def _is_unknown(self, each: RotatedFile) -> bool:
        if self._is_held(each.id):
            return False
        return each.id in self._listed or self._around.is_rotated(each.path)

    def _take_in(self, each: RotatedFile) -> None:
        attached, compressed = each.id in self._listed, contents.is_compressed(each.path)
        if self._first and not self._began_before:
            if compressed or not attached:
                self._remember(each, FOREIGN if compressed else FINISHED)
                if compressed and attached:
                    self.problems[each.path] = COMPRESSED
            elif self._has_room(each):
                self._begin(each, behind=each.size if self._from_end else 0)
            return
        rotated = self._around.is_rotated(each.path)
        if (rotated and self._is_copy(each, compressed)) or (compressed and not rotated):
            self._remember(each, FOREIGN)
        elif compressed and not self._settling.is_settled(each, self._now):
            self.waiting.add(each.id)
        elif self._has_room(each):
            self._begin(each)

    def _is_copy(self, each: RotatedFile, compressed: bool) -> bool:
        for file in self._files.values():
            if file.inflated is None and contents.is_copy(each.path, file.fd):
                return True
        paths = [self._nearby[known].path for known in self._known if known in self._nearby]
        return any(contents.is_copy_of(each.path, path) for path in paths if compressed or path != each.path)
