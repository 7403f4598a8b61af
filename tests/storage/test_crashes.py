"""SIGKILL between any two steps of sealing: what leaves the agent is what an undisturbed one says."""

from __future__ import annotations

import json
import signal
from multiprocessing import get_context
from pathlib import Path

import pytest

from elfmesh.control.jobs.records import BUCKETS
from tests.exhaustive import few
from tests.ingest.rotation.station import Station
from tests.patience import PATIENCE_S
from tests.storage import crashing

PLACES = [
    "seal",
    "frame.write",
    "frame.sync",
    "frame.synced",
    "compact",
    "compacted",
    "storage.append",
    "storage.sync",
    "storage.replace",
    "storage.replaced",
]
EVERY_STEP = {"seal", "frame.write", "frame.sync", "frame.synced", "storage.append", "storage.sync"}
TWICE_A_STEP = {"frame.write", "storage.append"}
"""Places that every step reaches, or twice; the others depend on what is there to be done."""


def write(station: Station, step: int) -> None:
    """What the writer does before a step: records, now and then garbage, now and then a rotation."""
    station.now_s = step * crashing.STEP_S
    for second in range(4):
        station.now_s += 1
        station.write(2)
        if second == step % 5:
            station.raw(b"garbage\n")
    if step % 3 == 2:
        station.rotate()


def notified(room: Path) -> dict[int, tuple[list[int], list[list[int]]]]:
    """What left the agent; an interval that was said twice must have been the same."""
    found: dict[int, tuple[list[int], list[list[int]]]] = {}
    for line in (room / "outbox").read_text().splitlines():
        interval, counts, rows = json.loads(line)
        assert found.setdefault(interval, (counts, rows)) == (counts, rows)
    return found


def play(room: Path, begin: int, end: int, failpoint: str = "") -> int:
    context = get_context("forkserver")  # imports would be most of what a process costs
    context.set_forkserver_preload([crashing.__name__])
    process = context.Process(target=crashing.play, args=(room, begin, end, failpoint))
    process.start()
    process.join(PATIENCE_S)
    assert process.exitcode in (0, -signal.SIGKILL), (room / "stderr").read_text()
    return process.exitcode


@pytest.mark.parametrize("nth", few((1, 2), 1))
def test_a_kill_at_any_place_repeats_and_loses_nothing(tmp_path: Path, nth: int) -> None:
    writer, calm = Station(tmp_path / "hit"), Station(tmp_path / "calm")
    undisturbed = crashing.ReportingStation(tmp_path / "calm")
    killed = set()
    for step, place in enumerate(PLACES):
        for station in (writer, calm):
            write(station, step)
        undisturbed.now_s = step * crashing.STEP_S
        undisturbed.step(crashing.STEP_S, polls=2)
        undisturbed.release()
        if play(tmp_path / "hit", step, step + 1, f"{place}:{nth}"):
            killed.add(place)
    assert killed >= (EVERY_STEP if nth == 1 else TWICE_A_STEP)
    end = len(PLACES) + 4
    assert play(tmp_path / "hit", len(PLACES), end) == 0
    undisturbed.now_s = len(PLACES) * crashing.STEP_S
    for _ in range(len(PLACES), end):
        undisturbed.step(crashing.STEP_S, polls=2)
    undisturbed.down()
    hit, expected = notified(tmp_path / "hit"), notified(tmp_path / "calm")
    assert {i: rows for i, (_, rows) in hit.items() if rows} == {
        i: rows for i, (_, rows) in expected.items() if rows
    }
    totals = [
        dict(zip(BUCKETS, map(sum, zip(*(counts for counts, _ in each.values()), strict=True)), strict=True))
        for each in (hit, expected)
    ]
    assert totals[0] == totals[1]
    assert totals[0]["contributed"] == len(writer.written)
    assert totals[0]["source_gap"] == totals[0]["late_dropped"] == 0
