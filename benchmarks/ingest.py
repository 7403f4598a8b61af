"""Whole processes: a log in, an answer out. `elf run` against batch engines, awk and stream engines; agents.

Parts: `clicks` (NDJSON, top 10 products per 10 s: DuckDB, ClickHouse and others in one batch), `access`
(combined log, hits and bytes per path: the usual awk one-liner), `streams` (`clicks` in stream engines, on a
smaller file), `memory` (peak of `elf run` on two sizes of file), `jobs` (an agent with ten jobs on one stream
against one), `lag` (its event loop while it reads at full speed).

CPU is of the whole process with its descendants, less that of the same command on a log of a few lines:
start-up is left out. Answers are compared line by line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import contest, logs
from benchmarks.agent import JOBS, measure_agent
from benchmarks.contest import Outcome, Skipped
from benchmarks.harness import ROOT, Figure, percentile

OURS = "elf run"
CLICKS = """SELECT product, SUM(clicks_count) AS clicks FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product ORDER BY clicks DESC, product LIMIT 10"""
ACCESS = "SELECT path, count(*) AS hits, sum(bytes) AS bytes FROM log GROUP BY path"
AWK = """{ hits[$7]++; bytes[$7] += $10 } END {
    for (path in hits) printf "%s %d %.0f\\n", path, hits[path], bytes[path] }"""

LINES = {False: 5_000_000, True: 20_000}
STREAM_LINES = {False: 2_000_000, True: 20_000}
MEMORY_LINES = {False: (1_000_000, 10_000_000), True: (5_000, 20_000)}
JOB_LINES = {False: 2_000_000, True: 40_000}
BUSY, QUIET = "13,900 lines/s", "1,390 lines/s"
SPACINGS_US = {BUSY: 72, QUIET: 720}
"""How dense a log's event time is; a backlog is read as fast as it can be."""

RARELY_S = 0.5
"""Between two looks at a loop whose delays no reader asks for: looking costs the CPU that is measured."""

START_UP_LINES = 200
REPEATS = 3
STREAM_ENGINES = ("flink", "spark", "pathway", "bytewax")
STREAM_PACKAGES = {"flink": "pyflink.table", "spark": "pyspark", "pathway": "pathway", "bytewax": "bytewax"}
NEEDS_JAVA = ("flink", "spark")
Answer = Iterable[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """A contestant that is a whole process.

    Attributes:
        name: what the figures call it.
        command: gives the command line for a file; raises Skipped if there is none here.
        read: its output as rows.
        env: added to the environment.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    read: Callable[[Iterable[str]], Answer]
    env: Mapping[str, str] = field(default_factory=dict)


def elf(query: str, form: str) -> Program:
    """Our own command line."""

    def command(path: Path) -> list[str]:
        return [
            sys.executable,
            "-m",
            "elfmesh.agent",
            "run",
            "-o",
            "json",
            "--format",
            form,
            query,
            str(path),
        ]

    return Program(OURS, command, _read_clicks if form == "json" else _read_access)


def peer(name: str, package: str, work: str) -> Program:
    """A script of benchmarks/peers that prints a JSON list per row."""

    def command(path: Path) -> list[str]:
        python = contest.python_with(package) if package else sys.executable
        if name in NEEDS_JAVA and shutil.which("java") is None:
            raise Skipped("there is no Java here")
        return [python, "-m", f"benchmarks.peers.topk_{name}", work, str(path)]

    def read(lines: Iterable[str]) -> Answer:
        for line in lines:
            if line.startswith("["):
                yield tuple(value or 0 for value in json.loads(line))

    return Program(name, command, read)


def awk(name: str) -> Program:
    """The one-liner; `awk` is whatever the system calls so."""

    def command(path: Path) -> list[str]:
        if shutil.which(name) is None:
            raise Skipped(f"{name} is not installed")
        return [name, AWK, str(path)]

    def read(lines: Iterable[str]) -> Answer:
        for line in lines:
            path, hits, size = line.split()
            yield path, int(hits), int(size)

    return Program(name, command, read, {"LC_ALL": "C"})


def _read_clicks(lines: Iterable[str]) -> Answer:
    for line in lines:
        result = json.loads(line)
        for row in result["rows"]:
            yield result["interval"]["index"] * 10, row["product"], row["clicks"]


def _read_access(lines: Iterable[str]) -> Answer:
    for line in lines:
        for row in json.loads(line)["rows"]:
            yield row["path"], row["hits"], row["bytes"] or 0


def race(programs: Sequence[Program], path: Path, lines: int, repeats: int) -> dict[str, Outcome]:
    """Run all on the file, round by round; CPU without start-up, checksums of the answers compared."""
    outcomes = {program.name: Outcome(program.name) for program in programs}
    with tempfile.TemporaryDirectory() as directory:
        tiny = Path(directory) / f"tiny{path.suffix}"
        with path.open("rb") as file:
            tiny.write_bytes(b"".join(file.readline() for _ in range(START_UP_LINES)))
        start_up: dict[str, float] = {}
        for _ in range(repeats):
            for program in programs:
                outcome = outcomes[program.name]
                if outcome.skipped:
                    continue
                try:
                    command = program.command(path)
                except Skipped as reason:
                    outcome.skipped = str(reason)
                    continue
                if program.name not in start_up:
                    _run(program, program.command(tiny), Path(directory))  # pages in, caches compiled
                    start_up[program.name] = float(
                        _run(program, program.command(tiny), Path(directory))["cpu_s"]
                    )
                report = _run(program, command, Path(directory))
                report["work_s"] = max(float(report["cpu_s"]) - start_up[program.name], 1e-3)
                report["start_s"], report["lines"] = start_up[program.name], lines
                outcome.runs.append(report)
    contest.agree(outcomes.values())
    return outcomes


def _run(program: Program, command: Sequence[str], directory: Path) -> dict[str, float | str]:
    report, output = directory / "report", directory / "output"
    with output.open("wb") as out, (directory / "errors").open("wb") as errors:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.process", str(report), *command],
            cwd=ROOT,
            env=contest.environment(program.env),
            stdout=out,
            stderr=errors,
            check=True,
            timeout=contest.TIMEOUT_S,
            preexec_fn=partial(os.sched_setaffinity, 0, {contest.core()}),
        )
    found: dict[str, float | str] = json.loads(report.read_text())
    if found["code"]:
        text = (directory / "errors").read_text(errors="replace")
        raise RuntimeError(f"{program.name} failed:\n{text[-2000:]}")
    digest, rows = hashlib.blake2b(digest_size=8), 0
    with output.open() as text_lines:
        for row in sorted(map(repr, program.read(text_lines))):
            digest.update(row.encode())
            rows += 1
    if not rows:
        raise RuntimeError(f"{program.name} answered nothing")
    return found | {"checksum": digest.hexdigest()}


def _compare(what: str, outcomes: Mapping[str, Outcome]) -> list[Figure]:
    figures = []
    ours = _rate(outcomes[OURS])
    for name, outcome in outcomes.items():
        if outcome.skipped:
            figures.append(outcome.figure(what))
            continue
        rate = Figure(
            f"{what}: {name}", _rate(outcome), "M lines/CPU s", "" if name == OURS else name,
            checksum=outcome.checksum, spread=outcome.spread("work_s"),
        )  # fmt: skip
        rate.ratio = ours / rate.value
        figures.append(rate)
        figures.append(Figure(f"{what}: {name}, peak memory", outcome.median("peak_bytes") / 1e6, "MB"))
        figures.append(Figure(f"{what}: {name}, start-up left out", outcome.median("start_s"), "CPU s"))
    return figures


def _rate(outcome: Outcome) -> float:
    return outcome.median("lines") / outcome.median("work_s") / 1e6


def clicks(*, small: bool) -> list[Figure]:
    """NDJSON to the top 10 products of each 10 s."""
    programs = [elf(CLICKS, "json"), peer("duckdb", "duckdb", "clicks"), peer("chdb", "chdb", "clicks")]
    programs += [peer("polars", "polars", "clicks"), peer("python", "", "clicks")]
    lines = LINES[small]
    return _compare("clicks", race(programs, logs.ndjson(lines), lines, 1 if small else REPEATS))


def access(*, small: bool) -> list[Figure]:
    """A combined log to hits and bytes per path."""
    programs = [elf(ACCESS, "combined"), awk("mawk"), awk("gawk"), peer("duckdb", "duckdb", "access")]
    programs.append(peer("chdb", "chdb", "access"))
    lines = LINES[small]
    return _compare("access", race(programs, logs.combined(lines), lines, 1 if small else REPEATS))


def streams(*, small: bool) -> list[Figure]:
    """The work of `clicks` in stream engines."""
    names = STREAM_ENGINES if not small else ("pathway", "bytewax")
    programs = [elf(CLICKS, "json"), *(peer(name, STREAM_PACKAGES[name], "clicks") for name in names)]
    lines = STREAM_LINES[small]
    outcomes = race(programs, logs.ndjson(lines), lines, 1)
    figures = _compare("streams", outcomes)
    rates = {name: _rate(found) for name, found in outcomes.items() if name != OURS and not found.skipped}
    if rates:
        best = max(rates, key=lambda name: rates[name])
        ratio = _rate(outcomes[OURS]) / rates[best]
        figures.append(Figure("streams: ours to the best stream engine", ratio, "x", best, ratio))
    return figures


def memory(*, small: bool) -> list[Figure]:
    """The peak of `elf run` on a file and on one ten times its size."""
    figures = []
    for lines in MEMORY_LINES[small]:
        for what, program, path in (
            ("clicks", elf(CLICKS, "json"), logs.ndjson(lines)),
            ("access", elf(ACCESS, "combined"), logs.combined(lines)),
        ):
            outcome = race([program], path, lines, 1)[OURS]
            megabytes = outcome.median("peak_bytes") / 1e6
            name = f"memory: {what}, {path.stat().st_size / 1e6:.0f} MB file"
            figures.append(Figure(name, megabytes, "MB", checksum=outcome.checksum))
    return figures


def jobs(*, small: bool) -> list[Figure]:
    """CPU of an agent that runs ten different jobs on one stream, against the mean of each alone.

    Twice: with many lines per window, where reading is the work, and with a tenth as many, where a good part
    of the work is done per window and job, whatever is in it (the backlog of a quiet server).
    """
    lines = JOB_LINES[small]
    figures = []
    for name in (QUIET,) if small else (BUSY, QUIET):
        path = logs.ndjson(lines, SPACINGS_US[name])
        what = f"jobs, {name}"
        alone = [measure_agent(path, [text], RARELY_S).cpu_s for text in (JOBS[:1] if small else JOBS)]
        together = measure_agent(path, JOBS, RARELY_S).cpu_s
        mean = sum(alone) / len(alone)
        figures += [
            Figure(f"{what}: one job (mean of each alone)", mean, "CPU s"),
            Figure(f"{what}: top 10 products alone", alone[0], "CPU s"),
            Figure(f"{what}: ten jobs", together, "CPU s", "one job", together / mean),
            Figure(f"{what}: ten jobs, lines read", lines / together / 1e6, "M lines/CPU s"),
        ]
    return figures


def lag(*, small: bool) -> list[Figure]:
    """How late the event loop of an agent is while it reads as fast as it can."""
    figures = []
    path = logs.ndjson(JOB_LINES[small], SPACINGS_US[QUIET if small else BUSY])
    for count in (10,) if small else (1, 10):
        found = measure_agent(path, JOBS[:count])
        what = "lag, 1 job" if count == 1 else f"lag, {count} jobs"
        for share, name in ((0.5, "p50"), (0.99, "p99"), (1.0, "worst")):
            value = max(percentile(found.lags_s, share) * 1000, 1e-3)
            figures.append(Figure(f"{what}: {name}", value, "ms"))
        figures.append(Figure(f"{what}: read meanwhile", found.lines / found.wall_s / 1e6, "M lines/s"))
        figures.append(Figure(f"{what}: peak memory", found.peak_bytes / 1e6, "MB"))
    return figures


PARTS = {
    "clicks": clicks, "access": access, "streams": streams, "memory": memory, "jobs": jobs, "lag": lag,
}  # fmt: skip
