"""Rows of the data source `elf` per second of processor, over real agents.

Agents hold a job's results; each pass reads all of them into Spark's `noop` sink. Peers read the same rows
from plain Parquet and from Spark's socket source (few of them, see SOCKET_KEYS); a pass
before says a checksum of each side's rows. CPU seconds are of the agents, this driver's Python, its JVM and
the JVM's Python workers, and given apart.
"""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Figure
from elfmesh import spark_bridge
from elfmesh.api.client.client import connect
from elfmesh.cli.host.local_agents import LocalAgents

AGENTS = 2
INTERVALS = {False: 100, True: 3}
ROWS = {False: 40_000, True: 500}
"""Of each interval."""

PASSES = {False: 9, True: 1}
WARM_UP = {False: 5, True: 0}
"""Passes that the JVM compiles in, left out."""

SOCKET_KEYS = 10_000
"""Of the first interval, for the socket: what Spark 4.3 does with a batch of it is quadratic in its lines."""

BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
JOB = """CREATE JOB bench.rows HORIZON '60 s' ON STRAGGLER WAIT AS
SELECT k, sum(n) AS n, sum(x) AS x FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
TYPES = "interval_index BIGINT, k STRING, n BIGINT, x DOUBLE"
DIGEST = ("count(*) AS rows", "sum(n) AS total", "bit_xor(xxhash64(interval_index, k, n, x)) AS hash")


def cpu_by_kind(agents: list[int]) -> dict[str, float]:
    """CPU seconds so far of the agents, the driver's Python, its JVM, and the Python workers of that."""
    children: dict[int, list[int]] = {}
    used: dict[int, tuple[float, float]] = {}
    java: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            head, _, rest = (entry / "stat").read_text().rpartition(")")
            fields = rest.split()
            ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15]]
            pid = int(entry.name)
            used[pid] = ticks[0] + ticks[1], ticks[2] + ticks[3]
            children.setdefault(int(fields[1]), []).append(pid)
            if head.endswith("(java"):
                java.append(pid)
    own = [pid for pid in below(os.getpid(), children) if pid in java]
    workers = [pid for each in own for pid in below(each, children)]
    return {
        "agents": sum(used[pid][0] for pid in agents),
        "driver": used[os.getpid()][0],
        "JVM": sum(used[pid][0] for pid in own),
        "Python workers": sum(map(sum, (used[pid] for pid in workers))) + sum(used[pid][1] for pid in own),
    }


def below(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    """All descendants of a process."""
    for child in children.get(pid, ()):
        yield child
        yield from below(child, children)


def source(*, small: bool) -> list[Figure]:
    """Million rows per CPU second of ours, of Parquet and of a socket; of ours also where the time goes.

    Small leaves the socket out.
    """
    intervals, rows = INTERVALS[small], ROWS[small]
    with tempfile.TemporaryDirectory() as name, agents(Path(name)) as running:
        directory, pids = Path(name), [agent.process.pid for agent in running.agents]
        fill(running, intervals, rows)
        spark = spark_bridge.local_session("benchmark", spark__driver__memory="2g")
        try:
            ours, all_columns = elf(spark, running, TYPES), elf(spark, running)
            parquet = directory / "parquet"
            ours.write.parquet(str(parquet))
            stored = spark.read.parquet(str(parquet))
            sides: dict[str, tuple[int, Callable[[], Any]]] = {
                "elf": (intervals * rows, partial(drain, ours)),
                "elf, all columns": (intervals * rows, partial(drain, all_columns)),
                "Parquet": (intervals * rows, partial(drain, stored)),
            }
            whole = digest(ours)
            assert whole == digest(all_columns) == digest(stored), "Parquet has other rows"
            assert whole[0] == intervals * rows, whole
            if not small:
                part = stored.where(f"interval_index = {BEGIN} AND k < 'key-{SOCKET_KEYS:07}'")
                lines = b"".join("\t".join(map(str, row)).encode() + b"\n" for row in part.collect())
                sides["socket"] = lines.count(b"\n"), partial(drain_socket, spark, lines, directory)
                assert digest(part) == digest_of_socket(spark, lines, directory), "the socket has other rows"
            return measured(sides, pids, PASSES[small], WARM_UP[small], str(whole[2]))
        finally:
            spark.stop()


@contextmanager
def agents(directory: Path) -> Iterator[LocalAgents]:
    """Some agents, each with an empty log."""
    with LocalAgents(directory) as running:
        for number in range(AGENTS):
            (directory / f"{number}.log").touch()
        running.start(
            {
                f"web{number}": ("--stream", f"log={directory}/{number}.log,format=json,idle=1 h")
                for number in range(AGENTS)
            }
        )
        yield running


def fill(running: LocalAgents, intervals: int, rows: int) -> None:
    """Let the agents reduce logs to so many rows in each of so many intervals."""
    client = connect(running.agents[0].api)
    while len(client.get("agents")) < AGENTS:
        time.sleep(0.1)
    client.apply(JOB)
    rng = np.random.default_rng(1)
    for number in range(AGENTS):
        with (running.directory / f"{number}.log").open("a") as file:
            for second in range(intervals):
                clock = datetime.fromtimestamp(BEGIN + second, UTC).isoformat()
                values = rng.integers(0, 1000, rows)
                file.writelines(
                    f'{{"ts":"{clock}","k":"key-{at:07}","n":{value},"x":{value / 8}}}\n'
                    for at, value in zip(range(number, rows, AGENTS), values, strict=False)
                )
            file.write(f'{{"ts":"{datetime.fromtimestamp(BEGIN + 3600, UTC).isoformat()}"}}\n')
    while (
        client.offsets("bench/rows", after=BEGIN + intervals - 2, wait_s=10)["latest"] < BEGIN + intervals - 1
    ):
        running.check()


def elf(spark: Any, running: LocalAgents, schema: str = "") -> Any:
    """The results as a DataFrame that asks all agents; with a schema only its columns, as of Parquet."""
    reader = spark.read.schema(schema) if schema else spark.read
    api = ",".join(agent.api for agent in running.agents)
    return reader.format("elf").option("job", "bench/rows").option("api", api).load()


def drain(frame: Any) -> None:
    """Read all rows, and do nothing with them."""
    frame.write.format("noop").mode("overwrite").save()


def digest(frame: Any) -> tuple[int, int, int]:
    """Count, sum and a hash of the rows, in whatever order they come."""
    (row,) = frame.selectExpr(*DIGEST).collect()
    return row.rows, row.total or 0, row.hash or 0


def drain_socket(spark: Any, lines: bytes, directory: Path) -> None:
    """Read lines from a socket until all are there."""
    with streamed(spark, lines, directory) as frame:
        query = frame.writeStream.format("noop").option("checkpointLocation", fresh(directory)).start()
        while sum(each.numInputRows for each in query.recentProgress) < lines.count(b"\n"):
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.01)
        query.stop()


def digest_of_socket(spark: Any, lines: bytes, directory: Path) -> tuple[int, int, int]:
    """The digest of what a socket gives."""
    found: list[tuple[int, int, int]] = []
    with streamed(spark, lines, directory) as frame:
        writer = frame.writeStream.foreachBatch(lambda batch, _number: found.append(digest(batch)))
        query = writer.option("checkpointLocation", fresh(directory)).start()
        while sum(each[0] for each in found) < lines.count(b"\n"):
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.05)
        query.stop()
    hashed = 0
    for each in found:
        hashed ^= each[2]
    return sum(each[0] for each in found), sum(each[1] for each in found), hashed


@contextmanager
def streamed(spark: Any, lines: bytes, directory: Path) -> Iterator[Any]:
    """A streaming DataFrame of rows that are sent through a socket, to each client."""
    server = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.sendall(lines)
                connection.recv(1)  # until the reader goes

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield from_socket(spark, server.getsockname()[1])
    finally:
        server.close()
        thread.join(10)


def from_socket(spark: Any, port: int) -> Any:
    """Rows out of lines of a socket, as a user would write it."""
    source = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port)
    return source.load().selectExpr(f"from_csv(value, '{TYPES}', map('sep', '\t')) AS row").select("row.*")


def measured(
    sides: dict[str, tuple[int, Callable[[], Any]]],
    agents: list[int],
    passes: int,
    warm_up: int,
    checksum: str,
) -> list[Figure]:
    """Run each side some times, in turns; medians."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    walls: dict[str, list[float]] = {name: [] for name in sides}
    parts: dict[str, list[float]] = {}
    for turn in range(warm_up + passes):
        for name, (_, run) in sides.items():
            before, began = cpu_by_kind(agents), time.perf_counter()
            run()
            wall, after = time.perf_counter() - began, cpu_by_kind(agents)
            if turn < warm_up:
                continue
            walls[name].append(wall)
            seconds[name].append(sum(after.values()) - sum(before.values()))
            if name == "elf":
                for kind, value in after.items():
                    parts.setdefault(kind, []).append(value - before[kind])
    rates = {name: rows / statistics.median(seconds[name]) / 1e6 for name, (rows, _) in sides.items()}
    figures = []
    for name, (rows, _) in sides.items():
        taken = seconds[name]
        figure = Figure(f"rows by {name}", rates[name], "M/CPU s", checksum=checksum)
        figure.spread = (max(taken) - min(taken)) / statistics.median(taken)
        if not name.startswith("elf"):
            figure.peer, figure.ratio = name, rates["elf"] / rates[name]
        figures.append(figure)
        rate = rows / statistics.median(walls[name]) / 1e6
        figures.append(Figure(f"rows by {name}, by the clock", rate, "M/s", checksum=checksum))
    rows = sides["elf"][0]
    figures += [
        Figure(f"of these for elf: {kind}", max(statistics.median(each) / rows * 1e9, 0.01), "CPU ns a row")
        for kind, each in parts.items()
    ]
    return figures


def fresh(directory: Path) -> str:
    """A new directory for a checkpoint."""
    return tempfile.mkdtemp(dir=directory, prefix="checkpoint")
