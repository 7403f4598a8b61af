"""Real processes, killed again and again: no record is lost, none is counted twice, every gap has a name.

`make chaos` is the large one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.__main__ import storm
from tests.chaos.process import DOWN, UP, Victim
from tests.chaos.proxy import FaultProxy
from tests.chaos.rack_storm import rack_weather
from tests.chaos.storm import JOBS, Weather
from tests.e2e.fleet import eventually
from tests.exhaustive import few

pytestmark = pytest.mark.apart

QUICK, LONG = (
    Weather(agents=5, kills=kills, pauses=pauses, every_s=0.3, down_s=(0.0, 0.8), rate=20.0)
    for kills, pauses in ((8, 1), (16, 2))
)
RACKS_QUICK, RACKS_LONG = 2, 6
"""Racks that are killed for a while; then one is killed for good."""

SEED = int(os.environ.get("ELF_CHAOS_SEED", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("weather", few((QUICK, LONG), 1))
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path, weather: Weather) -> None:
    found = storm(tmp_path / "storm", SEED, weather)
    verdict = found["verdict"]
    assert found["ok"], json.dumps(found, indent=1)
    assert found["kills"] >= weather.kills
    assert found["pauses"] >= weather.pauses
    assert found["fail_overs_s"], "no master was killed"
    assert verdict["records"] > 30 * weather.kills
    assert verdict["states"].get("FINAL", 0) > weather.kills / 4
    assert verdict["settled"] > 60 * weather.kills, "records of two jobs, each in one bucket"
    assert verdict["asked"] >= weather.requests, (
        "requests of clients that change a job, in an order that is possible"
    )
    assert verdict["counted"] == verdict["records"] - verdict["declared_missing"] - verdict["declared_late"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", few((RACKS_QUICK, RACKS_LONG), 0, 1))
def test_racks_that_are_killed_at_once_lose_and_double_nothing_beside_their_standbys(
    tmp_path: Path, kills: int
) -> None:
    found = storm(tmp_path / "storm", SEED, rack_weather(kills))
    assert found["ok"], json.dumps(found, indent=1)
    assert found["racks"] == kills + 1, "the last one for good"
    assert found["verdict"]["in_prefixes"] > 0


class SmallFiles:
    """A limit on the size of files: to the process, the disk is full. Needs no rights."""

    says, may_end = "File too large", True

    def __init__(self, home: Path) -> None:
        pass

    def rise(self, agent: Victim) -> None:
        """Start the agent with the limit."""
        real = subprocess.Popen

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))

        def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
            # Of a compiled module only the part below the limit would be written, for all who come later.
            environment = options["env"] | {"PYTHONDONTWRITEBYTECODE": "1"}
            return real(command, preexec_fn=limit, **options | {"env": environment})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", start)
            agent.rise([])

    def more(self) -> None:
        """Processes that start from now on have no limit."""

    def close(self) -> None:
        """Nothing was made."""


class SmallDisk:
    """A file system of its own, in memory, that is made small and large while it is mounted."""

    says, may_end = "the disk is full", False

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir(parents=True)
        done = self._mount("size=64m,mode=700", "none")
        if done.returncode:
            pytest.skip(f"may not mount a file system: {done.stderr.decode().strip()}")

    def _mount(self, options: str, *what: str) -> subprocess.CompletedProcess[bytes]:
        command = ["mount", *(("-t", "tmpfs") if what else ()), "-o", options, *what, str(self._home)]
        return subprocess.run(command, capture_output=True, check=False)

    def rise(self, agent: Victim) -> None:
        """Leave as little room as the limit of `SmallFiles` does, and start the agent."""
        used = sum(path.stat().st_blocks * 512 for path in self._home.rglob("*"))
        assert not self._mount(f"remount,size={used + 60_000}").returncode
        agent.rise([])

    def more(self) -> None:
        """Room again."""
        assert not self._mount("remount,size=64m").returncode

    def close(self) -> None:
        """Unmount."""
        subprocess.run(["umount", str(self._home)], check=True)


@pytest.mark.parametrize("kind", few((SmallDisk, SmallFiles), 1))
def test_an_agent_whose_disk_is_full_waits_or_ends_and_has_lost_nothing_when_there_is_room_again(
    tmp_path: Path, kind: type[SmallFiles] | type[SmallDisk]
) -> None:
    disk = kind(tmp_path / "agent-0" / "data")
    proxy = FaultProxy(1)
    agent = Victim(tmp_path / "agent-0", 0, proxy)
    try:
        agent.rise([])
        up(agent)
        agent.apply(JOBS["chaos/ids"].format(clauses="DEADLINE '1 s'").replace("SECOND", "MINUTE"))
        agent.fall()
        disk.rise(agent)
        up(agent)
        begin = int(time.time()) // 60 * 60 - 36_000
        with (agent.directory / "log.log").open("a") as log:
            for number in range(4000):  # ten hours of minutes, one contribution each
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + number * 9))
                log.write(json.dumps({"ts": stamp, "id": f"agent-0-{number:032x}"}) + "\n")
        # Contributions and promises wait for room; a disk that refuses for another reason ends the agent.
        eventually(lambda: agent.look() is not None or "waits" in agent.errors(), what="its end or its wait")
        assert agent.state != DOWN or (disk.may_end and disk.says in agent.errors()), agent.errors()[-2000:]
        disk.more()

        def rows() -> int:
            code = agent.look()
            assert code is None or (disk.may_end and code == 1), agent.errors()[-2000:]
            if agent.state == DOWN:  # also a little after there was room again
                agent.rise([])
                up(agent)
            try:
                results = agent.results("chaos/ids")
            except OSError:  # it is ending now
                return 0
            indices = [result["interval"]["index"] for result in results]
            assert indices == sorted(set(indices))
            ids = [row["id"] for result in results for row in result["rows"]]
            assert len(ids) == len(set(ids))
            return len(ids) >= 3990 and len(ids)

        eventually(rows, what="all but the last interval")
    finally:
        if agent.process is not None and agent.process.poll() is None:
            agent.fall()
        proxy.close()
        disk.close()


def up(agent: Victim) -> None:
    eventually(lambda: agent.look() or agent.state == UP, what="the agent")


def test_the_verifier_is_a_program_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 0
