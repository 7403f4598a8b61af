"""Timers, and requests that wait for an answer.

Owns request ids, time-outs and the measured round trips behind them, and the agent's knowledge of its own
lateness: while its loop lags, answers lie unread, so a time-out that fires then is put off, not believed.
Refuses to know what a request means: the caller gets the answer, or None.

A link may be slower than the first time-out. An answer on it comes late and ends no request, but it tells the
round trip, so that the following time-outs are long enough for the link.

Invariants: each request ends exactly once, by its answer or its time-out; an answer counts only if it comes
from the agent that was asked and has the expected type; a timer set again replaces its former setting.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heappop, heappush

from elfmesh.machine import Contact, Message
from elfmesh.overlay.table import Peer

TIMEOUT_FIRST_S = 0.5
"""For an agent whose round trip is unknown."""

TIMEOUT_MIN_S = 0.25
"""Above the pauses of a busy Python process on a fast network."""

TIMEOUT_MAX_S = 1.5
"""A slower agent is of no use as a hop; bounds how long a death goes unseen."""

LATE_MAX = 256
"""Requests remembered after their time-out, for the round trip of a late answer."""

LATE_S_MAX = 10.0
"""An answer that took longer measures a fault, not a link."""

LAG_NOTICED_S = 0.1
"""A tick this late says that the loop was blocked, and that answers may lie unread."""

LAG_CREDIT_MAX_S = 2.0
"""The longest grace after one blockage: afterwards the peers' silence is their own."""

Answered = Callable[[Message | None, Contact], None]


class Timers:
    """Named timers on one heap; cancelling is free, dead heap entries are dropped when they surface."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._set: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._serial = 0

    def set(self, name: Hashable, when: float, then: Callable[[], None]) -> None:
        self._serial += 1
        self._set[name] = (self._serial, then)
        heappush(self._heap, (when, self._serial, name))

    def cancel(self, name: Hashable) -> None:
        self._set.pop(name, None)

    def clear(self) -> None:
        self._heap.clear()
        self._set.clear()

    def fire(self, now: float) -> None:
        """Run everything due, in order of time and setting."""
        heap = self._heap
        last = self._serial  # what these runs set again waits for the next tick
        while heap and heap[0][0] <= now and heap[0][1] <= last:
            _, serial, name = heappop(heap)
            entry = self._set.get(name)
            if entry is not None and entry[0] == serial:
                del self._set[name]
                entry[1]()

    @property
    def deadline(self) -> float | None:
        heap, entries = self._heap, self._set
        while heap:
            when, serial, name = heap[0]
            entry = entries.get(name)
            if entry is not None and entry[0] == serial:
                return when
            heappop(heap)
        return None


class Lateness:
    """How late this agent's own loop is.

    Attributes:
        grace_until: time-outs that fire before this moment are put off.
        usual: smoothed lateness in seconds; part of every time-out.
    """

    __slots__ = ("grace_until", "usual")

    def __init__(self) -> None:
        self.grace_until = float("-inf")
        self.usual = 0.0

    def observe(self, late: float, now: float) -> None:
        """A step runs `late` seconds after the deadline that was asked for."""
        if late > LAG_NOTICED_S:
            self.grace_until = max(self.grace_until, now + min(late, LAG_CREDIT_MAX_S))
        self.usual += (min(max(late, 0.0), LAG_CREDIT_MAX_S) - self.usual) / 16


class _Call:
    __slots__ = ("done", "expected", "sent", "timeout", "to")

    def __init__(
        self, to: Contact, expected: type[Message], done: Answered, sent: float, timeout: float
    ) -> None:
        self.to, self.expected, self.done, self.sent, self.timeout = to, expected, done, sent, timeout

    def answered_by(self, sender: Contact, message: Message) -> bool:
        return self.to.id in (b"", sender.id) and isinstance(message, self.expected)


class Calls:
    """Requests in flight of one agent.

    Args:
        first_rid: where request ids start; random, so that answers to a former boot match nothing.
    """

    def __init__(self, timers: Timers, lateness: Lateness, first_rid: int) -> None:
        self._timers = timers
        self._lateness = lateness
        self._rid = first_rid
        self._waiting: dict[int, _Call] = {}
        self._overdue_calls: OrderedDict[int, _Call] = OrderedDict()  # oldest first, at most LATE_MAX
        self.strangers = RoundTrip()
        self.now = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_rid(self) -> int:
        self._rid += 1
        return self._rid

    def timeout(self, peer: Peer | None, least: float = TIMEOUT_MIN_S) -> float:
        """Seconds to wait for an answer: round trip and its spread, within bounds, plus our own lag."""
        if peer is None or peer.rtt < 0:
            patience = max(TIMEOUT_FIRST_S, _patience(self.strangers, least))
        else:
            patience = _patience(peer, least)
        return patience + 2 * self._lateness.usual

    def wait(self, rid: int, to: Contact, expected: type[Message], done: Answered, timeout: float) -> None:
        """Await the answer to request `rid`, which the caller sends; `done` gets it, or None in the end."""
        self._waiting[rid] = _Call(to, expected, done, self.now, timeout)
        self._timers.set(rid, self.now + timeout, lambda: self._overdue(rid))

    def _overdue(self, rid: int) -> None:
        call = self._waiting[rid]
        if self.now < self._lateness.grace_until:
            self._timers.set(rid, self._lateness.grace_until + call.timeout, lambda: self._overdue(rid))
            return
        del self._waiting[rid]
        if len(self._overdue_calls) >= LATE_MAX:
            self._overdue_calls.popitem(last=False)
        self._overdue_calls[rid] = call
        call.done(None, call.to)

    def match(self, rid: int, sender: Contact, message: Message) -> tuple[float, Answered] | None:
        """The round trip and the asker of an answer, or None if no caller waits for it. Ends the request."""
        call = self._waiting.get(rid)
        if call is None or not call.answered_by(sender, message):
            return None
        del self._waiting[rid]
        self._timers.cancel(rid)
        return self.now - call.sent, call.done

    def late(self, rid: int, sender: Contact, message: Message) -> float | None:
        """The round trip of an answer to a request that has timed out, or None if it is none."""
        call = self._overdue_calls.get(rid)
        if call is None or not call.answered_by(sender, message):
            return None
        del self._overdue_calls[rid]
        return self.now - call.sent if self.now - call.sent <= LATE_S_MAX else None

    def clear(self) -> None:
        """Forget all requests without a word to their askers."""
        self._waiting.clear()
        self._overdue_calls.clear()


class RoundTrip:
    """An estimate of round trips, as each `Peer` has one: here of first requests to agents.

    Attributes:
        rtt: smoothed round trip in seconds, negative until measured.
        deviation: its smoothed mean deviation.
    """

    __slots__ = ("deviation", "rtt")

    def __init__(self) -> None:
        self.rtt = -1.0
        self.deviation = 0.0


def _patience(measured: Peer | RoundTrip, least: float) -> float:
    return min(max(measured.rtt + 4 * measured.deviation, least), TIMEOUT_MAX_S)


def learn_round_trip(peer: Peer | RoundTrip, seconds: float) -> None:
    """Smooth one measured round trip into an estimate (the gains are TCP's)."""
    if peer.rtt < 0:
        peer.rtt, peer.deviation = seconds, seconds / 2
    else:
        error = seconds - peer.rtt
        peer.rtt += error / 8
        peer.deviation += (abs(error) - peer.deviation) / 4
