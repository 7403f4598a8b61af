"""Votes: the acceptors of a value with a grant close complete intervals without the master (D-22).

Owns what this agent votes on, the newest votes of the other acceptors, and their repetition. `paths.site`
makes the records; `grant` has the rules.

Invariants: an acceptor votes only under the ballot that it has accepted last and promised nothing above (G2),
and only on a record that it has. The vote and the record are on disk before it sends either. A record counts
as closed when a majority has voted alike under one ballot (G5); then it is in every later value (G4).

Paper: Hwang et al. III, replication transparency (the first of several replicas that has an answer gives
it). Deviation: an answer counts when a majority has it, so that no replica can give another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.row_pages import is_paged
from elfmesh.control.protocol.lanes import lane
from elfmesh.control.protocol.messages_register import CumulativeVote
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.grant import closed_by_votes, is_prefix, may_vote
from elfmesh.control.register.voted_chain import RECORDS_MAX, ROWS_BYTES_MAX, VotedChain
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

AGAIN_S = 0.5
"""Pause before a vote is repeated to acceptors that have not voted as far."""

REPEATS_MAX = 20
"""Repetitions of one vote, because an acceptor may be gone."""

Records = tuple[tuple[ResultRecord, bytes], ...]


@dataclass(slots=True)
class _Tally:
    """The votes under one ballot: links by acceptor, and how many records are known to be closed."""

    ballot: Ballot
    links: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    closed: int = 0
    repeats: int = 0


class Votes:
    """The votes of one agent on complete intervals, in all registers.

    Attributes:
        closed: called with a job and records that votes have closed, in order.
        leaves_out: returns whether this agent holds something that a record leaves out; then it does not
            vote on it.
    """

    def __init__(self, context: Context, acceptors: Acceptors) -> None:
        self._context, self._acceptors = context, acceptors
        self._tallies: dict[bytes, _Tally] = {}
        self._alarm = Alarm(context, self._repeat)
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

    def cast(self, job: bytes, record: ResultRecord, rows: bytes) -> bool:
        """Vote on the next record of a job; return whether this agent has voted on it, now or before."""
        if self.grant(job) is None:
            return False
        chain = self._acceptors.chain(job)
        if chain.last is not None and record.index <= chain.last:
            return any(known.index == record.index for known, _ in chain.records)
        if not self._extend(job, record, rows):
            return False
        self._tell(job)
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
            known = self._tallies[job] = _Tally(ballot)
        known.links[self._context.me.id] = self._acceptors.chain(job).links
        return known

    def _voters(self, job: bytes) -> tuple[Contact, ...]:
        cell = self._acceptors.vote(job).value
        return () if cell is None else cell.value.acceptors

    def _tell(self, job: bytes) -> None:
        tally, chain = self._of(job), self._acceptors.chain(job)
        tally.repeats = 0
        for voter in self._voters(job):
            self._send(job, voter, tally, chain)
        self._alarm.wake(self._context.now + AGAIN_S)

    def _send(self, job: bytes, voter: Contact, tally: _Tally, chain: VotedChain) -> None:
        cell, known = self._acceptors.vote(job).value, tally.links.get(voter.id, ())
        if cell is None or voter.id == self._context.me.id:
            return
        begin = len(known) if is_prefix(known, chain.links) else 0
        page = chain.page(begin)
        about = job, cell.value.incarnation, tally.ballot, chain.links, begin
        vote = CumulativeVote(*about, self._acceptors.count)
        self._context.send(voter, vote, page, lane=lane(page))

    def _repeat(self) -> None:
        """Send the votes again to acceptors that have not voted as far."""
        again = False
        for job in list(self._tallies):
            chain = self._acceptors.chain(job)
            tally = self._tallies[job]
            if tally.ballot != self._acceptors.vote(job).ballot:
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
                    self._send(job, voter, tally, chain)
        if again:
            self._alarm.wake(self._context.now + AGAIN_S)

    def on_cumulative_vote(self, sender: Contact, message: CumulativeVote, payload: bytes) -> None:
        """Take another acceptor's vote, and its records if this agent lacks them."""
        job, vote = message.job, self._acceptors.vote(message.job)
        cell = vote.value
        if message.ballot == NONE or vote.ballot != message.ballot or cell is None:
            self._context.stats["control.stray_votes"] += 1  # it is repeated, if this value is on its way
            return
        if all(voter.id != sender.id for voter in cell.value.acceptors):
            self._context.stats["control.misplaced"] += 1
            return
        if len(message.links) > RECORDS_MAX:  # comparing chains costs the square of their links
            self._context.stats["control.malformed"] += 1
            return
        try:
            self._take(message, VotedChain.of_page(payload).records)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        tally = self._of(job)
        if len(message.links) > len(tally.links.get(sender.id, ())):
            tally.links[sender.id] = message.links
        self._count(job)

    def _take(self, message: CumulativeVote, records: Records) -> None:
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
            grew = True
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
