"""What `elf repair` does to a data directory; the file as it was always stays beside.

Owns the changes; what is damaged is `examine`'s to find.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elfmesh.agent.disk.storage import DiskStorage
from elfmesh.agent.inputs.positions import EMPTY, damaged_lines
from elfmesh.control.results.mend import keep_beside, kept_name
from elfmesh.control.results.segment import replace_file, sync_directory
from elfmesh.errors import StorageError


@dataclass(frozen=True, slots=True)
class Repair:
    """What may be done about damage.

    Attributes:
        path: what is changed.
        what: in words.
        do: does it.
    """

    path: Path
    what: str
    do: Callable[[], None]


def aside(path: Path, what: str) -> Repair:
    """Move a file out of the way; `what` follows from that."""

    def do() -> None:
        path.replace(kept_name(path))
        sync_directory(path.parent)

    return Repair(path, f"move it to {kept_name(path).name}: {what}", do)


def begin_journal(path: Path) -> None:
    """Begin a journal of inserts anew."""
    keep_beside(path)
    replace_file(path, EMPTY)
    sync_directory(path.parent)


def without_lines(path: Path) -> None:
    """Leave the damaged lines of a journal of inserts out."""
    data = path.read_bytes()
    bad = set(damaged_lines(data))
    kept, at = [], 0
    for line in data.splitlines(keepends=True):
        if at not in bad:
            kept.append(line)
        at += len(line)
    keep_beside(path)
    replace_file(path, b"".join(kept))
    sync_directory(path.parent)


def carry_out(root: Path, todo: list[Repair]) -> None:
    """Repair, alone with the directory.

    Raises:
        ConfigError: its agent is running.
        StorageError: the disk refuses; what was repaired before is.
    """
    storage = DiskStorage(root)
    try:
        for repair in todo:
            try:
                repair.do()
            except OSError as error:
                raise StorageError(f"cannot write it: {error.strerror}", where=str(repair.path)) from None
    finally:
        storage.close()
