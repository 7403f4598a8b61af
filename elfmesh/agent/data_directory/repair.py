"""What is damaged in a data directory, and what `elf repair` does about it; the old file stays beside."""

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
    """What may be done about damage."""

    path: Path
    what: str
    do: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place of a data directory that is damaged.

    Attributes:
        path: the file, or the directory of a log.
        offset: of the first byte, None where it is no place within a file.
        agent: what the agent does about it when it starts.
        repair: what `elf repair` does; None: nothing, or nothing can be done.
    """

    path: Path
    offset: int | None
    what: str
    agent: str
    repair: Repair | None = None


def aside(path: Path, what: str) -> Repair:
    """Move a file out of the way; `what` follows from that."""
    return aside_with(path, (), what)


def aside_with(path: Path, others: Iterable[Path], what: str) -> Repair:
    """Move a file or a directory out of the way, and those that are of no use without it."""

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
    """Repair, alone with the directory; after a StorageError the earlier repairs stay."""
    storage = DiskStorage(root)
    try:
        for repair in todo:
            try:
                repair.do()
            except OSError as error:
                raise StorageError(f"cannot write it: {error.strerror}", where=str(repair.path)) from None
    finally:
        storage.close()
