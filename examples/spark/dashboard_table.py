"""A table for a dashboard: the rows of a job over the history of its stream, one partition a day.

    python examples/spark/dashboard_table.py 'logs/*.ndjson' /tmp/dashboard
    python examples/spark/dashboard_table.py 'logs/*.ndjson' /tmp/dashboard --table delta --writer arrow

Plain Parquet needs nothing. `--table delta` and `--table iceberg` are written by Spark where the session has
that format's package (`spark.jars.packages`), or with `--writer arrow` without one, by the Python packages of
examples/spark/requirements.txt: the rows of a dashboard are few, and go through this process.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

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
    options.add_argument("--writer", choices=("spark", "arrow"), default="spark")
    given = options.parse_args()
    if (given.table, given.writer) == ("parquet", "arrow"):
        options.error("--writer arrow is for delta and iceberg: Spark writes Parquet itself")
    spark = spark_bridge.local_session("dashboard")
    rows = spark_bridge.sql(spark, TOP, streams={"clicks": (given.logs, "json")})
    daily = rows.withColumn("day", functions.to_date("interval_start"))
    if given.writer == "spark":
        daily.write.format(given.table).mode("overwrite").partitionBy("day").save(given.target)
        table = spark.read.format(given.table).load(given.target)
    else:
        write = to_delta if given.table == "delta" else to_iceberg
        table = spark.createDataFrame(write(daily.toArrow(), given.target))
    table.orderBy("interval_index", functions.desc("clicks")).show(5)
    spark.stop()


def to_delta(rows: Any, target: str) -> Any:
    """Write a Delta table; what is there now."""
    import deltalake

    deltalake.write_deltalake(target, rows, mode="overwrite", partition_by=["day"])
    return deltalake.DeltaTable(target).to_pyarrow_table()


def to_iceberg(rows: Any, target: str) -> Any:
    """Write an Iceberg table, shop.top of a catalogue beside it; what is there now."""
    from pyiceberg.catalog.sql import SqlCatalog

    place = Path(target).resolve()
    place.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("dashboard", uri=f"sqlite:///{place}/catalog.db", warehouse=place.as_uri())
    catalog.create_namespace_if_not_exists("shop")
    if not catalog.table_exists("shop.top"):
        with catalog.create_table_transaction("shop.top", schema=rows.schema) as new:
            new.update_spec().add_identity("day").commit()
            new.append(rows)
    else:
        catalog.load_table("shop.top").overwrite(rows)
    return catalog.load_table("shop.top").scan().to_arrow()


if __name__ == "__main__":
    main()
