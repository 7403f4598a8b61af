"""Timers, and requests that wait for an answer.

Owns request ids, timeouts and the round trips from which timeouts are computed, and the lag of this agent's
event loop. While the loop lags, answers are unread, so a timeout that fires then is postponed. Does not
depend on the meaning of a request: the caller receives the answer, or None.

If a link is slower than the first timeout, the answer arrives late and completes no request. It still
measures the round trip, so that later timeouts are long enough for the link.

Invariants: each request ends exactly once, by its answer or its timeout. An answer is accepted only from the
agent that was asked and with the expected type. Setting a timer again replaces the earlier setting.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heappop, heappush

from elfmesh.machine import Contact, Message
from elfmesh.overlay.table import Peer

TIMEOUT_FIRST_S = 0.5
"""Timeout for an agent whose round trip is unknown."""

TIMEOUT_MIN_S = 0.25
"""Minimum timeout, longer than the pauses of a busy Python process on a fast network."""

TIMEOUT_MAX_S = 1.5
"""Maximum timeout. A slower agent is useless as a hop, and the limit bounds the detection of deaths."""

LATE_MAX = 256
"""Maximum number of requests that are remembered after their timeout, for the round trip of a late answer."""

LATE_S_MAX = 10.0
"""Longest round trip that is measured; a longer one is caused by a fault and not by the link."""

LAG_NOTICED_S = 0.1
"""Delay of a tick from which the loop is considered blocked, so that answers may be unread."""

LAG_CREDIT_MAX_S = 2.0
"""Longest postponement after one blockage; afterwards silence is attributed to the peer."""

Answered = Callable[[Message | None, Contact], None]


class Timers:
    """Named timers on one heap.

    Cancelling costs nothing; dead entries are dropped when they reach the top.
    """

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
        """Run everything that is due, in order of time and setting."""
        heap = self._heap
        last = self._serial  # timers that these runs set wait for the next tick
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


class LoopDelay:
    """Lag of this agent's event loop.

    Attributes:
        grace_until: timeouts that fire before this time are postponed.
        usual: smoothed lag in seconds; part of every timeout.
    """

    __slots__ = ("grace_until", "usual")

    def __init__(self) -> None:
        self.grace_until = float("-inf")
        self.usual = 0.0

    def observe(self, late: float, now: float) -> None:
        """Record that a step runs `late` seconds after the requested deadline."""
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
    """Pending requests of one agent.

    Args:
        first_rid: first request id; random, so that answers to an earlier boot match no request.
    """

    def __init__(self, timers: Timers, lateness: LoopDelay, first_rid: int) -> None:
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
        """Return the timeout in seconds: round trip and its deviation, within limits, plus the loop's lag."""
        if peer is None or peer.rtt < 0:
            patience = max(TIMEOUT_FIRST_S, _patience(self.strangers, least))
        else:
            patience = _patience(peer, least)
        return patience + 2 * self._lateness.usual

    def wait(self, rid: int, to: Contact, expected: type[Message], done: Answered, timeout: float) -> None:
        """Wait for the answer to request `rid`, which the caller sends.

        `done` receives it, or None on timeout.
        """
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
        """Return the round trip and the callback of an answer, or None if no request matches.

        Ends the request.
        """
        call = self._waiting.get(rid)
        if call is None or not call.answered_by(sender, message):
            return None
        del self._waiting[rid]
        self._timers.cancel(rid)
        return self.now - call.sent, call.done

    def late(self, rid: int, sender: Contact, message: Message) -> float | None:
        """Return the round trip of an answer to a request that has timed out, or None if there is none."""
        call = self._overdue_calls.get(rid)
        if call is None or not call.answered_by(sender, message):
            return None
        del self._overdue_calls[rid]
        return self.now - call.sent if self.now - call.sent <= LATE_S_MAX else None

    def clear(self) -> None:
        """Forget all requests without calling their callbacks."""
        self._waiting.clear()
        self._overdue_calls.clear()


class RoundTrip:
    """Estimate of round trips; each `Peer` has one, and this one is for first requests to unknown agents.

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
    """Update an estimate with one measured round trip (with TCP's gains)."""
    if peer.rtt < 0:
        peer.rtt, peer.deviation = seconds, seconds / 2
    else:
        error = seconds - peer.rtt
        peer.rtt += error / 8
        peer.deviation += (abs(error) - peer.deviation) / 4
