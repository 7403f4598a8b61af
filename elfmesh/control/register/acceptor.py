"""Acceptors: the votes of this agent in the control registers of jobs.

Owns the votes, which are on disk before the agent answers, and the data that an acceptor must have before it
votes. Proposes nothing.

Invariants: an acceptor votes only for a value from which a successor could continue with this acceptor alone.
It has the terms of the value's roster. Its log had every record before the tail (a record that is damaged
later is a hole, which is filled). It stores the tail with the vote, after the pages of rows that the records
name. Therefore a majority can publish all records of closed intervals. The acceptor refuses and counts a
value of another job, an inconsistent value, and a ballot out of bounds. An acceptor that lags behind fetches
the missing data from any agent that may have it. An acceptor that has lost its votes refuses, and reports the
loss, until an exchange makes it an acceptor again (`lost_votes.py`). Votes of an earlier generation of a job
are void once the agent knows a later one (`control/requests/recovery.py`). Only the newest votes on deleted
jobs are kept (`ended.py`).

Paper: CASPaxos (Rystsov 2018) 2.2, acceptors. Deviation: an acceptor refuses to vote while it lags behind,
because the paper's values carry no log.
"""

from __future__ import annotations

from collections import OrderedDict

from elfmesh.control.consensus.rules import NONE, Ballot, Vote
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import (
    GENERATION_BITS,
    RegisterCell,
    RegisterValue,
    check_cell,
    generation,
)
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.lanes import lane
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Chosen,
    Conflict,
    Outdated,
    Prepare,
    Promised,
)
from elfmesh.control.register import grant
from elfmesh.control.register.custody import Custody
from elfmesh.control.register.ended import ENDED_MAX, EndedJobs
from elfmesh.control.register.ended import KIND as ENDED
from elfmesh.control.register.left_out import OwnVote, parts_for, tail_of
from elfmesh.control.register.lost_votes import KIND as LOST
from elfmesh.control.register.lost_votes import LostVotes, begins_membership, encode_loss, found_loss
from elfmesh.control.register.stored_vote import decode_vote, encode_vote
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

VOTES_MAX = 20_000
"""Maximum number of registers with a vote of this agent; it refuses votes in further ones."""

COUNT = "vote-count"
"""Kind of the stored number of votes of this agent."""

LOST_BITS = 40
"""After a loss the number of votes starts at the boot of the loss, shifted by this number of bits."""


class Acceptors:
    """The acceptors of one agent.

    Args:
        custody: state of jobs at this agent.
    """

    def __init__(self, context: Context, custody: Custody) -> None:
        self._context, self._custody = context, custody
        self._votes: OrderedDict[bytes, Vote[RegisterCell]] = OrderedDict()
        self._chains: dict[bytes, VotedChain] = {}
        self._behind: dict[bytes, tuple[Contact, Accept, bytes]] = {}
        self.lost = LostVotes()
        self.ended = EndedJobs()
        self.count = 0
        """Number of votes of all boots."""

    def __len__(self) -> int:
        return len(self._votes)

    def vote(self, job: bytes) -> Vote[RegisterCell]:
        return self._votes.get(job) or Vote(self.ended.floor.ballot)

    def chain(self, job: bytes) -> VotedChain:
        """Return the records on which this acceptor has voted under the ballot that it has accepted."""
        return self._chains.get(job, VotedChain())

    def own(self, job: bytes) -> OwnVote:
        return OwnVote(self.vote(job), self.chain(job))

    def vote_on(self, job: bytes, chain: VotedChain) -> None:
        """Vote on more records under the accepted ballot; the vote is durable before later effects (G2)."""
        self._chains[job] = chain
        self._persist(job, self._votes[job])

    def voting(self, agent: bytes) -> list[bytes]:
        return [
            job
            for job, vote in self._votes.items()
            if vote.value is not None
            and not vote.value.value.deleted
            and any(contact.id == agent for contact in vote.value.contacts)
        ]

    def over(self, job: bytes) -> RegisterValue | None:
        cell = self.vote(job).value
        if cell is None or not cell.is_over or self._is_void(job, cell.value.epoch):
            return None
        return cell.value

    def restored(self, job: bytes, data: bytes) -> None:
        """Restore a vote of an earlier boot.

        Raises:
            ProtocolError: the vote cannot be read; without it the agent could break a promise.
        """
        vote, chain = decode_vote(job, data)
        self._votes[job], self._chains[job] = vote, chain
        cell = vote.value
        self.ended.voted(job, over=cell is not None and cell.is_over)

    def counted(self, data: bytes) -> None:
        """Restore the number of votes of earlier boots."""
        self.count = max(self.count, int.from_bytes(data))

    def lost_since(self) -> None:
        """Start the number of votes above all that other agents may have seen, after a loss."""
        if self.lost.loss is not None:
            self.count = max(self.count, self.lost.loss.boot << LOST_BITS)

    def on_outdated(self, message: Outdated | Prepare | Accept) -> None:
        """Declare this agent's votes lost if another agent has seen a newer answer of this id.

        Until its next boot this agent is an acceptor of no register, because the value that makes it one
        again must be newer than the discovery of the loss.
        """
        loss = found_loss(message.boot, message.votes, self._context.me.incarnation, self.count)
        if loss is None or (self.lost.boot or 0) >= loss.boot:
            return
        self.lost.loss = loss
        for job in [*self._votes]:
            self._context.emit(Persist("vote", job, b""))
            self.lost.refuses(job, self._context.now)
        self._votes.clear()
        self._chains.clear()
        self.ended.clear()
        self._context.emit(Persist(LOST, b"", encode_loss(loss)))

    def on_prepare(self, sender: Contact, message: Prepare) -> None:
        founds = message.founds and sender.id == self._context.me.id
        if self._is_lost(message.job) and not founds:
            self._refuse(sender, message.job, message.ballot)
            return
        begins = message.generation << GENERATION_BITS
        if self._is_void(message.job, begins):
            self._superseded(sender, message.job, begins, message.ballot)
            return
        before = self.vote(message.job)
        if message.generation > generation(self._custody.epoch(message.job)):
            self._custody.admits(message.job, begins, None)
        if before.value is not None and self._is_void(message.job, before.value.value.epoch):
            before = Vote()
        vote = before.promise(message.ballot)
        floor = self.ended.floor.ballot if before.value is None else NONE
        blind = floor != NONE and not message.floors  # an earlier release would treat the job as unknown
        if vote is None or blind or not self._has_room(message.job):
            self._refuse(sender, message.job, message.ballot)
            return
        self._store(message.job, before, vote)
        terms, copy = self._custody.held(message.job)
        value, latest = (
            None if vote.value is None else vote.value.value,
            None if copy is None else copy.latest,
        )
        part = parts_for(message.has, vote.value, self.chain(message.job), terms)
        about = (message.job, message.ballot, vote.ballot, value, part.terms, latest, self.count, floor)
        promised = Promised(*about, len(part.voted), part.left_out, part.same_terms)
        payload = part.tail + part.voted
        self._context.send(sender, promised, payload, lane=lane(payload))

    def on_accept(self, sender: Contact, message: Accept, payload: bytes) -> None:
        tail = tail_of(message, payload, self.own(message.job))
        if tail is None:
            self._refuse(sender, message.job, message.ballot, behind=True)
            return
        cell = RegisterCell(message.value, tail)
        try:
            check_cell(message.job, cell)
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        if self._is_void(message.job, message.value.epoch):
            self._superseded(sender, message.job, message.value.epoch, message.ballot)
            return
        if self._is_excluded(sender, message):
            return
        before = self.vote(message.job)
        vote = grant.accept(before, message.ballot, cell)
        if vote is None or not self._has_room(message.job):
            self._refuse(sender, message.job, message.ballot)
            return
        if message.terms is not None and message.terms.manifest.job_id == message.job:
            self._custody.keep(message.terms, message.value.roster)
        if before.value is not None and message.settled == before.ballot != NONE:
            self._settle(before.value)
        if self._is_behind(sender, message, tail):
            self._refuse(sender, message.job, message.ballot, behind=True)
            return
        self._store(message.job, before, vote)
        latest, value = None if before.value is None else before.value.value.latest, message.value
        if value.latest is not None and value.latest != latest:
            first = FIRST if value.before is None else value.before + 1
            self._context.note("accepted", message.job, first, value.latest + 1, "as a voter")
        self._context.send(sender, Accepted(message.job, message.ballot, self.count))

    @safeguard("readable-when-chosen")
    def on_chosen(self, message: Chosen) -> None:
        vote = self.vote(message.job)
        if vote.value is not None and vote.ballot == message.ballot != NONE:
            self._settle(vote.value)

    @safeguard("generations")
    def _is_void(self, job: bytes, epoch: int) -> bool:
        return generation(epoch) < generation(self._custody.epoch(job))

    def _superseded(self, sender: Contact, job: bytes, epoch: int, ballot: Ballot) -> None:
        self._custody.admits(job, epoch, sender)
        self._context.stats["control.votes_superseded"] += 1
        self._context.send(sender, Conflict(job, ballot, self.vote(job).promised, superseded=True))

    @safeguard("lost-votes")
    def _is_lost(self, job: bytes) -> bool:
        return self.lost.loss is not None and job not in self._votes

    def _begins(self, value: RegisterValue) -> bool:
        return begins_membership(value, self._context.me.id, self.lost.boot or 0)

    @safeguard("returned-voters:acceptor")
    def _is_excluded(self, sender: Contact, message: Accept) -> bool:
        """Return whether lost votes forbid a vote on a value; the acceptor then refuses it.

        The value that makes this agent an acceptor again may wait for records. Later values wait, too,
        because the register would leave out an agent that refuses them because of lost votes.
        """
        job = message.job
        if not self._is_lost(job) or self._begins(message.value):
            return False
        waiting = self._behind.get(job)
        returns = waiting is not None and self._begins(waiting[1].value)
        if waiting is not None and returns:
            self.on_accept(*waiting)
        if self._is_lost(job):
            self._refuse(sender, job, message.ballot, behind=returns)
            return True
        return False

    def settle(self, job: bytes) -> LogCopy | None:
        """Append the tail of a chosen value to the log; return the log if it reaches the end of the tail."""
        cell, copy = self.vote(job).value, self._custody.held(job)[1]
        if cell is None or copy is None or copy.incarnation != cell.value.incarnation:
            return None
        self._settle(cell)
        return copy if copy.reaches(cell.value.latest) else None

    def _settle(self, cell: RegisterCell) -> None:
        _, copy = self._custody.held(cell.value.job)
        if copy is None or copy.incarnation != cell.value.incarnation:
            return
        if copy.reaches(cell.value.before):  # otherwise the agent fetches all missing records with the tail
            copy.append(cell.tail)

    def _is_behind(self, sender: Contact, message: Accept, tail: bytes) -> bool:
        value = message.value
        if value.deleted:
            return False
        terms, copy = self._custody.held(value.job)
        if terms is None or copy is None or terms.manifest.incarnation != value.incarnation:
            return True
        if terms.version < value.roster:
            return True
        if copy.reaches(value.before) and not self._lacks_pages(copy, value, tail):
            return False
        self._catch_up(copy, sender, message, tail)
        return True

    def _catch_up(self, copy: LogCopy, sender: Contact, message: Accept, tail: bytes) -> None:
        """Fetch the missing data from all sources, because the proposer may lack it and a source may be dead.

        Then the acceptor handles the newest request again. If no source has the data, the proposer repeats
        its request, and the acceptor asks the sources again.
        """
        value, job = message.value, message.job
        known = (*message.sources, sender, *RegisterCell(value, tail).contacts, value.master)
        sources = [contact for contact in known if contact.id != self._context.me.id]

        def fetched() -> None:
            newest = self._behind.pop(job)
            _, held = self._custody.held(job)
            if held is None or not held.reaches(newest[1].value.before):
                return
            if not (only_pages and self._lacks_pages(held, newest[1].value, newest[2])):
                self.on_accept(*newest)

        first, only_pages = job not in self._behind, copy.reaches(value.before)
        if sources or only_pages:
            self._behind[job] = (sender, message, tail)
        if only_pages:
            copy.pages.obtain(copy.missing_pages(tail), sources, fetched if first else lambda: None)
        elif sources:
            copy.complete(sources[0], fetched if first else None)
            for contact in sources[1:]:
                copy.complete(contact)

    @safeguard("pages-before-votes")
    def _lacks_pages(self, copy: LogCopy, value: RegisterValue, tail: bytes) -> bool:
        """Return whether pages of rows of a tail are missing.

        Pages that every source has lost are ignored if this agent has voted for the tail, because its pages
        were complete then, and the register must be able to continue.
        """
        lacking = set(copy.missing_pages(tail))
        known = self.vote(value.job).value
        if known is not None and known.value.digest == value.digest:
            lacking -= copy.pages.gone
        return bool(lacking)

    def _has_room(self, job: bytes) -> bool:
        """Return whether the agent may vote on a job, because votes on live jobs are never forgotten."""
        return job in self._votes or len(self._votes) < VOTES_MAX

    def _forget_ended(self) -> None:
        while len(self.ended) > ENDED_MAX and (job := self.ended.oldest) is not None:
            vote = self._votes.pop(job)
            self._chains.pop(job, None)
            epoch = 0 if vote.value is None else vote.value.value.epoch
            self._context.emit(Persist(ENDED, b"", self.ended.forget(job, vote.promised, epoch)))
            self._context.emit(Persist("vote", job, b""))

    def _store(self, job: bytes, before: Vote[RegisterCell], vote: Vote[RegisterCell]) -> None:
        if vote == before:
            return
        if vote.ballot != self.vote(job).ballot:
            self._chains.pop(job, None)
        self._votes[job] = vote
        self.lost.replaced(job)
        self._persist(job, vote)
        self.ended.voted(job, over=vote.value is not None and vote.value.is_over)
        self._forget_ended()

    def _persist(self, job: bytes, vote: Vote[RegisterCell]) -> None:
        self.count += 1
        self._context.emit(Persist("vote", job, encode_vote(vote, self.chain(job))))
        self._context.emit(Persist(COUNT, b"", self.count.to_bytes(8)))

    def _refuse(self, sender: Contact, job: bytes, ballot: Ballot, *, behind: bool = False) -> None:
        lost_at = self.lost.boot if self._is_lost(job) and not behind else None
        if lost_at is not None:
            self.lost.refuses(job, self._context.now)
        reason = "lost" if lost_at is not None else "behind" if behind else "refused"
        self._context.stats[f"control.votes_{reason}"] += 1
        self._context.send(sender, Conflict(job, ballot, self.vote(job).promised, behind, lost_at))
