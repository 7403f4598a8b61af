"""Sink for Parquet files that Spark, DuckDB and pandas can read, one file per interval.

  PATH/NAMESPACE.NAME/incarnation=I/interval_date=2026-11-21/57.parquet     rows of interval 57
  PATH/NAMESPACE.NAME/incarnation=I/_commits/00000001.jsonl                 see commits.py

The columns are those of the Spark source: the columns of the interval, then those of the query. The record
itself is in the file's metadata (`elf.record`). An interval without rows has a commit and no file. A file
appears complete or not at all, and a later revision replaces it atomically. The position follows from the
commits, so the directory with its sink can move to another agent. See guarantees D-5, D-17.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
)
from elfmesh.agent.sinks.commits import Commits, make_directory
from elfmesh.agent.sinks.config import ParquetSink
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.errors import StorageError
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.failpoints import reach
from elfmesh.storage.results.segment import sync_directory
from elfmesh.storage.whole import whole_file

T = TypeVar("T")
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Name that Hive and Spark give the partition of null; used for times outside the calendar."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ParquetFiles:
    """Sink for Parquet files."""

    def __init__(self, name: str, config: ParquetSink) -> None:
        self._root = Path(config.path)
        self._commits: dict[LogName, Commits] = {}
        self._thread = WorkerThread(name)

    async def position(self, log: LogName) -> Position | None:
        return await self._run(partial(self._position, log))

    async def write(self, log: LogName, item: SinkItem) -> bool:
        """Write a file, then its commit. Cost: two syncs of files and one or two of directories."""
        return await self._run(partial(self._write, log, item))

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        await self._run(partial(self._declare, log, lost))

    def ended(self, log: LogName) -> None:
        self._commits.pop(log, None)

    async def close(self) -> None:
        self._thread.close()

    def describe(self) -> Mapping[str, Any]:
        return {"path": str(self._root)}

    async def _run(self, call: Callable[[], T]) -> T:
        def guarded() -> T:
            try:
                return call()
            except FileNotFoundError:  # a user has removed the directory; the next call creates it again
                self._commits.clear()
                raise

        try:
            return await self._thread.run(guarded)
        except (OSError, StorageError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise Unavailable(f"{self._root}: {reason or error}") from None

    def _directory(self, log: LogName) -> Path:
        return self._root / log.job.replace("/", ".") / f"incarnation={log.incarnation}"

    def _open(self, log: LogName) -> Commits:
        if log not in self._commits:
            self._commits[log] = Commits(self._directory(log))
        return self._commits[log]

    def _position(self, log: LogName) -> Position | None:
        commits = self._open(log)
        with commits.locked():
            return commits.position

    def _declare(self, log: LogName, lost: LostIntervals) -> None:
        commits = self._open(log)
        with commits.locked():
            if commits.position is None or lost.last >= commits.position.next:
                commits.declare(lost)

    def _write(self, log: LogName, item: SinkItem) -> bool:
        commits, record = self._open(log), item.record
        with commits.locked():
            if not admit(commits.position, commits.shown.get(record.index), item):
                return False
            path = self._directory(log) / f"interval_date={_date(record)}" / f"{record.index}.parquet"
            table = item.table()
            if table.num_rows:
                sha256 = _put(path, _with_record(table, log, item))
            else:
                sha256 = None
                if path.exists():  # from an earlier revision that had rows
                    path.unlink()
                    sync_directory(path.parent)
            reach("sink.written", "parquet")
            file = path.relative_to(self._directory(log)).as_posix() if table.num_rows else None
            commits.append(item, file=file, rows=table.num_rows, sha256=sha256)
            return True


def _date(record: ResultRecord) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=record.start_us or 0)).date().isoformat()
    except OverflowError:
        return NO_DATE


def _with_record(table: pa.Table, log: LogName, item: SinkItem) -> pa.Table:
    reported = to_json(item.record, ipc_to_table(b"")) | {"incarnation": log.incarnation}
    del reported["rows"]
    return table.replace_schema_metadata({"elf.record": encode_json(reported)})


def _put(path: Path, table: pa.Table) -> str:
    make_directory(path.parent)
    buffer = pa.BufferOutputStream()
    try:
        pq.write_table(table, buffer, compression="zstd")
    except pa.ArrowException as error:
        raise RecordRefused(f"cannot be written as Parquet: {error}") from None
    data = buffer.getvalue()
    with whole_file(path) as file:
        reach("sink.write", "parquet")
        file.write(data)
    return hashlib.sha256(data).hexdigest()
