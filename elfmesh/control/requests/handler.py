"""Clients' questions where they are answered: at a job's master, or by every agent.

Owns the verbs. What a verb does to a job is the master's business; who the master is, leadership's; how a job
begins, `creation`'s.

Invariant: every question that arrives is answered, passed on to the master, or refused; it is passed on at
most `HOPS_MAX` times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import (
    BAD_REQUEST,
    CONFLICT,
    NEW_MASTER,
    NO_MASTER,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    decode_body,
    refuse,
    respond,
)
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.plan import read_plan, reads_jobs
from elfmesh.control.jobs.records import encode_json
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.activation import summary
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.messages import HOPS_MAX, Ask, AskAll, Question, Submit
from elfmesh.control.requests.creation import Creation
from elfmesh.control.requests.dead_agents import DeadAgents
from elfmesh.control.requests.dependency_check import (
    Problem,
    check_reads,
    not_for_readers,
    refused_with_readers,
)
from elfmesh.control.requests.describe import agent_row, description, job_row, stream_row
from elfmesh.control.requests.no_majority import NoMajority
from elfmesh.control.requests.placement import VERB as CANDIDATE
from elfmesh.control.requests.placement import Placement
from elfmesh.control.requests.precondition import Seen, admits, outdated, read_seen
from elfmesh.control.requests.version_handler import (
    VERBS,
    VersionHandler,
    changes,
    runs_already,
)
from elfmesh.control.requests.why import explanation
from elfmesh.errors import ProtocolError, QueryError
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.overlay.events import ProbeDone
from elfmesh.srt.events import PublishDone

QUESTION_S = 2.0
"""How long all agents have to answer."""

ROOT_TRIES = 10
ROOT_AGAIN_S = 0.2
"""A young overlay may not have the tree of all agents yet."""

ANSWER_BYTES_MAX = 64 << 10
"""One agent's share of an answer of all."""


class RequestHandler:
    """Answers questions that reached this agent.

    Args:
        context: clock and way out.
        leadership: who leads what.
        member_host: what this agent carries.
        dead: the agents that it has lost sight of.
    """

    def __init__(
        self, context: Context, leadership: Leadership, member_host: MemberHost, dead: DeadAgents
    ) -> None:
        self._context, self._leadership, self._member_host, self.dead = context, leadership, member_host, dead
        self._busy: dict[bytes, list[Submit]] = {}
        self._creation = Creation(context, leadership, self._busy, self._pass_to, self.submit)
        self._versions = VersionHandler(context, self._creation.reset, self._again)
        self.no_majority = NoMajority(context, leadership)
        self._placement = Placement(context, leadership, self._busy, self._check, self.submit)

    # -- apply -----------------------------------------------------------------------------------------

    def submit(self, message: Submit) -> None:
        """A job arrived at the agent closest to its id, or at its master."""
        manifest = message.manifest
        try:
            read_plan(manifest.text)
            read_seen(message.seen)
        except (QueryError, ProtocolError) as error:
            refuse(self._context, message.origin, message.token, CONFLICT, str(error))
            return
        job = manifest.job_id
        master = self._leadership.masters.get(job)
        if job in self._busy:
            asked = ((waiting.token, waiting.origin.id) for waiting in self._busy[job])
            if (message.token, message.origin.id) not in asked:
                self._busy[job].append(message)
        elif problem := not_for_readers(manifest, master) or runs_already(message, master):
            refuse(self._context, message.origin, message.token, CONFLICT, problem)
        elif master is not None:
            self._change(master, message)
        else:
            leader = self._leadership.leader(job)
            if leader is None or leader.id == self._context.me.id:
                self._placement.submitted(message)
            elif message.hops < HOPS_MAX:
                self._pass_to(leader, message)
            else:
                refuse(self._context, message.origin, message.token, UNAVAILABLE, "the job has no master now")

    def _check(self, message: Submit) -> None:
        if message.update or not reads_jobs(message.manifest.text):
            self._creation.create(message)
        else:
            self._when_readable(message, self._creation.create)

    def _change(self, master: Master, message: Submit) -> None:
        same = message.manifest.text.strip() == master.manifest.text.strip()
        if same or master.stopping or master.rollouts.running or not reads_jobs(message.manifest.text):
            self._versions.submitted(master, message)
            return

        def go_on(message: Submit) -> None:
            if leads := self._leadership.masters.get(message.manifest.job_id):
                self._versions.submitted(leads, message)
            else:
                self.submit(message)

        self._when_readable(message, go_on)

    def _when_readable(self, message: Submit, then: Callable[[Submit], None]) -> None:
        job = message.manifest.job_id
        self._busy[job] = [message]

        def checked(problem: Problem | None) -> None:
            first, *others = self._busy.pop(job)
            if problem is None:
                then(first)
            else:
                respond(self._context, first.origin, first.token, *problem)
            for waiting in others:
                self.submit(waiting)

        check_reads(self._context, message.manifest, checked)

    def _pass_to(self, leader: Contact, message: Submit | Ask) -> None:
        """Pass a request on to the job's master, and lead the job if that agent is dead.

        The root of a job's tree looks after its master, but a job that is over has no tree. An agent that has
        missed the end would pass on every request for a new job to a master that has left.
        """
        self._context.send(leader, replace(message, hops=message.hops + 1))
        terms, _ = self._leadership.known(_job_of(message))
        if terms is not None and self._is_only_passed_on(terms):
            self._context.probe(terms.master, lambda done: self._probed(terms, done))

    def _probed(self, terms: Terms, done: ProbeDone | None) -> None:
        if done is not None and not done.alive and self._is_only_passed_on(terms):
            self._leadership.take_over(terms)

    def _is_only_passed_on(self, terms: Terms) -> bool:
        job, leader = terms.manifest.job_id, self._leadership.leader(terms.manifest.job_id)
        known = leader is not None and leader.id == terms.master.id != self._context.me.id
        return known and job not in self._context.roots and not self._leadership.leads(job)

    def _again(self, message: Submit | Ask) -> None:
        if isinstance(message, Submit):
            self.submit(message)
        else:
            self.ask(message)

    # -- one job ---------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> None:
        master = self._leadership.masters.get(ask.job)
        if ask.verb == CANDIDATE:
            self._placement.asked(ask)
            return
        try:
            body = decode_body(ask.body)
            tag = str(body.get("seen") or "") if changes(ask) else ""
            read_seen(tag)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        if master is None:
            self._pass_on(ask, tag)
            return
        if problem := refused_with_readers(master, ask.verb):
            respond(self._context, ask.origin, ask.token, *problem)
        elif ask.verb in ("results", "feed", "readable", "offsets", "schema"):
            master.result_service.ask(ask, body)
        elif ask.verb == "rows":
            master.result_service.ask_page(ask, body)
        elif ask.verb == "describe":
            respond(self._context, ask.origin, ask.token, OK, description(self._context, master))
        elif ask.verb in VERBS:
            self._versions.asked(master, ask, tag)
        elif ask.verb == "verify":
            self._verify(master, ask, body)
        elif ask.verb == "why":
            respond(self._context, ask.origin, ask.token, OK, explanation(self._context, master))
        elif ask.verb in ("pause", "resume"):
            self._versions.pause(master, ask, tag)
        elif ask.verb == "delete":
            self._delete(master, ask, tag)
        else:
            refuse(self._context, ask.origin, ask.token, NOT_FOUND, f"no verb {ask.verb!r}")

    def _verify(self, master: Master, ask: Ask, body: dict[str, Any]) -> None:
        interval = body.get("interval")
        if not isinstance(interval, int) or isinstance(interval, bool):
            refuse(
                self._context, ask.origin, ask.token, BAD_REQUEST, "verify needs the number of an interval"
            )
            return
        if body.get("again"):
            master.verifier.again(interval)
        respond(self._context, ask.origin, ask.token, OK, master.verifier.status(interval))

    def _delete(self, master: Master, ask: Ask, tag: str) -> None:
        if not admits(self._context, ask, tag, master.terms, "incarnation"):
            return

        def ended(over: bool) -> None:
            if not over:
                refuse(self._context, ask.origin, ask.token, UNAVAILABLE, NEW_MASTER)
                return
            self._leadership.ended(master)
            body = summary(master.terms, master.book, "deleted")
            stopped = body["acknowledged"] = master.ending.stopped
            body["expected"] = max(body["expected"], stopped)  # who leaves is told too, and expected no more
            respond(self._context, ask.origin, ask.token, OK, body)

        master.end(ended)

    def _pass_on(self, ask: Ask, tag: str) -> None:
        leader, seen = self._leadership.leader(ask.job), read_seen(tag)
        over = self._leadership.over(ask.job)
        if ask.verb == "delete" and seen is not None and seen.version and seen.incarnation == over:
            respond(self._context, ask.origin, ask.token, OK, {"state": "deleted"})
        elif ask.job in self._busy:
            text = "the job is changing its version; ask again"
            refuse(self._context, ask.origin, ask.token, UNAVAILABLE, text)
        elif leader is not None and leader.id != self._context.me.id and ask.hops < HOPS_MAX:
            self._pass_to(leader, ask)
        elif seen is not None and leader is None and over:
            outdated(self._context, ask, Seen(ask.job, over))
        elif ask.verb == "delete" and self._leadership.was_deleted(ask.job):
            respond(self._context, ask.origin, ask.token, OK, {"state": "deleted", "earlier": True})
        elif leader is not None or seen is not None:
            refuse(self._context, ask.origin, ask.token, UNAVAILABLE, NO_MASTER)
        else:
            refuse(self._context, ask.origin, ask.token, NOT_FOUND, "there is no such job")

    # -- all agents ------------------------------------------------------------------------------------

    def ask_all(self, message: AskAll, tries: int = ROOT_TRIES) -> None:
        """A question for everybody arrived at the rendezvous of all."""
        if ids.ALL_AGENTS not in self._context.roots:
            if tries:
                self._context.after(ROOT_AGAIN_S, lambda: self.ask_all(message, tries - 1))
            else:
                text = "this part of the overlay is not ready"
                refuse(self._context, message.origin, message.token, UNAVAILABLE, text)
            return

        def done(outcome: PublishDone | None) -> None:
            if outcome is not None:
                self._gathered(message, outcome)

        self._context.publish(ids.ALL_AGENTS, Question(message.verb, message.body), QUESTION_S, done)

    def _gathered(self, message: AskAll, done: PublishDone) -> None:
        lines, size = [], 0
        for _, body in sorted(done.answers):
            size += len(body) + 1
            if body and b"\n" not in body and size < DATA_FRAME_BYTES_MAX - (64 << 10):
                lines.append(body)
        counts = {"answered": len(done.answers), "expected": max(done.expected, len(done.answers))}
        respond(self._context, message.origin, message.token, OK, {"asked": counts}, b"\n".join(lines))

    def question(self, message: Question) -> bytes:
        """This agent's share of the answer of all."""
        items: list[dict[str, Any]] = []
        masters = self._leadership.masters.values()
        if message.verb in ("list", "whose"):
            wanted = self._named(message, "job") if message.verb == "whose" else None
            items = [job_row(self._context, master) for master in masters] + self.no_majority.rows()
            items = [row for row in items if wanted in (None, row["job"])]
        elif message.verb == "agents":
            leads = [master.manifest.qualified for master in masters]
            items = [agent_row(self._context, self._member_host, leads), *self.dead.rows()]
        elif message.verb == "streams":
            items = [stream_row(self._context, stream) for stream in self._member_host.streams.values()]
        elif message.verb == "trees":
            names = {master.job.hex(): master.manifest.qualified for master in masters}
            trees, only = self._context.facts("trees").get("items", []), self._named(message, "tree")
            items = [
                {"agent": self._context.name, **tree, "job": names.get(tree.get("tree", ""), "")}
                for tree in trees
                if only in (None, tree.get("tree"))
            ]
        while items and len(encode_json({"items": items})) > ANSWER_BYTES_MAX:
            items = items[: len(items) // 2]
        return encode_json({"items": items})

    def _named(self, message: Question, key: str) -> str | None:
        """What a question is narrowed to, None if to nothing."""
        try:
            name = decode_body(message.body).get(key)
        except ProtocolError:
            return ""
        return name if isinstance(name, str) else None


def _job_of(message: Submit | Ask) -> bytes:
    return message.job if isinstance(message, Ask) else message.manifest.job_id
