"""The requests of clients at the agent that answers them: the master of a job, or every agent.

The module selects the handler of a verb (`job_verbs`). The master changes its job, `leadership` decides who
the master is, and `creation` creates jobs.

Invariant: every request is answered, forwarded to the master, or refused. It is forwarded at most `HOPS_MAX`
times.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import (
    CONFLICT,
    NO_MASTER,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    decode_body,
    no_such_job,
    refusal_body,
    refuse,
    respond,
)
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.plan import read_plan, reads_jobs
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.messages import HOPS_MAX, Ask, AskAll, Question, Submit
from elfmesh.control.protocol.replies_changes import Deleted
from elfmesh.control.requests.creation import Creation
from elfmesh.control.requests.dead_agents import DeadAgents
from elfmesh.control.requests.dependency_check import (
    Problem,
    check_reads,
    not_for_readers,
    refused_with_readers,
)
from elfmesh.control.requests.job_verbs import ALL_HANDLERS, JOB_HANDLERS, Asked, RequestParts
from elfmesh.control.requests.no_majority import NoMajority
from elfmesh.control.requests.placement import VERB as CANDIDATE
from elfmesh.control.requests.placement import Placement
from elfmesh.control.requests.precondition import Seen, outdated, read_seen
from elfmesh.control.requests.site_reads import SiteReads
from elfmesh.control.requests.version_handler import (
    VersionHandler,
    changes,
    runs_already,
)
from elfmesh.errors import ProtocolError, QueryError
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.overlay.events import ProbeDone
from elfmesh.ql.values.row_json import encode_json
from elfmesh.safeguards import safeguard
from elfmesh.srt.events import PublishDone

QUESTION_S = 2.0
"""Time limit for the answers of all agents."""

ROOT_TRIES = 10
ROOT_AGAIN_S = 0.2
"""Pause before the next attempt, because a new overlay may not have the tree of all agents yet."""

ANSWER_BYTES_MAX = 64 << 10
"""Maximum size of the rows of one agent in an answer of all."""


class RequestHandler:
    """Answers the requests that reach this agent.

    Args:
        leadership: the masters, and what is known of other masters.
        member_host: the members on this agent.
        dead: the dead agents that this agent knows.
    """

    def __init__(
        self, context: Context, leadership: Leadership, member_host: MemberHost, dead: DeadAgents
    ) -> None:
        self.context, self.leadership = context, leadership
        self._busy: dict[bytes, list[Submit]] = {}
        self._creation = Creation(context, leadership, self._busy, self._pass_to, self.on_submit)
        versions = VersionHandler(context, self._creation.reset, self._again)
        no_majority = NoMajority(context, leadership)
        self.parts = RequestParts(context, leadership, member_host, dead, no_majority, versions)
        self.site_reads = SiteReads(context, leadership.replicas)
        self._placement = Placement(context, leadership, self._busy, self._check, self.on_submit)

    # -- apply -----------------------------------------------------------------------------------------

    def on_submit(self, message: Submit) -> None:
        """Handle the text of a job at the agent closest to its id, or at its master."""
        manifest = message.manifest
        try:
            read_plan(manifest.text)
            read_seen(message.seen)
        except (QueryError, ProtocolError) as error:
            # the agent of the client has read the text, so the client is told which agent refuses it
            body = refusal_body([f"{self.context.name}: {error}"], text=manifest.text)
            respond(self.context, message.origin, message.token, CONFLICT, body)
            return
        job = manifest.job_id
        master = self.leadership.masters.get(job)
        if job in self._busy:
            asked = ((waiting.token, waiting.origin.id) for waiting in self._busy[job])
            if (message.token, message.origin.id) not in asked:
                self._busy[job].append(message)
        elif problem := not_for_readers(manifest, master) or runs_already(message, master):
            refuse(self.context, message.origin, message.token, CONFLICT, problem)
        elif master is not None:
            self._change(master, message)
        else:
            leader = self.leadership.leader(job)
            if leader is None or leader.id == self.context.me.id:
                if not self._creation.answers_again(message):
                    self._placement.submitted(message)
            elif message.hops < HOPS_MAX:
                self._pass_to(leader, message)
            else:
                refuse(self.context, message.origin, message.token, UNAVAILABLE, "the job has no master now")

    def _check(self, message: Submit) -> None:
        if message.update or not reads_jobs(message.manifest.text):
            self._creation.create(message)
        else:
            self._when_readable(message, self._creation.create)

    def _change(self, master: Master, message: Submit) -> None:
        same = message.manifest.text.strip() == master.term.manifest.text.strip()
        if (
            same
            or master.term.stopping
            or master.term.rollouts.running
            or not reads_jobs(message.manifest.text)
        ):
            self.parts.versions.submitted(master, message)
            return

        def go_on(message: Submit) -> None:
            if leads := self.leadership.masters.get(message.manifest.job_id):
                self.parts.versions.submitted(leads, message)
            else:
                self.on_submit(message)

        self._when_readable(message, go_on)

    def _when_readable(self, message: Submit, then: Callable[[Submit], None]) -> None:
        job = message.manifest.job_id
        self._busy[job] = [message]

        def checked(problem: Problem | None) -> None:
            first, *others = self._busy.pop(job)
            if problem is None:
                then(first)
            else:
                respond(self.context, first.origin, first.token, *problem)
            for waiting in others:
                self.on_submit(waiting)

        check_reads(self.context, message.manifest, checked)

    def _pass_to(self, leader: Contact, message: Submit | Ask) -> None:
        """Forward a request to the master of the job, and lead the job if that agent is dead.

        The root of the tree of a job detects a dead master, but a job that has ended has no tree. An agent
        that has missed the end would forward every request for a new job to a master that has left.
        """
        passed = replace(message, hops=message.hops + 1)
        self.context.send(leader, passed)
        terms, _ = self.leadership.known(_job_of(message))
        if terms is not None and self._is_only_passed_on(terms):
            self.context.probe(terms.master, lambda done: self._probed(passed, terms, done), others=True)

    @safeguard("reached-through-others")
    def _probed(self, passed: Submit | Ask, terms: Terms, done: ProbeDone | None) -> None:
        """Lead the job if its master is dead; ask the voters to forward the request if only a link is cut."""
        if done is None or not self._is_only_passed_on(terms):
            return
        if not done.alive:
            self.leadership.take_over(terms)
        elif done.others and passed.hops < HOPS_MAX:
            for voter in terms.acceptors:
                if voter.id not in (self.context.me.id, terms.master.id):
                    self.context.send(voter, passed)

    def _is_only_passed_on(self, terms: Terms) -> bool:
        job, leader = terms.manifest.job_id, self.leadership.leader(terms.manifest.job_id)
        known = leader is not None and leader.id == terms.master.id != self.context.me.id
        return known and job not in self.context.roots and not self.leadership.leads(job)

    def _again(self, message: Submit | Ask) -> None:
        if isinstance(message, Submit):
            self.on_submit(message)
        else:
            self.on_ask(message)

    # -- one job ---------------------------------------------------------------------------------------

    def on_ask(self, ask: Ask) -> None:
        master = self.leadership.masters.get(ask.job)
        if ask.verb == CANDIDATE:
            self._placement.asked(ask)
            return
        try:
            body = decode_body(ask.body)
            tag = str(body.get("seen") or "") if changes(ask) else ""
            read_seen(tag)
        except ProtocolError:
            self.context.stats["control.malformed"] += 1
            return
        if master is None:
            if not self.site_reads.answers(ask, body):
                self._pass_on(ask, tag)
            return
        handle = JOB_HANDLERS.get(ask.verb)
        if problem := refused_with_readers(master, ask.verb):
            respond(self.context, ask.origin, ask.token, *problem)
        elif handle is None:
            refuse(self.context, ask.origin, ask.token, NOT_FOUND, f"no verb {ask.verb!r}")
        elif (answer := handle(Asked(self.parts, master, ask, body, tag))) is not None:
            respond(self.context, ask.origin, ask.token, OK, answer)

    def _pass_on(self, ask: Ask, tag: str) -> None:
        leader, seen = self.leadership.leader(ask.job), read_seen(tag)
        over = self.leadership.over(ask.job)
        if ask.verb == "delete" and seen is not None and seen.version and seen.incarnation == over:
            respond(self.context, ask.origin, ask.token, OK, Deleted())
        elif ask.job in self._busy:
            text = "the job is changing its version; ask again"
            refuse(self.context, ask.origin, ask.token, UNAVAILABLE, text)
        elif leader is not None and leader.id != self.context.me.id and ask.hops < HOPS_MAX:
            self._pass_to(leader, ask)
        elif seen is not None and leader is None and over:
            outdated(self.context, ask, Seen(ask.job, over))
        elif ask.verb == "delete" and self.leadership.was_deleted(ask.job):
            respond(self.context, ask.origin, ask.token, OK, Deleted(earlier=True))
        elif leader is not None or seen is not None:
            self.leadership.without_master(ask.job)
            refuse(self.context, ask.origin, ask.token, UNAVAILABLE, NO_MASTER)
        else:
            no_such_job(self.context, ask.origin, ask.token, "there is no such job", ended=over)

    # -- all agents ------------------------------------------------------------------------------------

    def on_ask_all(self, message: AskAll, tries: int = ROOT_TRIES) -> None:
        """Multicast a request for all agents, at the root of the tree of all agents."""
        if ids.ALL_AGENTS not in self.context.roots:
            if tries:
                self.context.after(ROOT_AGAIN_S, lambda: self.on_ask_all(message, tries - 1))
            else:
                text = "this part of the overlay is not ready"
                refuse(self.context, message.origin, message.token, UNAVAILABLE, text)
            return

        def done(outcome: PublishDone | None) -> None:
            if outcome is not None:
                self._gathered(message, outcome)

        self.context.publish(ids.ALL_AGENTS, Question(message.verb, message.body), QUESTION_S, done)

    def _gathered(self, message: AskAll, done: PublishDone) -> None:
        lines, size = [], 0
        for _, body in sorted(done.answers):
            size += len(body) + 1
            if body and b"\n" not in body and size < DATA_FRAME_BYTES_MAX - (64 << 10):
                lines.append(body)
        counts = {"answered": len(done.answers), "expected": max(done.expected, len(done.answers))}
        respond(self.context, message.origin, message.token, OK, {"asked": counts}, b"\n".join(lines))

    def on_question(self, message: Question) -> bytes:
        """Return the rows of this agent for an answer of all agents."""
        try:
            body = decode_body(message.body)
        except ProtocolError:
            self.context.stats["control.malformed"] += 1
            return encode_json({"items": []})
        handle = ALL_HANDLERS.get(message.verb)
        items = [] if handle is None else handle(self.parts, body)
        while items and len(encode_json({"items": items})) > ANSWER_BYTES_MAX:
            items = items[: len(items) // 2]
        return encode_json({"items": items})


def _job_of(message: Submit | Ask) -> bytes:
    return message.job if isinstance(message, Ask) else message.manifest.job_id
