"""Effects and events about ordered topics; `events` exports them with all others."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.control.protocol.messages_order import Post
from elfmesh.machine import Effect, Event


class ReadPosts(Effect, Struct, frozen=True):
    """Read the next posts of a stream for an ordered topic; each such effect has one `PostsRead`.

    `restart`: all posts before this position are ordered. The reader begins there, and the stream must keep
    what follows. b"": where the configuration of the stream begins.
    """

    job: bytes
    incarnation: str
    stream: str
    restart: bytes


class StopPosts(Effect, Struct, frozen=True):
    """Stop reading for an ordered topic."""

    job: bytes


class PostsRead(Event, Struct, frozen=True):
    """The next posts of a stream, in its order; `restart` is the position after them."""

    job: bytes
    incarnation: str
    posts: tuple[Post, ...]
    restart: bytes
