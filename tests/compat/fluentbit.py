"""Fluent Bit's stream processor: queries over eleven records, with some of the values that must come."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.cases import PEERS, Case, Check, NotOurs, Ours, Row, Translation, plain

ROOT = PEERS / "fluentbit"


def cases() -> list[Case]:
    """Its queries, by number and name."""
    return [
        Case(name_of(case), {"samples": ROOT / "samples.json"}, same_values(case["expected"]))
        for case in json.loads((ROOT / "cases.json").read_text())["cases"]
    ]


def name_of(case: dict[str, Any]) -> str:
    """Its names come twice, and one is spelled wrong."""
    return f"{case['id']:02} {case['name'].replace('recond', 'record').replace('coount', 'count')}"


def same_values(expected: dict[str, Any]) -> Check:
    """A check for the number of rows and for single values."""

    def check(rows: Sequence[Row]) -> str:
        if len(rows) != expected["rows"]:
            return f"{len(rows)} rows instead of {expected['rows']}"
        for each in expected["checks"]:
            found = rows[each["row"]][each["column"]]
            if plain(found) != plain(each["value"]):
                return f"row {each['row']}: {each['column']} is {found} instead of {each['value']}"
        return ""

    return check


CLOCK = NotOurs("reads the clock: every agent and every attempt must give the same answer")
TOTALS = """min(id) AS `MIN(id)`, max(id) AS `MAX(id)`, count(*) AS `COUNT(*)`, sum(bytes) AS `SUM(bytes)`,
       round(avg(bytes), 6) AS `AVG(bytes)`"""
HAS = "array_contains(json_object_keys(_raw), '{}')"
NULL = f"({HAS.format('word3')} AND word3 IS NULL)"
"""A key that is not there is not null in Fluent Bit."""

TRANSLATIONS: Mapping[str, Translation] = {
    "00 select_all": Ours("SELECT * FROM samples"),
    "01 select_id": Ours("SELECT id, word2 FROM samples"),
    "02 select_cond_1": Ours("SELECT * FROM samples WHERE bytes > 10.290"),
    "03 select_cond_2": Ours("SELECT * FROM samples WHERE word2 = 'rlz' OR word3 = 'rlz'"),
    "04 select_cond_not_null": Ours(f"SELECT * FROM samples WHERE word2 = 'rlz' AND NOT {NULL}"),
    "05 select_cond_null": Ours(f"SELECT * FROM samples WHERE {NULL}"),
    "06 select_not_equal_1": Ours("SELECT * FROM samples WHERE bool <> TRUE"),
    "07 select_not_equal_2": Ours("SELECT * FROM samples WHERE CAST(bytes AS DOUBLE) <> 10"),
    "08 select_aggr": Ours(f"SELECT {TOTALS} FROM samples"),
    "09 select_aggr_count": Ours("SELECT count(*) AS `COUNT(*)` FROM samples"),
    "10 select_aggr_window_tumbling": Ours(f"SELECT {TOTALS} FROM samples"),
    "11 select_aggr_window_tumbling_groupby": Ours(
        f"SELECT CAST(bool AS INT) AS bool, {TOTALS}\n"
        f"FROM samples WHERE NOT {NULL} GROUP BY CAST(bool AS INT) ORDER BY 1 DESC"
    ),
    "12 func_time_now": CLOCK,
    "13 func_time_unix_timestamp": CLOCK,
    "14 select_from_tag_error": NotOurs("a stream that does not exist is refused, it is not empty"),
    "15 select_from_tag": Ours("SELECT id FROM samples WHERE CAST(bytes AS DOUBLE) > 10"),
    "16 @record.contains": Ours(
        f"SELECT id FROM samples WHERE CAST(bytes AS DOUBLE) = 10 AND {HAS.format('word2')}"
    ),
    "17 @record.contains": Ours(f"SELECT id FROM samples WHERE {HAS.format('x')}"),
}
