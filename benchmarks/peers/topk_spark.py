"""Spark Structured Streaming, append mode, one core: top 10 products per 10 s from a directory of JSON lines.

Append mode gives a window when the watermark has passed it, so the directory ends with a file that holds one
click an hour later; its own window never comes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks.peers.spark_session import session

SCHEMA = "ts TIMESTAMP, product STRING, clicks_count BIGINT"


def show(frame: DataFrame, _batch: int) -> None:
    ranked = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("clicks"), "product"))
    top = frame.withColumn("place", ranked).where("place <= 10")
    for row in top.select(F.unix_seconds(F.col("window.start")), "product", "clicks").collect():
        print(json.dumps(list(row)))


def last_click(path: Path) -> str:
    """A click an hour after the last line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        last = json.loads(file.read().splitlines()[-1])
    later = datetime.fromisoformat(last["ts"]).astimezone(UTC) + timedelta(hours=1)
    return json.dumps({"ts": later.isoformat(), "product": "end", "clicks_count": 0}) + "\n"


def main(_work: str, path: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        logs, checkpoint = Path(scratch) / "logs", Path(scratch) / "checkpoint"
        logs.mkdir()
        (logs / "0.ndjson").symlink_to(path)
        (logs / "1.ndjson").write_text(last_click(Path(path)))
        spark = session(1)
        clicks = spark.readStream.schema(SCHEMA).json(str(logs))
        sums = (
            clicks.withWatermark("ts", "1 second")
            .groupBy(F.window("ts", "10 seconds"), "product")
            .agg(F.sum("clicks_count").alias("clicks"))
        )
        stream = sums.writeStream.outputMode("append").foreachBatch(show).trigger(availableNow=True)
        stream.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        spark.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
