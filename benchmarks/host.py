"""What an agent costs its host: memory without a job, heartbeats of a large overlay, lines of an access log.

A real agent process each time; what it takes is read from the kernel's accounts, all its threads, user and
system. The peers read the same growing log, where they are installed: one that is not is skipped by name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.agent import cpu_s
from benchmarks.harness import Figure
from elfmesh.cli.host import host_cost
from elfmesh.cli.host.local_agents import AgentProcess, LocalAgents, says_something
from elfmesh.ingest.memory import rss_bytes

PEERS, PEERS_SMALL = 500, 12
SETTLE_S, SETTLE_SMALL_S = 20.0, 1.0
"""After all have joined: connections are made, tables are filled, who may die has been asked."""

WATCHED_S, WATCHED_SMALL_S = 30.0, 1.0
RATE, RATE_SMALL = 10_000.0, 1_000.0
LOAD_S, LOAD_SMALL_S = 20.0, 2.0
SWARM_READY_S = 120.0


def memory_kb(pid: int) -> dict[str, int]:
    """Resident, proportional and private memory of a process; only root learns more than the first."""
    found: dict[str, int] = {}
    if os.geteuid() != 0:
        return {"resident": rss_bytes(pid) // 1000}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0])
    return {
        "resident": found["Rss"],
        "proportional": found["Pss"],
        "private": found["Private_Clean"] + found["Private_Dirty"],
    }


def _percent(pid: int, seconds: float) -> float:
    """Of one core, over so many seconds."""
    began, used = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - used) / (time.monotonic() - began)


def _agent(agents: LocalAgents, directory: Path, *options: str) -> AgentProcess:
    log = directory / "log"
    log.touch()
    agents.start({"measured": ("--stream", f"log={log},format=combined", *options)})
    return agents.agents[-1]


def idle(*, small: bool = False) -> list[Figure]:
    """An agent with a stream and no job, alone."""
    with tempfile.TemporaryDirectory() as name, LocalAgents(Path(name)) as agents:
        pid = _agent(agents, Path(name)).process.pid
        time.sleep(SETTLE_SMALL_S if small else SETTLE_S)  # the engine is loaded behind the ready line
        memory = memory_kb(pid)
        percent = _percent(pid, WATCHED_SMALL_S if small else WATCHED_S / 3)
    figures = [Figure(f"no job: {kind} memory", kb / 1000, "MB") for kind, kb in memory.items()]
    return [*figures, Figure("no job, alone: processor", percent, "% of a core")]


def heartbeats(*, small: bool = False) -> list[Figure]:
    """An agent without a job in an overlay of several hundred."""
    count = PEERS_SMALL if small else PEERS
    with tempfile.TemporaryDirectory() as name, LocalAgents(Path(name)) as agents:
        swarm = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.swarm", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with swarm:
            try:
                assert swarm.stdout is not None
                if not says_something(swarm.stdout, SWARM_READY_S):
                    raise RuntimeError("the swarm did not join")
                agent = _agent(agents, Path(name), "--join", swarm.stdout.readline().split()[1])
                pid = agent.process.pid
                time.sleep(SETTLE_SMALL_S if small else SETTLE_S)
                before, began = _counts(agent), time.monotonic()
                used, of_swarm = cpu_s(pid), cpu_s(swarm.pid)
                time.sleep(WATCHED_SMALL_S if small else WATCHED_S)
                seconds = time.monotonic() - began
                percent = 100 * (cpu_s(pid) - used) / seconds
                swarm_percent = 100 * (cpu_s(swarm.pid) - of_swarm) / seconds
                after, memory = _counts(agent), memory_kb(pid)
            finally:
                swarm.terminate()
    reported = after["out"] - before["out"]
    return [
        Figure(f"{count} peers: processor", percent, "% of a core"),
        Figure(f"{count} peers: processor of each", 1e4 * percent / count, "millionths of a core"),
        Figure(f"{count} peers: messages sent", reported / seconds, "/s"),
        Figure(f"{count} peers: contacts, connections", after["contacts"], f"and {after['connections']}"),
        Figure(f"{count} peers: resident memory", memory["resident"] / 1000, "MB"),
        Figure(f"{count} peers: processor of the swarm, all of them", swarm_percent, "% of a core"),
    ]


def _counts(agent: AgentProcess) -> dict[str, int]:
    from elfmesh.api.client.client import connect

    reported = connect(agent.api).agent()
    return {
        "out": reported["transport"]["messages_out"],
        "connections": reported["transport"]["connections"],
        "contacts": reported["overlay_stats"]["contacts"],
    }


def _beyond(percent: float) -> Figure:
    name = "for each 10,000 lines/s, beyond that"
    if percent <= 0:  # few lines, beside others' work
        return Figure(name, 0.0, "", skipped="less than what the job costs without lines changes by itself")
    return Figure(name, percent, "% of a core")


def lines(*, small: bool = False) -> list[Figure]:
    """One job (count and sum by status, windows of a second) over a log that grows evenly."""
    found = host_cost.measure(
        rate=RATE_SMALL if small else RATE, seconds=LOAD_SMALL_S if small else LOAD_S, format_name="combined"
    )
    rate = f"{found.rate:,.0f} lines/s"
    return [
        Figure(f"{rate}, one job: processor", found.cpu_percent, "% of a core"),
        Figure("the same job without lines", found.idle_percent, "% of a core"),
        _beyond(found.cpu_percent_per_10k),
        Figure(f"{rate}: resident memory, at most", found.rss_bytes / 1e6, "MB"),
        Figure(f"{rate}: result behind its window, p50", 1000 * found.lag_p50_s, "ms"),
        Figure(f"{rate}: result behind its window, p99", 1000 * found.lag_p99_s, "ms"),
    ]


FLUENT_BIT = """[SERVICE]
    flush 1
    log_level error
    parsers_file {directory}/parsers.conf
[INPUT]
    name tail
    path {log}
    parser combined
    tag log
[OUTPUT]
    name file
    match *
    path {directory}
    file out
"""
FLUENT_BIT_PARSER = r"""[PARSER]
    name combined
    format regex
    regex ^(?<host>[^ ]*) [^ ]* (?<user>[^ ]*) \[(?<time>[^\]]*)\] "(?<request>[^"]*)" (?<status>[^ ]*) (?<bytes>[^ ]*) "(?<referer>[^"]*)" "(?<agent>[^"]*)"$
    time_key time
    time_format %d/%b/%Y:%H:%M:%S %z
"""  # noqa: E501 - one line of its configuration
SYSLOG_NG = """@version: {version}
source s_log {{ file("{log}" follow-freq(0.1) flags(no-parse)); }};
parser p_combined {{ apache-accesslog-parser(); }};
destination d_out {{ file("{directory}/out" template("${{.apache.response}} ${{.apache.bytes}}\\n")); }};
log {{ source(s_log); parser(p_combined); destination(d_out); }};
"""


def _fluent_bit(log: Path, directory: Path) -> list[str]:
    (directory / "parsers.conf").write_text(FLUENT_BIT_PARSER)
    (directory / "conf").write_text(FLUENT_BIT.format(log=log, directory=directory))
    return ["-c", str(directory / "conf")]


def _syslog_ng(log: Path, directory: Path) -> list[str]:
    reported = subprocess.run(["syslog-ng", "--version"], capture_output=True, text=True, check=True).stdout
    version = reported.split("Config version:")[1].split()[0]
    text = '@include "scl.conf"\n' + SYSLOG_NG.format(version=version, log=log, directory=directory)
    first, *rest = text.splitlines()
    (directory / "conf").write_text("\n".join([rest[0], first, *rest[1:]]))
    files = (("-f", "conf"), ("-R", "persist"), ("-c", "control"), ("-p", "pid"))
    return ["-F", "--no-caps", *(word for flag, each in files for word in (flag, str(directory / each)))]


SHIPPERS: dict[str, tuple[str, Callable[[Path, Path], list[str]], str]] = {
    "Fluent Bit": ("fluent-bit", _fluent_bit, "parsed by its regex, written to a file, nothing counted"),
    "syslog-ng": ("syslog-ng", _syslog_ng, "parsed, two fields written to a file, nothing counted"),
}
"""Name -> program, what writes its configuration and gives its arguments, what it does with a line."""


def peers(*, small: bool = False) -> list[Figure]:
    """Agents of others on the same lines, in the same run: what each takes, and what it does for that."""
    rate, seconds = (RATE_SMALL, LOAD_SMALL_S) if small else (RATE, LOAD_S)
    return [figure for name in SHIPPERS for figure in _shipper(name, rate, seconds)]


def _shipper(name: str, rate: float, seconds: float) -> list[Figure]:
    program, configure, does = SHIPPERS[name]
    found = shutil.which(program, path="/usr/bin:/usr/sbin:/opt/fluent-bit/bin:/usr/local/bin")
    if found is None:
        return [Figure(name, 0.0, "", skipped=f"{program} is not installed")]
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        log = directory / "log"
        log.touch()
        process = subprocess.Popen([found, *configure(log, directory)], stdin=subprocess.DEVNULL)
        try:
            time.sleep(SETTLE_SMALL_S)
            writer = host_cost.LogWriter(log, "combined", rate)
            with writer:
                time.sleep(host_cost.WARM_S)
                percent = _percent(process.pid, seconds)
            writer.check()
            memory = memory_kb(process.pid)["resident"]
            time.sleep(2 * SETTLE_SMALL_S)
            taken = sum(each.read_bytes().count(b"\n") for each in directory.glob("out*"))
        finally:
            process.terminate()
            process.wait()
    if taken < 0.98 * writer.lines:
        raise RuntimeError(f"{name} wrote {taken} of {writer.lines} lines: it did not do the same work")
    return [
        Figure(f"{name}, {rate:,.0f} lines/s ({does}): processor", percent, "% of a core"),
        Figure(f"{name}: resident memory", memory / 1000, "MB"),
    ]


PARTS = {"idle": idle, "heartbeats": heartbeats, "lines": lines, "peers": peers}
