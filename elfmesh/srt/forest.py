"""Forest: all shared reducer trees of one agent, as one state machine.

Owns the set of trees and the dispatch of events; the parts of a tree have its rules. Does not depend on jobs,
payload formats, sockets or clocks.

The overlay is the forest's only source of information about peers. The forest requests heartbeats with its
parents and children (`Watch`), receives their deaths (`PeerDown`), and adds a digest of the shared trees to
every heartbeat (`digest_for`, `Digest`).

Paper: ELF 2.3 ("a single overlay can support many different independent groups").
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.errors import ProtocolError
from elfmesh.limits import DATA_FRAME_BYTES_MAX, FANOUT_MAX
from elfmesh.machine import Contact, Effect, Event, Received, Rng, Tick
from elfmesh.overlay.events import Digest, LookupDone, PeerDown, SiblingsChanged
from elfmesh.srt import digest
from elfmesh.srt.context import Context
from elfmesh.srt.events import (
    Contribute,
    Hasten,
    Merged,
    MulticastAnswer,
    Publish,
    Recollect,
    Release,
    Retire,
    Subscribe,
    TreeInfo,
    Unsubscribe,
)
from elfmesh.srt.messages import MESSAGES, Join, Leave, Multicast, Refused, Reparent, SegmentUp
from elfmesh.srt.tree import Tree

HELD_BYTES_MAX = 256 << 20
"""Maximum number of bytes per tree: partials that wait at the barrier or are kept for a new parent."""
TREES_MAX = 10_000
"""Maximum number of trees of one agent; further JOINs of other agents are refused and counted."""


class Forest:
    """State machine of all trees of one agent. Only `step` changes it.

    Args:
        me: this agent's contact.
        rng: seeded; for jitter, eras and the session number.
        next_hop: returns the overlay's XOR-closest active peer to a key, if strictly closer than this agent.
        closest_since: returns when the overlay has found that this agent is the closest to a key, for a key,
            the time and the greatest age; None: it does not know.
        fanout: most children of one parent in one tree.
        payload_bytes_max: limit of one segment message.
        held_bytes_max: limit of the partials of one tree.
        trees_max: limit of trees of this agent.
    """

    def __init__(
        self,
        me: Contact,
        *,
        rng: Rng,
        next_hop: Callable[[bytes], Contact | None],
        closest_since: Callable[[bytes, float, float], float | None] = lambda key, now, within_s: None,
        fanout: int = FANOUT_MAX,
        payload_bytes_max: int = DATA_FRAME_BYTES_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
        trees_max: int = TREES_MAX,
    ) -> None:
        self._context = Context(me, rng, next_hop, closest_since)
        self._session = rng.getrandbits(63)
        self._fanout = fanout
        self._payload_bytes_max = payload_bytes_max
        self._held_bytes_max = held_bytes_max
        self._trees_max = trees_max
        self._trees: dict[bytes, Tree] = {}
        # Rows of digests by tree and peer since the last event of the tree: those that were sent, and those
        # that left nothing to do.
        self._sent: dict[bytes, dict[bytes, bytes]] = {}
        self._agreed: dict[bytes, dict[bytes, bytes]] = {}

    def step(self, event: Event, now: float) -> list[Effect]:
        """Apply one event.

        Raises:
            ValueError: Misuse by our own code (a publish away from the root, a malformed contribution).
        """
        self._context.now = now
        match event:
            case Received():
                self._received(event, now)
            case Tick():
                for tree in self._context.due(now):
                    self._settle(tree, changed=self._trees[tree].tick(now))
            case Digest():
                self._notified(event, now)
            case PeerDown():
                for tree in list(self._trees):
                    self._trees[tree].membership.peer_down(event.id, now)
                    self._settle(tree)
            case SiblingsChanged():
                for tree in list(self._trees):
                    self._trees[tree].membership.search.siblings_changed(now)
                    self._settle(tree)
            case LookupDone():
                if event.key in self._trees:
                    place = self._trees[event.key].membership
                    was_root = place.root
                    place.search.looked_up(event.token, event.contacts, event.at, now)
                    self._settle(event.key, changed=not (was_root and place.root))
            case Merged():
                self._merged(event)
            case _:
                self._asked(event, now)
        return self._context.take()

    def _asked(self, event: Event, now: float) -> None:
        match event:
            case Subscribe():
                self._get(event.tree).subscribe(now, event.via, event.keep_in)
            case Publish() | Recollect() | Hasten() if event.tree not in self._trees:
                raise ValueError(f"this agent is not the root of tree {event.tree.hex()}")
            case Publish():
                self._trees[event.tree].publish(event.body, event.timeout_s, event.token, now)
            case Recollect():
                ranges = (Refused(event.start, event.stop, event.attempt),)
                self._trees[event.tree].recollect(event.epoch, ranges, now)
            case Hasten():
                self._trees[event.tree].hasten(event.epoch, event.stop, now)
            case Contribute() | MulticastAnswer() | Release() | Retire() | Unsubscribe() if (
                event.tree not in self._trees
            ):
                self._context.count("not_in_tree")
                return
            case Contribute():
                self._trees[event.tree].contribute(event)
            case MulticastAnswer():
                self._trees[event.tree].multicasts.answer(event.seq, event.body)
            case Release():
                self._trees[event.tree].release(event.stop, event.epoch)
            case Retire():
                self._trees[event.tree].barrier.retire()
            case Unsubscribe():
                self._trees[event.tree].unsubscribe()
            case _:
                raise TypeError(f"a forest does not take {type(event).__name__}")
        self._settle(event.tree)

    def _received(self, event: Received, now: float) -> None:
        message, sender = event.message, event.sender
        if not isinstance(message, MESSAGES):
            raise TypeError(f"a forest does not take {type(message).__name__}")
        tree: bytes = message.tree  # type: ignore[attr-defined]  # each of MESSAGES has one
        if tree not in self._trees:
            if isinstance(message, Join) and len(tree) == len(self._context.me.id):
                if len(self._trees) >= self._trees_max:
                    self._context.count("trees_full")
                    return
                self._get(tree)
            else:
                self._stranger(sender, message, tree)
                return
        self._trees[tree].received(sender, message, event.payload, now)
        self._settle(tree)

    def _stranger(self, sender: Contact, message: object, tree: bytes) -> None:
        self._context.count("not_in_tree")
        if isinstance(message, SegmentUp):
            self._context.send(sender, Reparent(tree, None))
        elif isinstance(message, Multicast):
            self._context.send(sender, Leave(tree, (1 << 62)))

    def _merged(self, event: Merged) -> None:
        tree = self._context.merge_answered(event.token)
        if tree is not None and tree in self._trees:
            self._trees[tree].barrier.merged(event.token, event.payload, event.error)
            self._settle(tree)

    # -- digests

    def digest_for(self, peer: bytes) -> bytes:
        """Return the digest of the trees shared with `peer`, for the next heartbeat.

        Cost: a look into a table for each shared tree, and a row for each that had an event since the last
        one.
        """
        return b"".join([self._row(tree, peer) for tree in self._shared(peer)])

    def _shared(self, peer: bytes) -> list[bytes]:
        return [tree for tree in self._context.links.get(peer, ()) if tree in self._trees]

    def _row(self, tree: bytes, peer: bytes) -> bytes:
        rows = self._sent.setdefault(tree, {})
        if peer not in rows:
            row = self._trees[tree].row(peer)
            rows[peer] = b"" if row is None else digest.pack(row)
        return rows[peer]

    def _notified(self, event: Digest, now: float) -> None:
        """Process the rows of a digest that say anything new, or with which time has to do."""
        news: list[tuple[bytes, bytes, digest.Row | None]] = []
        try:
            rows = digest.split(event.digest)
            for tree in self._shared(event.peer):
                packed = rows.get(tree[: digest.PREFIX_BYTES], b"")
                if not packed or self._agreed.get(tree, {}).get(event.peer) != packed:
                    news.append((tree, packed, digest.unpack(packed) if packed else None))
        except ProtocolError:
            self._context.count("malformed")
            return
        for tree, packed, row in news:
            found = self._trees[tree]
            before = found.state, len(self._context.effects)
            found.notified(event.peer, row, now)
            changed = (found.state, len(self._context.effects)) != before
            self._settle(tree, changed=changed)
            if not changed and row is not None and found.agrees(event.peer, row):
                self._agreed.setdefault(tree, {})[event.peer] = packed

    # -- upkeep

    @property
    def deadline(self) -> float | None:
        return self._context.deadline

    def stats(self) -> dict[str, int]:
        """Return counters since the start, and gauges: trees, roots, held_bytes, unacknowledged."""
        trees = self._trees.values()
        return {
            **dict(sorted(self._context.stats.items())),
            "trees": len(trees),
            "roots": sum(tree.membership.root for tree in trees),
            "held_bytes": sum(tree.barrier.held_bytes for tree in trees),
            "unacknowledged": sum(len(tree.uplink) for tree in trees),
        }

    def trees(self) -> tuple[TreeInfo, ...]:
        return tuple(tree.info for tree in self._trees.values())

    def tree(self, tree: bytes) -> TreeInfo | None:
        """Return the state of one tree, None if this agent is not in it."""
        found = self._trees.get(tree)
        return found.info if found is not None else None

    def is_root(self, tree: bytes) -> bool:
        return tree in self._trees and self._trees[tree].membership.root

    def _get(self, tree: bytes) -> Tree:
        found = self._trees.get(tree)
        if found is None:
            found = self._trees[tree] = Tree(
                self._context,
                tree,
                session=self._session,
                fanout=self._fanout,
                payload_bytes_max=self._payload_bytes_max,
                held_bytes_max=self._held_bytes_max,
            )
        return found

    def _settle(self, tree: bytes, *, changed: bool = True) -> None:
        if changed:
            self._sent.pop(tree, None)
            self._agreed.pop(tree, None)
        found = self._trees[tree]
        if found.needless:
            found.membership.exit()
            del self._trees[tree]
            self._context.disarm(tree)
        else:
            self._context.arm(tree, found.deadline)
