"""How long after a window can be closed its result reaches a reader: eight agents, and Spark as the peer.

Eight agents read live shop logs; a follower of the job's results notes when each window's line arrives.
Latency is that moment less the window's end and the job's lateness; `budget` divides it by the steps that the
agents have noted (`elf why --trace`). Spark Structured Streaming then gets the
same kind of lines through a socket (one process, append mode, as a user would write it). Every window of both
is compared with the embedded engine over the logs.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from benchmarks.harness import ROOT, Figure, percentile
from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo.fleet import Fleet, ShopLogs
from elfmesh.control.protocol.replies import Story, read_reply
from elfmesh.local.embedded import answers
from elfmesh.ql.values.row_json import rows_to_json
from elfmesh.units import MICROS

AGENTS = 8
LATENESS_US = 100_000
RATE_PER_S = 50.0
"""Lines per second of each web server: enough that no source is ever idle."""

SKIP_WINDOWS = 2
"""At both ends: the first windows start half-way, the last ones end with the traffic."""

TRACED = {False: 30, True: 3}
"""Windows whose steps are read, of the newest: agents keep the steps of some hundred."""

STAGES = (
    ("the first member has sealed it", "sealed", False),
    ("the last member has sealed it", "sealed", True),
    ("the root has merged all parts", "collected", True),
    ("the rows are made and proposed", "proposed", True),
    ("all voters have stored the record", "accepted", True),
    ("the master has published it", "published", True),
)
"""Stages of a window: a name, the kind of step that ends it, and whether its first or last step counts."""

QUERY = """SELECT product, SUM(clicks_count) AS clicks FROM clicks WHERE directory = 'Video Games'
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), product ORDER BY clicks DESC, product LIMIT 10"""
JOB = f"CREATE JOB bench.latency LATENESS '{LATENESS_US // 1000} ms' AS\n{QUERY}"


def latency(*, small: bool) -> list[Figure]:
    """Latencies of ours and of Spark; small leaves Spark out."""
    seconds = 6 if small else 40
    figures = []
    with tempfile.TemporaryDirectory() as directory:
        ours, first_ms = _ours(Path(directory), seconds)
    spark: dict[int, float] = {}
    if not small:
        with tempfile.TemporaryDirectory() as directory:
            spark = _spark(Path(directory), seconds)
    for share, name in ((0.5, "median"), (0.9, "p90"), (0.99, "p99")):
        value = percentile(list(ours.values()), share)
        peer = percentile(list(spark.values()), share) if spark else 0.0
        label = "Spark append" if spark else ""
        figures.append(
            Figure(f"window closed to result, {name}", value, "ms", label, peer / value if spark else 0.0)
        )
        if spark:
            figures.append(Figure(f"the same in Spark, {name}", peer, "ms"))
    figures.append(Figure("apply to first result, windows of 1 s", first_ms, "ms"))
    return figures


def budget(*, small: bool) -> list[Figure]:
    """What each stage of a window takes, from its end plus the lateness on."""
    stages: dict[str, list[float]] = {}

    def read(api: str, arrived: dict[int, float]) -> None:
        client = Client(api)
        for end, after_ms in list(arrived.items())[-TRACED[small] - SKIP_WINDOWS : -SKIP_WINDOWS]:
            story = read_reply(Story, client.story("bench/latency", end // MICROS - 1))
            for stage, value in staged(story, after_ms).items():
                stages.setdefault(stage, []).append(value)

    with tempfile.TemporaryDirectory() as directory:
        _ours(Path(directory), 8 if small else 40, read)
    return [
        _stage(f"{stage}, {name}", percentile(values, share))
        for stage, values in stages.items()
        for name, share in (("median", 0.5), ("p90", 0.9))
    ]


def _stage(name: str, value_ms: float) -> Figure:
    """Return a figure; a stage may end before the one that is listed before it, as readers ask voters too."""
    early = f"{-value_ms:.3g} ms before the stage above" if value_ms <= 0 else ""
    return Figure(name, value_ms, "ms", skipped=early)


def staged(story: Story, arrived_ms: float) -> dict[str, float]:
    """Return the milliseconds of each stage of a window; their sum is the latency.

    Args:
        story: the steps of all agents; their clocks are one, because they run on one host.
        arrived_ms: when the reader had the rows.
    """
    found, before = {}, 0.0
    for stage, kind, whole in STAGES:
        times = [step.seconds * 1e3 - LATENESS_US / 1e3 for step in story.steps if step.kind == kind]
        at = (max if whole else min)(times)
        found[stage], before = at - before, at
    return {**found, "published, until the reader has the rows": arrived_ms - before}


def _ours(
    directory: Path, seconds: int, then: Callable[[str, dict[int, float]], None] | None = None
) -> tuple[dict[int, float], float]:
    with Fleet(directory, AGENTS, seed=1, rate_per_s=RATE_PER_S) as fleet:
        fleet.open()
        api = fleet.agents[-1].api
        deadline = time.monotonic() + 30
        while len(connect(api).get("agents")) < AGENTS and time.monotonic() < deadline:
            time.sleep(0.2)
        fleet.traffic.start()
        time.sleep(1)
        began = time.time()
        connect(api).apply(JOB)
        seen: dict[int, tuple[float, list[object]]] = {}
        first = 0.0
        for line in connect(api).results("bench/latency", follow=True):
            now = time.time()
            first = first or now
            end = _micros(line["interval"]["end"])
            seen[end] = (now * 1000 - (end + LATENESS_US) / 1000, line["rows"])
            if now - began > seconds:
                break
        if then is not None:
            then(api, {end: after_ms for end, (after_ms, _) in sorted(seen.items())})
        fleet.traffic.stop()
        expected = _expected(fleet.traffic.paths.values())
    kept = sorted(seen)[SKIP_WINDOWS:-SKIP_WINDOWS]
    for end in kept:
        assert _digest(seen[end][1]) == expected[end], f"window {end} differs from the embedded engine"
    return {end: seen[end][0] for end in kept}, (first - began) * 1000


def _spark(directory: Path, seconds: int) -> dict[int, float]:
    paths = {f"web{number}": directory / f"web{number}.ndjson" for number in range(AGENTS)}
    logs = ShopLogs(paths, seed=1, rate_per_s=RATE_PER_S)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    stop = threading.Event()
    command = [sys.executable, "-m", "benchmarks.peers.spark_windows", str(port), str(seconds)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    forward = threading.Thread(target=_forward, args=(server, list(paths.values()), stop), daemon=True)
    forward.start()
    try:
        assert process.stdout.readline().strip() == "ready", "Spark did not start"
        logs.start()
        lines = [line.split(" ", 2) for line in process.stdout]
        process.wait()
    finally:
        stop.set()
        logs.stop()
        process.kill()
        server.close()
    expected = _expected(paths.values())
    kept = lines[SKIP_WINDOWS:]
    for end, _, rows in kept:
        assert _digest(json.loads(rows)) == expected[int(end)], f"Spark's window {end} differs"
    return {int(end): (int(at) - int(end) - LATENESS_US) / 1000 for end, at, _ in kept}


def _forward(server: socket.socket, paths: list[Path], stop: threading.Event) -> None:
    """Send what is appended to the files, whole lines, to each client; Spark opens a probe first."""
    connection, _ = server.accept()
    with connection:
        files = [path.open("rb") for path in paths]
        rests = [b""] * len(files)
        while not stop.is_set():
            for number, file in enumerate(files):
                data = rests[number] + file.read()
                cut = data.rfind(b"\n") + 1
                rests[number] = data[cut:]
                if cut:
                    try:
                        connection.sendall(data[:cut])
                    except ConnectionError:
                        return  # Spark has seen enough
            time.sleep(0.005)
        for file in files:
            file.close()


def _expected(paths: Iterable[Path]) -> dict[int, str]:
    """Window end -> digest of its rows, by the embedded engine."""
    results = answers(QUERY, [str(path) for path in paths], format="json")
    return {result.record.end_us or 0: _digest(rows_to_json(result.table)) for result in results}


def _micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * MICROS)


def _digest(rows: object) -> str:
    return hashlib.blake2b(json.dumps(rows, sort_keys=True).encode(), digest_size=8).hexdigest()


PARTS = {"latency": latency, "budget": budget}
