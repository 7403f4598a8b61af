"""Jobs that no agent can lead, because no majority of their voters answers.

The root of the tree of such a job answers the requests of clients, because it knows the terms of the job and
repeatedly asks the voters. It returns results from a copy. The module decides nothing about the job.

Invariant: only the master answers for a job that has one. An answer from here describes an attempt to lead
that is open or has ended a moment ago.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.control.answers import OK, UNAVAILABLE, decode_body, error_body, respond
from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.context import Context
from elfmesh.control.election.election import Attempt
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.result_service import ResultService
from elfmesh.control.protocol.messages import Ask, Submit
from elfmesh.control.protocol.replies import JobRow, Why
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.requests.describe import NO_MAJORITY, row_of
from elfmesh.control.requests.recovery import VERB, Recoveries
from elfmesh.control.requests.voting import without_majority
from elfmesh.control.upstream.downstream_feed import DownstreamFeed
from elfmesh.errors import ProtocolError, QueryError
from elfmesh.ql.values.row_json import encode_json

COPY = "copy"
"""Field of a request: the agent answers from its own copy, whichever agent leads."""

COPY_VERBS = ("results", "rows", "offsets", "schema")
HOPS_MAX = 3


class NoMajority:
    """Answers requests about jobs without a majority.

    Args:
        leadership: the attempts to lead, and the copies of results logs.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership
        self._recoveries = Recoveries(context, leadership)

    def rows(self) -> list[JobRow]:
        return [self._row(attempt) for attempt in without_majority(self._context, self._leadership).values()]

    def answered(self, message: Ask | Submit) -> bool:
        """Answer a request about such a job; False if another agent must answer."""
        if isinstance(message, Ask) and message.verb == VERB:
            return self._recoveries.asked(message)
        if isinstance(message, Ask) and self._from_copy(message):
            return True
        job = message.job if isinstance(message, Ask) else message.manifest.job_id
        attempt = without_majority(self._context, self._leadership).get(job)
        if attempt is None:
            return False
        if isinstance(message, Ask) and message.verb == "why":
            respond(self._context, message.origin, message.token, OK, self._why(attempt))
        elif not (
            isinstance(message, Ask) and message.verb in COPY_VERBS and self._pass_on(message, attempt)
        ):
            body = error_body(self._because(attempt), hint=HINT, code=69)
            respond(self._context, message.origin, message.token, UNAVAILABLE, body)
        return True

    # -- results -----------------------------------------------------------------------------------------

    def _pass_on(self, ask: Ask, attempt: Attempt) -> bool:
        terms, copy = self._leadership.held(ask.job)
        own = -1 if copy is None or copy.latest is None else copy.latest
        reports = [each for each in attempt.proposer.reports.values() if attempt.answers(each.contact)]
        others = [each for each in reports if each.latest is not None and each.latest > own]
        best = max(others, key=lambda each: (each.latest or 0, each.contact.id), default=None)
        if best is not None and best.contact.id != self._context.me.id and ask.hops < HOPS_MAX:
            try:
                body = encode_json(decode_body(ask.body) | {COPY: True})
            except ProtocolError:
                return False
            self._context.send(best.contact, replace(ask, body=body, hops=ask.hops + 1))
            return True
        return copy is not None and terms is not None and self._serve(ask, terms, copy)

    def _from_copy(self, ask: Ask) -> bool:
        terms, copy = self._leadership.held(ask.job)
        if ask.verb not in COPY_VERBS or copy is None or terms is None or ask.job in self._leadership.masters:
            return False
        try:
            return bool(decode_body(ask.body).get(COPY)) and self._serve(ask, terms, copy)
        except ProtocolError:
            return False

    def _serve(self, ask: Ask, terms: Terms, copy: LogCopy) -> bool:
        """Answer from the copy of this agent, at once, because the job publishes nothing."""
        if copy.latest is None or copy.incarnation != terms.manifest.incarnation:
            return False
        try:
            body, plan = decode_body(ask.body), read_plan(terms.manifest.text)
        except (ProtocolError, QueryError):
            return False
        held = _HeldTerms(terms)
        tentative = Tentative(self._context, 0, _nothing, _nothing)
        shown = ShownLines(tentative, EarlyLines(plan, 0, tentative, _nothing))
        result_service = ResultService(
            self._context, held, copy, shown, DownstreamFeed(self._context, plan, held)
        )
        if ask.verb == "rows":
            result_service.ask_page(ask, body)
        else:
            result_service.ask(ask, body | {"wait": 0})
        return True

    # -- replies -----------------------------------------------------------------------------------------

    def _because(self, attempt: Attempt) -> str:
        named = ", ".join(map(str, attempt.voters()))
        since = f"{self._context.now - attempt.since:.0f} s"
        job = attempt.terms.manifest.qualified
        return f"no majority of the agents that vote on {job} answers, for {since}: {named}"

    def _row(self, attempt: Attempt) -> JobRow:
        terms = attempt.terms
        _, copy = self._leadership.held(terms.manifest.job_id)
        try:
            plan = read_plan(terms.manifest.text)
        except QueryError:
            plan = None
        return row_of(
            terms.manifest,
            plan,
            state=NO_MAJORITY,
            agents=len(terms.members),
            latest=None if copy is None else copy.latest,
            master="",
            epoch=terms.epoch,
            result=None,
            completeness=None,
            missing=[],
            held_for_seconds=round(self._context.now - attempt.since, 3),
        )

    def _why(self, attempt: Attempt) -> Why:
        acceptors, lost = attempt.terms.acceptors, attempt.proposer.lost
        return Why(
            job=attempt.terms.manifest.qualified,
            state=NO_MAJORITY,
            interval=None,
            held_for_seconds=round(self._context.now - attempt.since, 3),
            stage="waiting for a majority",
            tentative_rev=0,
            inside=0,
            expected=len(attempt.terms.members),
            agents=[],
            reads=[],
            voters=attempt.voters(),
            voters_without_votes=[f"{each.host}:{each.port}" for each in acceptors if each.id in lost],
            because=self._because(attempt),
        )


HINT = (
    "Start the voters with their data directories. `elf results` reads copies on the other agents. If"
    " most voters are permanently lost, `elf job recover` continues the job without them."
)


@dataclass(frozen=True, slots=True)
class _HeldTerms:
    """Terms that no master updates."""

    terms: Terms


def _nothing() -> None: ...
