"""A real agent process under something that listens as a service manager does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.client.client import Client
from tests.agent.service.listener import Fields, Listener
from tests.e2e.fleet import Running
from tests.e2e.zygote import elf, zygote
from tests.patience import PATIENCE_S

JOB = "CREATE JOB ops.live AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)"
OTHER = "CREATE JOB ops.other AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '2' SECOND)"
WATCHDOG_S = 2.0


class Started:
    """One `elf agent` with a manager, a log of a few lines and a job's text."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manager = Listener(directory / "notify")
        self.log = directory / "log.ndjson"
        self.log.write_text('{"ts": 1700000000}\n')
        self.config = directory / "agent.toml"
        self.process: Running | None = None
        self.configure()

    def configure(self, extra: str = "") -> None:
        self.config.write_text(
            f'data_dir = "{self.directory}/data"\nlisten = "127.0.0.1:0"\napi = "127.0.0.1:0"\n{extra}\n'
            f'[streams.log]\npath = "{self.log}"\nformat = "json"\n'
        )

    def start(self, *words: str, watchdog_s: float = 0, **environment: str) -> None:
        env = {**os.environ, "NOTIFY_SOCKET": str(self.manager.path), **environment}
        if watchdog_s:
            env["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        with (self.directory / "stderr").open("wb") as stderr:
            self.process = zygote().start(["agent", "-c", str(self.config), *words], env, stderr.fileno(), 0)

    def ready(self) -> Fields:
        return self.manager.until(lambda fields: "READY" in fields)

    @property
    def api(self) -> str:
        ready = next(fields for fields in self.manager.arrived if "READY" in fields)
        return ready["STATUS"].removeprefix("api ")

    def elf(self, *words: str) -> subprocess.CompletedProcess[str]:
        return elf(*words, "--api", self.api)

    def apply(self, text: str = JOB) -> subprocess.Popen[bytes]:
        """Submit a job, in a process that may never be answered."""
        (self.directory / "job.elfql").write_text(text)
        words = [sys.executable, "-m", "elfmesh.agent", "apply", "-f", str(self.directory / "job.elfql")]
        return subprocess.Popen(
            [*words, "--api", self.api], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(PATIENCE_S)

    def errors(self) -> str:
        return (self.directory / "stderr").read_text()

    def close(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
        with self.manager:
            pass


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    try:
        yield started
    finally:
        started.close()


def alive(fields: Fields) -> bool:
    return fields.get("WATCHDOG") == "1"


def test_a_service_is_ready_when_it_answers_and_reports_that_it_reloads_and_stops(agent: Started) -> None:
    agent.start(watchdog_s=60)
    agent.ready()
    healthy = agent.elf("health", "-o", "json")
    assert healthy.returncode == 0, healthy.stderr
    assert json.loads(healthy.stdout)["status"] == "ok"
    agent.manager.until(alive)

    agent.configure(
        'labels = { role = "db" }\n[limits]\nmemory = "50 MB"\ndisk = "9 MB"\nspill = "8 MB"\nstandby = "0"'
    )
    agent.signal(signal.SIGHUP)
    agent.manager.until(lambda fields: "RELOADING" in fields)
    reported = agent.manager.until(lambda fields: "READY" in fields)["STATUS"]
    assert reported.endswith(
        "changed: limits.disk, limits.memory, limits.spill, limits.standby; needs a restart: labels.role"
    )
    described = Client(agent.api).agent()
    assert described["memory"]["limit_bytes"] == 25_000_000
    assert described["frame_log"]["limit_bytes"] == 9_000_000
    assert described["standbys"]["limit_bytes"] == 0

    agent.config.write_text("memory = 5\n")
    agent.signal(signal.SIGHUP)
    agent.manager.until(lambda fields: "RELOADING" in fields)
    assert "nothing was changed" in agent.manager.until(lambda fields: "READY" in fields)["STATUS"]
    assert agent.elf("health", "--alive").returncode == 0

    agent.signal(signal.SIGTERM)
    agent.manager.until(lambda fields: "STOPPING" in fields)
    assert agent.wait() == 0
    assert agent.elf("health").returncode == 69


def test_nothing_is_ready_that_has_not_joined(agent: Started) -> None:
    agent.start("--join", "127.0.0.1:1", "--join-timeout", "1 s", watchdog_s=60)
    assert agent.wait() == 69
    assert agent.manager.next(0.1) is None


@pytest.mark.parametrize(
    ("place", "what"), [("seal:1:hang", "reading"), ("activate:1:hang", "the loop")], ids=["reading", "loop"]
)
def test_an_agent_that_hangs_sends_no_more_signs_of_life(agent: Started, place: str, what: str) -> None:
    """A seal that never ends leaves the loop free: a bare timer would go on. The other one stops the loop."""
    agent.start(watchdog_s=WATCHDOG_S, ELF_FAILPOINT=place)
    agent.ready()
    for _ in range(2):
        agent.manager.until(alive)
    with agent.apply() as client:
        try:
            if what == "reading":
                agent.manager.until(lambda fields: fields.get("STATUS", "").startswith("stuck: stream log"))
            silence(agent.manager, WATCHDOG_S)
        finally:
            client.kill()
    agent.signal(signal.SIGABRT)  # what the manager does then
    assert agent.wait() == -signal.SIGABRT
    assert "in _hang" in agent.errors(), "the log shows where it hung"


def test_an_agent_stops_though_a_block_never_ends(agent: Started) -> None:
    agent.start(watchdog_s=WATCHDOG_S, ELF_FAILPOINT="seal:1:hang")
    agent.ready()
    with agent.apply() as client:
        try:
            agent.manager.until(lambda fields: fields.get("STATUS", "").startswith("stuck: stream log"))
        finally:
            client.kill()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    assert "a block is still being evaluated 10 s after the signal" in agent.errors()


def test_a_job_that_ends_the_process_twice_is_held_and_the_agent_stays(agent: Started) -> None:
    for attempt in range(2):
        agent.manager.arrived.clear()
        agent.start(ELF_FAILPOINT="seal:1:kill")
        agent.ready()
        with agent.apply() if attempt == 0 else contextlib.nullcontext() as client:
            assert agent.wait() == -signal.SIGKILL
            if client is not None:
                client.kill()
    agent.manager.arrived.clear()
    agent.start()
    agent.ready()
    refused = "the agent was killed 2 times while it evaluated this job"
    until(lambda: refused in agent.errors())
    assert "job ops/live cannot begin" in agent.errors()
    assert agent.elf("health", "--alive").returncode == 0
    until(lambda: refused in agent.elf("describe", "job", "ops.live", "-o", "json").stdout)


def test_an_interval_whose_rows_end_the_process_twice_is_skipped_and_the_agent_stays(agent: Started) -> None:
    """The failpoint is armed at every start: a third attempt at these rows would end the process again."""
    agent.log.write_text('{"ts": 1700000000}\n{"ts": 1700000007}\n')
    for attempt in range(2):
        agent.manager.arrived.clear()
        agent.start(ELF_FAILPOINT="finalise.ops/live.1700000000")
        agent.ready()
        if attempt == 0:
            with agent.apply(OTHER) as client:
                assert client.wait(PATIENCE_S) == 0
            until(lambda: len(records(agent, "ops.other")) == 2)
        with agent.apply() if attempt == 0 else contextlib.nullcontext() as client:
            assert agent.wait() == -signal.SIGKILL
            if client is not None:
                client.kill()
    agent.manager.arrived.clear()
    agent.start(ELF_FAILPOINT="finalise.ops/live.1700000000")
    agent.ready()
    until(lambda: len(records(agent, "ops.live")) >= 2)
    skipped, following = records(agent, "ops.live")[:2]
    assert (skipped["state"], index(skipped), skipped["completeness"]) == ("SKIPPED", 1_700_000_000, 0.0)
    assert "killed 2 times" in skipped["reason"]
    assert (following["state"], index(following), following["rows"]) == ("FINAL", 1_700_000_007, [{"n": 1}])
    reported = [line for line in agent.errors().splitlines() if " ERROR " in line]
    assert any("ops/live version 1" in line and "interval 1700000000" in line for line in reported), reported

    now_s = int(time.time())
    with agent.log.open("a") as log:
        log.write(f'{{"ts": {now_s}}}\n')
    until(lambda: index(records(agent, "ops.live")[-1]) == now_s)
    until(lambda: index(records(agent, "ops.other")[-1]) == now_s // 2)
    assert {each["state"] for each in records(agent, "ops.other")} == {"FINAL"}

    health = json.loads(agent.elf("health", "--alive", "-o", "json").stdout)
    assert health["status"] == "degraded"
    (held,) = health["held"]
    assert "ops/live version 1" in held
    assert "interval 1700000000" in held
    why = agent.elf("why", "ops.live").stdout
    assert "interval 1700000000 has no rows: " in why
    assert "killed 2 times" in why
    assert "killed 2 times" in str(
        json.loads(agent.elf("describe", "job", "ops.live", "-o", "json").stdout)["errors"]
    )


def index(record: dict[str, Any]) -> int:
    """Of a record's interval."""
    return int(record["interval"]["index"])


def records(agent: Started, job: str) -> list[dict[str, Any]]:
    """The closed intervals of a job."""
    return list(Client(agent.api).results(job))


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def silence(manager: Listener, period_s: float) -> None:
    """Wait until a manager with this period would end the agent."""
    end = time.monotonic() + PATIENCE_S
    while (arrived := manager.next(period_s)) is not None:
        assert time.monotonic() < end, f"still alive: {arrived}"
