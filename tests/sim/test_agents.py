"""Whole agents on virtual time: a job's answer is the oracle's, whatever the network does.

`ELF_SIM_AGENTS` sets the size of the large run.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.replies_agents import AgentDetails, AgentRow
from elfmesh.ingest.host import InlineExecutor, Lane
from elfmesh.local.embedded import answers
from elfmesh.ql.values.row_json import rows_to_json
from tests.exhaustive import few
from tests.sim.world import agents, vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, until, wall_us
from tests.sim.world.network import Faults

AGENTS = int(os.environ.get("ELF_SIM_AGENTS", "200"))
QUERY = """SELECT k, count(*) AS n, sum(v) AS s, max(v) AS most FROM log
GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k ORDER BY k"""
JOB = f"CREATE JOB sim.sums DEADLINE '60 s' AS {QUERY}"
T = TypeVar("T")
Rows = list[dict[str, Any]]
Results = dict[int, tuple[ResultRecord, Rows]]


async def write(fleet: SimFleet, seconds: float, rng: random.Random, every_s: float = 0.25) -> None:
    """Every host's web server writes for a while; some say more than others, some times are not in order."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            for _ in range(rng.randrange(3)):
                agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(-1000, 1000)))
        await asyncio.sleep(every_s)


def masters(fleet: SimFleet) -> list[SimAgent]:
    """Who leads a job just now; any agent if none does."""
    leading = [a for a in fleet.agents if a.local is not None and a.local.control.leadership.masters]
    return leading or [agent for agent in fleet.agents if agent.local is not None]


def ended_us() -> int:
    """When the newest interval that is over has ended."""
    return int(wall_us()) // 2_000_000 * 2_000_000


async def closed(fleet: SimFleet, upto_us: int, asked: int) -> Results:
    """All results once every interval that ends by `upto_us` is there."""
    last = upto_us // 2_000_000 - 1

    async def there() -> Any:
        try:
            found = await fleet.results("sim/sums", asked)
        except AssertionError:  # while a new master takes over, an answer may say so
            return None
        return found if found and found[-1][0].index >= last else None

    found = await until(there, 180, 1.0)
    indices = [record.index for record, _ in found]
    assert indices == sorted(set(indices)), "every interval once, in order"
    return {record.index: (record, rows) for record, rows in found}


def oracle(agents: list[SimAgent], directory: Path, upto_us: int) -> dict[int, Rows]:
    """What one process computes from the same logs, of the intervals that ended by `upto_us`."""
    paths = []
    for agent in agents:
        paths.append(directory / f"{agent.name}.log")
        paths[-1].write_bytes(bytes(agent.log.data))
    results = answers(QUERY, [str(path) for path in paths], format="json")
    return {
        result.record.index: rows_to_json(result.table)
        for result in results
        if (result.record.end_us or 0) <= upto_us
    }


def compare(results: Results, expected: dict[int, Rows], agents: int) -> None:
    for index, rows in expected.items():
        record, found = results[index]
        assert found == rows, f"interval {index}"
        assert (record.state, record.completeness) == ("FINAL", 1.0)
        assert (record.agents_in, record.agents_expected, record.missing) == (agents, agents, [])
        assert record.counts["contributed"] == sum(row["n"] for row in rows)
        assert record.counts["late_dropped"] == record.counts["expired"] == 0


def run_job(
    seed: int, count: int, seconds: float, directory: Path, faults: Faults | None = None
) -> tuple[str, float]:
    """A whole run that must be exact; its trace and the virtual time it took."""

    async def main() -> tuple[str, float]:
        fleet = SimFleet(seed, count)
        await fleet.start()
        answer = await fleet.apply(JOB, count // 2)
        assert (answer["acknowledged"], answer["expected"]) == (count, count)
        if faults is not None:
            fleet.network.link.faults = faults
        await write(fleet, seconds, random.Random(seed))
        upto = ended_us()
        results = await closed(fleet, upto, count - 1)
        fleet.check()
        expected = oracle(fleet.agents, directory, upto)
        assert len(expected) >= seconds // 2
        compare(results, expected, count)
        return fleet.network.trace, asyncio.get_running_loop().time()

    outcome: tuple[str, float] = vloop.run(main())
    return outcome


def test_a_master_whose_own_log_lags_behind_waits_for_itself(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(5, 3)
        await fleet.start()
        await fleet.apply(JOB.replace("60 s", "200 ms"))
        master, begin = masters(fleet)[0], ended_us() - 3600 * 1_000_000
        for agent in fleet.agents:
            for second in range(8 if agent is master else 40):
                agent.log.write(line(begin + second * 1_000_000, "a", 1))
        for _ in range(20):  # it is not silent, so no agent takes its log for ended
            await asyncio.sleep(0.5)
            master.log.write(line(begin + 8_000_000, "b", 1))
        upto = begin + 40_000_000
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 3)

    vloop.run(main())


class SlowDisk(InlineExecutor):
    """Whatever is written is durable after so long."""

    seconds = 1.5

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        if lane == "store":
            await asyncio.sleep(self.seconds)
        return await super().run(lane, work)


def test_no_agent_is_taken_for_dead_because_disks_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: list[SlowDisk] = []

    def made() -> SlowDisk:
        slow.append(SlowDisk())
        slow[-1].seconds = 0.0
        return slow[-1]

    monkeypatch.setattr(agents, "InlineExecutor", made)

    async def main() -> None:
        fleet = SimFleet(3, 4)
        await fleet.start()
        await fleet.apply(JOB.replace("60 s", "1 s").replace("DEADLINE", "ON STRAGGLER WAIT DEADLINE"))
        await write(fleet, 4, random.Random(3))
        for each in slow:
            each.seconds = SlowDisk.seconds
        await write(fleet, 12, random.Random(3))
        upto = ended_us()
        results = await closed(fleet, upto, 1)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 4)

    vloop.run(main())


def test_twenty_agents_give_the_oracles_answer(tmp_path: Path) -> None:
    run_job(1, 20, 6, tmp_path)


@pytest.mark.exhaustive
def test_many_agents_give_the_oracles_answer(tmp_path: Path) -> None:
    run_job(2, AGENTS, 5, tmp_path)


@pytest.mark.parametrize("seed", few(range(5), 2))
def test_loss_doubling_and_reordering_change_no_answer(seed: int, tmp_path: Path) -> None:
    run_job(seed, 8, 6, tmp_path, Faults.swarm(random.Random(seed)))


def test_an_agent_that_crashes_and_comes_back_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(11, 6)
        await fleet.start()
        await fleet.apply(JOB)
        for turn in range(3):
            await write(fleet, 2.7, random.Random(turn))
            victim = fleet.agents[1 + turn]
            victim.crash()
            await write(fleet, 1.1, random.Random(turn + 10))
            await victim.start(fleet.seeds(victim))
        await write(fleet, 2, random.Random(99))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 6)

    vloop.run(main())


def test_an_agent_that_stays_away_is_named_and_intervals_close_without_it(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(12, 6)
        await fleet.start()
        await fleet.apply(JOB.replace("60 s", "1 s"))
        await write(fleet, 4, random.Random(1))
        gone = fleet.agents[3]
        gone.crash()
        crashed = wall_us()
        await write(fleet, 8, random.Random(2))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        others = oracle([agent for agent in fleet.agents if agent is not gone], tmp_path, upto)
        after = [index for index in results if index * 2_000_000 > crashed]
        assert len(after) >= 2
        for index in after:
            record, rows = results[index]
            assert (record.state, record.missing) == ("FINAL_PARTIAL", [gone.name])
            assert record.completeness == pytest.approx(5 / 6)
            assert rows == others[index]

    vloop.run(main())


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_crashes_of_any_agent_under_faults_give_exact_answers_that_name_the_missing_ones(
    seed: int, tmp_path: Path
) -> None:
    """I2, I3, I5, I6: a record per interval, no gap, the rows of exactly those who are said to be inside."""

    async def main() -> None:
        rng = random.Random(seed)
        fleet = SimFleet(seed, 4 + seed)
        await fleet.start()
        await fleet.apply(JOB)
        fleet.network.link.faults = Faults.swarm(rng)
        for _ in range(3):
            await write(fleet, rng.uniform(0.5, 3), rng)
            victim = masters(fleet)[0] if rng.random() < 0.4 else rng.choice(fleet.agents)
            victim.crash()
            await write(fleet, rng.uniform(0.2, 4), rng)
            await victim.start(fleet.seeds(victim))
        await write(fleet, 2, rng)
        upto = ended_us()
        results = await closed(fleet, upto, rng.randrange(len(fleet.agents)))
        fleet.check()
        assert set(oracle(fleet.agents, tmp_path, upto)) <= set(results), "a gap"
        for index, (record, rows) in results.items():
            inside = [agent for agent in fleet.agents if agent.name not in record.missing]
            assert (record.state == "FINAL") == (not record.missing)
            assert (record.agents_in, record.agents_expected) == (len(inside), len(fleet.agents))
            if record.end_us is not None and record.end_us <= upto:
                assert rows == oracle(inside, tmp_path, upto).get(index, []), f"interval {index}"

    vloop.run(main())


def test_a_partition_that_heals_within_the_deadline_costs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = SimFleet(13, 8)
        await fleet.start()
        await fleet.apply(JOB)
        await write(fleet, 3, random.Random(1))
        fleet.network.link.partition(
            [agent.id for agent in fleet.agents[:5]], [a.id for a in fleet.agents[5:]]
        )
        await write(fleet, 2, random.Random(2))
        fleet.network.link.heal()
        await write(fleet, 3, random.Random(3))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), 8)

    vloop.run(main())


def test_the_same_seed_gives_the_same_trace_under_two_hash_seeds(tmp_path: Path) -> None:
    traces = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        directory.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim.test_agents", str(directory)],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        traces.append(done.stdout)
    assert traces[0] == traces[1]
    assert len(traces[0].split()) == 2


if __name__ == "__main__":
    print(*run_job(5, 6, 4, Path(sys.argv[1]), Faults.swarm(random.Random(1))))


def test_a_whole_agent_reports_itself_with_the_names_of_its_structs() -> None:
    async def run() -> list[dict[str, Any]]:
        fleet = SimFleet(3, 2)
        await fleet.start()
        agent = fleet.agents[0]
        about, rows = await agent.ask("agent", {}), await agent.ask("agents", {})
        return [about.body, *rows.body["agents"]]

    bodies: list[dict[str, Any]] = vloop.run(run())
    about, *rows = bodies
    assert list(about) == list(AgentDetails.__struct_fields__)
    assert [list(row) for row in rows] == 2 * [list(AgentRow.__struct_fields__)]
