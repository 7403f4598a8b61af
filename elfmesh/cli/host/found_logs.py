"""Finds the logs of a host for `elf init`: which can be read, in which format, and which not and why.

The search reads the first bytes of each file and nothing else. It follows no link to a directory.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elfmesh.ingest.parsers.sniff import sniff
from elfmesh.ingest.sources.blocks import is_compressed

HEAD_BYTES = 64 << 10
DEPTH_MAX = 3
FILES_MAX = 2000
"""Number of files at which the search ends."""

TOGETHER = 4
"""Number of files of one directory and format from which on one pattern reads them."""

LOG_NAME = re.compile(r"(\.log|[._-]log|\.ndjson|\.jsonl|^syslog|^messages|^secure|^maillog|^cron)$")
EXPECTED = {
    "access": "combined",
    "syslog": "syslog",
    "messages": "syslog",
    "auth": "syslog",
    "secure": "syslog",
}
"""Format of a file that is still empty, by the first part of its name."""


@dataclass(frozen=True, slots=True)
class FoundStream:
    """Files that become one stream."""

    name: str
    path: str
    format: str
    files: int


@dataclass(slots=True)
class FoundLogs:
    """Result of a search.

    Attributes:
        streams: what can be read.
        closed: files and directories that this user may not read, with owner and mode.
        unclear: files that are not read, with the reason.
    """

    streams: list[FoundStream] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    unclear: list[tuple[str, str]] = field(default_factory=list)


def find_logs(places: Sequence[Path]) -> FoundLogs:
    """Search directories, and files that are named."""
    found, seen = FoundLogs(), set[str]()
    groups: dict[tuple[str, str], list[Path]] = {}
    for place in places:
        for path in _files(place, found, is_named=not place.is_dir()):
            real = os.path.realpath(path)
            if real in seen:
                continue
            seen.add(real)
            if len(seen) > FILES_MAX:
                found.unclear.append((str(path), f"it and all later files: the search ends at {FILES_MAX}"))
                break
            if kind := _format_of(path, found):
                groups.setdefault((str(path.parent), kind), []).append(path)
    names: set[str] = set()
    for (directory, kind), paths in groups.items():
        pattern = f"{glob.escape(directory)}/*{paths[0].suffix}"
        alike = len(paths) >= TOGETHER and len({path.suffix for path in paths}) == 1
        if alike and not _read_by(pattern) - {*map(str, paths)}:
            found.streams.append(FoundStream(_name(Path(directory), names), pattern, kind, len(paths)))
        else:
            found.streams += [FoundStream(_name(path, names), str(path), kind, 1) for path in paths]
    return found


def _read_by(pattern: str) -> set[str]:
    """Return what a pattern reads, without files that are empty, whose format is not known yet."""
    found = map(Path, glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return {str(path) for path in found if not path.is_file() or path.stat().st_size}


def _files(place: Path, found: FoundLogs, *, is_named: bool, depth: int = 0) -> Iterator[Path]:
    if is_named:
        yield place
        return
    try:
        entries = sorted(os.scandir(place), key=lambda each: each.name)
    except PermissionError:
        found.closed.append((f"{place}/", _owner(place)))
        return
    except OSError as error:
        found.unclear.append((str(place), error.strerror or str(error)))
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth < DEPTH_MAX and entry.name != "journal":  # the files of systemd are binary
                yield from _files(place / entry.name, found, is_named=False, depth=depth + 1)
        elif LOG_NAME.search(entry.name) and entry.is_file():
            yield place / entry.name


def _format_of(path: Path, found: FoundLogs) -> str:
    """Return the format of a file; "" if it is not read, which is noted."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        found.unclear.append((repr(str(path))[1:-1], "its name is not UTF-8"))
        return ""
    if glob.has_magic(str(path)):
        found.unclear.append((str(path), "its name has characters of patterns"))
        return ""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            found.unclear.append((str(path), "it is not a regular file"))
            return ""
        if not os.access(path, os.R_OK):
            raise PermissionError
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        compressed = is_compressed(str(path))
    except PermissionError:
        found.closed.append((str(path), _owner(path)))
        return ""
    except OSError as error:
        found.unclear.append((str(path), error.strerror or str(error)))
        return ""
    if not head:
        expected = EXPECTED.get(re.split(r"[._-]", path.name)[0], "")
        if not expected:
            found.unclear.append((str(path), "it is empty"))
        return expected
    kind = "" if compressed else sniff(head[: head.rfind(b"\n") + 1] or head)
    if not kind:
        found.unclear.append((str(path), "its format is not recognised"))
    return kind


def _owner(path: Path) -> str:
    import grp
    import pwd

    try:
        about = path.stat()
    except OSError:
        return "owner unknown"
    try:
        user, group = pwd.getpwuid(about.st_uid).pw_name, grp.getgrgid(about.st_gid).gr_name
    except KeyError:
        user, group = str(about.st_uid), str(about.st_gid)
    return f"{user}:{group} {stat.S_IMODE(about.st_mode):04o}"


def _name(path: Path, taken: set[str]) -> str:
    """Return a new name of a stream: /var/log/nginx/access.log is nginx_access."""
    parts = [part for part in path.parts[-2:] if part not in ("/", "log", "logs")]
    stem = re.sub(r"\.(log|ndjson|jsonl)$", "", "_".join(parts))
    base = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")[:100] or "log"
    base = base if base[0].isalpha() else f"log_{base}"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name
