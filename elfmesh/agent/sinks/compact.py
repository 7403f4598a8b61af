"""Compaction: the many small files of an old day become few large ones, in one step for everybody who reads.

    DIR/_compact-2026-11-21-ID/     what takes the place of interval_date=2026-11-21, while it is made
    DIR/interval_date=2026-11-21/57-1320.parquet, _compacted.json

A whole partition directory is made beside the old one, and both change places by one call of the kernel
(RENAME_EXCHANGE): who lists the directory sees the old files or the new ones, never both and never none. Then
the commit log says so (`{"compacted": ...}`), and the old files go. Only days before the newest that has a
file are taken, and one that an interval is written to meanwhile stays as it is: the next run takes it.

Owns these steps and what a run that was killed has left. Synchronous.

Invariant: at each moment the directory of a day has each of its intervals once.

Paper: none. See guarantees D-17.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from elfmesh.agent.failpoints import reach
from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.commits import DIRECTORY, Commits
from elfmesh.control.results.records import encode_json
from elfmesh.control.results.segment import sync_directory
from elfmesh.errors import DataError, RuntimeFailure

STAGING, NOTE, PARTITION = "_compact-", "_compacted.json", "interval_date="
FILE_BYTES = 128 << 20
"""Rows, unpacked, after which a new file begins."""

LOCK_S, AGAIN_S = 10.0, 0.05
"""How long a sink that writes is waited for: it holds the lock for one interval at a time."""

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Compacted:
    """One day.

    Attributes:
        directory: of the results, "JOB/incarnation=I".
        day: as its partition says.
        files: how many files there were.
        into: how many there are.
        rows: in them.
    """

    directory: str
    day: str
    files: int
    into: int
    rows: int


def compact(
    root: Path, *, job: str = "*", before: date | None = None, dry_run: bool = False
) -> Iterator[Compacted]:
    """Compact all old days of a Parquet sink's directory that have several files.

    Args:
        root: the sink's `path`.
        job: "namespace/name", or "*".
        before: only days before this one.
        dry_run: only say what would be done.

    Raises:
        RuntimeFailure: there are no results there, another compaction runs, or the file system cannot do it.
        DataError: a day's files do not fit together.
        Unavailable: a sink holds the lock all the time.
        OSError: the disk refuses; what was begun is cleared away by the next run.
    """
    logs = sorted(path.parent for path in root.glob(f"{job.replace('/', '.')}/incarnation=*/{DIRECTORY}"))
    if not logs:
        raise RuntimeFailure(
            "there are no results of jobs", where=str(root), hint="Give the `path` of the sink."
        )
    for directory in logs:
        with _alone(directory):
            yield from _compact_log(directory, root, before, dry_run)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One compaction at a time: another would clear away what this one is making."""
    handle = os.open(directory / DIRECTORY / "compacting", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "Wait until it has ended."
            raise RuntimeFailure("another process compacts this", where=str(directory), hint=hint) from None
        yield
    finally:
        os.close(handle)


def _compact_log(directory: Path, root: Path, before: date | None, dry_run: bool) -> Iterator[Compacted]:
    commits = Commits(directory)
    if not dry_run:
        _clear(directory, commits)
    name = directory.relative_to(root).as_posix()
    for partition, files in _old_days(directory, commits, before):
        day = partition.name.removeprefix(PARTITION)
        if dry_run:
            rows = sum(pq.read_metadata(path).num_rows for path in files)
            yield Compacted(name, day, len(files), 1, rows)
        else:
            done = _compact_day(directory, commits, partition, files)
            if done is not None:
                yield Compacted(name, day, len(files), *done)


def _old_days(directory: Path, commits: Commits, before: date | None) -> Iterator[tuple[Path, list[Path]]]:
    """Partitions that nothing is written to any more, with their files by interval."""
    days = sorted(directory.glob(f"{PARTITION}????-??-??"))
    for partition in days[:-1]:  # the newest is still written to
        if before is not None and partition.name.removeprefix(PARTITION) >= before.isoformat():
            continue
        files = sorted(partition.glob("*.parquet"), key=_first)
        closed = commits.position is not None and all(_last(path) < commits.position.next for path in files)
        if closed and len(files) > 1 and any(_first(path) == _last(path) for path in files):
            yield partition, files


def _compact_day(
    directory: Path, commits: Commits, partition: Path, files: list[Path]
) -> tuple[int, int] | None:
    """How many files it was made into, and their rows; None: it was written to meanwhile, and stays."""
    made, rows = [], 0
    digest = _state_of(files)
    day = partition.name.removeprefix(PARTITION)
    staging = directory / f"{STAGING}{day}-{digest}"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    for tables, records, first, last in _batches(files):
        path = staging / f"{first}-{last}.parquet"
        rows += _write(path, tables, records)
        made.append(
            {"file": f"{partition.name}/{path.name}", "intervals": [first, last], "sha256": _digest(path)}
        )
    note = {"id": digest, "day": day, "files": made}
    _write_whole(staging / NOTE, encode_json(note))
    sync_directory(staging)
    sync_directory(directory)
    reach("files.staged")
    with _locked(commits):
        # The newest day may be of an open interval that was shown, so that the one before is written to yet.
        unchanged = _state_of(sorted(partition.glob("*.parquet"), key=_first)) == digest
        if unchanged:
            _exchange(staging, partition)
            sync_directory(directory)
            reach("files.swapped")
            commits.compacted(note)
    if not unchanged:
        shutil.rmtree(staging)
        return None
    reach("files.named")
    shutil.rmtree(staging)
    return len(made), rows


def _state_of(files: list[Path]) -> str:
    """Tells the files of a day, as they are now, from any others."""
    names = "\n".join(f"{path.name} {path.stat().st_mtime_ns}" for path in files)
    return hashlib.sha256(names.encode()).hexdigest()[:12]


def _batches(files: list[Path]) -> Iterator[tuple[list[pa.Table], list[Any], int, int]]:
    """Tables for one file each, with the records of their intervals and the first and last one's number."""
    tables: list[pa.Table] = []
    records: list[Any] = []
    size, first, last = 0, _first(files[0]), 0
    for path in files:
        # Not `pq.read_table`: it would add a column for the partition, which its directory says.
        table = pq.ParquetFile(path).read()
        if tables and size + table.nbytes > FILE_BYTES:
            yield tables, records, first, last
            tables, records, size, first = [], [], 0, _first(path)
        said = table.schema.metadata or {}
        records += [msgspec.json.decode(said[b"elf.record"])] if b"elf.record" in said else []
        records += msgspec.json.decode(said.get(b"elf.records", b"[]"))
        tables.append(table.replace_schema_metadata(None))
        size, last = size + table.nbytes, _last(path)
    yield tables, records, first, last


def _write(path: Path, tables: list[pa.Table], records: list[Any]) -> int:
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"intervals of one day have columns of different types: {error}", where=str(path.parent),
            hint="CAST them in the query; this day stays as it is.",
        ) from None  # fmt: skip
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({"elf.records": encode_json(records)}), buffer, compression="zstd"
    )
    _write_whole(path, buffer.getvalue())
    return int(table.num_rows)


def _write_whole(path: Path, data: Any) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _clear(directory: Path, commits: Commits) -> None:
    """Finish or forget what a run that was killed has left."""
    for staging in directory.glob(f"{STAGING}*"):
        day, _, digest = staging.name.removeprefix(STAGING).rpartition("-")
        note = directory / f"{PARTITION}{day}" / NOTE
        said = msgspec.json.decode(note.read_bytes()) if note.exists() else {}
        if said.get("id") == digest:  # they have changed places
            with _locked(commits):
                commits.compacted(said)
        shutil.rmtree(staging)


@contextlib.contextmanager
def _locked(commits: Commits) -> Iterator[None]:
    """The lock of a log's writers, waited for. Raises Unavailable after `LOCK_S`."""
    until = time.monotonic() + LOCK_S
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(commits.locked())
                break
            except Unavailable:
                if time.monotonic() > until:
                    raise
                time.sleep(AGAIN_S)
        yield


def _exchange(one: Path, other: Path) -> None:
    """Two directories change places, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if not hasattr(libc, "renameat2"):
        raise RuntimeFailure("this system cannot exchange two directories in one step", where=str(other))
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise RuntimeFailure(
                "this file system cannot exchange two directories in one step", where=str(other),
                hint="ext4, xfs, btrfs and tmpfs can.",
            )  # fmt: skip
        raise OSError(code, os.strerror(code), str(other))


def _first(path: Path) -> int:
    return _numbers(path)[0]


def _last(path: Path) -> int:
    return _numbers(path)[1]


def _numbers(path: Path) -> tuple[int, int]:
    """Of `57`: one interval; of `57-1320`: several. Numbers before the epoch have a sign."""
    sign = -1 if path.stem.startswith("-") else 1
    head, _, rest = path.stem.removeprefix("-").partition("-")
    first = sign * int(head)
    return first, int(rest) if rest else first


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
