"""Records that come late while the job's version changes: none twice, no revision twice (D-1, D-12, D-16)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from elfmesh.cbt import decode_partial, finish
from elfmesh.control.jobs.records import (
    CONTRIBUTED,
    EXPIRED,
    FILTERED,
    FIRST,
    LATE,
    OVERFLOW,
    PARSE_ERROR,
)
from elfmesh.control.jobs.stages import differs_at, evaluations, followed, stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.storage import DiskStorage
from tests.exhaustive import few
from tests.ingest.rotation.station import PROMPT
from tests.ingest.worker import test_late
from tests.ingest.worker.test_late import STEPS_S, Crash, Host
from tests.sim.swarm.ablations.catalog import without
from tests.sim.swarm.ablations.late import ELSEWHERE, SAFEGUARDS

HERE = "tests/ingest/worker/test_late_versions.py"
TEXTS = [PROMPT.replace("FROM log", f"FROM log WHERE id % {number} <> 0") for number in (2, 3, 5)]


class Changing(Host):
    """The same, of a job whose version changes; what it says is taken as a member takes it."""

    def __init__(self, room: Path, rng: random.Random) -> None:
        self.stages: tuple[Stage, ...] = ()
        self.reported: dict[tuple[int, int, int], object] = {}
        self.closed = FIRST
        super().__init__(room, rng)
        manifest = replace(self._manifest, text=TEXTS[0])
        self.stages = (Stage(FIRST, manifest, manifest.version),)

    def up(self) -> None:
        self._storage = DiskStorage(self._room / "data")
        self._frames = FrameLog(self._storage, garbage_bytes=2000)
        self._reader = StreamReader(
            self.pattern, StreamFormat("json"), clock=lambda: self.now_s, block_bytes=self.block_bytes
        )
        self._stream = Stream("log", StreamConfig(self.pattern, "json", idle="5 s"), self._reader)
        self._stream.spool_bytes_max = self.spool_bytes_max
        self._read_slowly()
        self._running = True
        self._begin()

    def _begin(self) -> None:
        self._job = LocalJob(self.stages[-1].manifest, FIRST, None, self.stages)
        events = self._job.recover(self._frames)
        if self.crash == "before":
            raise Crash
        for frame in self._job.unwritten:
            self._frames.append(frame)
        self._frames.sync()
        for event in events:
            self._hear(event)
        first = self._job.begin(self._stream)
        if first is not None:
            self._frames.append(first)
            self._frames.sync()

    def change(self) -> None:
        """Another version from some interval on that is not closed, often one that is sealed."""
        newest = max(self.counts, default=0)
        boundary = max(self.closed, newest + self.rng.randrange(-4, 3)) if self.counts else FIRST
        number = self.stages[-1].manifest.version + 1
        manifest = replace(self._manifest, text=self.rng.choice(TEXTS), version=number)
        stages = evaluations(followed(self.stages, Stage(boundary, manifest, number)))
        at = differs_at(self.stages, stages, self.closed)
        self.stages = stages
        if at is not None:
            for known in (self.counts, self.rows):
                for index in [each for each in known if each >= at]:
                    del known[index]
        if self._running:
            self._job.end(self._stream)
            self._begin()

    def close(self, below: int) -> None:
        self.closed = max(self.closed, below)
        super().close(below)

    def _hear(self, event: object) -> None:
        if isinstance(event, ctl.Revised):
            assert event.evaluated == stage_at(self.stages, event.interval).evaluated
            if not event.again:
                assert event.seq > self.received, "in order"
            self.received = max(self.received, event.seq)
        if not isinstance(event, ctl.Sealed | ctl.Revised) or not event.parts:
            return
        for entry in event.parts[0]:
            payload = entry.payload
            rows = Counter[int]()
            for row in finish(decode_partial(payload))["main"].to_pylist() if payload else ():
                rows[row["k0"]] += next(value for name, value in row.items() if name != "k0")
            key = (entry.interval, entry.rev, event.evaluated if entry.rev == 1 else 0)
            assert self.reported.setdefault(key, (entry.counts, rows)) == (entry.counts, rows), (
                "a name used twice"
            )
            if event.evaluated != stage_at(self.stages, entry.interval).evaluated:
                continue
            assert entry.rev >= self.revs[entry.interval], "never an older one"
            self.revs[entry.interval] = entry.rev
            self.counts[entry.interval] = entry.counts
            self.rows[entry.interval] = rows


@pytest.mark.parametrize("seed", few(range(25), 8))
def test_every_record_is_in_one_bucket_whatever_version_evaluates_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    host = Changing(tmp_path, rng)
    closes = rng.random() < 0.7
    if rng.random() < 0.3:
        host.spool_bytes_max = rng.choice((0, 300, 600))
    for _ in range(40):
        host.write(rng.randrange(4))
        host.crash = rng.choice(("", "", "", "before", "after", "now"))
        try:
            host.step(rng.choice(STEPS_S), polls=rng.choice((1, 3)))
            if rng.random() < 0.15:
                host.change()
        except Crash:
            host.down()
        if host.crash == "now" and host._running:
            host.down()
        if closes and host._running and host.counts and rng.random() < 0.3:
            host.close(max(host.counts) - rng.randrange(3))
    host.crash = ""
    host.finish()
    totals = [sum(column) for column in zip(*host.counts.values(), strict=True)]
    read_up_to = sum(totals[bucket] for bucket in (CONTRIBUTED, FILTERED, LATE, EXPIRED, OVERFLOW))
    assert read_up_to == sum(totals) == len(host.written), totals
    rows: Counter[int] = sum(host.rows.values(), Counter())
    assert max(rows.values(), default=1) == 1, "nothing counts twice"
    if not closes:
        assert totals[LATE] == 0, "no master had closed anything, whatever version an interval is of"
    assert sum(rows.values()) == totals[CONTRIBUTED]
    for index, found in host.rows.items():
        least = int(stage_at(host.stages, index).manifest.text.split("id % ")[1][0])
        assert all(number % least for number in found)


@pytest.mark.parametrize("seed", few(range(20), 6))
def test_every_line_without_a_time_is_one_error_whatever_version_evaluates_it(
    seed: int, tmp_path: Path
) -> None:
    """It belongs to the interval of the newest record when it was met, also where that is met once more."""
    rng = random.Random(f"errors/{seed}")
    host = Changing(tmp_path, rng)
    broken = 0
    for _ in range(30):
        for _ in range(rng.randrange(3)):
            if rng.random() < 0.4:
                host.raw(b'{"id": 0}\n')
                broken += 1
            else:
                host.write(1)
        host.crash = rng.choice(("", "", "before", "after", "now"))
        try:
            host.step(rng.choice(STEPS_S), polls=rng.choice((1, 3)))
            if rng.random() < 0.3:
                host.change()
        except Crash:
            host.down()
        if host.crash == "now" and host._running:
            host.down()
    host.crash = ""
    host.finish()
    totals = [sum(column) for column in zip(*host.counts.values(), strict=True)]
    assert totals[PARSE_ERROR] == broken, totals
    assert sum(totals) == broken + len(host.written), totals


SOONEST = {
    "carried-counts": 1,
    "sealed-once": 5,
    "late-with-positions": 3,
    "late-by-version": 13,
    "told-positions": 15,
    "told-below": 7,
    "late-at-home": 16,
}
"""The first seed that notices that a safeguard is missing, where it is not 0."""


@pytest.mark.parametrize("safeguard", [name for name in SAFEGUARDS if ELSEWHERE.get(name, HERE) == HERE])
def test_without_a_safeguard_a_story_ends_otherwise(safeguard: str, tmp_path: Path) -> None:
    stories = (
        test_every_record_is_in_one_bucket_whatever_version_evaluates_it,
        test_late.test_every_record_is_in_one_bucket_wherever_the_agent_dies,
    )
    with without(safeguard):
        for seed in sorted(range(20), key=lambda seed: seed != SOONEST.get(safeguard, 0)):
            for story in stories:
                try:
                    story(seed, tmp_path / f"{seed} {story.__name__}")
                except AssertionError:
                    return
    pytest.fail(f"no check notices that it is not so: {SAFEGUARDS[safeguard][0]}")
