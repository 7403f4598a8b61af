"""Handles SIGTERM and SIGINT: an orderly stop, and the end of the process if a thread does not return.

A thread that evaluates a block cannot be interrupted and may take minutes. After `STOP_S` the process
therefore ends as in a crash, which no file is damaged by; the next start reads the block again. An agent that
leaves when it is stopped (`on_stop`) has `LEAVE_S` before that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Self

from elfmesh.errors import Unreachable

log = logging.getLogger("elf.agent")
STOP_S = 10.0
"""Well below the 30 s after which the service manager kills the process."""

LEAVE_S = 15.0
"""How long an agent may hand its open windows to others; with `STOP_S`, below the same 30 s."""


class Stopping:
    """Whether the agent was asked to stop. `end` ends the process `stop_s` after the first signal."""

    def __init__(
        self,
        begun: Callable[[], None] = lambda: None,
        stop_s: float = STOP_S,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self.asked = asyncio.Event()
        self._begun = begun
        self._stop_s, self._end = stop_s, end
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self) -> None:
        self.asked.set()
        if self._timer is None:
            self._begun()
            self._timer = threading.Timer(self._stop_s, self._end_now)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end_now(self) -> None:
        log.warning(
            "a block is still being evaluated %.0f s after the signal: the process ends now", self._stop_s
        )
        for handler in logging.getLogger().handlers:
            handler.flush()
        self._end(0)


async def leave(request: Callable[[str, dict[str, Any], float], Awaitable[Any]]) -> None:
    """Hand the open windows to other agents. If that takes too long, the agent stops and stays expected.

    Args:
        request: passes a verb, its body and a time limit in seconds to the control machine.
    """
    try:
        state = (await request("leave", {"wait": LEAVE_S, "now": True}, LEAVE_S)).body.get("state")
    except Unreachable:
        state = ""
    if state != "left":
        log.warning("the agent has not left within %.0f s: other agents still expect it", LEAVE_S)
