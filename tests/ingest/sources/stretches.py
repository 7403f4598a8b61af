"""What tests of time indexes share: short stretches, event times, and readers of one stream."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader, stream_times
from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.ingest.sources.contents import stated_size
from elfmesh.ingest.sources.file import open_file
from elfmesh.ingest.sources.stream_times import StreamTimes
from elfmesh.ingest.sources.time_index import Stretch, WantedTimes
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows, Times
from tests.ingest.sources.tails import Clock

STRETCH = 400
SECOND = 1_000_000


@contextlib.contextmanager
def short_stretches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_times, "STRETCH_BYTES", STRETCH)
        yield


def line(second: int | None, number: int) -> str:
    return json.dumps({"ts": None if second is None else second, "n": number}) + "\n"


def log_of(seconds: Sequence[int | None], first: int = 0) -> str:
    """Seconds after the epoch, as numbers; formats read them as times."""
    return "".join(line(second, first + number) for number, second in enumerate(seconds))


def wanted(since: int | None, until: int | None = None) -> WantedTimes:
    return WantedTimes("ts", *(None if each is None else each * SECOND for each in (since, until)))


class Host:
    """Readers of one stream, each from the beginning of its logs, and the directory of the indexes."""

    def __init__(self, root: Path, format_name: str = "json") -> None:
        self.log, self.directory = root / "log", root / "times"
        self.format_name = format_name
        self.restart()

    def restart(self, settings: bytes = b"") -> None:
        self.times = StreamTimes(self.directory, settings)

    def read(self, within: WantedTimes | None = None, *, indexed: bool = True, block: int = 900) -> list[int]:
        """Read all there is; returns the numbers of the records in the range, ascending."""
        clock = Clock()
        reader = StreamReader(
            str(self.log),
            StreamFormat(self.format_name),
            block_bytes=block,
            clock=clock,
            times=self.times if indexed else None,
        )
        reader.add("job", ("ts", "n"), read_from="resume", wanted=within)
        found: list[int] = []
        self.bytes_read, silent = 0, 0
        while silent < 3:
            deliveries = reader.poll(2 * block)
            silent = 0 if deliveries else silent + 1
            clock.now += 2.0
            for delivery in deliveries:
                self.bytes_read += len(delivery.block.data)
                rows = BlockRows(delivery.parsed.arrays, delivery.parsed.rows)
                rows.times("ts")
                reader.note(delivery, rows.dated)
                least, most = INT64_MIN, INT64_MAX
                if within is not None:
                    least = least if within.since_us is None else within.since_us
                    most = most if within.until_us is None else within.until_us - 1
                inside = rows.within("ts", least, most)
                numbers = inside.column("n")
                found += [] if numbers is None else numbers.to_pylist()
        assert reader.at_end("job")
        reader.close()
        return sorted(found)

    def predicted(self, within: WantedTimes, *, block: int = 900) -> int:
        """Return how many bytes the agent expects to read at most."""
        status = self.log.stat()
        file = open_file(str(self.log), (status.st_dev, status.st_ino), LineCutter)
        with contextlib.closing(file):
            file.learn_head()
            whole = max(status.st_size, stated_size(str(self.log)))
            return whole - self.times.spared(file, within, block)

    def same(self, *ranges: WantedTimes, block: int = 900) -> None:
        for each in ranges:
            assert self.read(each, block=block) == self.read(each, indexed=False)


def stretches(*extents: tuple[int, int]) -> list[Stretch]:
    """Consecutive stretches with the least and the greatest time of each."""
    return [
        Stretch(100 * number, number.to_bytes(8), least, greatest)
        for number, (least, greatest) in enumerate(extents, 1)
    ]


def times_of(*times: int | None) -> Times:
    column = pa.array(times, pa.timestamp("us", tz="UTC"))
    return BlockRows({"ts": column}, len(times)).times("ts")
