"""The simulated disk loses what it should lose; a fault there kills the agent that writes, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from elfmesh.errors import StorageError
from elfmesh.storage import failpoints
from elfmesh.storage.storage import DiskStorage
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.host import Host, Killed
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.platter import Disk
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.swarm.shapes import small
from tests.sim.world import vloop


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


def test_a_power_cut_takes_what_was_not_synced_and_leaves_what_was(
    system: SimOS, path: type[SimPath]
) -> None:
    storage = DiskStorage(path("/h/data"))  # type: ignore[arg-type]  # a path of the simulation
    seen = set()
    for seed in range(40):
        storage.write("whole", b"old")
        storage.write("whole", b"new")
        storage.delete("log")
        file = storage.open("log")
        file.append(b"durable")
        file.sync()
        system.disks["h"].sync_names()
        file.append(b"0123456789")
        system.disks["h"].rng = random.Random(seed)
        system.disks["h"].power_cut()
        assert storage.read("whole") == b"new"
        left = storage.read("log")
        assert left is not None
        assert left.startswith(b"durable")
        assert left.rstrip(b"\0") in {b"durable0123456789"[:size] for size in range(7, 18)}
        seen.add(left)
    assert len(seen) > 3, "always the same is lost"


def test_a_failed_sync_has_lost_its_bytes_even_if_a_later_one_succeeds(
    system: SimOS, path: type[SimPath]
) -> None:
    storage = DiskStorage(path("/h/data"))  # type: ignore[arg-type]  # a path of the simulation
    file = storage.open("log")
    system.disks["h"].sync_names()
    file.append(b"lost")
    system.disks["h"].syncs_to_fail = 1
    with pytest.raises(StorageError, match="sync"):
        file.sync()
    file.sync()
    system.disks["h"].power_cut()
    assert storage.read("log") == bytes(4)


def test_a_full_disk_takes_what_fits_and_raises_an_error(system: SimOS, path: type[SimPath]) -> None:
    storage = DiskStorage(path("/h/data"))  # type: ignore[arg-type]  # a path of the simulation
    file = storage.open("log")
    system.disks["h"].space = 3
    with pytest.raises(StorageError, match="full"):
        file.append(b"12345")


def test_a_name_that_was_never_synced_may_be_lost(system: SimOS, path: type[SimPath]) -> None:
    outcomes = set()
    for seed in range(20):
        fd = system.open("/h/data/new", system.O_RDWR | system.O_CREAT)
        system.write(fd, b"x")
        system.fsync(fd)
        system.disks["h"].rng = random.Random(seed)
        system.disks["h"].power_cut()
        outcomes.add(path("/h/data/new").exists())
        if path("/h/data/new").exists():
            path("/h/data/new").unlink()
            system.disks["h"].sync_names()
    assert outcomes == {True, False}


def test_a_new_disk_is_empty_below_its_directory_only(system: SimOS, path: type[SimPath]) -> None:
    system.create("/h/log")
    system.create("/h/data/id")
    system.disks["h"].wipe("/h/data")
    assert [*system.disks["h"].names] == ["/h/log"]


def test_a_directory_is_renamed_with_all_of_its_files_or_not_at_all(
    system: SimOS, path: type[SimPath]
) -> None:
    seen = set()
    for seed in range(40):
        disk = system.disks["h"] = Disk(random.Random(seed))
        for name in ("data", "data/log"):
            path(f"/h/{name}").mkdir()
        for name in ("one", "other"):
            with path(f"/h/data/log/{name}").open("wb") as file:
                file.write(b"x")
        disk.sync_names()
        path("/h/data/log").replace(path("/h/data/log.old"))
        assert [each.name for each in path("/h/data/log.old").iterdir()] == ["one", "other"]
        assert not path("/h/data/log").exists()
        disk.power_cut()
        seen.add(tuple(disk.names))
        assert all(path(name).parent.exists() for name in disk.names)
    assert seen == {tuple(f"/h/data/{at}/{name}" for name in ("one", "other")) for at in ("log", "log.old")}


async def _killed_at(place: str, scenario: Scenario, system: SimOS, path: type[SimPath]) -> None:
    swarm = Swarm(scenario, system, path, None)
    killed: list[Host | None] = []

    def kill() -> None:
        killed.append(swarm.around.running)
        raise Killed(place)

    await swarm.begin()
    other, host = swarm.hosts[:2]
    host.kill()
    other._entered()
    failpoints._arm(place, 1, kill)
    assert not host.start()
    assert killed == [host]
    assert host.start(), "its supervisor can start it again"
    await swarm.end()


@pytest.mark.parametrize("place", ["storage.replace", "storage.replaced"])
def test_a_fault_that_is_due_while_an_agent_starts_kills_that_one(place: str) -> None:
    system, scenario = SimOS(), small()(draw(0))
    with installed(system, scenario.poll_s, scenario.read_bytes) as path:
        vloop.run(_killed_at(place, scenario, system, path))
