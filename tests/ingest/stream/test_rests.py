"""A silent stream is looked at, and its jobs are not evaluated until time or input has something for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import SourceState, StreamReader
from elfmesh.ingest.stream import REST_S, Evaluated, Stream
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.ingest.worker.watermark import WRITING_US
from elfmesh.units import MICROS
from tests.ingest.test_workers import manifest

NOW_US = 1_780_000_000 * MICROS
TEXT = "CREATE JOB t.{} {} AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


class Silent:
    """A stream with jobs at the end of its only file, whose clock stands still between two steps."""

    def __init__(self, directory: Path, *, clauses: tuple[str, ...] = ("",), idle: str = "1 h") -> None:
        self.now_us, self.path = NOW_US, directory / "log"
        self.path.touch()
        config = StreamConfig(str(self.path), "json", idle=idle)
        reader = StreamReader(config.path, StreamFormat("json"), clock=lambda: self.now_us / MICROS)
        self.stream = Stream("log", config, reader)
        self.jobs = [LocalJob(manifest(TEXT.format(f"j{n}", each)), FIRST) for n, each in enumerate(clauses)]
        for job in self.jobs:
            job.begin(self.stream)

    def write(self, at_us: int) -> None:
        with self.path.open("a") as log:
            log.write(json.dumps({"ts": at_us // MICROS}) + "\n")

    def look(self, *, rests: bool = False) -> list[Evaluated] | None:
        """Poll and evaluate; None if there is nothing to evaluate."""
        polled = self.stream.poll(lambda: self.now_us, rests=rests)
        return list(self.stream.evaluate(polled)) if polled.places else None

    @property
    def rest_s(self) -> float:
        return self.stream.rest_s(self.now_us)


def test_a_poll_that_finds_nothing_new_names_no_job(tmp_path: Path) -> None:
    silent = Silent(tmp_path, clauses=("", ""))
    assert silent.rest_s == 0, "nothing is known before the first evaluation"
    silent.look()
    silent.look()
    assert silent.rest_s == REST_S
    assert silent.look(rests=True) is None
    assert silent.stream.polls == 3
    assert silent.look() is not None, "unless all are asked"


def test_a_silent_poll_asks_for_the_place_of_one_of_the_jobs_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, asked = Silent(tmp_path, clauses=("", "", "")), list[str]()
    silent.look()
    silent.look()
    sources = silent.stream.reader.sources

    def counted(job: str) -> list[SourceState]:
        asked.append(job)
        return sources(job)

    monkeypatch.setattr(silent.stream.reader, "sources", counted)
    assert silent.look(rests=True) is None
    assert len(asked) == 1


@pytest.mark.parametrize("what", ["line", "file"])
def test_what_is_new_is_evaluated_at_once(tmp_path: Path, what: str) -> None:
    silent = Silent(tmp_path, clauses=("", ""))
    silent.write(NOW_US)
    silent.look()
    silent.look()
    if what == "line":
        silent.write(NOW_US)
    else:
        silent.path.rename(tmp_path / "log.1")
        silent.path.touch()
        silent.now_us += 2 * MICROS
    assert silent.look(rests=True) is not None


def test_a_rest_ends_when_an_interval_may_close(tmp_path: Path) -> None:
    silent = Silent(tmp_path)
    silent.now_us += 6 * MICROS
    silent.write(silent.now_us)
    silent.look()
    assert silent.rest_s == 0, "what was read may have consequences"
    silent.now_us += 3_700_000
    silent.look()
    assert silent.rest_s == pytest.approx(0.3 + WRITING_US / MICROS)
    silent.now_us += 300_000 + WRITING_US
    assert silent.rest_s == 0, "it has come after the evaluation, which did not close the interval"
    outcomes = silent.look()
    assert outcomes is not None
    assert [type(event) for event in outcomes[0].events] == [ctl.Sealed]
    assert silent.rest_s == 0


def test_a_rest_ends_when_the_clock_begins_to_count_for_an_idle_source(tmp_path: Path) -> None:
    silent = Silent(tmp_path, idle="5 s")
    silent.write(NOW_US - 3600 * MICROS)
    silent.look()
    silent.look()
    assert silent.rest_s == REST_S
    silent.now_us += 4_800_000
    silent.look()
    assert silent.rest_s == pytest.approx(0.2)
    silent.now_us += 200_000
    outcomes = silent.look()
    assert outcomes is not None
    assert ctl.Sealed in {type(event) for event in outcomes[0].events}


def test_a_rest_ends_when_early_rows_are_due(tmp_path: Path) -> None:
    silent = Silent(tmp_path, clauses=("EARLY '500 ms'",))
    silent.look()
    silent.look()
    assert silent.rest_s == pytest.approx(0.5)


def test_a_job_with_late_records_does_not_rest(tmp_path: Path) -> None:
    silent = Silent(tmp_path)
    for at_us in (NOW_US, NOW_US + 20 * MICROS, NOW_US):
        silent.write(at_us)
        silent.now_us = max(silent.now_us, at_us)
        silent.look()
    silent.look()
    late = silent.jobs[0].worker.late
    assert late is not None
    assert late.is_pending, "the revision waits for others"
    assert silent.rest_s == 0


def test_a_job_whose_logs_are_read_to_their_end_does_not_rest(tmp_path: Path) -> None:
    silent = Silent(tmp_path)
    silent.look()
    silent.look()
    silent.jobs[0].end_order = ctl.EndLog(silent.jobs[0].manifest.job_id, 0)
    assert silent.rest_s == 0
