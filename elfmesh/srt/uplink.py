"""Uplink: one reliable hop to the parent, or direct delivery to the owner of the root.

Owns the messages in transit to the parent: numbering, size limits, a window, acknowledgements and
retransmission. Does not depend on the meaning of a segment; the parent detects duplicates by coverage.

Invariants: at most WINDOW messages are unacknowledged, and at most WINDOW_BYTES except for the last of them.
Reports (overlap, fault) survive a change of parent; the barrier produces everything else again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import msgspec

from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.barrier import Barrier
from elfmesh.srt.context import Context
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Fault, Frontier, Overlap, SegmentUp
from elfmesh.srt.parts import ENTRIES_MAX, Part
from elfmesh.srt.ports import TreeOwner
from elfmesh.srt.residency import allows

WINDOW = 64
"""Maximum number of messages in transit to a parent: enough to use a connection fully, too few to flood it
after a repair."""
WINDOW_BYTES = 32 << 20
"""Maximum number of bytes in transit: two of the largest messages, one being sent and one being processed."""
QUEUE_MAX = 65_536
"""Maximum number of messages that wait for the window. Further ones are dropped and counted, and a
`Recollect` repeats them."""
RETRY_S = 0.5
RETRY_S_MAX = 8.0
BYTES_PER_S = 8 << 20
"""Rate of a slow link, by which the timeout of a large payload is computed."""


Upward = Frontier | SegmentUp | Overlap | Fault


@dataclass(slots=True)
class Unacknowledged:
    """Message that is not acknowledged yet; `due` is None before it is first sent."""

    message: Upward
    payload: bytes
    due: float | None = None
    tries: int = 0


class Uplink:
    """Uplink of one tree. Implements `ports.Above`."""

    def __init__(self, context: Context, tree: bytes, owner: TreeOwner, payload_bytes_max: int) -> None:
        self._context = context
        self._tree = tree
        self._owner = owner
        self._payload_bytes_max = payload_bytes_max
        self._lane = 1 + int.from_bytes(tree[4:8])  # the first four may be those of a gateway
        self.barrier: Barrier  # set by the tree, which makes both
        self.parent: Contact | None = None
        self._keeps = self.root = False
        self._seq = 0
        self._unsent: deque[int] = deque()
        self._waiting: dict[int, Unacknowledged] = {}
        self._sent: dict[int, Unacknowledged] = {}
        self._sent_bytes = 0

    def next_seq(self) -> int:
        """Return the next hop sequence number; joins use the same count, so that both are ordered."""
        self._seq += 1
        return self._seq

    def __len__(self) -> int:
        return len(self._waiting)

    # -- ports.Above

    def forward(self, part: Part, *, claims: bool) -> None:
        if self.root:
            if part.coverage:
                self._owner.collected(part)
            return
        if self.parent is None:
            return
        if part.keep_in and not (self._keeps and allows(part.keep_in, self.parent)):
            self._context.count("kept_in")
            if not claims:
                return
            part = Part(part.start, part.stop, 0)
        for piece in part.split(ENTRIES_MAX, self._payload_bytes_max):
            message = SegmentUp(
                self._tree,
                self.next_seq(),
                piece.segment(self.barrier.epoch),
                claims,
                piece.alone,
                self.barrier.released,
            )
            self._queue(message, b"".join(item.payload for item in piece.items))

    def announce(self, frontier: int | None) -> None:
        if self.parent is not None:
            self._queue(Frontier(self._tree, self.next_seq(), self.barrier.epoch, frontier))

    @safeguard("repair:trees")
    def overlap(self, start: int, stop: int, attempt: int) -> None:
        self.report(start, stop, attempt, lagging=False)

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        """Report to the root that its order, or an earlier root's, has not reached all agents."""
        self.report(start, stop, attempt, lagging=True)

    def report(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        if self.root:
            self._owner.overlapped(start, stop, attempt, lagging=lagging)
        else:
            epoch = self.barrier.epoch
            self._queue(Overlap(self._tree, self.next_seq(), epoch, start, stop, attempt, lagging))

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None:
        if self.root:
            self._owner.dropped(start, stop, coverage, error)
        else:
            bitmap, epoch = bitmap_of(coverage), self.barrier.epoch
            self._queue(Fault(self._tree, self.next_seq(), epoch, start, stop, bitmap, error[:500]))

    # -- the hop

    def attach(self, parent: Contact | None, *, keeps: bool = False) -> None:
        """Switch to another parent, or to none; only reports are kept.

        `keeps`: the parent keeps the rules of what it gets, so that it may get what has a rule.
        """
        reports = [w.message for w in self._waiting.values() if isinstance(w.message, (Overlap, Fault))]
        self._waiting.clear()
        self._sent.clear()
        self._unsent.clear()
        self._sent_bytes = 0
        self.parent, self._keeps = parent, keeps
        self.root = False
        for report in reports:
            self._queue(report)

    def become_root(self) -> None:
        """Deliver everything to the owner from now on, including reports in transit."""
        reports = [w.message for w in self._waiting.values()]
        self.attach(None)
        self._waiting.clear()
        self._unsent.clear()
        self.root = True
        for report in reports:
            if isinstance(report, Overlap) and report.epoch == self.barrier.epoch:
                start, stop, attempt = report.start, report.stop, report.attempt
                self._owner.overlapped(start, stop, attempt, lagging=report.lagging)

    def acknowledged(self, seq: int) -> None:
        waiting = self._waiting.pop(seq, None)
        if waiting is not None and self._sent.pop(seq, None) is not None:
            self._sent_bytes -= len(waiting.payload)
        self.pump()

    def pump(self) -> None:
        while self.parent is not None and self._unsent and len(self._sent) < WINDOW:
            if self._sent and self._sent_bytes > WINDOW_BYTES:
                break
            seq = self._unsent.popleft()
            waiting = self._waiting.get(seq)
            if waiting is not None:
                self._sent[seq] = waiting
                self._sent_bytes += len(waiting.payload)
                self._transmit(self.parent, waiting)

    def tick(self, now: float) -> None:
        if self.parent is not None:
            for waiting in list(self._sent.values()):
                if waiting.due is not None and waiting.due <= now:
                    self._context.count("retransmitted")
                    self._transmit(self.parent, waiting)

    @property
    def deadline(self) -> float | None:
        if self.parent is None:
            return None
        return min((w.due for w in self._sent.values() if w.due is not None), default=None)

    def release(self, stop: int) -> None:
        """Remove the contents of messages about closed intervals; their claims stay."""
        for waiting in self._waiting.values():
            message = waiting.message
            if isinstance(message, SegmentUp) and message.segment.stop <= stop and message.segment.coverage:
                if waiting.due is not None:
                    self._sent_bytes -= len(waiting.payload)
                empty = msgspec.structs.replace(message.segment, coverage=b"", entries=())
                waiting.message = msgspec.structs.replace(message, segment=empty)
                waiting.payload = b""

    def _queue(self, message: Upward, payload: bytes = b"") -> None:
        if len(self._waiting) >= QUEUE_MAX:
            self._context.count("uplink_dropped")
            return
        self._waiting[message.seq] = Unacknowledged(message, payload)
        self._unsent.append(message.seq)
        self.pump()

    @safeguard("retransmit")
    def _transmit(self, parent: Contact, waiting: Unacknowledged) -> None:
        wait = min(RETRY_S_MAX, RETRY_S * 2**waiting.tries) * self._context.rng.uniform(0.9, 1.2)
        waiting.tries += 1
        waiting.due = self._context.now + wait + len(waiting.payload) / BYTES_PER_S
        lane = self._lane if isinstance(waiting.message, SegmentUp) else 0
        self._context.send(parent, waiting.message, waiting.payload, lane)
