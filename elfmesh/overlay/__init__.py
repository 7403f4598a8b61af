"""Room: overlay. Who is there and who is closest.

A sans-IO Kademlia: `Overlay.step(event, now)` returns effects. See machine.py for its parts.

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
