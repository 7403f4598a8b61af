"""SEALED and EARLY on a real Spark, beside a query of Spark's own that filters partitions by their seals."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.spark_bridge.history.engines import Asked, by_run, by_spark

pytestmark = pytest.mark.spark

JOB = """CREATE JOB a.b EVERY '1 s' {} AS SELECT k, count(*) AS n, sum(v) AS v FROM log
GROUP BY SEALED(k WHEN e = 'end' PRODUCERS 2 BY p RECORDS total AFTER '60 s')"""
WINDOWS = """CREATE JOB a.b {} AS SELECT k, count(*) AS n, max(v) AS v FROM log
GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), k HAVING count(*) >= 3"""

OWN = """WITH sealed AS (
  SELECT k, count(DISTINCT p) AS p, sum(total) AS total FROM log WHERE e = 'end' GROUP BY k)
SELECT l.k, count(*) AS n, sum(l.v) AS v FROM log l JOIN sealed s ON l.k = s.k AND s.p = 2
WHERE l.e IS NULL GROUP BY l.k, s.total HAVING count(*) = s.total"""
"""A sealed partition has both seals and as many records as they state. No clock is in it."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Records of eight keys by two producers; both seal five of them, and one of these lacks a record."""
    rng = random.Random(18)
    lines: list[dict[str, Any]] = []
    for number in range(8):
        for producer in ("p", "q"):
            times = sorted(rng.uniform(0, 20) for _ in range(6))
            key = {"k": f"k{number}", "p": producer}
            lines += [{"ts": f"{at:.3f}", **key, "v": rng.randrange(100)} for at in times]
            if number < 5 or (number == 5 and producer == "p"):
                total = 7 if number == 4 else 6
                lines.append({"ts": f"{times[-1] + 0.5:.3f}", **key, "e": "end", "total": total})
    lines.sort(key=lambda each: float(each["ts"]))
    path = tmp_path / "log.ndjson"
    path.write_text("".join(json.dumps({**each, "ts": float(each["ts"])}) + "\n" for each in lines))
    return path


def complete(log: Path, text: str) -> set[tuple[str, int, int]]:
    """The rows of the complete records of a run."""
    from elfmesh.local.embedded import LogRun
    from elfmesh.ql import parse

    found = LogRun(parse(text), [str(log)]).answers()
    return {
        (row["k"], row["n"], row["v"])
        for each in found
        if each.record.completeness == 1
        for row in each.table.to_pylist()
    }


def test_complete_partitions_are_those_that_a_filter_of_spark_keeps(spark: Any, log: Path) -> None:
    spark.read.json(str(log)).createOrReplaceTempView("log")
    theirs = {(row.k, row.n, row.v) for row in spark.sql(OWN).collect()}
    assert {key for key, *_ in theirs} == {"k0", "k1", "k2", "k3"}
    assert complete(log, JOB.format("")) == theirs
    assert complete(log, JOB.format("EARLY '100 ms'")) == theirs


@pytest.mark.parametrize("job", [JOB, WINDOWS], ids=["SEALED", "windows"])
def test_spark_has_the_rows_of_final_records_with_early_and_without(spark: Any, log: Path, job: str) -> None:
    """History is closed, so there are no early rows: Spark returns each row once, with its record."""
    inputs = given_inputs({"log": (str(log), "json")})
    early, plain = (Asked(job.format(each), inputs) for each in ("EARLY '100 ms'", ""))
    found = by_spark(spark, early, split_bytes=700)
    assert found == by_spark(spark, plain, split_bytes=700) == by_run(plain)
    assert sum(len(rows) for _, rows in found[0]) > 4
