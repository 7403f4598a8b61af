"""What this agent carries, and the jobs it therefore works on.

Owns the agent's streams and labels, its members, and the asking for what it missed while it was away. Leads
nothing.

Invariant: at most one member per job, of the newest incarnation known; a job that was stopped here is not
started again by an older announcement.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import pyarrow as pa

from elfmesh import ids
from elfmesh.control.events import LocalStreams, Persist, StreamInfo
from elfmesh.control.keeper import Keeper
from elfmesh.control.member import Member
from elfmesh.control.messages import Announce, Running, Verdict, WhatRuns
from elfmesh.control.office import Office
from elfmesh.control.plan import Plan, check_columns, read_plan
from elfmesh.control.terms import Participant, Terms
from elfmesh.errors import QueryError
from elfmesh.srt.events import Subscribe, Unsubscribe

ASK_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between the first questions what runs; then every ASK_ALWAYS_S."""

ASK_ALWAYS_S = 30.0
LEFT_S = 0.1
"""How often an agent that leaves looks whether it may."""

STOPPED_MAX = 4096
JOBS_MAX = 1000
"""Jobs one agent works on: it must not hurt the web server."""


class Carrier:
    """The worker side of an agent.

    Args:
        office: clock and way out.
    """

    def __init__(self, office: Office) -> None:
        self._office = office
        self.streams: dict[str, StreamInfo] = {}
        self.labels: dict[str, str] = {}
        self.members: dict[bytes, Member] = {}
        self.keeper = Keeper(office)
        self.ledgers: dict[bytes, bytes] = {}
        self._stopped: OrderedDict[tuple[bytes, str], None] = OrderedDict()
        self._asked = 0
        self._answered: set[str] = set()
        self._asking = False
        self._remembered: list[Terms] = []
        self._leaving: int | None = None
        self._told: list[Callable[[int], None]] = []

    def carries(self, event: LocalStreams) -> None:
        """Streams and labels are these now."""
        for name in self.streams:
            if name not in {stream.name for stream in event.streams}:
                self._office.emit(Unsubscribe(ids.stream_id(name)))
        self.labels = dict(event.labels)
        self.streams = {stream.name: stream for stream in event.streams}
        for name in self.streams:
            self._office.emit(Subscribe(ids.stream_id(name)))
        for job, member in list(self.members.items()):
            if not self._matches(member.plan):
                self.stop(job, member.manifest.incarnation)
        remembered, self._remembered = self._remembered, []
        for terms in remembered:
            announce = Announce(terms.manifest, terms.master, terms.epoch, terms.version, terms.start)
            self.announced(announce, founding=False)
            if terms.manifest.job_id not in self.members:
                self._forget(terms)
        self.ask_soon()

    def leave(self, done: Callable[[int], None]) -> None:
        """Take part in nothing new, end what runs at the intervals that the masters name (D-14).

        Args:
            done: told how many jobs were left, once nothing is expected of this agent any more.
        """
        idle = not self._told
        self._told.append(done)
        if self._leaving is None:
            for name in self.streams:
                self._office.emit(Unsubscribe(ids.stream_id(name)))
            for member in self.members.values():
                member.leave()
            self._leaving = len(self.members)
        if idle:
            self._left()

    def _left(self) -> None:
        for job, member in list(self.members.items()):
            if member.has_left:
                self.stop(job, member.manifest.incarnation)
        if self.members:
            self._office.after(LEFT_S, self._left)
            return
        told, self._told = self._told, []
        for done in told:
            done(self._leaving or 0)

    def _forget(self, terms: Terms) -> None:
        """What this agent worked on before it was restarted is not for it any more."""
        job = terms.manifest.job_id
        self._office.emit(Persist("member", job, b""))
        self.keeper.stopped(job, terms.manifest.incarnation)

    def remember(self, terms: Terms) -> None:
        """This agent was a member before it was restarted: it reports back as soon as it has its streams."""
        self._remembered.append(terms)

    def restored(self, kept: list[bytes]) -> None:
        """Copies that this agent kept for other members before it was restarted."""
        jobs = [(terms.manifest.job_id, terms.manifest.incarnation) for terms in self._remembered]
        self.keeper.restored(kept, jobs)

    @property
    def stream_ids(self) -> set[bytes]:
        """Ids of the groups of this agent's streams."""
        return {ids.stream_id(name) for name in self.streams}

    def ask_soon(self) -> None:
        """Ask the rendezvous of each stream what runs, now and then less and less often."""
        self._asked = 0
        self._answered.clear()
        if not self._asking:
            self._asking = True
            self._ask()

    def _ask(self) -> None:
        early = self._asked < len(ASK_S)
        for name in self.streams:
            if not early or name not in self._answered:
                self._office.route(ids.stream_id(name), WhatRuns(name, self._office.me))
        pause = ASK_S[self._asked] if early else ASK_ALWAYS_S
        self._asked += 1
        self._office.after(self._office.jittered(pause), self._ask)

    def running(self, message: Running) -> None:
        """The rendezvous says what runs on a stream."""
        if message.jobs:
            self._answered.add(message.stream)
        for announce in message.jobs:
            self.announced(announce, founding=False)

    def announced(self, message: Announce, *, founding: bool = True) -> Verdict:
        """A job is there: take part if it is for us.

        Who hears of a job while its first roster is made starts at once; a later one asks for its interval.
        """
        manifest, me = message.manifest, Participant(self._office.me, self._office.name)
        job = manifest.job_id
        if (job, manifest.incarnation) in self._stopped or self._leaving is not None:
            return Verdict(me, False)
        member = self.members.get(job)
        if member is not None:
            if member.manifest.incarnation == manifest.incarnation:
                if message.epoch >= member.epoch:
                    member.master = message.master
                return Verdict(me, True)
            if message.epoch < member.epoch:
                self._office.stats["control.fenced"] += 1
                return Verdict(me, False)
            self.stop(job, member.manifest.incarnation)
        try:
            plan = read_plan(manifest.text)
        except QueryError as refused:
            return Verdict(me, False, str(refused))
        if not self._matches(plan):
            return Verdict(me, False)
        schema: pa.Schema | None = self.streams[plan.stream].schema
        error = check_columns(manifest.text, schema) if schema is not None else ""
        if error or len(self.members) >= JOBS_MAX:
            return Verdict(me, False, error or f"this agent works on {JOBS_MAX} jobs already")
        ledger = self.ledgers.pop(job, b"")
        member = Member(self._office, manifest, plan, message.master, message.epoch, self.keeper, ledger)
        self.members[job] = member
        if founding and message.version == 0:
            member.begin(message.start)
        else:
            member.enroll()
        return Verdict(me, True)

    def stop(self, job: bytes, incarnation: str) -> None:
        """This incarnation of a job is over."""
        self._stopped[job, incarnation] = None
        while len(self._stopped) > STOPPED_MAX:
            self._stopped.popitem(last=False)
        member = self.members.get(job)
        if member is not None and member.manifest.incarnation == incarnation:
            del self.members[job]
            member.stop()

    def _matches(self, plan: Plan) -> bool:
        mine = self.labels.items()
        return plan.stream in self.streams and all(label in mine for label in plan.labels)
