"""Compaction: merges the small files of an old day into few large ones, atomically for readers.

  ROOT/JOB/incarnation=I/interval_date=2026-11-21/57-1320.parquet, _compacted.json
  STAGING/JOB/incarnation=I/2026-11-21-ID/     the replacement of that day, until it is complete

A complete partition directory is written to STAGING, and RENAME_EXCHANGE exchanges both directories. STAGING
is outside of ROOT, because readers such as DuckDB list all directories below ROOT. The commit log records the
exchange, and the old files are removed. Only days before the newest one are compacted; a day that is written
to meanwhile waits for the next run. Only adjacent files with the same columns and types are merged, because a
common type may not hold all values, and Spark treats two spellings of a name as one column. See guarantees
D-17.
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

from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.commits import DIRECTORY, Commits, make_directory
from elfmesh.errors import RuntimeFailure
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.failpoints import reach
from elfmesh.storage.results.segment import sync_directory

NOTE, PARTITION = "_compacted.json", "interval_date="
BESIDE = "_compact-"
"""Prefix that earlier releases used for new directories in the log's own directory; these are removed as
well."""

UNNAMED = ".new"
"""Suffix of new files until just before the exchange."""

FILE_BYTES = 128 << 20
"""Uncompressed size of rows after which a new file starts."""

LOCK_S, AGAIN_S = 10.0, 0.05
"""Time limit for the lock, which a writing sink holds for one interval at a time, and pause between attempts.
"""

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Compacted:
    """Outcome for one day: files before and after, rows, and the problem if it was not compacted."""

    directory: str
    day: str
    files: int
    into: int
    rows: int
    problem: str = ""


def compact(
    root: Path,
    *,
    job: str = "*",
    before: date | None = None,
    dry_run: bool = False,
    staging: Path | None = None,
) -> Iterator[Compacted]:
    """Compact all old days with several files in the directory of a Parquet sink.

    Args:
        root: `path` of the sink.
        job: "namespace/name", or "*".
        before: only days before this one.
        dry_run: only report what would be done.
        staging: directory for new files on the same file system; None: `.NAME.compact` beside the root.

    Raises:
        RuntimeFailure: the directory contains no results, another compaction runs, or the file system does
            not support it.
        Unavailable: a sink holds the lock for too long.
        OSError: a disk operation failed; the next run removes incomplete files.
    """
    logs = sorted(path.parent for path in root.glob(f"{job.replace('/', '.')}/incarnation=*/{DIRECTORY}"))
    if not logs:
        raise RuntimeFailure(
            "there are no results of jobs", where=str(root), hint="Specify the `path` of the sink."
        )
    root = root.resolve()
    place = (staging or root.with_name(f".{root.name}.compact")).resolve()
    with contextlib.nullcontext() if dry_run else _usable(place):
        for directory in (root / path.relative_to(path.parents[1]) for path in logs):
            with _alone(directory):
                yield from _compact_log(directory, place, root, before, dry_run)


@contextlib.contextmanager
def _usable(staging: Path) -> Iterator[None]:
    try:
        staging.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeFailure(
            f"cannot create files there: {error.strerror}", where=str(staging),
            hint="Give --staging, a directory on the same file system that readers do not read.",
        ) from None  # fmt: skip
    try:
        yield
    finally:
        for path in (*sorted(staging.glob("*/*"), reverse=True), *staging.glob("*"), staging):
            with contextlib.suppress(OSError):  # not empty: files of an interrupted run
                path.rmdir()


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    handle = os.open(directory / DIRECTORY / "compacting", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "Wait until that process has ended."
            raise RuntimeFailure("another process compacts this", where=str(directory), hint=hint) from None
        yield
    finally:
        os.close(handle)


def _compact_log(
    directory: Path, place: Path, root: Path, before: date | None, dry_run: bool
) -> Iterator[Compacted]:
    commits = Commits(directory)
    relative = directory.relative_to(root)
    staging = place / relative
    if not dry_run:
        _clear(directory, staging, commits)
    for partition, files in _old_days(directory, commits, before):
        day = partition.name.removeprefix(PARTITION)
        try:
            groups = list(_alike(files))
            if len(groups) == len(files):
                continue
            rows = sum(pq.read_metadata(path).num_rows for path in files)
            into = len(groups) if dry_run else _compact_day(staging, commits, partition, groups)
        except pa.ArrowException as error:  # the file is damaged; other days and jobs are not affected
            yield Compacted(relative.as_posix(), day, len(files), len(files), 0, str(error).splitlines()[0])
            continue
        if into is not None:
            yield Compacted(relative.as_posix(), day, len(files), into, rows)


def _alike(files: list[Path]) -> Iterator[list[Path]]:
    """Yield groups of adjacent files with the same columns and types, up to the size of a file."""
    group: list[Path] = []
    known: pa.Schema | None = None
    size = 0
    for path in files:
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow.remove_metadata()
        unpacked = sum(
            metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
        )
        if group and (schema != known or size + unpacked > FILE_BYTES):
            yield group
            group, size = [], 0
        group.append(path)
        known, size = schema, size + unpacked
    yield group


def _old_days(directory: Path, commits: Commits, before: date | None) -> Iterator[tuple[Path, list[Path]]]:
    days = sorted(directory.glob(f"{PARTITION}????-??-??"))
    for partition in days[:-1]:  # the newest day is still written to
        if before is not None and partition.name.removeprefix(PARTITION) >= before.isoformat():
            continue
        files = sorted(partition.glob("*.parquet"), key=_first)
        closed = commits.position is not None and all(_last(path) < commits.position.next for path in files)
        if closed and len(files) > 1 and any(_first(path) == _last(path) for path in files):
            yield partition, files


def _compact_day(staging: Path, commits: Commits, partition: Path, groups: list[list[Path]]) -> int | None:
    """Compact a day. Returns the number of new files, or None if the day was written to meanwhile."""
    digest = _state_of([path for group in groups for path in group])
    day = partition.name.removeprefix(PARTITION)
    make_directory(staging)
    made = staging / f"{day}-{digest}"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        note = {"id": digest, "day": day, "files": [_made(made, partition, group) for group in groups]}
        _write_whole(made / NOTE, encode_json(note))
        sync_directory(staging)
        reach("files.staged")
        with _locked(commits):
            # the newest day may be that of a tentative interval, so the day before may still be written to
            unchanged = _state_of(sorted(partition.glob("*.parquet"), key=_first)) == digest
            if unchanged:
                for path in made.glob(f"*{UNNAMED}"):
                    path.rename(path.with_name(path.name.removesuffix(UNNAMED)))
                sync_directory(made)
                reach("files.renamed")
                _exchange(made, partition)
                sync_directory(partition.parent)
                reach("files.swapped")
                commits.compacted(note)
        reach("files.named")
    except Exception:  # if the directories were exchanged, the next run finds the note and records it
        if not _is_there(partition, digest):
            shutil.rmtree(made, ignore_errors=True)
        raise
    shutil.rmtree(made)
    return len(groups) if unchanged else None


def _is_there(partition: Path, digest: str) -> bool:
    note = partition / NOTE
    return note.exists() and msgspec.json.decode(note.read_bytes()).get("id") == digest


def _state_of(files: list[Path]) -> str:
    names = "\n".join(f"{path.name} {path.stat().st_mtime_ns}" for path in files)
    return hashlib.sha256(names.encode()).hexdigest()[:12]


def _made(directory: Path, partition: Path, group: list[Path]) -> dict[str, Any]:
    """Write the file of a group under a name that readers ignore. Returns its entry in the commit log."""
    first, last = _first(group[0]), _last(group[-1])
    name = group[0].name if len(group) == 1 else f"{first}-{last}.parquet"
    path = directory / f"{name}{UNNAMED}"
    if len(group) == 1:
        os.link(group[0], path)
    else:
        _merge(group, path)
    return {"file": f"{partition.name}/{name}", "intervals": [first, last], "sha256": _digest(path)}


def _merge(group: list[Path], path: Path) -> None:
    tables, records = [], []
    for each in group:
        # not `pq.read_table`, which would add a column for the partition
        table = pq.ParquetFile(each).read()
        reported = table.schema.metadata or {}
        records += [msgspec.json.decode(reported[b"elf.record"])] if b"elf.record" in reported else []
        records += msgspec.json.decode(reported.get(b"elf.records", b"[]"))
        tables.append(table.replace_schema_metadata(None))
    table = pa.concat_tables(tables)  # raises if the tables differ
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({"elf.records": encode_json(records)}), buffer, compression="zstd"
    )
    _write_whole(path, buffer.getvalue())


def _write_whole(path: Path, data: Any) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _clear(directory: Path, staging: Path, commits: Commits) -> None:
    for made in (*staging.glob("*"), *directory.glob(f"{BESIDE}*")):
        day, _, digest = made.name.removeprefix(BESIDE).rpartition("-")
        partition = directory / f"{PARTITION}{day}"
        if _is_there(partition, digest):  # the directories were exchanged
            with _locked(commits):
                commits.compacted(msgspec.json.decode((partition / NOTE).read_bytes()))
        shutil.rmtree(made)


@contextlib.contextmanager
def _locked(commits: Commits) -> Iterator[None]:
    """Wait for the lock of a log's writers. Raises Unavailable after `LOCK_S`."""
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
        if code == errno.EXDEV:
            raise RuntimeFailure(
                "it is on another file system than the results", where=str(one.parent),
                hint="Give --staging, a directory on the same file system that readers do not read.",
            )  # fmt: skip
        raise OSError(code, os.strerror(code), str(other))


def _first(path: Path) -> int:
    return _numbers(path)[0]


def _last(path: Path) -> int:
    return _numbers(path)[1]


def _numbers(path: Path) -> tuple[int, int]:
    """Parse the intervals of a file name, such as `57` or `57-1320`; numbers may be negative."""
    sign = -1 if path.stem.startswith("-") else 1
    head, _, rest = path.stem.removeprefix("-").partition("-")
    first = sign * int(head)
    return first, int(rest) if rest else first


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
