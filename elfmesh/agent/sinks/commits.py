"""The commit log of a directory of Parquet files: one JSON line per interval, written last.

  DIR/_commits/00000001.jsonl, 00000002.jsonl, ...    lines in the order of writing

A line is the commit marker of its interval: {"interval", "since", "start", "end", "state", "rev", "epoch",
"version", "completeness", "rows", "file", "sha256"}, or {"lost": [first, last], "why"}, or {"compacted":
{"id", "day", "files"}} (see compact.py). Spark, pandas and Arrow ignore names that begin with `_`. A writer
holds a lock across processes, and first reads the lines of other writers. The newest line of an interval is
valid. See guarantees D-5, D-17.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from elfmesh.agent.sinks.base import LostIntervals, Position, SinkItem, Unavailable, past
from elfmesh.ql.values.row_json import encode_json, iso_us
from elfmesh.storage.results.segment import sync_directory, write_all

DIRECTORY = "_commits"
FILE_BYTES_MAX = 4 << 20
SHOWN_MAX = 256
"""Maximum number of remembered open intervals; a master publishes fewer."""


class Commits:
    """Commit log of one results log. A file larger than `file_bytes_max` is followed by a new one."""

    def __init__(self, directory: Path, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._directory = directory / DIRECTORY
        self._file_bytes_max = file_bytes_max
        self._read = 0
        self.position: Position | None = None
        self.shown: dict[int, tuple[int, int]] = {}
        make_directory(self._directory)
        self._number = self._where_to_begin()
        with self.locked():
            pass

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory and read new lines. Unavailable: it is locked, or a line is damaged."""
        handle = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Unavailable(f"another process writes to {self._directory.parent}") from None
            self._catch_up()
            yield
        finally:
            os.close(handle)

    def append(self, item: SinkItem, *, file: str | None, rows: int, sha256: str | None) -> None:
        record = item.record
        line = {
            "interval": record.index,
            "since": record.since,
            "start": iso_us(record.start_us),
            "end": iso_us(record.end_us),
            "state": record.state,
            "rev": record.rev,
            "epoch": record.epoch,
            "version": record.version,
            "completeness": record.completeness,
            "rows": rows,
            "file": file,
            "sha256": sha256,
        }
        self._append(line)

    def declare(self, lost: LostIntervals) -> None:
        self._append({"lost": [lost.first, lost.last], "why": lost.why})

    def compacted(self, note: dict[str, Any]) -> None:
        """Record that the intervals of a day are in other files now."""
        self._append({"compacted": note})

    def _append(self, line: dict[str, Any]) -> None:
        if self._read >= self._file_bytes_max:
            self._number, self._read = self._number + 1, 0
        path, data = self._path(self._number), encode_json(line) + b"\n"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            write_all(handle, data)
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, self._read)
            raise
        finally:
            os.close(handle)
        if not self._read:
            sync_directory(self._directory)
        self._read += len(data)
        self._note(data)

    def _catch_up(self) -> None:
        while True:
            self._read_on()
            if not self._path(self._number + 1).exists():
                return
            self._number, self._read = self._number + 1, 0

    def _read_on(self) -> None:
        path = self._path(self._number)
        if not path.exists():
            return
        with path.open("r+b") as file:
            file.seek(self._read)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                try:
                    self._note(line)
                except (KeyError, TypeError, ValueError) as error:  # includes the errors of the decoder
                    raise Unavailable(f"{path} is damaged: {error}") from None
            self._read += len(whole)
            if len(whole) < len(data):
                file.truncate(self._read)

    def _where_to_begin(self) -> int:
        numbers = sorted((int(each.stem) for each in self._directory.glob("*.jsonl")), reverse=True)
        for number in numbers:
            lines = self._path(number).read_bytes().splitlines(keepends=True)
            notified = (
                line for line in lines if line.endswith(b"\n") and not line.startswith(b'{"compacted"')
            )
            if any(b'"state":"TENTATIVE"' not in line for line in notified):
                return number
        return numbers[-1] if numbers else 1

    def _note(self, line: bytes) -> None:
        reported = msgspec.json.decode(line)
        if "compacted" in reported:
            return
        if "lost" in reported:
            first, last = reported["lost"]
            self.position = past(self.position, LostIntervals(first, last, reported["why"]))
        elif reported["state"] == "TENTATIVE":
            self.shown[reported["interval"]] = reported["epoch"], reported["rev"]
            while len(self.shown) > SHOWN_MAX:
                del self.shown[min(self.shown)]
        else:
            self.position = Position(reported["interval"] + 1, reported["epoch"])
            self.shown = {index: each for index, each in self.shown.items() if index > reported["interval"]}

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08d}.jsonl"


def make_directory(directory: Path) -> None:
    """Create a directory and its parents durably."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
    sync_directory(directory.parent)
