"""One text over the same logs by three engines: `elf run`, four shares in this process, and Spark."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.job_rows import JobRows
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse_many
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from elfmesh.spark_bridge.history.finish import finish
from elfmesh.spark_bridge.history.frames import grouped, is_projection
from elfmesh.spark_bridge.history.inputs import HistoryInput, pieces_of
from elfmesh.spark_bridge.history.plan import Task, unpack_error
from elfmesh.spark_bridge.history.share import contribute
from elfmesh.spark_bridge.history.sql import histories, prepared
from tests.spark_tests import EVERYTHING

T = TypeVar("T")
HOST = socket.gethostname()

REPORTED = Path(__file__).parents[3] / "build" / "engines"
RUN, SHARES, AGENTS, SPARK = ENGINES = ("elf run", "shares", "four agents", "Spark")
PASSED, FAILING = "passed", "failing"

Intervals = list[tuple[int, list[dict[str, Any]]]]
"""Per interval its index and its rows as JSON would show them."""


def sample(items: Sequence[T], count: int) -> Sequence[T]:
    """All of them with ELF_SPARK_TESTS=all (`make test-spark`), else some, evenly spread."""
    if EVERYTHING:
        return items
    return items[:: max(1, len(items) // count)][:count]


def note(suite: str, engine: str, outcomes: Mapping[str, str], part: str = "all") -> None:
    """Keep what became of the queries of a part, for the table of docs/spark.md; only where all are run."""
    if EVERYTHING:
        REPORTED.mkdir(parents=True, exist_ok=True)
        (REPORTED / f"{suite}.{engine}.{part}.json").write_text(json.dumps(dict(outcomes)))


@dataclass(frozen=True)
class Asked:
    """A text and its history."""

    text: str
    inputs: Mapping[str, HistoryInput]
    lookups: LookupSource | None = None


def by_run(asked: Asked, host: str = HOST) -> list[Intervals]:
    """What `elf run` gives, per statement."""
    jobs, found = JobRows(), []
    for statement in parse_many(asked.text):
        functions = local_evaluator(statement) if statement.functions else None
        inputs = asked.inputs
        if len(inputs) == 1 and len(statement.streams) == 1:
            inputs = {statement.streams[0]: next(iter(inputs.values()))}
        logs = {name: ([each.config.path], each.format(host)) for name, each in inputs.items()}
        run = LogRun(statement, [], streams=logs, lookups=asked.lookups, jobs=jobs, functions=functions)
        answers = run.answers()
        if functions is not None:
            functions.close()
        jobs.begin(statement)
        for answer in answers:
            jobs.add(statement, answer)
        found.append([(answer.record.index, rows_to_json(answer.table)) for answer in answers])
    return found


def by_shares(asked: Asked, split_bytes: int = 900) -> list[Intervals]:
    """The tasks of a plan one after the other, each with a small part of every file; no Spark."""
    jobs, found = JobRows(), []
    for number in range(len(parse_many(asked.text))):
        task = Task(asked.text, number, "query", HOST, jobs=jobs, python=True)
        task = prepared(None, task, asked.inputs, asked.lookups)
        pieces = [piece for each in task.inputs.values() for piece in pieces_of(each, HOST, split_bytes)]
        shares = [
            contribute(task, group, results=at == 0, number=at)
            for at, group in enumerate(grouped(pieces, 40) or [[]])
        ]
        rows = [row for batch in itertools.chain(*shares) for row in batch.to_pylist()]
        for row in rows:
            if row["error"]:
                raise unpack_error(row["error"])
        answers = list((_projected if is_projection(task.statement) else _finished)(task, rows))
        jobs.begin(task.statement)
        for record, table in answers:
            jobs.add(task.statement, IntervalResult(record, table))
        found.append([(record.index, rows_to_json(table)) for record, table in answers])
    return found


Answers = Iterator[tuple[ResultRecord, pa.Table]]


def _projected(task: Task, rows: Sequence[dict[str, Any]]) -> Answers:
    ordered = sorted(rows, key=lambda row: row["number"])
    whole = pa.concat_tables(
        [ipc_to_table(row["payload"]) for row in ordered if row["payload"]], promote_options="permissive"
    )
    yield ResultRecord(job="run", index=0), whole.slice(0, task.statement.plan.limit)


def _finished(task: Task, rows: Sequence[dict[str, Any]]) -> Answers:
    ordered = sorted(rows, key=lambda row: (row["interval_index"], -row["number"]))
    for answer in finish(task, [pa.RecordBatch.from_pylist(ordered)]):
        (row,) = answer.to_pylist()
        if row["error"]:
            raise unpack_error(row["error"])
        record = ResultRecord(
            job="run", index=row["interval_index"], start_us=row["start_us"], end_us=row["end_us"]
        )
        yield record, ipc_to_table(row["table"])


def by_spark(spark: Any, asked: Asked, **options: Any) -> list[Intervals]:
    """What Spark gives."""
    found = []
    for history in histories(spark, asked.text, asked.inputs, lookups=asked.lookups, python=True, **options):
        answers = history.answers()
        found.append([(answer.record.index, rows_to_json(answer.table)) for answer in answers])
        history.close()
    return found
