"""How soon an interval that is closed is in a stream's `foreachBatch`, over real agents.

A job closes an interval twice a second. A follower of its results notes when each is there; a
stream's `foreachBatch` notes when it is called with its rows, and when it has collected them. The peers are
told by the follower: a line in a socket, a Parquet file that appears in a directory, and, for what any source
in Python costs, one that asks no agent and only looks at a file that has the interval's number.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Figure, percentile
from benchmarks.spark_source import AGENTS, agents, fresh
from elfmesh import spark_bridge
from elfmesh.api.client.client import connect
from elfmesh.cli.host.local_agents import LocalAgents

LIVE = """CREATE JOB bench.live EVERY '500 ms' DEADLINE '5 s' AS
SELECT k, count(*) AS n FROM log GROUP BY k"""
KEYS = 100
CLOSED = {False: 50, True: 4}
"""Intervals that a reader is measured with, behind SETTLING others."""

SETTLING = {False: 40, True: 2}
"""A JVM that has just begun compiles for half a minute; each reader waits that out again."""

POLL_S = 0.002


class Live:
    """A job that closes intervals, and who hears of them first.

    Attributes:
        at: when each interval was heard of, in seconds of the clock, by its number.
        rows: of each, as many as the follower saw.
    """

    def __init__(self, running: LocalAgents) -> None:
        self.running = running
        self.at: dict[int, float] = {}
        self.rows: dict[int, int] = {}
        self.tell: Callable[[int], None] = lambda _index: None
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._follow)]

    def __enter__(self) -> Live:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._threads[0].join(10)

    def _write(self) -> None:
        with (
            (self.running.directory / "0.log").open("a", buffering=1) as one,
            (self.running.directory / "1.log").open("a", buffering=1) as other,
        ):
            while not self.stopped.is_set():
                for number in range(KEYS // 10):
                    for file in (one, other):
                        file.write(json.dumps({"ts": time.time(), "k": f"key-{number}"}) + "\n")
                time.sleep(0.02)

    def _follow(self) -> None:
        with suppress(Exception):  # the agents end before it does
            for line in connect(self.running.agents[0].api).results("bench/live", follow=True):
                index = line["interval"]["index"]
                self.at.setdefault(index, time.time())
                self.rows[index] = len(line["rows"])
                self.tell(index)


def latency(*, small: bool) -> list[Figure]:
    """Milliseconds from a closed interval to foreachBatch, and to its rows collected; small has no peers."""
    count = CLOSED[small]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name, agents(Path(name)) as running:
        while len(connect(running.agents[0].api).get("agents")) < AGENTS:
            time.sleep(0.1)
        connect(running.agents[0].api).apply(LIVE)
        spark = spark_bridge.local_session("benchmark")
        try:
            with Live(running) as live:
                connect(running.agents[0].api).schema("bench/live", wait_s=30)
                sides: dict[str, Callable[[Any, Live, Path], Any]] = {"elf": _by_elf}
                if not small:
                    sides |= {"Python": _by_python, "Parquet": _by_parquet, "socket": _by_socket}
                ours: list[float] = []
                for side, make in sides.items():
                    called, collected = _watch(
                        live, make(spark, live, Path(name)), Path(name), SETTLING[small], count
                    )
                    ours = ours or collected
                    figures += _shown(side, called, collected, ours)
        finally:
            spark.stop()
    return figures


def _shown(side: str, called: list[float], collected: list[float], ours: list[float]) -> Iterator[Figure]:
    yield Figure(f"closed to foreachBatch, {side}, median", percentile(called, 0.5), "ms")
    for share, name in ((0.5, "median"), (0.9, "p90")):
        value = percentile(collected, share)
        ratio = value / percentile(ours, share)
        peer = "" if side == "elf" else side
        yield Figure(f"closed to collected, {side}, {name}", value, "ms", peer, ratio if peer else 0.0)


def _watch(
    live: Live, frame: Any, directory: Path, settling: int, count: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of so many intervals behind the first few."""
    seen: dict[int, tuple[float, float]] = {}
    rows: Counter[int] = Counter()

    def take(batch: Any, _number: int) -> None:
        called = time.time()
        found = Counter(row.interval_index for row in batch.select("interval_index").collect())
        rows.update(found)  # a socket's batch may end within an interval
        for index in found:
            seen[index] = called, time.time()

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", fresh(directory))
    query = writer.start()
    try:
        while len(seen) <= settling + count:
            if query.exception() is not None:
                raise query.exception()
            live.running.check()
            time.sleep(0.05)
    finally:
        query.stop()
        live.tell = lambda _index: None
    kept = sorted(seen)[settling:-1]
    if wrong := {index: (rows[index], live.rows[index]) for index in kept if rows[index] != live.rows[index]}:
        raise SystemExit(f"rows read and rows published differ: {wrong}")
    return [max((seen[i][0] - live.at[i]) * 1000, 0.01) for i in kept], [
        (seen[i][1] - live.at[i]) * 1000 for i in kept
    ]


def _by_elf(spark: Any, live: Live, _directory: Path) -> Any:
    api = ",".join(agent.api for agent in live.running.agents)
    return spark.readStream.format("elf").option("job", "bench/live").option("api", api).load()


def _by_python(spark: Any, live: Live, directory: Path) -> Any:
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    note, rows = directory / "note", KEYS // 10

    def tell(index: int) -> None:
        beside = note.with_suffix(".part")
        beside.write_text(str(index))
        beside.rename(note)

    class Reader(DataSourceStreamReader):  # type: ignore[misc]  # mypy skips PySpark
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"interval": int(note.read_text())}

        def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
            end = time.monotonic() + 1.0
            while (now := self.initialOffset()) == start and time.monotonic() < end:
                time.sleep(POLL_S)
            return now

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition(index) for index in range(start["interval"] + 1, end["interval"] + 1)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            if partition.value is not None:  # Spark sends an empty one when there is nothing to read
                yield pa.record_batch({"interval_index": pa.array([partition.value] * rows, pa.int64())})

    class Source(DataSource):  # type: ignore[misc]  # mypy skips PySpark
        @classmethod
        def name(cls) -> str:
            return "python"

        def schema(self) -> str:
            return "interval_index BIGINT"

        def streamReader(self, schema: Any) -> Reader:  # noqa: N802 - Spark's name
            return Reader()

    tell(max(live.at))
    live.tell = tell
    spark.dataSource.register(Source)
    return spark.readStream.format("python").load()


def _by_parquet(spark: Any, live: Live, directory: Path) -> Any:
    place = directory / "files"
    place.mkdir()
    schema = pa.schema([("interval_index", pa.int64())])

    def tell(index: int) -> None:
        part = directory / f"{index}.part"
        pq.write_table(pa.table({"interval_index": [index] * live.rows[index]}, schema=schema), part)
        part.rename(place / f"{index}.parquet")

    live.tell = tell
    return spark.readStream.schema("interval_index BIGINT").parquet(str(place))


def _by_socket(spark: Any, live: Live, _directory: Path) -> Any:
    server = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(server.accept()[0])

    threading.Thread(target=accept, daemon=True).start()

    def tell(index: int) -> None:
        for connection in connections:
            with suppress(OSError):
                connection.sendall(f"{index}\n".encode() * live.rows[index])

    live.tell = tell
    source = spark.readStream.format("socket").option("host", "127.0.0.1")
    lines = source.option("port", server.getsockname()[1]).load()
    return lines.selectExpr("CAST(value AS BIGINT) AS interval_index")
