"""How a job begins: as a new one, or again with a new numbering of its results.

Owns the step from a request to a job that the control register knows, and the answer to the client. A change
that keeps the numbering is `asks_versions`'; where a new job lives is `placement`'s.

Invariants: one request about a job is under way at a time, and those that arrive meanwhile are taken again
when it is through; a request that has begun a job begins none a second time (D-16).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from elfmesh.control.answers import (
    CONFLICT,
    NEW_MASTER,
    NO_MASTER,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    refuse,
    respond,
)
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.manifest import Manifest, updated
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Numbering
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import HOPS_MAX, Submit
from elfmesh.control.register.outcome import Lost
from elfmesh.control.requests.version_handler import dry_run_fields
from elfmesh.machine import Contact

RESET_S = 1.0
"""Between the end of a job's trees and the beginning of its next version: inner agents forget the old one."""

LEAD_AGAIN_S = 1.0
"""When a job is sought again that this agent should lead and does not lead yet."""


class Creation:
    """Begins jobs at this agent.

    Args:
        context: clock and way out.
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
        self._context, self._leadership, self._busy, self._once = context, leadership, busy, context.once
        self._pass_on, self._again = pass_on, again

    def create(self, message: Submit) -> None:
        """A job that is not led here shall begin."""
        if message.update and self._leadership.leader(message.manifest.job_id) is not None:
            refuse(self._context, message.origin, message.token, UNAVAILABLE, NO_MASTER)  # it is known here
        elif message.update:
            text = f"there is no such job: {message.manifest.qualified}"
            refuse(self._context, message.origin, message.token, NOT_FOUND, text)
        elif message.dry_run:
            self._would_create(message)
        elif self._once.of(message.origin, message.token) is not None:
            refuse(
                self._context,
                message.origin,
                message.token,
                CONFLICT,
                "this text was already applied and is no longer active",
            )
        else:
            self._once.made(message.origin, message.token, message.manifest.incarnation)
            self._busy[message.manifest.job_id] = [message]
            self._begin(message.manifest, message.start, "new")

    def _begin(self, manifest: Manifest, start: int, state: str, earlier: tuple[Numbering, ...] = ()) -> None:
        def begun(outcome: Master | Lost) -> None:
            first, *others = self._busy.pop(manifest.job_id)
            if isinstance(outcome, Master):
                outcome.on_refused = lambda: self._leadership.ended(outcome)
                outcome.activation.applied(first.origin, first.token, state)
            else:
                self._not_begun(first, outcome)
            for waiting in others:  # what arrived meanwhile may say something else again
                self._again(waiting)

        self._leadership.begin(manifest, begun, start, earlier)

    def _not_begun(self, message: Submit, lost: Lost) -> None:
        self._once.undone(message.origin, message.token)
        leader = None if lost.cell is None or lost.cell.value.deleted else lost.cell.value.master
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
        manifest = updated(master.manifest, message.manifest)
        frontier = master.closer.frontier
        plan = read_plan(manifest.text)
        start = FIRST if frontier is None else plan.first_after((frontier + 1) * master.plan.slide_us)
        self._once.made(message.origin, message.token, manifest.incarnation)
        self._busy[master.job] = [message]

        def ended(over: bool) -> None:
            if over:
                self._leadership.ended(master)
                earlier = master.terms.numberings(master.copy.first, master.copy.latest)
                self._context.after(RESET_S, lambda: self._begin(manifest, start, "reset", earlier))
            else:
                self._once.undone(message.origin, message.token)
                for waiting in self._busy.pop(master.job):
                    refuse(self._context, waiting.origin, waiting.token, UNAVAILABLE, NEW_MASTER)

        master.end(ended, retire=True)

    def _would_create(self, message: Submit) -> None:
        body = {
            "job": message.manifest.qualified,
            "version": message.manifest.version,
            "effective_interval": 0,
            "acknowledged": 0,
            "expected": 0,
            "state": "new",
        }
        respond(self._context, message.origin, message.token, OK, body | dry_run_fields())
