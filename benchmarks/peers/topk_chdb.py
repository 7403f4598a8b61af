"""ClickHouse in the process, one query over the file: top 10 products per 10 s (`clicks`), hits and bytes by
path, which is the seventh word of a line (`access`).
"""

from __future__ import annotations

import sys

import chdb

CLICKS = """
SELECT toUnixTimestamp(w), product, clicks FROM (
    SELECT toStartOfInterval(ts, INTERVAL 10 SECOND) AS w, product, sum(clicks_count) AS clicks
    FROM file('{}', 'JSONEachRow', 'ts DateTime64(6, ''UTC''), product String, clicks_count Int64')
    GROUP BY w, product ORDER BY w, clicks DESC, product LIMIT 10 BY w
) SETTINGS date_time_input_format = 'best_effort', """
ACCESS = """
WITH splitByChar(' ', line, 11) AS words
SELECT words[7] AS path, count(), sum(toInt64OrNull(words[10]))
FROM file('{}', 'LineAsString', 'line String') GROUP BY path SETTINGS """
ONE_CORE = """max_threads = 1, max_parsing_threads = 1, input_format_parallel_parsing = 0,
output_format_json_quote_64bit_integers = 0"""


def main(work: str, path: str) -> None:
    query = (CLICKS if work == "clicks" else ACCESS).format(path)
    print(chdb.query(query + ONE_CORE, "JSONCompactEachRow"))


if __name__ == "__main__":
    main(*sys.argv[1:3])
