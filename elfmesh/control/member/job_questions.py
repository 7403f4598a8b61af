"""Asks the rendezvous of each stream which jobs run, so that the agent learns of jobs that it missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages import WhatRuns

ASK_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between the first questions what runs; then every ASK_ALWAYS_S."""

ASK_ALWAYS_S = 30.0


class JobQuestions:
    """The questions of one agent, one message per stream; those of the first 16 s until a job answers.

    Args:
        streams: names of the agent's streams.
    """

    def __init__(self, context: Context, streams: Callable[[], Iterable[str]]) -> None:
        self._context, self._streams = context, streams
        self._asked, self._begun = 0, False
        self._answered: set[str] = set()

    def soon(self) -> None:
        """Ask now, then less and less often."""
        self._asked = 0
        self._answered.clear()
        if not self._begun:
            self._begun = True
            self._ask()

    def answered(self, stream: str) -> None:
        """Take that jobs of a stream are known."""
        self._answered.add(stream)

    def _ask(self) -> None:
        early = self._asked < len(ASK_S)
        for name in self._streams():
            if not early or name not in self._answered:
                self._context.route(ids.stream_id(name), WhatRuns(name, self._context.me))
        pause = ASK_S[self._asked] if early else ASK_ALWAYS_S
        self._asked += 1
        self._context.after(self._context.jittered(pause), self._ask)
