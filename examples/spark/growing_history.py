"""History that still grows: the rows of every interval once, into a table, with a checkpoint.

    python examples/spark/growing_history.py logs/ /tmp/table /tmp/checkpoint

Files that appear in the directory are read as they come. `availableNow` takes what is there and ends; leave
it out and the stream runs on.
"""

from __future__ import annotations

import sys

from elfmesh import spark_bridge

TOP = """CREATE JOB shop.top EVERY '1 min' LATENESS '5 s' AS
SELECT product, sum(clicks_count) AS clicks FROM clicks GROUP BY product ORDER BY clicks DESC LIMIT 5"""


def main() -> None:
    """Stream what is there into the table."""
    logs, table, checkpoint = sys.argv[1:]
    spark = spark_bridge.local_session("growing")
    rows = spark_bridge.sql(spark, TOP, streams={"clicks": (logs, "json")}, stream=True)
    stream = rows.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    print(f"{spark.read.parquet(table).count()} rows")
    spark.stop()


if __name__ == "__main__":
    main()
