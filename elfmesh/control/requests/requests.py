"""The requests of clients at the agent to which they are connected.

The module owns the open requests of this agent. It routes each request to the agents that answer its verb.

Invariants: every request gets exactly one reply, at the latest at its time limit. The agent repeats a lost
request under the same token. If a client changes a job without the version that it has seen, the agent first
asks for the version, and then sends the change under another token (`precondition`).

Paper: ELF 2.4 (coordination of jobs by routing to the other job's master).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import (
    AGAIN,
    BAD_REQUEST,
    ENDED,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    Body,
    decode_body,
    error_body,
    read_answer,
    respond,
    seconds,
)
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import CREATOR, split_name
from elfmesh.control.master.result_service import WAIT_S_MAX
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.events import ClientRequest, Left, Reply
from elfmesh.control.protocol.messages import Answered, Ask, AskAll, Submit
from elfmesh.control.protocol.replies_agents import (
    AgentDetails,
    DeadAgentRow,
    LeavingAgent,
    LeavingJob,
    VotesReport,
)
from elfmesh.control.requests.combined import combine
from elfmesh.control.requests.job_question import JobQuestion
from elfmesh.control.requests.job_search import JobSearch, Take
from elfmesh.control.requests.precondition import LOOK, REFUSED, read_seen
from elfmesh.control.requests.submission import read_submission
from elfmesh.control.requests.verbs import VERBS, Scope
from elfmesh.control.requests.voting import health
from elfmesh.errors import ProtocolError
from elfmesh.ql.values.row_json import encode_json
from elfmesh.srt.residency import ANYWHERE, together

WAITS = "waits"
"""Verb of masters of wire version 1, which ask whether the client still waits before they change a job."""

REQUEST_S = 10.0
LOADING_S = 10.0
"""Additional time for a change: a busy host needs seconds to load the engine, and the reply waits for the
last acknowledgement, at most `activation.APPLY_S`."""

ASK_AGAIN_S = 0.5
"""Time after which the agent repeats a request without an answer. An answer is one frame without
acknowledgement, and the master may die before it is sent."""

ASK_AGAIN_MAX_S = 2.5
"""Maximum of this time, which doubles with each repetition. A request to all agents, which have two seconds
to answer, is repeated after this time."""

LEAVE_WAIT_S = 3600.0
"""Maximum time that a request to leave stays open, because an agent leaves at the end of intervals."""

OPEN_MAX = 1024
"""Maximum number of open requests of one agent; further ones are refused."""


@dataclass(slots=True)
class _Open:
    """A request without an answer.

    Attributes:
        send: sends the request with the version that was `seen`.
        answered: takes the answer.
        question: where it goes, if it is about one job.
        looks: the client does not name the version that it has seen.
        patient: the client gets a `refusal` because the job has no master only if that lasts.
    """

    client: int
    send: Callable[[int, str], None]
    answered: Take
    token: int
    over: Timer
    again_s: float
    patient: bool = False
    question: JobQuestion | None = None
    again: Timer | None = None
    seen: str = LOOK
    looks: bool = True
    refusal: dict[str, Any] | None = None


class Requests:
    """The open requests of this agent's clients.

    Args:
        member_host: the members on this agent, which may have to leave.
    """

    def __init__(self, context: Context, member_host: MemberHost) -> None:
        self._context, self._member_host = context, member_host
        self._open: dict[int, _Open] = {}
        self._search = JobSearch(context, self._ask_all, self._reply)
        self.voting: Callable[[], VotesReport] = lambda: VotesReport(None, [])
        self.broken: Callable[[], str] = str
        self.dead: Callable[[], list[DeadAgentRow]] = list
        """Returns the dead agents that this agent knows."""

    def request(self, event: ClientRequest) -> None:
        if len(self._open) >= OPEN_MAX:
            self._reply(event.token, UNAVAILABLE, error_body("too many requests at once", code=69))
        elif event.verb == "apply":
            self._apply(event)
        elif event.verb not in VERBS:
            self._reply(event.token, BAD_REQUEST, error_body(f"no verb {event.verb!r}", code=2))
        elif VERBS[event.verb].scope is Scope.JOB:
            self._about_job(event)
        elif VERBS[event.verb].scope is Scope.ALL:
            self._ask_all(event.token, event.verb, event.body)
        elif event.verb == "leave":
            self._leave(event)
        elif event.verb == "agent":
            self._reply(event.token, OK, AgentDetails(**self._context.facts("agent")))
        else:
            self._reply(event.token, OK, health(self._context, self.voting(), self.dead(), self.broken()))

    def gone(self, client: int) -> None:
        """Drop the request of a client that does not wait any more, unless it changes a job."""
        for waiting in [each for each in self._open.values() if each.client == client and each.patient]:
            del self._open[waiting.token]
            waiting.over.cancel()
            if waiting.again is not None:
                waiting.again.cancel()
            if waiting.question is not None:
                waiting.question.hung_up(waiting.token)

    def on_answered(self, message: Answered, payload: bytes) -> None:
        """Handle an answer; late and repeated ones are ignored."""
        waiting = self._open.get(message.token)
        if waiting is None:
            return
        body, data = self._read(message, payload)
        if waiting.patient and message.status == UNAVAILABLE:
            waiting.refusal = body
            return
        del self._open[message.token]
        if waiting.again is not None:
            waiting.again.cancel()
        if waiting.question is not None:
            waiting.question.answered(message.token)
        refused = waiting.looks and body is not None and body.get("outcome") == REFUSED
        if message.status == AGAIN or refused:
            waiting.token = self._context.token()
            waiting.seen = str((body or {}).get("seen") or waiting.seen)
            self._open[waiting.token] = waiting
            self._send(waiting)
            return
        waiting.over.cancel()
        if body is None:
            self._reply(waiting.client, UNAVAILABLE, error_body("the answer came damaged", code=69))
        else:
            waiting.answered(message.status, body, data)

    def _read(self, message: Answered, payload: bytes) -> tuple[dict[str, Any] | None, bytes]:
        try:
            return read_answer(message, payload)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return None, b""

    def on_waits(self, ask: Ask) -> None:
        """Answer a master of wire version 1 that asks whether a client of this agent still waits."""
        status, body = NOT_FOUND, {}
        try:
            asked = decode_body(ask.body)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        if asked.get("of") == self._context.me.id.hex():
            status, body = OK, {"waits": asked.get("token") in self._open}
        respond(self._context, ask.origin, ask.token, status, body)

    def _leave(self, event: ClientRequest) -> None:
        def left(jobs: int) -> None:
            over.cancel()
            if not notified:
                self._reply(event.token, OK, LeavingAgent(self._context.name, "left", jobs))
            self._context.emit(Left())

        def late() -> None:
            notified.append(True)
            found = {job: LeavingJob(job, False) for job in self._member_host.votes_on()}
            for each in self._member_host.members.values():
                job = each.manifest.qualified
                found[job] = LeavingJob(job, each.paused, each.hand_over.problem or UNSET)
            jobs = list(found.values())
            self._reply(event.token, OK, LeavingAgent(self._context.name, "leaving", len(jobs), jobs))

        notified: list[bool] = []
        wait = event.body.get("wait")
        wait_s = float(wait) if isinstance(wait, int | float) else LEAVE_WAIT_S
        over = self._context.after(min(max(0.0, wait_s), LEAVE_WAIT_S), late)  # in this order NaN is 0
        self._member_host.leave(left, event.body.get("now") is True)

    # -- verbs -----------------------------------------------------------------------------------------

    def _apply(self, event: ClientRequest) -> None:
        given = read_submission(event.body, event.wall_us)
        if isinstance(given, dict):
            self._reply(event.token, BAD_REQUEST, given)
            return
        manifest = replace(given.manifest, incarnation=f"{self._context.rng.getrandbits(64):016x}")
        if (seen := self._seen(event)) is None:
            return

        def send(token: int, seen: str) -> None:
            me, (_, first, dry_run, update) = self._context.me, given
            rule = together((self._context.policy.keep_in, event.body.get("keep_in") or ANYWHERE))
            about = manifest, me, token, dry_run, 0, update, first, seen
            message = Submit(*about, rule or msgspec.UNSET)
            self._context.route(manifest.job_id, message)

        def ask(_: bytes, then: Take) -> None:
            self._ask(event.token, send, LOADING_S, then, seen=seen)

        def at_placement(status: int, body: dict[str, Any], payload: bytes) -> None:
            if status == NOT_FOUND:  # an update
                ended = (body.pop(ENDED, ""),)
                self._search.find(
                    event.token, manifest.qualified, body, ask, ended=ended, only=manifest.job_id
                )
            else:
                self._reply(event.token, status, body, payload)

        ask(manifest.job_id, at_placement)

    def _seen(self, event: ClientRequest) -> str | None:
        """Return the version that a client has seen, `LOOK` if it names none, None if it is malformed."""
        given = event.body.get("seen")
        try:
            read_seen(given)
        except ProtocolError as error:
            hint = "Send what `elf describe` gives as `seen`."
            self._reply(event.token, BAD_REQUEST, error_body(str(error), hint=hint, code=2))
            return None
        return str(given) if given else LOOK

    def _about_job(self, event: ClientRequest) -> None:
        try:
            namespace, name = split_name(str(event.body.get("job") or ""))
        except ValueError as error:
            hint = "A job is named namespace/name, such as shop/top."
            self._reply(event.token, BAD_REQUEST, error_body(str(error), hint=hint, code=2))
            return
        creator = event.body.get("creator")
        owner = creator if isinstance(creator, str) and creator else CREATOR
        home, other = ids.job_placements(f"{namespace}/{name}", owner)
        try:
            wait = seconds(event.body.get("wait"), WAIT_S_MAX)
        except (TypeError, ValueError):
            self._reply(event.token, BAD_REQUEST, error_body("wait must be a number of seconds", code=2))
            return
        if VERBS[event.verb].acknowledged:
            wait += LOADING_S

        def at_home(status: int, body: dict[str, Any], payload: bytes) -> None:
            ended = (body.pop(ENDED, ""),)
            if status == NOT_FOUND or body.get("earlier"):
                earlier = body if status == OK else None
                then = partial(at_other, earlier, ended)
                self._ask_job(event, other, then, wait=wait)
            else:
                self._reply(event.token, status, body, payload)

        def at_other(
            earlier: dict[str, Any] | None,
            ended: tuple[object, ...],
            status: int,
            body: dict[str, Any],
            payload: bytes,
        ) -> None:
            ended = (*ended, body.pop(ENDED, ""))
            if status == NOT_FOUND:
                body = {**body, "error": f"{body.get('error')}: {namespace}/{name}"}
            if status == NOT_FOUND and earlier is not None:
                self._reply(event.token, OK, earlier)
            elif status == NOT_FOUND and not creator:
                again = partial(self._ask_job, event, wait=wait)
                self._search.find(event.token, f"{namespace}/{name}", body, again, ended=ended)
            else:
                self._reply(event.token, status, body, payload)

        seen = self._seen(event)
        if seen is not None and (tag := read_seen(seen)) is not None:
            self._ask_job(event, tag.job, wait=wait, seen=seen)
        elif seen is not None:
            self._ask_job(event, home, at_home, wait=wait)

    def _ask_job(
        self, event: ClientRequest, job: bytes, answered: Take | None = None, *, wait: float, seen: str = LOOK
    ) -> None:
        patient = VERBS[event.verb].patient
        question = JobQuestion(self._context, self._member_host.read_sites, event, job, wait)
        self._ask(event.token, question.send, wait, answered, patient=patient, seen=seen, question=question)

    def _ask_all(self, client: int, verb: str, body: dict[str, Any], answered: Take | None = None) -> None:
        def combined(status: int, summary: dict[str, Any], payload: bytes) -> None:
            whole = combine(verb, summary, payload, self._context.stats) if status == OK else summary
            self._reply(client, status, whole)

        def send(token: int, seen: str) -> None:
            message = AskAll(verb, encode_json(body), self._context.me, token)
            self._context.route(ids.ALL_AGENTS, message)

        self._ask(client, send, 0.0, answered or combined, ASK_AGAIN_MAX_S)

    # -- asking ----------------------------------------------------------------------------------------

    def _ask(
        self,
        client: int,
        send: Callable[[int, str], None],
        wait: float = 0.0,
        answered: Take | None = None,
        again_s: float = ASK_AGAIN_S,
        patient: bool = False,
        seen: str = LOOK,
        question: JobQuestion | None = None,
    ) -> None:
        token = self._context.token()
        over = self._context.after(REQUEST_S + wait, lambda: self._over(waiting))
        answered = answered or partial(self._reply, client)
        looks = seen == LOOK
        about = client, send, answered, token, over, again_s, patient, question
        waiting = _Open(*about, seen=seen, looks=looks)
        self._open[token] = waiting
        self._send(waiting)

    def _send(self, waiting: _Open) -> None:
        if self._open.get(waiting.token) is waiting:
            waiting.send(waiting.token, waiting.seen)
            waiting.again = self._context.after(waiting.again_s, lambda: self._send(waiting))
            waiting.again_s = min(2 * waiting.again_s, ASK_AGAIN_MAX_S)

    def _over(self, waiting: _Open) -> None:
        del self._open[waiting.token]
        if waiting.again is not None:
            waiting.again.cancel()
        text, hint = "the agent that should answer does not", "It may have just failed; ask again."
        body = waiting.refusal or error_body(text, hint=hint, code=69)
        self._reply(waiting.client, UNAVAILABLE, body)

    def _reply(self, client: int, status: int, body: Body, payload: bytes = b"") -> None:
        given: dict[str, Any] = body if isinstance(body, dict) else msgspec.to_builtins(body)
        self._context.emit(Reply(client, status, given, payload))
