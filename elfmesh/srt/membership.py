"""Membership of one agent in one tree: its parent and its children.

Owns accepting, moving and leaving; `search` finds a parent. Does not depend on segments and multicasts; it
reports every change through `Tenant`.

Rules:
1. The next hop towards the root is the first agent of `via` that has not failed to answer, else the
   XOR-closest active peer to the tree's id. In both cases it must be strictly closer than this agent.
2. An agent without such a peer (a local minimum) looks the id up before it acts as root. The root repeats the
   look-up every VERIFY_S and whenever the siblings change. If there is a closer agent, it joins that agent.
3. A parent has at most `fanout` children. A full parent redirects the joiner to its own parent if that had
   room recently (a few times per joiner, so that slots near the root are filled first). Otherwise it
   redirects the joiner to the child with the fewest children among those closer to the id than the joiner,
   and counts the joiner there. If no child is closer, the joiner takes the slot of the farthest child and
   adopts it.
4. A JOIN stops at the first agent of the tree. An agent that was not in the tree becomes a forwarder and
   joins. A forwarder without children leaves.
5. An agent whose contributions have a rule (`residency`) is a child of the root, or of an agent whose own
   contributions in this tree have the same rule. All others redirect it towards the root. A root that can
   give none of its children away has more than `fanout`.
6. About every CLIMB_S a deep agent asks its grandparent for a free slot. An agent that is deeper still is
   sent to the root, which places it again.

Invariant: distance(parent, tree) < distance(me, tree) < distance(child, tree), so no cycle can form, whatever
is lost, repeated or reordered.

Paper: ELF 2.3 (JOIN, rendezvous, children table). Deviation: the fan-out is bounded and slots are filled in
heap order, see rule 3. In the paper's Scribe-style union of routes, one agent may have any number of
children.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.ids import distance
from elfmesh.machine import Contact, earliest
from elfmesh.safeguards import safeguard
from elfmesh.srt.context import Context
from elfmesh.srt.events import Attached, BecameRoot, Detached, LostRoot
from elfmesh.srt.kin import Child
from elfmesh.srt.messages import Join, Joined, Leave, Redirect, Reparent
from elfmesh.srt.ports import Tenant
from elfmesh.srt.residency import ANYWHERE, Rule, implies
from elfmesh.srt.search import ParentSearch

CLIMB_S = 30.0
DEEP_CLIMB_S = 5.0
"""Time between attempts to climb of an agent deeper than CLIMB_DEPTH."""

CLIMB_DEPTH = 3
"""Depth from which an agent tries to climb. A deeper agent is placed again, because F + F^2 agents fit above
it."""
UPWARD_HOPS = 3
"""Redirects after which a joiner is only sent downwards, so that stale loads cannot cause a loop."""
GRACE_S = 2.5
"""Time for which a peer's digest may contradict a new relation: two heartbeats and their transmission."""


class Membership:
    """Membership of one agent in one tree."""

    def __init__(
        self, context: Context, tree: bytes, tenant: Tenant, next_seq: Callable[[], int], fanout: int
    ) -> None:
        self._context = context
        self._tree = tree
        self._tenant = tenant
        self._next_seq = next_seq
        self.search = ParentSearch(context, tree, self, tenant, next_seq)
        self._fanout = fanout
        self._me = distance(context.me.id, tree)
        self.parent: Contact | None = None
        self.root = False
        self.depth = 0
        self.keep_in: Rule = ANYWHERE
        self.children: dict[bytes, Child] = {}
        self._parent_load = 0
        self._since = 0.0
        self._climb_at: float | None = None

    @property
    def idle(self) -> bool:
        """Return whether the agent is neither in the tree nor joining it."""
        return not (self.root or self.parent or self.search.is_running)

    # -- the parent

    def enter(self, now: float) -> None:
        """Join the tree, unless the agent is in it or joining."""
        if self.idle:
            self.search.begin(now)

    def keep(self, rule: Rule, now: float) -> None:
        """This agent contributes with a rule from now on, so that it may need another parent."""
        if rule != self.keep_in:
            self.keep_in = rule
            if self.parent is not None:
                self.search.begin(now)

    def become_root(self) -> None:
        self.root = True
        self.depth = 0
        self._context.emit(BecameRoot(self._tree))
        self._tenant.became_root()

    def joined(self, sender: Contact, message: Joined, now: float) -> None:
        join = self.search.accepted(sender, message.token)
        if join is None:
            if not self.search.asks(sender) and (self.parent is None or self.parent.id != sender.id):
                self._context.send(sender, Leave(self._tree, self._next_seq()))
            return
        old, self.parent = self.parent, sender
        self.depth = message.depth
        self._parent_load = message.load
        self._since = now
        self._plan_climb(now)
        self._context.link(self._tree, sender)
        if old is not None and old.id != sender.id:
            self._context.send(old, Leave(self._tree, self._next_seq()))
            self._release(old.id)
        if self.root:
            self._lose_root()
        for child in [each for each in self.children.values() if not self._relays(each.keep_in)]:
            self._context.send(child.contact, Reparent(self._tree, None))
            self._drop_child(child.contact.id)
        self._context.emit(Attached(self._tree, sender))
        self._tenant.attached(sender, join, message)

    def _lose_root(self) -> None:
        self.root = False
        self.search.lost_root()
        self._tenant.lost_root()
        self._context.emit(LostRoot(self._tree))

    def _detach(self) -> None:
        assert self.parent is not None
        old, self.parent = self.parent, None
        self._climb_at = None
        self.search.stop()
        self._release(old.id)
        self._tenant.detached()
        self._context.emit(Detached(self._tree))

    def reparented(self, sender: Contact, to: Contact | None, now: float) -> None:
        """Process the loss of the slot at the parent, which gave it away or does not know this agent."""
        if self.parent is None or self.parent.id != sender.id:
            return
        self._detach()
        if to is not None and self.closer(to, self._me):
            self.search.ask(to, now)
        else:
            self.search.begin(now)

    def exit(self) -> None:
        self.search.stop()
        if self.parent is not None:
            self._context.send(self.parent, Leave(self._tree, self._next_seq()))
            old, self.parent = self.parent, None
            self._release(old.id)
        for child in list(self.children):
            self._drop_child(child)
        if self.root:
            self._lose_root()

    # -- children

    def asked(self, sender: Contact, join: Join, now: float) -> None:
        theirs = distance(sender.id, self._tree)
        child = self.children.get(sender.id)
        if not self._me < theirs:
            hop = self._context.next_hop(self._tree)
            self._redirect(sender, join, hop if hop is not None and self.closer(hop, theirs) else None)
        elif not self._relays(join.keep_in) and (above := self._above) is not None:
            self._redirect(sender, join, above)
        elif join.climb and child is not None:
            self._redirect(sender, join, self.parent)
        elif child is None and len(self.children) >= self._fanout and self._turn_away(sender, join, theirs):
            self._context.count("redirected")
        elif child is not None and child.session == join.session and join.token <= child.token:
            # Later claims may have arrived already; with an old frontier the barrier would wait for ever.
            self._context.count("join_repeated")
            self._context.send(sender, self._tenant.joined_reply(join.token, self.depth + 1))
        else:
            self._accept(sender, join, now)

    def _accept(self, sender: Contact, join: Join, now: float) -> None:
        known = self.children.get(sender.id)
        if known is not None and known.session != join.session:
            self._drop_child(sender.id)
        self.children[sender.id] = Child(
            sender, join.session, join.token, join.token, join.load, join.size, now, join.keep_in
        )
        self._context.link(self._tree, sender)
        self._context.send(sender, self._tenant.joined_reply(join.token, self.depth + 1))
        self._tenant.child_joined(sender, join)
        self.enter(now)

    def _turn_away(self, sender: Contact, join: Join, theirs: int) -> bool:
        """Redirect a joiner for whom there is no room, by rule 3. Returns False if there is room now."""
        if join.climb > 1 and self.parent is not None:
            self._redirect(sender, join, self.parent)
            return True
        upward = join.climb or join.hops < UPWARD_HOPS
        if upward and self.parent is not None and self._parent_load < self._fanout:
            self._parent_load += 1
            self._redirect(sender, join, self.parent)
            return True
        if join.climb == 1:
            self._redirect(sender, join, None)
            return True
        relays = [child for child in self.children.values() if implies(child.keep_in, join.keep_in)]
        closer = [child for child in relays if self.closer(child.contact, theirs)]
        if closer:
            chosen = min(closer, key=lambda child: (child.load, distance(child.contact.id, sender.id)))
            chosen.load += 1
            self._redirect(sender, join, chosen.contact)
            return True
        movable = [child for child in self.children.values() if not child.keep_in]
        if not movable:
            return False
        farthest = max(movable, key=lambda child: distance(child.contact.id, self._tree))
        self._context.send(farthest.contact, Reparent(self._tree, sender))
        self._drop_child(farthest.contact.id)
        return False

    @safeguard("relays-its-own-rule")
    def _relays(self, rule: Rule) -> bool:
        """Whether contributions with a rule may pass through this agent on their way to the root."""
        return self.root or implies(self.keep_in, rule)

    @property
    def _above(self) -> Contact | None:
        """The agent on the way to the root; None: this agent is the root, or is about to be."""
        return self.parent or self._context.next_hop(self._tree)

    def _redirect(self, sender: Contact, join: Join, to: Contact | None) -> None:
        self._context.send(sender, Redirect(self._tree, join.token, to))

    def left(self, sender: Contact, message: Leave) -> None:
        """Remove a child that leaves, unless it has joined again since."""
        child = self.children.get(sender.id)
        if child is not None and message.token > child.token:
            self._drop_child(sender.id)

    def _drop_child(self, child: bytes) -> None:
        del self.children[child]
        self._release(child)
        self._tenant.child_left(child)

    def _release(self, peer: bytes) -> None:
        if peer not in self.children and (self.parent is None or self.parent.id != peer):
            self._context.unlink(self._tree, peer)

    # -- events of the overlay

    def peer_down(self, peer: bytes, now: float) -> None:
        if peer in self.children:
            self._drop_child(peer)
        if self.parent is not None and self.parent.id == peer:
            self._detach()
            self.search.begin(now)
        else:
            self.search.peer_down(peer, now)

    def notified_parent(self, peer: bytes, depth_load: tuple[int, int] | None, now: float) -> None:
        """Process the parent's digest: its depth and children, None if this agent is not its child."""
        if self.parent is None or self.parent.id != peer:
            return
        if depth_load is not None:
            sank = self.depth <= CLIMB_DEPTH < depth_load[0] + 1
            self.depth, self._parent_load = depth_load[0] + 1, depth_load[1]
            if sank:
                self._plan_climb(now)
        elif now - self._since > GRACE_S:
            self._context.count("lost_child")
            self._detach()
            self.search.begin(now)

    def notified_child(self, peer: bytes, load_size: tuple[int, int] | None, now: float) -> None:
        """Process a child's digest: its children and members, None if this agent is not its parent."""
        child = self.children.get(peer)
        if child is None:
            return
        if load_size is not None:
            child.load, child.size = load_size
        elif now - child.since > 2 * GRACE_S:
            self._context.count("lost_parent")
            self._drop_child(peer)

    # -- time

    def tick(self, now: float) -> None:
        """Let the search repeat what is due, and try to climb."""
        self.search.tick(now)
        if self._climb_at is not None and self._climb_at <= now:
            self._plan_climb(now)
            if self.parent is not None and not self.search.is_running and self.depth >= CLIMB_DEPTH:
                self.search.ask(self.parent, now, climb=1 if self.depth == CLIMB_DEPTH else self.depth + 1)

    def _plan_climb(self, now: float) -> None:
        pause = CLIMB_S if self.depth <= CLIMB_DEPTH else DEEP_CLIMB_S
        self._climb_at = now + pause * self._context.rng.uniform(0.8, 1.2)

    @property
    def deadline(self) -> float | None:
        return earliest(self.search.deadline, self._climb_at)

    @safeguard("outward")
    def closer(self, contact: Contact, than: int) -> bool:
        return distance(contact.id, self._tree) < than
