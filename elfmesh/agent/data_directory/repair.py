"""Findings of `elf check` and the repairs of `elf repair`, which keep the old file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from elfmesh.errors import StorageError
from elfmesh.ingest.inputs.positions import EMPTY, damaged_lines
from elfmesh.storage.results.rewrite import keep_beside, kept_name
from elfmesh.storage.results.segment import replace_file, sync_directory
from elfmesh.storage.storage import DiskStorage


@dataclass(frozen=True, slots=True)
class Repair:
    """A possible repair of damage."""

    path: Path
    what: str
    do: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged place in a data directory.

    Attributes:
        path: the file, or the directory of a log.
        offset: offset of the first damaged byte; None if the damage has no position in a file.
        what: the damage.
        agent: what the agent does about it when it starts.
        repair: what `elf repair` does; None: nothing.
    """

    path: Path
    offset: int | None
    what: str
    agent: str
    repair: Repair | None = None


def aside(path: Path, what: str) -> Repair:
    """Return a repair that renames a file; `what` is the consequence."""
    return aside_with(path, (), what)


def aside_with(path: Path, others: Iterable[Path], what: str) -> Repair:
    """Return a repair that renames a file or directory, together with files that are useless without it."""

    def do() -> None:
        for each in (path, *others):
            if each.exists():
                each.replace(kept_name(each))
                sync_directory(each.parent)

    names = " and ".join(["it", *(each.name for each in others)])
    return Repair(path, f"move {names} to {kept_name(path).name}: {what}", do)


def begin_journal(path: Path) -> None:
    keep_beside(path)
    replace_file(path, EMPTY)
    sync_directory(path.parent)


def without_lines(path: Path) -> None:
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
    """Perform repairs with exclusive access. After a StorageError, earlier repairs remain."""
    storage = DiskStorage(root)
    try:
        for repair in todo:
            try:
                repair.do()
            except OSError as error:
                raise StorageError(f"cannot write it: {error.strerror}", where=str(repair.path)) from None
    finally:
        storage.close()
