"""State of multicasts at an agent: received numbers, pending answers, and a log for replays.

Owns data; `multicast` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from elfmesh.machine import Contact

LOG_MAX = 32
"""Multicasts that are replayed to an agent that joins later."""


class ReceivedNumbers:
    """Received sequence numbers of an era: all up to `upto`, and some beyond."""

    def __init__(self, upto: int) -> None:
        self.upto = upto
        self.beyond: dict[int, None] = {}

    @property
    def newest(self) -> int:
        return max(self.beyond, default=self.upto)

    def has(self, seq: int) -> bool:
        """Return whether `seq` was received, or is too old to tell."""
        return seq <= self.upto or seq in self.beyond

    def add(self, seq: int) -> None:
        self.beyond[seq] = None
        self.skip_to(max(self.upto, self.newest - LOG_MAX))

    def skip_to(self, upto: int) -> None:
        self.upto = max(self.upto, upto)
        while self.upto + 1 in self.beyond:
            self.upto += 1
        self.beyond = {seq: None for seq in self.beyond if seq > self.upto}


@dataclass(slots=True)
class PendingChild:
    """Child whose answer is pending."""

    contact: Contact
    due: float
    tries: int = 0
    reached: bool = False


@dataclass(slots=True)
class Record:
    """State of one multicast at this agent.

    Attributes:
        era, seq, kind, body: the message.
        parent: receiver of the answers; None at the root.
        deadline: when the collected answers are sent, complete or not.
        token: token of the publisher.
        collects: whether answers are collected.
        own: whether the answer of this agent's host is pending.
        hops: children whose answers are pending.
        answers: by agent id.
        expected: known members in the subtrees that answered, and this agent.
        done: whether the answers were sent.
    """

    era: int
    seq: int
    kind: int
    body: bytes
    parent: Contact | None
    deadline: float
    token: int = 0
    collects: bool = True
    own: bool = False
    hops: dict[bytes, PendingChild] = field(default_factory=dict)
    answers: dict[bytes, bytes] = field(default_factory=dict)
    expected: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """Message that can be replayed."""

    era: int
    seq: int
    kind: int
    body: bytes
