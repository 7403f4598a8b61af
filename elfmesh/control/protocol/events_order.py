"""Effects and events about ordered topics; `events` exports them with all others."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.protocol.messages_order import Post
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class ReadPosts(Effect):
    """Read the next posts of a stream for an ordered topic; each such effect has one `PostsRead`.

    `restart`: all posts before this position are ordered. The reader begins there, and the stream must keep
    what follows. b"": where the configuration of the stream begins.
    """

    job: bytes
    incarnation: str
    stream: str
    restart: bytes


@dataclass(frozen=True, slots=True)
class StopPosts(Effect):
    """Stop reading for an ordered topic."""

    job: bytes


@dataclass(frozen=True, slots=True)
class PostsRead(Event):
    """The next posts of a stream, in its order; `restart` is the position after them."""

    job: bytes
    incarnation: str
    posts: tuple[Post, ...]
    restart: bytes
