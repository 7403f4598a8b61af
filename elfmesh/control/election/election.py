"""Elections: attempts of this agent to become the master of a new job or of a new term.

Owns the attempts that are under way. Leads no job.

Invariants: an agent becomes master only by a chosen change that raises the epoch (D-4). At most one attempt
per job is under way. An agent that learns a higher epoch before its own is chosen does not lead, because it
knows that epoch already and would never be fenced. An attempt in an earlier generation than the known one
ends at once. An attempt without a majority elects no master and is given up after a while, because the known
acceptors may be out of date, and another root may have to try.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master"). Deviation: the rendezvous nominates the
master; a majority of the job's acceptors elects it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, plan_digest
from elfmesh.control.jobs.terms import Numbering, RosterEntry, Terms
from elfmesh.control.protocol.replies import Voter
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.register.changes import Change, ChangeRefused, Create, TakeOver
from elfmesh.control.register.first_acceptors import Survey
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.reports import newest_terms, plan_of
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

CREATE_S = 6.0
"""Time-out of the creation of a job; it is shorter than the client's time-out."""

TAKE_OVER_S = 30.0
"""Time-out of an attempt to lead a new term; the root of the job's tree then queries the terms again."""

AGAIN_S = 15.0
"""Time for which a failed attempt is reported as missing a majority; the root tries again within it."""

NO_MAJORITY = "a majority of the agents that vote on the job does not answer"
SUPERSEDED = "the job has gone on in a higher epoch meanwhile"


@dataclass(slots=True)
class Attempt:
    """An attempt to lead a new term that no majority has answered yet.

    Attributes:
        terms: terms of the job.
        proposer: proposer of the change.
        since: start of the first of the consecutive attempts.
        ended: when the last attempt was given up; None while one is open.
    """

    terms: Terms
    proposer: Proposer
    since: float
    ended: float | None = None

    def answers(self, voter: Contact) -> bool:
        return self.proposer.answers(voter.id) and self._abstains(voter) == ""

    def _abstains(self, voter: Contact) -> str:
        if voter.id in self.proposer.lost:
            return "lost its votes"
        return "votes no more, since a recovery was begun" if voter.id in self.proposer.superseded else ""

    def voters(self) -> list[Voter]:
        return [
            Voter(
                f"{voter.host}:{voter.port}",
                voter.id.hex(),
                self._abstains(voter) or ("answers" if self.answers(voter) else "does not answer"),
            )
            for voter in self.terms.acceptors
        ]


Elected = Callable[[Won | Lost], None]


@dataclass(frozen=True, slots=True)
class _Running:
    timer: Timer
    proposer: Proposer
    then: Elected


class Elections:
    """Elections of one agent.

    Args:
        registers: the control registers.
        epoch: returns the highest known epoch of a job.
    """

    def __init__(self, context: Context, registers: Registers, epoch: Callable[[bytes], int]) -> None:
        self._context, self._registers, self._epoch = context, registers, epoch
        self._running: dict[bytes, _Running] = {}
        self._attempts: dict[bytes, Attempt] = {}

    def without_majority(self) -> dict[bytes, Attempt]:
        """Return the jobs that this agent has tried to lead for `MAJORITY_S` without a majority."""
        now = self._context.now
        self._attempts = {
            job: each
            for job, each in self._attempts.items()
            if each.ended is None or now - each.ended < AGAIN_S
        }
        return {job: each for job, each in self._attempts.items() if now - each.since >= MAJORITY_S}

    def give_up(self, job: bytes) -> None:
        """Forget an attempt; its outcome is not reported."""
        self._attempts.pop(job, None)
        if (running := self._running.pop(job, None)) is not None:
            running.timer.cancel()
            running.proposer.drop()

    @safeguard("won-too-late:told")
    def superseded(self, job: bytes) -> None:
        """End the attempt for a job that has a later generation."""
        running = self._running.get(job)
        self.give_up(job)
        if running is not None:
            running.then(Lost(SUPERSEDED, open=True))

    def is_running(self, job: bytes) -> bool:
        return job in self._running

    # -- a new job -------------------------------------------------------------------------------------

    def create(
        self,
        manifest: Manifest,
        start: int,
        survey: Survey,
        then: Elected,
        earlier: tuple[Numbering, ...] = (),
        members: tuple[RosterEntry, ...] = (),
        kind: Callable[[RegisterValue], Create] = Create,
    ) -> None:
        """Create the register of a new job, or of a new incarnation of a job that is over.

        Args:
            manifest: the first version.
            start: the first interval.
            survey: the voters that were found.
            then: receives the outcome.
            earlier: earlier numberings of the results.
            members: members that are expected from the beginning, whether they are alive or not.
            kind: class of the change.
        """
        job = manifest.job_id
        if job in self._running:
            then(Lost("another attempt is open", open=True))
            return
        if survey.problem:
            then(Lost(survey.problem, open=True))
            return
        me, acceptors, epoch = self._context.me, survey.acceptors, self._above(job)
        terms = Terms(
            manifest=manifest,
            master=me,
            epoch=epoch,
            start=start,
            closed=start,
            acceptors=acceptors,
            earlier=earlier,
            version=1 if members else 0,  # 0: the first roster is not made yet
            members=members,
        )
        value = RegisterValue(
            job=job,
            incarnation=manifest.incarnation,
            version=manifest.version,
            plan=plan_digest(manifest),
            epoch=epoch,
            master=me,
            closed=start,
            acceptors=acceptors,
        )
        proposer = self._registers.proposer(job, acceptors)
        self._submit(proposer, kind(value), terms, CREATE_S, then)

    def _above(self, job: bytes) -> int:
        return max(self._epoch(job), self._registers.acceptors.ended.floor.epoch) + 1

    def _submit(
        self, proposer: Proposer, change: Change, terms: Terms, within_s: float, then: Elected
    ) -> None:
        job = terms.manifest.job_id

        def late() -> None:
            proposer.drop()
            if job in self._attempts:
                self._attempts[job].ended = self._context.now
            self._end(job, then, Lost(NO_MAJORITY, open=True))

        timer = self._context.after(within_s, late)
        self._running[job] = _Running(timer, proposer, then)

        def decided(outcome: RegisterCell | ChangeRefused) -> None:
            timer.cancel()
            self._attempts.pop(job, None)
            self._end(job, then, self._outcome(terms, proposer, outcome))

        proposer.submit(change, decided, terms)

    # -- a new term ------------------------------------------------------------------------------------

    def take_over(self, terms: Terms, then: Elected) -> None:
        """Try to lead a job because the master in `terms` is gone or hands the job over."""
        job = terms.manifest.job_id
        if job in self._running:
            return
        proposer = self._registers.proposer(job, terms.acceptors)
        before = self.without_majority().get(job)
        since = self._context.now if before is None else before.since
        self._attempts[job] = Attempt(terms, proposer, since)
        change = TakeOver(terms.manifest.incarnation, self._context.me, terms.epoch, self._epoch(job))
        self._submit(proposer, change, terms, TAKE_OVER_S, then)

    def _outcome(self, terms: Terms, proposer: Proposer, outcome: RegisterCell | ChangeRefused) -> Won | Lost:
        cell = outcome.cell if isinstance(outcome, ChangeRefused) else outcome
        found = None if cell is None else _found(cell, proposer, terms)
        named = None if found is None or cell is None else found.in_epoch(cell.value.epoch, cell.value.master)
        if isinstance(outcome, ChangeRefused):
            return Lost(str(outcome), cell, terms=named)
        if outcome.value.master.id != self._context.me.id:
            return Lost("another agent leads the job", outcome, terms=named)
        if self._is_over(outcome.value.job, outcome.value.epoch):
            proposer.drop()
            return Lost(SUPERSEDED, open=True)
        if found is None or named is None:
            return Lost("no agent that voted holds the terms that the register names", outcome)
        terms = replace(named, closed=max(outcome.value.closed, named.start), acceptors=outcome.contacts)
        reports = sorted(
            (report for report in proposer.reports.values() if report.latest is not None),
            key=lambda report: (-(report.latest or 0), report.contact.id),
        )
        sources = tuple(each.contact for each in reports if each.contact.id != self._context.me.id)
        return Won(terms, outcome, proposer, sources, found.roster_epoch)

    @safeguard("won-too-late:won")
    def _is_over(self, job: bytes, epoch: int) -> bool:
        return epoch < self._epoch(job)

    def _end(self, job: bytes, then: Elected, outcome: Won | Lost) -> None:
        del self._running[job]
        then(outcome)


def _found(cell: RegisterCell, proposer: Proposer, own: Terms) -> Terms | None:
    """Return the terms that a register names, as this agent or a voter has them; None: not found.

    Other terms are not used, because members would return to a version that another has replaced.
    """
    value = cell.value
    terms = newest_terms(proposer.reports, value, own)
    if terms is None or plan_of(terms) != value.plan or terms.version < value.roster:
        return None
    return terms
