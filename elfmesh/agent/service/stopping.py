"""Handles SIGTERM and SIGINT: an orderly stop, and the end of the process if a thread does not return.

A thread that evaluates a block cannot be interrupted and may take minutes. After `STOP_S` the process
therefore ends as in a crash, which no file is damaged by; the next start reads the block again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Self

log = logging.getLogger("elf.agent")
STOP_S = 10.0
"""Well below the 30 s after which the service manager kills the process."""


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
