"""DuckDB, one query over the file: top 10 products per 10 s (`clicks`), hits and bytes by path (`access`)."""

from __future__ import annotations

import json
import sys

import duckdb

from benchmarks.peers.columns import COMBINED_WORDS

CLICKS = """
SELECT epoch(w)::BIGINT, product, clicks FROM (
    SELECT time_bucket(INTERVAL 10 SECONDS, ts) AS w, product, sum(clicks_count)::BIGINT AS clicks,
        row_number() OVER (PARTITION BY w ORDER BY clicks DESC, product) AS place
    FROM read_json('{}', format = 'newline_delimited',
        columns = {{ts: 'TIMESTAMP', product: 'VARCHAR', clicks_count: 'BIGINT'}})
    GROUP BY w, product
) WHERE place <= 10"""
ACCESS = """
SELECT split_part(request, ' ', 2) AS path, count(*), sum(nullif(bytes, '-')::BIGINT)::BIGINT
FROM read_csv('{}', auto_detect = false, header = false, delim = ' ', quote = '"', columns = {{{}}})
GROUP BY path"""


def main(work: str, path: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    columns = ", ".join(f"\"{name}\": 'VARCHAR'" for name in COMBINED_WORDS)
    query = CLICKS.format(path) if work == "clicks" else ACCESS.format(path, columns)
    for row in connection.execute(query).fetchall():
        print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:3])
