"""eKuiper's rules: it answers record by record, with running state; ELF-QL answers an interval.

Its messages one after the other are the rows of our one interval, ordered by time. What it leaves out of a
message is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.cases import PEERS, Case, NotOurs, Ours, same_rows

ROOT = PEERS / "ekuiper"


def cases() -> list[Case]:
    """Its rules over all of its streams, named by test and rule."""
    streams = json.loads((ROOT / "input_streams.json").read_text())
    inputs = {name: [each["event"] for each in events] for name, events in streams.items()}
    return [
        Case(
            f"{case['func']}/{case['name']}",
            inputs,
            same_rows(rows_of(case["expected"]), ordered=True),
            error=all(row.keys() == {"error"} for row in rows_of(case["expected"]) or [{}]),
        )
        for case in json.loads((ROOT / "rule_test.json").read_text())["cases"]
    ]


def rows_of(messages: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of all messages; a message without any fields is written as a list."""
    return [dict(row) for message in messages for row in message]


STAMP = "unix_millis(ts) AS ts"
ERRORS = NotOurs(
    "its answers are error messages: what cannot be read is null here, or counted as a `parse_error`"
)
LATE = NotOurs(
    "drops single records that are older than the newest: here a record is late when its interval is closed"
)
TOPIC = NotOurs("asks for a message broker's topic")
NO_TABLE = NotOurs("joins a table that is not published with the case")
KEPT = NotOurs("joins a table that keeps the last three records by their arrival")
IMAGE = NotOurs("a picture that is not published with the case")
NUMBERS = "from_json(arr, 'ARRAY<BIGINT>')"
"""A list of a log is text until it is said what its elements are."""


def running(aggregate: str, column: str, condition: str) -> Ours:
    """An aggregate over the records until now that meet a condition."""
    return Ours(f"""SELECT {aggregate}(past.size) AS {column}, this.color
FROM demo this JOIN demo past ON past.ts <= this.ts AND {condition}
GROUP BY this.ts, this.color
ORDER BY this.ts""")


def unnest(columns: str, more: str = "") -> Ours:
    """A row for each element of a list of objects, whose fields come before those of the record."""
    elements = "explode(from_json(arr2, 'ARRAY<STRUCT<a: BIGINT, b: BIGINT>>')) AS e"
    return Ours(f"SELECT {columns} FROM (SELECT {elements}{more} FROM demoArr WHERE x = 1) t")


RED = "past.color = 'red'"
CHANGED = """SELECT CASE WHEN color IS DISTINCT FROM lag(color) OVER (ORDER BY ts) THEN color END AS tt_color,
       CASE WHEN size IS DISTINCT FROM lag(size) OVER (ORDER BY ts) THEN size END AS tt_size
FROM demo ORDER BY ts"""
LAGS = """SELECT {columns}b, coalesce(lag(b) OVER (ORDER BY ts), 0) AS lag, size
FROM (SELECT ts, size, coalesce(lag(size) OVER (ORDER BY ts), 0) + 1 AS b FROM demo) lags
ORDER BY ts"""
HITS = """SELECT color, unix_millis(ts) AS ts, row_number() OVER (ORDER BY ts) AS lc
FROM demo WHERE size > 3 ORDER BY lc"""
SIZES = "CASE WHEN size < 2 THEN 'S' WHEN size < 4 THEN 'M' ELSE 'L' END AS s"

TRANSLATIONS: Mapping[str, Ours | NotOurs] = {
    "TestSharedSourceSchemaless/rule1": Ours("SELECT a, b FROM sharedDemo"),
    "TestSharedSourceSchemaless/rule2": Ours("SELECT b, c FROM sharedDemo"),
    "TestWindowFuncSQL/TestRowNumber1": Ours(
        "SELECT size, row_number() OVER (PARTITION BY ts ORDER BY size) AS row_number FROM demo ORDER BY ts"
    ),
    "TestWindowFuncSQL/TestRowNumber2": Ours(
        "SELECT size, row_number() OVER (ORDER BY ts) AS row_number FROM demo ORDER BY ts"
    ),
    "TestAccAggSQL/TestAccAggSql1": running("sum", "acc_sum", "past.color = this.color"),
    "TestAccAggSQL/TestAccAggSql2": running("sum", "acc_sum", RED),
    "TestAccAggSQL/TestAccAggSql3": running("min", "acc_min", RED),
    "TestAccAggSQL/TestAccAggSql4": running("max", "acc_max", RED),
    "TestAccAggSQL/TestAccAggSql5": running("count", "acc_count", RED),
    "TestAccAggSQL/TestAccAggSql6": running("avg", "acc_avg", RED),
    "TestSRFSQL/TestSingleSQLRule24": Ours("SELECT explode(a) AS a FROM demoArr"),
    "TestSRFSQL/TestSingleSQLRule18": unnest("e.a, e.b"),
    "TestSRFSQL/TestSingleSQLRule19": unnest("e.a, e.b"),
    "TestSRFSQL/TestSingleSQLRule20": Ours(
        "SELECT explode(from_json(arr3, 'ARRAY<BIGINT>')) AS col FROM demoArr WHERE x = 1"
    ),
    "TestSRFSQL/TestSingleSQLRule21": unnest("e.a, e.b, x", ", x"),
    "TestSingleSQL/TestAnalyzeFuncAlias1": Ours(LAGS.format(columns="")),
    "TestSingleSQL/TestAnalyzeFuncAlias2": Ours(LAGS.format(columns="")),
    "TestSingleSQL/TestSingleSQLRule0": Ours(
        f"SELECT slice({NUMBERS}, x + 1, y + 1 - x) AS col1 FROM demoArr WHERE x = 1"
    ),
    "TestSingleSQL/TestSingleSQLRule1": Ours(
        f"SELECT color, size, {STAMP}, upper(color) AS upper, unix_millis(ts) AS event_time FROM demo"
    ),
    "TestSingleSQL/TestSingleSQLRule2": Ours(HITS),
    "TestSingleSQL/TestSingleSQLRule3": Ours(f"SELECT size AS Int8, {STAMP} FROM demo WHERE size > 3"),
    "TestSingleSQL/TestSingleSQLRule4": ERRORS,
    "TestSingleSQL/TestSingleSQLRule5": TOPIC,
    "TestSingleSQL/TestSingleSQLRule6": TOPIC,
    "TestSingleSQL/TestSingleSQLRule7": Ours("SELECT `from` FROM demo1"),
    "TestSingleSQL/TestSingleSQLRule8": Ours(
        f"SELECT temp, hum, `from`, {STAMP} FROM demo1 WHERE `from` = 'device1'"
    ),
    "TestSingleSQL/TestSingleSQLRule9": Ours(f"SELECT color, {SIZES}, {STAMP} FROM demo"),
    "TestSingleSQL/TestSingleSQLRule10": NO_TABLE,
    "TestSingleSQL/TestSingleSQLRule11": KEPT,
    "TestSingleSQL/TestSingleSQLRule12": NO_TABLE,
    "TestSingleSQL/TestChanged13": Ours(CHANGED),
    "TestSingleSQL/TestAliasOrderBy14": Ours(
        "SELECT color, count(*) AS c FROM demo WHERE color <> 'red' GROUP BY color ORDER BY c DESC"
    ),
    "TestSingleSQL/TestSingleSQLRule17": Ours(
        f"SELECT slice({NUMBERS}, x + 1, 4 - x) AS col1 FROM demoArr WHERE x = 1"
    ),
    "TestSingleSQL/TestSingleSQLRule16": Ours(
        f"SELECT slice({NUMBERS}, 2, y - 1) AS col1 FROM demoArr WHERE x = 1"
    ),
    "TestSingleSQL/TestSingleSQLRule15": Ours("SELECT bigint(arr[1]) AS col1 FROM demoArr WHERE x = 1"),
    "TestSingleSQL/TestLagAlias": Ours("""SELECT last_size AS lastSize, size,
       last_size div size AS changeRate, lag(changed) OVER (ORDER BY ts) AS lag
FROM (
  SELECT ts, size, lag(size) OVER (ORDER BY ts) AS last_size,
         size IS DISTINCT FROM lag(size) OVER (ORDER BY ts) AS changed
  FROM demo
) lags
WHERE size > 2
ORDER BY ts"""),
    "TestSingleSQL/TestLagPartition": Ours("""SELECT color, size, last_size AS lastSize,
       last_size div size AS changeRate
FROM (SELECT ts, color, size, lag(size) OVER (PARTITION BY color ORDER BY ts) AS last_size FROM demo) lags
ORDER BY ts"""),
    "TestSingleSQLWithEventTime/TestSingleSQLRule1": LATE,
    "TestSingleSQLWithEventTime/TestStateFunc": LATE,
    "TestSingleSQLWithEventTime/TestChanged": LATE,
    "TestSingleSQLError/TestSingleSQLErrorRule1": ERRORS,
    "TestSingleSQLError/TestSingleSQLErrorRule2": ERRORS,
    "TestSingleSQLError/TestSingleSQLErrorRule3": ERRORS,
    "TestSingleSQLOmitError/TestSingleSQLErrorRule1": Ours(
        f"SELECT color, {STAMP} FROM ldemo WHERE size >= 3"
    ),
    "TestSingleSQLOmitError/TestSingleSQLErrorRule2": Ours(
        "SELECT size * 5 AS kuiper_field_0 FROM ldemo WHERE size IS NULL OR CAST(size AS DOUBLE) IS NOT NULL"
    ),
    "TestSingleSQLForBinary/TestSingleSQLRule1": IMAGE,
    "TestWindowSQL/TestHoppingWindowSQL1": LATE,
    "TestWindowSQL/TestHoppingWindowSQL2": LATE,
    "TestWindowSQL/TestHoppingWindowSQL3": LATE,
    "TestAliasSQL/TestAliasSQL": Ours("SELECT size + 1 AS size, size + 2 AS b FROM demo"),
    "TestAliasSQL/TestAliasSQL1": Ours("SELECT size AS a, size + 1 AS b FROM demo"),
    "TestAliasSQL/TestAliasSQL2": Ours("SELECT size + 1 AS b, size AS a FROM demo"),
}
