"""One job of one agent over real files, from the log to the frames on disk, without threads and a network.

Time is a number, a crash leaves what is on disk, and what was sealed is read back record by record.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from elfmesh import ql
from elfmesh.cbt import decode_partial, finish
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.records import BUCKETS, FIRST
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released
from elfmesh.storage.storage import DiskStorage
from tests.ingest.sources.tails import let_file_clock_pass

BEGIN = datetime(2026, 5, 17, 10, 0, tzinfo=UTC)
PATIENT = """CREATE JOB t.ids LATENESS INTERVAL '1' HOUR AS SELECT id, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), id"""
"""The lateness is longer than any case, so that only the last step seals: every crash replays everything."""

PROMPT = PATIENT.replace("'1' HOUR", "'5' SECOND")
"""Everything is sealed by the next step: a crash replays nothing."""


class Station:
    """The agent's side and the writer's side of one case.

    Args:
        room: an empty directory.
        crashing: kill and restart the agent at every step.
        pattern: of the stream, within the log's directory.
        text: of the job.

    Attributes:
        log: where the writer writes.
        written: the ids of all whole lines.
    """

    def __init__(
        self, room: Path, *, crashing: bool = False, pattern: str = "access.log", text: str = PATIENT
    ) -> None:
        self.directory = room / "logs"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.keep = room / "keep"
        self.keep.mkdir(exist_ok=True)
        self.log = self.directory / "access.log"
        self.pattern, self.crashing = str(self.directory / pattern), crashing
        self.written: list[int] = []
        self.rotations = 0
        self.now_s = 0.0
        self.wall_shift_s = 0.0
        self.shedding = False
        self.block_bytes, self.poll_bytes = 1 << 16, POLL_BYTES
        self.spool_bytes_max: int | None = None
        self._room = room
        job = ql.parse(text).job
        assert job is not None
        self._manifest = new_manifest(job, text, "me", created=0, incarnation="i1")
        self.counts: dict[int, tuple[int, ...]] = {}
        self.rows: dict[int, Counter[int]] = {}
        self.samples: list[str] = []
        self.problems: dict[str, str] = {}
        self._running = False

    # -- the writer --------------------------------------------------------------------------------------

    def line(self, **more: object) -> bytes:
        """The next record, as JSON without an end of line; its time is the writer's."""
        number = len(self.written)
        self.written.append(number)
        moment = (BEGIN + timedelta(seconds=self.now_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return json.dumps({"ts": moment, "id": number, **more}).encode()

    def write(self, count: int = 3, path: Path | None = None, end: bytes = b"\n") -> None:
        """Append records."""
        self.raw(b"".join(self.line() + end for _ in range(count)), path)

    def raw(self, data: bytes, path: Path | None = None) -> None:
        """Append bytes."""
        with (path or self.log).open("ab") as file:
            file.write(data)

    def rotate(self) -> Path:
        """As logrotate does: .2 becomes .3, .1 becomes .2, the log becomes .1."""
        numbered = [path for path in self.directory.iterdir() if path.name.startswith("access.log.")]
        for path in sorted(numbered, key=lambda path: -int(path.name.split(".")[2])):
            name = path.name.split(".")
            name[2] = str(int(name[2]) + 1)
            path.rename(path.with_name(".".join(name)))
        return self.log.rename(self.log.with_name("access.log.1"))

    def let_file_clock_pass(self) -> None:
        let_file_clock_pass(self.keep / "clock")

    # -- the agent ---------------------------------------------------------------------------------------

    def up(self) -> None:
        """Start the agent, or start it again after a crash."""
        self._storage = DiskStorage(self._room / "data")
        self._frames = FrameLog(self._storage, garbage_bytes=2000)
        self._reader = StreamReader(
            self.pattern, StreamFormat("json"), clock=lambda: self.now_s, block_bytes=self.block_bytes
        )
        self._stream = Stream("log", StreamConfig(self.pattern, "json", idle="5 s"), self._reader)
        self._stream.spool_bytes_max = self.spool_bytes_max
        self._job = LocalJob(self._manifest, FIRST)
        for event in self._job.recover(self._frames):
            self._hear(event)
        first = self._job.begin(self._stream)
        if first is not None:
            self._frames.append(first)
            self._frames.sync()
        self._running = True

    def down(self) -> None:
        """Crash: nothing is finished, what is on disk stays."""
        self._reader.close()
        self._storage.close()
        self._running = False

    def step(self, seconds: float = 20.0, *, polls: int = 4) -> None:
        """Let time pass and the agent look at its files; starts it if need be."""
        if not self._running:
            self.up()
        for _ in range(polls):
            self.now_s += seconds / polls
            self._poll()
        if self.crashing:
            self.down()

    def look_busily(self) -> None:
        """Look once and read one block, as one that has much to read."""
        if not self._running:
            self.up()
        self.now_s += 1.0
        self.poll_bytes = 1
        self._poll()
        self.poll_bytes = POLL_BYTES

    def finish(self) -> None:
        """Let so much time pass that everything is sealed; no more crashes."""
        if not self._running:
            self.up()
        for _ in range(40):
            self.now_s += 300.0
            self._poll()
        self.down()

    def wall_us(self) -> int:
        """The agent's wall clock, which may be stepped."""
        return int((BEGIN.timestamp() + self.now_s + self.wall_shift_s) * 1e6)

    def _poll(self) -> None:
        (outcome,) = self._stream.evaluate(self._stream.poll(self.wall_us, self.shedding, self.poll_bytes))
        assert not outcome.failed, outcome.events
        for frame in outcome.frames:
            self._frames.append(frame)
        self._frames.sync()
        for event in outcome.events:
            self._hear(event)
        self.problems |= self._reader.problems()

    def release(self) -> None:
        """The control plane says that everything sealed but the newest interval is closed."""
        self._frames.append(Released(self._job.key, self._job.worker.next_index - 1))
        self._frames.compact()

    def _hear(self, event: object) -> None:
        """What leaves the agent; what is said again must be the same."""
        if isinstance(event, ctl.WorkerReport):
            assert not event.error, event.error
            self.samples += event.samples
        if not isinstance(event, ctl.Sealed):
            return
        for entry in event.parts[0]:
            payload = entry.payload
            rows: Counter[int] = Counter()
            if payload:
                for row in finish(decode_partial(payload))["main"].to_pylist():
                    rows[row["k0"]] += (
                        row["v0"]
                        if "v0" in row
                        else next(value for name, value in row.items() if name != "k0")
                    )
            reported = (
                self.counts.setdefault(entry.interval, entry.counts),
                self.rows.setdefault(entry.interval, rows),
            )
            assert reported == (entry.counts, rows), (
                f"interval {entry.interval} was sealed twice, differently"
            )

    # -- the outcome -------------------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        """Records per bucket over all intervals, those that are not zero."""
        sums = map(sum, zip(*self.counts.values(), strict=True)) if self.counts else [0] * len(BUCKETS)
        return {name: number for name, number in zip(BUCKETS, sums, strict=True) if number}

    def ids(self) -> Counter[int]:
        """How often each record was contributed."""
        total: Counter[int] = Counter()
        for rows in self.rows.values():
            total.update(rows)
        return total

    def again(self) -> int:
        """How often a record was contributed once more."""
        return sum(times - 1 for times in self.ids().values())

    def lost(self) -> int:
        """Whole lines that were contributed nowhere."""
        found = self.ids()
        assert found.keys() <= set(self.written)
        return len(self.written) - len(found)
