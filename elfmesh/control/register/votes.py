"""Votes: the acceptors of a value with a grant close complete intervals without the master (D-22).

Owns what this agent votes on, the newest votes of the other acceptors, and their repetition. `paths.site`
makes the records; `grant` has the rules.

Invariants: an acceptor votes only under the ballot that it has accepted last and promised nothing above (G2),
and only on a record that it has. The vote and the record are on disk before it sends either. A record counts
as closed when a majority has voted alike under one ballot (G5); then it is in every later value (G4).

A vote names records by their digests, because the sites make equal ones. It brings the records to a voter
that asks for them: because it lacks a record `LACKS_S` after another has voted on it, or has lacked one of
its last `ALONE` records. A repeated vote brings them to every voter, because those of earlier releases do not
ask.

A link between the proposer and an acceptor may be cut, so that the acceptor votes on under a ballot that has
ended. Another acceptor that gets such a vote sends the value that it has accepted itself. This repeats the
proposer's request, as a slow network might, so it needs no rule: a new round would end the votes of all.

Paper: Hwang et al. III, replication transparency (the first of several replicas that has an answer gives
it). Deviation: an answer counts when a majority has it, so that no replica can give another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.row_pages import is_paged
from elfmesh.control.protocol.lanes import lane
from elfmesh.control.protocol.messages_register import Accept, CumulativeVote
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.custody import Custody
from elfmesh.control.register.grant import closed_by_votes, is_prefix, may_vote
from elfmesh.control.register.voted_chain import RECORDS_MAX, ROWS_BYTES_MAX, VotedChain
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

AGAIN_S = 0.5
"""Pause before a vote is repeated to acceptors that have not voted as far."""

LACKS_S = 0.02
"""Pause before a voter asks for a record on which another has voted, because it may be making the record."""

ALONE = 4
"""Records that a voter makes itself, one after the other, before it stops asking for the next one.

Behind a cut link, a requested part arrives now and then in time.
"""

REPEATS_MAX = 20
"""Repetitions of one vote, because an acceptor may be gone."""

Records = tuple[tuple[ResultRecord, bytes], ...]


@dataclass(slots=True)
class _Tally:
    """The votes under one ballot: links by acceptor, and how many records are known to be closed.

    Attributes:
        since: when this agent has counted a vote under the ballot first, or has accepted its value.
        first: by record, the acceptor whose vote this agent had first.
        before: the same under the ballot before.
        sent: when this agent has sent the value of the ballot to an acceptor that votes under an earlier one.
        asking: the acceptors whose newest vote asks for records; a later ballot begins with them.
        taken: how many records this agent has made since it has asked for one or has taken one, and from
            whom; a later ballot begins with it.
        asked: number of records that this agent had when it asked for the next one.
    """

    ballot: Ballot
    since: float
    asking: set[bytes] = field(default_factory=set)
    links: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    first: list[bytes] = field(default_factory=list)
    closed: int = 0
    repeats: int = 0
    taken: tuple[int, bytes] = (0, b"")
    before: list[bytes] = field(default_factory=list)
    asked: int = -1
    sent: dict[bytes, float] = field(default_factory=dict)

    def voted(self, acceptor: bytes, links: tuple[bytes, ...]) -> None:
        self.links[acceptor] = links
        self.first += [acceptor] * (len(links) - len(self.first))


class Votes:
    """The votes of one agent on complete intervals, in all registers.

    Args:
        custody: has the terms that an acceptor of this agent's value needs.

    Attributes:
        closed: called with a job and records that votes have closed, in order.
        leaves_out: returns whether this agent holds something that a record leaves out; then it does not
            vote on it.
    """

    def __init__(self, context: Context, acceptors: Acceptors, custody: Custody) -> None:
        self._context, self._acceptors, self._custody = context, acceptors, custody
        self._tallies: dict[bytes, _Tally] = {}
        self._alarm = Alarm(context, self._repeat)
        self._lacking: dict[bytes, Contact] = {}
        """By job whose next record this agent lacks, a voter that has voted on it."""
        self._ask_alarm = Alarm(context, self._ask)
        self.closed: Callable[[bytes, Records], None] = lambda job, records: None
        self.leaves_out: Callable[[bytes, ResultRecord], bool] = lambda job, record: False

    def grant(self, job: bytes) -> tuple[VotingGrant, RegisterCell] | None:
        """Return the grant under which this agent may vote, and the value that holds it; None: none."""
        vote = self._acceptors.vote(job)
        if not may_vote(vote) or vote.value is None or vote.value.grant is None:
            return None
        return vote.value.grant, vote.value

    def last(self, job: bytes) -> int | None:
        """Return the interval of the last record on which this agent has voted, or of the value's last."""
        cell = self._acceptors.vote(job).value
        last = self._acceptors.chain(job).last
        return last if last is not None or cell is None else cell.value.latest

    def voters_on(self, job: bytes, index: int) -> tuple[tuple[Contact, ...], tuple[Contact, ...]] | None:
        """Return the voters whose vote on an open interval this agent has, and the others.

        Returns None if no grant is in force at this agent.
        """
        if self.grant(job) is None:
            return None
        below = sum(record.index < index for record, _ in self._acceptors.chain(job).records)
        links, voters = self._of(job).links, self._voters(job)
        voted = tuple(voter for voter in voters if len(links.get(voter.id, ())) > below)
        return voted, tuple(voter for voter in voters if voter not in voted)

    def first_votes(self, job: bytes) -> dict[bytes, float]:
        """Return in which share of the newest voted records this agent had a voter's vote first."""
        tally = self._of(job) if self.grant(job) is not None else None
        first = [] if tally is None else tally.first or tally.before
        return {voter.id: first.count(voter.id) / len(first) for voter in self._voters(job) if first}

    def accepted(self, job: bytes) -> None:
        """This agent may have accepted another value."""
        if job in self._tallies:
            self._of(job)

    def cast(self, job: bytes, record: ResultRecord, rows: bytes) -> bool:
        """Vote on the next record of a job; return whether this agent has voted on it, now or before."""
        if self.grant(job) is None:
            return False
        chain = self._acceptors.chain(job)
        if chain.last is not None and record.index <= chain.last:
            return any(known.index == record.index for known, _ in chain.records)
        if not self._extend(job, record, rows):
            return False
        tally = self._of(job)
        tally.taken = tally.taken[0] + 1, tally.taken[1]
        self._tell(job, tally.asking)
        self._count(job)
        return True

    def _extend(self, job: bytes, record: ResultRecord, rows: bytes) -> bool:
        chain = self._acceptors.chain(job)
        if not chain.has_room or len(rows) > ROWS_BYTES_MAX or is_paged(rows):
            return False
        if record.before != self.last(job):
            return False
        self._acceptors.vote_on(job, chain.extended(record, rows))
        about = (job, record.first, record.index + 1)
        self._context.note("voted", *about, f"{record.state} rev {record.rev}", leads=False)
        return True

    def _of(self, job: bytes) -> _Tally:
        ballot = self._acceptors.vote(job).ballot
        known = self._tallies.get(job)
        if known is None or known.ballot != ballot:
            old, known = known, _Tally(ballot, self._context.now)
            if old is not None:
                known.asking, known.taken, known.before = old.asking, old.taken, old.first or old.before
            self._tallies[job] = known
        known.voted(self._context.me.id, self._acceptors.chain(job).links)
        return known

    def _voters(self, job: bytes) -> tuple[Contact, ...]:
        cell = self._acceptors.vote(job).value
        return () if cell is None else cell.value.acceptors

    def _tell(self, job: bytes, asking: Collection[bytes] = ()) -> None:
        """Send this agent's vote to all voters, with the records to those that ask for them."""
        tally = self._of(job)
        tally.repeats = 0
        for voter in self._voters(job):
            self._send(job, voter, brings=voter.id in asking)
        self._alarm.wake(self._context.now + AGAIN_S)

    def _send(self, job: bytes, voter: Contact, *, brings: bool) -> None:
        tally, chain, cell = self._of(job), self._acceptors.chain(job), self._acceptors.vote(job).value
        if cell is None or voter.id == self._context.me.id:
            return
        known, begin = tally.links.get(voter.id, ()), len(chain.links)
        if brings:
            begin = len(known) if is_prefix(known, chain.links) else 0
        page = chain.page(begin)
        about = job, cell.value.incarnation, tally.ballot, chain.links, begin
        asks = tally.taken[0] < ALONE and tally.taken[1] == voter.id
        self._context.send(voter, CumulativeVote(*about, self._acceptors.count, asks), page, lane=lane(page))

    def _repeat(self) -> None:
        """Send the votes again to acceptors that have not voted as far."""
        again = False
        for job in list(self._tallies):
            chain = self._acceptors.chain(job)
            tally = self._tallies[job]
            if tally.ballot != self._acceptors.vote(job).ballot:
                if self.grant(job) is None:
                    del self._tallies[job]
                continue
            behind = [
                voter
                for voter in self._voters(job)
                if voter.id != self._context.me.id
                and not is_prefix(chain.links, tally.links.get(voter.id, ()))
            ]
            if behind and tally.repeats < REPEATS_MAX:
                tally.repeats, again = tally.repeats + 1, True
                for voter in behind:
                    self._send(job, voter, brings=True)
        if again:
            self._alarm.wake(self._context.now + AGAIN_S)

    def on_cumulative_vote(self, sender: Contact, message: CumulativeVote, payload: bytes) -> None:
        """Take another acceptor's vote, and its records if this agent lacks them."""
        job, vote = message.job, self._acceptors.vote(message.job)
        cell = vote.value
        if message.ballot == NONE or vote.ballot != message.ballot or cell is None:
            self._context.stats["control.stray_votes"] += 1  # it is repeated, if this value is on its way
            self._level(sender, message)
            return
        if all(voter.id != sender.id for voter in cell.value.acceptors):
            self._context.stats["control.misplaced"] += 1
            return
        if len(message.links) > RECORDS_MAX:  # comparing chains costs the square of their links
            self._context.stats["control.malformed"] += 1
            return
        fresh = len(self._of(job).first)
        try:
            self._take(sender, message, VotedChain.of_page(payload).records)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        tally = self._of(job)
        if len(message.links) > len(tally.links.get(sender.id, ())):
            del tally.first[fresh:]  # this agent's votes on the sender's records came after the sender's
            tally.voted(sender.id, message.links)
        self._count(job)
        self._answer(job, sender, asks=message.asks)
        if self._lacks(job, sender) and tally.asked != len(self._acceptors.chain(job).links):
            if job not in self._lacking or not self._lacks(job, self._lacking[job]):
                self._lacking[job] = sender  # the first one, which has the record soonest
            self._ask_alarm.wake(self._context.now + LACKS_S)

    @safeguard("records-on-request")
    def _answer(self, job: bytes, voter: Contact, *, asks: bool) -> None:
        """Send the records that a voter asks for, now and with later votes."""
        tally, links = self._of(job), self._acceptors.chain(job).links
        known = tally.links.get(voter.id, ())
        if not asks:
            tally.asking.discard(voter.id)
            return
        tally.asking.add(voter.id)
        if len(known) < len(links) and is_prefix(known, links):
            self._send(job, voter, brings=True)

    def _lacks(self, job: bytes, voter: Contact) -> bool:
        """Return whether this agent may vote, and a voter has voted on the record after its last one."""
        known, links = self._of(job).links.get(voter.id, ()), self._acceptors.chain(job).links
        return len(links) < len(known) and is_prefix(links, known) and self.grant(job) is not None

    def _ask(self) -> None:
        """Ask for the records that this agent still lacks; a repeated vote brings them, if that is lost."""
        lacking, self._lacking = self._lacking, {}
        for job, voter in lacking.items():
            if self._lacks(job, voter):
                tally = self._of(job)
                tally.asked, tally.taken = len(self._acceptors.chain(job).links), (0, voter.id)
                self._send(job, voter, brings=False)

    @safeguard("stale-voters-get-the-value")
    def _level(self, sender: Contact, message: CumulativeVote) -> None:
        """Send the value to a voter of an earlier ballot, or show a voter of a later one what this agent has.

        Not at once, because the value is usually on its way from the proposer.
        """
        job, now = message.job, self._context.now
        vote, chain = self._acceptors.vote(job), self._acceptors.chain(job)
        cell = vote.value
        if cell is None or all(voter.id != sender.id for voter in cell.value.acceptors):
            return
        tally = self._of(job)
        if message.ballot > vote.ballot:
            about = job, cell.value.incarnation, vote.ballot, chain.links, len(chain.links)
            self._context.send(sender, CumulativeVote(*about, self._acceptors.count))
        elif now - tally.sent.get(sender.id, tally.since) >= AGAIN_S:
            tally.sent[sender.id] = now
            value = Accept(job, vote.ballot, cell.value, terms=self._custody.held(job)[0])
            self._context.send(sender, value, cell.tail, lane=lane(cell.tail))
            if chain.links:
                self._send(job, sender, brings=True)

    def _take(self, sender: Contact, message: CumulativeVote, records: Records) -> None:
        """Vote on the records that continue this agent's own vote."""
        job, grew = message.job, False
        for at, (record, rows) in enumerate(records, message.begin):
            chain = self._acceptors.chain(job)
            if at != len(chain.links) or not is_prefix(chain.links, message.links):
                continue
            known = self.grant(job)
            if known is None or record.epoch != known[0].epoch or self.leaves_out(job, record):
                break
            if chain.extended(record, rows).links[-1:] != message.links[at : at + 1]:
                raise ProtocolError("a vote whose digests are not those of its records")
            if not self._extend(job, record, rows):
                break
            grew, self._of(job).taken = True, (0, sender.id)
        if grew:
            self._tell(job)

    def _count(self, job: bytes) -> None:
        """Publish what a majority has voted, as far as this agent has the records."""
        tally, cell = self._of(job), self._acceptors.vote(job).value
        if cell is None:
            return
        votes = ((agent, tally.ballot, links) for agent, links in tally.links.items())
        closed = closed_by_votes(tally.ballot, votes, cell.groups[-1])
        chain = self._acceptors.chain(job)
        if len(closed) > tally.closed and is_prefix(closed, chain.links):
            records, tally.closed = chain.records[tally.closed : len(closed)], len(closed)
            self.closed(job, records)
