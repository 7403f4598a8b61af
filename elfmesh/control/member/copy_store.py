"""What an agent keeps for others: contributions to its jobs until their intervals are closed (D-8).

Owns the copies held here and on this agent's disk. Whose copies to hold, and when they are asked for, is said
by others (`copy_sender`, the master).

Invariants: an acknowledgement leaves after the copy is on disk; nothing is kept of a job this agent does not
work on, nor below what is closed; at most `KEPT_BYTES_MAX` are kept, a copy beyond that is not acknowledged.

Paper: Hwang et al. 3 keeps what was sent until it is safe downstream; PPA 3.
Deviation: partial aggregates are kept, not tuples: they are small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from sortedcontainers import SortedDict

from elfmesh.control.closing.copy_recovery import is_sound
from elfmesh.control.context import Context
from elfmesh.control.member.pane_store import PaneStore
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages import pack, unpack
from elfmesh.control.protocol.messages_safety import Keep, Kept, KeptCopy, Surrender
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.srt.coverage import is_in

KEPT_BYTES_MAX = 64 << 20
COPY_BYTES, ENTRY_BYTES = 512, 64
"""What a copy and each of its entries take beside the payload: copies of nothing shall end as well."""

KIND = "kept"


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy and what it counts for."""

    message: Keep
    payload: bytes
    nbytes: int


class CopyStore:
    """The copies at one agent.

    Args:
        context: the way out, and the disk.

    Attributes:
        panes: the chains of open panes that are held here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[tuple[bytes, str], SortedDict[tuple[int, int], _Copy]] = {}
        self.nbytes = 0
        self.panes = PaneStore(context)

    def on_keep(self, sender: Contact, message: Keep, payload: bytes, closed: int | None) -> None:
        """Take a copy and say so; one that is here already is only acknowledged again.

        Args:
            sender: whose copy it is.
            message: what it is of.
            payload: the payloads of all its parts.
            closed: what this agent knows to be closed of the job.
        """
        if sender.id != message.member or not is_sound(message, payload):
            self._context.stats["control.malformed"] += 1
            return
        known = self._kept.get((message.job, message.incarnation), {}).get((message.number, message.start))
        # A number that two masters gave to two members: what counts is whose it is in the newer term.
        news = known is None or known.message.member != message.member or _is_newer(message, known.message)
        if news and (closed is None or message.stop > closed):
            copy = _Copy(message, payload, _bytes_of(message, payload))
            replaced = 0 if known is None else known.nbytes
            if self.nbytes - replaced + copy.nbytes > KEPT_BYTES_MAX:
                self._context.stats["control.kept_refused"] += 1
                return
            self._store(copy)
            self._context.emit(Persist(KIND, _key(message), _written(message, payload)))
        job, incarnation, number = message.job, message.incarnation, message.number
        kept = Kept(job, incarnation, number, message.start, message.rev, message.epoch)
        self._context.send(sender, kept)

    def _store(self, copy: _Copy) -> None:
        message = copy.message
        copies = self._kept.setdefault((message.job, message.incarnation), SortedDict())
        old = copies.get((message.number, message.start))
        self.nbytes += copy.nbytes - (old.nbytes if old is not None else 0)
        copies[message.number, message.start] = copy

    def released(self, job: bytes, incarnation: str, closed: int) -> None:
        """Everything below `closed` is closed: its copies are needed no more."""
        copies = self._kept.get((job, incarnation))
        for place, copy in list(copies.items()) if copies else ():
            if copy.message.stop <= closed and copies is not None:
                del copies[place]
                self.nbytes -= copy.nbytes
                self._context.emit(Persist(KIND, _key(copy.message), b""))

    def stopped(self, job: bytes, incarnation: str) -> None:
        self.released(job, incarnation, 1 << 62)
        self._kept.pop((job, incarnation), None)
        self.panes.stopped(job, incarnation)

    def on_surrender(self, master: Contact, message: Surrender) -> None:
        """The master lacks what members contributed: send it the copies, all that are still open."""
        copies = self._kept.get((message.job, message.incarnation), SortedDict())
        for (number, _), copy in copies.items():
            asked = number == message.number or is_in(message.members, number)
            if asked and copy.message.stop > message.start:
                again = KeptCopy(message.epoch, copy.message)
                about = (message.job, max(copy.message.start, message.start), copy.message.stop)
                self._context.note("sent copies", *about, peer=master.id)
                self._context.send(master, again, copy.payload, lane=BULK_LANE if copy.payload else 0)

    def restored(self, items: Iterable[bytes], jobs: Iterable[tuple[bytes, str]]) -> None:
        """Copies from before a restart, of the jobs (id and incarnation) that this agent worked on."""
        worked_on = dict.fromkeys(jobs)
        for data in items:
            size = int.from_bytes(data[:4])
            try:
                message = unpack(data[4 : 4 + size])
            except ProtocolError:
                self._context.stats["control.malformed"] += 1
                continue
            payload = data[4 + size :]
            if not isinstance(message, Keep):
                self._context.stats["control.malformed"] += 1
            elif (message.job, message.incarnation) in worked_on:
                self._store(_Copy(message, payload, _bytes_of(message, payload)))
            else:
                self._context.emit(Persist(KIND, _key(message), b""))


def _is_newer(message: Keep, known: Keep) -> bool:
    return (known.epoch, known.stop, known.rev) < (message.epoch, message.stop, message.rev)


def _bytes_of(message: Keep, payload: bytes) -> int:
    return len(payload) + COPY_BYTES + ENTRY_BYTES * sum(map(len, message.parts))


def _key(message: Keep) -> bytes:
    incarnation = hashlib.blake2b(message.incarnation.encode(), digest_size=8).digest()
    place = message.number.to_bytes(8) + message.start.to_bytes(8, signed=True)
    return message.job + incarnation + place


def _written(message: Keep, payload: bytes) -> bytes:
    header = pack(message)
    return b"".join((len(header).to_bytes(4), header, payload))
