"""Arroyo's SQL tests: tumbling, hopping and session windows, and a grouping without one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.compat.cases import PEERS, Case, Ours, Translation, same_rows

ROOT = PEERS / "arroyo"


def cases() -> list[Case]:
    """Its queries; rows come in no order. Of changes (Debezium's form) the row after the change counts."""
    found = []
    for case in json.loads((ROOT / "cases.json").read_text())["cases"]:
        lines = (ROOT / case["expected_file"]).read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        if case["debezium_output"]:
            assert all(row["op"] == "c" for row in rows)
            rows = [row["after"] for row in rows]
        inputs = {name: ROOT / "inputs" / f"{name}.json" for name in case["inputs"]}
        found.append(Case(case["name"], inputs, same_rows(rows, ordered=False)))
    return found


BOUNDS = "window_start AS `start`, window_end AS `end`"

TRANSLATIONS: Mapping[str, Translation] = {
    "grouped_aggregates": Ours("""SELECT counter % 5 AS counter_mod, min(counter) AS min, max(counter) AS max,
       sum(counter) AS sum, count(*) AS count, avg(counter) AS avg
FROM impulse
GROUP BY counter % 5"""),
    "hourly_by_event_type": Ours("""SELECT event_type, window_start AS hour, count(*) AS count
FROM cars
GROUP BY TUMBLE(timestamp, INTERVAL '1' HOUR), event_type"""),
    "session_window": Ours(
        f"""SELECT {BOUNDS}, CASE WHEN counter % 10 = 0 THEN 0 ELSE counter END AS user_id, count(*) AS `rows`
FROM impulse
GROUP BY SESSION(timestamp, INTERVAL '20' SECOND), user_id""",
    ),
    "sliding_window_end": Ours(f"""SELECT {BOUNDS},
       count(*) AS count, min(counter) AS min, max(counter) AS max
FROM impulse
GROUP BY HOP(timestamp, INTERVAL '2' SECOND, INTERVAL '10' SECOND)"""),
}
