"""Agent processes on loopback: started one by one, known once they are ready, stopped whatever happened.

Owns the processes of a demonstration; knows nothing of what they are shown with. Invariant: `stop` leaves no
process behind.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from elfmesh.errors import RuntimeFailure

IDLE_S_MAX = 60.0
"""An agent that uses no processor time for so long makes no progress. A busy machine only makes it slow."""
JOIN_TIMEOUT = "10 min"
"""The agents start at once, so the one that others join may be slow to answer."""

STOP_TIMEOUT_S = 10.0


@dataclass(slots=True)
class AgentProcess:
    """One host: its name, and the agent on it. Addresses are known once it is ready."""

    name: str
    errors: Path
    process: subprocess.Popen[str]
    api: str = ""
    overlay: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None


class LocalAgents:
    """Agents below one directory. Use as a context manager: leaving it stops them.

    Args:
        directory: where data directories and what the agents say on stderr go.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.agents: list[AgentProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, hosts: dict[str, Sequence[str]]) -> None:
        """Start an agent for each name, with these options; returns when each has printed its ready line.

        Raises:
            RuntimeFailure: one did not become ready.
        """
        started = []
        for name, options in hosts.items():
            join = self.agents[0].overlay if self.agents else None
            started.append(self._spawn(name, options, join))
            self.agents.append(started[-1])  # one by one: `stop` must know each
            if join is None:
                _wait_ready(started.pop())
        for agent in started:
            _wait_ready(agent)

    def kill(self, name: str) -> AgentProcess:
        """Kill an agent with SIGKILL."""
        agent = next(agent for agent in self.agents if agent.name == name)
        agent.process.kill()
        agent.process.wait()
        return agent

    def check(self, *, dead: str | None = None) -> None:
        """Raise RuntimeFailure if an agent other than `dead` has ended."""
        for agent in self.agents:
            if agent.name != dead and not agent.alive:
                raise RuntimeFailure(
                    f"agent {agent.name} ended with code {agent.process.returncode}", hint=_last_words(agent)
                )

    def stop(self) -> None:
        """End the agents: asked first, killed if they do not listen."""
        for agent in self.agents:
            if agent.alive:
                agent.process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for agent in self.agents:
            try:
                agent.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                agent.process.kill()
                agent.process.wait()
            if agent.process.stdout is not None:
                agent.process.stdout.close()

    def command(self, name: str, options: Sequence[str], join: str | None) -> list[str]:
        """What starts an agent; `join`: another one's address in the overlay."""
        command = [
            *(sys.executable, "-m", "elfmesh.agent", "agent"),
            *("--name", name, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"),
            *("--data-dir", str(self.directory / name), *options),
        ]
        return command if join is None else [*command, "--join", join, "--join-timeout", JOIN_TIMEOUT]

    def _spawn(self, name: str, options: Sequence[str], join: str | None) -> AgentProcess:
        errors = self.directory / f"{name}.err"
        command = self.command(name, options, join)
        # The user's own ELF_... settings are meant for the user's own agents.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ELF_")}
        with errors.open("w") as sink:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environment,
                text=True,
            )
        return AgentProcess(name, errors, process)


def _wait_ready(agent: AgentProcess) -> None:
    """Read `ready api=HOST:PORT overlay=HOST:PORT id=HEX` from an agent's stdout."""
    out: IO[str] | None = agent.process.stdout
    assert out is not None
    spent_ns, idle = -1, False
    while not (idle or says_something(out, IDLE_S_MAX)):
        before_ns, spent_ns = spent_ns, _spent_ns(agent.process.pid)
        idle = spent_ns == before_ns
    line = "" if idle else out.readline()
    words = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
    if not line.startswith("ready ") or not {"api", "overlay"} <= words.keys():
        reported = _last_words(agent) or line.strip()
        why = f": it does nothing for {IDLE_S_MAX:g} s" if idle else ""
        raise RuntimeFailure(f"agent {agent.name} did not become ready{why}", hint=reported)
    agent.api, agent.overlay = words["api"], words["overlay"]


def _spent_ns(pid: int) -> int:
    """Processor time of its main thread; where the kernel does not tell, it passes for busy until it ends."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return time.monotonic_ns()


def says_something(out: IO[Any], timeout_s: float) -> bool:
    """Whether a process has written something within a time, or has closed its output."""
    with selectors.DefaultSelector() as selector:  # select.select knows no descriptor beyond 1023
        selector.register(out, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


def _last_words(agent: AgentProcess) -> str:
    try:
        lines = agent.errors.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n  ".join(lines[-5:])
