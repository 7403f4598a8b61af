"""Files that match a pattern, and the other files in their directories.

A directory is read again when it has changed, and at least once a second. Opens no file.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable

from elfmesh.ingest.sources.file import SETTLED_S
from elfmesh.ingest.sources.position import SourceId
from elfmesh.ingest.sources.rotated import RotatedFile, entry, is_rotated, scan
from elfmesh.storage.starving import wait_for_descriptor

BASES_MAX = 1000
"""Maximum number of names of former files that are remembered, in order to recognise their rotated forms."""

NOT_A_FILE = "not a regular file"


class NeighbourFiles:
    """Files of one pattern and their neighbours.

    Args:
        pattern: a path, or a glob as in the shell (`**` for any directories).
        paths: paths of files that were read before; their directories are listed as well.
    """

    def __init__(self, pattern: str, paths: Iterable[str] = ()) -> None:
        self.pattern = pattern
        self.problems: dict[str, str] = {}
        self._bases = dict.fromkeys(paths)
        if not glob.has_magic(pattern):
            self._bases[pattern] = None
        self._seen: dict[str, tuple[int, float, float, list[RotatedFile]]] = {}

    def listed(self) -> dict[SourceId, RotatedFile]:
        """Return the regular files that match the pattern now, each once, by name."""
        self.problems = {}
        found: dict[SourceId, RotatedFile] = {}
        wait_for_descriptor(f"listing {self.pattern}")  # without one, glob returns nothing and jobs fail
        paths = sorted(glob.glob(self.pattern, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute one
        for path in paths or [self.pattern]:
            try:
                status = os.stat(path)  # noqa: PTH116 - several times a second: a Path costs ten times as much
                if stat.S_ISREG(status.st_mode):
                    real = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114 - as above
                    each = entry(real, status)
                    found.setdefault(each.id, each)
                    self._bases |= {path: None, real: None}
                elif not stat.S_ISDIR(status.st_mode):
                    self.problems[path] = NOT_A_FILE
            except OSError as error:
                self.problems[path] = error.strerror or str(error)
        for old in list(self._bases)[: -BASES_MAX - 2 * len(found)]:
            del self._bases[old]
        return found

    def nearby(self, now: float, *, at_once: bool = False) -> dict[SourceId, RotatedFile]:
        """Return all regular files in the directories of all files that were ever listed.

        `at_once`: list directories even if they seem unchanged.
        """
        found: dict[SourceId, RotatedFile] = {}
        for directory in sorted({os.path.dirname(path) for path in self._bases}):  # noqa: PTH120 - as above
            for each in self._look(directory, now, at_once):
                found.setdefault(each.id, each)
        return found

    def is_rotated(self, path: str) -> bool:
        return is_rotated(path, self._bases)

    def _look(self, directory: str, now: float, at_once: bool) -> list[RotatedFile]:
        try:
            stamp = os.stat(directory or ".").st_mtime_ns  # noqa: PTH116 - as above
        except OSError:
            return []
        last = self._seen.get(directory)
        changed_at = now if last is None or last[0] != stamp else last[1]
        if last is not None and not at_once and now - changed_at > SETTLED_S and now - last[2] < SETTLED_S:
            return last[3]
        entries = scan(directory)
        self._seen[directory] = (stamp, changed_at, now, entries)
        return entries
