"""The archive of one stream: reads the stream's files and writes each line to Parquet files once.

  PATH/STREAM/host=NAME/date=2026-11-21/00000007.parquet     rows; files are numbered in the order of writing
  PATH/STREAM/host=NAME/_state.json                          source positions, written after each file
  PATH/STREAM/host=NAME/_lock                                lock of the only writer

The archive has its own reader, so it and the jobs never wait for each other. One thread calls it.

Invariants: a file appears complete or not at all. The positions in `_state.json` correspond exactly to the
rows of the files with numbers below its `next`; a file with number `next` or above is from a writer that
crashed, and is written again. Bytes that were lost before the archive read them are counted as gaps (D-2).

Paper: ELF 4.1 (the stream goes to the agents, and unchanged to storage). See guarantees D-1, D-2.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from elfmesh.agent.archive.rows import RAW, parsed_rows, raw_rows
from elfmesh.agent.sinks.commits import make_directory
from elfmesh.control.jobs.spark_types import plain_type
from elfmesh.errors import ConfigError, ProtocolError, RuntimeFailure, StorageError
from elfmesh.ingest.archive_settings import ArchiveConfig
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import BlockDelivery, FilePosition, StreamReader
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.tail import ReadFrom
from elfmesh.storage.failpoints import reach
from elfmesh.storage.results.segment import sync_directory
from elfmesh.storage.whole import whole_file
from elfmesh.sums import json_checked, json_with_blank_sum
from elfmesh.wire import UNREADABLE

READER = "archive"
"""Name of the archive among the readers of its stream."""

STATE, LOCK = "_state.json", "_lock"


class ArchiveState(msgspec.Struct, forbid_unknown_fields=True):
    """Content of `_state.json`.

    Attributes:
        next: number of the next file.
        positions: source positions up to which lines are archived.
        rows: number of rows in all files so far, including deleted ones.
        gaps: number of losses of bytes before they were read.
        overlong: number of lines that were too long.
        expired: number of files that were deleted because of their age or the budget.
        types: types of parsed columns as an Arrow schema in base64, so that files of later processes have the
            same types.
    """

    next: int = 1
    positions: tuple[FilePosition, ...] = ()
    rows: int = 0
    gaps: int = 0
    overlong: int = 0
    expired: int = 0
    types: str = ""


class Archive:
    """The archive of one stream on one host.

    Args:
        name: name of the stream.
        pattern: path of the stream's files; may contain wildcards.
        formats: format of the stream, not shared, because parsers keep state.
        config: settings of the archive.
        directory: directory of archives without a path of their own.
        host: name of the host.
        read_from: where to start in files that are seen for the first time.
        clock: seconds since the epoch.

    Raises:
        RuntimeFailure: another process writes to this archive.
        ConfigError: its columns are not configured and the format does not define them.
        StorageError: its state is damaged, or is missing although there are files.
        OSError: a disk operation failed; also raised by `step` and `flush`, which may be called again.
    """

    def __init__(
        self,
        name: str,
        pattern: str,
        formats: StreamFormat,
        config: ArchiveConfig,
        *,
        directory: Path,
        host: str,
        read_from: ReadFrom = "beginning",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name, self.config = name, config
        self._formats, self._host, self._clock = formats, host, clock
        self._columns = _columns(name, config, formats)
        self._tables: list[pa.Table] = []
        self._held = 0
        self._since: float | None = None
        self._new: Counter[str] = Counter()
        self.directory = Path(config.path or directory) / name / f"host={host}"
        make_directory(self.directory)
        self._lock = self._locked()
        try:
            found = self._read_state()
            self.state = ArchiveState() if found is None else found
            self._remove_from(self.state.next)
            self._settle_types()
        except BaseException:
            os.close(self._lock)
            raise
        self._files = {
            path: path.stat() for path in sorted(self.directory.glob("date=*/*.parquet"), key=_number)
        }
        self._pattern = pattern
        begun = found is not None
        self._reader = self._new_reader("resume" if begun else read_from)
        if not begun:  # files that come later are read from their beginning, whatever was there now
            self._write_state(self._reader.positions(READER))

    @property
    def positions(self) -> tuple[FilePosition, ...]:
        """Positions up to which lines are archived; the input need not keep earlier lines."""
        return self.state.positions

    def step(self, bytes_max: int = POLL_BYTES) -> int:
        """Read available lines, write a file if one is due, and return the number of bytes read."""
        taken = 0
        if self._held < self.config.file_bytes:
            try:
                for delivery in self._reader.poll(bytes_max):
                    taken += len(delivery.block.data)
                    self._take(delivery)
            except BaseException:
                self._read_again()
                raise
            self._new["gaps"] += len(self._reader.gaps(READER))
        due = self._since is not None and self._clock() - self._since >= self.config.every_s
        if due or self._held >= self.config.file_bytes:
            self.flush()
        elif not taken:
            self.expire()
        return taken

    @property
    def at_end(self) -> bool:
        """Whether all lines that existed at the last poll have been read."""
        return self._reader.at_end(READER)

    def flush(self) -> None:
        at = self._reader.positions(READER)
        rows = 0
        if self._tables:
            table = pa.concat_tables(self._tables, promote_options="permissive")
            rows = table.num_rows
            path = self._put(table)
            self._files[path] = path.stat()
        reach("archive.written")
        self._write_state(at, rows)
        self._settle_types()
        self._tables, self._held, self._since = [], 0, None
        self.expire()

    def expire(self) -> None:
        """Delete files that are too old or exceed the budget, oldest first, but never the newest."""
        total, now, gone = sum(found.st_size for found in self._files.values()), self._clock(), 0
        for path, found in list(self._files.items())[:-1]:
            if total <= self.config.bytes_max and now - found.st_mtime <= self.config.keep_s:
                break
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # the directory of a day without files
            total -= found.st_size
            del self._files[path]
            gone += 1
        if gone:
            self.state.expired += gone
            self._write_state(self.state.positions)

    def describe(self) -> dict[str, Any]:
        files = list(self._files.values())
        return {
            "path": str(self.directory),
            "what": self.config.what,
            "files": len(files),
            "bytes": sum(found.st_size for found in files),
            "bytes_max": self.config.bytes_max,
            "rows": self.state.rows,
            "waiting_bytes": self._held,
            "gaps": self.state.gaps,
            "overlong": self.state.overlong,
            "expired_files": self.state.expired,
        }

    def close(self) -> None:
        """Close the files. Lines that are not written yet will be read again. May be repeated."""
        self._reader.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _new_reader(self, read_from: ReadFrom) -> StreamReader:
        reader = StreamReader(self._pattern, self._formats)
        wanted = (RAW, *self._columns) if self.config.what == "parsed" else ()
        reader.add(READER, wanted, positions=self.state.positions, read_from=read_from)
        return reader

    def _read_again(self) -> None:
        """Go back to what the last file has: the reader is beyond a block whose rows could not be made."""
        self._reader.close()
        self._tables, self._held, self._since, self._new = [], 0, None, Counter()
        self._reader = self._new_reader("resume")

    def _take(self, delivery: BlockDelivery) -> None:
        block, framing = delivery.block, self._formats.framing
        if self.config.what == "parsed":
            table = parsed_rows(block, framing, self._host, delivery.parsed, self._columns)
        else:
            table = raw_rows(block, framing, self._host)
        self._new["overlong"] += block.overlong
        self._held += len(block.data)
        if table.num_rows:
            self._tables.append(table)
        if self._since is None:
            self._since = self._clock()

    def _put(self, table: pa.Table) -> Path:
        day = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        path = self.directory / f"date={day}" / f"{self.state.next:08d}.parquet"
        make_directory(path.parent)
        schema = pa.schema([field.with_type(plain_type(field.type)) for field in table.schema])
        with whole_file(path) as file:
            reach("archive.write")
            pq.write_table(table.cast(schema), file, compression="zstd")
        return path

    def _write_state(self, positions: tuple[FilePosition, ...], rows: int = 0) -> None:
        state = self.state
        after = msgspec.structs.replace(
            state,
            next=state.next + (1 if rows else 0),
            positions=positions,
            types=self._types(),
            rows=state.rows + rows,
            gaps=state.gaps + self._new["gaps"],
            overlong=state.overlong + self._new["overlong"],
        )
        beside = self.directory / f".{STATE}.new"
        with beside.open("wb") as file:
            file.write(json_with_blank_sum(msgspec.json.encode(after)))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.directory / STATE)
        sync_directory(self.directory)
        self.state = after
        self._new = Counter()

    def _read_state(self) -> ArchiveState | None:
        path = self.directory / STATE
        if not path.exists():
            # The state is written before the first file. Without it, the archived lines are unknown.
            if next(self.directory.glob("date=*/*.parquet"), None) is not None:
                raise StorageError(
                    "the archive has files, and its state is gone", where=str(path),
                    hint="Bring it back from a backup, or move the directory away: a new one begins.",
                )  # fmt: skip
            return None
        try:
            state = decode_state(path.read_bytes())
        except (*UNREADABLE, ProtocolError) as error:
            raise StorageError(f"the archive's state is damaged: {error}", where=str(path)) from None
        newest = newest_file(self.directory)
        if newest > state.next:
            raise StorageError(
                f"the archive's state is older than its files: it has written {state.next - 1}, and there is"
                f" a number {newest}", where=str(path),
                hint="Bring it back from a backup, or move the directory away: a new one begins.",
            )  # fmt: skip
        return state

    def _types(self) -> str:
        types = self._formats.schema.types if self.config.what == "parsed" else {}
        own = [(name, types[name]) for name in self._columns if name in types]
        return base64.b64encode(pa.schema(own).serialize().to_pybytes()).decode() if own else ""

    def _settle_types(self) -> None:
        """Give columns the types of earlier files, so that one schema reads all files.

        A value that does not fit is null, and its line is kept. Within one file, integers may still become
        doubles.
        """
        if not self.state.types:
            return
        try:
            found = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.state.types)))
        except (pa.ArrowException, ValueError, OSError) as error:
            where = str(self.directory / STATE)
            raise StorageError(f"the archive's state is damaged: {error}", where=where) from None
        schema = self._formats.schema
        fixed = {each.name: each.type for each in found if each.name not in schema.declared}
        schema.types |= fixed
        schema.declared |= fixed

    def _remove_from(self, number: int) -> None:
        for path in self.directory.glob("date=*/*.parquet"):
            if _number(path) >= number:
                path.unlink()
        for path in self.directory.glob("date=*/.*.new"):
            path.unlink()

    def _locked(self) -> int:
        handle = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise RuntimeFailure(
                "another process writes this archive", where=str(self.directory),
                hint="Stop it, or give this one another path.",
            ) from None  # fmt: skip
        return handle


def decode_state(raw: bytes) -> ArchiveState:
    return msgspec.json.decode(json_checked(raw), type=ArchiveState)


def newest_file(directory: Path) -> int:
    """Return the highest number of a file, or 0. A file of a crashed writer may be missing from the state."""
    return max((_number(path) for path in directory.glob("date=*/*.parquet")), default=0)


def _number(path: Path) -> int:
    return int(path.stem)


def _columns(name: str, config: ArchiveConfig, formats: StreamFormat) -> tuple[str, ...]:
    if config.what == "raw" or config.columns:
        return config.columns
    schema = formats.static_schema
    if schema is None:
        raise ConfigError(
            "the format has no fixed columns", where=f"streams.{name}.archive.columns",
            hint='Name them: columns = ["ts", "path"], or keep what = "raw".',
        )  # fmt: skip
    return tuple(field for field in schema.names if not field.startswith("_"))
