"""What an agent keeps for others: contributions to its jobs until their intervals are closed (D-8).

Owns the copies held here and on this agent's disk. Whose copies to hold, and when they are asked for, is said
by others (`safekeeping`, the master).

Invariants: an acknowledgement leaves after the copy is on disk; nothing is kept of a job this agent does not
work on, nor below what is closed; at most `KEPT_BYTES_MAX` are kept, a copy beyond that is not acknowledged.

Paper: "Replicated processing over wide areas" 3 keeps what was sent until it is safe downstream; PPA 3.
Deviation: partial aggregates are kept, not tuples: they are small.
"""

from __future__ import annotations

from sortedcontainers import SortedDict

from elfmesh.control.events import Persist
from elfmesh.control.messages import pack, unpack
from elfmesh.control.messages_safety import Keep, Kept, KeptCopy, Surrender
from elfmesh.control.office import Office
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact

KEPT_BYTES_MAX = 64 << 20
BULK_LANE = 2
KIND = "kept"


class Keeper:
    """The copies at one agent.

    Args:
        office: the way out, and the disk.
    """

    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept: dict[tuple[bytes, str], SortedDict[tuple[int, int], tuple[Keep, bytes]]] = {}
        self.nbytes = 0

    def keep(self, sender: Contact, message: Keep, payload: bytes, closed: int | None) -> None:
        """Take a copy and say so; one that is here already is only acknowledged again.

        Args:
            sender: whose copy it is.
            message: what it is of.
            payload: the payloads of all its parts.
            closed: what this agent knows to be closed of the job.
        """
        if sum(entry.size for part in message.parts for entry in part) != len(payload):
            self._office.stats["control.malformed"] += 1
            return
        copies = self._kept.setdefault((message.job, message.incarnation), SortedDict())
        place = (message.number, message.start)
        known = copies.get(place)
        wanted = closed is None or message.stop > closed
        if wanted and (known is None or known[0].stop < message.stop):
            if self.nbytes + len(payload) > KEPT_BYTES_MAX:
                self._office.stats["control.kept_refused"] += 1
                return
            self._store(message, payload)
            self._office.emit(Persist(KIND, _key(message), _written(message, payload)))
        self._office.send(sender, Kept(message.job, message.incarnation, message.number, message.start))

    def _store(self, message: Keep, payload: bytes) -> None:
        copies = self._kept.setdefault((message.job, message.incarnation), SortedDict())
        old = copies.get((message.number, message.start))
        self.nbytes += len(payload) - (len(old[1]) if old is not None else 0)
        copies[message.number, message.start] = (message, payload)

    def released(self, job: bytes, incarnation: str, closed: int) -> None:
        """Everything below `closed` is closed: its copies are needed no more."""
        copies = self._kept.get((job, incarnation))
        for place, (message, payload) in list(copies.items()) if copies else ():
            if message.stop <= closed and copies is not None:
                del copies[place]
                self.nbytes -= len(payload)
                self._office.emit(Persist(KIND, _key(message), b""))

    def stopped(self, job: bytes, incarnation: str) -> None:
        """The job is over."""
        self.released(job, incarnation, 1 << 62)
        self._kept.pop((job, incarnation), None)

    def surrender(self, master: Contact, message: Surrender) -> None:
        """The master lacks what a member contributed: send it the copies, all that are still open."""
        copies = self._kept.get((message.job, message.incarnation), SortedDict())
        for (number, _), (copy, payload) in copies.items():
            if number == message.number and copy.stop > message.start:
                again = KeptCopy(message.epoch, copy)
                self._office.send(master, again, payload, lane=BULK_LANE if payload else 0)

    def restored(self, data: bytes) -> None:
        """A copy from before a restart."""
        size = int.from_bytes(data[:4])
        try:
            message = unpack(data[4 : 4 + size])
        except ProtocolError:
            self._office.stats["control.malformed"] += 1
            return
        if isinstance(message, Keep):
            self._store(message, data[4 + size :])


def _key(message: Keep) -> bytes:
    """Where a copy lies on the disk."""
    return message.job + message.number.to_bytes(8) + message.start.to_bytes(8, signed=True)


def _written(message: Keep, payload: bytes) -> bytes:
    header = pack(message)
    return b"".join((len(header).to_bytes(4), header, payload))
