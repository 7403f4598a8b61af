"""Find the busiest users live, look them up in history, and watch only those that history knows as fraud.

    python examples/spark/feed_back.py 127.0.0.1:7401 history.parquet

The running agents carry a stream `clicks` with a field `user`; history.parquet has the columns `user` and
`verdict`.
"""

from __future__ import annotations

import sys
from typing import Any

import elfmesh
from elfmesh import spark_bridge

BUSIEST = """CREATE JOB shop.busiest EVERY '10 s' AS
SELECT user, count(*) AS clicks FROM clicks GROUP BY user ORDER BY clicks DESC LIMIT 100"""

WATCH = """CREATE JOB shop.watch EVERY '10 s' TABLE suspects (user STRING, verdict STRING) AS
SELECT c.user, s.verdict, count(*) AS clicks
FROM clicks c JOIN lookup.suspects s ON c.user = s.user
GROUP BY c.user, s.verdict"""


def begin(api: str) -> None:
    """Start both jobs: one finds the busiest users, the other watches suspects; there are none yet."""
    client = elfmesh.connect(api)
    client.apply(BUSIEST)
    client.apply(WATCH)


def feed_back(spark: Any, api: str, history: Any) -> list[dict[str, Any]]:
    """Join the busiest users with a DataFrame of what is known, and publish those that are known as fraud."""
    live = spark_bridge.results(spark, "shop/busiest", api=api)
    busiest = live.where("state = 'FINAL'").select("user").distinct()
    suspects = busiest.join(history, "user").where("verdict = 'fraud'").select("user", "verdict")
    return spark_bridge.publish(suspects, "suspects", api=api)


def main() -> None:
    """See the module."""
    api, path = sys.argv[1:]
    spark = spark_bridge.local_session("feed back")
    begin(api)
    for reply in feed_back(spark, api, spark.read.parquet(path)):
        print(f"{reply['job']}: {reply['rows']} suspects from interval {reply['effective_interval']} on")


if __name__ == "__main__":
    main()
