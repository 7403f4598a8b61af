"""A worker whose job changes its version: exact on both sides of the boundary (D-16)."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.cbt import decode_partial, finish
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.stages import evaluations, followed, stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import COUNT, FIRST_INDEX, Host, manifest, path, running, until

__all__ = ["path"]

FOUND = [phase for phase in Phase if phase != Phase.shrink]
"""Shrinking what waits for files takes minutes and says little more."""

HOP = COUNT.replace("TUMBLE(ts, INTERVAL '10' SECOND)", "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)")


def version(number: int, text: str, since_us: int | None = None) -> Manifest:
    return replace(manifest(text), version=number, since_us=since_us)


def started(stages: tuple[Stage, ...]) -> ctl.StartWorker:
    return ctl.StartWorker(stages[-1].manifest, FIRST, stages)


def staged(first: int, old: str, new: str) -> tuple[Stage, ...]:
    return Stage(FIRST, version(1, old), 1), Stage(first, version(2, new), 2)


def filtered(text: str) -> str:
    return text.replace("FROM log", "FROM log WHERE k <> 'x'")


def reported(host: Host, job: Manifest) -> dict[tuple[int, int], dict[str, int]]:
    """(interval, version) -> rows, as the control plane takes them: the newest of each."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for sealed in host.sealed(job):
        for entry in sealed.parts[0]:
            payload = entry.payload
            rows = finish(decode_partial(payload))["main"].to_pylist() if payload else []
            found[entry.interval, sealed.evaluated] = {row["k0"]: row["a0"] for row in rows}
    return found


def records_of(host: Host, job: Manifest) -> dict[int, tuple[int, ...]]:
    """Per interval what was contributed, filtered and unusable, by what counts in the end."""
    counts = {}
    for sealed in host.sealed(job):
        for entry in sealed.parts[0]:
            counts[entry.interval] = entry.counts[:3]
    return counts


@pytest.mark.parametrize("text", [COUNT, HOP])
async def test_a_version_begins_with_full_windows_and_the_old_one_ends_with_them(
    path: Path, text: str
) -> None:
    job, boundary = manifest(text), FIRST_INDEX + 4
    log = [(second, "x" if second % 3 else "y") for second in range(120)]
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write(*log[:45])
        await until(lambda: host.sealed(job))
        host.host.start_job(started(staged(boundary, text, filtered(text))))
        host.write(*log[45:])
        await until(partial(reached, host, FIRST_INDEX + 8, 2))
        found = reported(host, job)
    size = 10 if text == COUNT else 30
    for index in range(FIRST_INDEX, FIRST_INDEX + 8):
        evaluated = 1 if index < boundary else 2
        inside = [key for second, key in log if 0 <= second - 10 * (index - FIRST_INDEX) < size]
        wanted = Counter(key for key in inside if evaluated == 1 or key != "x")
        assert found[index, evaluated] == wanted, index - FIRST_INDEX


async def test_a_paused_job_stays_paused_when_its_version_changes(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(job))
        host.host.pause_job(job.job_id)
        host.host.start_job(started(staged(FIRST_INDEX + 2, COUNT, filtered(COUNT))))
        await until(lambda: host.host._jobs.get(job.job_id) and host.host._jobs[job.job_id].stages[1:])
        await until(lambda: host.host._jobs[job.job_id].held == {"control"})
        host.host.resume_job(job.job_id)
        host.write((25, "x"), (26, "y"), (41, "y"))
        await until(lambda: host.sealed(job)[-1].stop == FIRST_INDEX + 4)
        assert reported(host, job)[FIRST_INDEX + 2, 2] == {"y": 1}


UNDATED = COUNT.replace("TUMBLE(ts", "TUMBLE(nowhere")
LONG_US = 3 * 3_600_000_000
"""Longer than a source without a usable time is waited for."""


async def test_a_version_comes_back_within_what_one_without_a_time_has_sealed(
    path: Path,
) -> None:
    job = manifest()
    stages = staged(FIRST_INDEX + 4, COUNT, UNDATED)
    after = (*stages, Stage(FIRST_INDEX + 5, version(3, COUNT), 3))
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(started(stages))
        host.write(*((at, "k") for at in range(75)))
        await until(partial(reached, host, FIRST_INDEX + 4, 1))
        host.now_us += LONG_US
        await until(partial(reached, host, FIRST_INDEX + 8, 2))
        host.host.start_job(started(after))
        host.write(*((at, "k") for at in range(75, 85)))
        await until(partial(reached, host, FIRST_INDEX + 8, 3))
        found = reported(host, job)
    assert [found[FIRST_INDEX + index, 3] for index in range(5, 8)] == [{"k": 10}] * 3


def has_read(host: Host) -> bool:
    """Whether the job has read its file to the end."""
    state = host.host._jobs.get(manifest().job_id)
    size = host.path.stat().st_size
    return state is not None and any(
        each.offset == size for part in state.worker._parts for each in part.offsets.reached()
    )


def reached(host: Host, stop: int, evaluated: int) -> bool:
    """Whether everything below an interval is sealed, the last one by this version."""
    sealed = host.sealed(manifest())
    return bool(sealed) and sealed[-1].stop >= stop and sealed[-1].evaluated == evaluated


@settings(
    max_examples=15, deadline=None, phases=FOUND, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
async def test_any_change_at_any_moment_is_as_if_each_interval_had_always_had_its_version(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Changes and crashes in any order against a plain count."""
    text = data.draw(st.sampled_from([COUNT, HOP]), label="text")
    texts = [filtered(text), text.replace("FROM log", "FROM log WHERE k <> 'y'"), text]
    size = 10 if text == COUNT else 30
    log, storage = Path(tempfile.mkdtemp(dir=tmp_path)) / "log", MemoryStorage()
    log.touch()
    stages: tuple[Stage, ...] = (Stage(FIRST, version(1, text), 1),)
    written: list[tuple[int, str]] = []
    second, closed = 0, FIRST
    final: dict[int, dict[str, int]] = {}
    host = Host(log, storage)
    host.host.start_job(started(stages))

    async def settle() -> None:
        stop = FIRST_INDEX + (written[-1][0] - size) // 10 + 1
        await until(partial(reached, host, stop, stage_at(stages, stop - 1).evaluated))
        final.update({index: rows for (index, _), rows in reported_by(host, stages).items()})

    for step in range(data.draw(st.integers(2, 5), label="steps")):
        more = data.draw(st.integers(50, 120), label="seconds")
        new = [(at, data.draw(st.sampled_from("xyz"))) for at in range(second, second + more, 3)]
        host.write(*new)
        written += new
        second += more
        await settle()
        if data.draw(st.booleans(), label="release"):
            ready = FIRST_INDEX + (written[-1][0] - size) // 10 + 1
            closed = max(closed, min(ready, FIRST_INDEX + data.draw(st.integers(0, 30))))
            host.host.release(manifest().job_id, closed, 0)
        if data.draw(st.booleans(), label="crash"):
            await host.host.close()
            host = Host(log, storage)
        boundary = max(closed, FIRST_INDEX + data.draw(st.integers(0, 30), label="boundary"))
        number = stages[-1].manifest.version + 1
        stages = followed(stages, Stage(boundary, version(number, texts[step % 3]), number))
        stages = evaluations(stages)
        host.host.start_job(started(stages))
    host.write((second + 200, "z"))
    written.append((second + 200, "z"))
    await settle()
    await host.host.close()
    assert host.errors == []
    for index in range(FIRST_INDEX, FIRST_INDEX + (second + 200 - size) // 10 + 1):
        reported_text = stage_at(stages, index).manifest.text
        left_out = "x" if "<> 'x'" in reported_text else "y" if "<> 'y'" in reported_text else ""
        inside = [key for at, key in written if 0 <= at - 10 * (index - FIRST_INDEX) < size]
        assert final.get(index, {}) == Counter(key for key in inside if key != left_out), index - FIRST_INDEX


def reported_by(host: Host, stages: tuple[Stage, ...]) -> dict[tuple[int, int], dict[str, int]]:
    """What was said by the version that each interval has."""
    found = reported(host, stages[-1].manifest)
    return {
        (index, evaluated): rows
        for (index, evaluated), rows in found.items()
        if stage_at(stages, index).evaluated == evaluated
    }
