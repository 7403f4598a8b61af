"""One hostile line costs one line: a key that no tree takes is left out, and its neighbours are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cbt import decode_partial, finish, merge_partials
from elfmesh.control.jobs.records import CONTRIBUTED, FILTERED, PARSE_ERROR
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import Block, FilePosition
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.local.embedded import LogRun, answers
from elfmesh.ql import parse

LONG = "x" * (70 << 10)
LIMIT = "y" * 65_000
"""Long, and good."""


def line(ts: int, k: str | None, v: str | int | None) -> dict[str, Any]:
    return {"ts": ts, "k": k, "v": v}


RECORDS = [
    line(1, "a", 1),
    line(2, LONG, 1),
    line(3, "b", LONG),
    line(4, None, 2),
    line(12, LIMIT, 3),
    line(13, "a", 1),
]
QUERIES = {
    "SELECT k, count(*) AS n FROM t GROUP BY k": ({"a": 2, "b": 1, None: 1, LIMIT: 1}, 1),
    "SELECT k, count(DISTINCT v) AS n FROM t GROUP BY k": ({"a": 1, None: 1, LIMIT: 1}, 2),
    "SELECT k, count(DISTINCT v) FILTER (WHERE k = 'a') AS n FROM t GROUP BY k": (
        {"a": 1, "b": 0, None: 0, LIMIT: 0},
        1,
    ),
    "SELECT k, count(*) AS n FROM t WHERE k IS NULL OR length(k) < 70000 GROUP BY k": (
        {"a": 2, "b": 1, None: 1, LIMIT: 1},
        0,
    ),
}


@pytest.mark.parametrize("text", QUERIES)
def test_elf_run_leaves_out_the_line_and_reports_it(tmp_path: Path, text: str) -> None:
    expected, errors = QUERIES[text]
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    (result,) = answers(text, str(path), format="json")
    assert {row["k"]: row["n"] for row in result.table.to_pylist()} == expected
    assert result.record.counts["parse_error"] == errors
    assert sum(result.record.counts.values()) == len(RECORDS)
    job = LogRun(parse(text), [str(path)])
    list(job.results())
    assert job.stats.parse_errors == errors
    if errors:
        assert job.stats.samples[0].startswith("the group-by key is longer than 65535 bytes: ")
        assert len(job.stats.samples[0]) < 300


def test_an_agent_leaves_out_the_line_and_counts_every_record_once() -> None:
    text = (
        "CREATE JOB j AS SELECT k, count(*) AS n, count(DISTINCT v) AS d FROM t WHERE v <> '2'"
        " GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
    )
    worker = JobWorker(parse(text))
    data = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)
    block = Block(data, "log", FilePosition("log", 1, 1, b"g", 0, 0), len(data))
    parsed = parse_block(StreamFormat("json").parser("log"), block, worker.columns)
    worker.feed(parsed, block, 10_000_000_000)
    assert [worker.totals[bucket] for bucket in (CONTRIBUTED, FILTERED, PARSE_ERROR)] == [3, 1, 2]
    first, second = worker.seal(2)
    assert (sum(first.counts), sum(second.counts)) == (2, 4)  # the bad lines are counted where the log stands
    rows = {
        (sealed.index, row["k0"], row["a0"])
        for sealed in (first, second)
        for row in finish(decode_partial(merge_partials(sealed.payloads)))["main"].to_pylist()
    }
    assert rows == {(0, "a", 1), (1, "a", 1), (1, LIMIT, 1)}  # nothing was inserted twice


def test_a_block_of_hostile_lines_only_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text((json.dumps(line(1, LONG, 1)) + "\n") * 5 + json.dumps(line(1, "a", 1)) + "\n")
    (result,) = answers("SELECT k, count(*) AS n FROM t GROUP BY k", str(path))
    assert result.table.to_pylist() == [{"k": "a", "n": 1}]
    assert result.record.counts["parse_error"] == 5


@pytest.mark.parametrize("aggregate", ["array_agg(v)", "collect_set(v)", "approx_top_k(v)", "string_agg(v)"])
def test_a_value_too_long_to_be_kept_costs_its_own_line(aggregate: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    text = f"SELECT k, count(*) AS n, {aggregate} AS vs FROM t WHERE length(k) < 60000 GROUP BY k"
    (result,) = answers(text, str(path), format="json")
    assert {row["k"]: row["n"] for row in result.table.to_pylist()} == {"a": 2}
    assert (result.record.counts["parse_error"], result.record.counts["filtered"]) == (1, 3)
