"""Programs beside real agents: what a crash of the program, of its agent and of the master side does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import now
from tests.patience import PATIENCE_S

FILE = Path(__file__).with_name("counting_program.py")
SUM = """CREATE JOB test.inserts AS SELECT k, count(*) AS n FROM numbers
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), k ORDER BY k"""


class Programs:
    """Processes of `elf program run`; none outlives the test."""

    def __init__(self, directory: Path, file: Path = FILE) -> None:
        self.directory, self.file = directory, file
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, agent: Agent, batches: int = 0) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "elfmesh.agent", "program", "run", str(self.file), "--class", name]
        settings = {"ELF_TEST_DIRECTORY": str(self.directory), "ELF_TEST_BATCHES": str(batches)}
        with (self.directory / "stderr").open("ab") as stderr:
            process = subprocess.Popen(
                [*command, "--api", agent.api], env={**os.environ, **settings}, stderr=stderr
            )
        self.processes.append(process)
        return process

    def wait_attached(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a program that notes "attached". One whose agent is away at its first attempt ends."""

        def is_attached() -> bool:
            self.check([process])
            return process.pid in self.noted("attached")

        eventually(is_attached, what="the program")

    def check(self, processes: Sequence[subprocess.Popen[bytes]] = ()) -> None:
        """Fail if a program (default: any) has failed, because its posts are then waited for in vain."""
        codes = {process.poll() for process in processes or self.processes}
        assert codes <= {None, 0, -signal.SIGKILL}, (self.directory / "stderr").read_text()[-3000:]

    def noted(self, name: str) -> list[Any]:
        try:
            lines = (self.directory / name).read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be half written


@contextmanager
def programs(directory: Path, file: Path = FILE) -> Iterator[Programs]:
    found = Programs(directory, file)
    try:
        yield found
    finally:
        for process in found.processes:
            process.kill()
            process.wait()


def test_inserts_count_once_through_kills_of_the_program_and_of_its_agent(tmp_path: Path) -> None:
    batches = 150
    with Fleet(tmp_path) as fleet, programs(tmp_path) as started:
        agent = Agent(tmp_path / "one", 1, ["numbers=program://test/inserts,format=json,idle=1 s"])
        fleet.agents.append(agent)
        agent.start()
        agent.wait_ready()
        first = started.start("Inserter", agent, batches)
        eventually(lambda: len(started.noted("inserted")) >= 20, what="the first inserts")
        first.kill()
        first.wait()
        second = started.start("Inserter", agent, batches)
        eventually(lambda: len(started.noted("began")) == 2, what="the second life, beside its agent")
        agent.kill()
        agent.start()
        agent.wait_ready()
        assert second.wait(PATIENCE_S) == 0, (tmp_path / "stderr").read_text()
        assert started.noted("began")[1] >= 19, "it went on where it had been"
        agent.apply(SUM)
        rows = eventually(
            lambda: [row for result in agent.results("test/inserts", wait_s=1) for row in result["rows"]],
            what="the result",
        )
        assert rows == [{"k": f"k{number}", "n": batches} for number in range(10)]


def test_when_the_agent_of_the_master_side_is_killed_no_result_is_left_out(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet, programs(tmp_path) as started:
        fleet.start(4, options=",format=json,idle=1 s")
        for agent in fleet:
            started.start("Follower", agent)
        write(fleet, 1)
        eventually(lambda: started.noted("results"), what="the first result")
        names = {agent.name: agent for agent in fleet}
        victim = names[started.noted("results")[-1][1]]
        victim.kill()
        other = next(agent for agent in fleet if agent is not victim)
        write(fleet, 2)
        eventually(lambda: started.noted("results")[-1][1] != victim.name, what="a new master side")
        write(fleet, 3)
        indices = eventually(lambda: handled_all(other, started), what="all results handled")
        assert indices == sorted(indices)
        seen = {index for index, _ in started.noted("multicasts")}
        assert set(indices) <= seen, "and each was multicast"


def handled_all(agent: Agent, started: Programs) -> list[int]:
    """The intervals of the job, once the master sides have handled each at least once and the third wrote."""
    indices = [result["interval"]["index"] for result in agent.results("test/follow")]
    with_rows = [result for result in agent.results("test/follow") if result["rows"]]
    handled = {index for index, _ in started.noted("results")}
    done = {row["k"] for result in with_rows for row in result["rows"]} >= {"round-1", "round-2", "round-3"}
    return indices if done and handled >= set(indices) else []


def write(fleet: Fleet, number: int) -> None:
    """A line in each log, of now."""
    for agent in fleet:
        line = {"ts": now(), "k": f"round-{number}"}
        with fleet.log(agent.number).open("a") as log:
            log.write(json.dumps(line) + "\n")
