"""A real agent, measured: jobs are applied, a log appears, and its event loop is watched until all is read.

    python -m benchmarks.agent STREAM_SPEC DATA_DIR LAGS_FILE [NAME PROBE_S [JOIN]]     (its own process)

The agent is the one of `elf agent`, started through the same `runtime.run`; a task in its loop notes how much
later than asked a short sleep returns. The log is appended after the jobs run, so that all is read at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from elfmesh.api.identity.credentials import default_credentials

CPUCLOCK_SCHED = 2
"""The kind of clock that counts in nanoseconds what the scheduler gave, in the id of a process's clock."""

PROBE_S = 0.002
POLL_S = 0.5
TIMEOUT_S = 300.0
WINDOW_S = 10

_QUERIES = (
    """SELECT product, SUM(clicks_count) AS clicks FROM log GROUP BY {w}, product
    ORDER BY clicks DESC, product LIMIT 10""",
    "SELECT directory, count(*) AS n, SUM(price) AS turnover FROM log GROUP BY {w}, directory",
    'SELECT "user.location" AS city, AVG(price) AS mean FROM log GROUP BY {w}, "user.location"',
    "SELECT product, MAX(price) AS dearest FROM log WHERE directory = 'Books' GROUP BY {w}, product",
    "SELECT product, count(*) AS n FROM log WHERE clicks_count > 50 GROUP BY {w}, product",
    """SELECT directory, "user.location" AS city, count(*) AS n FROM log
    GROUP BY {w}, directory, "user.location" """,
    "SELECT count(*) AS n, SUM(clicks_count) AS clicks FROM log GROUP BY {w}",
    "SELECT product, SUM(price) AS turnover FROM log WHERE price > 400 GROUP BY {w}, product",
    """SELECT directory, MIN(price) AS low, MAX(price) AS high, AVG(price) AS mean FROM log
    GROUP BY {w}, directory""",
    "SELECT product, SUM(clicks_count * price) AS revenue FROM log GROUP BY {w}, product",
)
JOBS = tuple(
    f"CREATE JOB bench.job{number} AS {query.format(w=f'''TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND)''')}"
    for number, query in enumerate(_QUERIES)
)
"""Ten different jobs on one stream."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What reading a log cost an agent.

    Attributes:
        cpu_s: user and system time of its process, from the log's appearance to the last window closed.
        wall_s: the same by the clock.
        lags_s: how late its event loop was, once per PROBE_S, meanwhile.
        peak_bytes: of its whole life.
        lines: read by each job.
    """

    cpu_s: float
    wall_s: float
    lags_s: list[float]
    peak_bytes: int
    lines: int


def measure_agent(log: Path, jobs: Sequence[str], probe_s: float = PROBE_S) -> Measured:
    """Let one agent run the jobs over the log.

    Args:
        log: what is read.
        jobs: applied before.
        probe_s: between two looks at its loop, which cost it some 50 us each.

    Raises:
        RuntimeError: it did not finish, or a job counted another number of lines.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        stream, lags = root / "log", root / "lags"
        stream.touch()
        process = _start(stream, root, lags, probe_s)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split()
            if not ready:
                raise RuntimeError(f"the agent did not start:\n{(root / 'errors').read_text()[-2000:]}")
            return _watch(process.pid, ready[1].removeprefix("api="), stream, log, jobs, lags)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def started(log: Path, root: Path) -> Iterator[str]:
    """An agent without jobs over a log, with its directory; yields the address of its API."""
    root.mkdir(exist_ok=True)
    process = _start(log, root, root / "lags", PROBE_S)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        if not ready:
            raise RuntimeError(f"the agent did not start:\n{(root / 'errors').read_text()[-2000:]}")
        yield ready[1].removeprefix("api=")
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _start(stream: Path, root: Path, lags: Path, probe_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.agent", f"log={stream},format=json", str(root / "data")]
    with (root / "errors").open("wb") as errors:
        return subprocess.Popen(
            [*command, str(lags), "", str(probe_s)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def _watch(pid: int, api: str, stream: Path, log: Path, jobs: Sequence[str], lags: Path) -> Measured:
    names = [text.split()[2].replace(".", "/") for text in jobs]
    with ThreadPoolExecutor(len(jobs)) as clients:  # one by one, the first would take the empty log for ended
        list(clients.map(lambda text: _ask(api, "/v1/jobs", {"text": text}), jobs))
    lines, last_window = _facts(log)
    time.sleep(1.0)
    cpu, began = cpu_s(pid), time.monotonic()
    _append(log, stream)
    for name in names:
        while (_ask(api, f"/v1/jobs/{name}")["closed_below"] or 0) < last_window:
            if time.monotonic() - began > TIMEOUT_S:
                raise RuntimeError(f"the agent is not through with {name} after {TIMEOUT_S:g} s")
            time.sleep(POLL_S)
    cpu, ended = cpu_s(pid) - cpu, time.monotonic()
    _check(api, names, lines)
    peak = _peak_bytes(pid)
    os.kill(pid, signal.SIGTERM)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return Measured(cpu, ended - began, read_lags(lags, began, ended), peak, lines)


def read_lags(path: Path, began: float, ended: float) -> list[float]:
    """How late, in seconds, an agent's loop was between two moments; it has written them at its end."""
    noted = [tuple(map(float, line.split())) for line in path.read_text().splitlines()]
    return [late for at, late in noted if began <= at <= ended]


def _facts(log: Path) -> tuple[int, int]:
    """Lines before the last window, which stays open, and the number of that window."""
    from datetime import datetime

    def window(line: bytes) -> int:
        return int(datetime.fromisoformat(json.loads(line)["ts"]).timestamp()) // WINDOW_S

    text = log.read_bytes()
    last = window(text[text.rindex(b"\n", 0, -1) + 1 :])
    end = len(text)
    while True:
        start = text.rfind(b"\n", 0, end - 1) + 1
        if window(text[start:end]) < last:
            return text.count(b"\n", 0, end), last
        end = start


def _append(log: Path, stream: Path) -> None:
    with log.open("rb") as source, stream.open("ab") as sink:
        shutil.copyfileobj(source, sink, 4 << 20)


def _check(api: str, names: Sequence[str], lines: int) -> None:
    for name in names:
        counts = _ask(api, f"/v1/jobs/{name}")["counts"]
        seen = counts["contributed"] + counts["filtered"]
        if seen != lines or counts["parse_error"] or counts["late_dropped"]:
            raise RuntimeError(f"job {name} saw {seen} of {lines} lines: {counts}")


def _ask(api: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **default_credentials().headers(api)}
    request = urllib.request.Request(f"http://{api}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, by the scheduler's nanoseconds; its children's left out."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main(
    stream: str, directory: str, lags: str, name: str = "", probe_s: str = str(PROBE_S), join: str = ""
) -> int:
    """Run an agent with a probe in its loop until SIGTERM; `stream` may be several, a line each."""
    from elfmesh.agent.runtime import host_agent
    from elfmesh.agent.settings import config as configuration
    from elfmesh.ingest.stream_settings import parse_stream

    config = configuration.load_config(
        None,
        listen="127.0.0.1:0",
        api="127.0.0.1:0",
        data_dir=directory,
        streams=dict(map(parse_stream, stream.splitlines())),
        name=name,
        join=[join] if join else [],
    )
    noted: list[tuple[float, float]] = []
    tasks = []
    pause_s = float(probe_s)

    async def probe() -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            noted.append((now, max(now - asked - pause_s, 0.0)))

    def ready(api: str, overlay: str, _agent: bytes) -> None:
        tasks.append(asyncio.get_running_loop().create_task(probe()))
        print(f"ready api={api} overlay={overlay}", flush=True)

    code = host_agent.run(config, ready=ready)
    Path(lags).write_text("".join(f"{at} {late}\n" for at, late in noted))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
