"""What a multicast leaves behind at an agent: numbers heard, answers awaited, a log to replay from.

Owns plain state; the rules are in `multicast`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from elfmesh.machine import Contact

LOG_MAX = 32
"""Multicasts replayed to a latecomer."""


class Window:
    """Which sequence numbers of an era were heard: all up to `upto`, and some beyond."""

    def __init__(self, upto: int) -> None:
        self.upto = upto
        self.beyond: dict[int, None] = {}

    @property
    def newest(self) -> int:
        return max(self.beyond, default=self.upto)

    def has(self, seq: int) -> bool:
        """Whether `seq` was heard, or is too old to tell."""
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
class Hop:
    """A child that has yet to answer."""

    contact: Contact
    due: float
    tries: int = 0
    reached: bool = False


@dataclass(slots=True)
class Record:
    """The state of one multicast at this agent.

    Attributes:
        era, seq, kind, body: the message.
        parent: who wants the answers; None at the root.
        deadline: when the answers go, whatever they are.
        token: of the publisher.
        collects: whether answers are wanted.
        own: this agent's host has yet to answer.
        hops: children that have yet to answer.
        answers: by agent id.
        expected: members known to be in the subtrees that answered, and this agent.
        done: the answers have gone.
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
    hops: dict[bytes, Hop] = field(default_factory=dict)
    answers: dict[bytes, bytes] = field(default_factory=dict)
    expected: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """A message that can be replayed."""

    era: int
    seq: int
    kind: int
    body: bytes
