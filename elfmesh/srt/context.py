"""Shared state of the parts of a forest: contact, effects of the current step, counters, links, alarms.

Owns no protocol. `links` has the trees in which each peer is parent or child. The first tree that needs a
peer starts a watch on it, the last one ends it, because heartbeats are per pair of peers and not per tree.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable

from elfmesh.machine import Contact, Effect, Message, Rng, Send
from elfmesh.overlay.events import Unwatch, Watch
from elfmesh.srt.events import MergeRequest

FIRST_TOKEN = 1 << 40
"""First token of look-ups and merges, above the small numbers that other rooms use."""


class Context:
    """Shared state of a forest; `now` is the time of the current step."""

    def __init__(
        self,
        me: Contact,
        rng: Rng,
        next_hop: Callable[[bytes], Contact | None],
        closest_since: Callable[[bytes, float, float], float | None],
    ) -> None:
        self.me = me
        self.rng = rng
        self.next_hop = next_hop
        self.closest_since = closest_since
        self.stats: Counter[str] = Counter()
        self.effects: list[Effect] = []
        self.links: dict[bytes, dict[bytes, None]] = {}
        self._alarms: list[tuple[float, int, bytes]] = []
        self._armed: dict[bytes, float] = {}
        self._token = FIRST_TOKEN
        self._merges: dict[int, bytes] = {}
        self.now = 0.0

    def token(self) -> int:
        self._token += 1
        return self._token

    def count(self, what: str, n: int = 1) -> None:
        self.stats[what] += n

    def request_merge(self, tree: bytes, interval: int, parts: tuple[bytes, ...]) -> int:
        """Ask the host to merge an interval's payloads for a tree; returns the token of the request."""
        token = self.token()
        self._merges[token] = tree
        self.emit(MergeRequest(token, parts, tree, interval))
        return token

    def merge_answered(self, token: int) -> bytes | None:
        """Return the tree of a merge request; None if the token is unknown."""
        return self._merges.pop(token, None)

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        self.effects.append(Send(to, message, payload, lane))

    def take(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def link(self, tree: bytes, peer: Contact) -> None:
        trees = self.links.get(peer.id)
        if trees is None:
            trees = self.links[peer.id] = {}
            self.emit(Watch(peer))
        trees[tree] = None

    def unlink(self, tree: bytes, peer: bytes) -> None:
        trees = self.links.get(peer)
        if trees is not None and trees.pop(tree, tree) is None and not trees:
            del self.links[peer]
            self.emit(Unwatch(peer))

    def arm(self, tree: bytes, at: float | None) -> None:
        """Set an alarm for the tree at `at`; early or repeated alarms are harmless."""
        if at is not None and at < self._armed.get(tree, float("inf")):
            self._armed[tree] = at
            heapq.heappush(self._alarms, (at, self.token(), tree))

    def disarm(self, tree: bytes) -> None:
        self._armed.pop(tree, None)

    def due(self, now: float) -> list[bytes]:
        """Return the trees whose alarm is due, each once."""
        found: dict[bytes, None] = {}
        while self._alarms and self._alarms[0][0] <= now:
            at, _, tree = heapq.heappop(self._alarms)
            if self._armed.get(tree) == at:
                del self._armed[tree]
                found[tree] = None
        return list(found)

    @property
    def deadline(self) -> float | None:
        """Return when the first alarm is due. Cost: drops alarms that an earlier one replaced."""
        while self._alarms and self._armed.get(self._alarms[0][2]) != self._alarms[0][0]:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None
