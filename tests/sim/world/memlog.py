"""Logs in memory: what `StreamReader` offers, without a file system, for the agents of `agents`.

A line is there when the test says so, in one file that is never rotated: which records a result must hold
follows from the test's own text, and the fuzzer pays for no file. How files are read is tested in the swarm,
whose agents have the real reader (`swarm/disk`), and in tests/agent/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import Block, BlockDelivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ql.engine.block import Times

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
    states: list[SourceState] = field(default_factory=list)
    places: tuple[FilePosition, ...] = ()


class MemoryReader:
    """Reads one `MemoryLog`; every job has its own cursor, since sharing is `StreamReader`'s own business.

    As with `StreamReader`, an equal answer stays the same object, because a stream that finds both answers
    unmoved rests and does not evaluate its jobs.
    """

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
        wanted: WantedTimes | None = None,
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

    def note(self, delivery: BlockDelivery, dated: Mapping[str, Times]) -> None:
        pass

    def look(self) -> None:
        pass

    def sources(self, job: str) -> list[SourceState]:
        cursor = self.cursors[job]
        states = [SourceState((1, self.log.number), cursor.offset >= len(self.log.data))]
        cursor.states = states if states != cursor.states else cursor.states
        return cursor.states

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        cursor = self.cursors[job]
        places = (self.log.at(cursor.offset),)
        cursor.places = places if places != cursor.places else cursor.places
        return cursor.places

    def gaps(self, job: str) -> list[Gap]:
        return []

    def problems(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self.cursors.clear()
