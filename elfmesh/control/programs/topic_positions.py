"""Positions of the vertices beside this agent in the topics that they follow.

Owns, for each program here, the newest position in each topic whose posts it has handled. A position is
stored before a restarted process asks for it; one that was lost in a crash makes the process handle posts
again.
"""

from __future__ import annotations

from collections import OrderedDict

from elfmesh.control.context import Context
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.events import Persist, ToProgram

KIND = "posts"
"""Kind of the stored positions in topics."""

TOPICS_MAX = 64
"""Maximum number of topics of one program; the position that is oldest is forgotten."""

PROGRAMS_MAX = 1024


class TopicPositions:
    """Positions in topics, by the ids of programs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of: OrderedDict[bytes, dict[str, str]] = OrderedDict()

    def restored(self, key: bytes, data: bytes) -> None:
        """Restore the positions of a program from an earlier boot."""
        if topics := program_frames.read_topics(data):
            self._of[key] = topics

    def followed(self, session: int, program: bytes, topic: str) -> None:
        """Answer a vertex that begins to follow a topic."""
        text = self._of.get(program, {}).get(topic, "")
        self._context.emit(ToProgram(session, program_frames.TopicPosition(topic, text)))

    def handled(self, program: bytes, topic: str, text: str) -> None:
        """Store that a vertex has handled the posts up to a position."""
        topics = self._of.setdefault(program, {})
        self._of.move_to_end(program)
        topics.pop(topic, None)
        topics[topic] = text
        while len(topics) > TOPICS_MAX:
            del topics[next(iter(topics))]
        self._context.emit(Persist(KIND, program, program_frames.encode(topics)))
        while len(self._of) > PROGRAMS_MAX:
            oldest, _ = self._of.popitem(last=False)
            self._context.emit(Persist(KIND, oldest, b""))
