"""What an agent costs its host at a rate of lines: a real agent process over a log that grows at that rate.

Owns the made-up log, the process and the reading of the kernel's accounts. What is measured is what the host
has less: processor of the whole agent process (user and system) and its resident memory; and how long after
the end of a window of a second its result is at a reader.

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
"""Different lines, before their time: enough keys and lengths, made once."""

IDLE_S = 2.0
WARM_S = 2.0
"""Before anything is counted: the job begins, its code is loaded."""

JOB = """CREATE JOB bench.host LATENESS '0 s' AS SELECT status, count(*) AS hits, sum(bytes) AS bytes
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), status"""
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
FORMATS = ("combined", "common", "json")


@dataclass(frozen=True, slots=True)
class HostCost:
    """What was measured.

    Attributes:
        rate: lines per second that were written.
        seconds: for how long.
        cpu_percent: of one core, all of the agent.
        idle_percent: the same with the job but no lines.
        cpu_percent_per_10k: of one core for each 10,000 lines per second, without what it takes idle.
        rss_bytes: resident, at most.
        rss_idle_bytes: resident before there was a job.
        lag_p50_s: from the end of a window to its result at a reader, median.
        lag_p99_s: the same that 99 of 100 do not exceed.
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
        """For JSON: plain numbers, rounded where digits say nothing."""
        return {key: round(value, 4) for key, value in asdict(self).items()}


def measure(
    *, rate: float, seconds: float, format_name: str, progress: Callable[[str], None] = lambda reported: None
) -> HostCost:
    """Run an agent for so long under so many lines a second.

    Raises:
        RuntimeFailure: this host could not write that fast, or the agent did not become ready.
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
            return _under_load(agent, Writer(log, format_name, rate), seconds, rss_idle, progress)


def _under_load(
    agent: AgentProcess, writer: Writer, seconds: float, rss_idle: int, progress: Callable[[str], None]
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
    """Follows the job: how late each window's result was, and how many lines it had."""

    def __init__(self, api: str) -> None:
        self._api, self._since_s = api, float("inf")
        self._late: list[float] = []
        self.lines = 0

    def start(self) -> None:
        """From now on; windows that ended before do not count."""
        self._since_s = time.time()
        threading.Thread(target=self._follow, daemon=True).start()

    def take(self) -> list[float]:
        """What was seen, in seconds."""
        return [*self._late]

    def _follow(self) -> None:
        try:
            for found in connect(self._api).results("bench/host", follow=True):
                end_s = datetime.fromisoformat(found["interval"]["end"]).timestamp()
                if end_s >= self._since_s:
                    self._late.append(time.time() - end_s)
                    self.lines += found["counts"]["contributed"]
        except ElfError:
            return  # the agent has ended


class Writer:
    """A log that grows evenly. Use as a context manager: leaving it ends the thread.

    Args:
        path: of the log.
        format_name: one of `FORMATS`.
        rate: lines per second.
    """

    def __init__(self, path: Path, format_name: str, rate: float) -> None:
        self._path, self.rate, self.lines = path, rate, 0
        self._heads, self._tails, self._time = parts_of(format_name)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._slowest = 0.0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raise RuntimeFailure if the rate was not kept: the figures would be of another one."""
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
    """What stands before and behind the time of each known line, and how the time is written."""
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
    """Processor seconds of a process so far, user and system, by the kernel's accounts."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
