"""Features for a model: one row a user and minute from the logs, scaled by Spark, ready for MLlib.

    python examples/spark/user_features.py 'logs/*.ndjson' /tmp/features

The same text, run as a job on agents, gives the same numbers for the model in use.
"""

from __future__ import annotations

import sys

from pyspark.sql import Window, functions

from elfmesh import spark_bridge

FEATURES = """SELECT user.id AS user, count(*) AS events, sum(clicks_count) AS clicks,
       count(DISTINCT product) AS products, stddev(clicks_count) AS spread,
       count(*) FILTER (WHERE directory = 'Video Games') / count(*) AS games
FROM clicks
WHERE user.id IS NOT NULL
GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), user.id"""


def main() -> None:
    """Count, scale, write."""
    spark = spark_bridge.local_session("features")
    rows = spark_bridge.sql(spark, FEATURES, streams={"clicks": (sys.argv[1], "json")})
    every = Window.partitionBy("interval_index")
    most = functions.max("clicks").over(every)
    scaled = rows.withColumn("share", functions.coalesce(functions.col("clicks") / most, functions.lit(0.0)))
    scaled.write.mode("overwrite").parquet(sys.argv[2])
    print(f"{scaled.count()} rows of {len(scaled.columns)} columns")
    spark.stop()


if __name__ == "__main__":
    main()
