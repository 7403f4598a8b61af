"""The proposer of one job's control register, which makes one change at a time until it is decided.

Owns the current round, its answers and repetitions. Makes no decisions about jobs.

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

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Promise, Round
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.lanes import lane
from elfmesh.control.protocol.messages_register import Accept, Accepted, Conflict, Prepare, Promised
from elfmesh.control.register.acceptor_contacts import AcceptorContacts
from elfmesh.control.register.changes import Change, ChangeRefused, Create
from elfmesh.control.register.folding import found_with_votes
from elfmesh.control.register.grant import is_prefix, may_follow_at_once
from elfmesh.control.register.left_out import OwnVote, read_promised
from elfmesh.control.register.lost_votes import begins_membership
from elfmesh.control.register.reports import AcceptorReport, newest_terms, sources_of
from elfmesh.control.register.vote_counts import VoterAnswer
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

AGAIN_S = (0.25, 0.5, 1.0, 2.0)
"""Pauses before a request to a silent acceptor is repeated; the last one applies to all further
repetitions."""

ROUND_TRIES = 8
"""Number of repetitions of a round before another one begins, because acceptors may have changed."""

BEHIND_S = 0.05
"""Pause before a request to an acceptor that lacked data is repeated."""

BACK_OFF_S = 0.02
BACK_OFF_S_MAX = 2.0
FAILURES_MAX = 8
"""Number of lost rounds after which the pause does not grow any more."""

Decided = Callable[[RegisterCell | ChangeRefused], None]
"""Called with the chosen value, or with the reason for which the change is refused."""


@dataclass(slots=True)
class _Wanted:
    change: Change
    then: Decided
    terms: Terms | None


class Proposer:
    """Proposer of one agent for one job's register.

    Args:
        job: job of the register.
        acceptors: agents to ask while the value is unknown.
        boot: random number of this boot.
        own: returns the vote of this agent as an acceptor; ballots below its promise would be refused.
        counter: counter of ballots that may have been used.
        counts: returns the newest answer of an acceptor that this agent has seen.
    """

    def __init__(
        self,
        context: Context,
        job: bytes,
        acceptors: tuple[Contact, ...],
        boot: int,
        own: Callable[[], OwnVote] = OwnVote,
        counter: int = 0,
        counts: Callable[[bytes], VoterAnswer] = lambda agent: VoterAnswer(),
    ) -> None:
        self._counts = counts
        self._context, self._job, self._boot, self._own_vote = context, job, boot, own
        self._own, self._tail_links = OwnVote(), tuple[bytes, ...]()
        self._guess = tuple(contact.id for contact in acceptors)
        self._contacts = AcceptorContacts(context, acceptors)
        self.met, self.answers = self._contacts.met, self._contacts.answers
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
        self._voted: dict[bytes, tuple[Ballot, VotedChain]] = {}
        self._refusal: ChangeRefused | None = None
        self._founds = acceptors == (context.me,)
        self.reports: dict[bytes, AcceptorReport] = {}
        self.lost: dict[bytes, int] = {}
        """Acceptors that have lost their votes, with the boot that has found the loss."""
        self.superseded: set[bytes] = set()
        """Acceptors that know a later generation of the job, so that they do not vote in this one."""

    @property
    def found(self) -> RegisterCell | None:
        """The newest value that acceptors have reported in the current round."""
        return None if self._round is None else self._round.found

    @property
    def promises(self) -> tuple[Promise[RegisterCell], ...]:
        """Promises of the current round, before a value is proposed."""
        return () if self._round is None or self._round.proposal is not None else self._round.promises

    @property
    def counter(self) -> int:
        return self._counter

    @property
    def chosen(self) -> Ballot | None:
        """The ballot of the value that was chosen last, as long as no other round has begun."""
        return None if self._won is None else self._won.ballot

    @property
    def idle(self) -> bool:
        return not self._wanted

    def submit(self, change: Change, then: Decided, terms: Terms | None = None) -> None:
        """Make a change; `then` receives the outcome. `terms`: terms that acceptors need for their votes."""
        self._wanted.append(_Wanted(change, then, terms))
        if len(self._wanted) == 1:
            self._next()

    def ask(self, acceptors: tuple[Contact, ...]) -> None:
        """Ask these acceptors in the next round."""
        self._guess = tuple(contact.id for contact in acceptors)
        self._founds = acceptors == (self._context.me,)
        for contact in acceptors:
            self._contacts.put(contact)
        self._won = None
        self._rosters.clear()
        self.superseded.clear()

    def drop(self) -> None:
        """Drop all changes. Acceptors may still accept values that were sent."""
        self._wanted.clear()
        self._round = self._won = None
        self._cancel()

    # -- rounds ----------------------------------------------------------------------------------------

    def _next(self) -> None:
        won, self._won = self._won, None
        follows = won is not None and won.proposal is not None and may_follow_at_once(won.proposal)
        if won is None or not follows or self._counter > won.ballot.following.counter:
            self._prepare()  # an acceptor has promised more, or may have voted
        else:
            self._round = won.following
            self._counter = max(self._counter, self._round.ballot.counter)
            self._propose(settled=won.ballot)

    def _prepare(self) -> None:
        self._cancel()
        self._own = self._own_vote()
        self._counter = max(self._counter, self._own.vote.promised.counter) + 1
        self._tries = 0
        self._voted = {}
        self._round = Round(Ballot(self._counter, self._context.me.id, self._boot), self._guess)
        self._ask()

    def _propose(self, settled: Ballot | None = None) -> None:
        assert self._round is not None
        start = found_with_votes(self._round, self._voted)
        if start is None:
            return
        wanted, found = self._wanted[0], start.cell
        self._refusal, settled = None, settled or start.settled
        try:
            cell = wanted.change.apply(found, certain=self._round.certain)
        except ChangeRefused as refused:
            if found is None or not refused.over or self._round.finds_chosen:
                self._round = None
                self._decide(refused)
                return
            cell, self._refusal = found, refused  # proposed unchanged, so that the value found is chosen
        if start.conflict:
            self._context.stats["control.votes_differ"] += 1
            cell = RegisterCell(replace(cell.value, grant=None), cell.tail)
        self._contacts.add(cell.contacts)
        self._tail_links = start.links if found is not None and cell.tail == found.tail else ()
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

    def _tell(self, agent: bytes, begun: Round[RegisterCell] | None = None) -> None:
        begun, contact = begun or self._round, self._contacts.get(agent)
        if begun is None or contact is None:
            return
        self._contacts.asked(agent)
        seen = self._counts(agent)
        if begun.proposal is None:
            change = self._wanted[0].change
            founds = self._founds and isinstance(change, Create)
            about = self._job, begun.ballot, founds, change.generation, True, seen.boot, seen.votes
            self._context.send(contact, Prepare(*about, self._own.has(self._wanted[0].terms)))
            return
        cell, own = begun.proposal, self._wanted[0].terms if self._wanted else None
        terms = newest_terms(self.reports, cell.value, own)
        known = self._rosters.get(agent, -1) >= cell.value.roster
        sources = sources_of(self.reports, cell.value.before, agent) if agent in self._behind else ()
        request = self._job, begun.ballot, cell.value, self._settled, None if known else terms, sources
        voted = len(self._tail_links) if self._leaves_out_tail(agent) else 0
        tail = b"" if voted else cell.tail
        self._context.send(contact, Accept(*request, seen.boot, seen.votes, voted), tail, lane=lane(tail))

    def _leaves_out_tail(self, agent: bytes) -> bool:
        """Return whether an acceptor probably has the tail; if not, it is behind and gets the tail."""
        report, links = self.reports.get(agent), self._tail_links
        if self._tries or agent in self._behind or report is None or not report.completes:
            return False
        return agent not in self._voted or is_prefix(links, self._voted[agent][1].links)

    def _again(self) -> None:
        """Look up silent acceptors, which may have moved; repeat the round, or begin one without them."""
        begun = self._round
        if begun is None:
            return
        done = begun.accepted if begun.proposal else tuple(promise.agent for promise in begun.promises)
        for agent in begun.asked:
            if agent not in done and agent != self._context.me.id:
                self._contacts.find(agent, self._tell)
        if begun.refused or self._tries >= ROUND_TRIES:
            self._lose()
        else:
            self._ask()

    # -- answers ---------------------------------------------------------------------------------------

    def on_promised(self, sender: Contact, message: Promised, tail: bytes) -> None:
        begun = self._round
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        try:
            cell, voted = read_promised(self._job, message, tail, self._own)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        self._contacts.put(sender)
        self._voted[sender.id] = message.accepted, voted
        self._contacts.answered(sender.id)
        self.superseded.discard(sender.id)
        terms = self._wanted[0].terms if message.same_terms else message.terms
        self.reports[sender.id] = AcceptorReport(sender, terms, message.latest, message.left_out > 0)
        after = begun.promised(sender.id, message.accepted, cell, sender.incarnation, message.floor)
        self._contacts.add(cell.contacts if cell is not None else ())
        self._round = after
        if after is not begun and after.prepared:
            self._propose()
        else:
            for agent in after.asked:
                if agent not in begun.asked:
                    self._tell(agent)

    def on_accepted(self, sender: Contact, message: Accepted) -> None:
        self.lost.pop(sender.id, None)
        self._contacts.answered(sender.id)
        begun = self._round
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        after = self._round = begun.accepting(sender.id)
        if after.proposal is None:
            return
        self._rosters[sender.id] = after.proposal.value.roster
        self._behind.pop(sender.id, None)
        if after.chosen:
            self._round, self._won, self._failures = None, after, 0
            self._guess = after.asked
            self._votes_again(after.proposal.value)
            self._decide(self._refusal or after.proposal)

    @safeguard("returned-voters:proposer")
    def _votes_again(self, value: RegisterValue) -> None:
        """Count the answers of a voter again that has become an acceptor after the loss of its votes."""
        self.lost = {
            agent: boot for agent, boot in self.lost.items() if not begins_membership(value, agent, boot)
        }

    def on_conflict(self, sender: Contact, message: Conflict) -> None:
        """Handle a refusal; the loss of an acceptor's votes is noted even from a late answer."""
        self._contacts.answered(sender.id)
        self._counter = max(self._counter, message.promised.counter)
        if message.lost_at is not None:
            self.lost[sender.id] = message.lost_at
        if message.superseded:
            self.superseded.add(sender.id)
        begun = self._round
        lacks_tail = message.behind and self._tail_links and sender.id not in self._behind
        for each in (begun, self._won):  # a chosen value goes to all acceptors, because they vote under it
            if lacks_tail and each is not None and each.ballot == message.ballot:
                self._behind[sender.id] = None
                self._tell(sender.id, each)
                return
        if begun is None or begun.ballot != message.ballot or sender.id not in begun.asked:
            self._stray()
            return
        if message.behind:
            self._rosters.pop(sender.id, None)
            self._behind[sender.id] = None
            if self._tries <= 1:
                self._wait(BEHIND_S, self._ask)
            return
        after = self._round = begun.refusing(sender.id)
        if after.hopeless:
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
