"""What is dropped under pressure is counted, once, whatever happens (D-1, D-10)."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.agent.settings.config import load_config
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.records import BUCKETS, FIRST
from elfmesh.control.protocol.events import WorkerReport
from elfmesh.errors import ConfigError
from elfmesh.ingest.host import InlineExecutor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.read_loop import Ingest
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.jobs import LocalJob
from tests.ingest.rotation.station import PATIENT, PROMPT, Station
from tests.ingest.test_workers import manifest

steps = st.tuples(st.booleans(), st.booleans(), st.integers(0, 4), st.sampled_from([1, 20]))


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, max_size=10), st.sampled_from([PATIENT, PROMPT]))
def test_each_record_is_shed_or_contributed_once(story: list[tuple[bool, bool, int, int]], text: str) -> None:
    with tempfile.TemporaryDirectory() as room:
        station = Station(Path(room), text=text)
        for shedding, crash, count, seconds in story:
            station.shedding = shedding
            station.write(count)
            station.step(seconds, polls=2)
            if crash:
                station.down()
        station.shedding = False
        station.finish()
        totals = station.totals()
        assert station.again() == 0
        assert station.lost() == totals.get("shed", 0)
        assert sum(totals.values()) == len(station.written)


def test_shed_records_are_counted_where_time_goes_on(tmp_path: Path) -> None:
    station = Station(tmp_path, text=PROMPT)
    station.write()
    station.step(12)
    station.shedding = True
    station.write(5)
    station.step(12)
    station.shedding = False
    station.write(2)
    station.finish()
    assert station.totals() == {"contributed": 5, "shed": 5}
    assert len([counts for counts in station.counts.values() if counts[BUCKETS.index("shed")]]) == 1


def test_intervals_that_the_spool_has_no_room_for_keep_their_counts(tmp_path: Path) -> None:
    station = Station(tmp_path, text=PROMPT)
    station.spool_bytes_max = 0
    station.write(4)
    station.step()
    station.finish()
    assert station.totals() == {"spool_overflow": 4}
    assert not station.ids()


def test_what_was_dropped_lowers_the_fidelity() -> None:
    counts = [0] * len(BUCKETS)
    for bucket, number in (("contributed", 60), ("filtered", 20), ("shed", 15), ("spool_overflow", 5)):
        counts[BUCKETS.index(bucket)] = number
    assert Rates().fidelity(1, 0, counts) == pytest.approx(0.8)


def test_the_choice_is_declared_in_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    for choice in ("wait", "shed"):
        path.write_text(f'data_dir = "d"\n[streams.log]\npath = "x"\non_overload = "{choice}"\n')
        assert load_config(str(path)).streams["log"].on_overload == choice
    path.write_text('data_dir = "d"\n[streams.log]\npath = "x"\non_overload = "drop"\n')
    with pytest.raises(ConfigError, match="on_overload"):
        load_config(str(path))


@pytest.mark.parametrize(("choice", "spool_bytes_max"), [("wait", None), ("shed", 0)])
def test_a_crowded_frame_log_makes_only_a_stream_that_sheds_drop_rows(
    tmp_path: Path, choice: Literal["wait", "shed"], spool_bytes_max: int | None
) -> None:
    config = StreamConfig(str(tmp_path / "log"), "json", on_overload=choice)
    stream = Stream("log", config, StreamReader(config.path, StreamFormat("json")))

    async def evaluate() -> None:
        await Ingest(
            stream,
            InlineExecutor(),
            Scheduler().open(1),
            wall_us=lambda: 0,
            write=lambda frames: asyncio.sleep(0),
            emit=lambda event: None,
            ended=lambda job: None,
            crowded=lambda: True,
        )._evaluate(stream.poll(lambda: 0))

    asyncio.run(evaluate())
    assert stream.spool_bytes_max == spool_bytes_max


def test_a_job_beyond_its_share_of_memory_is_shed_before_the_others_and_reports_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no place to spill to, and a stream that sheds: of two jobs on the same lines, one goes on."""
    path = tmp_path / "log"
    path.touch()
    config = StreamConfig(str(path), "json", on_overload="shed")
    budget = MemoryBudget(400_000, job_share=0.5)
    stream = Stream("log", config, StreamReader(config.path, StreamFormat("json")), memory=budget)
    texts = {"few": "count(*) AS n", "many": "user, count(*) AS n"}
    jobs = {}
    for name, columns in texts.items():
        groups = ", user" if name == "many" else ""
        text = (
            f"CREATE JOB t.{name} AS SELECT {columns} FROM log GROUP BY TUMBLE(ts, INTERVAL '1' HOUR){groups}"
        )
        jobs[name] = LocalJob(manifest(text), FIRST)
        jobs[name].begin(stream)
    reported: list[str] = []
    users = random.Random(3)
    for _ in range(40):
        with path.open("a") as log:
            log.writelines(
                f'{{"ts":"2015-05-17T10:00:00Z","user":"{users.randbytes(16).hex()}"}}\n' for _ in range(500)
            )
        for outcome in stream.evaluate(stream.poll(lambda: 1_431_856_900_000_000)):
            reports = [each for each in outcome.events if isinstance(each, WorkerReport)]
            reported += [text for each in reports for text in each.samples]
    few, many = jobs["few"].cost, jobs["many"].cost
    assert (few.lines_shed, many.lines_shed > 0) == (0, True)
    assert many.lines_shed < many.lines == few.lines == 20_000
    assert not budget.over, "no other job has to wait"
    assert "more than its share of 0.2 MB" in many.describe()["crowds"]
    assert few.describe()["crowds"] == ""
    assert any("share of 0.2 MB" in text for text in reported)
    assert "job t/many has too many groups" in caplog.text
    many.memory.nbytes = 0  # type: ignore[union-attr]  # its intervals are closed
    assert many.holds(0)
    assert many.crowds == ""
