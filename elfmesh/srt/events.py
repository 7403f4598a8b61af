"""Events and effects of the forest (all trees of one agent).

Owns the interface of other rooms to the trees. Several classes are the output of one room and the input of
another, so they are both `Event` and `Effect`. `Lookup`, `LookupDone`, `Watch`, `Unwatch`, `PeerDown`,
`SiblingsChanged` and `Digest` are the overlay's own classes.

Paper: ELF 3, Table 1 (Subscribe, SendTo/OnRecv, Multicast/OnMulticast, OnTimer).
"""

from __future__ import annotations

from msgspec import Struct

from elfmesh.machine import Contact, Effect, Event
from elfmesh.srt.messages import Segment
from elfmesh.srt.residency import ANYWHERE, Rule


class Subscribe(Event, Effect, Struct, frozen=True):
    """Join the tree as a member, to which its multicasts are delivered. Idempotent.

    The agent asks those of `via` first for a place, and the overlay's next hop if none of them answers.
    `keep_in` is the rule of its contributions.
    """

    tree: bytes
    via: tuple[Contact, ...] = ()
    keep_in: Rule = ANYWHERE


class Unsubscribe(Event, Effect, Struct, frozen=True):
    """End membership: no more deliveries and contributions.

    The agent leaves the tree when it has no child. Idempotent.
    """

    tree: bytes


class Retire(Event, Effect, Struct, frozen=True):
    """End this agent's contributions to the tree, so that no barrier waits for more. It stays a member."""

    tree: bytes


class Contribute(Event, Effect, Struct, frozen=True):
    """Segment of this agent; its coverage is this agent's bit alone.

    `payloads[i]` belongs to `segment.entries[i]`, b"" if that entry has no rows. An empty range (`start ==
    stop`, no entries) declares that this agent contributes from `start` on, so that the barrier waits for it
    before its first segment. The attempt in the segment is ignored, because the forest knows the current one.
    """

    tree: bytes
    segment: Segment
    payloads: tuple[bytes, ...] = ()


class Merged(Event, Effect, Struct, frozen=True):
    """Outcome of a `MergeRequest`: the merged payload, or None and the reason."""

    token: int
    payload: bytes | None
    error: str = ""


class Release(Event, Effect, Struct, frozen=True):
    """Drop everything below interval `stop`, which is closed. Within `epoch` the interval never decreases.

    A later epoch may be another incarnation of the job, which closes everything again.
    """

    tree: bytes
    stop: int
    epoch: int


class Recollect(Event, Effect, Struct, frozen=True):
    """Collect [start, stop) again as `attempt`: every agent sends its own contribution unmerged.

    Root only.
    """

    tree: bytes
    start: int
    stop: int
    attempt: int
    epoch: int


class Hasten(Event, Effect, Struct, frozen=True):
    """Stop waiting for intervals below `stop`, and send up what has arrived (D-9, D-11). Root only."""

    tree: bytes
    stop: int
    epoch: int


class Publish(Event, Effect, Struct, frozen=True):
    """Multicast `body` to every subscribed agent. Root only. `PublishDone` follows within `timeout_s`.

    `token` is copied to `PublishDone`.
    """

    tree: bytes
    body: bytes
    timeout_s: float
    token: int = 0


class MulticastAnswer(Event, Effect, Struct, frozen=True):
    """Answer of this agent to a `Delivered`; b"" is a plain acknowledgement."""

    tree: bytes
    seq: int
    body: bytes = b""


class BecameRoot(Effect, Event, Struct, frozen=True):
    """This agent is the root: a verified look-up found no agent closer to the tree's id."""

    tree: bytes


class LostRoot(Effect, Event, Struct, frozen=True):
    """This agent is no longer the root: there is a closer agent, or this agent has left the tree."""

    tree: bytes


class Attached(Effect, Event, Struct, frozen=True):
    """This agent has a parent in the tree."""

    tree: bytes
    parent: Contact


class Detached(Effect, Event, Struct, frozen=True):
    """This agent has lost its parent and searches for another one."""

    tree: bytes


class Delivered(Effect, Event, Struct, frozen=True):
    """A multicast has arrived; each is delivered once, in no guaranteed order.

    The host replies with `MulticastAnswer`.
    """

    tree: bytes
    seq: int
    body: bytes


class PublishDone(Effect, Event, Struct, frozen=True):
    """Answers to a `Publish`, in no guaranteed order, and the known number of members of the tree."""

    tree: bytes
    seq: int
    answers: tuple[tuple[bytes, bytes], ...]
    expected: int
    token: int = 0


class MergeRequest(Effect, Event, Struct, frozen=True):
    """Merge the payloads of one interval of a tree; the host replies with `Merged` with the same token."""

    token: int
    parts: tuple[bytes, ...]
    tree: bytes = b""
    interval: int = 0


class Collected(Effect, Event, Struct, frozen=True):
    """Merged partial at the root. `payloads[i]` belongs to `segment.entries[i]`.

    Coverages of one (interval, attempt) never overlap. A higher attempt is kept beside the lower one until it
    covers as much, and then replaces it.
    """

    tree: bytes
    segment: Segment
    payloads: tuple[bytes, ...]


class Recollecting(Effect, Event, Struct, frozen=True):
    """Partials overlapped at the root, so [start, stop) is collected again as `attempt`."""

    tree: bytes
    epoch: int
    start: int
    stop: int
    attempt: int


class PartsDropped(Effect, Event, Struct, frozen=True):
    """Contributions of `coverage` to [start, stop) cannot be merged with the others. Only at the root."""

    tree: bytes
    epoch: int
    start: int
    stop: int
    coverage: bytes
    error: str


class TreeInfo(Struct, frozen=True):
    """State of a tree at this agent, for display and tests."""

    tree: bytes
    subscribed: bool
    root: bool
    parent: Contact | None
    children: tuple[Contact, ...]
    depth: int
    size: int
    epoch: int
    front: int | None
    released: int
    held_bytes: int
    unacknowledged: int
