"""Spark Structured Streaming: top 10 products per second from a socket of JSON lines, append mode.

usage: python -m benchmarks.peers.spark_windows PORT SECONDS
Prints `ready`, then one line `WINDOW_END_US SEEN_US ROWS` for each window when its rows reach foreachBatch.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks.peers.spark_session import session

SCHEMA = "ts TIMESTAMP, product STRING, directory STRING, clicks_count BIGINT"


def seen(frame: DataFrame, _batch: int) -> None:
    ranked = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("clicks"), "product"))
    top = frame.withColumn("rank", ranked).where("rank <= 10").orderBy("window", "rank")
    rows = top.select(F.unix_micros(F.col("window.end")), "product", "clicks").collect()
    now = time.time_ns() // 1000
    for end in sorted({row[0] for row in rows}):
        here = [{"product": row[1], "clicks": row[2]} for row in rows if row[0] == end]
        print(end, now, json.dumps(here), flush=True)


def main(port: int, seconds: float) -> None:
    spark = session(2)
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    events = lines.select(F.from_json("value", SCHEMA).alias("event")).select("event.*")
    clicks = (
        events.withWatermark("ts", "100 milliseconds")
        .where("directory = 'Video Games'")
        .groupBy(F.window("ts", "1 second"), "product")
        .agg(F.sum("clicks_count").alias("clicks"))
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            clicks.writeStream.outputMode("append")
            .foreachBatch(seen)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        print("ready", flush=True)
        query.awaitTermination(seconds)
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
