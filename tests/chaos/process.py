"""Agents behind the proxy that are killed, stopped and started again; nobody waits for any of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.logs import NAME
from tests.chaos.proxy import FaultProxy
from tests.e2e.fleet import Agent

UP, STARTING, STOPPED, DOWN = "up", "starting", "stopped", "down"
START_S = 90.0


class Victim(Agent):
    """One agent.

    Attributes:
        state: UP, STARTING, STOPPED (by a signal) or DOWN.
        back_at: when a DOWN one is to be started, or a STOPPED one to go on, in monotonic seconds.
        armed: the fail point it was last started with.
    """

    def __init__(self, directory: Path, number: int, proxy: FaultProxy) -> None:
        path = directory / NAME
        super().__init__(directory, number, [f"log={path},format=json,idle=1 s"])
        self._proxy = proxy
        self._listen = ("127.0.0.1", free_port())
        self.advertised = "{}:{}".format(*proxy.listen(self.name, self._listen))
        self.api = f"127.0.0.1:{free_port()}"
        self.state, self.back_at, self.armed = DOWN, 0.0, ""
        self.starts = 0

    def command(self, join: Sequence[str]) -> list[str]:
        words = super().command(join)
        words[words.index("--listen") + 1] = "{}:{}".format(*self._listen)
        return [*words, "--advertise", self.advertised, "--join-timeout", "1 h"]

    def rise(self, join: list[str], failpoint: str = "") -> None:
        """Start, with a fail point if one is named; does not wait."""
        self.armed = failpoint
        self.environment = {"ELF_FAILPOINT": failpoint} if failpoint else {}
        self.state = STARTING
        self.starts += 1
        self.start(join)

    def look(self) -> int | None:
        """Notice that it is ready, or has ended by itself; then its exit code."""
        assert self.process is not None
        code = self.process.poll()
        if code is not None and self.state != DOWN:
            self.kill()
            self.state = DOWN
            return code
        if self.state == STARTING:
            assert self.process.stdout is not None
            if select.select([self.process.stdout], [], [], 0)[0]:
                self.wait_ready()
                self._proxy.knows(self.name, self.id)
                self.state = UP
            elif time.monotonic() - self.began > START_S:
                raise AssertionError(f"{self.name} is not ready after {START_S:g} s\n{self.errors()[-4000:]}")
        return None

    def fall(self) -> None:
        """SIGKILL."""
        self.kill()
        self.state = DOWN

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.state = STOPPED

    def go_on(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)
        self.state = UP


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
