"""After the faults: every job runs again, all that is due closes, every agent answers; or it is noted.

Owns what clients do then and how long they wait. A delete without an answer is asked for again until it has
one; a job whose register has lost its majority for good is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from elfmesh import ids
from elfmesh.control.jobs.records import FIRST, add_counts
from elfmesh.control.protocol.events import Reply
from elfmesh.control.replicas import known_peers
from elfmesh.control.replicas.terms_query import ALL_NEAR
from elfmesh.errors import ElfError
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging.history import History, Incarnation
from tests.sim.swarm.judging.invariants import LIVENESS_S
from tests.sim.swarm.recovering import adopt_late
from tests.sim.swarm.residing.watch import resting, returning
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.workload import Traffic
from tests.sim.world.wall import EPOCH_US

ANSWERS_S = 90.0
"""How soon after the faults a job that was deleted, or whose end no agent knows, runs."""

FORGOTTEN_S = known_peers.FORGOTTEN_S
"""How long an agent that is away for good counts as one of the fleet: D-4 and D-15 promise that no agent
founds a job without a majority of those that were there in the last 5 minutes."""

REQUEST_S = 35.0
"""After this, no agent makes a change any more whose client has given up: a pause would undo a resume, and a
delete what is applied."""


CREATOR = "local"
"""Of each job."""

COUNTED_S = 120.0
"""How long the fleet writes on until no agent has pending corrections of what was closed without it."""

COUNTED_INTERVALS = 3
"""What came late before is counted in the first of them at the latest."""


def founded(job: str, there: Sequence[bytes], gone: Sequence[bytes]) -> bool:
    """Return whether agents that are there may found a job while those that are gone still count (D-4).

    At each of its two placements, a majority of the nearest that are known has to answer.
    """
    for placement in ids.job_placements(job, CREATOR):
        near = sorted((*there, *gone), key=lambda agent: ids.distance(agent, placement))[:ALL_NEAR]
        if 2 * len({*near} & {*there}) <= len(near):
            return False
    return True


class Swarm(Protocol):
    """What is settled."""

    scenario: Scenario
    history: History
    hosts: list[Host]
    jobs: dict[Incarnation, Job]
    current: dict[str, Incarnation]
    unsure: set[str]
    pausing: set[str]

    @property
    def lost(self) -> Mapping[str, str]: ...
    def say(self, text: str) -> None: ...
    def fall_silent(self) -> None: ...
    async def apply(self, job: Job) -> bool: ...
    async def ask(self, verb: str, body: dict[str, Any]) -> Reply | None: ...
    async def answered(self, verb: str, body: dict[str, Any]) -> Reply | None: ...


class Settling:
    """The last phase of one run.

    Attributes:
        due: by job, the last interval that has to be closed.
        silent: what was asked and not answered.
    """

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self.due: dict[Incarnation, int] = {}
        self.silent: list[str] = []
        self.pending_corrections: dict[Incarnation, dict[str, tuple[int, ...]]] = {}
        self.counted: dict[Incarnation, int] = {}
        self.resting: dict[Incarnation, set[str]] = {}

    async def run(self) -> dict[Incarnation, float | None]:
        """All agents write a little more, then fall silent; how long it takes until all of it is closed."""
        loop = asyncio.get_running_loop()
        if self._swarm.pausing or self._swarm.unsure:
            await asyncio.sleep(REQUEST_S)
        await adopt_late(self._swarm, REQUEST_S)
        for job in self._swarm.scenario.jobs:
            await self._begun(job, max(loop.time(), self._counted_until(job)) + ANSWERS_S)
        self._swarm.fall_silent()
        await asyncio.sleep(0)
        for host in self._swarm.hosts:
            host.server.finish()
        healed = loop.time()
        self.due = {key: self._due_index(key) for key in self._swarm.current.values()}
        closed: dict[Incarnation, float | None] = dict.fromkeys(self.due)
        deadline = healed + max(3 * job.size_s for job in self._swarm.scenario.jobs) + LIVENESS_S + 120
        while loop.time() < deadline and self._waits_for(closed):
            await asyncio.sleep(0.5)
            for key, index in self.due.items():
                if closed[key] is None and self.closed(key) > index:
                    closed[key] = loop.time() - self._due_at(key, index, healed)
                    self._swarm.say(
                        f"everything due of {key[0]} (up to {index}) is closed after {closed[key]:.1f} s"
                    )
        await self._all_counted(deadline + COUNTED_S)
        await self._all_answer(loop.time() + LIVENESS_S)
        return closed

    async def _all_counted(self, deadline: float) -> None:
        """With all clocks right, all agents write until none has pending corrections; then all of it has to
        be closed.

        What an agent had for intervals that were closed without it counts in the next one that it contributes
        to, and what came late in the one that is open then: all of it is in records in the end.
        """
        loop = asyncio.get_running_loop()
        mine = [key for key in self._swarm.current.values() if key[0] not in self._swarm.lost]
        if not mine:
            return
        slide_s = max(self._swarm.jobs[key].slide_s for key in mine)
        hosts = [host for host in self._swarm.hosts if not host.left]
        for host in hosts:
            host.server.traffic = Traffic()
            host.clock.set_right()
        behind = {key: self.closed(key) + COUNTED_INTERVALS for key in mine}
        while loop.time() < deadline:
            for host in hosts:
                host.server.write(1)
            await asyncio.sleep(slide_s / 2)
            if all(self.closed(key) >= behind[key] and not self._has_uncounted(key) for key in mine):
                break
        due = {key: self._due_index(key) for key in mine}
        # A watermark that is under way names the outcomes of the last intervals.
        while loop.time() < deadline and any(  # noqa: ASYNC110 - virtual time
            self.closed(key) <= due[key] or self._pending_corrections(key) for key in mine
        ):
            await asyncio.sleep(0.5)
        self.pending_corrections = {key: self._pending_corrections(key) for key in mine}
        self.counted = {key: self.closed(key) for key in mine}
        # Hosts that the newest master excludes count their records when they take part again (D-23).
        self.resting = {key: self._resting(key) - self._returning(key) for key in mine}

    def _has_uncounted(self, key: Incarnation) -> bool:
        return bool(self._pending_corrections(key) or self._returning(key))

    def _resting(self, key: Incarnation) -> set[str]:
        residence = self._swarm.history.residence
        there = [host for host in self._swarm.hosts if not host.left]
        return resting(there, residence, key, self.closed(key)) if residence.keeping else set()

    def _returning(self, key: Incarnation) -> set[str]:
        """Hosts that count nothing, though the newest master admits them."""
        rests = self._resting(key)
        job = self._swarm.jobs[key]
        return returning(self._swarm.hosts, self._swarm.history.residence, job, rests) if rests else rests

    def _pending_corrections(self, key: Incarnation) -> dict[str, tuple[int, ...]]:
        """By name of an agent: counts of a job that are in no record yet."""
        found = {}
        for host in self._swarm.hosts:
            for member in () if host.local is None else host.local.control.member_host.members.values():
                if (member.manifest.qualified, member.manifest.incarnation) == key:
                    pending_corrections = add_counts(
                        (member.ledger.state.pending_corrections, *member.ledger._placed.values())
                    )
                    if any(pending_corrections) or member.ledger.undecided:
                        found[host.name] = pending_corrections
        return found

    def _waits_for(self, closed: dict[Incarnation, float | None]) -> bool:
        lost = self._swarm.lost
        return any(seconds is None and key[0] not in lost for key, seconds in closed.items())

    def _counted_until(self, job: Job) -> float:
        """Until when so many that are gone for good count that the others found nothing.

        An agent that was restarted cannot know since when the others are away: it counts from its own start.
        """
        running = [host for host in self._swarm.hosts if host.up]
        there = [host.id for host in running]
        starts = [up for host in running for _, up in host.away]
        forgotten = {
            agent: max(self._received_until(running, agent, since), *starts, 0.0) + FORGOTTEN_S
            for agent, since in self._swarm.history.gone.items()
        }
        for until in (0.0, *sorted(forgotten.values())):
            if founded(f"sim/{job.name}", there, [each for each, at in forgotten.items() if at > until]):
                return until
        return max(forgotten.values(), default=0.0)

    def _received_until(self, running: list[Host], agent: bytes, since: float) -> float:
        """Since when all that run count an agent as away: what was on its way when it went counts as well."""
        now = asyncio.get_running_loop().time()
        known = [host.local.control.leadership.first.known_peers for host in running if host.local]
        return max([since, *(now - each.away_s(agent) for each in known if each.away_s(agent))])

    async def _begun(self, job: Job, deadline: float) -> None:
        """See that a job runs: a delete without an answer is asked for again, as any client would."""
        name = f"sim/{job.name}"
        while asyncio.get_running_loop().time() < deadline and name not in self._swarm.lost:
            if job.name in self._swarm.unsure:
                reply = await self._swarm.answered("delete", {"job": name})
                if reply is not None and reply.status in (200, 404):
                    self._swarm.unsure.discard(job.name)
                    self._swarm.current.pop(job.name, None)
            elif job.name not in self._swarm.current:
                await self._swarm.apply(job)
            elif await self._swarm.ask("resume", {"job": name}) is not None:
                return
            await asyncio.sleep(1.0)
        if name not in self._swarm.lost:
            self.silent.append(f"{name}: no agent has run it {ANSWERS_S} s after the faults")
        self._swarm.current.pop(job.name, None)

    async def _all_answer(self, deadline: float) -> None:
        """Every agent that runs answers about every job."""
        for host in self._swarm.hosts:
            for key in self._swarm.current.values():
                while host.local is not None and key[0] not in self._swarm.lost:
                    try:
                        reply = await host.ask("offsets", {"job": key[0]}, 5.0)
                    except ElfError:
                        reply = None
                    if reply is not None and reply.status == 200:
                        break
                    if asyncio.get_running_loop().time() > deadline:
                        self.silent.append(f"{host.name} does not answer about {key[0]}: {reply}")
                        break
                    await asyncio.sleep(0.5)

    def _due_index(self, key: Incarnation) -> int:
        """The last interval that any agent has written into."""
        slide_us = self._swarm.jobs[key].slide_us
        stamps = [
            line.ts_us for host in self._swarm.hosts for line in host.server.ledger if line.kind == "good"
        ]
        return max(stamps, default=EPOCH_US) // slide_us

    def _due_at(self, key: Incarnation, index: int, healed: float) -> float:
        """When the interval was over by every clock, or the faults, whichever was later."""
        job = self._swarm.jobs[key]
        end_us = index * job.slide_us + job.size_us + job.lateness_s * 1_000_000
        now_us = [host.clock.us() for host in self._swarm.hosts if not host.left]
        now = asyncio.get_running_loop().time()
        return max(healed, now + (end_us - min(now_us)) / 1e6)

    def closed(self, key: Incarnation) -> int:
        """First interval of a job that is not closed, by what its newest master says and has records of."""
        found = [
            (master.term.epoch, FIRST if master.term.closer.behind else master.term.closer.closed)
            for host in self._swarm.hosts
            if host.local is not None
            for master in host.local.control.leadership.masters.values()
            if (master.term.manifest.qualified, master.term.manifest.incarnation) == key
        ]
        return max(found, default=(0, FIRST))[1]
