"""Iterative look-up of the agents closest to a key; only agents that answered are returned.

`Lookup` is the pure state of one search; `Lookups` sends requests and receives answers for all searches of an
agent. It does not change the table; membership admits the contacts in answers.

Invariants of a search: at most `alpha` requests delay it. An agent that let one timeout pass is asked once
more but no longer delays others; there are no rounds. A search ends when the `k` closest other agents that
have not failed have answered. It returns only agents that answered, and this agent. The number of asked
agents is bounded, whatever malicious agents answer.

A request for which an answer of the last seconds will do waits for the look-up that another such request has
begun, at most `SHARED_S`, and looks up its key only if that does not answer it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from elfmesh.ids import ID_BITS
from elfmesh.machine import Contact, Message
from elfmesh.overlay.context import Context
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Find, Found
from elfmesh.overlay.table import Peer
from elfmesh.overlay.vicinity import Proof, Vicinity

K = 8
"""Number of agents to find. The closest one is correct even if seven of its neighbours do not know it."""

ALPHA = 3
"""Concurrent requests per look-up."""

ASKED_MAX = 96
"""Maximum number of agents that one look-up asks: it needs about 20, so more means that an agent invents
contacts."""

LOOKUPS_MAX = 32
"""Maximum number of concurrent look-ups; further ones are queued."""

SECOND_TRY = 2
"""Requests sent at once to an agent after its first timeout. At a loss of 10 % all three fail in 0.7 % of
cases, and a dead agent costs no third timeout."""

SHARED_S = 2.0
"""How long a request waits for the look-up of another, which may answer it."""

Found_by = Callable[[tuple[Contact, ...], float | None], None]
"""Receives the agents that answered, closest first, and when; None: now, by a look-up for this request."""


class _State(Enum):
    NEW = 0
    ASKED = 1
    STALLED = 2  # one request has timed out, the second is pending
    ANSWERED = 3
    FAILED = 4


class Lookup:
    """State of one search.

    Args:
        key: the key, as an integer.
        k: number of agents to find.
        alpha: most concurrent requests.
        me: this agent, which counts as having answered.
        known: initial contacts.
    """

    def __init__(
        self, key: int, me: Contact, known: Iterable[Contact], *, k: int = K, alpha: int = ALPHA
    ) -> None:
        self._key, self._k, self._alpha = key, k, alpha
        self._order: list[int] = []  # distances, ascending
        self._contacts: dict[int, Contact] = {}
        self._states: dict[int, _State] = {}
        self._known: set[bytes] = set()
        self._in_flight = 0
        self.asked = 0
        self._add(me)
        self._mine = self._order[0]
        self._states[self._mine] = _State.ANSWERED
        for contact in known:
            self._add(contact)

    def knows(self, contact: Contact) -> bool:
        """Return whether this search has met the agent, in any state."""
        return contact.id in self._known

    def _add(self, contact: Contact) -> None:
        if contact.id not in self._known:
            self._known.add(contact.id)
            distance = int.from_bytes(contact.id) ^ self._key
            insort(self._order, distance)
            self._states[distance] = _State.NEW
            self._contacts[distance] = contact

    def _best(self) -> list[int]:
        """Return the closest other agents that have not failed; this agent itself is not evidence."""
        best: list[int] = []
        states = self._states
        for distance in self._order:
            if states[distance] is not _State.FAILED and distance != self._mine:
                best.append(distance)
                if len(best) == self._k:
                    break
        return best

    def next(self) -> list[Contact]:
        """Return the agents to ask now; they count as asked."""
        chosen: list[Contact] = []
        for distance in self._best():
            if self._in_flight >= self._alpha or self.asked >= ASKED_MAX:
                break
            if self._states[distance] is _State.NEW:
                self._states[distance] = _State.ASKED
                self._in_flight += 1
                self.asked += 1
                chosen.append(self._contacts[distance])
        return chosen

    def _leave(self, contact: Contact, state: _State) -> int:
        distance = int.from_bytes(contact.id) ^ self._key
        if self._states[distance] is _State.ASKED:
            self._in_flight -= 1
        if self._states[distance] is not _State.ANSWERED:
            self._states[distance] = state
        return distance

    def answered(self, contact: Contact, notified: Iterable[Contact]) -> None:
        self._contacts[self._leave(contact, _State.ANSWERED)] = contact
        for other in notified:
            self._add(other)

    def stalled(self, contact: Contact) -> None:
        """Mark an agent as slow: it no longer delays the search, but its answer is still accepted."""
        self._leave(contact, _State.STALLED)

    def failed(self, contact: Contact) -> bool:
        """Record a failed request.

        Returns False if another request to the agent was answered, or has failed already.
        """
        news = self._states[int.from_bytes(contact.id) ^ self._key] is _State.STALLED
        self._leave(contact, _State.FAILED)
        return news

    @property
    def done(self) -> bool:
        """Return whether no outstanding request can change the result."""
        exhausted = self.asked >= ASKED_MAX
        for distance in self._best():
            state = self._states[distance]
            if state in (_State.ASKED, _State.STALLED) or (state is _State.NEW and not exhausted):
                return False
        return True

    @property
    def result(self) -> tuple[Contact, ...]:
        return self._answered[: self._k]

    @property
    def _answered(self) -> tuple[Contact, ...]:
        return tuple(self._contacts[d] for d in self._order if self._states[d] is _State.ANSWERED)

    def proof(self, at: float, generation: int) -> Proof:
        """Return what this search has found out, for other keys as well.

        It proves nothing beyond an agent that has not answered, which may be alive and closer to another key.
        """
        silent = (d for d in self._order if self._states[d] is not _State.ANSWERED)
        best = self._best()
        end = best[-1] if len(best) == self._k else 1 << ID_BITS  # there are no others
        return Proof(at, generation, self._key, min(next(silent, end), end), self._answered[: self._k + 1])


class Lookups:
    """Searches of one agent.

    Args:
        context: shared context.
        members: notified of answers and timeouts.
        alpha: concurrent requests per search.
    """

    def __init__(self, context: Context, members: Membership, *, alpha: int = ALPHA) -> None:
        self._context = context
        self._members = members
        self._alpha = alpha
        self._running = 0
        self._line: deque[_Request] = deque()
        self._waiting: list[_Request] = []
        self._shared: _Request | None = None  # the look-up that is under way for those who wait
        self.vicinity = Vicinity()
        self.on_silent: Callable[[Peer], None] = lambda peer: None

    def __len__(self) -> int:
        return self._running + len(self._line) + len(self._waiting)

    def start(
        self,
        key: bytes,
        done: Found_by,
        *,
        k: int = K,
        quarantined_too: bool = False,
        within_s: float = 0.0,
        certain: int = 1,
    ) -> None:
        """Search for the `k` agents closest to `key`; `done` receives them, possibly before this returns.

        Args:
            key: 20 bytes.
            done: see `Found_by`.
            k: number of agents.
            quarantined_too: also ask buried agents that others name (after a partition).
            within_s: an answer to another look-up will do if it is at most that old; 0: none.
            certain: number of agents that this answer must prove to be the closest. `done` receives them.
        """
        self._serve(_Request(key, k, quarantined_too, done, within_s, certain))

    def _serve(self, request: _Request) -> None:
        context = self._context
        if request.within_s:
            n = int.from_bytes(request.key)
            known = self.vicinity.around(n, context.now, request.within_s, request.certain)
            if known is not None:
                request.done(known[1], known[0])
                return
            if self._shared is not None:
                self._waiting.append(request)
                return
            self._shared = request
            context.timers.set("shared look-up", context.now + SHARED_S, self._overdue)
        self._line.append(request)
        self._admit()

    def _overdue(self) -> None:
        """Let those who have waited long enough look up their own keys."""
        self._shared = None
        waiting, self._waiting = self._waiting, []
        self._line.extend(waiting)
        self._admit()

    def _admit(self) -> None:
        context = self._context
        while self._line and self._running < LOOKUPS_MAX:
            request = self._line.popleft()
            self._running += 1
            n = int.from_bytes(request.key)
            known = [peer.contact for peer in context.table.closest(n, max(request.k, self._alpha))]
            search = Lookup(n, context.me, known, k=request.k, alpha=self._alpha)
            _Search(self, search, request, self.vicinity.generation).go_on()

    def ended(self, search: Lookup, request: _Request, generation: int) -> None:
        """A search has ended: pass on what it has found, and see for whom else it is an answer."""
        self.vicinity.keep(search.proof(self._context.now, generation))
        request.done(search.result, None)
        self._running -= 1
        if request is self._shared:
            self._shared = None
            self._context.timers.cancel("shared look-up")
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self._serve(each)
        self._admit()

    def useful(self, contact: Contact, quarantined_too: bool) -> bool:
        return self._context.acceptable(contact) and (
            quarantined_too or not self._members.is_quarantined(contact)
        )

    def ask(self, search: _Search, to: Contact, attempt: int) -> None:
        context = self._context
        rid = context.calls.next_rid()
        context.count("finds")
        context.send(to, Find(rid, search.key, search.k))

        def done(answer: Message | None, sender: Contact) -> None:
            if isinstance(answer, Found):
                search.answered(sender, answer.contacts)
            else:
                search.timed_out(to, attempt)

        peer = context.table.entries.get(int.from_bytes(to.id))
        context.calls.wait(rid, to, Found, done, context.calls.timeout(peer))

    def silent(self, contact: Contact) -> None:
        """Handle an agent that let all attempts pass: examine a contact, quarantine an unknown agent."""
        peer = self._members.peer(contact.id)
        if peer is not None:
            self.on_silent(peer)
        else:
            self._members.quarantine(contact)


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """See `Lookups.start`."""

    key: bytes
    k: int
    quarantined_too: bool
    done: Found_by
    within_s: float
    certain: int


class _Search:
    """Running search and its request."""

    __slots__ = ("_ended", "_generation", "_lookup", "_owner", "_request", "k", "key")

    def __init__(self, owner: Lookups, lookup: Lookup, request: _Request, generation: int) -> None:
        self._owner, self._lookup, self._request = owner, lookup, request
        self.key, self.k = request.key, request.k
        self._generation, self._ended = generation, False

    def go_on(self) -> None:
        if self._ended:
            return
        for contact in self._lookup.next():
            self._owner.ask(self, contact, 1)
        if self._lookup.done:
            self._ended = True
            self._owner.ended(self._lookup, self._request, self._generation)

    def answered(self, sender: Contact, notified: tuple[Contact, ...]) -> None:
        search, owner, too = self._lookup, self._owner, self._request.quarantined_too
        fresh = [contact for contact in notified[: 2 * self.k] if not search.knows(contact)]
        search.answered(sender, [c for c in fresh if owner.useful(c, too)])
        self.go_on()

    def timed_out(self, to: Contact, attempt: int) -> None:
        if self._ended:
            return  # one timeout is weak evidence, and no caller waits any more
        if attempt == 1:
            self._lookup.stalled(to)
            for _ in range(SECOND_TRY):
                self._owner.ask(self, to, 2)
        elif self._lookup.failed(to):
            self._owner.silent(to)
        self.go_on()
