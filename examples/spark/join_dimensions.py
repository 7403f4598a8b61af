"""Joins with dimension data: what ELF-QL counts from the logs, beside what only the warehouse knows.

    python examples/spark/join_dimensions.py 'logs/*.ndjson'

The small table is joined twice: inside the query as a lookup table, where a record is filtered before it is
counted, and behind it as a DataFrame.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from elfmesh import spark_bridge

SALES = """SELECT c.directory, count(*) AS visits, sum(c.clicks_count) AS clicks
FROM clicks c JOIN lookup.departments d ON c.directory = d.directory
WHERE d.open
GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), c.directory"""

DEPARTMENTS = pa.table(
    {"directory": ["Books", "Video Games"], "open": [True, True], "manager": ["Ada", "Grace"]}
)


def main() -> None:
    """Count, join, show."""
    spark = spark_bridge.local_session("dimensions")
    visits = spark_bridge.sql(
        spark, SALES, streams={"clicks": (sys.argv[1], "json")}, lookups={"departments": DEPARTMENTS}
    )
    managers = spark.createDataFrame(DEPARTMENTS).select("directory", "manager")
    joined = visits.join(managers, "directory", "left").orderBy("interval_index", "directory")
    joined.select("interval_start", "directory", "manager", "visits", "clicks").show(6)
    spark.stop()


if __name__ == "__main__":
    main()
