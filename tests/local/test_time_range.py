"""`elf run --from --to`: a range of times gives the rows of a log that has only the records inside."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import elfmesh
from elfmesh.errors import DataError, UsageError
from tests.cli.remote import elf

BEGIN = datetime(2026, 11, 27, 12, tzinfo=UTC)
QUERIES = (
    "SELECT k, v FROM log",
    "SELECT * FROM log WHERE v > 40",
    "SELECT ts, v FROM log LIMIT 3",
    "SELECT count(*) AS n, sum(v) AS v FROM log",
    "SELECT k, sum(v) AS v FROM log GROUP BY TUMBLE(ts, INTERVAL '7' SECOND), k ORDER BY k",
    "SELECT k, sum(v) AS v FROM log GROUP BY TUMBLE(other, INTERVAL '7' SECOND), k ORDER BY k",
)


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def lines_of(seconds: list[float]) -> list[str]:
    return [
        json.dumps(
            {
                "ts": at(each).isoformat(),
                "other": at(99 - each).isoformat(),
                "k": "ab"[int(each) % 2],
                "v": each,
            }
        )
        for each in seconds
    ]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("begin", "end"), [(20, 61), (20.5, None), (None, 33), (200, 300), (41, 41.000001)])
def test_the_rows_are_those_of_the_records_inside(
    tmp_path: Path, query: str, begin: float | None, end: float | None
) -> None:
    seconds = [float(each) for each in range(100)]
    random.Random(7).shuffle(seconds)
    whole, part = tmp_path / "whole.log.gz", tmp_path / "part.log"
    lines = lines_of(seconds)
    whole.write_bytes(gzip.compress("".join(line + "\nno json\n" for line in lines).encode()))
    column = "other" if "other" in query else "ts"
    low, high = at(-1e6 if begin is None else begin), at(1e6 if end is None else end)
    inside = [line for line in lines if low <= datetime.fromisoformat(json.loads(line)[column]) < high]
    part.write_text("".join(line + "\nno json\n" for line in inside) or "no json\n")
    times: dict[str, Any] = {"start": None if begin is None else low, "end": None if end is None else high}
    for threads in (1, 3):
        found = elfmesh.run(query, whole, "json", threads=threads, **times)
        expected = elfmesh.run(query, part, "json")
        assert [each.to_pylist() for each in found] == [each.to_pylist() for each in expected]


def test_a_table_has_a_range_too() -> None:
    rows = pa.table({"ts": [at(1), at(2), at(3)], "v": [1, 2, 3]})
    found = elfmesh.run("SELECT v FROM t", rows, start=at(2), end=at(3)).to_arrow()
    assert found.to_pylist() == [{"v": 2}]


def test_records_without_a_time_are_outside_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text('{"v": 1}\n' + lines_of([2])[0] + "\n" + lines_of([50])[0] + "\n")
    ran = elf("run", "SELECT v FROM log", str(log), "--to", at(9).isoformat(), "-o", "csv")
    assert (ran.exit_code, ran.stdout.split()) == (0, ["v", "2"])
    assert "1 record, 0 parse errors" in ran.stderr
    assert "1 outside of the range of times, 1 record without a time that can be read" in ran.stderr


def test_a_range_without_a_record_is_stated(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(lines_of([2])[0] + "\n")
    ran = elf("run", "SELECT count(*) AS n FROM log", str(log), "--from", at(9).isoformat(), "-o", "csv")
    assert (ran.exit_code, ran.stdout.split()) == (0, ["n", "0"])
    assert "no record is in the range of times" in ran.stderr


def test_a_log_without_times_is_refused() -> None:
    rows = pa.table({"v": [1, 2]})
    with pytest.raises(DataError, match="no record has one in ts"):
        elfmesh.run("SELECT v FROM t", rows, start="1 h")


@pytest.mark.parametrize(
    ("times", "reported"),
    [
        ({"start": at(2), "end": at(2)}, "ends before it begins"),
        ({"start": datetime(2026, 1, 1)}, "without a time zone"),
        ({"end": "soon"}, "'soon' is not a time"),
    ],
)
def test_a_wrong_range_is_refused(times: dict[str, Any], reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        elfmesh.run("SELECT v FROM t", pa.table({"v": [1]}), **times)
