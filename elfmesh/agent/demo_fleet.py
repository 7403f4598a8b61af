"""The demo's fleet: agent processes on loopback, each beside a web server that writes a log.

Owns starting, killing and stopping the processes and the thread that writes their logs. Refuses to know jobs
and results. Invariant: `Fleet.stop` leaves no process and no thread behind, whatever happened before.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from elfmesh.agent.traffic import ShopTraffic, TrafficWriter
from elfmesh.errors import ElfError, RuntimeFailure

STREAM = "clicks"
READY_TIMEOUT_S = 60.0
"""Eight interpreters starting at once on a small, busy machine."""

STOP_TIMEOUT_S = 10.0
TICK_S = 0.02


@dataclass(slots=True)
class AgentProcess:
    """One host: its name, its log, and the agent that reads it. Addresses are known once it is ready."""

    name: str
    log: Path
    errors: Path
    process: subprocess.Popen[str]
    api: str = ""
    overlay: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None


class Fleet:
    """Agents and their logs below one directory. Use as a context manager: leaving it stops everything.

    Args:
        directory: where logs and data directories go.
        count: how many agents.
        seed: of the shop's traffic.
        rate_per_s: lines per second of each web server.
    """

    def __init__(self, directory: Path, count: int, *, seed: int, rate_per_s: float) -> None:
        self.directory = directory
        self.count = count
        self.agents: list[AgentProcess] = []
        self.traffic = ShopLogs(
            {f"web{number}": directory / f"web{number}.ndjson" for number in range(1, count + 1)},
            seed=seed,
            rate_per_s=rate_per_s,
        )

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all agents; returns when each has printed its ready line.

        Raises:
            RuntimeFailure: one did not become ready.
        """
        names = list(self.traffic.paths)
        first = self._spawn(names[0], join=None)
        self.agents.append(first)
        _wait_ready(first)
        for name in names[1:]:
            self.agents.append(self._spawn(name, join=first.overlay))  # one by one: `stop` must know each
        for agent in self.agents[1:]:
            _wait_ready(agent)

    def kill(self, name: str) -> AgentProcess:
        """Kill an agent with SIGKILL, and silence its web server."""
        agent = next(agent for agent in self.agents if agent.name == name)
        agent.process.kill()
        agent.process.wait()
        self.traffic.silence(name)
        return agent

    def check(self, *, dead: str | None = None) -> None:
        """Raise RuntimeFailure if an agent other than `dead` has ended, or the traffic has."""
        for agent in self.agents:
            if agent.name != dead and not agent.alive:
                raise RuntimeFailure(
                    f"agent {agent.name} ended with code {agent.process.returncode}", hint=_last_words(agent)
                )
        self.traffic.check()

    def stop(self) -> None:
        """End traffic and agents: asked first, killed if they do not listen."""
        self.traffic.stop()
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

    def _spawn(self, name: str, *, join: str | None) -> AgentProcess:
        log, errors = self.traffic.paths[name], self.directory / f"{name}.err"
        command = [
            *(sys.executable, "-m", "elfmesh.agent", "agent"),
            *("--name", name, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"),
            *("--data-dir", str(self.directory / name), "--label", "role=web"),
            *("--stream", f"{STREAM}={log},format=json,idle=1 s"),
        ]
        if join is not None:
            command += ["--join", join]
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
        return AgentProcess(name, log, errors, process)


class ShopLogs:
    """The web servers: one thread that appends to every agent's log, stamped with the clock.

    Args:
        paths: agent's name to log file.
        seed: of the shop.
        rate_per_s: lines per second and log.
    """

    def __init__(self, paths: dict[str, Path], *, seed: int, rate_per_s: float) -> None:
        self.paths = paths
        self._seed = seed
        self._rate_per_s = rate_per_s
        self._writers: dict[str, TrafficWriter] = {}
        self._lock = threading.Lock()  # guards _writers and _silent
        self._silent: set[str] = set()
        self._stopping = threading.Event()
        self._failure: ElfError | None = None
        self._thread = threading.Thread(target=self._run, name="shop traffic", daemon=True)
        for path in paths.values():
            path.touch()

    def start(self) -> None:
        """Open the shop."""
        now = time.time_ns() // 1000
        with self._lock:
            self._writers = {
                name: TrafficWriter(
                    path, ShopTraffic(number, seed=self._seed), rate_per_s=self._rate_per_s, now_us=now
                )
                for number, (name, path) in enumerate(self.paths.items())
            }
        self._thread.start()

    def silence(self, name: str) -> None:
        """Let one web server write no more."""
        with self._lock:
            self._silent.add(name)

    def check(self) -> None:
        """Raise what the thread failed with, if it did."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Close the shop; nothing is written after this returns."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            for writer in self._writers.values():
                writer.close()

    @property
    def lines(self) -> int:
        """Lines written so far, all logs."""
        with self._lock:
            return sum(writer.written for writer in self._writers.values())

    @property
    def last_us(self) -> int:
        """Time of the newest line in any log."""
        with self._lock:
            return max((writer.last_us for writer in self._writers.values()), default=0)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(TICK_S):
                with self._lock:
                    for name, writer in self._writers.items():
                        if name not in self._silent:
                            writer.advance(time.time_ns() // 1000)
        except ElfError as error:
            self._failure = error


def _wait_ready(agent: AgentProcess) -> None:
    """Read `ready api=HOST:PORT overlay=HOST:PORT id=HEX` from an agent's stdout."""
    out: IO[str] | None = agent.process.stdout
    assert out is not None
    readable, _, _ = select.select([out], [], [], READY_TIMEOUT_S)
    line = out.readline() if readable else ""
    words = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
    if not line.startswith("ready ") or not {"api", "overlay"} <= words.keys():
        said = _last_words(agent) or line.strip()
        raise RuntimeFailure(f"agent {agent.name} did not become ready", hint=said)
    agent.api, agent.overlay = words["api"], words["overlay"]


def _last_words(agent: AgentProcess) -> str:
    """The end of what an agent wrote on stderr."""
    try:
        lines = agent.errors.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n  ".join(lines[-5:])
