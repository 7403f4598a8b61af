"""One job at one agent: where it begins, why it is held, and where it goes on after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.protocol import events as ctl
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import COUNT, FIRST_INDEX, Host, manifest, path, running, until

__all__ = ["path"]


async def test_a_restart_sends_unreleased_intervals_again_and_loses_and_repeats_no_record(path: Path) -> None:
    job, storage = manifest(), MemoryStorage()
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"), (13, "b"), (21, "a"), (22, "x"))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 2)
        host.host.release(job.job_id, FIRST_INDEX + 1, 0)
    storage.crash()
    host.write((23, "x"), (31, "z"))
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST_INDEX + 1))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 3)
        assert host.counts(job) == {
            (FIRST_INDEX + 1, "a"): 1,
            (FIRST_INDEX + 1, "b"): 1,
            (FIRST_INDEX + 2, "a"): 1,
            (FIRST_INDEX + 2, "x"): 2,
        }
        stops = [FIRST_INDEX + 1] + [sealed.stop for sealed in host.sealed(job)]
        assert [sealed.start for sealed in host.sealed(job)] == stops[:-1]


async def test_reading_from_the_end_is_remembered_across_a_restart_before_the_first_seal(path: Path) -> None:
    job, storage = manifest(), MemoryStorage()
    async with running(path, storage, "end") as host:
        host.write_raw("old line\n")
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.frames.jobs)
        await asyncio.sleep(0.05)
    storage.crash()
    host.write((1, "a"), (12, "a"))
    async with running(path, storage, "end") as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.counts(job))
        assert host.counts(job) == {(FIRST_INDEX, "a"): 1}
        assert all(not isinstance(event, ctl.WorkerReport) for event in host.events)


async def test_a_paused_job_reads_nothing_and_goes_on_where_it_stood(path: Path) -> None:
    paused, other = manifest(), manifest(COUNT.replace("t.count", "t.other"))
    async with running(path, MemoryStorage()) as host:
        for job in (paused, other):
            host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(paused) and host.sealed(other))
        host.host.pause_job(paused.job_id)
        await until(lambda: "control" in host.host._jobs[paused.job_id].held)
        host.write((13, "b"), (25, "a"))
        await until(lambda: len(host.sealed(other)) == 2)
        assert len(host.sealed(paused)) == 1
        host.host.resume_job(paused.job_id)
        await until(lambda: len(host.sealed(paused)) == 2)
        assert host.counts(paused) == host.counts(other)


async def test_a_job_whose_intervals_are_not_closed_stops_reading_until_they_are(path: Path) -> None:
    job = manifest()
    host = Host(path, MemoryStorage(), held_bytes_max=10)
    host.host.start_job(ctl.StartWorker(job, FIRST))
    host.write((1, "a"), (12, "a"))
    await until(lambda: host.sealed(job) and "memory" in host.host._jobs[job.job_id].held)
    host.write((25, "a"))
    await asyncio.sleep(0.2)
    assert len(host.sealed(job)) == 1
    host.host.release(job.job_id, FIRST_INDEX + 1, 0)
    await until(lambda: len(host.sealed(job)) == 2)
    assert host.counts(job) == {(FIRST_INDEX, "a"): 1, (FIRST_INDEX + 1, "a"): 1}
    await host.host.close()
    assert host.errors == []


HOP = COUNT.replace("TUMBLE(ts, INTERVAL '10' SECOND)", "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)")


def ends(host: Host) -> list[int]:
    return [event.stop for event in host.events if isinstance(event, ctl.LogEnded)]


@pytest.mark.parametrize(("text", "windows"), [(COUNT, 1), (HOP, 3)])
async def test_logs_that_end_are_read_to_their_end_and_everything_open_is_sealed(
    path: Path, text: str, windows: int
) -> None:
    job, storage = manifest(text), MemoryStorage()
    async with running(path, storage) as host:
        host.write((1, "a"), (12, "a"), (13, "b"))
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.host.end_log(ctl.EndLog(job.job_id, FIRST))
        await until(lambda: ends(host))
        assert ends(host) == [FIRST_INDEX + 2]
        sums = {index: number for (index, key), number in host.counts(job).items() if key == "a"}
        assert sum(sums.values()) == 2 * windows
        assert max(sums) == FIRST_INDEX + 1
        host.write((14, "b"), (31, "c"))
        host.host.end_log(ctl.EndLog(job.job_id, FIRST_INDEX + 5))
        await until(lambda: len(ends(host)) == 2)
        assert ends(host)[1] == host.sealed(job)[-1].stop == FIRST_INDEX + 5
        assert "c" not in {key for _, key in host.counts(job)}, "what is written later is not read"
    storage.crash()
    async with running(path, storage) as host:
        host.host.end_log(ctl.EndLog(job.job_id, FIRST))
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: ends(host))
        assert host.sealed(job)[-1].stop >= FIRST_INDEX + 5, "a restart does not open them again"


async def test_a_job_that_reads_nothing_ends_at_once_where_it_stands(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
        host.host.end_log(ctl.EndLog(job.job_id, FIRST))
        await until(lambda: ends(host))
        assert (ends(host), host.sealed(job)) == ([FIRST_INDEX], [])


def cuts(host: Host) -> list[ctl.PanesCut]:
    return [event for event in host.events if isinstance(event, ctl.PanesCut)]


async def evaluated(host: Host) -> None:
    """Wait until the stream was polled and evaluated twice, so that everything due is done."""
    stream = host.host.ingests["log"].stream
    polls = stream.polls
    host.host.ingests["log"].wake()
    await until(lambda: stream.polls > polls)
    host.host.ingests["log"].wake()
    await until(lambda: stream.polls > polls + 2)


LAG_US = 500_000


async def test_a_report_for_the_standby_waits_for_its_time_and_for_something_that_was_read(
    path: Path,
) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (2, "b"))
        await until(lambda: host.host._jobs.get(job.job_id) and host.host.ingests["log"].stream.lines_read)
        host.host.cut_panes(ctl.CutPanes(job.job_id, 1, whole=True))
        await until(lambda: cuts(host))
        host.host.cut_panes(ctl.CutPanes(job.job_id, 2, whole=False, after_us=LAG_US))
        host.now_us += LAG_US
        await evaluated(host)
        assert [each.number for each in cuts(host)] == [1], "nothing was read since"
        host.now_us += LAG_US
        host.write((3, "a"))
        await until(lambda: len(cuts(host)) == 2)
        host.host.cut_panes(ctl.CutPanes(job.job_id, 3, whole=False, after_us=LAG_US))
        host.write((4, "a"))
        await evaluated(host)
        host.now_us += LAG_US - 1
        await evaluated(host)
        assert len(cuts(host)) == 2, "a report was made less than LAG ago"
        host.now_us += 1
        await until(lambda: len(cuts(host)) == 3)
        whole, *deltas = cuts(host)
        assert (whole.whole, [each.whole for each in deltas]) == (True, [False, False])
        assert [each.age_us for each in cuts(host)] == [0, 0, LAG_US]
        assert [[pane.contributed for pane in each.panes] for each in cuts(host)] == [[2], [1], [1]]


async def test_a_report_is_made_at_once_if_the_order_states_no_time_or_the_clock_was_set_back(
    path: Path,
) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.host.cut_panes(ctl.CutPanes(job.job_id, 1, whole=True, after_us=LAG_US))
        await until(lambda: cuts(host))
        host.host.cut_panes(ctl.CutPanes(job.job_id, 2, whole=True))
        await until(lambda: len(cuts(host)) == 2)
        host.write((1, "a"))
        host.host.cut_panes(ctl.CutPanes(job.job_id, 3, whole=False, after_us=LAG_US))
        host.now_us -= 10 * LAG_US
        await until(lambda: len(cuts(host)) == 3)
        assert [each.whole for each in cuts(host)] == [True, True, False]


async def test_an_order_that_comes_while_the_log_is_silent_is_carried_out_when_it_is_due(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.host.cut_panes(ctl.CutPanes(job.job_id, 1, whole=True))
        await until(lambda: cuts(host))
        host.write((1, "a"))
        ingest = host.host.ingests["log"]
        await until(lambda: ingest.stream.lines_read and ingest._rests_until_s > 0)
        host.now_us += LAG_US
        host.host.cut_panes(ctl.CutPanes(job.job_id, 2, whole=False, after_us=LAG_US))
        assert ingest._rests_until_s == 0, "the next poll is followed by an evaluation"
        await until(lambda: len(cuts(host)) == 2)
        assert ingest.stream.cut_within_s(host.now_us) == LAG_US / 1e6
        assert ingest.stream.cut_within_s(host.now_us + 1) == (LAG_US - 1) / 1e6
