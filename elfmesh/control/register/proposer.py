"""The proposer of one job's control register: it makes one change after another, each until it is decided.

Owns the current round, the answers to it, and when it is repeated. Decides nothing about jobs.

Invariants: changes are decided in the order of their submission, each once. A change is reported as made only
when a quorum has accepted it, and an incarnation is reported as deleted only when a quorum has accepted that,
because a value that fewer acceptors have accepted may never be chosen. Only acceptors that were asked are
counted. No decision depends on a clock: a time-out only repeats a message, or starts a round with a higher
ballot.

Paper: CASPaxos (Rystsov 2018) 2.2, proposers, and 2.2.1, one round trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from elfmesh.control.consensus.rules import Ballot, Promise, Round
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.register_value import (
    Change,
    ChangeRefused,
    Create,
    RegisterCell,
    RegisterValue,
    check_cell,
)
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Conflict,
    Prepare,
    Promised,
)
from elfmesh.control.register.acceptor import lane
from elfmesh.control.register.lost_votes import begins_membership
from elfmesh.control.register.reports import AcceptorReport, newest_terms
from elfmesh.control.register.vote_counts import VoterAnswer
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

AGAIN_S = (0.25, 0.5, 1.0, 2.0)
"""Pauses before an acceptor that is silent is asked again; the last one is repeated."""

ROUND_TRIES = 8
"""How often a round is said again before another one begins: what it was built on may be gone by now."""

MAJORITY_S = 5.0
"""Voters that have not answered for so long are worth a word: a master that has died is followed sooner."""

ANSWERED = float("inf")
BEHIND_S = 0.05
"""When an acceptor that lacked something is asked again."""

BACK_OFF_S = 0.02
BACK_OFF_S_MAX = 2.0
FAILURES_MAX = 8
"""Losses after which the pause does not grow any more."""

Decided = Callable[[RegisterCell | ChangeRefused], None]
"""Called with the value that was chosen, or with why the change may not be made."""


@dataclass(slots=True)
class _Wanted:
    change: Change
    then: Decided
    terms: Terms | None


class Proposer:
    """One agent's changes of one job's register.

    Args:
        context: clock and way out.
        job: whose register.
        acceptors: whom to ask while the value is unknown.
        boot: drawn when this agent started.
        seen: the highest ballot this agent knows of as an acceptor: one below it would be refused.
        counter: of ballots that may be used up.
        counts: the newest that this agent has seen of an acceptor.
    """

    def __init__(
        self,
        context: Context,
        job: bytes,
        acceptors: tuple[Contact, ...],
        boot: int,
        seen: Callable[[], Ballot] = Ballot,
        counter: int = 0,
        counts: Callable[[bytes], VoterAnswer] = lambda agent: VoterAnswer(),
    ) -> None:
        self._counts = counts
        self._context, self._job, self._boot, self._seen = context, job, boot, seen
        self._guess = tuple(contact.id for contact in acceptors)
        self._contacts = {contact.id: contact for contact in acceptors}
        self._wanted: deque[_Wanted] = deque()
        self._round: Round[RegisterCell] | None = None
        self._won: Round[RegisterCell] | None = None
        self._counter = counter
        self._tries = 0
        self._failures = 0
        self._timer: Timer | None = None
        self._rosters: dict[bytes, int] = {}
        self._behind: dict[bytes, None] = {}
        self._settled: Ballot | None = None
        self._refusal: ChangeRefused | None = None
        self._founds = acceptors == (context.me,)
        self._silent: dict[bytes, float] = {}  # by who has ever answered: since when a question is open
        self.reports: dict[bytes, AcceptorReport] = {}
        self.lost: dict[bytes, int] = {}
        """Acceptors that have lost their votes and do not vote, with the boot that has found the loss."""
        self.superseded: set[bytes] = set()
        """Acceptors that vote in a later generation of the job, and in this one no more."""

    @property
    def found(self) -> RegisterCell | None:
        """The newest value that acceptors have told of in the round that is open."""
        return None if self._round is None else self._round.found

    @property
    def promises(self) -> tuple[Promise[RegisterCell], ...]:
        """What acceptors have told in the round that is open, if no value is proposed in it yet."""
        return () if self._round is None or self._round.proposal is not None else self._round.promises

    @property
    def counter(self) -> int:
        return self._counter

    @property
    def idle(self) -> bool:
        return not self._wanted

    def submit(self, change: Change, then: Decided, terms: Terms | None = None) -> None:
        """Make a change; `then` hears how it ended. `terms`: what acceptors may lack to vote for it."""
        self._wanted.append(_Wanted(change, then, terms))
        if len(self._wanted) == 1:
            self._next()

    def ask(self, acceptors: tuple[Contact, ...]) -> None:
        """Ask these when the value is sought the next time."""
        self._guess, self._founds = (
            tuple(contact.id for contact in acceptors),
            acceptors == (self._context.me,),
        )
        self._contacts |= {contact.id: contact for contact in acceptors}
        self._won = None
        self._rosters.clear()
        self.superseded.clear()

    def met(self, contact: Contact) -> None:
        if contact.id in self._contacts:
            self._contacts[contact.id] = contact

    def answers(self, agent: bytes) -> bool:
        """Whether an acceptor has answered what it was asked last, or may still."""
        return self._context.now - self._silent.get(agent, float("-inf")) < MAJORITY_S

    def drop(self) -> None:
        """Want nothing any more. What was sent may still be accepted."""
        self._wanted.clear()
        self._round = self._won = None
        self._cancel()

    # -- rounds ----------------------------------------------------------------------------------------

    def _next(self) -> None:
        won, self._won = self._won, None
        if won is None or self._counter > won.ballot.following.counter:  # an acceptor has promised more
            self._prepare()
        else:
            self._round = won.following
            self._counter = max(self._counter, self._round.ballot.counter)
            self._propose(settled=won.ballot)

    def _prepare(self) -> None:
        self._cancel()
        self._counter = max(self._counter, self._seen().counter) + 1
        self._tries = 0
        self._round = Round(Ballot(self._counter, self._context.me.id, self._boot), self._guess)
        self._ask()

    def _propose(self, settled: Ballot | None = None) -> None:
        assert self._round is not None
        wanted = self._wanted[0]
        found = self._round.found
        self._refusal = None
        try:
            cell = wanted.change.apply(found, certain=self._round.certain)
        except ChangeRefused as refused:
            if found is None or not refused.over or self._round.finds_chosen:
                self._round = None
                self._decide(refused)
                return
            cell, self._refusal = found, refused  # is proposed as it is, which makes it the register's
        for contact in cell.contacts:
            self._contacts.setdefault(contact.id, contact)
        self._round = self._round.proposed(cell)
        self._settled = settled
        self._tries = 0
        self._ask()

    def _ask(self) -> None:
        begun = self._round
        assert begun is not None
        done = begun.accepted if begun.proposal else tuple(promise.agent for promise in begun.promises)
        for agent in begun.asked:
            if agent not in done:
                self._tell(agent)
        if self._round is begun:
            pause = AGAIN_S[min(self._tries, len(AGAIN_S) - 1)]
            self._tries += 1
            self._wait(self._context.jittered(pause), self._again)

    def _tell(self, agent: bytes) -> None:
        begun, contact = self._round, self._contacts.get(agent)
        if begun is None or contact is None:
            return
        if self._silent.get(agent) == ANSWERED:
            self._silent[agent] = self._context.now
        seen = self._counts(agent)
        if begun.proposal is None:
            change = self._wanted[0].change
            founds = self._founds and isinstance(change, Create)
            question = Prepare(
                self._job, begun.ballot, founds, change.generation, True, seen.boot, seen.votes
            )
            self._context.send(contact, question)
            return
        cell, terms = begun.proposal, self._terms(begun.proposal)
        known = self._rosters.get(agent, -1) >= cell.value.roster
        sources = self._sources(cell, agent) if agent in self._behind else ()
        message = Accept(
            self._job,
            begun.ballot,
            cell.value,
            self._settled,
            None if known else terms,
            sources,
            seen.boot,
            seen.votes,
        )
        self._context.send(contact, message, cell.tail, lane=lane(cell.tail))

    def _terms(self, cell: RegisterCell) -> Terms | None:
        own = self._wanted[0].terms if self._wanted else None
        return newest_terms(self.reports, cell.value, own)

    def _sources(self, cell: RegisterCell, agent: bytes) -> tuple[Contact, ...]:
        before = cell.value.before
        found = [
            report
            for report in self.reports.values()
            if report.contact.id != agent and before is not None and (report.latest or before - 1) >= before
        ]
        found.sort(key=lambda report: (-(report.latest or 0), report.contact.id))
        return tuple(report.contact for report in found)

    def _again(self) -> None:
        """An acceptor is silent: it may have another address by now, or it is gone and the others must do.

        A round that one acceptor has refused, or that has waited for long, is begun again: it would wait for
        ever for an acceptor that is gone, while a majority is there.
        """
        begun = self._round
        if begun is None:
            return
        done = begun.accepted if begun.proposal else tuple(promise.agent for promise in begun.promises)
        for agent in begun.asked:
            if agent not in done and agent != self._context.me.id:
                self._find(agent)
        if begun.refused or self._tries >= ROUND_TRIES:
            self._lose()
        else:
            self._ask()

    def _find(self, agent: bytes) -> None:
        def found(contacts: tuple[Contact, ...]) -> None:
            if contacts and contacts[0].id == agent and contacts[0] != self._contacts.get(agent):
                self._contacts[agent] = contacts[0]
                self._tell(agent)

        self._context.lookup(agent, lambda done: found(done.contacts if done else ()))

    # -- answers ---------------------------------------------------------------------------------------

    def promised(self, sender: Contact, message: Promised, tail: bytes) -> None:
        begun = self._round
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        cell = None if message.value is None else RegisterCell(message.value, tail)
        try:
            if cell is not None:
                check_cell(self._job, cell)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        self._contacts[sender.id] = sender
        self._silent[sender.id] = ANSWERED
        self.superseded.discard(sender.id)
        self.reports[sender.id] = AcceptorReport(sender, message.terms, message.latest)
        notified = begun.promised(sender.id, message.accepted, cell, sender.incarnation, message.floor)
        for contact in cell.contacts if cell is not None else ():
            self._contacts.setdefault(contact.id, contact)
        self._round = notified
        if notified is not begun and notified.prepared:
            self._propose()
        else:
            for agent in notified.asked:
                if agent not in begun.asked:
                    self._tell(agent)

    def accepted(self, sender: Contact, message: Accepted) -> None:
        self.lost.pop(sender.id, None)
        self._silent[sender.id] = ANSWERED
        begun = self._round
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        notified = self._round = begun.accepting(sender.id)
        if notified.proposal is None:
            return
        self._rosters[sender.id] = notified.proposal.value.roster
        self._behind.pop(sender.id, None)
        if notified.chosen:
            self._round, self._won, self._failures = None, notified, 0
            self._guess = notified.asked
            self._votes_again(notified.proposal.value)
            self._decide(self._refusal or notified.proposal)

    @safeguard("returned-voters:proposer")
    def _votes_again(self, value: RegisterValue) -> None:
        """Count the answers of a voter again that became an acceptor after the loss of its votes."""
        self.lost = {
            agent: boot for agent, boot in self.lost.items() if not begins_membership(value, agent, boot)
        }

    def refused(self, sender: Contact, message: Conflict) -> None:
        """An acceptor has refused; that it has lost its votes is known by any of its answers."""
        self._silent[sender.id] = ANSWERED
        self._counter = max(self._counter, message.promised.counter)
        if message.lost_at is not None:
            self.lost[sender.id] = message.lost_at
        if message.superseded:
            self.superseded.add(sender.id)
        begun = self._round
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        if message.behind:
            self._rosters.pop(sender.id, None)
            self._behind[sender.id] = None
            if self._tries <= 1:
                self._wait(BEHIND_S, self._ask)
            return
        notified = self._round = begun.refusing(sender.id)
        if notified.hopeless:
            self._lose()

    def _lose(self) -> None:
        self._round = None
        self._failures += 1
        self._context.stats["control.rounds_lost"] += 1
        most = min(BACK_OFF_S * 2 ** min(self._failures, FAILURES_MAX), BACK_OFF_S_MAX)
        self._wait(self._context.rng.uniform(BACK_OFF_S, most), self._prepare)

    def _stray(self) -> None:
        self._context.stats["control.stray_votes"] += 1

    def _decide(self, outcome: RegisterCell | ChangeRefused) -> None:
        self._cancel()
        wanted = self._wanted.popleft()
        before = len(self._wanted)
        wanted.then(outcome)
        if before and self._wanted and self._round is None:
            self._next()

    def _wait(self, delay_s: float, call: Callable[[], None]) -> None:
        self._cancel()
        self._timer = self._context.after(delay_s, call)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
