"""Open files of a follower, and files that are known and closed (D-2)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

import msgspec

from elfmesh.errors import DataError
from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.ingest.sources.file import OpenFile, open_file
from elfmesh.ingest.sources.known import KnownFile, remembered
from elfmesh.ingest.sources.position import (
    FINISHED,
    FOREIGN,
    HEAD_BYTES,
    READING,
    FilePosition,
    Gap,
    SourceId,
)
from elfmesh.ingest.sources.rotated import RotatedFile
from elfmesh.ingest.sources.succession import Heir, identity_of


class Held:
    """Files that are open or known; see `Tail`.

    Attributes:
        gaps: losses; the caller that counts them empties the list.
        problems: path -> why it cannot be read.
        waiting: files that cannot be read yet.
    """

    def __init__(
        self,
        stored: Sequence[FilePosition],
        heads: dict[SourceId, int],
        files_max: int,
        line_bytes_max: int,
        new_cutter: Callable[[], LineCutter],
    ) -> None:
        self.gaps: list[Gap] = []
        self.problems: dict[str, str] = {}
        self.waiting: set[SourceId] = set()
        self.heads = heads
        self._known = {p.id: KnownFile(p, p.offset) for p in stored if p.role != READING}
        self._files: dict[SourceId, OpenFile] = {}
        # Files that are read in place of lost ones, and copies that are not read yet; by their own identity.
        self._copies: dict[SourceId, OpenFile] = {}
        self._heirs: dict[SourceId, Heir] = {}
        self._listed: dict[SourceId, RotatedFile] = {}
        self._files_max, self._limit, self._new_cutter = files_max, line_bytes_max, new_cutter

    @property
    def files(self) -> list[OpenFile]:
        """Return all open files; replacements of lost files come first, because they are older."""
        return [*self._copies.values(), *self._files.values()]

    def known(self) -> tuple[FilePosition, ...]:
        """Return the files that are not open and must not be read again."""
        return tuple(known.stored() for known in self._known.values())

    def close(self) -> None:
        for file in self.files:
            file.close()
        self._files.clear()
        self._copies.clear()

    def shut(self, file: OpenFile) -> None:
        """Close a file that was read to its end, and record it as known."""
        status, own = os.fstat(file.fd), identity_of(file)
        compressed = file.inflated is not None
        file.close()
        gone = not status.st_nlink
        if self._copies.pop(own, None) is None:
            del self._files[own]
        if compressed:
            self._remember(RotatedFile(file.path, own, status.st_size, status.st_mtime_ns), FOREIGN)
            gone = True  # it cannot grow any more
        elif not gone:
            device, inode = own
            place = msgspec.structs.replace(file.position, device=device, inode=inode, role=FINISHED)
            self._known[own] = KnownFile(place, status.st_size, status.st_mtime_ns)
        if file.pending and gone:
            self.gaps.append(Gap(file.path, "its last line never ended", file.pending))

    def give_up(self, file: OpenFile, why: str) -> None:
        self.gaps.append(Gap(file.path, why))
        file.at_end = True
        self.shut(file)

    def _is_held(self, identity: SourceId) -> bool:
        held = (self._files, self._copies, self._known, self._heirs)
        return any(identity in each for each in held)

    def _remember(self, each: RotatedFile, role: int) -> None:
        """Record a file without reading it: it is never read (FOREIGN), or only what is added to it."""
        try:
            known = remembered(each, role, self._limit)
        except OSError as error:
            self.problems[each.path] = error.strerror or str(error)
            return
        if known is not None:
            self._known[each.id] = known

    def _begin(self, each: RotatedFile, place: FilePosition | None = None, *, behind: int = 0) -> None:
        """Read a file from a position, or from after the last line that ends within `behind` bytes."""
        file = self._open(each, each.id if place is None else place.id, place)
        if file is None:
            return
        if behind:
            file.start_at(contents.last_line_start(file.fd, behind, self._limit))
        file.attached = each.id in self._listed
        self._files[each.id] = file
        self._known.pop(each.id, None)

    def _open(self, each: RotatedFile, identity: SourceId, place: FilePosition | None) -> OpenFile | None:
        """Open a file at its position.

        Returns None if it cannot be read. The file is then in `problems`, and the watermark waits.
        """
        try:
            file = open_file(each.path, identity, self._new_cutter)
        except OSError as error:
            self._cannot(each, error)
            return None
        status = os.fstat(file.fd)
        if (status.st_dev, status.st_ino) != each.id:  # rotated since it was listed; the next look decides
            file.close()
            self._cannot(each, OSError(errno.ESTALE, "another file took its name a moment ago"))
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

    def _cannot(self, each: RotatedFile, error: OSError) -> None:
        self.problems[each.path] = error.strerror or str(error)
        self.waiting.add(each.id)

    def _has_room(self, each: RotatedFile) -> bool:
        if len(self._files) + len(self._copies) < self._files_max:
            return True
        needed = [heir.file for heir in self._heirs.values()]
        idle = [
            f for f in self._files.values() if f.at_end and f.silent_since is not None and f not in needed
        ]
        if not idle:
            self.waiting.add(each.id)
            self.problems[each.path] = f"it waits: {self._files_max} files are being read"
            return False
        self.shut(min(idle, key=lambda file: file.silent_since or 0.0))
        return True
