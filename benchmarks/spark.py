"""ELF-QL over history on Spark, one core: against Spark's own reading and grouping of the same files.

Parts are what the history is: JSON lines, and the same records as Parquet; `spark_source` and
`spark_latency` have the others. Both sides run in one local
session with one thread, count and sum per window and product, and must come to the same rows. Figures are
million records a second of wall time, the median of several runs behind one that warms up.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.json
import pyarrow.parquet as pq

from benchmarks import logs, spark_latency, spark_source
from benchmarks.harness import Figure
from elfmesh import spark_bridge

LINES = {False: 1_000_000, True: 20_000}
PASSES = {False: 5, True: 1}
TEXT = """SELECT product, count(*) AS n, sum(clicks_count) AS s FROM clicks
WHERE directory = 'Video Games' GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), product"""
THEIRS = """SELECT window(CAST(ts AS TIMESTAMP), '1 minute').start AS start, product, count(*) AS n,
sum(clicks_count) AS s FROM clicks WHERE directory = 'Video Games' GROUP BY 1, product"""
DDL = "ts STRING, product STRING, directory STRING, clicks_count BIGINT"


def history(form: str, *, small: bool) -> list[Figure]:
    """Million records a second of ours and of Spark alone."""
    path = _file(form, LINES[small])
    spark = spark_bridge.local_session("benchmark", cores=1)
    try:
        sides: dict[str, Callable[[], Any]] = {
            "elfmesh": partial(_ours, spark, path, form),
            "Spark SQL": partial(_spark, spark, path, form),
        }
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        digests = {name: _digest(run()) for name, run in sides.items()}
        if len(set(digests.values())) > 1:
            raise SystemExit(f"different rows: {digests}")
        for _ in range(PASSES[small]):
            for name, run in sides.items():
                began = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - began)
    finally:
        spark.stop()
    rates = {name: LINES[small] / statistics.median(taken) / 1e6 for name, taken in seconds.items()}
    figures = []
    for name, rate in rates.items():
        spread = (max(seconds[name]) - min(seconds[name])) / statistics.median(seconds[name])
        figure = Figure(f"{form}: {name}", rate, "M records/s", checksum=digests[name], spread=spread)
        if name != "elfmesh":
            figure.peer, figure.ratio = name, rates["elfmesh"] / rate
        figures.append(figure)
    return figures


def _file(form: str, lines: int) -> Path:
    path = logs.ndjson(lines)
    if form == "json":
        return path
    target = path.with_suffix(".parquet")
    if not target.exists():
        table = pyarrow.json.read_json(path)
        place = table.column_names.index("ts")
        pq.write_table(table.set_column(place, "ts", table.column("ts").cast("string")), target)
    return target


def _ours(spark: Any, path: Path, form: str) -> list[tuple[Any, ...]]:
    frame = spark_bridge.sql(spark, TEXT, {"clicks": (str(path), form)})
    return [tuple(row) for row in frame.select("interval_start", "product", "n", "s").collect()]


def _spark(spark: Any, path: Path, form: str) -> list[tuple[Any, ...]]:
    frame = spark.read.schema(DDL).json(str(path)) if form == "json" else spark.read.parquet(str(path))
    frame.createOrReplaceTempView("clicks")
    return [tuple(row) for row in spark.sql(THEIRS).collect()]


def _digest(rows: list[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()[:12]


PARTS = {form: partial(history, form) for form in ("json", "parquet")} | {
    "source": spark_source.source,
    "latency": spark_latency.latency,
}
