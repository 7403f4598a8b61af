"""No room, at every byte at which there may be none: what was refused is written later, nothing is torn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append, ReadLog
from elfmesh.errors import DiskFull, StorageError
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.storage import MemoryStorage
from tests.exhaustive import few
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.failover import calm
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.platter import Disk
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop

JOBS = (b"a" * 20, b"b" * 20)


@pytest.fixture
def system() -> SimOS:
    made = SimOS()
    made.disks["h"] = Disk(random.Random(1))
    return made


@pytest.fixture
def path(system: SimOS) -> Iterator[type[SimPath]]:
    with installed(system) as made:
        made("/h/data").mkdir()
        yield made


def batches() -> list[tuple[Append, ...]]:
    """Some of one job, some of two; the columns change on the way."""
    rows = [table_to_ipc(pa.table({"k": ["x"], f"n{number // 3}": [number]})) for number in range(6)]
    made = [[Append(job, "i", ResultRecord(job="s/t", index=n), rows[n]) for job in JOBS] for n in range(6)]
    return [tuple(made[0]), (made[1][0],), (made[1][1],), *map(tuple, made[2:])]


def held(logs: ResultsLogs) -> list[list[int]]:
    return [
        [record.index for record, _ in decode_page(logs.read(ReadLog(1, job, None, None, 100)).page)]
        for job in JOBS
    ]


@pytest.mark.parametrize("cut", [False, True])
def test_results_that_found_no_room_are_written_later_and_survive_a_power_cut(
    system: SimOS, path: type[SimPath], cut: bool
) -> None:
    disk = system.disks["h"]
    refused = 0
    for space in range(0, 6000, 97):
        place = path(f"/h/data/{space}")
        logs = ResultsLogs(place)  # type: ignore[arg-type]  # a path of the simulation
        disk.space = space
        for batch in batches():
            try:
                logs.append(*batch)
            except DiskFull:
                refused += 1
                disk.space = None
                logs.append(*batch)
        disk.space = None
        assert held(logs) == [[*range(6)], [*range(6)]]
        if cut:
            disk.power_cut()
            again = ResultsLogs(place)  # type: ignore[arg-type]  # a path of the simulation
            assert held(again) == [[*range(6)], [*range(6)]]
    assert refused > 20


def test_a_sync_that_fails_for_want_of_room_is_no_full_disk(system: SimOS, path: type[SimPath]) -> None:
    logs = ResultsLogs(path("/h/data/results"))  # type: ignore[arg-type]  # a path of the simulation
    system.disks["h"].syncs_to_fail = 1
    with pytest.raises(StorageError, match="sync") as caught:
        logs.append(*batches()[0])
    assert not isinstance(caught.value, DiskFull)


def frame(index: int, size: int = 1000) -> Sealed:
    return Sealed("j", 1, index, index + 1, [SealedInterval(index, [1, 0, 0, 0, 0], [bytes(size)])])


def test_the_frame_log_waits_at_its_limit_until_something_is_released() -> None:
    log = FrameLog(MemoryStorage(), limit_bytes=10_000)
    count = 9
    for index in range(count):
        log.append(frame(index))
    assert log.crowded
    with pytest.raises(DiskFull, match="not closed"):
        log.append(frame(count))
    for stop in range(2, 60, 2):
        log.append(Released("j", stop))
        for count in (stop + 7, stop + 8):
            log.append(frame(count))
            assert log.size <= 10_000
    log.append(Released("j", count + 1))
    log.append(frame(count + 1, 50_000))  # one that is larger than the limit must not wait for ever
    log.sync()


async def _wait_and_go_on(scenario: Scenario, system: SimOS, path: type[SimPath]) -> None:
    swarm = Swarm(scenario, system, path, None)
    await swarm.begin()
    await asyncio.sleep(8.0)
    host = swarm.master()
    assert host is not None
    assert host.local is not None
    local = host.local
    host.disk.space = 0
    await asyncio.sleep(5.0)
    health = (await host.ask("health", {})).body
    assert health["status"] == "waiting"
    assert "disk is full" in health["problem"]
    assert (await host.ask("agent", {})).body["problem"] == health["problem"]
    await asyncio.sleep(80.0)  # its own contributions are waited for until the horizon
    led = swarm.master()
    assert led is not None
    assert led is not host, "no agent took over from a master that can promise nothing"
    assert local.pump.counters["disk_full"] > 10
    assert local.pump.queues["effects"] < 200, "what waits must not grow with every message"
    host.disk.space = None
    await asyncio.sleep(15.0)
    assert host.local is local, "it has ended"
    assert not local.pump.problem
    assert (await host.ask("health", {})).body["status"] == "ok"
    key = next(iter(swarm.current.values()))
    published = await swarm.results(key)
    final = [index for index, (record, _) in published.items() if record.state == "FINAL"]
    assert max(final) >= max(published) - 2, "it takes part again"
    assert not [each.name for each in swarm.hosts if each.bug is not None]
    await swarm.end()


@pytest.mark.parametrize("seed", few((0, 1), 1))
def test_an_agent_without_room_is_away_until_there_is_room_and_does_not_end(seed: int) -> None:
    quiet()
    scenario = replace(calm(seed, 4), safety_s=60.0)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        vloop.run(_wait_and_go_on(scenario, system, path))
