"""Starts agent processes on loopback, waits until they are ready, and stops them.

The module owns the processes of demonstrations and measurements. Invariant: `stop` leaves no process.
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
"""An agent that uses no processor time for this long makes no progress. On a busy machine, an agent is only
slow."""
JOIN_TIMEOUT = "10 min"
"""Long, because all agents start at once, so the agent that the others join may answer late."""

STOP_TIMEOUT_S = 10.0


@dataclass(slots=True)
class AgentProcess:
    """An agent process; its addresses are empty until it is ready."""

    name: str
    errors: Path
    process: subprocess.Popen[str]
    api: str = ""
    overlay: str = ""

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class LocalAgents:
    """Agent processes with their data in one directory. Used as a context manager, it stops them on exit.

    Args:
        directory: directory for the data directories and for the standard error output of the agents.
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
        """Start an agent with these options for each name, and return when each has printed its ready line.

        Raises:
            RuntimeFailure: an agent did not become ready.
        """
        started = []
        for name, options in hosts.items():
            join = self.agents[0].overlay if self.agents else None
            started.append(self._spawn(name, options, join))
            self.agents.append(started[-1])  # one by one, so that `stop` knows each process
            if join is None:
                _wait_ready(started.pop())
        for agent in started:
            _wait_ready(agent)

    def kill(self, name: str) -> AgentProcess:
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
        """Terminate the agents; those that do not end in time are killed."""
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
        """Return the command that starts an agent; `join` is the overlay address of another agent."""
        command = [
            *(sys.executable, "-m", "elfmesh.agent", "agent"),
            *("--name", name, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"),
            *("--data-dir", str(self.directory / name), *options),
        ]
        return command if join is None else [*command, "--join", join, "--join-timeout", JOIN_TIMEOUT]

    def _spawn(self, name: str, options: Sequence[str], join: str | None) -> AgentProcess:
        errors = self.directory / f"{name}.err"
        command = self.command(name, options, join)
        # The user's ELF_... variables configure the user's own agents, not these.
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
        why = f": it used no processor time for {IDLE_S_MAX:g} s" if idle else ""
        raise RuntimeFailure(f"agent {agent.name} did not become ready{why}", hint=reported)
    agent.api, agent.overlay = words["api"], words["overlay"]


def _spent_ns(pid: int) -> int:
    """Processor time of the main thread in nanoseconds.

    Without /proc, returns the clock, so a process always counts as busy.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return time.monotonic_ns()


def says_something(out: IO[Any], timeout_s: float) -> bool:
    """Wait until a process has written or closed its output; False after the time limit."""
    with selectors.DefaultSelector() as selector:  # select.select accepts no descriptor above 1023
        selector.register(out, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


def _last_words(agent: AgentProcess) -> str:
    try:
        lines = agent.errors.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n  ".join(lines[-5:])
