"""The search of one agent for its parent in one tree, and the verification that there is none.

Owns the look-up of the tree's id and the JOIN that waits for its answer: rules 1 and 2 of `membership`.
Decides about no child.

Invariant: at most one look-up or JOIN is under way; every JOIN goes to an agent that is closer to the tree's
id than this one.

Paper: ELF 2.3 (JOIN, rendezvous).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from elfmesh.ids import distance
from elfmesh.machine import Contact, earliest
from elfmesh.overlay.events import Lookup
from elfmesh.safeguards import safeguard
from elfmesh.srt.context import Context
from elfmesh.srt.kin import Seek
from elfmesh.srt.messages import Join, Redirect
from elfmesh.srt.ports import Tenant

JOIN_TIMEOUT_S = 0.5
JOIN_TRIES = 2
LOOKUP_TIMEOUT_S = 10.0
VERIFY_S = 5.0
"""How often a root verifies that no agent is closer. A look-up of that time for another key will do."""

HOPS_MAX = 40


class SearchOwner(Protocol):
    """The membership that searches.

    Attributes:
        parent: its parent, None if there is none.
        root: whether it acts as root.
    """

    parent: Contact | None
    root: bool

    def closer(self, contact: Contact, than: int) -> bool:
        """Whether an agent is closer to the tree's id than a distance."""
        ...

    def become_root(self) -> None:
        """Act as root, because a look-up has found no agent that is closer."""
        ...


class ParentSearch:
    """Searches for the parent of one agent.

    Attributes:
        via: agents at which to enter the tree, the preferred ones first.
    """

    def __init__(
        self, context: Context, tree: bytes, owner: SearchOwner, tenant: Tenant, next_seq: Callable[[], int]
    ) -> None:
        self._context, self._tree, self._owner, self._tenant = context, tree, owner, tenant
        self._next_seq = next_seq
        self._me = distance(context.me.id, tree)
        self.via: tuple[Contact, ...] = ()
        self._seek: Seek | None = None
        self._silent: set[bytes] = set()
        self._look_again = False
        self._verify_at: float | None = None

    @property
    def is_running(self) -> bool:
        return self._seek is not None

    def begin(self, now: float, within_s: float = 0.0) -> None:
        """Ask the next hop to the root; without one, look the id up.

        `within_s`: an earlier look-up that proves that no agent is closer will do if it is at most that old.
        """
        self._look_again = False
        hop = self._entrance() or self._context.next_hop(self._tree)
        if hop is not None and self._owner.closer(hop, self._me):
            self.ask(hop, now)
        elif within_s and (since := self._context.closest_since(self._tree, now, within_s)) is not None:
            self._verify_at = since + VERIFY_S
        else:
            self._look_up(now, within_s)

    @safeguard("inside-its-group")
    def _entrance(self) -> Contact | None:
        """Return the agent at which to enter the tree, so that a group's tree grows among the group alone."""
        open_ones = (each for each in self.via if each.id not in self._silent)
        return next((each for each in open_ones if self._owner.closer(each, self._me)), None)

    def _look_up(self, now: float, within_s: float = 0.0) -> None:
        self._seek = Seek(self._context.token(), now + LOOKUP_TIMEOUT_S)
        self._context.emit(Lookup(self._tree, self._seek.token, within_s))

    def ask(self, target: Contact, now: float, *, hops: int = 0, climb: int = 0) -> None:
        """Send a JOIN; `hops`: redirects so far, `climb`: see `Join`."""
        join = self._tenant.joining(self._next_seq(), climb=climb, hops=hops)
        self._seek = Seek(join.token, now + JOIN_TIMEOUT_S, target, join, 1, hops, climb)
        self._context.send(target, join)

    def stop(self) -> None:
        self._seek = None

    # -- answers

    def looked_up(self, token: int, contacts: tuple[Contact, ...], at: float | None, now: float) -> None:
        """Join the closest of these agents, or be the root until the next verification.

        `at`: when they answered, if not to this look-up.
        """
        if self._seek is None or self._seek.target is not None or self._seek.token != token:
            return
        self._seek = None
        best = min(contacts, key=lambda contact: distance(contact.id, self._tree), default=None)
        if best is not None and self._owner.closer(best, self._me):
            self.ask(best, now)
        else:
            if not self._owner.root:
                self._owner.become_root()
            self._verify_at = (now if at is None else at) + VERIFY_S
            if self._look_again:
                self.begin(now, VERIFY_S)

    def redirected(self, sender: Contact, message: Redirect, now: float) -> None:
        seek = self._seek
        if seek is None or not self.asks(sender) or seek.token != message.token:
            return
        if message.to is not None and self._owner.closer(message.to, self._me) and seek.hops < HOPS_MAX:
            upwards = distance(message.to.id, self._tree) < distance(sender.id, self._tree)
            left = max(min(seek.climb, 1), seek.climb - 1) if upwards else 0
            self.ask(message.to, now, hops=seek.hops + 1, climb=left)
        elif self._owner.parent is not None:
            self._seek = None
        else:
            self._look_up(now)

    def accepted(self, sender: Contact, token: int) -> Join | None:
        """End the search if this is the answer to its JOIN; returns the JOIN, None if it is not."""
        seek = self._seek
        if seek is None or not self.asks(sender) or seek.token != token:
            return None
        self._seek = None
        self._silent.clear()
        return seek.join

    def asks(self, agent: Contact) -> bool:
        """Whether the search waits for this agent."""
        return self._awaits(agent.id)

    def _awaits(self, agent: bytes) -> bool:
        return self._seek is not None and self._seek.target is not None and self._seek.target.id == agent

    # -- events of the overlay, and time

    def peer_down(self, peer: bytes, now: float) -> None:
        if self._awaits(peer):
            self._give_up(now)

    def siblings_changed(self, now: float) -> None:
        """Check whether the root has changed; a look-up in progress may have missed a new sibling."""
        if self._seek is not None:
            self._look_again = True
        elif self._owner.root:
            self.begin(now, VERIFY_S)

    def lost_root(self) -> None:
        """Verify no longer that there is no closer agent."""
        self._verify_at = None

    def tick(self, now: float) -> None:
        """Repeat a request that is due, and verify the root."""
        if self._seek is not None and self._seek.due <= now:
            seek = self._seek
            if seek.target is None:
                self._look_up(now)
            elif seek.tries < JOIN_TRIES and seek.join is not None:
                seek.tries += 1
                seek.due = now + JOIN_TIMEOUT_S
                self._context.count("join_again")
                self._context.send(seek.target, seek.join)
            else:
                self._give_up(now)
        if self._verify_at is not None and self._verify_at <= now:
            self._verify_at = now + VERIFY_S
            if self._seek is None:
                self.begin(now, VERIFY_S)

    def _give_up(self, now: float) -> None:
        silent = None if self._seek is None else self._seek.target
        self._seek = None
        if silent is not None:
            self._silent.add(silent.id)
        if self._owner.parent is None:
            self._look_up(now)

    @property
    def deadline(self) -> float | None:
        return earliest(self._seek.due if self._seek is not None else None, self._verify_at)
