"""Room: overlay. Membership of agents, and look-ups of the agents closest to an id.

A sans-IO Kademlia: `Overlay.step(event, now)` returns effects. machine.py lists its parts.

Paper: ELF 2.3.
"""

from elfmesh.overlay.events import (
    ConnectionLost,
    Digest,
    Joined,
    JoinFailed,
    Leave,
    Lookup,
    LookupDone,
    PeerDown,
    PeerUp,
    Probe,
    ProbeDone,
    Route,
    RouteDelivered,
    SiblingsChanged,
    Start,
    Unwatch,
    Watch,
)
from elfmesh.overlay.machine import Overlay
from elfmesh.overlay.messages import MESSAGES

__all__ = [
    "MESSAGES",
    "ConnectionLost",
    "Digest",
    "JoinFailed",
    "Joined",
    "Leave",
    "Lookup",
    "LookupDone",
    "Overlay",
    "PeerDown",
    "PeerUp",
    "Probe",
    "ProbeDone",
    "Route",
    "RouteDelivered",
    "SiblingsChanged",
    "Start",
    "Unwatch",
    "Watch",
]
