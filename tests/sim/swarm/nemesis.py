"""Causes the faults of a scenario, one after the other, and ends them all when the safety phase is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from elfmesh.storage import failpoints
from elfmesh.storage.framelog import FILE_NAME
from elfmesh.storage.statelog import NAME as STATE
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.host import Host, Killed
from tests.sim.swarm.network import CALM
from tests.sim.swarm.recovering import Recovering
from tests.sim.swarm.rotting import Rotting

KILL_PLACES = (
    "seal", "frame.write", "frame.sync", "frame.synced", "compact", "compacted", "storage.replace",
    "storage.replaced", "send", "sent", "activate", "results.append", "results.appended", "persist",
    "persisted",
)  # fmt: skip


class Swarm(Protocol):
    """What faults are caused on."""

    hosts: list[Host]
    rng: random.Random

    def say(self, text: str) -> None: ...
    def master(self) -> Host | None: ...
    async def join(self) -> None: ...
    async def change_job(self) -> None: ...
    async def pause_job(self) -> None: ...


class Nemesis:
    """Runs the faults of one seed."""

    def __init__(self, swarm: Any, rng: random.Random) -> None:
        self.swarm, self.rng = swarm, rng
        self.scenario = swarm.scenario
        self.count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
        self._armed: str | None = None
        self._rejoining = self._rotten = False
        rotting = Rotting(swarm, rng)
        self._causes: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            kinds.CRASH: self._crash,
            kinds.DEAD: self._dead,
            kinds.POWER: self._power,
            kinds.RACK: self._rack,
            kinds.FAILPOINT: self._failpoint,
            kinds.PAUSE: self._pause,
            kinds.NEW_DISK: self._new_disk,
            kinds.RACK_DISKS: self._rack_disks,
            kinds.STOPPED_AT_REJOIN: self._stopped_at_rejoin,
            kinds.LOST_VOTES: self._lost_votes,
            kinds.ROT: rotting.results,
            kinds.GOES_BACK: rotting.goes_back,
            kinds.RECOVERY: Recovering(swarm, rng).fault,
            kinds.PARTITION: self._partition,
            kinds.ONE_WAY: self._one_way,
            kinds.RING: self._ring,
            kinds.ISOLATE_MASTER: self._isolate_master,
            kinds.LINKS: self._links,
            kinds.FULL_DISK: self._full_disk,
            kinds.FAILED_SYNC: self._failed_sync,
            kinds.BIT_FLIP: self._bit_flip,
            kinds.SLOW_DISK: self._slow,
            kinds.SLOW_CPU: self._slow,
            kinds.CLOCK_STEP: self._clock_step,
            kinds.ROTATE: self._rotate,
            kinds.JOIN: swarm.join,
            kinds.LEAVE: self._leave,
            kinds.JOB_CHANGE: swarm.change_job,
            kinds.JOB_PAUSE: swarm.pause_job,
            kinds.JOB_UPDATE: swarm.update_job,
        }

    async def run(self, seconds: float) -> None:
        """Cause faults for a while, then end them all."""
        end = asyncio.get_running_loop().time() + seconds
        self.swarm.network.swarm_link.set(self.scenario.weather)
        causes = [self._causes[kind] for kind in self.scenario.faults if kind in self._causes]
        while (now := asyncio.get_running_loop().time()) < end:
            pause_s = self.rng.expovariate(1 / self.scenario.trouble_s) if causes else end - now
            await asyncio.sleep(min(pause_s, end - now))
            if pause_s >= end - now:  # not by the clock: it may stand a rounding error before the end
                break
            self.count += 1
            self._spawn(self.rng.choice(causes)())
        await self._calm()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Killed):
            self._errors.append(error)

    async def _calm(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for error in self._errors:
            raise error  # a fault that could not be caused tests nothing
        self._disarm()
        swarm = self.swarm
        swarm.say("the faults end")
        swarm.network.swarm_link.set(CALM)
        swarm.network.swarm_link.mend_all()
        for host in swarm.hosts:
            host.recover()

    # -- choices -------------------------------------------------------------------------------------

    def _victim(self) -> Host | None:
        """A running host; the master of a job in every third case."""
        running = [host for host in self.swarm.hosts if host.up and not host.paused]
        if not running:
            return None
        master: Host | None = self.swarm.master()
        return master if master in running and self.rng.random() < 0.35 else self.rng.choice(running)

    def _while_s(self) -> float:
        return self.rng.choice(
            (0.0, self.rng.uniform(0, 3), self.rng.uniform(0, 15), self.rng.uniform(0, 60))
        )

    async def _down(self, *hosts: Host) -> None:
        for each in hosts:
            each.wanted = False
        await asyncio.sleep(self._while_s())
        for each in hosts:
            each.wanted = True
            each.ensure()

    # -- processes -----------------------------------------------------------------------------------

    async def _crash(self) -> None:
        if host := self._victim():
            self.swarm.say(f"kill {host.name}")
            host.kill()
            await self._down(host)

    async def _dead(self) -> None:
        """One agent at a time, which stays dead for the rest of the faults."""
        if all(host.up for host in self.swarm.hosts) and (host := self._victim()):
            self.swarm.say(f"kill {host.name} for good")
            host.kill()
            host.wanted = False

    async def _power(self) -> None:
        if host := self._victim():
            self.swarm.say(f"power cut at {host.name}")
            host.power_cut()
            await self._down(host)

    async def _rack(self) -> None:
        if host := self._victim():
            rack = [each for each in self.swarm.hosts if each.rack == host.rack and each.up]
            self.swarm.say(f"power cut at rack {host.rack}: {', '.join(each.name for each in rack)}")
            for each in rack:
                each.power_cut()
            await self._down(*rack)

    async def _pause(self) -> None:
        if host := self._victim():
            seconds = self.rng.choice((0.5, 5.0, 30.0, 120.0, 600.0)) * self.rng.random()
            self.swarm.say(f"pause {host.name} for {seconds:.1f} s")
            host.pause()
            await asyncio.sleep(seconds)
            host.resume()

    async def _stopped_at_rejoin(self) -> None:
        """A member that does not vote is stopped a moment after its restart, and misses its master's end."""
        master, voters = self.swarm.master(), self.swarm.voters()
        rest = [host for host in self.swarm.running() if host.id not in voters and host is not master]
        if self._rejoining or not rest:
            return
        self._rejoining, host = True, self.rng.choice(rest)
        self.swarm.say(f"kill {host.name}, and stop it as it is back")
        host.kill()
        await asyncio.sleep(4.0)
        host.ensure()
        await host.local.pump.joined.wait()
        await asyncio.sleep(self.rng.uniform(0.1, 0.25))
        self.swarm.say(f"stop {host.name}")
        host.pause()
        await asyncio.sleep(22.0)
        if master := self.swarm.master():
            self.swarm.say(f"kill {master.name}, which leads")
            master.kill()
            await asyncio.sleep(3.0)
            master.ensure()
        await asyncio.sleep(35.0)
        self.swarm.say(f"{host.name} goes on")
        host.resume()
        self._rejoining = False

    async def _lost_votes(self) -> None:
        """What is decided while one is away is known to one that is not there, and to one whose file rots.

        Once in a run: a register that has lost two of three voters waits for ever.
        """
        running, master = self.swarm.running(), self.swarm.master()
        if self._rotten or len(running) < 3 or master not in running:
            return
        self._rotten, away = True, self.rng.choice([host for host in running if host is not master])
        self.swarm.say(f"kill {away.name}")
        away.wanted = False
        away.kill()
        await asyncio.sleep(3.0)
        await self.rng.choice((self.swarm.update_job, self.swarm.change_job))()
        await asyncio.sleep(self.rng.uniform(3.0, 8.0))
        rest = [host for host in self.swarm.hosts if host is not away]
        for host in rest:
            host.wanted = False
            host.kill()
        victim = self.rng.choice(rest)
        if self.rng.random() < 0.5:  # then it is rewritten, and all of it is the rewritten part
            victim.start()
            victim.kill()
        self._flip(victim, STATE, "its state log")
        self.swarm.history.lost_state[victim.name] = "a bit of its state log"
        self.swarm.history.forgot[victim.id] = self.swarm.history.now()
        for host in (victim, away):
            host.wanted = True
            host.ensure()
        await asyncio.sleep(self.rng.uniform(15.0, 40.0))
        for host in rest:
            host.wanted = True
            host.ensure()

    def _flip(self, host: Host, name: str, what: str) -> None:
        path = f"/{host.folder}/data/{name}"
        at = self.rng.randrange(8 * len(host.disk.names[path].data))
        self.swarm.say(f"bit {at} of {what} at {host.name} flips")
        host.disk.flip(path, at)

    async def _new_disk(self) -> None:
        if host := self._victim():
            self.swarm.say(f"{host.name} loses its disk")
            host.new_disk()
            await self._down(host)

    async def _rack_disks(self) -> None:
        """A failure domain is lost with its disks; with one voter at most, because votes are not copied."""
        if host := self._victim():
            rack = [each for each in self.swarm.hosts if each.rack == host.rack and each.up]
            if sum(each.id in self.swarm.voters() for each in rack) > 1:
                return
            self.swarm.say(f"rack {host.rack} loses its disks: {', '.join(each.name for each in rack)}")
            for each in rack:
                each.new_disk()
            await self._down(*rack)

    async def _failpoint(self) -> None:
        """Kill the next agent to reach a place in the product's code, sometimes with the power."""
        self._disarm()
        place, count = self.rng.choice(KILL_PLACES), self.rng.choice((1, 1, 2, 5))
        cut = self.rng.random() < 0.5
        killed: asyncio.Future[Host] = asyncio.get_running_loop().create_future()

        def kill() -> None:
            host = self.swarm.around.running
            assert host is not None
            self.swarm.say(f"kill {host.name} at {place}" + (" and cut its power" if cut else ""))
            self._armed = None
            host.wanted = False
            (host.power_cut if cut else host.kill)()
            if not killed.done():
                killed.set_result(host)
            raise Killed(place)

        failpoints._arm(place, count, kill)
        self._armed = place
        await self._down(await killed)

    def _disarm(self) -> None:
        if self._armed is not None:
            failpoints._armed.pop(self._armed, None)
            self._armed = None

    # -- network -------------------------------------------------------------------------------------

    async def _cut(self, pairs: list[tuple[Host, Host]], what: str) -> None:
        seconds = self._while_s() + 0.5
        self.swarm.say(f"{what} for {seconds:.1f} s")
        link = self.swarm.network.swarm_link
        cut = link.cut([(one.id, other.id) for one, other in pairs])
        await asyncio.sleep(seconds)
        link.mend(cut)

    async def _partition(self) -> None:
        hosts = [*self.swarm.hosts]
        self.rng.shuffle(hosts)
        size = self.rng.randint(1, max(1, len(hosts) // 2))
        one, other = hosts[:size], hosts[size:]
        pairs = [(a, b) for a in one for b in other] + [(b, a) for a in one for b in other]
        await self._cut(pairs, f"partition: {', '.join(host.name for host in one)} cut off")

    async def _one_way(self) -> None:
        hosts = self.swarm.hosts
        one = self.rng.choice(hosts)
        others = [host for host in hosts if host is not one and self.rng.random() < 0.6]
        if self.rng.random() < 0.5:
            await self._cut([(one, other) for other in others], f"{one.name} is heard by few")
        else:
            await self._cut([(other, one) for other in others], f"{one.name} hears few")

    async def _ring(self) -> None:
        hosts = self.swarm.hosts
        size = len(hosts)
        near = {(a, (a + step) % size) for a in range(size) for step in (1, -1, 0)}
        pairs = [(hosts[a], hosts[b]) for a in range(size) for b in range(size) if (a, b) not in near]
        await self._cut(pairs, "ring: each host reaches its two neighbours")

    async def _isolate_master(self) -> None:
        master = self.swarm.master()
        if master is not None:
            others = [host for host in self.swarm.hosts if host is not master]
            pairs = [(master, other) for other in others] + [(other, master) for other in others]
            await self._cut(pairs, f"the master {master.name} is cut off")

    async def _links(self) -> None:
        """Below the master: children lose their parents, and the master and its term stay."""
        hosts = [host for host in self.swarm.hosts if host is not self.swarm.master()]
        one = self.rng.choice(hosts)
        others = [host for host in hosts if host is not one and self.rng.random() < 0.5]
        pairs = [(one, other) for other in others] + [(other, one) for other in others]
        await self._cut(pairs, f"{one.name} is cut off from {', '.join(other.name for other in others)}")

    # -- disk and processor ----------------------------------------------------------------------------

    async def _full_disk(self) -> None:
        if host := self._victim():
            host.disk.space = self.rng.randrange(4000)
            self.swarm.say(f"the disk of {host.name} has {host.disk.space} bytes left")
            await asyncio.sleep(self._while_s())
            host.disk.space = None

    async def _failed_sync(self) -> None:
        if host := self._victim():
            host.disk.syncs_to_fail = self.rng.choice((1, 1, 3))
            self.swarm.say(f"the next {host.disk.syncs_to_fail} syncs of {host.name} fail")

    async def _bit_flip(self) -> None:
        """A bit of the frame log changes while the agent is down."""
        if host := self._victim():
            host.kill()
            path = f"/{host.folder}/data/{FILE_NAME}"
            inode = host.disk.names.get(path)
            if inode is not None and inode.data:
                # Mostly where a peer will still ask for it: most of a frame log is closed long ago.
                size = len(inode.data)
                at = 8 * size - 1 - self.rng.randrange(8 * min(size, self.rng.choice((400, 2000, size))))
                self.swarm.say(f"bit {at} of the frame log of {host.name} flips")
                host.disk.flip(path, at)
                self.swarm.history.tampered[host.name] = "a bit of its frame log"
            await self._down(host)

    async def _slow(self) -> None:
        """From its next start on."""
        if host := self._victim():
            host.slow = (self.rng.choice((0.0, 0.1, 0.5)), self.rng.choice((0.0, 0.1, 0.5)))
            self.swarm.say(f"{host.name} becomes slow: {host.slow} s")
            host.kill()
            host.ensure()

    # -- clocks, logs, members -------------------------------------------------------------------------

    async def _clock_step(self) -> None:
        host = self.rng.choice(self.swarm.hosts)
        seconds = self.rng.choice((-1, 1)) * self.rng.choice((0.1, 1.0, 10.0)) * self.rng.random()
        self.swarm.say(f"the clock of {host.name} steps by {seconds:.3f} s")
        host.clock.step(seconds)

    async def _rotate(self) -> None:
        host = self.rng.choice(self.swarm.hosts)
        if host.up or self.scenario.glob:
            self.swarm.say(f"the log of {host.name} is rotated")
            host.server.rotate(self.swarm.history.now())

    async def _leave(self) -> None:
        if (host := self._victim()) and sum(not each.left for each in self.swarm.hosts) > 3:
            self.swarm.say(f"{host.name} leaves")
            await host.leave()
