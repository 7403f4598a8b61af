"""Measures what an agent costs its host: runs an agent process over a log that grows at a given rate.

The module owns the generated log, the agent process, and the reading of the kernel's accounting. It measures
the processor time of the agent process (user and system), its resident memory, and the time from the end of a
one-second window until a reader has the window's result.

Paper: none.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from elfmesh.api.client.client import connect
from elfmesh.cli.host.local_agents import AgentProcess, LocalAgents
from elfmesh.errors import ElfError, RuntimeFailure
from elfmesh.ingest.memory import rss_bytes

TICK_S = 0.02
LINES_KNOWN = 2000
"""Number of distinct lines without their timestamps; they are generated once, with enough keys and lengths.
"""

IDLE_S = 2.0
WARM_S = 2.0
"""Warm-up time before the measurement, in which the job starts and its code is loaded."""

JOB = """CREATE JOB bench.host LATENESS '0 s' AS SELECT status, count(*) AS hits, sum(bytes) AS bytes
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), status"""
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
FORMATS = ("combined", "common", "json")


@dataclass(frozen=True, slots=True)
class HostCost:
    """Result of a measurement.

    Attributes:
        rate: lines written per second.
        seconds: duration of the measurement.
        cpu_percent: processor time of the agent in percent of one core.
        idle_percent: the same with the job but without lines.
        cpu_percent_per_10k: percent of one core per 10,000 lines per second, without the idle share.
        rss_bytes: maximum resident memory.
        rss_idle_bytes: resident memory before there was a job.
        lag_p50_s: median time from the end of a window until a reader has its result.
        lag_p99_s: 99th percentile of this time.
        lines_counted: lines in these results.
    """

    rate: float
    seconds: float
    cpu_percent: float
    idle_percent: float
    cpu_percent_per_10k: float
    rss_bytes: int
    rss_idle_bytes: int
    lag_p50_s: float
    lag_p99_s: float
    lines_counted: int

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain numbers, rounded for JSON."""
        return {key: round(value, 4) for key, value in asdict(self).items()}


def measure(
    *, rate: float, seconds: float, format_name: str, progress: Callable[[str], None] = lambda reported: None
) -> HostCost:
    """Run an agent for `seconds` over a log that grows by `rate` lines per second.

    Raises:
        RuntimeFailure: this host could not write at this rate, or the agent did not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as name:
        log = Path(name) / "log"
        log.touch()
        with LocalAgents(Path(name)) as agents:
            progress("starting an agent")
            agents.start({"bench": ("--stream", f"log={log},format={format_name},idle=1 s")})
            agent = agents.agents[0]
            rss_idle = rss_bytes(agent.process.pid)
            connect(agent.api).apply(JOB)
            return _under_load(agent, LogWriter(log, format_name, rate), seconds, rss_idle, progress)


def _under_load(
    agent: AgentProcess, writer: LogWriter, seconds: float, rss_idle: int, progress: Callable[[str], None]
) -> HostCost:
    pid, lags = agent.process.pid, Lags(agent.api)
    progress("idle")
    began, used = time.monotonic(), cpu_s(pid)
    time.sleep(IDLE_S)
    idle = (cpu_s(pid) - used) / (time.monotonic() - began)
    with writer:
        progress(f"writing {writer.rate:,.0f} lines per second")
        time.sleep(WARM_S)
        lags.start()
        began, used, lines, peak = time.monotonic(), cpu_s(pid), writer.lines, 0
        while time.monotonic() - began < seconds:
            time.sleep(min(0.2, seconds))
            peak = max(peak, rss_bytes(pid))
        lasted = time.monotonic() - began
        busy, written = (cpu_s(pid) - used) / lasted, (writer.lines - lines) / lasted
    writer.check()
    late = sorted(lags.take())
    if not late:
        raise RuntimeFailure("no result arrived in that time", hint="Measure for longer: --seconds 10.")
    return HostCost(
        rate=written,
        seconds=lasted,
        cpu_percent=100 * busy,
        idle_percent=100 * idle,
        cpu_percent_per_10k=100 * max(0.0, busy - idle) / (written / 10_000),
        rss_bytes=peak,
        rss_idle_bytes=rss_idle,
        lag_p50_s=late[len(late) // 2],
        lag_p99_s=late[min(len(late) - 1, int(len(late) * 0.99))],
        lines_counted=lags.lines,
    )


class Lags:
    """Follows the results of the job, and records the lag of each window and the number of its lines."""

    def __init__(self, api: str) -> None:
        self._api, self._since_s = api, float("inf")
        self._late: list[float] = []
        self.lines = 0

    def start(self) -> None:
        """Start recording. Windows that ended before are not counted."""
        self._since_s = time.time()
        threading.Thread(target=self._follow, daemon=True).start()

    def take(self) -> list[float]:
        return [*self._late]

    def _follow(self) -> None:
        try:
            for found in connect(self._api).results("bench/host", follow=True):
                end_s = datetime.fromisoformat(found["interval"]["end"]).timestamp()
                if end_s >= self._since_s:
                    self._late.append(time.time() - end_s)
                    self.lines += found["counts"]["contributed"]
        except ElfError:
            return  # the agent has stopped


class LogWriter:
    """Appends lines to a log at a constant rate in a thread.

    Used as a context manager, it ends the thread on exit.

    Args:
        path: log file.
        format_name: one of `FORMATS`.
        rate: lines per second.
    """

    def __init__(self, path: Path, format_name: str, rate: float) -> None:
        self._path, self.rate, self.lines = path, rate, 0
        self._heads, self._tails, self._time = parts_of(format_name)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._slowest = 0.0

    def __enter__(self) -> LogWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raise RuntimeFailure if this host did not keep the rate to which the values would belong."""
        if self._slowest > 1.0:
            raise RuntimeFailure(
                f"this host could not write {self.rate:,.0f} lines per second: {self._slowest:.1f} s behind",
                hint="Choose a lower --rate, or measure while the machine is less busy.",
            )

    def _write(self) -> None:
        began = time.monotonic()
        with self._path.open("a", encoding="utf-8") as log:
            while not self._ending.wait(TICK_S):
                due = int((time.monotonic() - began) * self.rate)
                stamp = datetime.now(UTC).strftime(self._time)
                at = self.lines
                log.write("".join(self._line(number, stamp) for number in range(at, due)))
                log.flush()
                self.lines = due
                self._slowest = max(self._slowest, (time.monotonic() - began) - due / self.rate)

    def _line(self, number: int, stamp: str) -> str:
        place = number % LINES_KNOWN
        return f"{self._heads[place]}{stamp}{self._tails[place]}"


def parts_of(format_name: str) -> tuple[Sequence[str], Sequence[str], str]:
    """Return the texts before and after the timestamp of each distinct line, and its format."""
    rng = random.Random(7)
    heads, tails = [], []
    for _ in range(LINES_KNOWN):
        host = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"
        path, status = (
            f"/shop/{rng.randrange(300)}?q={rng.randrange(10**6)}",
            rng.choice((200, 200, 304, 404)),
        )
        size = rng.randrange(200, 60_000)
        if format_name == "json":
            heads.append('{"ts":"')
            tails.append(f'","client":"{host}","path":"{path}","status":{status},"bytes":{size}}}\n')
            continue
        agent = f' "https://shop.example/" "{BROWSER}"'
        heads.append(f"{host} - - [")
        tails.append(f'] "GET {path} HTTP/1.1" {status} {size}{agent if format_name == "combined" else ""}\n')
    return heads, tails, "%Y-%m-%dT%H:%M:%S.%fZ" if format_name == "json" else "%d/%b/%Y:%H:%M:%S +0000"


def cpu_s(pid: int) -> float:
    """Processor time of a process so far in seconds, user and system, as the kernel accounts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
