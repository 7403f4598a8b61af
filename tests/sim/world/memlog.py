"""Logs in memory: what `StreamReader` offers, without a file system, for the agents of `agents`.

A line is there when the test says so, in one file that is never rotated: which records a result must hold
follows from the test's own text, and the fuzzer pays for no file. How files are read is tested in the swarm,
whose agents have the real reader (`swarm/disk`), and in tests/agent/.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import Block, BlockDelivery, FilePosition, Gap, SourceState

BLOCK_BYTES = 64 << 10


@dataclass
class MemoryLog:
    """One growing file; survives the agent that reads it."""

    number: int
    data: bytearray = field(default_factory=bytearray)

    def write(self, *lines: bytes) -> None:
        for line in lines:
            self.data += line + b"\n"

    def at(self, offset: int) -> FilePosition:
        return FilePosition(f"log-{self.number}", 1, self.number, b"memory", 6, offset)


@dataclass
class _Cursor:
    columns: tuple[str, ...]
    offset: int
    stops: list[int]


class MemoryReader:
    """Reads one `MemoryLog`; every job has its own cursor, since sharing is `StreamReader`'s own business."""

    def __init__(self, log: MemoryLog, format_name: str = "json") -> None:
        self.log = log
        self.parser = StreamFormat(format_name).parser(f"log-{log.number}")
        self.cursors: dict[str, _Cursor] = {}

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: Literal["beginning", "end", "resume"] = "beginning",
        boundaries: Iterable[FilePosition] = (),
    ) -> None:
        start = len(self.log.data) if read_from == "end" else 0
        offset = next((position.offset for position in positions), start)
        self.cursors[job] = _Cursor(tuple(columns), offset, sorted(stop.offset for stop in boundaries))

    def remove(self, job: str) -> None:
        self.cursors.pop(job, None)

    def poll(self, bytes_max: int = BLOCK_BYTES) -> list[BlockDelivery]:
        deliveries = []
        for job, cursor in self.cursors.items():
            end = min(len(self.log.data), cursor.offset + min(bytes_max, BLOCK_BYTES))
            end = next((stop for stop in cursor.stops if cursor.offset < stop < end), end)
            end = self.log.data.rfind(b"\n", cursor.offset, end) + 1
            if end > cursor.offset:
                data = bytes(self.log.data[cursor.offset : end])
                block = Block(data, self.parser.source, self.log.at(cursor.offset), end)
                deliveries.append(BlockDelivery((job,), self.parser.parse(data, cursor.columns), block))
                cursor.offset = end
        return deliveries

    def look(self) -> None:
        pass

    def sources(self, job: str) -> list[SourceState]:
        return [SourceState((1, self.log.number), self.cursors[job].offset >= len(self.log.data))]

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        return (self.log.at(self.cursors[job].offset),)

    def gaps(self, job: str) -> list[Gap]:
        return []

    def problems(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self.cursors.clear()
