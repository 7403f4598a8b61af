"""The control machine of one agent: all state of jobs, sans-IO.

Owns the dispatching of events to its components: `requests` (requests of this agent's clients), `programs`
(processes of users beside this agent), `request_handler` (requests that this agent answers), `member_host`
and `member` (jobs of which this agent is a member), `rendezvous` (streams of which it is the rendezvous),
`leadership` and `master` (jobs that it leads), `roots` (trees of other masters' jobs whose root it is).

Invariants: a malformed or misplaced message is counted and changes nothing. Messages of the agent to itself
are handled before the step ends. Timers fire in their order.

Paper: ELF 2.4 and 3, Figure 8 (each agent is master, worker or both). Deviation: the trees merge the workers'
streams, and the master receives only merged partials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from elfmesh import ids
from elfmesh.control.answers import UNAVAILABLE, error_body
from elfmesh.control.context import Context
from elfmesh.control.dispatcher import Dispatcher
from elfmesh.control.election.drain import Drain
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.election.voting_sites import VotingSites
from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.control.master.rendezvous import Rendezvous
from elfmesh.control.member import member_host
from elfmesh.control.member.roots import Roots
from elfmesh.control.member.standby_report import standby_report
from elfmesh.control.programs import beside
from elfmesh.control.protocol.events import (
    ClientGone,
    ClientRequest,
    EarlyMerged,
    EarlyReported,
    Finalised,
    LocalStreams,
    LogDamaged,
    LogEnded,
    LogRead,
    PanesCut,
    PostsRead,
    ProgramAttached,
    ProgramGone,
    ProgramReported,
    Recomputed,
    Reply,
    Restored,
    Revised,
    Sealed,
    WorkerReport,
)
from elfmesh.control.protocol.events_functions import FunctionsTried
from elfmesh.control.protocol.messages import Announce, Stop
from elfmesh.control.protocol.messages_programs import Broadcast
from elfmesh.control.protocol.messages_versions import Rehearse
from elfmesh.control.register.first_acceptors import NOT_JOINED
from elfmesh.control.requests import dead_agents
from elfmesh.control.requests.handler import RequestHandler
from elfmesh.control.requests.paths_plan import least_kept
from elfmesh.control.requests.requests import REQUEST_S, Requests
from elfmesh.control.requests.verbs import of_job
from elfmesh.control.requests.voting import contradicted, voting
from elfmesh.control.restoring import restore
from elfmesh.machine import Caused, Contact, Effect, Event, Message, Received, Rng, Tick
from elfmesh.overlay.events import Joined, Leave, LookupDone, PeerDown, PeerUp, ProbeDone, RouteDelivered
from elfmesh.srt.events import (
    Attached,
    BecameRoot,
    Collected,
    Delivered,
    Detached,
    LostRoot,
    MulticastAnswer,
    PartsDropped,
    PublishDone,
    Subscribe,
)


def no_facts(topic: str, *about: Any) -> dict[str, Any]:
    return {}


EARLY_MAX = 256
"""Maximum number of requests that wait until this agent has joined the overlay."""


class Control:
    """The control machine; `step` is the only mutator.

    Args:
        me: contact of this agent.
        name: name of this agent.
        rng: seeded random numbers for jitter and incarnations.
        facts: returns the host's information about this agent by topic: "agent" (merged into `elf get
            agents`), "trees" ({"items": [{"tree": hex, ...}]}). Called for requests of clients.
        policy: what jobs may use at this agent.
        forget_after_s: how long a dead agent is listed.
    """

    def __init__(
        self,
        me: Contact,
        name: str,
        *,
        rng: Rng,
        facts: Callable[..., dict[str, Any]] = no_facts,
        policy: Policy = OPEN,
        forget_after_s: float = dead_agents.FORGET_AFTER_S,
    ) -> None:
        self.context = Context(me, name, rng, facts, policy)
        self.member_host = member_host.MemberHost(self.context)
        self.roots = Roots(self.context)
        self.rendezvous = Rendezvous(self.context)
        self.requests = Requests(self.context, self.member_host)
        self.leadership = Leadership(self.context, self.member_host, self.roots)
        self.dead = dead_agents.DeadAgents(self.context, self._name_of, forget_after_s)
        self.requests.dead = self.dead.rows
        self.request_handler = RequestHandler(self.context, self.leadership, self.member_host, self.dead)
        self.programs = beside.Programs(self.context, self.leadership.masters)
        self.drain = Drain(self.context, self.leadership)
        self.requests.voting = self.voting = partial(voting, self.context, self.leadership)
        self.requests.broken = partial(contradicted, self.leadership)
        self.member_host.departed, self.member_host.votes_on = self.drain.over, self.drain.jobs
        self.sites = VotingSites(self.context, self.leadership, self.member_host.site_parts)
        reads = self.request_handler.site_reads
        self.sites.shown, reads.lines = reads.shown, self.sites.lines
        parts = self.context, self.member_host, self.roots, self.rendezvous, self.requests, self.leadership
        others = self.request_handler, self.drain, self.programs, self.sites
        self.dispatcher = Dispatcher(*parts, *others)
        self._joined = False
        self._early: dict[int, ClientRequest] = {}
        self._local: LocalStreams | None = None

    def step(self, event: Event, now: float) -> list[Effect]:
        """Apply one event; returns the effects."""
        context = self.context
        context.now = max(now, context.now)
        self._take(event)
        context.fire()
        while context.inbox:
            message, payload = context.inbox.popleft()
            self._received(context.me, message, payload)
            context.fire()
        effects, context.out = context.out, []
        return effects

    @property
    def deadline(self) -> float | None:
        return self.context.deadline

    def stats(self) -> dict[str, int]:
        """Return the counters since the start, and gauges."""
        return {
            **dict(sorted(self.context.stats.items())),
            "masters": len(self.leadership.masters),
            "members": len(self.member_host.members),
            "replicas": len(self.leadership.replicas),
            "votes": len(self.leadership.registers.acceptors),
        }

    def tentative_overlaps(self) -> dict[str, float]:
        """Return, by job that is led here, the share of the final rows that tentative records had."""
        led = {
            each.term.manifest.qualified: each.accuracy.overlap for each in self.leadership.masters.values()
        }
        return {job: overlap for job, overlap in led.items() if overlap is not None}

    def kept_if_lost(self) -> dict[str, float]:
        """Return, by job with STANDBY that is led here, what the loss of any failure domain leaves."""
        led = [each for each in self.leadership.masters.values() if each.term.plan.standby_s is not None]
        return {each.term.manifest.qualified: least_kept(each) for each in led}

    def standbys(self) -> dict[str, Any]:
        """Return what this agent holds as a standby, and its own standbys by job."""
        return standby_report(self.context, self.member_host)

    def _take(self, event: Event) -> None:
        match event:
            case Tick():
                pass
            case Received():
                self.context.met(event.sender.id)
                self.leadership.first.known_peers.received(event.sender.id)
                self._received(event.sender, event.message, event.payload)
            case RouteDelivered():
                message = self.context.unpacked(event.body)
                if message is not None:
                    self._received(event.origin, message, event.payload, routed=True)
            case Delivered():
                message = self.context.unpacked(event.body)
                if isinstance(message, Broadcast):
                    self.programs.on_broadcast(event, message)
                else:
                    self._delivered(event, message)
            case LogDamaged():
                self.leadership.damaged(event.log)
            case PublishDone() | LookupDone() | ProbeDone() | LogRead():
                self.context.answer(event.token, event)
            case ClientRequest() if self._joined or not (event.verb == "apply" or of_job(event.verb)):
                self.requests.request(event)
            case ClientRequest() if len(self._early) < EARLY_MAX:
                self._early[event.token] = event  # now, it would create jobs with itself as the only voter
                self.context.after(REQUEST_S, partial(self._too_early, event.token))
            case ClientRequest():
                self._not_joined(event.token)
            case ClientGone():
                self.requests.gone(event.token)
            case _:
                self._host_reported(event)

    def _received(self, sender: Contact, message: Message, payload: bytes, *, routed: bool = False) -> None:
        if isinstance(message, Caused):
            self.context.causes.follow(message.cause or b"")
        self.dispatcher.received(sender, message, payload, routed=routed)

    def _delivered(self, event: Delivered, message: Message | None) -> None:
        def answer() -> None:
            if isinstance(message, Caused):
                self.context.causes.follow(message.cause or b"")
            body = self.dispatcher.delivered(message) if message is not None else b""
            self.context.emit(MulticastAnswer(event.tree, event.seq, body))

        if isinstance(message, Stop):
            # The tree of an agent alone ends with its member, and with it an answer that comes afterwards.
            self.context.emit(MulticastAnswer(event.tree, event.seq, b""))
            self.dispatcher.delivered(message)
        elif isinstance(message, Announce | Rehearse):
            self.member_host.when_tried(message.manifest, answer)
        else:
            answer()

    def _host_reported(self, event: Event) -> None:
        masters, members = self.leadership.masters, self.member_host.members
        match event:
            case BecameRoot():
                self.context.roots[event.tree] = None
                self.rendezvous.rooted(event.tree)
                self.leadership.became_root(event.tree)
            case LostRoot():
                self.context.roots.pop(event.tree, None)
                self.rendezvous.unrooted(event.tree)
                self.leadership.lost_root(event.tree)
            case Collected():
                self._collected(event)
            case PartsDropped():
                if event.tree in masters:
                    masters[event.tree].term.collection.dropped(0, event)
                else:
                    self.roots.dropped(event)
            case PeerUp():
                self.context.grown(event.contact.id)
                self.leadership.first.known_peers.met(event.contact)
                self.dead.gone(event.contact.id)
            case PeerDown():
                self.context.lost(event.id, stopped=event.stopped)
                self.dead.lost(self.leadership.first.known_peers.lost(event.id))
                self.leadership.lost(event.id)
                self.programs.rendezvous.lost(event.id)
                for job, master in masters.items():
                    if entry := master.term.book.of(event.id):
                        self.context.note(
                            "lost", job, master.term.held, master.term.held + 1, entry.name, leads=False
                        )
                    master.term.collection.straggler_policy.lost_sight(event.id)
            case Sealed():
                if event.job in members:
                    self.context.note("sealed", event.job, event.start, event.stop)
                    members[event.job].sealed(event)
            case PostsRead():
                self.member_host.post_senders.read(event)
            case Revised() | EarlyReported() | PanesCut() | LogEnded() | WorkerReport():
                self.member_host.worker_reported(event)
            case Finalised() | EarlyMerged():
                if event.job in masters and masters[event.job].term.epoch == event.epoch:
                    masters[event.job].term.made(event)
                elif isinstance(event, Finalised):
                    self.sites.finalised(event)
            case Recomputed():
                for member in self.member_host.members.values():
                    if member.rechecks.recomputed(event):
                        break
            case ProgramAttached() | ProgramReported() | ProgramGone() | Attached() | Detached():
                self.programs.host_reported(event)
            case FunctionsTried():
                self.member_host.admission.preflight.tried(event)
            case LocalStreams():
                self._local = event
                if self._joined:
                    self.member_host.carries(event)
            case Joined():
                self._enter()
            case Leave():
                self.member_host.stopping()
            case Restored():
                restore(event, self.context, self.leadership, self.member_host, self.programs, self.dead)
            case _:
                raise TypeError(f"the control machine does not take {type(event).__name__}")

    def _collected(self, event: Collected) -> None:
        context, segment = self.context, event.segment
        about = (event.tree, segment.start, segment.stop)
        context.causes.note(context.now, "collected", *about, detail=segment.coverage)
        if (master := self.leadership.masters.get(event.tree)) is None:
            self.roots.collected(event)
        elif event.segment.epoch == master.term.roster_epoch:
            master.term.trees.arrived(0, None, context.me, event.segment)
            master.term.collection.collected(0, event.segment, event.payloads)
        else:
            self.context.stats["control.fenced"] += 1

    def _enter(self) -> None:
        """Begin after the agent has joined the overlay; before, it would be the root of all its trees."""
        if self._joined:
            self.member_host.questions.soon()
            return
        self._joined = True
        self.context.joined_at = self.context.grown_at = self.context.now
        self.context.emit(Subscribe(ids.ALL_AGENTS))
        if self._local is not None:
            self.member_host.carries(self._local)
        early, self._early = self._early, {}
        for request in early.values():
            self.requests.request(request)

    def _too_early(self, token: int) -> None:
        """Refuse a request that has waited too long, because its client may have sent it to another agent."""
        if self._early.pop(token, None) is not None:
            self._not_joined(token)

    def _not_joined(self, token: int) -> None:
        self.context.emit(Reply(token, UNAVAILABLE, error_body(NOT_JOINED, code=69)))

    def _name_of(self, agent: bytes) -> str:
        rosters = [master.term.book.entries for master in self.leadership.masters.values()]
        rosters += [job_replica.terms.members for job_replica in self.leadership.replicas.values()]
        rosters += [
            each.terms.members for each in self.member_host.members.values() if each.terms is not None
        ]
        return next((each.name for roster in rosters for each in roster if each.contact.id == agent), "")
