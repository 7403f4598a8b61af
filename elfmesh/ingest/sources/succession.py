"""Succession of files under one name, and detection of files that came and went between two looks (D-2).

Rotation deletes the oldest file first. A file of the chain can therefore vanish unseen only if the file
before it has vanished as well. A chain is complete if the file that had the name still exists, or if the next
one was created before that one vanished.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from elfmesh.errors import DataError
from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.birth import born_ns
from elfmesh.ingest.sources.file import OpenFile
from elfmesh.ingest.sources.position import MARK_BYTES, FilePosition, SourceId
from elfmesh.ingest.sources.rotated import RotatedFile, is_rotated, scan
from elfmesh.storage.starving import opened

log = logging.getLogger("elf.worker")

SEARCH_BYTES = 1 << 20
"""Distance from its old position at which the last line that was read is searched in a changed copy."""

UNSEEN = "the file before it is deleted: other files may have had its name in between"
ELSEWHERE = "rotated into another directory before they were seen"

DELETED = " (deleted)"


class FileNames:
    """Map from names to files at the last look."""

    def __init__(self, stored: Iterable[FilePosition]) -> None:
        self._holders = {place.path: place.id for place in stored}
        self._passed: set[SourceId] = set()

    def look(
        self, listed: Mapping[SourceId, RotatedFile], is_rotated: Callable[[str], bool]
    ) -> list[tuple[RotatedFile, SourceId]]:
        """Return the files that have taken a log's name since the last look, with the previous holders."""
        found = []
        for each in listed.values():
            before = self._holders.get(each.path)
            if before == each.id or is_rotated(each.path):
                continue
            self._holders[each.path] = each.id
            if before is not None:
                found.append((each, before))
        self._passed = {before for _, before in found}
        return found

    def has_passed_on(self, identity: SourceId) -> bool:
        """Return whether a file has lost its name to another one since the previous look."""
        return identity in self._passed


@dataclass(frozen=True, slots=True)
class FileSuccession:
    """Classification of a file that has taken another's name: whether it is a copy.

    `lost` says why files may be lost.
    """

    is_copy: bool = False
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Heir:
    """Copy that has taken the name of an open file.

    It is read from `since` (monotonic seconds) on; until then a process may still write to the old file.
    """

    file: OpenFile
    since: float

    def compared(self, path: str) -> tuple[int, bool]:
        """Return the length of the prefix common with the old file, and whether it is the whole old file.

        Raises as `judge`.
        """
        common, offset = _common_bytes(self.file, path), self.file.offset
        is_whole = common >= os.fstat(self.file.fd).st_size
        if common < offset and common < os.stat(path).st_size:  # noqa: PTH116 - as in scan
            _warn_of_changes(path, common)
        return common, is_whole


def judge(
    file: OpenFile,
    each: RotatedFile,
    rotated: Sequence[RotatedFile],
    unseen: Sequence[RotatedFile],
    is_held: Callable[[SourceId], bool],
) -> FileSuccession:
    """Classify a file `each` that has taken the name of an open one.

    `unseen` files are ordered, oldest first.
    """
    now = _name_of(file)
    (there, _), (directory, name) = os.path.split(now), os.path.split(each.path)
    if now and is_rotated(now, [os.path.join(there, name)]):  # noqa: PTH118 - as in scan
        beside = [] if there == directory else _unseen_beside(there, name, file, is_held)
        return FileSuccession(lost=f"{ELSEWHERE}: {', '.join(beside)}" if beside else "")
    if file.inflated is None and _common_bytes(file, each.path):
        return FileSuccession(is_copy=True)
    if _has_last_line(each.path, file):
        _warn_of_changes(each.path, 0)
        return FileSuccession()
    is_whole = now or _has_copy(file, rotated) or _follows(file, [*unseen, each])
    return FileSuccession(lost="" if is_whole else UNSEEN)


def identity_of(file: OpenFile) -> SourceId:
    status = os.fstat(file.fd)
    return status.st_dev, status.st_ino


def _warn_of_changes(path: str, start: int) -> None:
    log.warning(
        "%s: it was replaced by a changed copy of itself: it is read from the line at byte %d on, and "
        "records that were read before count again",
        path,
        start,
    )


def _name_of(file: OpenFile) -> str:
    linked = os.fstat(file.fd).st_nlink
    try:
        path = os.readlink(f"/proc/self/fd/{file.fd}")  # noqa: PTH115 - not a path: a name of the kernel's
    except OSError:
        path = file.path
    return "" if path.endswith(DELETED) or not linked else path


def _unseen_beside(
    directory: str, name: str, file: OpenFile, is_held: Callable[[SourceId], bool]
) -> list[str]:
    changed_ns = os.fstat(file.fd).st_mtime_ns
    younger = (each for each in scan(directory) if each.mtime_ns >= changed_ns)
    known = (identity_of(file), file.id)
    log_there = [os.path.join(directory, name)]  # noqa: PTH118 - as in scan
    return [
        each.path
        for each in younger
        if each.id not in known and not is_held(each.id) and is_rotated(each.path, log_there)
    ]


def _has_copy(file: OpenFile, rotated: Sequence[RotatedFile]) -> bool:
    is_empty = not os.fstat(file.fd).st_size
    for each in rotated:
        if contents.is_copy(each.path, file.fd):
            return True
        if is_empty and contents.is_compressed(each.path) and _is_empty_inside(each.path):
            return True
    return False


def _is_empty_inside(path: str) -> bool:
    try:
        return not contents.head_of(path, 1)
    except DataError:
        return False


def _follows(file: OpenFile, chain: Sequence[RotatedFile]) -> bool:
    if len(chain) > 2:  # several rotations are kept, so another may have been deleted
        return False
    if contents.is_compressed(chain[0].path):  # its creation time is that of the compression
        return False
    born = born_ns(chain[0].path)
    return born is not None and born < os.fstat(file.fd).st_ctime_ns


def _common_bytes(file: OpenFile, path: str) -> int:
    other = opened(path, contents.READ_ONLY)
    try:
        return contents.common_bytes(file.fd, other)
    finally:
        os.close(other)


def _has_last_line(path: str, file: OpenFile) -> bool:
    mark = file.bytes_before
    if len(mark) < MARK_BYTES:
        return False
    other = opened(path, contents.READ_ONLY)
    try:
        return mark in os.pread(other, 2 * SEARCH_BYTES, max(0, file.offset - SEARCH_BYTES))
    finally:
        os.close(other)
