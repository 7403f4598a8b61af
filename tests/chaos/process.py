"""Agents behind the proxy that are killed, stopped and started again; no test waits for any of them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from elfmesh.cli.host.local_agents import says_something
from tests.chaos.logs import NAME
from tests.chaos.proxy import FaultProxy
from tests.e2e.fleet import Agent
from tests.e2e.zygote import Zygote
from tests.ports import reserve

UP, STARTING, STOPPED, DOWN = "up", "starting", "stopped", "down"
START_S = 300.0
NICE = 5
"""All agents talk through one process, the proxy: where it waits for a core like each of them, the network is
what is slow, by seconds, and no job goes on."""


class Victim(Agent):
    """One agent.

    Attributes:
        state: UP, STARTING, STOPPED (by a signal) or DOWN.
        back_at: when a DOWN one is to be started, or a STOPPED one to go on, in monotonic seconds.
        armed: the fail point it was last started with.
    """

    def __init__(self, directory: Path, number: int, proxy: FaultProxy, zygote: Zygote | None = None) -> None:
        path = directory / NAME
        super().__init__(directory, number, [f"log={path},format=json,idle=1 s"])
        self._proxy, self._zygote, self.cold = proxy, zygote, zygote is None
        self._listen = ("127.0.0.1", reserve())
        self.advertised = "{}:{}".format(*proxy.listen(self.name, self._listen))
        self.api = f"127.0.0.1:{reserve()}"
        self.state, self.back_at, self.armed = DOWN, 0.0, ""
        self.starts = 0

    def command(self, join: Sequence[str]) -> list[str]:
        words = super().command(join)
        words[words.index("--listen") + 1] = "{}:{}".format(*self._listen)
        return ["nice", "-n", str(NICE), *words, "--advertise", self.advertised, "--join-timeout", "1 h"]

    def start(self, join: Sequence[str] = ()) -> None:
        """Start without waiting: as a program, or forked by the zygote if there is one."""
        if self._zygote is None:
            super().start(join)
            return
        words = self.command(join)
        self.began = time.monotonic()
        with (self.directory / "stderr").open("ab") as stderr:
            words = words[words.index("elfmesh.agent") + 1 :]
            environment = {**os.environ, **self.environment}
            self.process = self._zygote.start(words, environment, stderr.fileno(), NICE)

    def rise(self, join: list[str], failpoint: str = "") -> None:
        """Start, with a fail point if one is named; does not wait."""
        self.armed = failpoint
        self.environment = {"ELF_FAILPOINT": failpoint} if failpoint else {}
        # An installed agent starts from compiled modules; to compile them again costs more than all the rest.
        modules = str(self.directory.parent / "modules")
        self.environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": modules}
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
            if says_something(self.process.stdout, 0):
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
