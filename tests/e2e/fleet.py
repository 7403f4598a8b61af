"""Real agents on loopback for the end-to-end tests: start, wait, ask, kill, and tell what went wrong.

Every agent is a process with ports (`ports`) and a directory of its own; whatever happens, none survives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from elfmesh.api.identity.bearer import TOKEN_FILE, read_token
from elfmesh.cli.host.local_agents import says_something
from tests.e2e.zygote import zygote
from tests.patience import PATIENCE_S
from tests.ports import reserve


class Running(Protocol):
    """What is used of a `subprocess.Popen`."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Busy(AssertionError):
    """An agent answers 503: nothing leads the job just now, or an agent was too busy; ask again soon."""


class Agent:
    """One `elf agent` process."""

    def __init__(
        self, directory: Path, number: int, streams: Sequence[str], extra: Sequence[str] = ()
    ) -> None:
        self.directory, self.number = directory, number
        self.name = f"agent-{number}"
        self.streams, self.extra = list(streams), list(extra)
        self.environment: dict[str, str] = {}
        self.cold = False
        """Started as a program in any case: what it imports when is looked at."""
        self.process: Running | None = None
        self.api = self.overlay = self.id = ""
        self.ready_s = 0.0
        directory.mkdir(parents=True, exist_ok=True)

    def command(self, join: Sequence[str]) -> list[str]:
        words = [sys.executable, "-m", "elfmesh.agent", "agent", "--name", self.name]
        words += ["--listen", self.overlay or self._address(), "--api", self.api or self._address()]
        words += ["--data-dir", str(self.directory / "data")]
        for address in join:
            words += ["--join", address]
        for stream in self.streams:
            words += ["--stream", stream]
        return words + self.extra

    @staticmethod
    def _address() -> str:
        return f"127.0.0.1:{reserve()}"

    def start(self, join: Sequence[str] = ()) -> None:
        """Start without waiting; a restart takes the same ports, which no other process gets meanwhile.

        A zygote forks it, because imports are most of what a start costs, unless it is of another release.
        """
        env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "default"} | self.environment
        self.began = time.monotonic()
        command = self.command(join)
        with (self.directory / "stderr").open("ab") as stderr:
            if self.cold or "PYTHONPATH" in self.environment or sys.platform != "linux":
                self.process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, env=env
                )
            else:
                words = command[command.index("elfmesh.agent") + 1 :]
                self.process = zygote().start(words, env, stderr.fileno(), nice=0)

    def wait_ready(self, timeout_s: float = PATIENCE_S) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready = says_something(self.process.stdout, timeout_s)
        line = self.process.stdout.readline().decode() if ready else ""
        assert line.startswith("ready "), f"{self.name} is not ready: {line!r}\n{self.errors()}"
        self.ready_s = time.monotonic() - self.began
        words = dict(word.split("=", 1) for word in line.split()[1:])
        self.api, self.overlay, self.id = words["api"], words["overlay"], words["id"]

    def kill(self) -> None:
        """SIGKILL: no chance to say good-bye."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def terminate(self, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            if self.process.stdout is not None:
                self.process.stdout.close()

    def errors(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    def get(self, path: str, timeout_s: float = PATIENCE_S) -> Any:
        return json.loads(self.ask("GET", path, timeout_s=timeout_s))

    def ask(self, method: str, path: str, body: object = None, timeout_s: float = PATIENCE_S) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.api}{path}", data, self.headers(), method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            with error:
                kind = Busy if error.code == 503 else AssertionError
                raise kind(f"{method} {path}: {error.code} {error.read()!r}") from None

    def headers(self) -> dict[str, str]:
        token = read_token(self.directory / "data" / TOKEN_FILE)
        return {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def apply(self, text: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.ask("POST", "/v1/jobs", {"text": text}))
        return answer

    def results(self, job: str, first: int | None = None, wait_s: float = 0) -> list[dict[str, Any]]:
        """Results from an index on; those of a job without any are []."""
        query = f"limit=1000&wait={wait_s:g}" + ("" if first is None else f"&from={first}")
        lines = self.ask("GET", f"/v1/jobs/{job}/results?{query}", timeout_s=wait_s + PATIENCE_S).splitlines()
        return [json.loads(line) for line in lines if line.strip()]


class Fleet:
    """Some agents; a context manager that leaves nothing running and shows stderr on failure."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.agents: list[Agent] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self.agents:
            if agent.process is not None and agent.process.poll() is None:
                agent.process.terminate()
        for agent in self.agents:
            if agent.process is None:
                continue
            try:
                agent.process.wait(5)
            except subprocess.TimeoutExpired:
                agent.process.kill()
                agent.process.wait()
            assert agent.process.stdout is not None
            agent.process.stdout.close()
        if error is not None:
            for agent in self.agents:
                print(f"--- stderr of {agent.name}\n{agent.errors()[-3000:]}", file=sys.stderr)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.agents)

    def __getitem__(self, number: int) -> Agent:
        return self.agents[number]

    def log(self, number: int, stream: str = "log") -> Path:
        """The log file that agent `number` tails."""
        return self.root / f"agent-{number}" / f"{stream}.log"

    def start(
        self,
        count: int,
        *,
        stream: str = "log",
        options: str = ",format=json",
        extra: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        cold: bool = False,
    ) -> None:
        """Start `count` agents that join the first, each with an empty log, and wait until all are ready."""
        for number in range(len(self.agents), len(self.agents) + count):
            path = self.log(number, stream)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            self.agents.append(Agent(path.parent, number, [f"{stream}={path}{options}"], extra))
            self.agents[-1].environment, self.agents[-1].cold = dict(environment or {}), cold
            if number == 0:
                self.agents[0].start()
                self.agents[0].wait_ready()
            else:
                self.agents[-1].start([self.agents[0].overlay])
        for agent in self.agents[-count:]:
            if not agent.ready_s:
                agent.wait_ready()

    def apply(self, text: str, number: int = 0, members: int | None = None) -> dict[str, Any]:
        """Apply a job by an agent, again until so many agents (default: all) are in it; the last answer.

        On a busy machine an agent may answer too late to be a founding member, or may not yet be in the tree
        of its stream. Write what the job must count after this.
        """
        wanted = len(self.agents) if members is None else members

        def applied() -> dict[str, Any] | None:
            try:
                answer = self[number].apply(text)
            except AssertionError as refused:
                if '"outcome":"unknown"' not in str(refused):
                    raise
                return None
            return answer if answer["acknowledged"] == answer["expected"] == wanted else None

        found: dict[str, Any] = eventually(applied, what=f"{wanted} agents in {text.partition(' AS')[0]}")
        return found


def eventually(condition: Callable[[], Any], timeout_s: float = PATIENCE_S, what: str = "it") -> Any:
    """The first true value of `condition`; an agent that is busy is asked again."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            value = last = condition()
        except Busy as busy:
            value, last = None, busy
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come within {timeout_s:g} s; last: {last!r}"
        time.sleep(0.05)
