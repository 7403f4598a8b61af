"""Masters killed or cut off on virtual time: how long until another one answers, and closes intervals again.

`python -m tests.sim.swarm.failover SEEDS KILLS` measures many. The load of the machine does not matter here;
what matters is how many round trips, heartbeats and fixed waits lie between a death and the answer.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import dataclass, field, replace

from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.host import Host
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.network import Weather
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop
from tests.sim.world.network import Faults

KILL, SILENCE = "kill", "silence"
LAN = Weather(Faults(delay_min=0.0005, delay_max=0.02))
LOSSY = Weather(replace(LAN.faults, loss=0.005))
"""What links do meanwhile: a busy local network, and one that loses a frame now and then."""

ASK_EVERY_S = 0.1
PATIENCE_S = 90.0


@dataclass
class FailOvers:
    """Seconds from the end of a master.

    Attributes:
        answers: until another one answered for the job, asked at any agent.
        closes: until another one had closed an interval.
    """

    answers: list[float] = field(default_factory=list)
    closes: list[float] = field(default_factory=list)


def calm(seed: int, hosts: int, *, straggler: str = "correct", width_s: int = 1) -> Scenario:
    """A fleet without other faults; one job with an interval of a second."""
    drawn = draw(seed)
    job = replace(
        drawn.jobs[0], slide_s=width_s, size_s=width_s, lateness_s=0, deadline_s=1.0, straggler=straggler
    )
    traffic = replace(drawn.traffic, rate=1.0, silent=0.0, disorder_s=0.0, late=0.0, broken=0.0, future=0.0)
    return replace(
        drawn,
        hosts=hosts,
        racks=3,
        calm_s=5.0,
        faults=(),
        jobs=(replace(job, partitions=1, least=None),),
        traffic=traffic,
        weather=LOSSY,
        poll_s=0.1,
        store_s=0.002,
        compute_s=0.0,
        clock_offset_s=0.0,
        clock_drift=0.0,
        replay=False,
    )


def measure(seed: int, kills: int, kind: str = KILL, hosts: int = 6) -> FailOvers:
    """Some fail-overs of one fleet."""
    scenario = calm(seed, hosts)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        return vloop.run(_measure(scenario, system, path, kills, kind))


async def _measure(
    scenario: Scenario, system: SimOS, path: type[SimPath], kills: int, kind: str
) -> FailOvers:
    swarm = Swarm(scenario, system, path, None)
    rng = random.Random(f"failover/{swarm.scenario.seed}")
    found = FailOvers()
    await swarm.begin()
    swarm.network.swarm_link.set(swarm.scenario.weather)
    await asyncio.sleep(swarm.scenario.calm_s)
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(5.0, 8.0))
        master = swarm.master()
        assert master is not None
        await _one(swarm, master, kind, found)
    await swarm.end()
    return found


async def _one(swarm: Swarm, master: Host, kind: str, found: FailOvers) -> None:
    """End one master, wait for the next, bring the old one back."""
    key = next(iter(swarm.current.values()))
    link, began = swarm.network.swarm_link, asyncio.get_running_loop().time()
    epoch, closed = _state(swarm, key[0])
    cut = -1
    if kind == KILL:
        master.wanted = False
        master.kill()
    else:
        others = [host for host in swarm.hosts if host is not master]
        cut = link.cut([pair for host in others for pair in ((master.id, host.id), (host.id, master.id))])
    asked = [host for host in swarm.hosts if host is not master]
    answers = asyncio.create_task(_answered(swarm, asked, key[0], epoch))
    while _state(swarm, key[0], master)[1] <= closed:
        await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - began < PATIENCE_S, "no interval is closed any more"
    found.closes.append(asyncio.get_running_loop().time() - began)
    found.answers.append(await answers - began)
    link.mend(cut)
    master.wanted = True
    master.ensure()


def skips(seed: int, pauses: int, hosts: int = 6) -> list[float]:
    """Seconds from the end of a straggler's deadline to the record that leaps over it, one per interval.

    The straggler is alive and answers; its logs cannot be read for a while.
    """
    scenario = replace(calm(seed, hosts, straggler="skip"), weather=LAN)
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        return vloop.run(_skips(scenario, system, path, pauses))


async def _skips(scenario: Scenario, system: SimOS, path: type[SimPath], pauses: int) -> list[float]:
    swarm, rng = Swarm(scenario, system, path, None), random.Random(f"skips/{scenario.seed}")
    await swarm.begin()
    swarm.network.swarm_link.set(scenario.weather)
    await asyncio.sleep(scenario.calm_s)
    found: list[float] = []
    for _ in range(pauses):
        await asyncio.sleep(rng.uniform(5.0, 8.0))
        led = swarm.master()
        assert led is not None
        assert led.local is not None
        master = next(iter(led.local.control.leadership.masters.values()))
        straggler = rng.choice([host for host in swarm.hosts if host is not led])
        due: dict[int, float] = {}
        straggler.reading.close()
        until = asyncio.get_running_loop().time() + rng.uniform(3.0, 20.0)
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.005)
            since = master.term.collection.due_since(master.term.closer.next)
            if since is not None:
                due[master.term.closer.next] = since
        straggler.reading.open()
        await asyncio.sleep(5.0)
        key = next(iter(swarm.current.values()))
        found += [
            each.at - due[each.record.index] - scenario.jobs[0].deadline_s
            for each in swarm.history.appended[key]
            if each.record.state == "SKIPPED" and each.host == led.name and each.record.index in due
        ]
    await swarm.end()
    return found


def _state(swarm: Swarm, job: str, without: Host | None = None) -> tuple[int, int]:
    """Highest epoch and first open interval among the masters of a job."""
    masters = [
        (master.term.epoch, master.term.closer.closed)
        for host in swarm.hosts
        if host.local is not None and host is not without
        for master in host.local.control.leadership.masters.values()
        if master.term.manifest.qualified == job
    ]
    return max(masters, default=(0, -(1 << 62)))


async def _answered(swarm: Swarm, asked: list[Host], job: str, epoch: int) -> float:
    """When a newer master has answered for the job, at whichever agent was asked."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[float] = loop.create_future()

    async def ask(host: Host) -> None:
        reply = await host.ask("describe", {"job": job})
        if reply.status == 200 and reply.body["epoch"] > epoch and not answer.done():
            answer.set_result(loop.time())

    tasks = []
    while not answer.done():
        tasks.append(asyncio.create_task(ask(swarm.rng.choice(asked))))
        await asyncio.wait([answer], timeout=ASK_EVERY_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answer.result()


def quantile(values: list[float], share: float) -> float:
    """The value that so many are not above."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def main() -> int:
    """Print quantiles of both kinds as JSON."""
    quiet()
    seeds, kills = int(sys.argv[1]), int(sys.argv[2])
    for kind in (KILL, SILENCE):
        all_ = [measure(seed, kills, kind) for seed in range(seeds)]
        notified = {
            what: [
                quantile([s for each in all_ for s in getattr(each, what)], q) for q in (0.5, 0.9, 0.99, 1.0)
            ]
            for what in ("answers", "closes")
        }
        print(
            json.dumps({"kind": kind, "fail-overs": seeds * kills, "p50, p90, p99, most": notified}),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
