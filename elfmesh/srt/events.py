"""What goes into the forest (all trees of one agent) and what comes out of it.

Owns the words other rooms use to talk to the trees. Several are the output of one room and the input of
another, so they are both `Event` and `Effect`. `Lookup`, `LookupDone`, `Watch`, `Unwatch`, `PeerDown`,
`SiblingsChanged` and `Digest` are the overlay's own classes.

Paper: ELF 3, Table 1 (Subscribe, SendTo/OnRecv, Multicast/OnMulticast, OnTimer).
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.machine import Contact, Effect, Event
from elfmesh.srt.messages import Segment


@dataclass(frozen=True, slots=True)
class Subscribe(Event, Effect):
    """Join the tree as a member: deliver its multicasts here. Idempotent."""

    tree: bytes


@dataclass(frozen=True, slots=True)
class Unsubscribe(Event, Effect):
    """Stop delivering and contributing; the agent leaves the tree once no child depends on it. Idempotent."""

    tree: bytes


@dataclass(frozen=True, slots=True)
class Contribute(Event, Effect):
    """This agent's own segment: its coverage is this agent's bit alone.

    `payloads[i]` belongs to `segment.entries[i]`, b"" if that entry has no rows. An empty range (`start
    == stop`, no entries) declares "I contribute from `start` on", so that the barrier waits for this
    agent before its first segment. The attempt in the segment is ignored: the forest knows the current
    one.
    """

    tree: bytes
    segment: Segment
    payloads: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged(Event, Effect):
    """The outcome of a `MergeRequest`: the merged payload, or None and the reason."""

    token: int
    payload: bytes | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Release(Event, Effect):
    """Everything below interval `stop` is closed for good: drop it. Within `epoch` it never goes backwards.

    A later epoch may be another incarnation of the job, which closes everything again.
    """

    tree: bytes
    stop: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Recollect(Event, Effect):
    """Collect [start, stop) again as `attempt`: every agent sends its own contribution alone. Root only."""

    tree: bytes
    start: int
    stop: int
    attempt: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Hasten(Event, Effect):
    """Do not wait any longer for intervals below `stop`: send up what is there (D-9, D-11). Root only."""

    tree: bytes
    stop: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Publish(Event, Effect):
    """Multicast `body` to every subscribed agent. Root only. `PublishDone` follows within `timeout_s`.

    `token` is only copied to `PublishDone`.
    """

    tree: bytes
    body: bytes
    timeout_s: float
    token: int = 0


@dataclass(frozen=True, slots=True)
class Answer(Event, Effect):
    """What this agent says to a `Delivered`; b"" is a plain acknowledgement."""

    tree: bytes
    seq: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class BecameRoot(Effect, Event):
    """A verified look-up found no agent closer to the tree's id than this agent."""

    tree: bytes


@dataclass(frozen=True, slots=True)
class LostRoot(Effect, Event):
    """A closer agent is there, or the tree is gone from this agent."""

    tree: bytes


@dataclass(frozen=True, slots=True)
class Attached(Effect, Event):
    """This agent has a parent in the tree."""

    tree: bytes
    parent: Contact


@dataclass(frozen=True, slots=True)
class Detached(Effect, Event):
    """This agent lost its parent; it is looking for another."""

    tree: bytes


@dataclass(frozen=True, slots=True)
class Delivered(Effect, Event):
    """A multicast arrived, once; order is not promised. The host answers with `Answer`."""

    tree: bytes
    seq: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PublishDone(Effect, Event):
    """Who answered a `Publish`, in no promised order, and how many members the tree is known to have."""

    tree: bytes
    seq: int
    answers: tuple[tuple[bytes, bytes], ...]
    expected: int
    token: int = 0


@dataclass(frozen=True, slots=True)
class MergeRequest(Effect, Event):
    """Merge the payloads of one interval of a tree; answered by `Merged` with the same token."""

    token: int
    parts: tuple[bytes, ...]
    tree: bytes = b""
    interval: int = 0


@dataclass(frozen=True, slots=True)
class Collected(Effect, Event):
    """At the root: a merged partial. `payloads[i]` belongs to `segment.entries[i]`.

    Coverages of one (interval, attempt) never overlap; a higher attempt stands beside the lower one until it
    covers as much, then replaces it.
    """

    tree: bytes
    segment: Segment
    payloads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Recollecting(Effect, Event):
    """At the root: partials overlapped, so [start, stop) is being collected again as `attempt`."""

    tree: bytes
    epoch: int
    start: int
    stop: int
    attempt: int


@dataclass(frozen=True, slots=True)
class PartsDropped(Effect, Event):
    """At the root: contributions of `coverage` to [start, stop) cannot be merged with the others."""

    tree: bytes
    epoch: int
    start: int
    stop: int
    coverage: bytes
    error: str


@dataclass(frozen=True, slots=True)
class TreeInfo:
    """A tree as seen from this agent, for people and tests."""

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
