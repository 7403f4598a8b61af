"""Multicast down one tree; the answers are aggregated on the way up.

Owns sequence numbers, de-duplication, the log for agents that join later, acknowledgements per hop, the
aggregation of answers with deadlines that shrink per hop, and requests for missed messages. Does not depend
on the meaning of a body.

Rules:
1. The root numbers messages 1, 2, ... within an *era*, a random number that is drawn when an agent becomes
   root.
2. Every agent delivers an (era, seq) once and forwards it to all its children; a repetition is only
   acknowledged.
3. A child acknowledges immediately (not final), and again with all answers of its subtree (final). Its
   deadline is a fraction of its parent's, so that one dead grandchild delays only its own branch.
4. Each agent that joins receives the last LOG_MAX messages, and so does its subtree. Heartbeat digests
   contain the newest (era, seq), and missing messages are requested.

The order of delivery is not guaranteed, because the loss of one message would delay all later ones.

Paper: ELF 2.3 (multicast on the tree), Table 1 (Multicast, OnMulticast). Deviation: multicast is acknowledged
per hop and per subtree, because it carries new job functions; the paper's is not acknowledged. An era is
random, not the root's id and incarnation, because an agent may lose and regain a tree within one incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.context import Context
from elfmesh.srt.events import Delivered, PublishDone
from elfmesh.srt.messages import Multicast, MulticastAck, Pull, ReceivedUpTo
from elfmesh.srt.multicast_log import LOG_MAX, Logged, PendingChild, ReceivedNumbers, Record

ERAS_MAX = 64
"""Maximum number of eras that are remembered: more than the log can contain, so that no replay is delivered
twice."""
RECORDS_MAX = 128
"""Maximum number of multicasts with state; beyond it, the oldest are finished early with the answers that
they have."""
BODY_BYTES_MAX = 1 << 20
"""Maximum number of bytes of a body, because every agent of the tree stores LOG_MAX of them."""
SHRINK = 0.85
"""A child's time for answers, as a fraction of its parent's remaining time."""
RETRY_S = 0.3
RETRY_S_MAX = 2.0
PATIENCE_S = 0.5
"""Time after which a child that has the message is asked for its answers again."""
SPREAD_S = 5.0
"""Time for which a message without answers is repeated to a silent child; afterwards digests and pulls
deliver it."""
LINGER_S = 5.0
"""Time for which a finished aggregation can be requested again."""
PULL_S = 0.5
PULLS_MAX = 5
"""Pulls without progress after which missing messages are given up and counted."""

USER, RECOLLECT, HASTEN = 0, 1, 2


@safeguard("multicast-retry")
def retry_s(tries: int) -> float:
    return min(RETRY_S_MAX, RETRY_S * 2.0**tries)


class Multicasts:
    """Multicasts of one tree at one agent.

    Args:
        context: context of the forest.
        tree: id of the tree.
        order: executes a message for the forest itself (kind, body).
        children: returns the children's contacts, in order.
        size: returns the known members in the subtree of a child.
    """

    def __init__(
        self,
        context: Context,
        tree: bytes,
        order: Callable[[int, bytes], None],
        children: Callable[[], Iterable[Contact]],
        size: Callable[[bytes], int],
    ) -> None:
        self._context = context
        self._tree = tree
        self._order = order
        self._children = children
        self._size = size
        self.subscribed = False
        self.era = 0
        self._seq = 0
        self._log: dict[tuple[int, int], Logged] = {}
        self._received: dict[int, ReceivedNumbers] = {}
        self._records: dict[tuple[int, int], Record] = {}
        self._delivered: dict[tuple[int, int], None] = {}
        self._pulled_at = float("-inf")
        self._pulls = 0

    # -- root

    def begin_era(self) -> None:
        self.era = self._context.rng.getrandbits(63)
        self._seq = 0

    def publish(self, kind: int, body: bytes, timeout_s: float, token: int, now: float) -> None:
        """Multicast from the root.

        Raises:
            ValueError: The body exceeds the limit.
        """
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"a multicast of {len(body)} bytes is over {BODY_BYTES_MAX}")
        self._seq += 1
        collects = kind == USER
        deadline = now + (timeout_s if collects else SPREAD_S)
        record = Record(self.era, self._seq, kind, body, None, deadline, token, collects)
        self._take(record, now)

    # -- downwards

    def received(self, sender: Contact, message: Multicast, body: bytes, now: float) -> None:
        key = (message.era, message.seq)
        if len(body) > BODY_BYTES_MAX or message.seq < 1 or not 0 <= message.budget_s < 86_400:
            self._context.count("malformed")
            return
        if self._window(message.era, message.seq).has(message.seq):
            self._again(sender, message, self._records.get(key))
            return
        collects = message.kind == USER and message.budget_s > 0
        deadline = now + (message.budget_s if collects else SPREAD_S)
        record = Record(message.era, message.seq, message.kind, body, sender, deadline, 0, collects)
        self._take(record, now)
        if not record.done or not collects:
            self._context.send(sender, MulticastAck(self._tree, *key, not collects))
        window = self._received[message.era]
        if window.upto < message.seq:
            self._pull(sender, now)

    def _again(self, sender: Contact, message: Multicast, record: Record | None) -> None:
        if record is None or not record.collects:
            self._context.send(sender, MulticastAck(self._tree, message.era, message.seq, True))
            return
        if record.parent is not None and message.budget_s > 0:
            record.parent = sender
        if record.done and record.parent is not None:
            self._report(record)
        else:
            self._context.send(sender, MulticastAck(self._tree, message.era, message.seq, False))

    def _take(self, record: Record, now: float) -> None:
        key = (record.era, record.seq)
        self._window(record.era, record.seq).add(record.seq)
        self._log[key] = Logged(record.era, record.seq, record.kind, record.body)
        while len(self._log) > LOG_MAX:
            self._log.pop(next(iter(self._log)))
        self._records[key] = record
        while len(self._records) > RECORDS_MAX:
            oldest = self._records[next(iter(self._records))]
            self._finish(oldest)
            del self._records[oldest.era, oldest.seq]
        for child in self._children():
            if record.parent is None or child.id != record.parent.id:
                self._pass_on(record, child, now)
        if record.kind != USER:
            self._order(record.kind, record.body)
        elif self.subscribed:
            record.own = record.collects
            record.expected += 1
            self._deliver(record.era, record.seq, record.body)
        self._settle(record)

    def _deliver(self, era: int, seq: int, body: bytes) -> None:
        self._delivered[era, seq] = None
        while len(self._delivered) > 4 * LOG_MAX:
            self._delivered.pop(next(iter(self._delivered)))
        self._context.emit(Delivered(self._tree, seq, body))

    def _pass_on(self, record: Record, child: Contact, now: float) -> None:
        hop = record.hops.setdefault(child.id, PendingChild(child, now))
        budget = max(0.0, (record.deadline - now) * SHRINK) if record.collects else 0.0
        wait = PATIENCE_S if hop.reached else retry_s(hop.tries)
        wait *= self._context.rng.uniform(0.9, 1.1)
        hop.tries += 1
        hop.due = now + wait
        if hop.tries > 1:
            self._context.count("multicast_again")
        message = Multicast(self._tree, record.era, record.seq, record.kind, budget)
        self._context.send(child, message, record.body)

    # -- answers

    def answer(self, seq: int, body: bytes) -> None:
        """Process the host's answer to the newest delivered message of that number."""
        for record in reversed(self._records.values()):
            if record.seq == seq and record.own:
                record.own = False
                record.answers[self._context.me.id] = body
                self._settle(record)
                return
        self._context.count("answer_late")

    def acknowledged(self, sender: Contact, message: MulticastAck, payload: bytes) -> None:
        record = self._records.get((message.era, message.seq))
        hop = record.hops.get(sender.id) if record is not None else None
        if record is None or hop is None:
            return
        hop.reached = True
        if message.final:
            del record.hops[sender.id]
            try:
                answers = (
                    msgspec.msgpack.decode(payload, type=tuple[tuple[bytes, bytes], ...]) if payload else ()
                )
            except msgspec.DecodeError:
                self._context.count("malformed")
                answers = ()
            for agent, body in answers:
                record.answers.setdefault(agent, body)
            record.expected += max(message.expected, 0)
            self._settle(record)

    def _settle(self, record: Record) -> None:
        if not record.hops and not record.own:
            self._finish(record)

    def _finish(self, record: Record) -> None:
        if record.done:
            return
        record.done = True
        record.own = False
        record.expected += sum(self._size(child) for child in record.hops)
        record.hops.clear()
        if record.parent is not None:
            if record.collects:
                self._report(record)
        elif record.kind == USER:
            answers = tuple(record.answers.items())
            expected = max(record.expected, len(answers))
            self._context.emit(PublishDone(self._tree, record.seq, answers, expected, record.token))

    def _report(self, record: Record) -> None:
        assert record.parent is not None
        payload = msgspec.msgpack.encode(tuple(record.answers.items()))
        while len(payload) > DATA_FRAME_BYTES_MAX:
            self._context.count("answers_dropped")
            record.answers.popitem()
            payload = msgspec.msgpack.encode(tuple(record.answers.items()))
        ack = MulticastAck(self._tree, record.era, record.seq, True, record.expected)
        self._context.send(record.parent, ack, payload)

    # -- children and subscription

    @safeguard("multicast-latecomers")
    def child_joined(self, child: Contact, received_upto: Iterable[ReceivedUpTo], now: float) -> None:
        """Replay what the child has missed; ask it for answers that are still collected."""
        known = {each.era: each.upto for each in received_upto}
        for key, logged in list(self._log.items()):
            record = self._records.get(key)
            asks = record is not None and record.collects and not record.done
            if record is not None and asks:
                self._pass_on(record, child, now)
            elif logged.seq > known.get(logged.era, 0):
                message = Multicast(self._tree, logged.era, logged.seq, logged.kind, 0.0)
                self._context.send(child, message, logged.body)

    def child_left(self, child: bytes) -> None:
        for record in list(self._records.values()):
            if record.hops.pop(child, None) is not None:
                self._settle(record)

    def subscribe(self) -> None:
        """Deliver messages to the host from now on, and those in the log."""
        self.subscribed = True
        for key, logged in list(self._log.items()):
            if logged.kind == USER and key not in self._delivered:
                self._deliver(logged.era, logged.seq, logged.body)

    # -- gaps

    @property
    def received_upto(self) -> tuple[ReceivedUpTo, ...]:
        """Return the received ranges per era, newest era last."""
        return tuple(ReceivedUpTo(era, window.upto) for era, window in self._received.items())

    @property
    def newest(self) -> tuple[int, int]:
        """Return the newest era and the highest number received in it; (0, 0) if none was."""
        for era in reversed(self._received):
            return era, self._received[era].newest
        return 0, 0

    def has(self, era: int, seq: int) -> bool:
        """Whether no message up to this one is missing."""
        return seq < 1 or (era in self._received and self._received[era].upto >= seq)

    def notified(self, parent: Contact, era: int, seq: int, now: float) -> None:
        """Process the newest message in the parent's digest."""
        if seq < 1:
            return
        window = self._window(era, min(seq, LOG_MAX))
        window.skip_to(seq - LOG_MAX)
        if window.upto >= seq:
            self._pulls = 0
        elif self._pulls >= PULLS_MAX:
            self._context.count("multicasts_missed", seq - window.upto - len(window.beyond))
            window.skip_to(seq)
            self._pulls = 0
        else:
            self._pull(parent, now)

    def _pull(self, parent: Contact, now: float) -> None:
        if now - self._pulled_at >= PULL_S:
            self._pulled_at = now
            self._pulls += 1
            self._context.count("pulls")
            self._context.send(parent, Pull(self._tree, self.received_upto))

    def _window(self, era: int, seq: int) -> ReceivedNumbers:
        window = self._received.get(era)
        if window is None:
            window = self._received[era] = ReceivedNumbers(max(0, seq - LOG_MAX))
            while len(self._received) > ERAS_MAX:
                self._received.pop(next(iter(self._received)))
        return window

    # -- time

    def tick(self, now: float) -> None:
        for key, record in list(self._records.items()):
            if not record.done and record.deadline <= now:
                self._finish(record)
            elif record.done and record.deadline + LINGER_S <= now:
                del self._records[key]
            elif not record.done:
                for hop in list(record.hops.values()):
                    if hop.due <= now:
                        self._pass_on(record, hop.contact, now)

    @property
    def deadline(self) -> float | None:
        found: float | None = None
        for record in self._records.values():
            if record.done:
                at = record.deadline + LINGER_S
            else:
                at = min([record.deadline, *(hop.due for hop in record.hops.values())])
            if found is None or at < found:
                found = at
        return found
