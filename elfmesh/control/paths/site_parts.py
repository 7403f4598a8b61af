"""Parts that this agent holds as a site of jobs that other agents lead, until their intervals are closed.

Owns these parts and the open part requests. Merges and closes nothing: a new master gets the parts and
decides.

Invariants: a part is held once, whichever root repeats it. A part is dropped when its intervals are closed,
and not stored without room; then the new master waits for the members, which contribute again. A part that
arrives within `PENDING_S` after a request answers this request too, because roots may still send what the
dead master never got.

Paper: Hwang et al. III (stream replicas of one group at several stages).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import UNSET

from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages_parts import Part, PartRequest, SitePart
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.messages import Segment

HELD_BYTES_MAX = 64 << 20
"""Of all jobs of this agent."""

PART_BYTES = 256
"""Size of a part without its payload, at most some entries."""

PENDING_S, REQUESTS_MAX = 2.0, 64
"""How long a request is open, and most of them of one job."""

BULK_LANE = 3


class HeldPart(NamedTuple):
    """The identity of a part; `tree` is None for the job's own tree of the partition."""

    partition: int
    tree: bytes | None
    segment: Segment


@dataclass(frozen=True, slots=True)
class _Request:
    """A request of a master, and until when it is open."""

    origin: Contact
    message: PartRequest
    until: float


@dataclass(slots=True)
class _Held:
    """The parts of one job, as payloads by partition, tree and segment, and the open part requests."""

    incarnation: str
    parts: dict[HeldPart, bytes] = field(default_factory=dict)
    requests: list[_Request] = field(default_factory=list)


class SiteParts:
    """The parts that one agent holds as a site.

    Args:
        terms: returns the newest terms of a job that its member here has, and the closed watermark.
    """

    def __init__(self, context: Context, terms: Callable[[bytes], tuple[Terms, int] | None]) -> None:
        self._context, self._terms = context, terms
        self._jobs: dict[bytes, _Held] = {}
        self.nbytes = 0

    def take(self, message: Part, payload: bytes) -> bool:
        """Hold a part; return False if this agent is no site of the job."""
        held = self._of(message.job)
        if held is None:
            return False
        key = HeldPart(message.partition, message.tree or None, message.segment)
        size = PART_BYTES + len(payload)
        if key in held.parts:
            return True
        if self.nbytes + size > HELD_BYTES_MAX:
            self._context.stats["control.site_no_room"] += 1
            return True
        held.parts[key] = payload
        self.nbytes += size
        now = self._context.now
        held.requests = [each for each in held.requests if each.until > now]
        for each in held.requests:
            self._answer(each, key, payload)
        return True

    def on_part_request(self, sender: Contact, message: PartRequest, payload: bytes) -> None:
        held = self._jobs.get(message.job)
        if held is None or held.incarnation != message.incarnation:
            return
        request = _Request(sender, message, self._context.now + PENDING_S)
        about = sender.id, message.members
        others = [each for each in held.requests if (each.origin.id, each.message.members) != about]
        held.requests = [*others, request][-REQUESTS_MAX:]
        for key, part in held.parts.items():
            self._answer(request, key, part)

    def of(self, job: bytes) -> list[tuple[HeldPart, bytes]]:
        """Return the parts of a job, with their payloads."""
        held = self._jobs.get(job)
        return [] if held is None else list(held.parts.items())

    def released(self, job: bytes, closed: int) -> None:
        """Everything below `closed` is closed."""
        if (held := self._jobs.get(job)) is not None:
            for key in [key for key in held.parts if key.segment.stop <= closed]:
                self.nbytes -= PART_BYTES + len(held.parts.pop(key))

    def stopped(self, job: bytes) -> None:
        """The job has no member here any more."""
        held = self._jobs.pop(job, None)
        if held is not None:
            self.nbytes -= sum(PART_BYTES + len(payload) for payload in held.parts.values())

    def _of(self, job: bytes) -> _Held | None:
        """Return the parts of a job, without those of closed intervals; None: this agent is no site of it."""
        known = self._terms(job)
        sites = () if known is None or not known[0].layout else known[0].layout.sites
        if known is None or all(each.id != self._context.me.id for each in sites):
            return None
        terms, closed = known
        held = self._jobs.get(job)
        if held is None or held.incarnation != terms.manifest.incarnation:
            self.stopped(job)
            held = self._jobs[job] = _Held(terms.manifest.incarnation)
        self.released(job, closed)
        return held

    @safeguard("part-requests")
    def _answer(self, request: _Request, key: HeldPart, payload: bytes) -> None:
        wanted, segment = request.message, key.segment
        lacked = not wanted.members or bits_of(wanted.members) & bits_of(segment.coverage)
        if lacked and segment.epoch == wanted.roster_epoch and segment.stop > wanted.start:
            part = SitePart(wanted.job, wanted.epoch, key.partition, segment, key.tree or UNSET)
            self._context.send(request.origin, part, payload, lane=BULK_LANE)
