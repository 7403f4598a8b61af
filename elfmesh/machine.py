"""What every protocol core in elfmesh looks like: an event in, a list of effects out.

A core never owns a socket, a task, a clock or a random source. `now` is an argument (monotonic seconds),
randomness is injected and seeded, and what should happen in the outside world is returned as effects, which
the pump (agent/) or the simulator (tests/sim) carries out. `deadline` says when the core next wants a `Tick`.

Misuse by our own code raises; a peer's fault is an effect and a counter, never a raise out of `step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Struct

from elfmesh.ids import ID_BYTES

T = TypeVar("T")
Moment = TypeVar("Moment", int, float)
Id = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
"""An id as a field of a message: one of another length is refused with the message (ids.py)."""
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number that grows, or that names something: never negative, never beyond what a digest has room for."""
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
"""A measured quantity: never negative, infinite or not a number, which compares with nothing."""
Index = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""An interval's number; room is left to add to it."""


class Rng(Protocol):
    """The part of `random.Random` that cores may use; always injected, always seeded."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """An integer of k random bits."""
        ...

    def randrange(self, start: int, stop: int, /) -> int:
        """An integer in [start, stop)."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """A float in [a, b]."""
        ...

    def shuffle(self, x: list[T]) -> None:
        """Shuffle in place."""
        ...

    def choice(self, seq: Sequence[T]) -> T:
        """One element."""
        ...

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Distinct elements, k of them."""
        ...


class Contact(msgspec.Struct, frozen=True, array_like=True):
    """How to reach an agent: its id and the address of its overlay listener.

    Attributes:
        id: 20 bytes.
        host: address to connect to.
        port: overlay port.
        incarnation: grows each time the agent starts or refutes its own death.
        rack: failure-domain label, "" if unknown; agents of one rack are in one region.
        region: failure-domain label, "" if unknown. Earlier versions do not send it and ignore it.
    """

    id: bytes
    host: str
    port: int
    incarnation: int = 0
    rack: str = ""
    region: str = ""


class Message(msgspec.Struct, frozen=True, tag_field="t"):
    """Base of everything agents say to each other. A subclass sets `tag="room.kind"` and typed fields.

    Fields that are added have defaults, and those that are not known are left out in reading, so that agents
    of two versions understand each other. A kind of message that is added says `since` which version of the
    protocol (`agent.net.connection`) there is one: those who speak an earlier one are not sent it.
    """

    since: ClassVar[int] = 1


class Caused(Message, frozen=True, kw_only=True):
    """Base of messages that can lead to a step for an interval at another agent (`causes`).

    `cause` names the step that led to the message. It is absent if none did, or if the sender is of an
    earlier version. Earlier versions ignore it.
    """

    cause: Annotated[bytes, msgspec.Meta(max_length=64)] | msgspec.UnsetType = msgspec.UNSET


class Event:
    """Base of what goes into a machine."""

    __slots__ = ()


class Effect:
    """Base of what comes out of a machine."""

    __slots__ = ()


class Tick(Event, Struct, frozen=True):
    """Time has passed; due timers fire. Harmless when early or repeated."""


class Received(Event, Struct, frozen=True):
    """A message from a peer. `payload` is the raw bytes that travelled beside the header."""

    sender: Contact
    message: Message
    payload: bytes = b""


class Send(Effect, Struct, frozen=True):
    """Send a message to a peer: at most once, may be lost; cores retransmit what matters.

    `lane` 0 is the strict-priority control lane; any other number is a bulk stream that shares the
    connection by deficit round robin.
    """

    to: Contact
    message: Message
    payload: bytes = b""
    lane: int = 0


def earliest(*times: Moment | None) -> Moment | None:
    """The first of some deadlines or intervals, None if there is none."""
    first: Moment | None = None
    for at in times:
        if at is not None and (first is None or at < first):
            first = at
    return first


class Machine(Protocol):
    """The shape of a core."""

    def step(self, event: Event, now: float) -> list[Effect]:
        """Apply one event; the only mutator."""
        ...

    @property
    def deadline(self) -> float | None:
        """Monotonic time of the next wanted `Tick`, or None."""
        ...
