"""Messages about ordered topics. `messages` has the list of all messages.

Owns the form of posts on the wire. Both messages may arrive in any order, twice or never: the agent of the
publisher repeats its posts until the master names their positions as ordered. They have the incarnation of
the topic and no epoch, because a post that is in a record is in the log of every later master.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.limits import POST_BYTES_MAX
from elfmesh.machine import Count, Id, Message
from elfmesh.wire import UNREADABLE

PAYLOAD_BYTES_MAX = 512 << 10
"""Maximum size of the posts in one message."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
Moment = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class Post(msgspec.Struct, frozen=True, array_like=True):
    """One post; `producer` and `position` name it at its agent, and `at_us` is the time of that agent."""

    producer: Name
    position: Count
    at_us: Moment
    body: Annotated[str, msgspec.Meta(max_length=POST_BYTES_MAX)]

    @property
    def nbytes(self) -> int:
        """Size of the body in UTF-8."""
        return len(self.body.encode())


class OrderPosts(Message, frozen=True, tag="ctl.order"):
    """Agent to the master of an ordered topic: posts that are not known to be ordered, in their order.

    The payload has the posts of the agent from the first one that is not confirmed. `agent` is its name.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: Name
    agent: Name


class Ordered(Message, frozen=True, tag="ctl.ordered"):
    """Master to the agent of a publisher: the newest position of producers that a closed record contains."""

    since: ClassVar[int] = 3

    job: Id
    incarnation: Name
    positions: tuple[tuple[Name, Count], ...]


ORDER_MESSAGES: tuple[type[Message], ...] = (OrderPosts, Ordered)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[Post, ...])


def encode_posts(posts: list[Post]) -> bytes:
    return _ENCODER.encode(posts)


def decode_posts(payload: bytes) -> tuple[Post, ...]:
    """Return the posts of a message.

    Raises:
        ProtocolError: the payload is too large, or contains something else.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ProtocolError(f"posts of {len(payload)} bytes in one message")
    try:
        return _DECODER.decode(payload)
    except UNREADABLE as error:
        raise ProtocolError(f"posts: {error}") from None
