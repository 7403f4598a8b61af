"""PyFlink's Table API, streaming, parallelism 1: top 10 products per 10 s from a file of JSON lines."""

from __future__ import annotations

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """CREATE TABLE clicks (
    ts TIMESTAMP_LTZ(3), product STRING, clicks_count BIGINT,
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601')"""
QUERY = """SELECT CAST(UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS BIGINT), product, clicks FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY clicks DESC, product) AS place
    FROM (
        SELECT window_start, window_end, product, SUM(clicks_count) AS clicks
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end, product
    )
) WHERE place <= 10"""


def main(_work: str, path: str) -> None:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = environment.get_config()
    settings.set("parallelism.default", "1")
    settings.set("table.local-time-zone", "UTC")
    environment.execute_sql(SOURCE.format(path))
    with environment.execute_sql(QUERY).collect() as rows:
        for row in rows:
            print(json.dumps(list(row)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
