"""A table for a dashboard: the rows of a job over the history of its stream, one Parquet partition a day.

    python examples/spark/dashboard_table.py 'logs/*.ndjson' /tmp/dashboard

`--table delta` and `--table iceberg` need that format's package in the session (`spark.jars.packages`); plain
Parquet needs nothing.
"""

from __future__ import annotations

import argparse

from pyspark.sql import functions

from elfmesh import spark_bridge

TOP = """CREATE JOB shop.top EVERY '1 min' AS
SELECT product, sum(clicks_count) AS clicks, count(DISTINCT user.id) AS users
FROM clicks
GROUP BY product
ORDER BY clicks DESC LIMIT 5"""


def main() -> None:
    """Query, write, show."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("logs")
    options.add_argument("target")
    options.add_argument("--table", choices=("parquet", "delta", "iceberg"), default="parquet")
    given = options.parse_args()
    spark = spark_bridge.local_session("dashboard")
    rows = spark_bridge.sql(spark, TOP, streams={"clicks": (given.logs, "json")})
    daily = rows.withColumn("day", functions.to_date("interval_start"))
    daily.write.format(given.table).mode("overwrite").partitionBy("day").save(given.target)
    spark.read.format(given.table).load(given.target).orderBy(
        "interval_index", functions.desc("clicks")
    ).show(5)
    spark.stop()


if __name__ == "__main__":
    main()
