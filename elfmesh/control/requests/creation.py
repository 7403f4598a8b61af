"""How a job begins: as a new one, or again with a new numbering of its results.

Owns the step from a request to a job that the control register knows, and the answer to the client. A change
that keeps the numbering is `version_handler`'s; where a new job lives is `placement`'s.

Invariants: one request about a job is under way at a time, and those that arrive meanwhile are taken again
when it is through; a request begins a job only if the last job of that name is the one whose end its client
has seen (D-16), which the control register compares. A copy of a request that only looks gets the same answer
for some seconds, because another search would delay the request that names this answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from elfmesh.control.answers import (
    NEW_MASTER,
    NO_MASTER,
    OK,
    UNAVAILABLE,
    no_such_job,
    refuse,
    respond,
)
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.manifest import Manifest, updated
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.jobs.terms import Numbering
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import HOPS_MAX, Submit
from elfmesh.control.protocol.replies_changes import Applied
from elfmesh.control.register.changes import Create, Look
from elfmesh.control.register.outcome import Lost
from elfmesh.control.requests.precondition import LOOK, Seen, answer_seen, outdated, read_seen
from elfmesh.control.requests.version_handler import DRY_RUN
from elfmesh.machine import Contact

RESET_S = 1.0
"""Between the end of a job's trees and the beginning of its next version: inner agents forget the old one."""

LEAD_AGAIN_S = 1.0
"""When a job is sought again that this agent should lead and does not lead yet."""

ANSWERED_S = 5.0
ANSWERED_MAX = 256
"""For how long, and of how many requests that look, the answer is kept."""


class Creation:
    """Begins jobs at this agent.

    Args:
        leadership: who leads what.
        busy: requests that wait for something, by job; shared with `RequestHandler`.
        pass_on: passes a request on to the agent that leads its job.
        again: takes a request that had to wait.
    """

    def __init__(
        self,
        context: Context,
        leadership: Leadership,
        busy: dict[bytes, list[Submit]],
        pass_on: Callable[[Contact, Submit], None],
        again: Callable[[Submit], None],
    ) -> None:
        self._context, self._leadership, self._busy = context, leadership, busy
        self._pass_on, self._again = pass_on, again
        self._answered: OrderedDict[tuple[bytes, int], Seen] = OrderedDict()

    def answers_again(self, message: Submit) -> bool:
        """Answer a copy of a request that has looked a moment ago; return whether it was one."""
        seen = self._answered.get((message.origin.id, message.token))
        if seen is None or message.seen != LOOK:
            return False
        answer_seen(self._context, message, seen)
        return True

    def _keep_answer(self, request: tuple[bytes, int], seen: Seen) -> None:
        def forget() -> None:
            self._answered.pop(request, None)

        self._answered[request] = seen
        self._context.after(ANSWERED_S, forget)
        if len(self._answered) > ANSWERED_MAX:
            self._answered.popitem(last=False)

    def create(self, message: Submit) -> None:
        """A job that is not led here shall begin."""
        job = message.manifest.job_id
        seen = read_seen(message.seen)
        if message.update and self._leadership.leader(job) is not None:
            refuse(self._context, message.origin, message.token, UNAVAILABLE, NO_MASTER)  # it is known here
        elif seen is not None and (seen.job != job or message.update):
            outdated(self._context, message, Seen(job, self._leadership.over(job)))
        elif message.update:
            text = f"there is no such job: {message.manifest.qualified}"
            ended = self._leadership.over(job)
            no_such_job(self._context, message.origin, message.token, text, ended=ended)
        elif message.dry_run:
            self._would_create(message)
        else:
            self._busy[job] = [message]
            over = None if seen is None else seen.incarnation
            kind = Look if message.seen == LOOK else partial(Create, seen=over)
            self._begin(message.manifest, message.start, "new", kind)

    def _begin(
        self,
        manifest: Manifest,
        start: int,
        state: str,
        kind: Callable[[RegisterValue], Create],
        earlier: tuple[Numbering, ...] = (),
    ) -> None:
        def begun(outcome: Master | Lost) -> None:
            first, *others = self._busy.pop(manifest.job_id)
            if isinstance(outcome, Master):
                outcome.term.activation.applied(first.origin, first.token, state)
            else:
                self._not_begun(first, outcome)
            for waiting in others:  # what arrived meanwhile may say something else again
                self._again(waiting)

        self._leadership.begin(manifest, begun, start, earlier, kind)

    def _not_begun(self, message: Submit, lost: Lost) -> None:
        found = None if lost.cell is None else lost.cell.value
        leader = None if found is None or found.deleted else found.master
        if message.seen == LOOK and leader is None and not lost.open:
            over = "" if found is None else found.incarnation
            seen = Seen(message.manifest.job_id, over)
            self._keep_answer((message.origin.id, message.token), seen)
            answer_seen(self._context, message, seen)
            return
        if leader is None or message.hops >= HOPS_MAX:
            refuse(self._context, message.origin, message.token, UNAVAILABLE, lost.reason)
            return
        if leader.id != self._context.me.id:
            self._pass_on(leader, message)
        else:
            passed_on = replace(message, hops=message.hops + 1)
            self._context.after(LEAD_AGAIN_S, lambda: self._again(passed_on))

    def reset(self, master: Master, message: Submit) -> None:
        """Another text: the old version ends, the new one begins with the next interval, state again."""
        manifest = updated(master.term.manifest, message.manifest)
        frontier = master.term.collection.frontier
        plan = read_plan(manifest.text)
        start = FIRST if frontier is None else plan.first_after((frontier + 1) * master.term.plan.slide_us)
        self._busy[master.job] = [message]

        def ended(over: bool) -> None:
            if over:
                self._leadership.ended(master)
                earlier = master.term.terms.numberings(master.copy.first, master.copy.latest)
                kind = partial(Create, seen=master.term.manifest.incarnation)
                self._context.after(RESET_S, lambda: self._begin(manifest, start, "reset", kind, earlier))
            else:
                for waiting in self._busy.pop(master.job):
                    refuse(self._context, waiting.origin, waiting.token, UNAVAILABLE, NEW_MASTER)

        master.term.end(ended, retire=True)

    def _would_create(self, message: Submit) -> None:
        body = Applied(message.manifest.qualified, message.manifest.version, 0, 0, 0, "new", **DRY_RUN)
        respond(self._context, message.origin, message.token, OK, body)
