"""A query over history that grows gives the rows of the batch, each interval once, when it is closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.errors import QueryError, UsageError
from elfmesh.ql import parse
from elfmesh.spark_bridge.history.inputs import given_inputs
from elfmesh.spark_bridge.history.streaming import check_streamable
from tests.spark_bridge.history.engines import Asked, by_run

TOP = """CREATE JOB shop.top EVERY '10 s' LATENESS '5 s' AS
SELECT k, count(*) AS n, sum(x) AS s, count(DISTINCT x) AS d FROM clicks GROUP BY k ORDER BY n DESC LIMIT 2"""


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("SELECT count(*) AS n FROM s", "without a window"),
        ("SELECT count(*) AS n FROM s GROUP BY SESSION(ts, INTERVAL '5' SECOND)", "sessions continue"),
        ("SELECT count(*) AS n FROM s GROUP BY ROWS(3)", "windows of ROWS continue"),
        (
            "CREATE JOB a.b EVERY '1 s' AS SELECT s.k FROM s JOIN t ON s.k = t.k WITHIN '5 s'",
            "WITHIN continue",
        ),
        ("SELECT count(*) AS n FROM shop.top GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)", "results of jobs"),
    ],
)
def test_what_no_stream_can_answer_is_refused(text: str, reported: str) -> None:
    with pytest.raises(QueryError, match=reported):
        check_streamable(parse(text))


def write(path: Path, seconds: range, late: int | None = None) -> None:
    lines = [
        {"ts": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z", "k": "abc"[at % 3], "x": at / 10}
        for at in seconds
    ]
    lines += [{**lines[0], "ts": f"2026-01-01T00:00:{late:02}Z"}] if late is not None else []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_gives_the_rows_of_the_batch_once(spark: Any, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with pytest.raises(UsageError, match="no log from which"):
        spark_bridge.sql(spark, TOP, {"clicks": (str(logs), "json")}, stream=True)
    write(logs / "a.ndjson", range(25))
    frame = spark_bridge.sql(spark, TOP, {"clicks": (str(logs), "json")}, stream=True)
    assert frame.isStreaming
    assert [field.simpleString() for field in frame.schema][3:] == [
        "k:string",
        "n:bigint",
        "s:double",
        "d:bigint",
    ]
    rows: list[dict[str, Any]] = []

    def take() -> list[int]:
        """Let the stream read what is there; the intervals that closed."""
        got: list[Any] = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, _number: got.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows.extend(row.asDict() for row in got)
        return sorted({row["interval_start"].second for row in got})

    assert take() == [0]  # the newest is 24 s: 15 s have passed the lateness, 25 s have not
    write(logs / "b.ndjson", range(25, 48), late=3)
    assert take() == [10, 20, 30]
    (batch,) = by_run(Asked(TOP, given_inputs({"clicks": (str(logs / "a.ndjson"), "json")})))
    assert [{name: row[name] for name in ("k", "n", "s", "d")} for row in rows[:2]] == batch[0][1]
    whole = tmp_path / "whole.ndjson"
    write(whole, range(48))
    (everything,) = by_run(Asked(TOP, given_inputs({"clicks": (str(whole), "json")})))
    indices = [row["interval_index"] for row in rows]
    assert len(indices) == 8, "an interval comes once, and what is late opens none again"
    for index, wanted in everything[:4]:
        found = [row for row in rows if row["interval_index"] == index]
        assert [{name: row[name] for name in ("k", "n", "s", "d")} for row in found] == wanted
