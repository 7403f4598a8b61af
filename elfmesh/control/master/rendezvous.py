"""The rendezvous of a stream: the agent closest to its id, which brings jobs and member hosts together.

Owns soft state only: the jobs that run on the streams whose rendezvous this agent is. A new rendezvous learns
them within one round of the masters' upkeep, and forgets a job that is not announced again.

Invariant: an older announcement does not bring back a job that was withdrawn.

Paper: ELF 2.3 ("their JOIN message will eventually arrive at a rendezvous node").
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.protocol.messages import (
    Announce,
    Announced,
    Running,
    Verdict,
    WhatRuns,
    Withdraw,
    unpack,
)
from elfmesh.errors import ProtocolError, QueryError
from elfmesh.srt.events import PublishDone

VERDICTS_S = 12.0
"""Time of the member hosts for their verdicts: they try out functions, and an agent that has just started
loads the engine. The time-out of the client is longer. The master does not wait for an agent that has died.
"""

UNSUBSCRIBED_S = 1.0
"""How long the rendezvous waits to become the root of a stream's tree until it reports that the stream has no
member host."""

FORGET_S = 30.0
"""Six missed announcements: the master has gone, or another agent is the rendezvous."""

JOBS_MAX = 10_000
"""Jobs of all streams that one agent remembers."""

ANSWER_JOBS_MAX = 256
"""Jobs in one answer, which has to fit into a header."""

WITHDRAWN_MAX = 4096


@dataclass(slots=True)
class _Job:
    stream: str
    announce: Announce
    at: float


class Rendezvous:
    """Remembers the jobs on each stream, and multicasts them to its member hosts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._jobs: OrderedDict[tuple[bytes, str], _Job] = OrderedDict()
        self._withdrawn: OrderedDict[tuple[bytes, str], None] = OrderedDict()

    def on_announce(self, message: Announce) -> None:
        """A master announces its job: ask the member hosts if the job is new, or if the master wants that."""
        job = message.manifest.job_id
        if (job, message.manifest.incarnation) in self._withdrawn:
            return
        stream = message.stream
        known = self._jobs.get((job, stream))
        if known is not None and known.announce.epoch > message.epoch:
            self._context.stats["control.fenced"] += 1
            return
        try:
            read = read_plan(message.manifest.text).streams
        except QueryError:
            read = ()
        if stream not in read:
            self._context.stats["control.malformed"] += 1
            return
        new = known is None or known.announce.manifest.incarnation != message.manifest.incarnation
        self._jobs[job, stream] = _Job(stream, message, self._context.now)
        while len(self._jobs) > JOBS_MAX:
            self._jobs.popitem(last=False)
        if not (new or message.wanted):
            return
        if ids.stream_id(stream) in self._context.roots:
            self._ask_stream_hosts(stream, message)
        else:
            self._context.after(UNSUBSCRIBED_S, lambda: self._no_stream_hosts(stream, message))

    def rooted(self, tree: bytes) -> None:
        """This agent is the root of a tree now: if it is a stream's, it asks the member hosts."""
        for known in list(self._jobs.values()):
            if ids.stream_id(known.stream) == tree:
                self._ask_stream_hosts(known.stream, known.announce)

    def unrooted(self, tree: bytes) -> None:
        """Another agent is the root of a tree: if it is a stream's, it receives its jobs at once."""
        for known in list(self._jobs.values()):
            if ids.stream_id(known.stream) == tree:
                self._context.route(tree, replace(known.announce, wanted=True))

    def _ask_stream_hosts(self, stream: str, announce: Announce) -> None:
        def done(outcome: PublishDone | None) -> None:
            if outcome is not None:
                self._verdicts(stream, announce, outcome)

        self._context.publish(ids.stream_id(stream), announce, VERDICTS_S, done)

    def _no_stream_hosts(self, stream: str, announce: Announce) -> None:
        if ids.stream_id(stream) not in self._context.roots:
            no_client = Announced(announce.manifest.job_id, announce.epoch, (), (), 0, stream)
            self._context.send(announce.master, no_client)

    def _verdicts(self, stream: str, announce: Announce, done: PublishDone) -> None:
        verdicts: list[Verdict] = []
        for _, body in done.answers:
            try:
                verdict = unpack(body)
            except ProtocolError:
                continue
            if isinstance(verdict, Verdict):
                verdicts.append(verdict)
        verdicts.sort(key=lambda each: each.participant.contact.id)
        self._context.send(
            announce.master,
            Announced(
                announce.manifest.job_id,
                announce.epoch,
                tuple(each.participant for each in verdicts if each.takes_part),
                tuple(f"{each.participant.name}: {each.error}" for each in verdicts if each.error),
                done.expected,
                stream,
            ),
        )

    def on_what_runs(self, message: WhatRuns) -> None:
        """A member host asks for the jobs that it may have missed."""
        for job, known in list(self._jobs.items()):
            if self._context.now - known.at > FORGET_S:
                del self._jobs[job]
        jobs = [each.announce for each in self._jobs.values() if each.stream == message.stream]
        self._context.send(message.asker, Running(message.stream, tuple(jobs[:ANSWER_JOBS_MAX])))

    def on_withdraw(self, message: Withdraw) -> None:
        self._withdrawn[message.job, message.incarnation] = None
        while len(self._withdrawn) > WITHDRAWN_MAX:
            self._withdrawn.popitem(last=False)
        for key, known in list(self._jobs.items()):
            if key[0] == message.job and known.announce.manifest.incarnation == message.incarnation:
                del self._jobs[key]
