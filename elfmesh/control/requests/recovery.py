"""Recovery of a job that has permanently lost most of its voters: it continues with other voters.

The module owns the order of the steps, at the agent that should lead the job or leads it without a majority.
The reply names what may be lost, before and after the recovery.

Invariants: a recovery is refused while a majority of the voters answers. The new voters form a new register,
in the next *generation* of the epochs of the job (`value.GENERATION_BITS`), so that the old voters cannot
choose an epoch of it. An agent that knows the new generation does not vote in the old one. The first agent of
the new generation to which a master of the old one sends a message fences this master, so that old voters
that return follow the new incarnation. Two recoveries on two sides of a partition draw different epochs, and
the higher one remains. The new incarnation expects the members of the newest known roster, so that lost
members are missing in its records until they return or are evicted (D-14).

Limit: old voters on the other side of a partition continue until the sides meet. The operator accepts this
loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import CONFLICT, OK, UNAVAILABLE, Body, decode_body, error_body, respond
from elfmesh.control.consensus.rules import is_quorum
from elfmesh.control.context import Context
from elfmesh.control.election.election import Attempt
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.register_value import RegisterCell, next_generation
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.protocol.events import DropLog
from elfmesh.control.protocol.messages import Ask, Stop, Withdraw
from elfmesh.control.protocol.replies import Voter
from elfmesh.control.protocol.replies_changes import PossibleLoss, Recovery
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.register.first_acceptors import Survey
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.replicas.terms_query import Answers
from elfmesh.control.requests.voting import without_majority
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

VERB = "recover"
FETCH_S = 5.0
"""Time limit for reading the copies of other agents; then the job continues without them."""

STOP_S = 1.0
"""Time between the end of the old incarnation at its members and the start of the new one."""

APART_BITS = 20
"""Number of random bits of an epoch, which differ between two recoveries on two sides of a partition."""


@dataclass(slots=True)
class _Recovery:
    """A recovery that runs, or of which an operator only wants the report."""

    ask: Ask
    terms: Terms
    report: Recovery
    cell: RegisterCell | None
    sources: list[Contact]
    fetched: bool = False


class Recoveries:
    """The recoveries of one agent.

    Args:
        leadership: the attempts to lead.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership
        self._open: dict[bytes, _Recovery] = {}

    def asked(self, ask: Ask) -> bool:
        """Handle a request; return False if this agent neither leads nor should lead the job."""
        job = ask.job
        if job in self._open:
            if (self._open[job].ask.token, self._open[job].ask.origin) != (ask.token, ask.origin):
                self._refuse(ask, UNAVAILABLE, "the job is being recovered")
            return True
        attempt = self._attempt(job)
        if attempt is None:
            if job in self._leadership.masters:
                self._refuse(ask, CONFLICT, "a majority of the agents that vote on the job answers")
            return job in self._leadership.masters
        voters = attempt.voters()
        if 2 * sum(voter.state == "answers" for voter in voters) > len(voters):
            named = ", ".join(map(str, voters))
            self._refuse(ask, CONFLICT, f"a majority of the agents that vote on the job answers: {named}")
            return True
        try:
            accepted = decode_body(ask.body).get("accept_loss") is True
        except ProtocolError:
            accepted = False
        recovery = self._looked_at(ask, attempt, voters)
        if accepted:
            self._open[job] = recovery
            self._leadership.terms_query.ask_all(
                job, attempt.terms.acceptors, lambda *found: self._found(job, *found)
            )
        else:
            respond(self._context, ask.origin, ask.token, OK, recovery.report)
        return True

    def _refuse(self, ask: Ask, status: int, text: str) -> None:
        respond(self._context, ask.origin, ask.token, status, error_body(text, code=69))

    def _attempt(self, job: bytes) -> Attempt | None:
        master = self._leadership.masters.get(job)
        if master is None:
            return without_majority(self._context, self._leadership).get(job)
        if master.term.committer.unanswered_s <= MAJORITY_S:
            return None
        return Attempt(
            master.term.terms, master.proposer, self._context.now - master.term.committer.unanswered_s
        )

    def _looked_at(self, ask: Ask, attempt: Attempt, voters: list[Voter]) -> _Recovery:
        terms, incarnation = attempt.terms, attempt.terms.manifest.incarnation
        cells = self._chosen(ask.job, attempt.proposer)
        cells = [cell for cell in cells if cell.value.incarnation == incarnation and not cell.value.deleted]
        newest = max(cells, key=lambda cell: (cell.value.epoch, cell.value.closed), default=None)
        closed = max(terms.start, terms.closed, *(cell.value.closed for cell in cells))
        reports = [
            each for each in attempt.proposer.reports.values() if attempt.proposer.answers(each.contact.id)
        ]
        reports.sort(key=lambda each: (-1 if each.latest is None else each.latest, each.contact.id))
        _, copy = self._leadership.held(ask.job)
        latest = [each.latest for each in reports if each.latest is not None]
        latest += [copy.latest] if copy is not None and copy.latest is not None else []
        voted = newest.value.latest if newest is not None else None
        known = max([*latest, *([voted] if voted is not None else [])], default=None)
        report = Recovery(
            job=terms.manifest.qualified,
            incarnation=incarnation,
            voters=voters,
            results={"latest": max(latest, default=None), "voted": voted},
            may_be_lost=PossibleLoss(
                (None if known is None else known + 1, None),
                "results behind the last one that is known here, which only the lost voters had;"
                " and records of agents that are away of intervals that are made again",
            ),
            closed_below=closed,
            state="no majority",
        )
        sources = [each.contact for each in reversed(reports) if each.contact.id != self._context.me.id]
        notified = [each.terms for each in reports if each.terms is not None]
        terms = with_newest_roster(replace(terms, closed=closed), notified)
        return _Recovery(ask, terms, report, newest, sources)

    def _chosen(self, job: bytes, proposer: Proposer) -> list[RegisterCell]:
        """The values of which a majority is known, its proposer counted, as who proposes accepts first.

        What this agent has proposed itself, and no other agent has accepted, is not chosen: voters that are
        only cut off may choose something else for the same interval.
        """
        vote, me = self._leadership.registers.acceptors.vote(job), self._context.me.id
        notified = [(me, vote.ballot, vote.value)]
        notified += [(each.agent, each.ballot, each.value) for each in proposer.promises]
        found = []
        for _, ballot, cell in notified:
            having = (ballot.agent, *(agent for agent, of, _ in notified if of == ballot))
            if cell is not None and _is_chosen(cell, having):
                found.append(cell)
        return found

    # -- the steps -----------------------------------------------------------------------------------------

    def _found(self, job: bytes, terms: Terms | None, answers: Answers) -> None:
        recovery = self._open[job]
        first = self._leadership.first
        there = sorted(
            (self._context.me, *answers.received.values()), key=lambda each: ids.distance(each.id, job)
        )
        voters = self._leadership.registers.voters(tuple(each for each in there if first.may_vote(each)))
        voters = voters or (self._context.me,)
        if terms is not None and terms.manifest.incarnation != recovery.terms.manifest.incarnation:
            self._end(job, UNAVAILABLE, error_body("the job has begun again elsewhere; ask again", code=69))
            return
        self._leadership.give_up(job)
        self._leadership.keep(recovery.terms)
        _, copy = self._leadership.held(job)

        def fetched() -> None:
            if self._open.get(job) is recovery and not recovery.fetched:
                recovery.fetched = True
                self._create(job, recovery, voters, copy)

        if copy is None or not recovery.sources:
            fetched()
            return
        copy.complete(recovery.sources[0], fetched)
        self._context.after(FETCH_S, fetched)

    def _create(
        self, job: bytes, recovery: _Recovery, voters: tuple[Contact, ...], copy: LogCopy | None
    ) -> None:
        old, cell = recovery.terms, recovery.cell
        if copy is not None and cell is not None and copy.reaches(cell.value.before):
            copy.append(cell.tail)
        latest = None if copy is None else copy.latest
        earlier = old.numberings(None if copy is None else copy.first, latest)
        epoch = max(old.epoch, self._leadership.epoch(job))
        base = next_generation(epoch)
        self._leadership.admits(job, base + self._context.rng.getrandbits(APART_BITS), None)
        manifest = replace(old.manifest, incarnation=f"{self._context.rng.getrandbits(64):016x}")
        self._context.emit(DropLog(job, retire=True))

        def elected(outcome: Won | Lost) -> None:
            if isinstance(outcome, Lost):
                self._leadership.look_again(job)
                body = error_body(f"the new voters did not agree: {outcome.reason}; ask again", code=69)
                self._end(job, UNAVAILABLE, body)
            else:
                self._begin(job, recovery, outcome)

        survey, start = Survey(None, voters), recovery.terms.closed
        members = _expected(old.members, start)
        self._leadership.elections.create(manifest, start, survey, elected, earlier, members)

    def _begin(self, job: bytes, recovery: _Recovery, won: Won) -> None:
        old, epoch = recovery.terms, won.terms.epoch
        stop = Stop(job, old.manifest.incarnation, epoch)
        for contact in dict.fromkeys((*(entry.contact for entry in old.members), *old.acceptors)):
            self._context.send(contact, stop)
        for stream in read_plan(old.manifest.text).streams:
            withdraw = Withdraw(job, stream, old.manifest.incarnation, epoch)
            self._context.route(ids.stream_id(stream), withdraw)

        def begin() -> None:
            if self._leadership.epoch(job) <= epoch:  # else another has taken over meanwhile
                self._leadership.lead_new(won)
            report = replace(
                recovery.report,
                state="recovered",
                recovered=won.terms.manifest.incarnation,
                epoch=epoch,
                new_voters=[f"{each.host}:{each.port}" for each in won.cell.contacts],
            )
            self._end(job, OK, report)

        self._context.after(STOP_S, begin)

    def _end(self, job: bytes, status: int, body: Body) -> None:
        ask = self._open.pop(job).ask
        respond(self._context, ask.origin, ask.token, status, body)


def with_newest_roster(terms: Terms, others: list[Terms]) -> Terms:
    """Return the terms with the newest known roster, because an agent may hold an old one."""
    same = [each for each in others if each.manifest.incarnation == terms.manifest.incarnation]
    newest = max((terms, *same), key=lambda each: (each.version, each.epoch))
    return replace(terms, members=newest.members, version=newest.version)


@safeguard("recovered-if-chosen")
def _is_chosen(cell: RegisterCell, agents: tuple[bytes, ...]) -> bool:
    return is_quorum(cell.groups, agents)


@safeguard("recovered-roster")
def _expected(members: tuple[RosterEntry, ...], start: int) -> tuple[RosterEntry, ...]:
    """Return the members that intervals from `start` on expect, absent ones until their eviction (D-14)."""
    expected = [each for each in members if each.until is None or each.until > start]
    return tuple(replace(each, start=max(each.start, start)) for each in expected)
