"""Names of rotated logs: `x.log.1`, `x.log-20260521`, `x-20260521.log`, each also with .gz or .zst."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from elfmesh.ingest.sources.position import SourceId
from elfmesh.storage.starving import off_the_loop

COMPRESSED_SUFFIXES = (".gz", ".zst")
_BEHIND = re.compile(r"^(?P<name>.+?)[.\-_@](?:\d[\dTZ.:_+\-]*)$")
_WITHIN = re.compile(
    r"^(?P<name>.+?)[.\-_]\d{4}[.\-_]?\d\d[\dTZ:_\-]*(?:[.\-_]\d+)?(?P<extension>\.[A-Za-z]\w*)$"
)


@dataclass(frozen=True, slots=True)
class RotatedFile:
    """One regular file of a directory."""

    path: str
    id: SourceId
    size: int
    mtime_ns: int


def bases(name: str) -> list[str]:
    """Return the names that a file may have had before rotation; its own name is not included."""
    for suffix in COMPRESSED_SUFFIXES:
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            return [name, *bases(name)]
    found = []
    if match := _BEHIND.match(name):
        found.append(match["name"])
    if match := _WITHIN.match(name):
        found.append(match["name"] + match["extension"])
    return found


def scan(directory: str) -> list[RotatedFile]:
    found: list[RotatedFile] = []
    try:
        with off_the_loop(lambda: os.scandir(directory or "."), f"listing {directory}") as entries:
            for each in entries:
                if not each.is_file():
                    continue
                try:
                    status = each.stat()
                except OSError:  # deleted in the meantime
                    continue
                found.append(entry(os.path.join(directory, each.name), status))  # noqa: PTH118 - as `each.path` may not be
    except OSError:
        return []
    return sorted(found, key=lambda each: (each.mtime_ns, each.path))


def entry(path: str, status: os.stat_result) -> RotatedFile:
    return RotatedFile(path, (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


def is_rotated(path: str, known: Iterable[str]) -> bool:
    directory, _, name = path.rpartition("/")
    names = set(known)
    return any((f"{directory}/{base}" if directory else base) in names for base in bases(name))
