"""Events and effects of the overlay machine.

Several classes are the output of one room and the input of another (a tree requests `Watch`, the overlay
answers with `PeerDown`), so they are both `Event` and `Effect`, and the agent's core passes them on
unchanged.
"""

from __future__ import annotations

from msgspec import Struct

from elfmesh.machine import Contact, Effect, Event


class Start(Event, Struct, frozen=True):
    """Join through these addresses; none = found a new overlay. May be repeated with more seeds."""

    seeds: tuple[tuple[str, int], ...] = ()


class Remember(Event, Effect, Struct, frozen=True):
    """Add agents of an earlier boot as entry points besides the seeds, which may all be gone.

    Must precede `Start`.
    """

    contacts: tuple[Contact, ...]


class Lookup(Event, Effect, Struct, frozen=True):
    """Find the agents closest to `key`; answered by `LookupDone` with the same token.

    Attributes:
        within_s: an answer to another look-up will do if it is at most that old, and proves which `certain`
            agents are the closest. These are the answer. 0: look up in any case.
    """

    key: bytes
    token: int
    within_s: float = 0.0
    certain: int = 1


class Route(Event, Effect, Struct, frozen=True):
    """Send `body` and `payload` to the agent closest to `key`: at most once, without confirmation."""

    key: bytes
    body: bytes
    payload: bytes = b""


class Watch(Event, Effect, Struct, frozen=True):
    """Exchange heartbeats with a peer until `Unwatch`, or until `PeerDown` reports it. Idempotent."""

    peer: Contact


class Unwatch(Event, Effect, Struct, frozen=True):
    """End a watch, however often it was requested; no effect if there is none."""

    id: bytes


class Probe(Event, Effect, Struct, frozen=True):
    """Test whether this agent is reachable now. Answered by `ProbeDone`.

    `others`: also through other peers, because a link to a living agent may be cut.
    """

    contact: Contact
    token: int
    others: bool = False


class ConnectionLost(Event, Struct, frozen=True):
    """Hint of the transport that a connection broke or could not be made. The peer is probed immediately."""

    id: bytes


class Leave(Event, Struct, frozen=True):
    """Leave the overlay with a good-bye; the machine is inert afterwards."""


class Joined(Effect, Event, Struct, frozen=True):
    """This agent knows its siblings and can route. Emitted once per successful join."""


class JoinFailed(Effect, Event, Struct, frozen=True):
    """This agent has not joined within the limit. The attempts continue; `Joined` may still follow."""

    reason: str


class LookupDone(Effect, Event, Struct, frozen=True):
    """Result of a look-up: the closest agents that answered, closest first; may include this agent.

    `at`: when they answered, if not to this look-up.
    """

    token: int
    key: bytes
    contacts: tuple[Contact, ...]
    at: float | None = None


class RouteDelivered(Effect, Event, Struct, frozen=True):
    """A routed message has arrived: this agent is the closest to `key`, verified."""

    key: bytes
    body: bytes
    payload: bytes
    origin: Contact


class PeerUp(Effect, Event, Struct, frozen=True):
    """A contact has entered the table (new, returned, or restarted)."""

    contact: Contact


class PeerDown(Effect, Event, Struct, frozen=True):
    """A contact or watched peer is dead, has stopped, or was restarted. Any watch on it has ended.

    `stopped`: it has said good-bye.
    """

    id: bytes
    stopped: bool = False


class SiblingsChanged(Effect, Event, Struct, frozen=True):
    """The set of closest agents has changed, so roots may have moved. At most once per step."""


class ProbeDone(Effect, Event, Struct, frozen=True):
    """Result of a `Probe`; `contact` is the agent's own contact, if it answered.

    `others`: only other peers have reached it.
    """

    token: int
    contact: Contact
    alive: bool
    others: bool = False


class Digest(Effect, Event, Struct, frozen=True):
    """The upper layer's bytes in a heartbeat from `peer`."""

    peer: bytes
    digest: bytes
