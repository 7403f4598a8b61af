"""This agent's votes in the control registers of jobs.

Owns the votes, on disk before they are answered, and what an acceptor must hold before it votes. Proposes
nothing.

Invariants: an acceptor votes only for what a successor could go on from with this acceptor alone: it holds
the terms of the value's roster, its log has every record before the tail, and the tail is stored with the
vote. So whatever a register says is closed, a majority can publish. A value of another job, one that
contradicts itself and a ballot out of bounds are refused and counted. An acceptor that is behind fetches what
it lacks from whoever may have it.

Paper: CASPaxos (Rystsov 2018) 2.2, acceptors. Deviation: a vote is refused while the acceptor is behind; the
paper's values carry no log.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import msgspec

from elfmesh.control.events import Persist
from elfmesh.control.holder import LogCopy
from elfmesh.control.office import Office
from elfmesh.control.register.messages import Accept, Accepted, Conflict, Prepare, Promised
from elfmesh.control.register.rules import NONE, Ballot, Vote
from elfmesh.control.register.value import Cell, RegisterValue, check_cell
from elfmesh.control.terms import Terms
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

VOTES_MAX = 20_000
"""Registers voted in here; beyond it the oldest jobs that are over are forgotten, and no others begun."""

BULK_BYTES = 64 << 10
BULK_LANE = 2


class Custody(Protocol):
    """What this agent holds of jobs for their successors."""

    def held(self, job: bytes) -> tuple[Terms | None, LogCopy | None]:
        """The terms and the copy of the results log."""
        ...

    def keep(self, terms: Terms, roster: int = 0) -> None:
        """Hold these terms, unless newer ones are held; durable before anything that follows.

        Args:
            terms: of a job.
            roster: the register says that this roster is in force: an older one is replaced in any case.
        """
        ...


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """A vote on disk."""

    promised: Ballot
    ballot: Ballot
    value: RegisterValue | None
    tail: bytes


_UNPACK = msgspec.msgpack.Decoder(_Stored)
_PACK = msgspec.msgpack.Encoder()


def lane(payload: bytes) -> int:
    """Small values overtake bulk; large ones must not hold up the control lane."""
    return BULK_LANE if len(payload) > BULK_BYTES else 0


class Acceptors:
    """All registers this agent votes in.

    Args:
        office: the way out.
        custody: what is held here of jobs.
    """

    def __init__(self, office: Office, custody: Custody) -> None:
        self._office, self._custody = office, custody
        self._votes: OrderedDict[bytes, Vote[Cell]] = OrderedDict()
        self._behind: dict[bytes, tuple[Contact, Accept, bytes]] = {}

    def __len__(self) -> int:
        return len(self._votes)

    def vote(self, job: bytes) -> Vote[Cell]:
        """What was promised and accepted so far."""
        return self._votes.get(job) or Vote()

    def voting(self, agent: bytes) -> list[bytes]:
        """The jobs whose register an agent votes in, by the values accepted here; not those that are over."""
        return [
            job
            for job, vote in self._votes.items()
            if vote.value is not None
            and not vote.value.value.deleted
            and any(contact.id == agent for contact in vote.value.contacts)
        ]

    def restored(self, job: bytes, data: bytes) -> None:
        """A vote from before this agent was restarted.

        Raises:
            ProtocolError: it cannot be read: voting on without it could break a promise.
        """
        try:
            stored = _UNPACK.decode(data)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the vote on job {job.hex()} cannot be read: {error}") from None
        cell = None if stored.value is None else Cell(stored.value, stored.tail)
        self._votes[job] = Vote(stored.promised, stored.ballot, cell)

    def prepare(self, sender: Contact, message: Prepare) -> None:
        """A proposer wants a promise."""
        before = self.vote(message.job)
        vote = before.promise(message.ballot)
        if vote is None or not self._has_room(message.job):
            self._refuse(sender, message.job, message.ballot)
            return
        self._store(message.job, before, vote)
        terms, copy = self._custody.held(message.job)
        value, tail = (None, b"") if vote.value is None else (vote.value.value, vote.value.tail)
        latest = None if copy is None else copy.latest
        answer = Promised(message.job, message.ballot, vote.ballot, value, terms, latest)
        self._office.send(sender, answer, tail, lane=lane(tail))

    def accept(self, sender: Contact, message: Accept, tail: bytes) -> None:
        """A proposer wants a value accepted."""
        cell, before = Cell(message.value, tail), self.vote(message.job)
        try:
            check_cell(message.job, cell)
        except ProtocolError:
            self._office.stats["control.malformed"] += 1
            return
        vote = before.accept(message.ballot, cell)
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
        self._office.send(sender, Accepted(message.job, message.ballot))

    def _settle(self, cell: Cell) -> None:
        """This value was chosen: its tail belongs into the log."""
        _, copy = self._custody.held(cell.value.job)
        if copy is not None and copy.incarnation == cell.value.incarnation:
            copy.append(cell.tail)

    def _is_behind(self, sender: Contact, message: Accept, tail: bytes) -> bool:
        """Whether a successor could not go on from what is here; then what lacks is fetched."""
        value = message.value
        if value.deleted:
            return False
        terms, copy = self._custody.held(value.job)
        if terms is None or copy is None or terms.manifest.incarnation != value.incarnation:
            return True
        if terms.version < value.roster:
            return True
        if copy.reaches(value.before):
            return False
        self._catch_up(copy, sender, message, tail)
        return True

    def _catch_up(self, copy: LogCopy, sender: Contact, message: Accept, tail: bytes) -> None:
        """Fetch what lacks: who wants the vote may lack it as well, and any one source may be dead.

        Once it is here the newest request is looked at again, as if it had come only then. If no source has
        it, the proposer asks again until it is decided; each time the sources are tried anew.
        """
        value, job = message.value, message.job
        known = (*message.sources, sender, *Cell(value, tail).contacts, value.master)
        sources = [contact for contact in known if contact.id != self._office.me.id]
        if not sources:
            return

        def fetched() -> None:
            newest = self._behind.pop(job)
            _, held = self._custody.held(job)
            if held is not None and held.reaches(newest[1].value.before):
                self.accept(*newest)

        first = job not in self._behind
        self._behind[job] = (sender, message, tail)
        copy.complete(sources[0], fetched if first else None)
        for contact in sources[1:]:
            copy.complete(contact)

    def _has_room(self, job: bytes) -> bool:
        """Votes on what runs are never forgotten; those on what is over may be, the oldest first."""
        if job in self._votes or len(self._votes) < VOTES_MAX:
            return True
        over = (key for key, vote in self._votes.items() if vote.value and vote.value.value.deleted)
        oldest = next(over, None)
        if oldest is not None:
            del self._votes[oldest]
            self._office.emit(Persist("vote", oldest, b""))
        return oldest is not None

    def _store(self, job: bytes, before: Vote[Cell], vote: Vote[Cell]) -> None:
        if vote == before:
            return
        self._votes[job] = vote
        value, tail = (None, b"") if vote.value is None else (vote.value.value, vote.value.tail)
        data = _PACK.encode(_Stored(vote.promised, vote.ballot, value, tail))
        self._office.emit(Persist("vote", job, data))

    def _refuse(self, sender: Contact, job: bytes, ballot: Ballot, *, behind: bool = False) -> None:
        self._office.stats["control.votes_behind" if behind else "control.votes_refused"] += 1
        self._office.send(sender, Conflict(job, ballot, self.vote(job).promised, behind))
