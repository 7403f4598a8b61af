"""What goes into the overlay machine and what comes out of it.

Several of these are the output of one room and the input of another (a tree asks for `Watch`, the overlay
answers with `PeerDown`), so they are both `Event` and `Effect`: the agent's core passes them on unchanged.
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
    """Agents met in an earlier boot: ways back in beside the seeds, which may all be gone. Before `Start`."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Lookup(Event, Effect):
    """Find the agents closest to `key`; answered by `LookupDone` with the same token."""

    key: bytes
    token: int


@dataclass(frozen=True, slots=True)
class Route(Event, Effect):
    """Bring `body` and `payload` to the agent closest to `key`: at most once, unconfirmed end to end."""

    key: bytes
    body: bytes
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Watch(Event, Effect):
    """Exchange heartbeats with a peer until `Unwatch`, or until it is reported by `PeerDown`. Idempotent."""

    peer: Contact


@dataclass(frozen=True, slots=True)
class Unwatch(Event, Effect):
    """End a watch, however often it was asked for; harmless if there is none."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Probe(Event, Effect):
    """Is this agent reachable right now? Answered by `ProbeDone`."""

    contact: Contact
    token: int


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """A hint of the transport: a connection broke, or could not be made. The peer is probed at once."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Leave(Event):
    """Say good-bye; the machine is inert afterwards."""


@dataclass(frozen=True, slots=True)
class Joined(Effect, Event):
    """This agent knows its siblings and can route. Comes once per successful join."""


@dataclass(frozen=True, slots=True)
class JoinFailed(Effect, Event):
    """No seed let us in within the limit. The attempts go on; `Joined` may still come."""

    reason: str


@dataclass(frozen=True, slots=True)
class LookupDone(Effect, Event):
    """The agents closest to `key` that answered during the look-up, closest first; may include this agent."""

    token: int
    key: bytes
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class RouteDelivered(Effect, Event):
    """A routed message arrived: this agent is the closest to `key`, verified."""

    key: bytes
    body: bytes
    payload: bytes
    origin: Contact


@dataclass(frozen=True, slots=True)
class PeerUp(Effect, Event):
    """A contact entered the table (first seen, back from the dead, or restarted)."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class PeerDown(Effect, Event):
    """A contact or watched peer is dead, has left, or was restarted. Any watch on it has ended."""

    id: bytes


@dataclass(frozen=True, slots=True)
class SiblingsChanged(Effect, Event):
    """The set of closest agents is another one: roots may have moved. At most once per step."""


@dataclass(frozen=True, slots=True)
class ProbeDone(Effect, Event):
    """The outcome of a `Probe`; `contact` is as the agent presented itself, if it answered."""

    token: int
    contact: Contact
    alive: bool


@dataclass(frozen=True, slots=True)
class Digest(Effect, Event):
    """The upper layer's bytes out of a heartbeat from `peer`."""

    peer: bytes
    digest: bytes
