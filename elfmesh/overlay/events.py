"""Events and effects of the overlay machine.

Several classes are the output of one room and the input of another (a tree requests `Watch`, the overlay
answers with `PeerDown`), so they are both `Event` and `Effect`, and the agent's core passes them on
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.machine import Contact, Effect, Event


@dataclass(frozen=True, slots=True)
class Start(Event):
    """Join through these addresses; none = found a new overlay. May be repeated with more seeds."""

    seeds: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Remember(Event, Effect):
    """Add agents of an earlier boot as entry points besides the seeds, which may all be gone.

    Must precede `Start`.
    """

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Lookup(Event, Effect):
    """Find the agents closest to `key`; answered by `LookupDone` with the same token."""

    key: bytes
    token: int


@dataclass(frozen=True, slots=True)
class Route(Event, Effect):
    """Send `body` and `payload` to the agent closest to `key`: at most once, without confirmation."""

    key: bytes
    body: bytes
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Watch(Event, Effect):
    """Exchange heartbeats with a peer until `Unwatch`, or until `PeerDown` reports it. Idempotent."""

    peer: Contact


@dataclass(frozen=True, slots=True)
class Unwatch(Event, Effect):
    """End a watch, however often it was requested; no effect if there is none."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Probe(Event, Effect):
    """Test whether this agent is reachable now. Answered by `ProbeDone`."""

    contact: Contact
    token: int


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """Hint of the transport that a connection broke or could not be made. The peer is probed immediately."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Leave(Event):
    """Leave the overlay with a good-bye; the machine is inert afterwards."""


@dataclass(frozen=True, slots=True)
class Joined(Effect, Event):
    """This agent knows its siblings and can route. Emitted once per successful join."""


@dataclass(frozen=True, slots=True)
class JoinFailed(Effect, Event):
    """This agent has not joined within the limit. The attempts continue; `Joined` may still follow."""

    reason: str


@dataclass(frozen=True, slots=True)
class LookupDone(Effect, Event):
    """Result of a look-up: the closest agents that answered, closest first; may include this agent."""

    token: int
    key: bytes
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class RouteDelivered(Effect, Event):
    """A routed message has arrived: this agent is the closest to `key`, verified."""

    key: bytes
    body: bytes
    payload: bytes
    origin: Contact


@dataclass(frozen=True, slots=True)
class PeerUp(Effect, Event):
    """A contact has entered the table (new, returned, or restarted)."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class PeerDown(Effect, Event):
    """A contact or watched peer is dead, has left, or was restarted. Any watch on it has ended."""

    id: bytes


@dataclass(frozen=True, slots=True)
class SiblingsChanged(Effect, Event):
    """The set of closest agents has changed, so roots may have moved. At most once per step."""


@dataclass(frozen=True, slots=True)
class ProbeDone(Effect, Event):
    """Result of a `Probe`; `contact` is the agent's own contact, if it answered."""

    token: int
    contact: Contact
    alive: bool


@dataclass(frozen=True, slots=True)
class Digest(Effect, Event):
    """The upper layer's bytes in a heartbeat from `peer`."""

    peer: bytes
    digest: bytes
