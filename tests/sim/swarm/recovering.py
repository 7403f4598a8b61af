"""An operator has a job go on without most of its voters; then these come back, each in its own way.

Owns the fault and what is noted of it: who has led which generation, since when the network is whole again,
and what readers were given meanwhile. The old voters keep their disks, so they could go on with the old
numbering.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import generation
from elfmesh.control.master.master import Master
from elfmesh.errors import ElfError
from tests.sim.swarm.host import Host, Killed

if TYPE_CHECKING:
    from tests.sim.swarm.judging.outcome import Outcome

TOGETHER, IN_TURN, STOPPED, CUT_OFF = "together", "in turn", "stopped", "cut off"
WAYS = (TOGETHER, IN_TURN, STOPPED, CUT_OFF)
"""How voters are away: down and started again together or one after the other; stopped; alive on the other
side of a partition, where they go on leading the job."""

RECOVERED_S = 60.0
"""How long the operator tries: voters that answered a moment ago still count."""

YIELD_S = 15.0
"""How long an earlier generation may be led beside a later one once all can reach each other: two upkeeps of
a master (5 to 7.25 s each), and what is lost on the way."""

LOOK_S = 0.1


@dataclass
class Recovery:
    """One recovery.

    Attributes:
        job: its name.
        lost_at: when its voters were taken away.
        before: the incarnation that ended.
        after: the one that began.
        are_back: all old voters are back.
        whole_at: since when all agents are there and can reach each other; None: they are not, or cannot.
        rivals: seconds since then, each time that several generations were led.
        mixed: what readers were told that is of the other incarnation than the one it is said to be of.
        old: seconds since then, each time that readers were given the old incarnation as the present one.
    """

    job: str
    lost_at: float
    before: str = ""
    after: str = ""
    are_back: bool = False
    whole_at: float | None = None
    rivals: list[float] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    old: list[float] = field(default_factory=list)


class Recovering:
    """Loses most voters of a job, recovers it, and brings them back."""

    def __init__(self, swarm: Any, rng: random.Random) -> None:
        self.swarm, self.rng = swarm, rng
        self._busy = False

    async def fault(self) -> None:
        """One at a time, where all agents are there."""
        swarm = self.swarm
        if self._busy or len(swarm.running()) < len(swarm.hosts):
            return
        (job,) = self.rng.sample(swarm.scenario.jobs, 1)
        self._busy = True
        try:
            await self.recover(job, self.rng.choice(WAYS))
        finally:
            self._busy = False

    async def recover(self, job: Any, way: str) -> Recovery | None:
        """Take two of three voters away, recover the job, bring them back; None: it could not be done."""
        swarm, name = self.swarm, f"sim/{job.name}"
        groups = swarm.history.voters.get(name, [(0.0, ())])[-1][1]
        voters = [host for host in swarm.running() if len(groups) == 1 and host.id in groups[0]]
        if len(voters) != 3 or job.name not in swarm.current or len(swarm.hosts) < 4:
            return None
        lost = self.rng.sample(voters, 2)
        swarm.say(f"{', '.join(host.name for host in lost)}, which vote on {name}, are lost: {way}")
        recovery = Recovery(name, swarm.history.now(), swarm.current[job.name][1])
        swarm.history.clients.recoveries.append(recovery)
        cut = self._away(lost, way)
        try:
            await self._operator(recovery, [host for host in swarm.hosts if host not in lost])
            await asyncio.sleep(self.rng.choice((0.1, self.rng.uniform(0, 5), self.rng.uniform(0, 30))))
            adopt(swarm, recovery)
            for host in lost:
                self._back(host, way)
                await asyncio.sleep(self.rng.uniform(0, 10) if way == IN_TURN else 0)
        finally:
            swarm.network.swarm_link.mend(cut)
            recovery.are_back = True
        return recovery

    def _away(self, lost: list[Host], way: str) -> int:
        swarm = self.swarm
        rest = [host for host in swarm.hosts if host not in lost]
        if way == CUT_OFF:
            pairs = [(one.id, other.id) for one in lost for other in rest]
            return int(swarm.network.swarm_link.cut([*pairs, *((b, a) for a, b in pairs)]))
        for host in lost:
            if way == STOPPED:
                host.pause()
            else:
                host.wanted = False
                host.kill()
        return -1

    def _back(self, host: Host, way: str) -> None:
        if way == STOPPED:
            host.resume()
        elif way != CUT_OFF:
            host.wanted = True
            host.ensure()

    async def _operator(self, recovery: Recovery, rest: list[Host]) -> None:
        """Ask the agents that are left until one does it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + RECOVERED_S
        while loop.time() < until:
            await asyncio.sleep(1.0)
            there = [host for host in rest if host.up and not host.paused]
            if not there:
                continue
            try:
                body = {"job": recovery.job, "accept_loss": True}
                reply = await self.rng.choice(there).ask("recover", body, 30.0)
            except (ElfError, Killed):
                continue
            except asyncio.CancelledError:  # its agent was killed
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                continue
            if reply.status == 200 and reply.body.get("state") == "recovered":
                self.swarm.say(f"recovered: {reply.body['new_voters']} vote on {recovery.job}")
                return

    # -- watching --------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Note who leads, as long as the run lasts."""
        history = self.swarm.history
        while True:
            await asyncio.sleep(LOOK_S)
            whole = self._is_whole()
            for recovery in self._newest():
                if not whole or not recovery.are_back:
                    recovery.whole_at = None
                elif recovery.whole_at is None:
                    recovery.whole_at = history.now()
                led = {generation(each.term.epoch) for each in self._masters(recovery.job)}
                if recovery.whole_at is not None and recovery.after and len(led) > 1:
                    recovery.rivals.append(history.now() - recovery.whole_at)

    def _is_whole(self) -> bool:
        """Whether no other fault keeps an agent from the others."""
        there = all(host.up and not host.paused for host in self.swarm.hosts if not host.left)
        return there and self.swarm.network.swarm_link.is_whole

    def _newest(self) -> list[Recovery]:
        """The last recovery of each job: another one takes the network apart again."""
        return [*{each.job: each for each in self.swarm.history.clients.recoveries}.values()]

    def _masters(self, job: str) -> list[Master]:
        return [
            master
            for host in self.swarm.hosts
            if host.local is not None and not host.paused
            for master in host.local.control.leadership.masters.values()
            if master.term.manifest.qualified == job
        ]

    async def read(self) -> None:
        """A reader that asks any agent for what there is, and compares it with what was published."""
        history = self.swarm.history
        while True:
            await asyncio.sleep(1.0)
            for recovery in self._newest():
                reply = await self.swarm.ask("results", {"job": recovery.job, "limit": 500}, 5.0)
                if reply is None:
                    continue
                notified = str(reply.body["incarnation"])
                recovery.mixed += self._alien(recovery.job, notified, decode_page(reply.payload))
                if notified == recovery.before and recovery.whole_at is not None and recovery.after:
                    recovery.old.append(history.now() - recovery.whole_at)

    def _alien(self, job: str, incarnation: str, page: list[tuple[ResultRecord, bytes]]) -> Iterator[str]:
        known = {
            (each.record.index, each.record.epoch)
            for each in self.swarm.history.appended.get((job, incarnation), ())
        }
        for record, _ in page:
            if (record.index, record.epoch) not in known:
                yield f"{job} {record.index} of epoch {record.epoch} is told as one of {incarnation}"


def adopt(swarm: Any, recovery: Recovery) -> None:
    """The newest incarnation is the one that clients mean from now on, whichever agents know it."""
    newest, name = swarm._incarnation(recovery.job), recovery.job.partition("/")[2]
    before = swarm.current.get(name)
    if not recovery.after and newest and before is not None and newest != before[1]:
        recovery.after = newest
        swarm.current[name] = (recovery.job, newest)
        swarm.jobs[swarm.current[name]] = swarm.jobs[before]
        swarm.founders[swarm.current[name]] = swarm.founders.get(before, ())  # its roster goes on


async def adopt_late(swarm: Any, wait_s: float) -> None:
    """What was asked for when the faults ended may still be done."""
    open_ = [each for each in swarm.history.clients.recoveries if not each.after]
    if open_:
        await asyncio.sleep(wait_s)
    for recovery in open_:
        adopt(swarm, recovery)


def d4_old_voters_yield(out: Outcome) -> Iterator[str]:
    """Once all can reach each other, one generation is led, and readers get one incarnation."""
    for recovery in out.history.clients.recoveries:
        yield from recovery.mixed[:3]
        for what, times in (("led", recovery.rivals), ("read as the present one", recovery.old)):
            if (seconds := max(times, default=0.0)) > YIELD_S:
                yield f"{recovery.job}: an earlier generation is {what} {seconds:.1f} s after all were back"
