"""A query that unfolds its records into the whole memory is evaluated in pieces, and loses no record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.cbt import decode_partial, finish, merge_partials
from elfmesh.control.jobs.records import CONTRIBUTED, PARSE_ERROR
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import Block, FilePosition
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.local.embedded import LogRun, answers
from elfmesh.ql import parse
from elfmesh.ql.values import growth

COUNT = 96
RECORDS = [{"ts": at, "k": at % 3, "x": "ab" * 8_000} for at in range(COUNT)]
EIGHTFOLD = "concat(x, x, x, x, x, x, x, x)"
UNFOLDED = f"concat({', '.join([EIGHTFOLD] * 8)})"
"""Of all records together 96 MB."""


def log_of(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_the_answer_is_the_same_as_if_there_was_memory_for_all(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log", RECORDS)
    (result,) = answers(f"SELECT k, count(*) AS n, sum(length({UNFOLDED})) AS l FROM t GROUP BY k", path)
    assert result.table.to_pylist() == [{"k": k, "n": 32, "l": 32 * 64 * 16_000} for k in range(3)]
    assert result.record.counts["parse_error"] == 0


def test_rows_that_are_not_grouped_keep_their_order(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log", RECORDS)
    (result,) = answers(f"SELECT ts, length({UNFOLDED}) AS l FROM t", path)
    assert [row["l"] for row in result.table.to_pylist()] == [64 * 16_000] * COUNT


def test_a_record_that_is_too_much_alone_costs_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "VALUE_BYTES_MAX", 4 << 20)
    path = log_of(tmp_path / "log", [*RECORDS, {"ts": COUNT, "k": 0, "x": "ab" * 100_000}])
    job = LogRun(parse(f"SELECT count(*) AS n, max(length({UNFOLDED})) AS l FROM t"), [path])
    (result,) = list(job.results())
    assert result.table.to_pylist() == [{"n": COUNT, "l": 64 * 16_000}]
    assert job.stats.parse_errors == 1
    assert "an expression produces" in job.stats.samples[0]


def test_an_agent_counts_each_record_once_when_records_come_late_as_well() -> None:
    worker = JobWorker(
        parse(
            "CREATE JOB j HORIZON '1 h' AS SELECT count(*) AS n, "
            f"sum(length({UNFOLDED})) AS l FROM t GROUP BY TUMBLE(ts, INTERVAL '50' SECOND)"
        )
    )
    data = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)
    for offset in (0, len(data)):
        block = Block(data, "log", FilePosition("log", 1, 1, b"g", offset, 0), offset + len(data))
        parsed = parse_block(StreamFormat("json").parser("log"), block, worker.columns)
        worker.feed(parsed, block, 10_000_000_000)
    assert (worker.totals[CONTRIBUTED], worker.totals[PARSE_ERROR]) == (2 * COUNT, 0)
    rows = [
        finish(decode_partial(merge_partials(sealed.payloads)))["main"].to_pylist()[0]
        for sealed in worker.seal(2)
    ]
    assert [row["a0"] for row in rows] == [100, 92]
